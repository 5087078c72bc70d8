"""Patterns match exactly the subsequences that the definition of contiguity allows.

A brute-force matcher tries every subsequence of up to ten events, and every way to distribute it
over the parts of a pattern.  It does not use automata.  Patterns are random: all contiguities and
quantifiers, without skipping and negative parts.
"""

import itertools
import random
from dataclasses import dataclass

import pytest
from penstock.cep import Pattern
from penstock.testing import feed_pattern

UNBOUNDED = 99


@dataclass
class Part:
    """A part: the records that it accepts, how often, and the records allowed between them."""

    name: str
    kinds: str
    by: str
    inner: str
    least: int
    most: int
    is_optional: bool

    def takes(self, event):
        return event in self.kinds


def definition(parts, events):
    """Return all matches by definition, each as the positions of every part's records."""
    found = set()
    positions = range(len(events))
    for size in range(1, len(events) + 1):
        for chosen in itertools.combinations(positions, size):
            for counts in _dealt(parts, size):
                if _is_match(parts, counts, chosen, events):
                    found.add((counts, chosen))
    return found


def _dealt(parts, size):
    """Yield all ways to distribute a number of records over the parts, by their quantifiers."""
    if not parts:
        if size == 0:
            yield ()
        return
    part = parts[0]
    allowed = {0} if part.is_optional else set()
    allowed.update(range(part.least, min(part.most, size) + 1))
    for count in sorted(allowed):
        for rest in _dealt(parts[1:], size - count):
            yield (count, *rest)


def _is_match(parts, counts, chosen, events):
    before = None
    position = 0
    for part, count in zip(parts, counts, strict=True):
        for repetition in range(count):
            at = chosen[position]
            position += 1
            if not part.takes(events[at]):
                return False
            contiguity = part.by if repetition == 0 else part.inner
            if before is not None and not _may_follow(before, at, contiguity, part, events):
                return False
            before = at
    return True


def _may_follow(before, at, contiguity, part, events):
    if contiguity == "strict":
        return at == before + 1
    if contiguity == "relaxed":
        return not any(part.takes(events[between]) for between in range(before + 1, at))
    return True


def described(parts):
    """Return the pattern of the parts."""
    methods = {"strict": "next", "relaxed": "followed_by", "any": "followed_by_any"}
    pattern = None
    for part in parts:
        if pattern is None:
            pattern = Pattern.begin(part.name)
        else:
            pattern = getattr(pattern, methods[part.by])(part.name)
        pattern = pattern.where(lambda event, part=part: part.takes(event[0]))
        if part.most == UNBOUNDED:
            pattern = pattern.times_or_more(part.least)
        elif (part.least, part.most) != (1, 1):
            pattern = pattern.times(part.least, part.most)
        if (part.least, part.most) != (1, 1) and part.inner == "strict":
            pattern = pattern.consecutive()
        elif (part.least, part.most) != (1, 1) and part.inner == "any":
            pattern = pattern.allow_combinations()
        if part.is_optional:
            pattern = pattern.optional()
    return pattern


def automaton(parts, events):
    """Return all matches of the library, in the same form."""
    numbered = [((event, position), position) for position, event in enumerate(events)]
    result = feed_pattern(described(parts), numbered)
    found = set()
    for match in result.matches:
        counts = tuple(len(match.get(part.name, ())) for part in parts)
        chosen = tuple(event[1] for part in parts for event in match.get(part.name, ()))
        assert (counts, chosen) not in found, "each match is emitted once"
        found.add((counts, chosen))
    return found


def random_part(chance, index):
    least, most = chance.choice([(1, 1), (1, 1), (2, 2), (1, 2), (2, 3), (1, 99), (2, 99)])
    return Part(
        name="pqr"[index],
        kinds=chance.choice(["a", "b", "c", "ab", "bc"]),
        by=chance.choice(["strict", "relaxed", "any"]),
        inner=chance.choice(["strict", "relaxed", "any"]),
        least=least,
        most=most,
        is_optional=chance.random() < 0.25,
    )


@pytest.mark.parametrize("seed", range(60))
def test_matches_are_those_of_the_definition(seed):
    """Each seed compares six patterns over sequences of four to ten events."""
    chance = random.Random(seed)
    for _ in range(6):
        parts = [random_part(chance, index) for index in range(chance.choice([1, 2, 2, 3]))]
        events = [chance.choice("abcx") for _ in range(chance.randint(4, 10))]
        assert automaton(parts, events) == definition(parts, events), (parts, events)


def test_the_definition_knows_flinks_example():
    """An example of Flink's documentation: "a, any b" matches b1 and b2 of "a c b1 b2" by turns."""
    parts = [
        Part("p", "a", "strict", "relaxed", 1, 1, is_optional=False),
        Part("q", "b", "any", "relaxed", 1, 1, is_optional=False),
    ]
    assert definition(parts, list("acbb")) == {((1, 1), (0, 2)), ((1, 1), (0, 3))}
