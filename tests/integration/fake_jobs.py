"""Job graphs whose vertices run small invokables instead of operators.

They test only the control plane, which does not depend on the code of vertices.
"""

import sys
import time
from collections.abc import Callable
from typing import Any

import cloudpickle
from penstock.graph.job_graph import IntermediateDataSet, JobEdge, JobGraph, JobVertex
from penstock.graph.wiring import DistributionPattern
from penstock.serialization.code_pickle import dumps
from support.patience import PATIENCE_S

Body = Callable[["FakeInvokable"], None]


class FakeInvokable:
    """Calls one function; `cancelled` becomes true when the task is cancelled."""

    def __init__(self, body: Body, environment: Any) -> None:
        import threading

        self.environment = environment
        self._body = body
        self._cancelled = threading.Event()

    def restore(self) -> None:
        """Do nothing: there is no state."""

    def invoke(self) -> None:
        """Run the body."""
        self._body(self)

    def cancel(self) -> None:
        """Wake `wait_cancelled`."""
        self._cancelled.set()

    def wait_cancelled(self) -> None:
        """Block until the task is cancelled, then raise."""
        from penstock.errors import CancelTaskError

        if not self._cancelled.wait(PATIENCE_S):
            raise TimeoutError("nobody cancelled this task")
        raise CancelTaskError("woken")


def vertex(body: Body, name: str = "fake", parallelism: int = 1) -> JobVertex:
    """Return a vertex without inputs that runs `body`."""
    module = sys.modules[body.__module__]
    for own in (module, sys.modules[__name__]):
        cloudpickle.register_pickle_by_value(own)
    try:
        code = dumps(lambda environment: FakeInvokable(body, environment))
    finally:
        for own in (module, sys.modules[__name__]):
            cloudpickle.unregister_pickle_by_value(own)
    number = abs(hash((name, time.monotonic_ns())))
    return JobVertex(
        id=number.to_bytes(16, "big"),
        name=name,
        parallelism=parallelism,
        max_parallelism=128,
        code=code,
    )


def connect(
    producer: JobVertex,
    consumer: JobVertex,
    pattern: DistributionPattern = DistributionPattern.ALL_TO_ALL,
) -> None:
    """Connect two vertices."""
    dataset_id = bytes([len(producer.produced)]) + producer.id[1:]
    producer.produced.append(IntermediateDataSet(dataset_id, producer.id))
    consumer.inputs.append(JobEdge(dataset_id, consumer.id, pattern, "REBALANCE"))


def job(*vertices: JobVertex, **configuration: str) -> JobGraph:
    """Return a job of these vertices."""
    return JobGraph(
        "fake job",
        {one.id: one for one in vertices},
        configuration={k.replace("_", "."): v for k, v in configuration.items()},
    )
