"""JobExecutionResult: what is left of a job that finished."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.common.job_id import JobID

__all__ = [
    "JobExecutionResult",
]


class JobExecutionResult:
    """The id, the running time and the accumulators of a finished job."""

    def __init__(
        self, job_id: JobID, net_runtime_ms: int, accumulators: Mapping[str, Any] | None = None
    ) -> None:
        """Makes a result."""
        self._job_id = job_id
        self._net_runtime_ms = net_runtime_ms
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        """The id of the job."""
        return self._job_id

    def is_job_execution_result(self) -> bool:
        """True: the job ran to its end."""
        return True

    def get_net_runtime(self) -> int:
        """The running time in ms, without the time before the job was scheduled."""
        return self._net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """The result of one accumulator, or None."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """The results of all accumulators."""
        return dict(self._accumulators)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        lines = [
            "Program execution finished",
            f"Job with JobID {self._job_id} has finished.",
            f"Job Runtime: {self._net_runtime_ms} ms",
        ]
        if self._accumulators:
            lines.append("Accumulator Results:")
            lines += [f"- {name}: {value}" for name, value in self._accumulators.items()]
        return "\n".join(lines)
