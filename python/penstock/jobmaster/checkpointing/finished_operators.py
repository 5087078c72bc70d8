"""Checks that a job fits a checkpoint with finished operators (internals M65)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.checkpoint_storage.checkpoint_metadata import OperatorState
    from penstock.graph.job_graph import JobGraph, JobVertex


def check_finished_operators(job: JobGraph, states: Mapping[bytes, OperatorState | None]) -> None:
    """Reject a job in which a finished operator would have to run again.

    Finished operators are not restarted, so they cannot receive records from a running operator
    upstream or beside them in their chain.

    Args:
        job: The job.
        states: The state of each operator; None if the checkpoint does not have it.

    Raises:
        InvalidProgramError: The job was changed in such a way; names the operators.
    """
    if not any(state is not None and state.is_fully_finished for state in states.values()):
        return
    producer_of = {data.id: v for v in job.vertices.values() for data in v.produced}
    for vertex in job.vertices.values():
        if not _has_finished(vertex, states):
            continue
        for edge in vertex.inputs:
            producer = producer_of[edge.dataset_id]
            if not _has_finished(producer, states):
                raise InvalidProgramError(
                    f"{vertex.name!r} had finished in the checkpoint, and {producer.name!r} before "
                    "it had not: records of the one can no longer be processed by the other; give "
                    "the operators that were added or changed behind it another uid"
                )


def _has_finished(vertex: JobVertex, states: Mapping[bytes, OperatorState | None]) -> bool:
    """Return whether all operators of the chain had finished, not only some."""
    finished: list[str] = []
    others: list[str] = []
    for identity in vertex.operators:
        state = states.get(identity.id)
        ended = state is not None and state.is_fully_finished
        (finished if ended else others).append(identity.name)
    if finished and others:
        raise InvalidProgramError(
            f"of the chain {vertex.name!r} the operators {', '.join(map(repr, finished))} had "
            f"finished in the checkpoint and {', '.join(map(repr, others))} had not: they cannot "
            "run in one task; put them apart with disable_chaining()"
        )
    return bool(finished)
