"""One job with every join and ranking, whose results follow from its elements alone.

Each branch emits texts; the results of branches with changes are added up.
"""

import time
from collections import Counter, defaultdict
from pathlib import Path

from penstock.common import Time, Types
from penstock.common.row_kind import RowKind
from penstock.datastream.window import TumblingEventTimeWindows

from recovery.operator_programs import ELEMENTS, KEYS, key_of, numbers, rare_key_of
from recovery.sink_programs import PacedNumbers

WINDOW = TumblingEventTimeWindows.of(Time.milliseconds(70))
CHANGE = Types.TUPLE([Types.STRING(), Types.LONG()])


class HeldNumbers(PacedNumbers):
    """Emits the second half of the numbers once a file exists."""

    def __init__(self, elements, gate):
        super().__init__(elements)
        self.gate = gate

    def __reduce__(self):
        return HeldNumbers, (self.elements, self.gate)

    def wait(self, ctx):
        while (
            self.position >= self.elements // 2
            and ctx.is_running()
            and not Path(self.gate).exists()
        ):
            time.sleep(0.001)


def either(one, other):
    return (-1 if one is None else one, -1 if other is None else other)


def is_left(number):
    return number % 3 != 0


def is_right(number):
    return number % 4 != 0


def pairs(related, how):
    """Join the numbers of both sides; ``related`` returns the candidates for a number."""
    found = []
    for number in range(ELEMENTS):
        near = [other for other in related(number) if 0 <= other < ELEMENTS]
        if is_left(number):
            others = [other for other in near if is_right(other)]
            found += [(number, other) for other in others]
            if not others and how in ("left", "full"):
                found.append((number, -1))
        if is_right(number) and how in ("right", "full") and not any(map(is_left, near)):
            found.append((-1, number))
    return found


def of_rare_key(number):
    half = ELEMENTS // 2
    return (number % half, number % half + half)


def of_deadline(number):
    return (number - KEYS, number, number + KEYS)


def of_window(number):
    start = number // 70 * 70
    return [other for other in range(start, start + 70) if other % KEYS == number % KEYS]


def as_text(label):
    return lambda value: (f"{label} {value}", 1)


def as_change(label, value=tuple):
    def change(row):
        is_added = row.get_row_kind() in (RowKind.INSERT, RowKind.UPDATE_AFTER)
        return (f"{label} {value(row)}", 1 if is_added else -1)

    return change


def partner_is_possible(one, other):
    return (one, other is None or (key_of(one) == key_of(other) and is_right(other)))


def branches(stream):
    """Yield the label, the results with their signs, and the expected ones of each branch."""
    left = stream.filter(is_left).map(lambda n: n, Types.LONG())
    right = stream.filter(is_right).map(lambda n: n, Types.LONG())

    def joined(key):
        return left.join(right).where(key, Types.LONG()).equal_to(key)

    def latest(**options):
        by_key = left.join_latest(right, **options).where(key_of, Types.LONG())
        return by_key.equal_to(key_of)

    inner = joined(rare_key_of).apply(either, ttl=Time.hours(1))
    yield "inner", inner.map(as_text("inner"), CHANGE), pairs(of_rare_key, "inner")
    for how, ttl in (("left", None), ("right", None), ("full", Time.hours(1))):
        label = f"{how} changes"
        rows = joined(rare_key_of).apply(either, how=how, ttl=ttl)
        yield label, rows.map(as_change(label), CHANGE), pairs(of_rare_key, how)
        label = f"{how} deadline"
        late = joined(key_of).apply(either, how=how, deadline=Time.milliseconds(KEYS))
        yield label, late.map(as_text(label), CHANGE), pairs(of_deadline, how)
        label = f"{how} window"
        windows = joined(key_of).window(WINDOW).apply(either, how=how)
        yield label, windows.map(as_text(label), CHANGE), pairs(of_window, how)
    temporal = latest().apply(either, how="inner", event_time=True)
    yield "temporal", temporal.map(as_text("temporal"), CHANGE), temporal_pairs()
    for label, options in (("latest", {}), ("broadcast", {"broadcast": True})):
        arrived = latest(**options).apply(partner_is_possible, how="left")
        lefts = [(number, True) for number in range(ELEMENTS) if is_left(number)]
        yield label, arrived.map(as_text(label), CHANGE), lefts
    keyed = stream.key_by(key_of, Types.LONG())
    top = keyed.top_n(3, lambda n: n, rank="rank")
    ranks = [(n, (ELEMENTS - 1 - n) // KEYS + 1) for n in range(ELEMENTS - 3 * KEYS, ELEMENTS)]
    yield "top", top.map(as_change("top"), CHANGE), ranks
    top_of_windows = keyed.window(WINDOW).top_n(2, lambda n: n)
    yield "window top", top_of_windows.map(as_text("window top"), CHANGE), window_tops()
    halves = stream.key_by(lambda n: n // 2, Types.LONG())
    last = halves.deduplicate("last").map(as_change("last", lambda row: row[0] // 2), CHANGE)
    yield "last", last, range(ELEMENTS // 2)
    first = halves.window(WINDOW).deduplicate("first").map(lambda n: n // 2, Types.LONG())
    yield "window first", first.map(as_text("window first"), CHANGE), range(ELEMENTS // 2)


def temporal_pairs():
    latest = {}
    found = []
    for number in range(ELEMENTS):
        if is_right(number):
            latest[key_of(number)] = number
        if is_left(number) and key_of(number) in latest:
            found.append((number, latest[key_of(number)]))
    return found


def window_tops():
    groups = defaultdict(list)
    for number in range(ELEMENTS):
        groups[number // 70, key_of(number)].append(number)
    return [number for group in groups.values() for number in group[-2:]]


def job(fate, gate, options):
    """Return the results of all branches as one stream, and the expected ones as a Counter."""
    stream = numbers(fate, options, HeldNumbers(ELEMENTS, str(gate)))
    built = list(branches(stream))
    expected = Counter(f"{label} {value}" for label, _, values in built for value in values)
    first, *others = (results for _, results, _ in built)
    return first.union(*others), expected


def added_up(results):
    """Return how often each result was emitted, less how often it was retracted."""
    counts = Counter()
    for text, sign in results:
        counts[text] += sign
    return +counts if min(counts.values()) >= 0 else counts
