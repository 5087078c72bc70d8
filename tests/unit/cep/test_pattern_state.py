"""The entry of a key: matches share nodes and records, and unreferenced ones are removed."""

from penstock.cep import Pattern, SkipStrategy
from penstock.cep.pattern_stream import compiled_for
from penstock.common.time import Duration
from penstock.taskexecutor.operators.pattern import create_matcher


def kind(letter):
    return lambda event: event[0] == letter


class Feeding:
    """A matcher with the entry of one key."""

    def __init__(self, pattern):
        self.matcher = create_matcher(compiled_for(pattern, None), lambda given: given, lambda: 0)
        self.entry = self.matcher.new_entry()
        self.time = 0

    def feed(self, events):
        found = []
        for event in events.split():
            self.time += 1
            found += self.matcher.advance(self.entry, self.time)
            found += self.matcher.process(self.entry, event, self.time)
        return found

    @property
    def partial(self):
        return len(self.entry[2]) - 1

    @property
    def nodes(self):
        """Places of records in matches, by identifier or by the match of one record."""
        return {**(self.entry[4] or {}), **{match: match[5] for match in self.single}}

    @property
    def records(self):
        references = self.entry[6] or {}
        kept = {value: references.get(key, 1) for key, value in (self.entry[5] or {}).items()}
        for match in self.single:
            kept[match[6]] = kept.get(match[6], 0) + 1
        return kept

    @property
    def single(self):
        """The partial matches of one record, which contain it."""
        return [match for match in self.entry[2] if len(match) > 5]


def loop():
    return (
        Pattern.begin("a")
        .where(kind("a"))
        .followed_by_any("b")
        .where(kind("b"))
        .one_or_more()
        .allow_combinations()
        .followed_by("c")
        .where(kind("c"))
    )


def test_matches_that_begin_alike_share_their_nodes():
    """A loop of n events with combinations has 2 to the n matches; each record is stored once."""
    feeding = Feeding(loop())
    feeding.feed("a1 b1 b2 b3")
    # Each way to choose some of the three events has one last node.
    assert len(feeding.nodes) == 2**3
    assert feeding.records == {"a1": 1, "b1": 1, "b2": 2, "b3": 4}
    matches = feeding.feed("c1")
    assert len(matches) == 2**3 - 1


def test_a_match_of_one_record_needs_nothing_but_itself():
    """Most partial matches are of one record: 20 of a key take half the memory of Flink's."""
    feeding = Feeding(loop())
    feeding.feed("a1 a2 x1")
    assert feeding.partial == len(feeding.single) == 2
    assert feeding.entry[3:] == [None] * 4


def test_ignored_records_are_not_kept():
    feeding = Feeding(loop())
    feeding.feed("x1 b1 c1 a1 x2")
    assert feeding.records == {"a1": 1}
    assert len(feeding.nodes) == 1


def test_nothing_is_left_when_the_last_match_ends():
    skip = SkipStrategy.skip_past_last_event()
    pattern = (
        Pattern.begin("a", skip).where(kind("a")).one_or_more().followed_by("b").where(kind("b"))
    )
    feeding = Feeding(pattern)
    assert len(feeding.feed("a1 a2 a3 b1")) == 1
    assert feeding.partial == 0
    assert (feeding.nodes, feeding.records) == ({}, {})
    assert not feeding.entry[6]
    assert feeding.matcher.is_unused(feeding.entry)


def test_a_negative_part_leaves_no_partial_matches():
    pattern = (
        Pattern.begin("a")
        .where(kind("a"))
        .not_followed_by("n")
        .where(kind("n"))
        .followed_by("b")
        .where(kind("b"))
    )
    feeding = Feeding(pattern)
    feeding.feed("a1 a2 n1")
    assert (feeding.partial, feeding.nodes, feeding.records) == (0, {}, {})


def test_nothing_is_left_of_what_time_ends():
    pattern = (
        Pattern.begin("a")
        .where(kind("a"))
        .followed_by("b")
        .where(kind("b"))
        .within(Duration.of_millis(3))
    )
    feeding = Feeding(pattern)
    feeding.feed("a1 a2 x1")
    assert feeding.partial == 2
    feeding.matcher.advance(feeding.entry, 10)
    assert (feeding.partial, feeding.nodes, feeding.records) == (0, {}, {})


def test_equal_records_are_two():
    pattern = Pattern.begin("a").where(kind("a")).times(2)
    feeding = Feeding(pattern)
    assert feeding.feed("a1 a1") == [{"a": ["a1", "a1"]}]
    assert feeding.records == {"a1": 1}


def test_a_condition_is_evaluated_once_for_a_record():
    seen = []

    def counted(event):
        seen.append(event)
        return event[0] == "a"

    pattern = Pattern.begin("a").where(counted).one_or_more().followed_by("b").where(kind("b"))
    feeding = Feeding(pattern)
    feeding.feed("a1 a2 x1 a3")
    assert seen == ["a1", "a2", "x1", "a3"]
