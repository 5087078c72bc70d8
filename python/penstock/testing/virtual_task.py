"""Task of operators under test: virtual time, a mailbox and no network."""

from __future__ import annotations

import tempfile
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.common.configuration import Configuration
from penstock.common.execution_config import ExecutionConfig
from penstock.common.options import cluster
from penstock.common.options.pipeline import RUNTIME_MODE
from penstock.taskexecutor.task.mailbox import Mailbox
from penstock.taskexecutor.task.operator_context import TaskOperatorContext
from penstock.taskexecutor.time.processing_time import ProcessingTimeService
from penstock.taskexecutor.worker.memory_manager import MemoryManager

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.graph.job_graph import OperatorConfig
    from penstock.taskexecutor.task.task_environment import TaskEnvironment


class VirtualTask:
    """The environment of operators under test; time changes only on request.

    Attributes:
        environment: The subtask, as operators see it.
    """

    def __init__(
        self,
        name: str,
        configuration: Mapping[str, str] | None = None,
        *,
        subtask: int = 0,
        parallelism: int = 1,
        max_parallelism: int = 128,
        coordinator: Callable[[Any], None] = lambda message: None,  # noqa: ARG005
    ) -> None:
        """Create a subtask.

        Args:
            name: Its name.
            configuration: The job's configuration.
            subtask: Number of the subtask, from 0.
            parallelism: Number of subtasks.
            max_parallelism: Number of key groups.
            coordinator: Called with each message that a source sends to its coordinator.
        """
        self._now_ms = 0
        self._temp_directory: tempfile.TemporaryDirectory[str] | None = None
        self._processing_time = ProcessingTimeService(lambda: self._now_ms)
        self._mailbox = Mailbox(lambda: None)
        self._settings = dict(configuration or {})
        self.environment = cast(
            "TaskEnvironment",
            SimpleNamespace(
                job_id=bytes(16),
                attempt_id=bytes(40),
                executor_id="harness",
                temp_directory=self._make_temp_directory,
                memory=MemoryManager(cluster.MANAGED_MEMORY.read(self._settings)),
                files=FileSystems(self._settings),
                task_name=name,
                subtask=subtask,
                parallelism=parallelism,
                max_parallelism=max_parallelism,
                attempt_number=0,
                configuration=self._settings,
                metrics={},
                operator_metrics={},
                partitions=[],
                gates=[],
                send_to_coordinator=coordinator,
            ),
        )

    def create_context(self, config: OperatorConfig, position: int = 0) -> TaskOperatorContext:
        """Return the context of an operator at a position in the chain."""
        return TaskOperatorContext(
            config,
            self.environment,
            ExecutionConfig(Configuration.from_dict(self._settings)),
            self._mailbox,
            self._processing_time,
            is_batch=RUNTIME_MODE.read(self._settings) == "BATCH",
            position=position,
            run_until=self._run_until,
            input_clock=lambda: self._now_ms / 1000,
        )

    def set_processing_time(self, time_ms: int) -> None:
        """Move the clock and fire the timers that are due."""
        self._now_ms = time_ms
        self._processing_time.fire_due()

    def run_mails(self) -> None:
        """Run the mails that other threads have posted."""
        self._mailbox.run_pending()

    def close(self) -> None:
        """Remove temporary files."""
        if self._temp_directory is not None:
            self._temp_directory.cleanup()
            self._temp_directory = None

    def _make_temp_directory(self) -> str:
        if self._temp_directory is None:
            self._temp_directory = tempfile.TemporaryDirectory(prefix="penstock-harness-")
        return self._temp_directory.name

    def _run_until(self, condition: Callable[[], bool], position: int) -> None:
        while not condition():
            self._mailbox.wait(None, position)
            self._mailbox.run_pending(position)
