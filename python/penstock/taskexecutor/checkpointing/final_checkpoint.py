"""Decides whether ended tasks wait for a checkpoint that holds their end (FLIP-147)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.common.options import checkpointing
from penstock.common.options.pipeline import RUNTIME_MODE

if TYPE_CHECKING:
    from collections.abc import Mapping


def awaits_final_checkpoint(configuration: Mapping[str, str]) -> bool:
    """Return whether a last checkpoint follows the end of a job's input.

    A job in BATCH mode takes no checkpoints, whatever interval is set.
    """
    return (
        RUNTIME_MODE.read(configuration) != "BATCH"
        and checkpointing.INTERVAL.read(configuration) is not None
        and checkpointing.AFTER_TASKS_FINISH.read(configuration)
    )
