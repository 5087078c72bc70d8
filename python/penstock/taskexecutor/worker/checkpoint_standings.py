"""Progress of a worker's tasks in a checkpoint, read before it expires."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

from penstock.rpc.checkpoint_messages import TaskStanding

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.taskexecutor.task.task import Task

#: Number of checks: a thread may be between two calls of user code during one.
_LOOKS: Final = 5
_BETWEEN_LOOKS_S: Final = 0.002


def standings_of(tasks: Sequence[Task], checkpoint_id: int) -> tuple[TaskStanding, ...]:
    """Return the tasks' progress, and the operators that hold up tasks without a snapshot."""
    stages = {task: task.checkpoint_stage(checkpoint_id) for task in tasks}
    operators = dict.fromkeys(tasks, "")
    unknown = [task for task, stage in stages.items() if stage in ("WAITING", "TAKING")]
    for look in range(_LOOKS):
        if not unknown:
            break
        if look:
            time.sleep(_BETWEEN_LOOKS_S)
        frames = sys._current_frames()
        for task in unknown:
            operators[task] = task.operator_at(frames.get(task.thread_ident or 0))
        del frames
        unknown = [task for task in unknown if not operators[task]]
    return tuple(
        TaskStanding(task.descriptor.attempt_id, stages[task], operators[task]) for task in tasks
    )
