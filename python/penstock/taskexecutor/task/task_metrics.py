"""Metrics of a task: Flink's names for its input and output.

All of them read counters of the data plane; they cost nothing per record or buffer.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from penstock.common.options.network import DEBLOAT_ENABLED, SEGMENT_SIZE
from penstock.errors import QueueFullError
from penstock.metrics import metricbase
from penstock.taskexecutor.task.mailbox import MEASUREMENTS, MailboxClosedError

if TYPE_CHECKING:
    from collections.abc import Callable, MutableMapping

    from penstock.taskexecutor.checkpointing.task_checkpoints import TaskCheckpoints
    from penstock.taskexecutor.task.mailbox import Mailbox
    from penstock.taskexecutor.task.operator_chain import OperatorChain
    from penstock.taskexecutor.task.task_environment import TaskEnvironment
    from penstock.taskexecutor.task.task_input import TaskInput

_LEAST_WINDOW_S: Final = 1.0
_RECEIVED: Final = (
    "numBytesInLocal",
    "numBuffersInLocal",
    "numBytesInRemote",
    "numBuffersInRemote",
)


class ReadCounter(metricbase.Counter):
    """A counter that is counted elsewhere."""

    def __init__(self, read: Callable[[], int]) -> None:
        """Create a counter with the value of ``read``."""
        self._read = read

    def inc(self, n: int = 1) -> None:
        """Raise TypeError: the counter is read-only."""
        raise TypeError(f"inc({n}): this counter is read only")

    def dec(self, n: int = 1) -> None:
        """Raise TypeError: the counter is read-only."""
        raise TypeError(f"dec({n}): this counter is read only")

    def get_count(self) -> int:
        """Return the count."""
        return self._read()


class ReadMeter(metricbase.Meter):
    """The rate of a counter that is counted elsewhere."""

    def __init__(
        self, read: Callable[[], int], clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Create a meter of the values of ``read``.

        Args:
            read: The count so far; it never falls.
            clock: Time in seconds; it never goes back.
        """
        self._read = read
        self._clock = clock
        self._since = (clock(), read())
        self._rate = 0.0

    def mark_event(self, value: int = 1) -> None:
        """Raise TypeError: the meter is read-only."""
        raise TypeError(f"mark_event({value}): this meter is read only")

    def get_count(self) -> int:
        """Return the number of events."""
        return self._read()

    def get_rate(self) -> float:
        """Return the events per second since the last call that was at least a second ago."""
        now_s, count = self._clock(), self._read()
        since_s, before = self._since
        if now_s - since_s >= _LEAST_WINDOW_S:
            self._rate = (count - before) / (now_s - since_s)
            self._since = (now_s, count)
        return self._rate


def publish_task_metrics(
    environment: TaskEnvironment, chain: OperatorChain, task_input: TaskInput | None
) -> None:
    """Register records, bytes, queues and watermarks of a task and of its operators.

    Args:
        environment: The subtask.
        chain: Its operators.
        task_input: The task's input; None for a source.
    """
    partitions = environment.partitions
    metrics, head = environment.metrics, chain.contexts[0].config
    at_head = environment.operator_metrics.setdefault((head.id, head.name), {})

    def bytes_in() -> int:
        return 0 if task_input is None else task_input.bytes_in

    def records_in() -> int:
        return 0 if task_input is None else task_input.records_in

    def bytes_out() -> int:
        return sum(writer.bytes_out for writer in chain.writers)

    _publish(metrics, "numRecordsIn", records_in)
    _publish(metrics, "numRecordsOut", lambda: chain.records_out(None))
    _publish(metrics, "numBytesIn", bytes_in)
    _publish(metrics, "numBytesOut", bytes_out)
    _publish(metrics, "numFiredTimers", lambda: chain.fired_timers)
    _publish(metrics, "numBuffersOut", lambda: sum(p.buffers_out for p in partitions))
    _publish(metrics, "numRegionsWritten", lambda: sum(p.regions_written for p in partitions))
    metrics["Shuffle.Netty.Output.Buffers.outputQueueLength"] = lambda: sum(
        p.buffers_queued for p in partitions
    )
    metrics["Shuffle.Netty.Output.Buffers.outPoolUsage"] = lambda: _share(
        sum(partition.buffers_in_use for partition in partitions),
        sum(partition.buffers_total for partition in partitions),
    )
    if task_input is not None:
        for position, name in enumerate(_RECEIVED):
            # Under Flink's former name, and under the one with the shuffle service's prefix.
            for prefix in ("", "Shuffle.Netty.Input."):
                _publish(metrics, f"{prefix}{name}", _received_of(task_input, position))
        metrics["Shuffle.Netty.Input.Buffers.inputQueueLength"] = lambda: task_input.buffers()[0]
        metrics["Shuffle.Netty.Input.Buffers.inPoolUsage"] = lambda: _share(
            *task_input.buffers()[1:]
        )
        _publish(at_head, "numRecordsIn", records_in)
        for scope in (metrics, at_head):
            scope["currentInputWatermark"] = lambda: task_input.watermark(None)
            if len(task_input.input_numbers) > 1:
                for number in task_input.input_numbers:
                    scope[f"currentInput{number + 1}Watermark"] = _watermark_of(task_input, number)
        segment_bytes = SEGMENT_SIZE.read(environment.configuration)
        metrics["debloatedBufferSize"] = lambda: min(
            (b for b, _ in task_input.debloated), default=segment_bytes
        )
        if DEBLOAT_ENABLED.read(environment.configuration):
            metrics["estimatedTimeToConsumeBuffersMs"] = lambda: max(
                (ms for _, ms in task_input.debloated), default=0
            )
    for position in chain.writing_positions:
        config = chain.contexts[position].config
        at_tail = environment.operator_metrics.setdefault((config.id, config.name), {})
        _publish(at_tail, "numRecordsOut", _records_of(chain, position))
        at_tail["numRecordsOutComputed"] = _computed_of(chain, position)
        at_tail["currentOutputWatermark"] = _output_watermark_of(chain, position)


class Initialization:
    """Duration of a task's start."""

    def __init__(
        self, metrics: MutableMapping[str, object], clock: Callable[[], int] = time.monotonic_ns
    ) -> None:
        """Start the measurement.

        Args:
            metrics: The task's metrics.
            clock: Current time in nanoseconds.
        """
        self._clock = clock
        self._began_ns = clock()
        self._ended_ns: int | None = None
        metrics["initializationTime"] = self._ms

    def end(self) -> None:
        """Note that the task is ready to run."""
        self._ended_ns = self._clock()

    def _ms(self) -> int:
        ended_ns = self._clock() if self._ended_ns is None else self._ended_ns
        return (ended_ns - self._began_ns) // 1_000_000


class MailboxLatency(metricbase.Distribution):
    """Recent waiting times of mails; each read posts one that is measured."""

    def __init__(self, mailbox: Mailbox) -> None:
        """Measure a mailbox."""
        self._mailbox = mailbox

    def update(self, value: int) -> None:
        """Raise TypeError: the mailbox measures."""
        raise TypeError(f"update({value}): this distribution is read only")

    def get_count(self) -> int:
        """Return the number of known latencies."""
        return len(self._mailbox.latencies_ms)

    def recent_values(self) -> list[int]:
        """Return the latencies of recently measured mails, in ms."""
        # The previous mail may still wait, or the task may have ended.
        with suppress(MailboxClosedError, QueueFullError):
            self._mailbox.execute(_do_nothing, MEASUREMENTS)
        return list(self._mailbox.latencies_ms)


def publish_mailbox_metrics(metrics: MutableMapping[str, object], mailbox: Mailbox) -> None:
    """Register the metrics of a task's mailbox."""
    metrics["mailboxQueueSize"] = lambda: mailbox.size
    metrics["mailboxMailsPerSecond"] = ReadMeter(lambda: mailbox.processed)
    metrics["mailboxLatencyMs"] = MailboxLatency(mailbox)


def publish_checkpoint_metrics(
    metrics: MutableMapping[str, object], checkpoints: TaskCheckpoints
) -> None:
    """Register the barrier delays and alignment of a task's last checkpoint."""
    metrics["checkpointStartDelayNanos"] = lambda: round(
        checkpoints.last_figures.start_delay_ms * 1_000_000
    )
    metrics["checkpointAlignmentTime"] = lambda: round(checkpoints.alignment_ms * 1_000_000)


def _do_nothing() -> None:
    pass


def _share(used: int, total: int) -> float:
    return min(1.0, used / total) if total else 0.0


def _publish(metrics: MutableMapping[str, object], name: str, read: Callable[[], int]) -> None:
    metrics[name] = ReadCounter(read)
    metrics[f"{name}PerSecond"] = ReadMeter(read)


def _received_of(task_input: TaskInput, position: int) -> Callable[[], int]:
    return lambda: task_input.received[position]


def _watermark_of(task_input: TaskInput, number: int) -> Callable[[], int]:
    return lambda: task_input.watermark(number)


def _output_watermark_of(chain: OperatorChain, position: int) -> Callable[[], int]:
    return lambda: chain.output_watermark(position)


def _computed_of(chain: OperatorChain, position: int) -> Callable[[], int]:
    return lambda: chain.records_computed(position)


def _records_of(chain: OperatorChain, position: int) -> Callable[[], int]:
    return lambda: chain.records_out(position)
