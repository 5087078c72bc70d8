"""F12, F14: the part of a checkpoint that each subtask starts from, and rejected jobs."""

import pytest
from penstock.checkpoint_storage.checkpoint_metadata import OperatorState
from penstock.checkpoint_storage.handles import (
    ByteStreamHandle,
    ChannelStateHandle,
    KeyGroupsHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    PartitionableState,
)
from penstock.errors import InvalidProgramError
from penstock.graph.job_graph import OperatorIdentity
from penstock.jobmaster.checkpointing.state_assignment import assign_states, coordinator_states
from support.graphs import word_count


def stream(name):
    return ByteStreamHandle(name, b"bytes")


def keyed(first, *offsets):
    return OperatorSubtaskState(
        managed_keyed=(KeyGroupsHandle(first, offsets, stream(f"groups from {first}")),)
    )


def listed(mode, **states):
    """Create operator state of one subtask: elements by name."""
    content = {name: PartitionableState(mode, tuple(elements)) for name, elements in states.items()}
    return OperatorSubtaskState(managed_operator=(OperatorStateHandle(content, stream("s")),))


class Job:
    """A word count; a test sets the state of its second vertex."""

    def __init__(self, parallelism=2, max_parallelism=128):
        self.graph = word_count().job_graph(job_id=bytes(16))
        self.vertex = next(v for v in self.graph.vertices.values() if v.name == "Flat Map")
        self.vertex.parallelism = parallelism
        self.vertex.max_parallelism = max_parallelism
        self.id = self.vertex.operators[0].id

    def state(self, *subtasks, finished=(), operator_id=None, **fields):
        fields = {"max_parallelism": 128, "name": "Flat Map", **fields}
        return OperatorState(
            operator_id or self.id,
            len(subtasks),
            subtasks={i: s for i, s in enumerate(subtasks) if s is not None},
            finished_subtasks=frozenset(finished),
            **fields,
        )

    def assigned(self, *states, **options):
        """Return the states that the subtasks of the vertex start from, by their index."""
        found = assign_states(self.graph, {s.operator_id: s for s in states}, **options)
        return {
            subtask: snapshot
            for (vertex_id, subtask), snapshot in found.items()
            if vertex_id == self.vertex.id
        }

    def parts(self, *states):
        return [s.operators[self.id] for _, s in sorted(self.assigned(*states).items())]


def elements(part):
    return {
        name: [*state.offsets]
        for handle in part.managed_operator
        for name, state in handle.states.items()
    }


@pytest.mark.parametrize("parallelism", [1, 2, 3, 4])
def test_keyed_state_follows_its_key_groups(parallelism):
    """Each subtask reads the files that hold any of its groups, and no others."""
    job = Job(parallelism, max_parallelism=4)
    old = job.state(keyed(0, 5, 6), keyed(2, 5, 6), max_parallelism=4)
    found = [{h.first_group for h in part.managed_keyed} for part in job.parts(old)]
    expected = {
        1: [{0, 2}],
        2: [{0}, {2}],
        3: [{0}, {2}, {2}],  # groups 0 and 1, 2, and 3
        4: [{0}, {0}, {2}, {2}],
    }
    assert found == expected[parallelism]


def test_lists_are_cut_into_equal_blocks_that_rotate():
    job = Job(2)
    old = job.state(listed("split", a=[1, 2, 3], b=[4, 5, 6]))
    assert [elements(part) for part in job.parts(old)] == [
        {"a": [1, 2], "b": [6]},
        {"a": [3], "b": [4, 5]},
    ]


def test_lists_stay_where_they_are_at_the_same_parallelism():
    job = Job(2)
    old = job.state(listed("split", a=[1, 2, 3]), listed("split", a=[]))
    assert [elements(part) for part in job.parts(old)] == [{"a": [1, 2, 3]}, {"a": []}]


def test_everybody_gets_all_of_a_union_list():
    job = Job(3)
    old = job.state(listed("union", a=[1]), listed("union", a=[2]))
    for part in job.parts(old):
        assert [h.states["a"].offsets for h in part.managed_operator] == [(1,), (2,)]


@pytest.mark.parametrize("finished", [(), (0,)])
def test_everybody_gets_a_copy_of_a_broadcast_state(finished):
    """Even if the subtask that would own the copy had finished."""
    job = Job(3)
    first = None if finished else listed("broadcast", a=[1])
    old = job.state(first, listed("broadcast", a=[2]), finished=finished)
    copies = [elements(part)["a"] for part in job.parts(old)]
    assert copies == ([[2]] * 3 if finished else [[1], [2], [1]])


def test_subtasks_without_state_still_start_from_the_checkpoint():
    """A source whose splits are all read must not start again."""
    job = Job(3)
    for old in (job.state(listed("split", a=[1])), job.state(None, None)):
        assert sorted(job.assigned(old)) == [0, 1, 2]
    assert job.assigned() == {}, "an operator that the checkpoint does not know is new"


def test_an_operator_is_found_by_its_former_id():
    """`set_uid_hash` sets the operator's former id; its own id has priority."""
    job = Job(1)
    [identity] = job.vertex.operators
    old = job.state(listed("split", a=[1]), operator_id=b"o" * 16)
    job.vertex.operators = (OperatorIdentity(identity.id, None, b"o" * 16, identity.name),)
    assert elements(job.parts(old)[0]) == {"a": [1]}
    new = job.state(listed("split", a=[2]))
    assert elements(job.parts(new)[0]) == {"a": [2]}


def test_state_of_an_operator_that_is_gone():
    """The error contains its full name; an operator without state is not missed."""
    job = Job()
    gone = job.state(keyed(0, 1), operator_id=b"o" * 16, name="Gone", uid="gone")
    with pytest.raises(InvalidProgramError) as caught:
        job.assigned(gone)
    for text in ("'Gone'", "uid 'gone'", (b"o" * 16).hex(), "ignore-unclaimed-state"):
        assert text in str(caught.value)
    assert job.assigned(gone, allow_non_restored=True) == {}
    assert job.assigned(job.state(None, operator_id=b"o" * 16, finished=(0,))) == {}
    with pytest.raises(InvalidProgramError):
        job.assigned(job.state(None, operator_id=b"o" * 16, coordinator=b"splits"))


def test_the_key_groups_of_keyed_state_do_not_change():
    job = Job(2, max_parallelism=64)
    with pytest.raises(InvalidProgramError, match="128 key groups, the job has 64"):
        job.assigned(job.state(keyed(0, 1)))
    assert job.assigned(job.state(listed("split", a=[1]))), "other state knows no key groups"


def test_states_of_coordinators_go_to_theirs():
    job = Job(1)
    state = job.state(None, coordinator=b"splits")
    assert coordinator_states(job.graph, {state.operator_id: state}) == {job.id: b"splits"}


def all_finished(job, *names):
    """Return states of vertices whose operators had all finished, and of the others."""
    states = []
    for vertex in job.graph.vertices.values():
        for operator in vertex.operators:
            ended = range(vertex.parallelism) if vertex.name in names else ()
            state = job.state(*[None] * vertex.parallelism, finished=ended, operator_id=operator.id)
            states.append(replace_name(state, operator.name))
    return states


def replace_name(state, name):
    return type(state)(
        state.operator_id,
        state.parallelism,
        state.max_parallelism,
        name,
        finished_subtasks=state.finished_subtasks,
    )


def source_name(job):
    [source] = [v.name for v in job.graph.vertices.values() if v.is_source]
    return source


@pytest.mark.parametrize("parallelism", [1, 2, 5])
def test_finished_operators_do_not_run_again(parallelism):
    """F14: at any parallelism if all subtasks had finished."""
    job = Job(2)
    states = all_finished(job, source_name(job), "Flat Map")
    job.vertex.parallelism = parallelism
    found = job.assigned(*states)
    assert len(found) == parallelism
    assert all(snapshot.is_finished for snapshot in found.values())


def test_a_finished_subtask_stays_finished_at_the_same_parallelism():
    """At another parallelism the work of the others is divided among all."""
    job = Job(2)
    old = job.state(None, listed("split", a=[1, 2]), finished=(0,))
    assert [s.is_finished for _, s in sorted(job.assigned(old).items())] == [True, False]
    job.vertex.parallelism = 3
    assert not any(s.is_finished for s in job.assigned(old).values())


def test_a_finished_operator_has_no_running_operator_before_it():
    job = Job()
    with pytest.raises(InvalidProgramError, match="'Flat Map' had finished"):
        job.assigned(*all_finished(job, "Flat Map"))


def test_a_chain_has_finished_as_a_whole():
    job = Job()
    states = all_finished(job, source_name(job), "Flat Map")
    [identity] = job.vertex.operators
    added = OperatorIdentity(b"n" * 16, None, None, "Added")
    job.vertex.operators = (identity, added)
    with pytest.raises(InvalidProgramError, match=r"'Added' had not: .* disable_chaining"):
        job.assigned(*states)


def in_flight(index=0, of=2):
    """Create one input channel, or one receiver of an output, with data in it."""
    return (ChannelStateHandle(index, 0, of, (0,), 5, stream("buffers")),)


def test_data_in_flight_goes_where_it_was():
    job = Job()
    first = OperatorSubtaskState(
        input_channels=in_flight(of=1), result_subpartitions=in_flight(of=2)
    )
    assigned = job.assigned(job.state(first, OperatorSubtaskState()))
    assert assigned[0].operators[job.id] == first
    assert assigned[1].operators[job.id] == OperatorSubtaskState()


def test_data_in_flight_at_another_parallelism():
    """Data stored by a consumer and its producer is read as one; all subtasks filter keyed data."""
    job = Job(3)
    count = next(v for v in job.graph.vertices.values() if v.name.startswith("Count"))
    kept = OperatorSubtaskState(
        input_channels=in_flight(of=1), result_subpartitions=in_flight(of=2)
    )
    behind = OperatorState(
        count.operators[0].id,
        2,
        128,
        "Count",
        subtasks={0: OperatorSubtaskState(input_channels=in_flight(of=2))},
    )
    states = [job.state(OperatorSubtaskState(), kept), behind]
    found = assign_states(job.graph, {s.operator_id: s for s in states})
    head = {
        (vertex_id, subtask): snapshot.operators.get(vertex_id, OperatorSubtaskState())
        for (vertex_id, subtask), snapshot in found.items()
    }
    assert all(not s.input_channels and not s.result_subpartitions for s in head.values())
    # The second of two flat maps had stored data from the source; the exchange is not keyed.
    read = [head[(job.vertex.id, subtask)].rescaled_channels for subtask in range(3)]
    assert [[(c.gate, len(c.pieces), c.is_keyed) for c in channels] for channels in read] == [
        [],
        [(0, 1, False)],
        [],
    ]
    # It had stored data for the first count, too, which had stored data from the first flat map.
    for subtask in range(2):
        channels = head[(count.id, subtask)].rescaled_channels
        assert [(c.gate, len(c.pieces), c.is_keyed) for c in channels] == [(0, 1, True)] * 2


def test_both_ends_of_a_channel_are_read_together():
    job = Job(1)
    count = next(v for v in job.graph.vertices.values() if v.name.startswith("Count"))
    sent = OperatorSubtaskState(result_subpartitions=in_flight(of=2))
    got = OperatorSubtaskState(input_channels=in_flight(of=2))
    behind = OperatorState(count.operators[0].id, 2, 128, "Count", subtasks={0: got})
    states = [job.state(sent, OperatorSubtaskState()), behind]
    found = assign_states(job.graph, {s.operator_id: s for s in states})
    [channel] = found[(count.id, 1)].operators[count.id].rescaled_channels
    assert channel.pieces == (got.input_channels[0], sent.result_subpartitions[0])


@pytest.mark.parametrize(
    ("state", "says"),
    [
        ({"input_channels": in_flight(1, of=1)}, "at one of its inputs, of which .* has 1"),
        ({"result_subpartitions": in_flight(1)}, "at one of its outputs, of which .* has 1"),
    ],
)
def test_data_in_flight_needs_its_exchange(state, says):
    """Another job, or one with other chains."""
    job = Job()
    state = OperatorSubtaskState(**state)
    with pytest.raises(InvalidProgramError, match=f"{says}.* savepoint"):
        job.assigned(job.state(state, OperatorSubtaskState()))


@pytest.mark.parametrize("strategy", ["BROADCAST", "CUSTOM", "RESCALE"])
def test_exchanges_that_cannot_be_rescaled(strategy):
    job = Job(3)
    job.vertex.inputs[0].ship_strategy = strategy
    state = OperatorSubtaskState(input_channels=in_flight(of=1))
    with pytest.raises(InvalidProgramError, match=f"1 subtasks and 2, .*{strategy}"):
        job.assigned(job.state(state, OperatorSubtaskState()))


def test_data_of_a_global_exchange_goes_to_the_first_subtask():
    job = Job(3)
    job.vertex.inputs[0].ship_strategy = "GLOBAL"
    states = [
        OperatorSubtaskState(input_channels=in_flight(of=1)),
        OperatorSubtaskState(),
    ]
    head = [s.operators[job.id] for _, s in sorted(job.assigned(job.state(*states)).items())]
    assert [len(state.rescaled_channels) for state in head] == [1, 0, 0]
