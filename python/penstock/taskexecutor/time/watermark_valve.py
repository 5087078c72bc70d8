"""Combines the watermarks and idleness of several channels into those of one input."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.taskexecutor.compiled import MAX_TIMESTAMP, MIN_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Callable


class StatusWatermarkValve:
    """Tracks an input's watermark: the smallest of its aligned channels; it never decreases.

    An idle channel holds back no other.  A channel that becomes active again behind the announced
    watermark is unaligned: it is ignored until it has caught up.
    """

    def __init__(
        self,
        num_channels: int,
        on_watermark: Callable[[int], object],
        on_status: Callable[[bool], object],
    ) -> None:
        """Create a valve whose channels are all active and have no watermark yet.

        Args:
            num_channels: Number of channels.
            on_watermark: Called with each new watermark of the input.
            on_status: Called with True when the input becomes idle, False when active again.
        """
        self._watermarks = [MIN_TIMESTAMP] * num_channels
        self._active = [True] * num_channels
        self._aligned = [True] * num_channels
        self._last_watermark = MIN_TIMESTAMP
        self._idle = False
        self._on_watermark = on_watermark
        self._on_status = on_status

    @property
    def last_watermark(self) -> int:
        """Last emitted watermark; the least timestamp before the first one."""
        return self._last_watermark

    @property
    def is_idle(self) -> bool:
        """Return whether no channel holds event time back."""
        return self._idle

    def holding_channels(self) -> list[int]:
        """Return the channels that are behind and hold the others back."""
        aligned = [channel for channel, holds in enumerate(self._aligned) if holds]
        slowest = min((self._watermarks[channel] for channel in aligned), default=0)
        return [channel for channel in aligned if self._watermarks[channel] == slowest]

    def watermark(self, channel: int, timestamp: int) -> None:
        """Record the watermark ``timestamp`` of ``channel``."""
        if timestamp == MAX_TIMESTAMP:
            self._end(channel)
            return
        if self._idle or not self._active[channel] or timestamp <= self._watermarks[channel]:
            return
        self._watermarks[channel] = timestamp
        if not self._aligned[channel] and timestamp >= self._last_watermark:
            self._aligned[channel] = True
        self._advance()

    def status(self, channel: int, idle: bool) -> None:
        """Record that ``channel`` became idle or active."""
        has_ended = self._watermarks[channel] == MAX_TIMESTAMP
        if has_ended or idle == (not self._active[channel]):
            return
        if idle:
            self._become_idle(channel)
        else:
            self._active[channel] = True
            self._aligned[channel] = self._watermarks[channel] >= self._last_watermark
            if self._idle:
                self._idle = False
                self._on_status(False)

    def _become_idle(self, channel: int) -> None:
        held_back = self._watermarks[channel] == self._last_watermark
        self._active[channel] = self._aligned[channel] = False
        self._go_on_without(held_back=held_back)

    def _end(self, channel: int) -> None:
        held_back = self._watermarks[channel] == self._last_watermark
        self._watermarks[channel] = MAX_TIMESTAMP
        self._active[channel] = self._aligned[channel] = False
        if min(self._watermarks) < MAX_TIMESTAMP:
            self._go_on_without(held_back=held_back)
            return
        if self._idle:
            self._idle = False
            self._on_status(False)
        self._emit(MAX_TIMESTAMP)

    def _go_on_without(self, *, held_back: bool) -> None:
        """Advance after a channel became inactive that may have held the others back."""
        if any(self._active):
            if held_back:
                self._advance()
        elif not self._idle:
            if held_back:
                self._emit(max(found for found in self._watermarks if found < MAX_TIMESTAMP))
            self._idle = True
            self._on_status(True)

    def _advance(self) -> None:
        aligned = [
            watermark
            for watermark, is_aligned in zip(self._watermarks, self._aligned, strict=True)
            if is_aligned
        ]
        if aligned:
            self._emit(min(aligned))

    def _emit(self, timestamp: int) -> None:
        if timestamp > self._last_watermark:
            self._last_watermark = timestamp
            self._on_watermark(timestamp)


class CombinedWatermarkStatus:
    """The smallest watermark of the inputs of one operator, except those that are idle or ended."""

    def __init__(self, num_inputs: int) -> None:
        """Create the status of inputs that are active and have no watermark yet."""
        self._watermarks = [MIN_TIMESTAMP] * num_inputs
        self._idle = [False] * num_inputs
        self.watermark = MIN_TIMESTAMP
        self.all_idle = False

    def update_watermark(self, input_number: int, timestamp: int) -> bool:
        """Record a watermark of one input; return whether the combined one advanced."""
        self._watermarks[input_number] = max(self._watermarks[input_number], timestamp)
        self._idle[input_number] = False
        return self._combine()

    def update_status(self, input_number: int, idle: bool) -> bool:
        """Record the status of one input; return whether the combined watermark advanced."""
        self._idle[input_number] = idle
        return self._combine()

    def _combine(self) -> bool:
        left = [
            (watermark, idle)
            for watermark, idle in zip(self._watermarks, self._idle, strict=True)
            if watermark < MAX_TIMESTAMP
        ]
        active = [watermark for watermark, idle in left if not idle]
        self.all_idle = bool(left) and not active
        smallest = min(active, default=MAX_TIMESTAMP)
        if self.all_idle or smallest <= self.watermark:
            return False
        self.watermark = smallest
        return True
