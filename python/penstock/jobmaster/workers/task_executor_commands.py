"""TaskExecutorCommands: the messages of a JobMaster to its TaskExecutors."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from penstock.rpc import messages

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.jobmaster.scheduling import actions
    from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph
    from penstock.jobmaster.workers.resource_manager import TaskExecutorGateway
    from penstock.rpc.message import Message


class TaskExecutorCommands:
    """Executes the actions of a job's scheduler that are messages to TaskExecutors.

    A message to a lost TaskExecutor is dropped: the JobMaster will be notified of the loss.
    """

    def __init__(
        self,
        job_id: bytes,
        executors: Mapping[str, TaskExecutorGateway],
        graph: ExecutionGraph,
    ) -> None:
        """Create the commands of a job.

        Args:
            job_id: The job.
            executors: The registered TaskExecutors, by id.
            graph: The attempts, with their initial states.
        """
        self._job_id = job_id
        self._executors = executors
        self._graph = graph

    def accept_slot(self, action: actions.AcceptSlot) -> None:
        """Accept an offer: the slot belongs to the job."""
        self.send(action.executor_id, messages.AcceptSlots(self._job_id, (action.allocation_id,)))

    def reject_slot(self, action: actions.RejectSlot) -> None:
        """Reject an offer: the job does not need the slot."""
        self.free_slot(action.executor_id, action.allocation_id, "the job does not need it")

    def release_slot(self, action: actions.ReleaseSlot) -> None:
        """Release an accepted slot."""
        self.free_slot(action.executor_id, action.allocation_id, action.reason)

    def free_slot(self, executor_id: str, allocation_id: bytes, reason: str) -> None:
        """Tell a TaskExecutor to free a slot."""
        executor = self._executors.get(executor_id)
        if executor is not None:
            executor.free(allocation_id, reason)

    def deploy(self, action: actions.Deploy) -> None:
        """Send an attempt, with the code of its vertex if the TaskExecutor has none yet."""
        executor = self._executors.get(action.executor_id)
        if executor is None:
            return  # the report of its loss is pending and fails the attempt
        task = action.deployment
        if task.code_id not in executor.code_sent:
            for chunk in messages.code_chunks(task.code_id, action.code):
                executor.connection.send(chunk)
            executor.code_sent.add(task.code_id)
        subtask = self._graph.find_attempt(action.attempt_id)
        assert subtask is not None, "no later attempt begins before this one is sent"
        executor.connection.send(
            messages.SubmitTask(
                msgspec.structs.replace(task, restored=subtask.current.take_state())
            )
        )

    def cancel_task(self, action: actions.CancelTask) -> None:
        """Request the cancellation of an attempt."""
        self.send(action.executor_id, messages.CancelTask(action.attempt_id.to_bytes()))

    def release_partitions(self, action: actions.ReleasePartitions) -> None:
        """Request the deletion of blocking partitions of ended attempts."""
        self.send(
            action.executor_id, messages.ReleasePartitions(self._job_id, action.partition_ids)
        )

    def send(self, executor_id: str, message: Message) -> None:
        """Send a message to a TaskExecutor; drop it if that is gone, as its loss is reported."""
        executor = self._executors.get(executor_id)
        if executor is not None:
            executor.connection.send(message)

    def release_code(self) -> None:
        """Tell all TaskExecutors to drop the code of the job."""
        prefix = f"{self._job_id.hex()}/"
        for executor in self._executors.values():
            sent = tuple(code for code in executor.code_sent if code.startswith(prefix))
            if sent:
                executor.code_sent.difference_update(sent)
                executor.connection.send(messages.ReleaseCode(sent))
