"""Assigns the state of a checkpoint to a job's subtasks, at any parallelism (internals M63)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import msgspec

from penstock.checkpoint_storage.handles import (
    IncrementalKeyGroupsHandle,
    KeyGroupsHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    PartitionableState,
    TaskStateSnapshot,
)
from penstock.checkpoint_storage.list_blocks import list_blocks
from penstock.common.options.state_recovery import IGNORE_UNCLAIMED
from penstock.errors import InvalidProgramError
from penstock.graph.key_groups import key_group_range
from penstock.graph.stream_graph_hasher import COLLECT_SINK_UID
from penstock.jobmaster.checkpointing.finished_operators import check_finished_operators
from penstock.jobmaster.checkpointing.in_flight_assignment import InFlightAssignment

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.checkpoint_storage.checkpoint_metadata import OperatorState
    from penstock.graph.job_graph import JobGraph, JobVertex, OperatorIdentity

_Keyed = TypeVar("_Keyed", bound=KeyGroupsHandle | IncrementalKeyGroupsHandle)

SPLIT, UNION, BROADCAST = "split", "union", "broadcast"


def assign_states(
    job: JobGraph, operators: Mapping[bytes, OperatorState], *, allow_non_restored: bool = False
) -> dict[tuple[bytes, int], TaskStateSnapshot]:
    """Assign the state that each subtask starts from; subtasks without state are left out.

    Args:
        job: The job to start.
        operators: The checkpoint's operators.
        allow_non_restored: Whether to ignore state of operators that the job does not have.

    Raises:
        InvalidProgramError: The job does not fit the checkpoint; the text says where.
    """
    known: dict[bytes, OperatorIdentity] = {}
    for vertex in job.vertices.values():
        for identity in vertex.operators:
            known[identity.id] = identity
            if identity.uid_hash is not None:
                known[identity.uid_hash] = identity
    left = [
        state
        for id_, state in operators.items()
        if id_ not in known and state.has_state and state.uid != COLLECT_SINK_UID
    ]
    if left and not allow_non_restored:
        names = ", ".join(map(_described, left))
        raise InvalidProgramError(
            "the checkpoint holds state of operators that the job does not have: "
            f"{names}{_namesakes(left, known, operators)}; give "
            "the operators the uid that they had, or leave that state behind on purpose with "
            f"{IGNORE_UNCLAIMED.key}"
        )
    check_finished_operators(job, {id_: _state_of(known[id_], operators) for id_ in known})
    in_flight = InFlightAssignment(job, lambda identity: _state_of(identity, operators))
    assigned: dict[tuple[bytes, int], TaskStateSnapshot] = {}
    for vertex in job.vertices.values():
        _assign_vertex(vertex, operators, in_flight, assigned)
    return assigned


def _namesakes(
    left: Sequence[OperatorState],
    known: Mapping[bytes, OperatorIdentity],
    operators: Mapping[bytes, OperatorState],
) -> str:
    """Return a text about stateless operators of the job that share a name with unmatched state."""
    names = {state.name for state in left}
    found = [
        f"{identity.name!r} (uid {identity.uid!r})"
        for id_, identity in known.items()
        if identity.name in names and identity.uid and id_ not in operators
    ]
    return f"; the job has {', '.join(found)} instead" if found else ""


def _described(state: OperatorState) -> str:
    uid = f"uid {state.uid!r}" if state.uid else "no uid"
    return f"{state.name!r} ({uid}, id {state.operator_id.hex()})"


def coordinator_states(
    job: JobGraph, operators: Mapping[bytes, OperatorState]
) -> dict[bytes, bytes]:
    """Return the states of the operators' coordinators, by operator of the job."""
    states: dict[bytes, bytes] = {}
    for vertex in job.vertices.values():
        for identity in vertex.operators:
            state = _state_of(identity, operators)
            if state is not None and state.coordinator is not None:
                states[identity.id] = state.coordinator
    return states


def _state_of(
    identity: OperatorIdentity, operators: Mapping[bytes, OperatorState]
) -> OperatorState | None:
    state = operators.get(identity.id)
    if state is None and identity.uid_hash is not None:
        state = operators.get(identity.uid_hash)
    return state


def _assign_vertex(
    vertex: JobVertex,
    operators: Mapping[bytes, OperatorState],
    in_flight: InFlightAssignment,
    assigned: dict[tuple[bytes, int], TaskStateSnapshot],
) -> None:
    by_subtask: list[dict[bytes, OperatorSubtaskState]] = [{} for _ in range(vertex.parallelism)]
    finished: set[int] | None = None
    for identity in vertex.operators:
        state = _state_of(identity, operators)
        if state is None:
            continue
        _check_parallelism(vertex, identity, state)
        ended = _finished_subtasks(state, vertex.parallelism)
        finished = ended if finished is None else finished & ended
        # Subtasks without state must also know that the operator starts from a checkpoint: a source
        # whose splits are all read must not start over.
        for subtask, part in enumerate(_redistribute(state, vertex, in_flight)):
            by_subtask[subtask][identity.id] = part
    for subtask, states in enumerate(by_subtask):
        rescaled = in_flight.rescaled.get((vertex.id, subtask))
        if rescaled is not None:
            head_id = vertex.operators[0].id
            head = states.get(head_id, OperatorSubtaskState())
            states[head_id] = msgspec.structs.replace(head, rescaled_channels=tuple(rescaled))
        is_finished = finished is not None and subtask in finished
        if states or is_finished:
            assigned[(vertex.id, subtask)] = TaskStateSnapshot(states, is_finished)


def _finished_subtasks(state: OperatorState, parallelism: int) -> set[int]:
    """Return the new subtasks that have nothing left to run.

    With the old parallelism these are the finished ones; a new parallelism mixes the work of the
    old subtasks, so it is all or none.
    """
    if parallelism == state.parallelism:
        return set(state.finished_subtasks)
    return set(range(parallelism)) if state.is_fully_finished else set()


def _check_parallelism(vertex: JobVertex, identity: OperatorIdentity, state: OperatorState) -> None:
    if state.has_keyed_state and state.max_parallelism != vertex.max_parallelism:
        raise InvalidProgramError(
            f"the state of {identity.name!r} has {state.max_parallelism} key groups, the job has "
            f"{vertex.max_parallelism}: the maximum parallelism of keyed state cannot change; "
            f"set it to {state.max_parallelism}"
        )


def _redistribute(
    state: OperatorState, vertex: JobVertex, in_flight: InFlightAssignment
) -> list[OperatorSubtaskState]:
    """Split one operator's state among the subtasks of its vertex."""
    parallelism = vertex.parallelism
    old = [state.subtasks.get(i, OperatorSubtaskState()) for i in range(state.parallelism)]
    operator = _operator_states(
        [s.managed_operator for s in old], parallelism, state.finished_subtasks
    )
    raw_operator = _operator_states(
        [s.raw_operator for s in old], parallelism, state.finished_subtasks
    )
    parts = []
    for subtask in range(parallelism):
        same = old[subtask] if parallelism == state.parallelism else OperatorSubtaskState()
        groups = key_group_range(vertex.max_parallelism, parallelism, subtask)
        parts.append(
            OperatorSubtaskState(
                managed_keyed=_of_groups((h for s in old for h in s.managed_keyed), groups),
                raw_keyed=_of_groups((h for s in old for h in s.raw_keyed), groups),
                managed_operator=operator[subtask],
                raw_operator=raw_operator[subtask],
                input_channels=tuple(
                    handle
                    for handle in same.input_channels
                    if in_flight.stays(vertex, handle, is_input=True)
                ),
                result_subpartitions=tuple(
                    handle
                    for handle in same.result_subpartitions
                    if in_flight.stays(vertex, handle, is_input=False)
                ),
                types=state.types,
            )
        )
    return parts


def _of_groups(handles: Iterable[_Keyed], groups: tuple[int, int]) -> tuple[_Keyed, ...]:
    """Return the handles that hold any of the key groups; the reader reads only those."""
    first, last = groups
    return tuple(
        handle
        for handle in handles
        if handle.first_group <= last and handle.first_group + _num_groups(handle) > first
    )


def _num_groups(handle: KeyGroupsHandle | IncrementalKeyGroupsHandle) -> int:
    return (
        handle.num_groups if isinstance(handle, IncrementalKeyGroupsHandle) else len(handle.offsets)
    )


def _operator_states(
    old: Sequence[tuple[OperatorStateHandle, ...]], parallelism: int, finished: frozenset[int]
) -> list[tuple[OperatorStateHandle, ...]]:
    """Redistribute named states over subtasks, each by its mode."""
    handles = [handle for subtask in old for handle in subtask]
    modes = {state.mode for handle in handles for state in handle.states.values()}
    if parallelism == len(old) and modes <= {SPLIT}:
        return list(old)
    spread: list[list[OperatorStateHandle]] = [[] for _ in range(parallelism)]
    start = 0
    names = dict.fromkeys(name for handle in handles for name in handle.states)
    for name in names:
        having = [handle for handle in handles if name in handle.states]
        mode = having[0].states[name].mode
        if mode == UNION:
            _give(spread, range(parallelism), having, name)
        elif mode == BROADCAST:
            _give_broadcast(spread, old, finished, name)
        elif parallelism == len(old):
            for subtask, own in enumerate(old):
                _give(spread, [subtask], [h for h in own if name in h.states], name)
        else:
            start = _give_split(spread, having, name, start)
    return [tuple(parts) for parts in spread]


def _give(
    spread: list[list[OperatorStateHandle]],
    subtasks: Iterable[int],
    handles: Iterable[OperatorStateHandle],
    name: str,
) -> None:
    parts = [OperatorStateHandle({name: h.states[name]}, h.stream) for h in handles]
    for subtask in subtasks:
        spread[subtask].extend(parts)


def _give_broadcast(
    spread: list[list[OperatorStateHandle]],
    old: Sequence[tuple[OperatorStateHandle, ...]],
    finished: frozenset[int],
    name: str,
) -> None:
    """Assign each subtask one old subtask's copy; another one replaces a missing copy."""
    copies = [[h for h in own if name in h.states] for own in old]
    present = [copy for index, copy in enumerate(copies) if copy and index not in finished]
    present = present or [copy for copy in copies if copy]
    for subtask in range(len(spread)):
        copy = copies[subtask % len(copies)] or present[0]
        _give(spread, [subtask], copy, name)


def _give_split(
    spread: list[list[OperatorStateHandle]],
    handles: Sequence[OperatorStateHandle],
    name: str,
    start: int,
) -> int:
    """Assign each subtask its block of the records; return the next subtask to get more."""
    elements = [(h, offset) for h in handles for offset in h.states[name].offsets]
    blocks, following = list_blocks(len(elements), len(spread), start)
    for receiver, block in zip(spread, blocks, strict=True):
        by_stream: dict[int, tuple[OperatorStateHandle, list[int]]] = {}
        for handle, offset in (elements[position] for position in block):
            by_stream.setdefault(id(handle), (handle, []))[1].append(offset)
        for handle, offsets in by_stream.values():
            state = PartitionableState(SPLIT, tuple(offsets))
            receiver.append(OperatorStateHandle({name: state}, handle.stream))
    return following
