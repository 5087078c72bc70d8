"""The reader's side of watermark alignment: its reports and its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.options.pipeline import ALLOW_UNALIGNED_SPLITS
from penstock.rpc.messages import ReportedWatermark, WatermarkAlignment
from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from penstock.common import watermark_strategy
    from penstock.rpc.messages import FromCoordinator
    from penstock.taskexecutor.compiled.operator_context import OperatorContext


class AlignedReader:
    """Keeps a source within reach of the slowest source of its group."""

    def __init__(
        self,
        context: OperatorContext,
        alignment: watermark_strategy.WatermarkAlignment,
        watermark: Callable[[], int],
        is_idle: Callable[[], bool],
    ) -> None:
        """Create the reader's side; `start` starts the reports.

        Args:
            context: The source's context.
            alignment: The `WatermarkAlignment` of the source's watermark strategy.
            watermark: Returns the last watermark that the source emitted, in ms.
            is_idle: Returns whether the source is idle, so that the group does not wait for it.
        """
        self._context = context
        self._interval_ms = alignment.update_interval_ms
        self._watermark = watermark
        self._is_idle = is_idle
        self._limit = MAX_TIMESTAMP
        self._is_stopped = False

    @property
    def may_read(self) -> bool:
        """Return whether the source may read more."""
        return self._watermark() <= self._limit

    @property
    def limit(self) -> int:
        """The watermark up to which the source may read."""
        return self._limit

    def start(self) -> None:
        """Start to report periodically, in the task's thread."""
        timers = self._context.processing_time

        def report(_: int) -> None:
            if self._is_stopped:
                return
            watermark = MAX_TIMESTAMP if self._is_idle() else self._watermark()
            if watermark > MIN_TIMESTAMP:
                self._send(watermark)
            timers.register(timers.now() + self._interval_ms, report)

        timers.register(timers.now() + self._interval_ms, report)

    def finish(self) -> None:
        """Report the largest watermark: the group must not wait for a source that has ended."""
        self._send(MAX_TIMESTAMP)

    def stop(self) -> None:
        """Stop reporting: another source continues, or the task ends."""
        self._is_stopped = True

    def handle(self, message: FromCoordinator) -> None:
        """Set a new limit."""
        if isinstance(message, WatermarkAlignment):
            self._limit = message.max_watermark

    def _send(self, watermark: int) -> None:
        environment = self._context.environment
        environment.send_to_coordinator(
            ReportedWatermark(
                environment.job_id, environment.attempt_id, self._context.config.id, watermark
            )
        )


class AlignedSplits:
    """Pauses the splits of one reader that are too far ahead of its others."""

    def __init__(self, context: OperatorContext, reader: Any) -> None:
        """Create an alignment of the splits of ``reader``, a SourceReader."""
        self._reader = reader
        self._paused: set[str] = set()
        self._may_go_unaligned = ALLOW_UNALIGNED_SPLITS.read(context.environment.configuration)

    @property
    def paused(self) -> Collection[str]:
        """Splits that are paused until they are not ahead any more."""
        return self._paused

    def align(self, watermarks: Mapping[str, int], limit: int) -> None:
        """Pause the splits beyond the limit, and resume the others.

        Args:
            watermarks: Watermarks of the splits being read.
            limit: The largest allowed watermark.

        Raises:
            NotImplementedError: The reader cannot pause splits although it must.
        """
        # A single split is not ahead of any other: the whole reader waits.
        ahead = {split for split, watermark in watermarks.items() if watermark > limit}
        wanted = ahead if len(watermarks) > 1 else set()
        pause = sorted(wanted - self._paused)
        resume = sorted((self._paused - wanted) & watermarks.keys())
        self._paused = wanted
        if not pause and not resume:
            return
        try:
            self._reader.pause_or_resume_splits(pause, resume)
        except NotImplementedError:
            if not self._may_go_unaligned:
                raise
