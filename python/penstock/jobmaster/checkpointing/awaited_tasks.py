"""Reasons why a checkpoint expired: the subtasks it waited for."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Final

from penstock.jobmaster.checkpointing.plan import producers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.graph.ids import ExecutionAttemptID
    from penstock.jobmaster.checkpointing.plan import Participant
    from penstock.jobmaster.scheduling.execution_graph import ExecutionGraph
    from penstock.rpc.checkpoint_messages import TaskStanding

#: At most this many names are listed; the others are counted.
_MAX_NAMES: Final = 5


def awaited_text(
    graph: ExecutionGraph,
    awaited: Sequence[Participant],
    triggered: Iterable[Participant],
    standings: Mapping[ExecutionAttemptID, TaskStanding],
) -> str:
    """Return what the tasks that have not acknowledged a checkpoint wait for.

    Args:
        graph: Provides the names of the subtasks.
        awaited: The tasks that have not acknowledged.
        triggered: The tasks that were triggered directly, without a barrier.
        standings: The workers' answers, by attempt.
    """
    beginning = set(triggered)
    found = {task: standings.get(task.attempt_id) for task in awaited}
    by_stage: dict[str | None, list[Participant]] = {}
    for task, standing in found.items():
        by_stage.setdefault(None if standing is None else standing.stage, []).append(task)
    waiting, taking = by_stage.get("WAITING", []), by_stage.get("TAKING", [])
    parts = [
        (
            "barriers have not arrived at",
            _names(graph, [task for task in waiting if task not in beginning]),
        ),
        ("it has not begun at", _names(graph, [task for task in waiting if task in beginning])),
        ("functions take their snapshots in", _names(graph, taking)),
        ("held up in", _listed(_holding(graph, waiting + taking, found))),
        ("state is being written by", _names(graph, by_stage.get("WRITING", []))),
        ("acknowledgements are on the way from", _names(graph, by_stage.get("WRITTEN", []))),
        ("no word from the workers of", _names(graph, by_stage.get(None, []))),
    ]
    return "; ".join(f"{what} {names}" for what, names in parts if names)


def _holding(
    graph: ExecutionGraph,
    late: Sequence[Participant],
    found: Mapping[Participant, TaskStanding | None],
) -> list[str]:
    """Return the operators whose user code tasks without a snapshot run.

    If there are none, return the tasks to which all producers have sent their barriers.
    """
    counted: Counter[str] = Counter()
    for task in late:
        standing = found[task]
        if standing is not None and standing.operator:
            name = graph.subtask(task.subtask).task_name.rpartition(" (")[0]
            of = "" if name == standing.operator else f" of {name}"
            counted[f"operator {standing.operator!r}{of}"] += 1
    if not counted:
        silent = {task.subtask for task, standing in found.items() if standing is None}
        behind = silent | {task.subtask for task in late}
        return [
            graph.subtask(task.subtask).task_name
            for task in late
            if not any(
                producer.id in behind
                for producer in producers_of(graph.vertices[task.subtask[0]], task.subtask[1])
            )
        ]
    return [
        where if count == 1 else f"{where}, in {count} subtasks"
        for where, count in counted.most_common()
    ]


def _names(graph: ExecutionGraph, tasks: Iterable[Participant]) -> str:
    return _listed([graph.subtask(task.subtask).task_name for task in tasks])


def _listed(names: Sequence[str]) -> str:
    listed = ", ".join(names[:_MAX_NAMES])
    more = len(names) - _MAX_NAMES
    return f"{listed} and {more} more" if more > 0 else listed
