"""Channels that count aligned barriers, for stand-ins of a task's input in tests."""

from penstock.taskexecutor.checkpointing.barrier_handler import FirstBarrier


class GatheringChannels:
    """Treats barriers like the gates of both runtimes.

    Subclasses have the clock `wall_ms` and a number of `processed_bytes`.
    """

    _gathers = None
    _left = 0
    _gathered: tuple[int, ...] = ()
    _first = None

    def resume_all(self, channels):
        for channel in channels:
            self.resume_consumption(channel)

    def gather_barriers(self, barrier, left):
        self._gathers, self._left = barrier, left

    def take_gathered(self):
        gathered, self._gathered, self._gathers, self._left = self._gathered, (), None, 0
        first, self._first = self._first, None
        if first is not None:
            barrier, came_ms, processed_bytes = first
            first = FirstBarrier(barrier, self.wall_ms() - came_ms, processed_bytes)
        return list(gathered), first

    def gathers(self, channel, barrier):
        """Return whether an arriving barrier is counted without being delivered."""
        if self._left <= 1 or self._gathers not in (None, barrier):
            return False
        if not barrier.needs_alignment or barrier.is_timeoutable:
            return False
        if self._gathers is None:
            self._gathers = barrier
            self._first = barrier, self.wall_ms(), self.processed_bytes
        self._left -= 1
        self._gathered += (channel,)
        return True
