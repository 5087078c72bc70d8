"""The entry of a key: matches share nodes and records, and unreferenced ones are removed."""

import gc
import pickle

import pytest
from penstock import network
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
        """Places of records in matches, by slot or by the match of one record."""
        nodes = self.entry[4] or [0]
        used = {
            slot: nodes[4 * slot - 2] for slot in range(1, len(nodes) // 4 + 1) if nodes[4 * slot]
        }
        return {**used, **{match: match[5] for match in self.single}}

    @property
    def records(self):
        """The numbers of references to records, by value."""
        records = self.entry[5] or [0]
        slots = range(3, len(records), 3)
        kept = {records[last - 1]: records[last] for last in slots if records[last]}
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
    assert feeding.entry[3:] == [None] * 3


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
    assert feeding.matcher.is_unused(feeding.entry)


def test_slots_of_ended_matches_are_used_again():
    skip = SkipStrategy.skip_past_last_event()
    pattern = Pattern.begin("a", skip).where(kind("a")).times(3).followed_by("b").where(kind("b"))
    feeding = Feeding(pattern)
    feeding.feed("a1 a2 a3 b1 a4 a5")
    sizes = [len(feeding.entry[place]) for place in (4, 5)]
    assert len(feeding.feed("a6 b2 a7 a8 a9 b3 a10 a11")) == 2
    assert [len(feeding.entry[place]) for place in (4, 5)] == sizes
    assert set(feeding.records) == {"a10", "a11"}


def test_an_entry_of_a_former_version_goes_on():
    """Its nodes, records and references stood in dictionaries by identifier."""
    fresh, former = Feeding(loop()), Feeding(loop())
    fresh.feed("a1 b1 b2")
    former.time = fresh.time
    former.entry[:] = [
        former.matcher.names,
        7,
        [
            (2, 1, 6, 1, 3),
            (3, 1, 4, 1, 2),
            (1, 1, 4, 1, 2),
            (2, 1, 7, 1, 3),
            (4, 1, 2, 1, 1),
            (5, 0, 0, 0, 0),
        ],
        None,
        {2: (0, 5, 1), 4: (2, 4, 3), 6: (4, 2, 5), 7: (2, 4, 5)},
        {1: "a1", 3: "b1", 5: "b2"},
        {2: 3, 4: 3, 5: 2},
    ]
    former.matcher.adopt(former.entry)
    assert (former.entry[4], former.records) == (fresh.entry[4], fresh.records)
    assert former.feed("c1 b3 c2") == fresh.feed("c1 b3 c2")
    assert (former.entry[4], former.records) == (fresh.entry[4], fresh.records)


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


@pytest.mark.skipif(network.runtime() != "native", reason="plain Python cannot hide containers")
def test_the_collector_does_not_traverse_entries():
    """A collection would traverse the entries of all keys."""
    feeding = Feeding(loop())

    def tracked():
        matches, nodes, records = feeding.entry[2], feeding.entry[4], feeding.entry[5]
        return [each for each in (feeding.entry, matches, nodes, records) if gc.is_tracked(each)]

    feeding.feed("a1 x1")
    assert not gc.is_tracked(feeding.entry)
    assert not any(map(gc.is_tracked, feeding.entry[2]))
    feeding.feed("b1 b2 c1 x2")
    assert feeding.nodes
    assert tracked() == []
    feeding.entry = pickle.loads(pickle.dumps(feeding.entry))
    assert len(tracked()) == 4
    feeding.matcher.adopt(feeding.entry)
    assert tracked() == []
    assert len(feeding.feed("c2")) == 0
    assert feeding.partial == 0 or tracked() == []


def test_a_condition_is_evaluated_once_for_a_record():
    seen = []

    def counted(event):
        seen.append(event)
        return event[0] == "a"

    pattern = Pattern.begin("a").where(counted).one_or_more().followed_by("b").where(kind("b"))
    feeding = Feeding(pattern)
    feeding.feed("a1 a2 x1 a3")
    assert seen == ["a1", "a2", "x1", "a3"]
