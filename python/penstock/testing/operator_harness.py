"""Runs one operator with virtual time, like Flink's stream operator test harnesses."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from penstock.datastream.operators import StreamOperator
from penstock.datastream.shipping import shipped
from penstock.graph import operators
from penstock.graph.job_graph import OperatorConfig
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.operators.registry import create_operator
from penstock.taskexecutor.state.snapshots.snapshot import serialised
from penstock.taskexecutor.state.state_handler import StreamOperatorStateHandler
from penstock.testing.test_output import TestOutput
from penstock.testing.virtual_task import VirtualTask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.common.typeinfo import TypeInformation
    from penstock.graph.operators import OperatorDescriptor
    from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot, RunningSnapshot
    from penstock.testing.test_output import CollectedRecord


class _OperatorTestHarness:
    """Common part of all harnesses.

    Time stands still until `set_processing_time` or `process_watermark` moves it.  Use it in a
    ``with`` statement, or call `open` and `close`.
    """

    def __init__(
        self,
        descriptor: OperatorDescriptor | StreamOperator,
        *,
        key_selectors: tuple[Any, ...] = (),
        configuration: Mapping[str, str] | None = None,
        key_type: TypeInformation | None = None,
        subtask: int = 0,
        parallelism: int = 1,
        max_parallelism: int = 128,
        coordinator: Callable[[Any], None] = lambda message: None,  # noqa: ARG005
    ) -> None:
        """Build the operator.

        Args:
            descriptor: The operator: your own, or the description of a built-in one.
            key_selectors: Per input, record → key; empty if nothing is keyed.
            configuration: The job's configuration.
            key_type: Declared type of the key.
            subtask: Number of the subtask, from 0.
            parallelism: Number of subtasks.
            max_parallelism: Number of key groups.
            coordinator: Called with each message that a source sends to its coordinator.
        """
        name = type(descriptor).__name__
        if isinstance(descriptor, StreamOperator):
            descriptor = operators.Transform(shipped(descriptor, name))
        self._task = VirtualTask(
            name,
            configuration,
            subtask=subtask,
            parallelism=parallelism,
            max_parallelism=max_parallelism,
            coordinator=coordinator,
        )
        self._context = self._task.create_context(
            OperatorConfig(
                id=bytes(16),
                uid=None,
                name=name,
                descriptor=descriptor,
                key_selectors=key_selectors,
                key_type=key_type,
            )
        )
        self.output = TestOutput(self._context.isolation.copier("emits"))
        self.operator = create_operator(self._context)
        self.operator.setup(self._context, self.output)
        self._state = StreamOperatorStateHandler(self.operator, self._context)
        self._initialized = False

    def __enter__(self) -> Any:
        self.open()
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()

    def initialize_state(self, snapshot: OperatorSnapshot | None = None) -> None:
        """Initialize with the state of a snapshot, or without; otherwise `open` does it.

        Args:
            snapshot: A `snapshot` of another harness; for several subtasks, or another parallelism,
                one of the results of `penstock.testing.redistribute`.
        """
        self._state.initialize_state(snapshot)
        self._initialized = True

    def open(self) -> None:
        """Open the operator."""
        if not self._initialized:
            self.initialize_state()
        self.operator.open()

    def close(self) -> None:
        """Close the operator."""
        self.operator.close()
        self._task.close()

    @property
    def records(self) -> list[CollectedRecord]:
        """Return the main records emitted so far, with their timestamps."""
        return list(self.output.records)

    @property
    def values(self) -> list[Any]:
        """Return the main records emitted so far."""
        return [record.value for record in self.output.records]

    @property
    def num_keyed_state_entries(self) -> int:
        """Return the number of entries of all keyed states, for tests of clean-up."""
        self._context.keyed_state.write_back()
        return self._context.keyed_state.num_entries

    @property
    def num_event_time_timers(self) -> int:
        """Return the number of registered event-time timers."""
        return sum(service.num_event_timers for service in self._context.timer_services)

    @property
    def num_processing_time_timers(self) -> int:
        """Return the number of registered processing-time timers."""
        return sum(service.num_processing_timers for service in self._context.timer_services)

    def snapshot(self, checkpoint_id: int, timestamp: int = 0) -> OperatorSnapshot:
        """Take a checkpoint: let the operator emit its output before the barrier, then its state.

        Args:
            checkpoint_id: Number of the checkpoint.
            timestamp: When it was triggered, in ms.
        """
        return serialised(self.begin_snapshot(checkpoint_id, timestamp))

    def begin_snapshot(self, checkpoint_id: int, timestamp: int = 0) -> RunningSnapshot:
        """Take a checkpoint as a task does; it is serialised while records are processed.

        Args:
            checkpoint_id: Number of the checkpoint.
            timestamp: When it was triggered, in ms.
        """
        # A source with its own thread shares the operator with this thread under a lock.
        with getattr(self.operator, "lock", None) or nullcontext():
            self._state.prepare_snapshot_pre_barrier(checkpoint_id)
            snapshot = self._state.snapshot_state(checkpoint_id, timestamp)
            return self._context.snapshot(checkpoint_id, {}, ()) if snapshot is None else snapshot

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Notify the operator that a checkpoint is complete."""
        self._state.notify_checkpoint_complete(checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """Notify the operator that a checkpoint is aborted."""
        self._state.notify_checkpoint_aborted(checkpoint_id)

    def set_processing_time(self, time_ms: int) -> None:
        """Move the clock and fire the timers that are due."""
        self._task.set_processing_time(time_ms)

    def run_mails(self) -> None:
        """Run the mails that other threads have posted."""
        self._task.run_mails()

    def _process(self, input_number: int, value: Any, timestamp: int | None) -> None:
        self.operator.get_input(input_number).process(
            value, MIN_TIMESTAMP if timestamp is None else timestamp
        )


class OneInputStreamOperatorTestHarness(_OperatorTestHarness):
    """Runs an operator with one input."""

    def process_element(self, value: Any, timestamp: int | None = None) -> None:
        """Pass a record to the operator; ``timestamp`` in ms, None for none."""
        self._process(0, value, timestamp)

    def process_watermark(self, timestamp: int) -> None:
        """Advance event time."""
        self.operator.get_input(0).process_watermark(timestamp)

    def process_watermark_status(self, *, idle: bool) -> None:
        """Mark the input as idle or active."""
        self.operator.get_input(0).process_status(idle)

    def end_input(self) -> None:
        """End the input and let the operator emit the rest."""
        self.operator.end_input(0)
        self.operator.finish()


class KeyedOneInputStreamOperatorTestHarness(OneInputStreamOperatorTestHarness):
    """Runs an operator with one keyed input."""

    def __init__(
        self,
        descriptor: OperatorDescriptor | StreamOperator,
        key_selector: Callable[[Any], Any],
        **options: Any,
    ) -> None:
        """Build the operator; ``options`` are those of the other harnesses."""
        super().__init__(descriptor, key_selectors=(key_selector,), **options)


class MultipleInputStreamOperatorTestHarness(_OperatorTestHarness):
    """Runs an operator with any number of inputs, counted from 0."""

    def process_element(self, input_number: int, value: Any, timestamp: int | None = None) -> None:
        """Pass a record to an input; ``timestamp`` in ms, None for none."""
        self._process(input_number, value, timestamp)

    def process_watermark(self, input_number: int, timestamp: int) -> None:
        """Advance the event time of an input."""
        self.operator.get_input(input_number).process_watermark(timestamp)

    def process_watermark_status(self, input_number: int, *, idle: bool) -> None:
        """Mark an input as idle or active."""
        self.operator.get_input(input_number).process_status(idle)


class TwoInputStreamOperatorTestHarness(_OperatorTestHarness):
    """Runs an operator with two inputs."""

    def process_element1(self, value: Any, timestamp: int | None = None) -> None:
        """Pass a record to the first input."""
        self._process(0, value, timestamp)

    def process_element2(self, value: Any, timestamp: int | None = None) -> None:
        """Pass a record to the second input."""
        self._process(1, value, timestamp)

    def process_watermark1(self, timestamp: int) -> None:
        """Advance the event time of the first input."""
        self.operator.get_input(0).process_watermark(timestamp)

    def process_watermark2(self, timestamp: int) -> None:
        """Advance the event time of the second input."""
        self.operator.get_input(1).process_watermark(timestamp)

    def process_both_watermarks(self, timestamp: int) -> None:
        """Advance the event time of both inputs."""
        self.process_watermark1(timestamp)
        self.process_watermark2(timestamp)

    def process_watermark_status1(self, *, idle: bool) -> None:
        """Mark the first input as idle or active."""
        self.operator.get_input(0).process_status(idle)

    def process_watermark_status2(self, *, idle: bool) -> None:
        """Mark the second input as idle or active."""
        self.operator.get_input(1).process_status(idle)

    def end_inputs(self) -> None:
        """End both inputs and let the operator emit the rest."""
        self.operator.end_input(0)
        self.operator.end_input(1)
        self.operator.finish()


class KeyedTwoInputStreamOperatorTestHarness(TwoInputStreamOperatorTestHarness):
    """Runs an operator with two keyed inputs."""

    def __init__(
        self,
        descriptor: OperatorDescriptor | StreamOperator,
        key_selector1: Callable[[Any], Any] | None,
        key_selector2: Callable[[Any], Any] | None,
        **options: Any,
    ) -> None:
        """Build the operator; ``options`` are those of the other harnesses."""
        super().__init__(descriptor, key_selectors=(key_selector1, key_selector2), **options)
