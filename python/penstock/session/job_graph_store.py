"""The jobs of a session that another jobmanager can resume: their graphs, code and files.

Files of the leader's epoch:

```
<job>-submission         the program's submission, written last
blob-<digest>-<part>     a blob of one job or several, named by its content
```

A blob is deleted with the last job that names it; a job is deleted when its end is recorded.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import IO, TYPE_CHECKING, Final

import msgspec

from penstock.common.options.rest import is_sensitive
from penstock.common.values.decoders import msgpack_decoder
from penstock.errors import CheckpointStorageError, ConfigurationError, LeadershipLostError
from penstock.high_availability.job_records import JobRecords
from penstock.rpc.session_messages import SubmitJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from penstock.dependencies.manifest import BlobKey
    from penstock.high_availability.leader_election import LeaderElectionService
    from penstock.session.sealing import Seal

logger = logging.getLogger(__name__)

_SUBMISSION: Final = "-submission"
_RESULT: Final = "-result"
_PART_BYTES: Final = 8 << 20
_SUBMISSIONS: Final = msgpack_decoder(SubmitJob)


class JobGraphStore:
    """Jobs that a leading jobmanager passes to the next one, in addition to their records.

    Its methods raise a `LeadershipLostError` once another one leads, an `OSError` if the storage
    fails, and a `CheckpointStorageError` for unreadable data.
    """

    def __init__(self, leadership: LeaderElectionService, max_results: int, seal: Seal) -> None:
        """Read the stored jobs, and forget those that have ended.

        Args:
            leadership: This process's leadership.
            seal: Encrypts the stored values.
            max_results: Number of job results to keep.
        """
        self.leadership = leadership
        self._max_results = max_results
        self._seal = seal
        self._lock = threading.Lock()
        self._digests: dict[bytes, set[str]] = {}
        # Storage is slow, and the main thread reports the ends of jobs.
        self._cleaner = ThreadPoolExecutor(1, "stored jobs")
        for name in leadership.names(""):
            if name.endswith(_SUBMISSION):
                job_id = bytes.fromhex(name.removesuffix(_SUBMISSION))
                self._digests[job_id] = {key.digest for key in blobs_of(self._read(job_id))}
        for job_id in list(self._digests):
            if self.records(job_id).results.get() is not None:
                self._forget(job_id)
        self._remove_unnamed_blobs()

    def records(self, job_id: bytes) -> JobRecords:
        """Return the records of a job."""
        return JobRecords(self.leadership, job_id)

    def jobs(self) -> dict[bytes, SubmitJob]:
        """Return the jobs that have not ended, in the order of their submission, by their ids."""
        names = self.leadership.names_by_age("", _SUBMISSION)
        ids = [bytes.fromhex(name.removesuffix(_SUBMISSION)) for name in names]
        return {job_id: self._read(job_id) for job_id in ids if job_id in self._digests}

    def put(
        self,
        job_id: bytes,
        submission: SubmitJob,
        options: Mapping[str, str],
        read: Callable[[BlobKey], bytes],
    ) -> None:
        """Store a job, before it is started.

        Args:
            job_id: Its id.
            submission: The program's submission.
            options: The job's options.
            read: Returns the bytes of a blob.

        Raises:
            ConfigurationError: Its options hold secrets that cannot be encrypted here.
        """
        if not self._seal.can_encrypt:
            refuse_secrets({**options, **submission.launch.get("config", {})})
        keys = blobs_of(submission)
        with self._lock:
            for key in keys:
                self._put_blob(key, read)
            self._publish(_name(job_id), msgspec.msgpack.encode(submission))
            self._digests[job_id] = {key.digest for key in keys}

    def write_blob(self, key: BlobKey, file: IO[bytes]) -> None:
        """Write the bytes of a blob to a file."""
        size = 0
        for name in _part_names(key):
            part = self.leadership.read(name)
            if part is None:
                raise CheckpointStorageError(f"{self.leadership}: {name} is missing")
            part = self._opened(name, part)
            size += len(part)
            file.write(part)
        if size != key.size:
            raise CheckpointStorageError(
                f"{self.leadership}: blob {key.digest} has {size} bytes instead of {key.size}"
            )

    def remove(self, job_id: bytes) -> None:
        """Remove a stored job that could not be started."""
        self._forget(job_id)

    def ended(self, job_id: bytes) -> None:
        """Delete an ended job's files later, if its end is recorded; any thread."""
        self._cleaner.submit(self._clean_up, job_id)

    def close(self) -> None:
        """Finish pending deletions."""
        self._cleaner.shutdown()

    def _clean_up(self, job_id: bytes) -> None:
        try:
            if self.records(job_id).results.get() is None:
                # The storage has failed, and the next jobmanager resumes the job.
                return
            self._forget(job_id)
            self._remove_old_results()
        except LeadershipLostError as error:
            logger.info("job %s is left to the next jobmanager: %s", job_id.hex(), error)
        except (OSError, CheckpointStorageError) as error:
            logger.warning(
                "the stored graph and blobs of job %s are not removed: %s", job_id.hex(), error
            )

    def _forget(self, job_id: bytes) -> None:
        with self._lock:
            self.leadership.delete(_name(job_id))
            own = self._digests.pop(job_id, set())
            needed = set[str]().union(*self._digests.values())
            for digest in own - needed:
                for name in self.leadership.names(f"blob-{digest}-"):
                    self.leadership.delete(name)

    def _remove_unnamed_blobs(self) -> None:
        """Remove the blobs of a submission that a former jobmanager has not completed."""
        needed = set[str]().union(*self._digests.values())
        for name in self.leadership.names("blob-"):
            if name.split("-")[1] not in needed:
                self.leadership.delete(name)

    def _remove_old_results(self) -> None:
        names = self.leadership.names_by_age("", _RESULT)
        for name in names[: -self._max_results]:
            # The result last: without it, the rest would be resumed as a job.
            for other in self.leadership.names(name.removesuffix(_RESULT)):
                if other != name:
                    self.leadership.delete(other)
            self.leadership.delete(name)

    def _read(self, job_id: bytes) -> SubmitJob:
        data = self._opened(_name(job_id), self.leadership.read(_name(job_id)) or b"")
        try:
            return _SUBMISSIONS.decode(data)
        except msgspec.MsgspecError as error:
            raise CheckpointStorageError(
                f"{self.leadership}: {_name(job_id)} is damaged: {error}"
            ) from error

    def _put_blob(self, key: BlobKey, read: Callable[[BlobKey], bytes]) -> None:
        names = list(_part_names(key))
        # The last part is written last: if it exists, all of them do.
        if self.leadership.names(names[-1]):
            return
        data = memoryview(read(key))
        for number, name in enumerate(names):
            part = data[number * _PART_BYTES : (number + 1) * _PART_BYTES]
            self._publish(name, bytes(part))

    def _publish(self, name: str, data: bytes) -> None:
        self.leadership.publish(name, self._seal.seal(name, data))

    def _opened(self, name: str, data: bytes) -> bytes:
        try:
            return self._seal.open(name, data)
        except CheckpointStorageError as error:
            raise CheckpointStorageError(f"{self.leadership}: {error}") from error


def refuse_secrets(options: Mapping[str, str]) -> None:
    """Reject options that would be stored for everybody who reads the storage.

    Raises:
        ConfigurationError: Some are secret.
    """
    secret = sorted(key for key in options if is_sensitive(key))
    if secret:
        raise ConfigurationError(
            f"a job with {', '.join(secret)} is not stored for the next jobmanager as it is: "
            "install cryptography at the jobmanagers, pip install 'penstock-engine[tls]', which "
            "encrypts stored jobs under the session's token"
        )


def _name(job_id: bytes) -> str:
    return job_id.hex() + _SUBMISSION


def _part_names(key: BlobKey) -> Iterator[str]:
    for number in range(max(1, -(-key.size // _PART_BYTES))):
        yield f"blob-{key.digest}-{number:06}"


def blobs_of(submission: SubmitJob) -> list[BlobKey]:
    """Return the blobs of a job, its graph first."""
    manifest = submission.manifest
    single = (manifest.requirements, manifest.packages, manifest.program)
    shipped = [*manifest.files, *manifest.archives, *filter(None, single)]
    files = (*shipped, *manifest.cached_files.values())
    return [submission.graph, *(one.blob for one in files)]
