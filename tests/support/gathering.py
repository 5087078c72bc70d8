"""Channels whose aligned barriers are counted, for what stands for a task's input in tests."""


class GatheringChannels:
    """Does with barriers what the gates of both runtimes do."""

    _gathers = None
    _left = 0
    _gathered: tuple[int, ...] = ()

    def resume_all(self, channels):
        for channel in channels:
            self.resume_consumption(channel)

    def gather_barriers(self, barrier, left):
        self._gathers, self._left = barrier, left

    def take_gathered(self):
        gathered, self._gathered, self._gathers = self._gathered, (), None
        return list(gathered)

    def gathers(self, channel, barrier):
        """Whether a barrier that comes is counted and told to nobody."""
        if self._left <= 1 or barrier != self._gathers:
            return False
        self._left -= 1
        self._gathered += (channel,)
        return True
