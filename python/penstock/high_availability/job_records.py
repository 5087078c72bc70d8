"""Records for the next driver of a job: checkpoints, parallelism, or its result.

Files of the leader's epoch, each beginning with the job's id:

```
<job>-checkpoint-<id, 19 digits>   location of the checkpoint
<job>-counter                      no checkpoint has this id or a greater one
<job>-parallelisms                 parallelisms of its vertices, if rescaled
<job>-result                       the result of the ended job
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import msgspec

from penstock.checkpoint_storage.recovery import RecoverySource
from penstock.checkpoint_storage.storage import load_metadata
from penstock.common.values.decoders import json_decoder
from penstock.high_availability.job_result_store import JobResultStore, damaged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.high_availability.leader_election import LeaderElectionService

#: Number of ids reserved at a time.
_RESERVED_IDS: Final = 100


class _Pointer(msgspec.Struct, frozen=True):
    checkpoint_id: int
    location: str


_POINTERS: Final = json_decoder(_Pointer)
_PARALLELISMS: Final = json_decoder(dict[str, int])


class JobRecords:
    """Records of one job that a leader passes to the next.

    Attributes:
        leadership: The leadership of this driver.
        job_id: The job's id, the same in each driver.
        next_checkpoint_id: The first checkpoint id that no former driver has used.
        results: The result of the ended job.

    Every method raises a `LeadershipLostError` once another driver leads, and an `OSError` if the
    storage fails.
    """

    def __init__(self, leadership: LeaderElectionService, job_id: bytes) -> None:
        """Read the records of a job.

        Args:
            leadership: The leadership of this driver.
            job_id: The id of the job, 16 bytes.
        """
        self.leadership = leadership
        self.job_id = job_id
        self.results = JobResultStore(leadership, job_id)
        self._job = job_id.hex()
        counter = leadership.read(f"{self._job}-counter")
        self.next_checkpoint_id = self._reserved = 1 if counter is None else int(counter)

    def checkpoint_begins(self, checkpoint_id: int) -> None:
        """Reserve the id of a new checkpoint, so that no later driver uses it again."""
        if checkpoint_id >= self._reserved:
            reserved = checkpoint_id + _RESERVED_IDS
            self.leadership.publish(f"{self._job}-counter", b"%d" % reserved)
            self._reserved = reserved

    def checkpoint_completed(self, checkpoint_id: int, location: str) -> None:
        """Record a restorable checkpoint, before anybody is notified."""
        pointer = msgspec.json.encode(_Pointer(checkpoint_id, location))
        self.leadership.publish(self._pointer_name(checkpoint_id), pointer)

    def checkpoint_discarded(self, checkpoint_id: int) -> None:
        """Remove the record of a checkpoint that is about to be deleted."""
        self.leadership.delete(self._pointer_name(checkpoint_id))

    def checkpoints(self, files: FileSystems) -> list[RecoverySource]:
        """Return the checkpoints that the job can restart from, oldest first.

        Raises:
            CheckpointStorageError: A checkpoint cannot be read; none is skipped.
        """
        return [
            self._recovery_source(name, files)
            for name in self.leadership.names(f"{self._job}-checkpoint-")
        ]

    def set_parallelisms(self, parallelisms: Mapping[bytes, int]) -> None:
        """Record the parallelisms of the vertices after the user rescaled the job."""
        by_vertex = {vertex_id.hex(): number for vertex_id, number in parallelisms.items()}
        self.leadership.publish(f"{self._job}-parallelisms", msgspec.json.encode(by_vertex))

    def parallelisms(self) -> dict[bytes, int]:
        """Return the rescaled parallelisms, by vertex; empty if the job was not rescaled.

        Raises:
            CheckpointStorageError: The record cannot be read.
        """
        name = f"{self._job}-parallelisms"
        data = self.leadership.read(name)
        if data is None:
            return {}
        try:
            by_vertex = _PARALLELISMS.decode(data)
            return {bytes.fromhex(vertex_id): number for vertex_id, number in by_vertex.items()}
        except ValueError as error:
            raise damaged(self.leadership, name, error) from error

    def _pointer_name(self, checkpoint_id: int) -> str:
        return f"{self._job}-checkpoint-{checkpoint_id:019}"

    def _recovery_source(self, name: str, files: FileSystems) -> RecoverySource:
        data = self.leadership.read(name)
        try:
            pointer = _POINTERS.decode(data or b"")
        except msgspec.MsgspecError as error:
            raise damaged(self.leadership, name, error) from error
        metadata, location = load_metadata(pointer.location, files)
        return RecoverySource(metadata, location, is_claimed=True, allows_non_restored=False)
