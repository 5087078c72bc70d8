"""Reports in the log and the dashboard what holds event time back.

A window that never fires looks like a job that works.  A task whose operators wait for event time
notices that the watermark stands still while records flow, and names the input and the reason.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final

from penstock.common.values.instants import datetime_of
from penstock.graph.event_time_origins import emits_event_time
from penstock.graph.wiring import DistributionPattern
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.graph.event_time_origins import EventTimeOrigin
    from penstock.graph.job_graph import ChainConfig
    from penstock.taskexecutor.task.operator_chain import OperatorChain
    from penstock.taskexecutor.task.task_input import TaskInput
    from penstock.taskexecutor.time.processing_time import ProcessingTimeService

logger = logging.getLogger(__name__)

#: Time without progress after which event time counts as standing still.
STANDS_STILL_MS: Final = 30_000
_CHECK_MS: Final = 5_000

#: Most origins named; more are seldom the cause.
_MAX_NAMED: Final = 3


class EventTimeWatch:
    """Checks periodically, in the task's thread; it does no work per record.

    Attributes:
        text: The inputs that hold event time back, and why; empty while none does.
    """

    def __init__(
        self,
        config: ChainConfig,
        chain: OperatorChain,
        task_input: TaskInput,
        timers: ProcessingTimeService,
    ) -> None:
        """Create a watch that `start` starts."""
        self.text = ""
        self._config = config
        self._chain = chain
        self._input = task_input
        self._timers = timers
        self._is_told = False
        self._watermark = MIN_TIMESTAMP
        self._since_ms = timers.now()
        self._records = 0

    def start(self) -> None:
        """Start checking."""
        self._timers.register(self._timers.now() + _CHECK_MS, self._check)

    def _check(self, _: int) -> None:
        self._timers.register(self._timers.now() + _CHECK_MS, self._check)
        now_ms, watermark = self._timers.now(), self._input.watermark(None)
        operator = self._waiting_operator()
        if watermark != self._watermark or operator is None or watermark == MAX_TIMESTAMP:
            self._watermark, self._since_ms = watermark, now_ms
            self._records = self._input.records_in
            self.text = ""
            return
        stood_ms = now_ms - self._since_ms
        if self.text or stood_ms < STANDS_STILL_MS or self._input.records_in == self._records:
            return
        self.text = self._holding()
        if self.text and not self._is_told:
            self._is_told = True
            at = "its beginning" if watermark == MIN_TIMESTAMP else _moment(watermark)
            logger.warning(
                "event time of %r has stood still at %s for %d s while records flow: %s",
                operator,
                at,
                stood_ms // 1000,
                self.text,
            )

    def _waiting_operator(self) -> str | None:
        """Return the name of the first operator that waits for event time."""
        for context, operator in zip(self._chain.contexts, self._chain.operators, strict=True):
            if getattr(operator, "has_open_windows", False) or any(
                service.has_event_timers for service in context.timer_services
            ):
                return context.name
        return None

    def _holding(self) -> str:
        """Return the inputs that hold event time back, and why."""
        parts: list[str] = []
        for index, channels in self._input.holding_channels().items():
            gate = self._config.gates[index]
            watermark, numbers, count = channels
            subtasks = (
                numbers
                if gate.distribution is DistributionPattern.ALL_TO_ALL and len(numbers) < count
                else ()
            )
            for origin in _most_suspect(gate.origins, watermark)[:_MAX_NAMED]:
                why = _reason(origin, watermark, subtasks)
                parts.append(f"input {gate.input_number + 1} from {origin.name!r} {why}")
        return "; ".join(dict.fromkeys(parts))


def has_event_time(config: ChainConfig) -> bool:
    """Return whether a chain creates or receives watermarks, as far as strategies tell."""
    return any(emits_event_time(operator.descriptor) for operator in config.operators) or any(
        origin.has_strategy for gate in config.gates for origin in gate.origins
    )


def _most_suspect(origins: Sequence[EventTimeOrigin], watermark: int) -> list[EventTimeOrigin]:
    """Return the origins without a strategy, else those without an assigner, else all."""
    if watermark == MIN_TIMESTAMP:
        for lacks in (_lacks_strategy, _lacks_assigner):
            found = [origin for origin in origins if lacks(origin)]
            if found:
                return found
    return list(origins)


def _lacks_strategy(origin: EventTimeOrigin) -> bool:
    return not origin.has_strategy


def _lacks_assigner(origin: EventTimeOrigin) -> bool:
    return not origin.has_assigner


def _reason(origin: EventTimeOrigin, watermark: int, subtasks: Sequence[int]) -> str:
    if watermark == MIN_TIMESTAMP and not origin.has_strategy:
        return (
            "has no watermark strategy: give one to from_source, or use "
            "assign_timestamps_and_watermarks"
        )
    if watermark == MIN_TIMESTAMP and not origin.has_assigner:
        return (
            "has a strategy without a timestamp assigner, and its records may have no timestamps: "
            "use with_timestamp_assigner; or a partition, split or subtask without records holds "
            "it back: use with_idleness"
        )
    where = ""
    if subtasks:
        listed = ", ".join(str(number + 1) for number in subtasks[:5])
        more = f" and {len(subtasks) - 5} more" if len(subtasks) > 5 else ""
        where = f" through subtask {listed}{more} of the task before"
    return (
        f"brings no later watermark{where}: a partition, split or subtask without records holds it "
        "back (use with_idleness), or its records have no later event times"
    )


def _moment(watermark: int) -> str:
    try:
        return datetime_of(watermark * 1000).isoformat(" ", "milliseconds")
    except (OverflowError, ValueError, OSError):
        return f"{watermark} ms"


def event_time_gauges(config: ChainConfig, watch: EventTimeWatch | None) -> dict[str, object]:
    """Return the gauges from which the dashboard shows event time."""
    has = int(has_event_time(config))
    return {
        "hasEventTime": lambda: int(bool(has or (watch is not None and watch.text))),
        "eventTimeHeldBackBy": lambda: "" if watch is None else watch.text,
    }
