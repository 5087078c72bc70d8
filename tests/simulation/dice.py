"""Decisions of a simulated run: derived from the seed, each independently.

A decision depends on its name and on how often that name was decided before, and on nothing else.
So one can be left out, and the others stay what they were: that is how a trace is made small.
"""

import zlib

_MASK = (1 << 64) - 1


FAULTS_UNTIL_MS = 2_000
"""Of which up to half pass until workers are up and tasks run."""


class Dice:
    """The decisions of one run.

    Attributes:
        taken: The decisions that were not plain, in order: (name, how many before).
    """

    def __init__(self, seed, allowed=None):
        """Decide by ``seed``; only those in ``allowed`` may be anything but plain, if given."""
        self.taken = []
        self._seed = seed * 0x9E3779B97F4A7C15
        self._allowed = allowed
        self._counts = {}

    def chance(self, name, probability):
        """Return whether a fault happens."""
        key, bits = self._next(name)
        if bits >= probability * 2.0**64 or not self._may(key):
            return False
        self.taken.append(key)
        return True

    def choice(self, name, options):
        """Return one of several; the first one is the plain one."""
        key, bits = self._next(name)
        index = bits % len(options)
        if index == 0 or not self._may(key):
            return options[0]
        self.taken.append(key)
        return options[index]

    def _may(self, key):
        return self._allowed is None or key in self._allowed

    def _next(self, name):
        count = self._counts.get(name, 0)
        self._counts[name] = count + 1
        # splitmix64, which spreads neighbouring numbers over the whole range
        x = (self._seed + zlib.crc32(name.encode()) * 0xD1342543DE82EF95 + count) & _MASK
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & _MASK
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & _MASK
        return (name, count), x ^ (x >> 31)


def minimal(taken, fails):
    """Return a smallest set of decisions with which a run still fails, by dropping some.

    Args:
        taken: The decisions of a run that fails.
        fails: Whether a run that may decide only these fails as well.
    """
    kept = list(taken)
    size = len(kept)
    while size:
        size = (size + 1) // 2 if size > 1 else 1
        start, shorter = 0, False
        while start < len(kept):
            without = kept[:start] + kept[start + size :]
            if fails(frozenset(without)):
                kept, shorter = without, True
            else:
                start += size
        if size == 1 and not shorter:
            break
    return kept
