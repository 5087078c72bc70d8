"""Files of encoded elements below a folder; a file gets its name when it is complete."""

from __future__ import annotations

import os
import uuid
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from penstock.common.serialization import Encoder
from penstock.errors import SinkError
from penstock.taskexecutor.compiled import StreamOperator
from penstock.taskexecutor.sinks.element_text import text_of_elements

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.task.operator_context import OperatorContext

_WRITE_BUFFER_BYTES = 256 * 1024


def create_file_sink(context: OperatorContext) -> StreamOperator:
    """The row format of FileSink.

    Arguments of the descriptor: ``base_path``, ``encoder``, ``bucket_assigner``,
    ``bucket_check_interval_ms``, ``rolling_policy``, ``part_prefix`` and ``part_suffix``.
    """
    return FileSinkOperator(context)


class _PartFile:
    """A file that is being written, under a hidden name."""

    def __init__(self, folder: Path, final_name: str, now_ms: int) -> None:
        self.path = folder / f".{final_name}.inprogress.{uuid.uuid4().hex}"
        self.final_path = folder / final_name
        self.size_bytes = 0
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self.file: IO[bytes] = self.path.open("wb", buffering=_WRITE_BUFFER_BYTES)
        except OSError as error:
            raise self._failure(error) from error
        self.created_ms = now_ms
        self.written_ms = now_ms

    def write(self, data: bytes, now_ms: int) -> None:
        try:
            self.file.write(data)
        except OSError as error:
            raise self._failure(error) from error
        self.size_bytes += len(data)
        self.written_ms = now_ms

    def publish(self) -> None:
        """Makes the file visible, with all its bytes on disk before its name."""
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
            self.path.rename(self.final_path)
        except OSError as error:
            raise self._failure(error) from error

    def discard(self) -> None:
        # Closing writes what is buffered, which a full disk refuses; nobody wants it any more.
        with suppress(OSError):
            self.file.close()
        self.path.unlink(missing_ok=True)

    def _failure(self, error: OSError) -> SinkError:
        return SinkError(
            f"the file sink cannot write {self.path}, {self.size_bytes} bytes until now: "
            f"{error.strerror}; make room there or give the sink another folder.  What is "
            f"unfinished is removed, so that there is no {self.final_path.name} that is not whole"
        )


def _encode_function(context: OperatorContext) -> Callable[[Any], bytes]:
    """What turns elements into bytes: Flink's text of declared types for the simple encoder."""
    encoder = context.descriptor.arguments["encoder"]
    encode: Callable[[Any], bytes] = encoder.encode
    text = text_of_elements(context)
    if type(encoder) is not Encoder or text is str:
        return encode
    return lambda value: encode(text(value))


class FileSinkOperator(StreamOperator):
    """Writes each element into the open part file of its bucket.

    Part files are called ``<prefix>-<subtask>-<number><suffix>``; numbers that exist already are
    skipped, so that a folder can be written to again.
    """

    def __init__(self, context: OperatorContext) -> None:
        """Creates the sink."""
        super().__init__()
        arguments = context.descriptor.arguments
        self.base_path = Path(arguments["base_path"])
        self.encode: Callable[[Any], bytes] = _encode_function(context)
        self.assigner = arguments["bucket_assigner"]
        self.policy = arguments["rolling_policy"]
        self.check_interval_ms: int = arguments.get("bucket_check_interval_ms", 60_000)
        self.prefix = f"{arguments.get('part_prefix', 'part')}-{context.environment.subtask}-"
        self.suffix: str = arguments.get("part_suffix", "")
        self.now = context.processing_time.now
        self.next_number = 0
        self.parts: dict[str, _PartFile] = {}

    def open(self) -> None:
        """Makes sure that files can be written before the first element comes."""
        try:
            self.base_path.mkdir(parents=True, exist_ok=True)
            probe = self.base_path / f".probe.{uuid.uuid4().hex}"
            probe.touch()
            probe.unlink()
        except OSError as error:
            msg = (
                f"the file sink cannot write into {self.base_path}: {error.strerror}; "
                "choose a folder that the workers may create and write"
            )
            self.failed_with = SinkError(msg)
            raise self.failed_with from error
        if self.policy.rollover_interval_ms or self.policy.inactivity_interval_ms:
            self._schedule_check()

    def process(self, value: Any, timestamp: int) -> None:
        """Takes one element."""
        del timestamp
        try:
            now_ms = self.now()
            bucket = self.assigner.get_bucket_id(value, now_ms)
            part = self.parts.get(bucket)
            if part is None:
                part = self.parts[bucket] = self._new_part(bucket, now_ms)
            part.write(self.encode(value), now_ms)
            limit = self.policy.part_size_bytes
            if limit is not None and part.size_bytes >= limit:
                self._publish(bucket)
        except BaseException as error:
            self.failed_with = error
            raise

    def finish(self) -> None:
        """Emits what is still kept."""
        try:
            for bucket in list(self.parts):
                self._publish(bucket)
        except BaseException as error:
            self.failed_with = error
            raise

    def close(self) -> None:
        """Releases what was opened."""
        while self.parts:
            self.parts.popitem()[1].discard()

    def _publish(self, bucket: str) -> None:
        # One that cannot be published stays, so that ``close`` discards it.
        self.parts[bucket].publish()
        del self.parts[bucket]

    def _new_part(self, bucket: str, now_ms: int) -> _PartFile:
        folder = self.base_path / bucket
        while True:
            name = f"{self.prefix}{self.next_number}{self.suffix}"
            self.next_number += 1
            if not (folder / name).exists():
                return _PartFile(folder, name, now_ms)

    def _schedule_check(self) -> None:
        self.context.processing_time.register(self.now() + self.check_interval_ms, self._check)

    def _check(self, timestamp: int) -> None:
        del timestamp
        now_ms = self.now()
        age, rest = self.policy.rollover_interval_ms, self.policy.inactivity_interval_ms
        for bucket, part in list(self.parts.items()):
            too_old = age is not None and now_ms - part.created_ms >= age
            inactive = rest is not None and now_ms - part.written_ms >= rest
            if too_old or inactive:
                try:
                    self._publish(bucket)
                except BaseException as error:
                    self.failed_with = error
                    raise
        self._schedule_check()
