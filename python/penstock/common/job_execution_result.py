"""JobExecutionResult: the result of a finished job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.job_id import JobID as JobID  # noqa: TC001 - as PyFlink's module
from penstock.errors import IllegalStateError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "DetachedJobExecutionResult",
    "JobExecutionResult",
]


class JobExecutionResult(MissingMethods):
    """The id, the running time and the accumulators of a finished job."""

    def __init__(
        self, job_id: JobID, net_runtime_ms: int, accumulators: Mapping[str, Any] | None = None
    ) -> None:
        """Create a result."""
        self._job_id = job_id
        self._net_runtime_ms = net_runtime_ms
        self._accumulators = dict(accumulators or {})

    def get_job_id(self) -> JobID:
        """Return the id of the job."""
        return self._job_id

    def is_job_execution_result(self) -> bool:
        """Return True: the job ran to its end."""
        return True

    def get_net_runtime(self) -> int:
        """Return the running time in ms, without the time before the job was scheduled."""
        return self._net_runtime_ms

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Return the result of one accumulator, or None."""
        return self._accumulators.get(accumulator_name)

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Return the results of all accumulators."""
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


class DetachedJobExecutionResult(JobExecutionResult):
    """Result of a detached job: its id."""

    def __init__(self, job_id: JobID) -> None:
        """Create a result."""
        super().__init__(job_id, -1)

    def is_job_execution_result(self) -> bool:
        """Return False: the job continues."""
        return False

    def get_net_runtime(self) -> int:
        """Reject the call.

        Raises:
            IllegalStateError: Always.
        """
        raise self._refusal()

    def get_accumulator_result(self, accumulator_name: str) -> Any:
        """Reject the call.

        Raises:
            IllegalStateError: Always.
        """
        del accumulator_name
        raise self._refusal()

    def get_all_accumulator_results(self) -> dict[str, Any]:
        """Reject the call.

        Raises:
            IllegalStateError: Always.
        """
        raise self._refusal()

    def _refusal(self) -> IllegalStateError:
        return IllegalStateError(
            f"job {self.get_job_id()} was submitted in detached mode, so it has no result here: "
            "use JobClient.get_job_execution_result of execute_async"
        )

    def __str__(self) -> str:
        return f"Job has been submitted with JobID {self.get_job_id()}"
