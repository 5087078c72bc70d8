"""Control messages: encoding and decoding, including the largest one, a task's deployment."""

import pytest
from penstock.rpc import messages
from penstock.rpc.message import encode_message
from penstock.rpc.task_deployment import (
    GateDescriptor,
    PartitionDescriptor,
    ProducerDescriptor,
    TaskDeploymentDescriptor,
)

PRODUCER = ProducerDescriptor(b"p" * 60, "taskexecutor-1", "127.0.0.1", 40000)
DEPLOYMENT = messages.SubmitTask(
    TaskDeploymentDescriptor(
        job_id=b"j" * 16,
        attempt_id=b"a" * 40,
        vertex_id=b"v" * 16,
        task_name="Source: text -> FlatMap",
        subtask=0,
        parallelism=100,
        max_parallelism=256,
        attempt_number=0,
        allocation_id=b"s" * 16,
        code_id="code",
        configuration={},
        partitions=(PartitionDescriptor(b"p" * 60, 100, "PIPELINED_BOUNDED", 100),),
        gates=(GateDescriptor(0, (PRODUCER,) * 100, 0),),
    )
)
CASES = {
    "update_task_state": messages.UpdateTaskState(b"j" * 16, b"a" * 40, "RUNNING"),
    "submit_task_100_channels": DEPLOYMENT,
}


@pytest.mark.parametrize("case", CASES)
def test_encode(benchmark, case):
    benchmark(encode_message, CASES[case])
