"""Slot sharing, the tree of a shared slot, and the pool (internals M43)."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.graph import partitioners as p
from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph, JobError
from penstock.jobmaster.scheduling.slot_allocator import SlotAllocator
from penstock.jobmaster.scheduling.slot_sharing import LocalInputPreferredSlotSharingStrategy
from penstock.jobmaster.slots.shared_slot import SharedSlot
from penstock.jobmaster.slots.slot_pool import SlotPool
from penstock.jobmaster.slots.slots import SlotOffer
from support.graphs import Program


def offer(number, executor="worker"):
    return SlotOffer(b"slot-%d" % number, executor, "127.0.0.1", 5000, number)


def sharing_of(program):
    graph = ExecutionGraph(program.job_graph(), 0)
    return graph, LocalInputPreferredSlotSharingStrategy(graph)


def names(graph, sharing):
    return [
        [graph.subtask(id_).task_name for id_ in group.subtasks.values()]
        for group in sharing.groups
    ]


def test_seed_walk_through():
    """Source p1, FlatMap p2, Key -> Sink p2 in two slots."""
    program = Program(parallelism=2)
    words = program.map(program.source("S", 1), "F")
    program.sink(program.reduce(words, "K"), "P")
    graph, sharing = sharing_of(program)
    assert names(graph, sharing) == [
        ["Source: S (1/1)", "F (1/2)", "K -> Sink: P (1/2)"],
        ["F (2/2)", "K -> Sink: P (2/2)"],
    ]


def test_groups_are_kept_apart():
    program = Program(parallelism=2)
    a = program.source("A")
    b = program.map(program.partition(a, p.REBALANCE), "B", 3)
    b.slot_sharing_group = "other"
    graph, sharing = sharing_of(program)
    assert [(g.name, len(g.subtasks)) for g in sharing.groups] == [
        ("default", 1),
        ("default", 1),
        ("other", 1),
        ("other", 1),
        ("other", 1),
    ]
    assert graph.job.slots_required == 5


def test_a_consumer_joins_the_producer_it_reads_from():
    program = Program(parallelism=4)
    a = program.source("A", 4)
    program.map(program.partition(a, p.RESCALE), "B", 2)
    graph, sharing = sharing_of(program)
    assert names(graph, sharing) == [
        ["Source: A (1/4)", "B (1/2)"],
        ["Source: A (2/4)"],
        ["Source: A (3/4)", "B (2/2)"],
        ["Source: A (4/4)"],
    ]


def test_co_located_subtasks_share_by_index():
    program = Program(parallelism=3)
    a, b = program.source("A"), program.source("B")
    a.co_location_key = b.co_location_key = "pair"
    graph, sharing = sharing_of(program)
    assert names(graph, sharing) == [
        [f"Source: A ({i}/3)", f"Source: B ({i}/3)"] for i in (1, 2, 3)
    ]


@pytest.mark.parametrize("what", ["group", "parallelism"])
def test_co_location_needs_one_group_and_one_parallelism(what):
    program = Program(parallelism=3)
    a, b = program.source("A"), program.source("B", 2 if what == "parallelism" else 3)
    a.co_location_key = b.co_location_key = "pair"
    if what == "group":
        b.slot_sharing_group = "other"
    with pytest.raises(JobError, match="co-located"):
        sharing_of(program)


@given(
    st.lists(
        st.tuples(
            st.integers(1, 6),
            st.sampled_from(["default", "x", "y"]),
            st.sampled_from([p.REBALANCE, p.RESCALE, p.BROADCAST]),
        ),
        min_size=1,
        max_size=6,
    )
)
def test_sharing_rules_hold_for_any_pipeline(stages):
    """One subtask of a vertex per slot, each subtask once, as few slots as the rule allows."""
    program = Program()
    stream = program.source("S", stages[0][0])
    for number, (parallelism, group, partitioner) in enumerate(stages[1:]):
        stream = program.map(program.partition(stream, partitioner), f"M{number}", parallelism)
        stream.slot_sharing_group = group
    graph, sharing = sharing_of(program)
    seen = [id_ for group in sharing.groups for id_ in group.subtasks.values()]
    assert sorted(seen) == sorted(s.id for s in graph.subtasks())
    for group in sharing.groups:
        for vertex_id, subtask_id in group.subtasks.items():
            assert subtask_id[0] == vertex_id
            vertex = graph.vertices[vertex_id].job_vertex
            assert vertex.slot_sharing_group == group.name
            assert sharing.group_of(subtask_id) is group
    assert len(sharing.groups) == graph.job.slots_required


class TestSharedSlot:
    """SharedSlotsTest: the tree, released in any order."""

    def test_one_subtask_per_group_id(self):
        root = SharedSlot(offer(0))
        assert root.allocate_simple("v") is not None
        assert root.allocate_simple("v") is None
        assert root.allocate_shared("v") is None
        assert root.allocate_simple("w") is not None

    def test_payload_is_set_once(self):
        leaf = SharedSlot(offer(0)).allocate_simple("v")
        assert leaf.set_payload("task")
        assert not leaf.set_payload("other")
        assert leaf.payload == "task"

    def test_the_last_leaf_releases_the_root(self):
        root = SharedSlot(offer(0))
        first, second = root.allocate_simple("v"), root.allocate_simple("w")
        assert not first.release()
        assert not root.released
        assert second.release()
        assert root.released
        assert not second.release()

    def test_two_levels_release_up_to_the_root(self):
        root = SharedSlot(offer(0))
        inner = root.allocate_shared("co")
        first, second = inner.allocate_simple("v"), inner.allocate_simple("w")
        other = root.allocate_simple("x")
        assert inner.root is root
        assert not first.release()
        assert not second.release()
        assert inner.released
        assert not root.released
        assert root.allocate_simple("co") is not None
        root.children["co"].release()
        assert other.release()
        assert root.released

    def test_releasing_the_root_releases_everything(self):
        root = SharedSlot(offer(0))
        inner = root.allocate_shared("co")
        leaves = [root.allocate_simple("x"), inner.allocate_simple("v")]
        for number, leaf in enumerate(leaves):
            leaf.set_payload(number)
        assert sorted(root.release()) == [0, 1]
        assert all(leaf.released for leaf in leaves)
        assert root.release() == []
        assert root.allocate_simple("new") is None
        assert inner.allocate_simple("new") is None
        assert not leaves[0].set_payload("late")

    def test_a_released_place_can_be_taken_again_while_others_hold_the_slot(self):
        root = SharedSlot(offer(0))
        root.allocate_simple("w")
        root.allocate_simple("v").release()
        assert root.allocate_simple("v") is not None


class TestSlotPool:
    """DefaultDeclarativeSlotPoolTest."""

    def pool(self, required):
        pool = SlotPool(idle_timeout_ms=50)
        pool.required = required
        return pool

    def test_superfluous_offers_are_rejected_and_duplicates_accepted_again(self):
        pool = self.pool(1)
        assert pool.offer(offer(0), 0)
        assert not pool.offer(offer(1), 0)
        assert pool.offer(offer(0), 1)
        assert len(pool) == 1
        assert pool.missing == 0

    def test_an_allocation_id_belongs_to_one_executor(self):
        pool = self.pool(2)
        assert pool.offer(offer(0, "one"), 0)
        assert not pool.offer(offer(0, "two"), 0)

    def test_reserve_and_free(self):
        pool = self.pool(2)
        pool.offer(offer(0), 0)
        pool.offer(offer(1), 0)
        pool.reserve(b"slot-0")
        assert [s.index for s in pool.free_slots()] == [1]
        with pytest.raises(ValueError):
            pool.reserve(b"slot-0")
        with pytest.raises(KeyError):
            pool.reserve(b"slot-9")
        pool.free(b"slot-0", 5)
        assert len(pool.free_slots()) == 2
        pool.free(b"slot-9", 5)

    def test_an_executor_takes_all_its_slots_with_it(self):
        pool = self.pool(3)
        for number, executor in enumerate(["a", "b", "a"]):
            pool.offer(offer(number, executor), 0)
        assert [s.index for s in pool.remove_executor("a")] == [0, 2]
        assert pool.remove_executor("a") == []
        assert pool.missing == 2

    def test_only_what_is_not_needed_becomes_idle(self):
        pool = self.pool(3)
        for number in range(3):
            pool.offer(offer(number), 0)
        pool.reserve(b"slot-0")
        assert pool.next_idle_ms() is None
        assert pool.remove_idle(100) == []
        pool.required = 2
        assert pool.next_idle_ms() == 50
        assert pool.remove_idle(49) == []
        assert [s.index for s in pool.remove_idle(50)] == [1]
        assert pool.remove_idle(1000) == []


class TestSlotAllocator:
    def allocator(self, program, executors):
        graph = ExecutionGraph(program.job_graph(), 0)
        pool = SlotPool()
        pool.required = len(executors)
        for number, executor in enumerate(executors):
            assert pool.offer(offer(number, executor), 0)
        return graph, pool, SlotAllocator(graph, pool)

    def place(self, graph, allocator, subtask):
        """Request a slot for one subtask; return the slot, or None."""
        allocator.request([subtask.id], 0)
        for _, slots in allocator.fulfil():
            for subtask_id, slot in slots.items():
                assert graph.subtask(subtask_id).current.assign_slot(slot)
        slot = subtask.current.slot
        return None if slot is None else slot.executor_id

    def pair(self, producers):
        program = Program(parallelism=1)
        source = program.source("S", producers)
        target = program.map(program.partition(source, p.REBALANCE), "M", 1)
        target.slot_sharing_group = "other"
        return program

    @pytest.mark.parametrize(("producers", "expected"), [(1, "near"), (8, "near"), (9, "far")])
    def test_a_consumer_prefers_to_be_near_its_producers_if_they_are_few(self, producers, expected):
        graph, _, allocator = self.allocator(
            self.pair(producers), ["near"] * producers + ["far", "near"]
        )
        *sources, target = graph.subtasks()
        assert {self.place(graph, allocator, s) for s in sources} == {"near"}
        assert self.place(graph, allocator, target) == expected

    def test_a_restarted_subtask_prefers_to_be_where_its_state_is(self):
        graph, pool, allocator = self.allocator(self.pair(1), ["a", "b", "a", "b"])
        source, target = graph.subtasks()
        assert self.place(graph, allocator, source) == "a"
        assert self.place(graph, allocator, target) == "a"
        taken = target.current.slot
        assert allocator.release(target.id, 0)
        pool.remove(taken.allocation_id)
        pool.required = 9
        assert pool.offer(offer(7, "a"), 0)
        target.current.cancel(0)
        graph.reset(target, 0)
        assert self.place(graph, allocator, target) == "a"

    def test_a_bulk_gets_all_or_nothing(self):
        program = Program(parallelism=3)
        program.source("A", 3)
        graph, pool, allocator = self.allocator(program, ["w", "w"])
        allocator.request([s.id for s in graph.subtasks()], 0)
        assert allocator.fulfil() == []
        assert len(pool.free_slots()) == 2
        assert allocator.declare([]) == 3
        assert pool.offer(offer(5), 0)
        ((_, slots),) = allocator.fulfil()
        assert len(slots) == 3
        assert pool.free_slots() == []
