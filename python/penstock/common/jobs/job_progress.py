"""JobProgress: the progress of a job, in a few figures for those who wait for it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

_BAR: Final = 20


@dataclass(frozen=True)
class JobProgress:
    """Progress of a job.

    Attributes:
        name: Its name.
        status: Its status, by name.
        runtime_ms: Time since its submission.
        share: The share of the records assigned to its bounded sources that they have read, 0 to
            1; None while unknown.
        records: Number of records that its sources have emitted; None if unknown.
        records_per_s: Recent records per second.
        restarts: Number of restarts of its tasks.
        checkpoints: Number of completed checkpoints.
        failed_checkpoints: Number of failed checkpoints.
        last_checkpoint_ms: Duration of the last complete one; None before the first one.
    """

    name: str
    status: str
    runtime_ms: int
    share: float | None = None
    records: int | None = None
    records_per_s: float | None = None
    restarts: int = 0
    checkpoints: int = 0
    failed_checkpoints: int = 0
    last_checkpoint_ms: int | None = None

    def text(self) -> str:
        """Return all figures in one line."""
        minutes, seconds = divmod(self.runtime_ms // 1000, 60)
        facts = [f"{self.name}: {self.status} {minutes}:{seconds:02}"]
        if self.share is not None:
            filled = int(self.share * _BAR)
            facts.append(f"[{'#' * filled}{'.' * (_BAR - filled)}] {int(self.share * 100)} %")
        if self.records is not None:
            facts.append(f"{self.records:,} records")
        if self.records_per_s is not None:
            facts.append(f"{self.records_per_s:,.0f}/s")
        if self.checkpoints or self.failed_checkpoints:
            facts.append(_counted(self.checkpoints, "checkpoint"))
            if self.last_checkpoint_ms is not None:
                facts[-1] += f" (last {self.last_checkpoint_ms} ms)"
            if self.failed_checkpoints:
                facts[-1] += f", {self.failed_checkpoints} failed"
        if self.restarts:
            facts.append(_counted(self.restarts, "restart"))
        return ", ".join(facts)


def _counted(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
