"""JobResultStore: how a job ended, so that no later driver runs it again.

The file ``<job>-result`` of the leader's epoch; `job_records` has the other files of a job.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.errors import CheckpointStorageError, PenstockError, SerializationError
from penstock.serialization.type_serializer import TypeSerializer
from penstock.serialization.versioned_form import VersionedForm

if TYPE_CHECKING:
    from penstock.high_availability.leader_election import LeaderElectionService

_RESULT: Final = VersionedForm(
    "the result of a job", ("name", "status", "runtime_ms", "accumulators", "error")
)


@dataclass(frozen=True)
class JobResult:
    """The final result of a job.

    Attributes:
        name: The name of the job.
        status: FINISHED, FAILED or CANCELED.
        runtime_ms: Time from its submission to the last driver until its end.
        accumulators: The last values of its accumulators.
        error: The error of a failed job; else empty.
    """

    name: str
    status: str
    runtime_ms: int
    accumulators: dict[str, Any]
    error: str = ""


class JobResultStore:
    """The result of one job, which a leader leaves to the next.

    Both methods raise a `LeadershipLostError` once another driver leads, and an `OSError` if the
    storage fails.
    """

    def __init__(self, leadership: LeaderElectionService, job_id: bytes) -> None:
        """Read nothing yet.

        Args:
            leadership: The leadership of this driver.
            job_id: The id of the job, 16 bytes.
        """
        self._leadership = leadership
        self._name = f"{job_id.hex()}-result"

    def put(self, result: JobResult) -> None:
        """Record the end of the job."""
        self._leadership.publish(
            self._name,
            TypeSerializer[Any]().serialize(
                _RESULT.write(
                    result.name,
                    result.status,
                    result.runtime_ms,
                    result.accumulators,
                    result.error,
                )
            ),
        )

    def get(self) -> JobResult | None:
        """Return the job's final result; None while it runs.

        Raises:
            CheckpointStorageError: The record cannot be read.
        """
        data = self._leadership.read(self._name)
        if data is None:
            return None
        try:
            kept = TypeSerializer[Any]().deserialize(data)
        except PenstockError as error:
            raise damaged(self._leadership, self._name, error) from error
        if not isinstance(kept, tuple):
            raise damaged(self._leadership, self._name, f"it is not a result, but {kept!r}")
        try:
            return JobResult(*_RESULT.read(kept))
        except SerializationError as error:
            raise CheckpointStorageError(f"{self._leadership}: {self._name}: {error}") from error


def damaged(leadership: LeaderElectionService, name: str, error: object) -> CheckpointStorageError:
    """Return the error of a record that cannot be read."""
    return CheckpointStorageError(f"{leadership}: {name} is damaged: {error}")
