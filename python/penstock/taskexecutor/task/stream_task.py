"""The invokable of every task: a chain of operators, driven by one thread.

The thread repeats: run mails, fire due processing-time timers, process one buffer of input or one
step of the source.  It reads no new input while an output has no buffer.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from contextlib import nullcontext, suppress
from functools import partial
from typing import TYPE_CHECKING

from penstock.common.configuration import Configuration
from penstock.common.exception_deadline import described_in_time
from penstock.common.exception_text import annotate, attach
from penstock.common.execution_config import ExecutionConfig
from penstock.common.options import checkpointing
from penstock.common.options.network import DEBLOAT_PERIOD
from penstock.common.options.pipeline import RUNTIME_MODE
from penstock.errors import CancelTaskError, QueueFullError
from penstock.network.events import EndOfData, StopMode
from penstock.serialization.former_layouts import former_fields_taken
from penstock.taskexecutor.checkpointing.channel_state import InFlightRecovery
from penstock.taskexecutor.checkpointing.snapshot_format import OperatorSnapshotReader
from penstock.taskexecutor.checkpointing.task_checkpoints import TaskCheckpoints
from penstock.taskexecutor.compiled import (
    END_OF_DATA,
    MAX_TIMESTAMP,
    NOTHING_AVAILABLE,
    SourceOperator,
)
from penstock.taskexecutor.iterations.head import IterationHead
from penstock.taskexecutor.logs.speaker import current_speaker
from penstock.taskexecutor.sources.adaptive_emission import next_step
from penstock.taskexecutor.sources.source_times import SourceTimes
from penstock.taskexecutor.task import task_failure
from penstock.taskexecutor.task.accumulator_registry import AccumulatorRegistry
from penstock.taskexecutor.task.event_time_watch import EventTimeWatch, event_time_gauges
from penstock.taskexecutor.task.latency import LatencyTracking
from penstock.taskexecutor.task.mailbox import (
    CHECKPOINTS,
    COORDINATORS,
    EVERYWHERE,
    LOOKS,
    PINGS,
    SLICES,
    WAKE_UPS,
    Mailbox,
    MailboxClosedError,
)
from penstock.taskexecutor.task.operator_chain import OperatorChain
from penstock.taskexecutor.task.operator_context import TaskOperatorContext
from penstock.taskexecutor.task.rescaled_input import RescaledInput
from penstock.taskexecutor.task.task_input import TaskInput
from penstock.taskexecutor.task.task_metrics import (
    Initialization,
    publish_checkpoint_metrics,
    publish_mailbox_metrics,
    publish_task_metrics,
)
from penstock.taskexecutor.task.task_times import TaskTimes
from penstock.taskexecutor.time.processing_time import ProcessingTimeService

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.graph.job_graph import ChainConfig, OperatorConfig
    from penstock.rpc.checkpoint_messages import Stage
    from penstock.rpc.messages import ForCheckpoints, FromCoordinator
    from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot
    from penstock.taskexecutor.task.record_sample import RecordSample
    from penstock.taskexecutor.task.state_lookup import StateLookup
    from penstock.taskexecutor.task.state_reading import StateReading
    from penstock.taskexecutor.task.task_environment import TaskEnvironment

#: Longest wait for input; mails and timers end a wait earlier.
_IDLE_WAIT_MS = 1000

#: Longest wait for a free output buffer before mails and timers run again.
_OUTPUT_WAIT_MS = 10

#: The same if barriers overtake data: they do not wait for a buffer either.
_UNALIGNED_OUTPUT_WAIT_MS = 2

#: Least share of the debloating target, for a task that its output blocks most of the time.
_LEAST_SHARE_OF_TARGET = 0.02

#: Interval between two reports of accumulators while the task runs.
_ACCUMULATOR_INTERVAL_MS = 1000


class StreamTask:
    """Runs one chain of operators from restore to the end of its input.

    Attributes:
        mailbox: Runs actions from other threads in the task's thread.
    """

    def __init__(self, chain: ChainConfig, environment: TaskEnvironment) -> None:
        """Create a task; nothing runs before ``restore``.

        Args:
            chain: The operators.
            environment: The subtask.
        """
        self._chain_config = chain
        self._environment = environment
        self._execution_config = ExecutionConfig(
            Configuration.from_dict(dict(environment.configuration))
        )
        self._is_batch = RUNTIME_MODE.read(environment.configuration) == "BATCH"
        self._output_wait_ms = (
            _UNALIGNED_OUTPUT_WAIT_MS
            if checkpointing.is_unaligned(environment.configuration)
            else _OUTPUT_WAIT_MS
        )
        self._cancelled = threading.Event()
        self._waking = threading.Lock()
        self._is_resting = False
        self._before_rest: deque[Callable[[], None]] = deque()
        self._input: TaskInput | None = None
        self._chain: OperatorChain | None = None
        self._checkpoints: TaskCheckpoints | None = None
        restored = environment.restored
        self._is_finished = restored is not None and restored.state.is_finished
        self.processing_time = ProcessingTimeService()
        self.mailbox = Mailbox(self._wakeup)
        self._accumulators = AccumulatorRegistry(self._report_accumulators_later)
        self._times = TaskTimes(environment.metrics, environment.partitions)
        self._initialization = Initialization(environment.metrics)

    def restore(self) -> None:
        """Create and open the operators, tail to head, and request the input partitions.

        Raises:
            Exception: Raised by a user function.
        """
        try:
            chain = OperatorChain(self._chain_config, self._environment, self._create_context)
            self._chain = chain
            speaker = current_speaker()
            if speaker is not None:
                speaker.has_operators(context.config for context in chain.contexts)
            if self._environment.gates:
                gate_input = TaskInput(
                    self._chain_config, self._environment, chain, is_finished=self._is_finished
                )
                with self._waking:
                    self._input = gate_input
                self._times.input_idle_ns = lambda: gate_input.idle_ns
            self._track_latency(chain)
            publish_task_metrics(self._environment, chain, self._input)
            publish_mailbox_metrics(self._environment.metrics, self.mailbox)
            watch = self._watch_event_time(chain)
            self._environment.metrics.update(event_time_gauges(self._chain_config, watch))
            self._checkpoints = TaskCheckpoints(
                self._chain_config,
                chain,
                self._environment,
                self._input,
                self._register_timer,
                lambda action: self.mailbox.execute(action, SLICES),
            )
            restored = self._environment.restored
            in_flight = (
                None
                if restored is None
                else InFlightRecovery(
                    restored.state, self._environment.files, self._environment.local_copies
                )
            )
            if in_flight is not None:
                # Before the operators are opened: some emit records when opened.
                in_flight.recover_outputs(self._environment.partitions)
            if not self._is_finished:
                with former_fields_taken():
                    chain.open(self._restored_snapshots(chain))
            if self._input is not None:
                self._input.checkpoints = self._checkpoints
                if in_flight is not None:
                    self._process_rescaled(chain, in_flight)
                    in_flight.recover_inputs([gate for _, gate in self._environment.gates])
                self._input.request_partitions()
                self._debloat_later(self._input)
            publish_checkpoint_metrics(self._environment.metrics, self._checkpoints)
            self._initialization.end()
        except BaseException as error:
            self._name_operator(error)
            self._close_after(error)
            raise

    def invoke(self) -> None:
        """Process the input to its end, finish the operators and close them.

        Raises:
            Exception: Raised by a user function.
            CancelTaskError: The task was cancelled.
        """
        chain = self._opened_chain()
        try:
            if self._is_finished:
                chain.emit_last_watermark()
            elif self._input is not None:
                self._process_input(self._input)
            else:
                self._run_source(chain)
            self._check_cancelled()
            self._finish(chain)
            self._await_end(self._input)
        except BaseException as error:
            self._name_operator(error)
            self._close_after(error)
            raise
        # First: pending writes read files that the operators are about to remove.
        self._close_checkpoints()
        failure = chain.close()
        self._report_accumulators()
        self.mailbox.close()
        if failure is not None:
            self._name_operator(failure)
            raise failure

    def cancel(self) -> None:
        """End the task soon; any thread, idempotent."""
        self._cancelled.set()
        chain = self._chain
        if chain is not None and isinstance(chain.head, SourceOperator):
            chain.head.cancel()
        # A closed mailbox has no waiting thread; a full one has been notified.
        with suppress(MailboxClosedError, QueueFullError):
            self.mailbox.execute(lambda: None, WAKE_UPS, EVERYWHERE)
        self._wakeup()

    def handle_operator_event(self, message: FromCoordinator) -> None:
        """Pass a coordinator's message to its operator, in the task's thread."""
        # Closed means that the task is ending and reads no further.
        with suppress(MailboxClosedError):
            self.mailbox.execute(
                lambda: self._opened_chain().handle_operator_event(message), COORDINATORS
            )

    def handle_checkpoint_message(
        self, message: ForCheckpoints, handled: Callable[[], None] = lambda: None
    ) -> bool:
        """Pass a checkpoint message to the task's thread.

        Args:
            message: The checkpoint message.
            handled: Called by that thread once it has handled the message.  An idle source's thread
                calls it just before it waits again: a caller notified earlier would contend for the
                interpreter's lock.

        Returns:
            Whether the thread was woken.
        """
        checkpoints = self._checkpoints
        if checkpoints is not None and checkpoints.notes(message):
            return False

        def handle() -> None:
            if self._checkpoints is not None:
                self._checkpoints.handle(message)
            if self._is_resting:
                self._before_rest.append(handled)
            else:
                handled()

        try:
            self.mailbox.execute(handle, CHECKPOINTS)
        except MailboxClosedError:
            # The task is ending, and its checkpoints are aborted with it.
            return False
        return True

    def checkpoint_stage(self, checkpoint_id: int) -> Stage:
        """Return the task's progress with a checkpoint; any thread."""
        checkpoints = self._checkpoints
        return "WAITING" if checkpoints is None else checkpoints.stage_of(checkpoint_id)

    def ping(self, answer: Callable[[], None]) -> bool:
        """Call ``answer`` soon in the task's thread; return False if the task is ending."""
        try:
            self.mailbox.execute(answer, PINGS)
        except MailboxClosedError:
            return False
        except QueueFullError:
            pass  # the previous ping is still waiting
        return True

    def unhindered_s(self) -> float:
        """Return the seconds in which every output had a buffer."""
        return self._times.unhindered_s()

    def sample_records(self, edge: int, sample: RecordSample | None) -> str:
        """Start sampling the records of an edge, in the task's thread; None ends it.

        Returns:
            Why the records cannot be sampled; empty if sampling has started.
        """
        task_input = self._input
        if task_input is None or edge >= len(self._environment.gates):
            return f"{self._environment.task_name} has no edge {edge}"
        # Closed means that the task is ending: no more records arrive.
        with suppress(MailboxClosedError):
            try:
                self.mailbox.execute(lambda: task_input.sample(edge, sample), LOOKS)
            except QueueFullError as error:
                return str(error)
        return ""

    def look_up(self, lookup: StateLookup | StateReading) -> None:
        """Run a lookup of keyed state in the task's thread."""
        try:
            self.mailbox.execute(lambda: lookup.run(self._opened_chain()), LOOKS)
        except (MailboxClosedError, QueueFullError) as error:
            ends = isinstance(error, MailboxClosedError)
            lookup.problem = f"{self._environment.task_name} is ending" if ends else str(error)
            lookup.done.set()

    def _process_rescaled(self, chain: OperatorChain, in_flight: InFlightRecovery) -> None:
        """Process the data that was in flight at another parallelism.

        The task is not yet running, so no checkpoint can miss these records, which are in no
        channel.
        """
        rescaled = RescaledInput(self._chain_config, chain, self._environment)
        for channel, data in in_flight.rescaled_channels():
            self._check_cancelled()
            rescaled.process(channel, data)

    def _restored_snapshots(self, chain: OperatorChain) -> dict[bytes, OperatorSnapshot]:
        """Return the initial states of the operators, by their ids."""
        restored = self._environment.restored
        if restored is None:
            return {}
        environment = self._environment
        reader = OperatorSnapshotReader(
            chain.contexts[0].key_groups, environment.files, environment.local_copies
        )
        return {
            operator_id: reader.read(restored.checkpoint_id, state)
            for operator_id, state in restored.state.operators.items()
        }

    def _register_timer(self, delay_ms: int, action: Callable[[], None]) -> None:
        timers = self.processing_time
        timers.register(timers.now() + delay_ms, lambda _: action())

    def _finish(self, chain: OperatorChain) -> None:
        """End the operators and notify receivers, in the mode of a savepoint that stops the job."""
        assert self._checkpoints is not None, "restore() has run"
        mode = self._checkpoints.stop_mode or StopMode.DRAIN
        if mode is StopMode.DRAIN and not self._is_finished:
            chain.finish()
        self.processing_time.quiesce()
        self.mailbox.run_pending()
        chain.flush()
        chain.broadcast_event(EndOfData(mode))
        chain.flush()
        self._checkpoints.begin_end()

    def _create_context(self, config: OperatorConfig, position: int) -> TaskOperatorContext:
        return TaskOperatorContext(
            config,
            self._environment,
            self._execution_config,
            self.mailbox,
            self.processing_time,
            is_batch=self._is_batch,
            position=position,
            run_until=self._run_until,
            accumulators=self._accumulators,
            input_clock=self._times.unhindered_s,
        )

    def _track_latency(self, chain: OperatorChain) -> None:
        """Record latency markers, and let a source emit them, if the job asks for them."""
        interval_ms = self._execution_config.get_latency_tracking_interval()
        if interval_ms <= 0:
            return
        chain.latency = LatencyTracking(self._environment, chain.contexts)
        source = chain.head
        if isinstance(source, SourceOperator) and not isinstance(source, IterationHead):
            chain.latency.emit_markers(source, self.processing_time, interval_ms)

    def _watch_event_time(self, chain: OperatorChain) -> EventTimeWatch | None:
        """Watch for event time that stands still; not without inputs or in BATCH mode."""
        if self._input is None or self._is_batch:
            return None
        watch = EventTimeWatch(self._chain_config, chain, self._input, self.processing_time)
        watch.start()
        return watch

    def _debloat_later(self, task_input: TaskInput) -> None:
        """Fit the producers' buffer size to this task's pace, if the job asks for it."""
        period_ms = DEBLOAT_PERIOD.read(self._environment.configuration)

        share_of_target = self._times.share_not_back_pressured()

        def debloat(_: int) -> None:
            # While its outputs are full, more input of this task would only wait.
            if task_input.debloat(max(share_of_target(), _LEAST_SHARE_OF_TARGET)):
                self.processing_time.register(self.processing_time.now() + period_ms, debloat)

        self.processing_time.register(self.processing_time.now() + period_ms, debloat)

    def _report_accumulators(self) -> None:
        values = self._accumulators.encoded()
        if values:
            self._environment.report_accumulators(values)

    def _report_accumulators_later(self) -> None:
        def report(_: int) -> None:
            self._report_accumulators()
            self._report_accumulators_later()

        now_ms = self.processing_time.now()
        self.processing_time.register(now_ms + _ACCUMULATOR_INTERVAL_MS, report)

    def _process_input(self, task_input: TaskInput) -> None:
        mailbox, timers = self.mailbox, self.processing_time
        while not self._cancelled.is_set():
            if mailbox.has_mail:
                mailbox.run_pending()
            timers.fire_due()
            if not self._outputs_available():
                task_input.process_urgent()
                continue
            if not task_input.process_next(timers.wait_ms(_IDLE_WAIT_MS)):
                return

    def _await_end(self, task_input: TaskInput | None) -> None:
        """Read what follows the end of data, and wait for a checkpoint that holds the end.

        Barriers arrive until the producers end, which they do when that checkpoint is complete.
        """
        checkpoints = self._checkpoints
        assert checkpoints is not None, "restore() has run"
        while not checkpoints.may_end or (task_input is not None and not task_input.has_ended):
            self._check_cancelled()
            self.mailbox.run_pending()
            if checkpoints.may_end and task_input is None:
                break
            if task_input is not None and not task_input.has_ended:
                if not self.mailbox.has_mail:
                    task_input.read_to_end(_IDLE_WAIT_MS)
            else:
                self.mailbox.wait(_IDLE_WAIT_MS)
        self.mailbox.drain()

    def _run_source(self, chain: OperatorChain) -> None:
        source = chain.head
        if not isinstance(source, SourceOperator):
            msg = f"{chain.contexts[0].name!r} has no input and is not a source"
            raise TypeError(msg)
        mailbox, timers = self.mailbox, self.processing_time
        # A source with a thread of its own shares the operators with this thread under its lock.
        lock = getattr(source, "lock", None) or nullcontext()
        # Such a source ends its thread itself; other sources are simply not read any more.
        stop = getattr(source, "stop", None)
        is_stopping = False
        config = chain.contexts[0].config
        metrics = self._environment.operator_metrics.setdefault((config.id, config.name), {})
        times = SourceTimes(metrics, source)
        step = 1
        while not self._cancelled.is_set():
            with lock:
                if mailbox.has_mail:
                    mailbox.run_pending()
                timers.fire_due()
            if self._stop_mode is not None and not is_stopping:
                is_stopping = True
                if stop is None:
                    break
                stop()
            if not self._outputs_available():
                # The next step must not write far beyond the buffer that becomes free.
                step = 1
                continue
            started_ns = time.monotonic_ns()
            status = source.emit_next(step)
            if status == END_OF_DATA:
                break
            ended_ns = time.monotonic_ns()
            times.step(status, ended_ns)
            step = next_step(step, ended_ns - started_ns)
            self._end_rest()
            if status == NOTHING_AVAILABLE and not mailbox.has_mail:
                self._is_resting = True
                self._times.idle(lambda: source.wait_available(timers.wait_ms(_IDLE_WAIT_MS)))
        self._end_rest()
        if self._stop_mode is not StopMode.NO_DRAIN and not self._cancelled.is_set():
            source.output.emit_watermark(MAX_TIMESTAMP)

    def _end_rest(self) -> None:
        """Run the callbacks deferred while an idle source took a short step."""
        self._is_resting = False
        while self._before_rest:
            self._before_rest.popleft()()

    @property
    def _stop_mode(self) -> StopMode | None:
        """Mode of the stop with a savepoint; None if the task is not stopping."""
        return None if self._checkpoints is None else self._checkpoints.stop_mode

    def _close_checkpoints(self) -> None:
        if self._checkpoints is not None:
            self._checkpoints.close()

    def _outputs_available(self) -> bool:
        """Return whether every partition has a buffer; wait briefly for the first without one."""
        for partition in self._environment.partitions:
            if not partition.is_available():
                self._end_rest()
                timeout_ms = self.processing_time.wait_ms(self._output_wait_ms)
                return self._times.soft_back_pressured(
                    partial(partition.wait_available, timeout_ms)
                )
        if self._times.soft_since_ns is not None:
            self._times.end_soft_back_pressure()
        return True

    def _run_until(self, condition: Callable[[], bool], position: int) -> None:
        while not condition():
            self._check_cancelled()
            self.mailbox.wait(self.processing_time.wait_ms(_IDLE_WAIT_MS, position), position)
            self.mailbox.run_pending(position)
            self.processing_time.fire_due(position)

    def _wakeup(self) -> None:
        with self._waking:
            task_input = self._input
        if task_input is not None:
            task_input.wakeup()
        chain = self._chain
        if chain is not None and isinstance(chain.head, SourceOperator):
            chain.head.wakeup()

    def _opened_chain(self) -> OperatorChain:
        if self._chain is None:
            msg = "restore() must run before invoke()"
            raise RuntimeError(msg)
        return self._chain

    def _check_cancelled(self) -> None:
        if self._cancelled.is_set():
            msg = f"{self._environment.task_name} was cancelled"
            raise CancelTaskError(msg)

    def _close_after(self, error: BaseException) -> None:
        """Close everything after ``error``; an error while closing must not hide it."""
        try:
            self._close_all(error)
        except CancelTaskError:
            # An interrupt arrived between two steps: without the others, functions of the user
            # would stay open.  A step that is done does nothing again.
            self._close_all(error)

    def _close_all(self, error: BaseException) -> None:
        self.mailbox.close()
        self.processing_time.quiesce()
        self._close_checkpoints()
        if self._input is not None:
            self._input.close()
        if self._chain is not None:
            secondary = self._chain.close()
            try:
                self._report_accumulators()
            except BaseException as unreported:
                secondary = secondary or unreported
            if secondary is not None:
                annotate(error, f"closing failed as well: {described_in_time(secondary)}")

    def _name_operator(self, error: BaseException) -> None:
        """Attach the operator that raised an exception of user code."""
        if self._chain is None or (config := self._chain.failed_operator(error)) is None:
            return
        attach(error, task_failure.OPERATOR_ATTRIBUTE, config.name)
        attach(error, task_failure.LOCATION_ATTRIBUTE, config.location)
        selector = self._chain.failed_selector(error)
        if selector is not None:
            annotate(error, f"raised by the {selector} of the records that the operator emits")
