"""Decisions of a simulated run: derived from the seed, each independently.

A decision depends only on its name and on the number of earlier decisions with this name.  So one
can be left out without a change of the others: that is how a trace is made small.
"""

import zlib

_MASK = (1 << 64) - 1


FAULTS_UNTIL_MS = 2_000
"""Up to half of this time passes until workers are up and tasks run."""


class Dice:
    """The decisions of one run.

    Attributes:
        taken: The decisions other than the default, in order: (name, number of earlier ones).
    """

    def __init__(self, seed, allowed=None):
        """Decide by ``seed``; if ``allowed`` is given, all other decisions are the default."""
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
        """Return one of several options; the first one is the default."""
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
        taken: The decisions of a failing run.
        fails: Returns whether a run with only these decisions fails, too.
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
