"""The writer of FileSink: encoded records in part files below a folder."""

from __future__ import annotations

import logging
import sys
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from penstock.checkpoint_storage.file_systems import is_lasting
from penstock.common.serialization import Encoder
from penstock.common.typeinfo import Types
from penstock.connectors.files.buckets import EventTimeBucketAssigner, OnCheckpointRollingPolicy
from penstock.connectors.files.part_folders import folder_of
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import ConfigurationError, FormatError, SinkError
from penstock.formats.misfit import note_place
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.sinks.element_text import text_of_elements
from penstock.taskexecutor.sinks.writer import WRITER_STATE, CommittableEmitter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from penstock.connectors.files.part_file import InProgressFile, PartFile, PendingFile
    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )
    from penstock.graph import operators
    from penstock.taskexecutor.compiled.operator_context import OperatorContext

logger = logging.getLogger(__name__)


def _encode_function(context: OperatorContext, encoder: Encoder) -> Callable[[Any], bytes]:
    """Return the function that encodes records; the simple encoder writes Flink's text."""
    encode: Callable[[Any], bytes] = encoder.encode
    text = text_of_elements(context)
    if type(encoder) is not Encoder or text is str:
        return encode
    return lambda value: encode(text(value))


class FileSinkOperator(CommittableEmitter):
    """Writes records into the open part file of their bucket; subclasses encode them.

    A part file is in progress while it is written, pending when its policy has ended it, and
    finished once the committer has renamed it to ``<prefix>-<uuid>-<number><suffix>``.  Until then
    its name begins with a dot.  The UUID is that of this attempt of the subtask, so that names are
    unique.  In the older form, ``named_by_subtask``, it is the subtask's number; then the numbers
    continue after a failure, and numbers in use are skipped.
    """

    def __init__(self, context: OperatorContext, descriptor: operators.FileSink) -> None:
        """Create the operator of one subtask."""
        super().__init__()
        self.base_path = descriptor.base_path
        self.folder = folder_of(descriptor.base_path, context.environment)
        self.assigner = descriptor.bucket_assigner
        self.by_event_time = isinstance(self.assigner, EventTimeBucketAssigner)
        self.policy = descriptor.rolling_policy
        size: int | None = self.policy.part_size_bytes
        self.limit_bytes = min(self.folder.max_part_bytes, sys.maxsize if size is None else size)
        self.check_interval_ms = descriptor.bucket_check_interval_ms
        self.named_by_subtask = descriptor.named_by_subtask
        of_this = context.environment.subtask if self.named_by_subtask else uuid.uuid4()
        self.prefix = f"{descriptor.part_prefix}-{of_this}-"
        self.suffix = descriptor.part_suffix
        self.now = context.processing_time.now
        self.next_number = 0
        self.parts: dict[str, PartFile] = {}
        self.pending: list[PendingFile] = []
        # Files that a checkpoint may continue, and that must not be removed.
        self.held: set[str] = set()
        self.state: Any = None
        self.counter_state: Any = None
        self.is_restored = False
        self.commit_trigger = descriptor.commit_trigger
        self.watermark = MIN_TIMESTAMP
        self.is_idle = False

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Restore the files that were open when the checkpoint was taken."""
        self.is_restored = context.is_restored()
        store = context.get_operator_state_store()
        self.state = store.get_list_state(
            ListStateDescriptor(WRITER_STATE, Types.PICKLED_BYTE_ARRAY())
        )
        if self.named_by_subtask:
            # Not a union state: a checkpoint lacks the state of finished subtasks, and would reject
            # the union of the others.  At another parallelism, names that are in use are skipped,
            # including those of hidden files.
            self.counter_state = store.get_list_state(
                ListStateDescriptor("max-part-counter", Types.LONG())
            )
            self.next_number = max(self.counter_state.get(), default=0)
        for held in self.state.get():
            if self._was_shown(held):
                continue
            part = self.folder.recover(held)
            self.held.add(part.path)
            if held.bucket in self.parts:
                # After scaling in, several former subtasks had a part in this bucket: any of
                # the parts may be continued.
                self.pending.append(self.parts[held.bucket].close_for_commit())
            self.parts[held.bucket] = part

    def open(self) -> None:
        """Check that files can be written, before the first record arrives."""
        try:
            self.folder.check()
        except OSError as error:
            # A restart does not help if the program names a wrong path; a path that existed before
            # may become available again.
            is_first = not self.is_restored and self.context.environment.attempt_number == 0
            kind = ConfigurationError if is_first and is_lasting(error) else SinkError
            raise kind(
                f"the file sink cannot write into {self.base_path}: {error.strerror or error}; "
                "choose a folder that the workers may create and write"
            ) from error
        if self.policy.rollover_interval_ms or self.policy.inactivity_interval_ms:
            self._schedule_check()

    def flush(self, *, end_of_input: bool) -> None:
        """End the files that are due at a checkpoint or at the end of the input."""
        always = end_of_input or isinstance(self.policy, OnCheckpointRollingPolicy)
        for bucket, part in list(self.parts.items()):
            if always or part.size_bytes > self.limit_bytes or self._is_due(bucket, part):
                self._end_part(bucket)

    def process_watermark(self, timestamp: int) -> None:
        """Record the event time that decides which folders are due."""
        self.watermark = timestamp
        super().process_watermark(timestamp)

    def process_status(self, idle: bool) -> None:
        """Record whether this writer is idle, so that only other writers decide what is due."""
        self.is_idle = idle
        super().process_status(idle)

    def prepare_commit(self) -> Iterable[PendingFile]:
        """Return the files that have ended."""
        pending, self.pending = self.pending, []
        return pending

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Make the open parts durable, and store the state to recover them from."""
        del context
        in_progress = [
            replace(part.persist(bucket), job_id=self.context.environment.job_id)
            for bucket, part in self.parts.items()
        ]
        self.held.update(part.path for part in self.parts.values())
        self.state.update(in_progress)
        if self.counter_state is not None:
            self.counter_state.update([self.next_number])

    def close(self) -> None:
        """Discard the open parts, and remove those that no checkpoint holds."""
        while self.parts:
            part = self.parts.popitem()[1]
            part.dispose(is_kept=part.path in self.held)
        for pending in self.pending:
            self.folder.give_up(pending, self.held)
        self.pending = []

    def _was_shown(self, held: InProgressFile) -> bool:
        """Return whether a part was committed by a later checkpoint, which was damaged and skipped.

        The bytes of this checkpoint are published with the part, so that nothing is continued.
        """
        if held.job_id != self.context.environment.job_id or not self.folder.has_ended(held):
            return False
        logger.warning(
            "the file sink has committed %s since the checkpoint that the job restores: the first "
            "%d bytes stay, and later records are written again, to other files",
            held.final_path,
            held.size_bytes,
        )
        return True

    def _is_due(self, bucket: str, part: PartFile) -> bool:
        """Return whether the folder of a part is committed with the next checkpoint."""
        trigger = self.commit_trigger
        if trigger is None:
            return False
        # The watermark of the committer passes an idle writer.
        return self.is_idle or trigger.is_due(bucket, part.created_ms, self.now(), self.watermark)

    def _end_part(self, bucket: str) -> None:
        # If ending the part fails, it stays, so that ``close`` discards it.
        self.pending.append(self.parts[bucket].close_for_commit())
        del self.parts[bucket]

    def _new_part(self, bucket: str, now_ms: int) -> PartFile:
        self._check_bucket(bucket)
        while True:
            name = f"{self.prefix}{self.next_number}{self.suffix}"
            self.next_number += 1
            if not (self.named_by_subtask and self._is_taken(bucket, name)):
                return self.folder.begin(bucket, name, now_ms)

    def _is_taken(self, bucket: str, name: str) -> bool:
        if self.folder.has(bucket, name):
            return True
        # Only a hidden file of an earlier attempt can conflict.
        return self.is_restored and self.folder.has_hidden(bucket, name)

    def _check_bucket(self, bucket: Any) -> None:
        """Reject an assigner's result that is not a folder below the sink's."""
        if (
            isinstance(bucket, str)
            and not bucket.startswith("/")
            and "\0" not in bucket
            and ".." not in bucket.split("/")
        ):
            return
        raise SinkError(
            f"{type(self.assigner).__name__}.get_bucket_id must return a folder below "
            f"{self.base_path}, as 'day=2020-01-31', got {bucket!r:.200}"
        )

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
                self._end_part(bucket)
        self._schedule_check()


class RowFileSinkOperator(FileSinkOperator):
    """Writes the bytes of each record."""

    def __init__(self, context: OperatorContext, descriptor: operators.FileSink) -> None:
        """Create the operator of one subtask."""
        super().__init__(context, descriptor)
        assert descriptor.encoder is not None, "of a row format"
        self.encode = _encode_function(context, descriptor.encoder)

    def process(self, value: Any, timestamp: int) -> None:
        """Write a record."""
        now_ms = self.now()
        bucket = self.assigner.get_bucket_id(value, timestamp if self.by_event_time else now_ms)
        part = self.parts.get(bucket)
        if part is None:
            part = self.parts[bucket] = self._new_part(bucket, now_ms)
        elif part.size_bytes > self.limit_bytes:
            self._end_part(bucket)
            part = self.parts[bucket] = self._new_part(bucket, now_ms)
        try:
            data = self.encode(value)
        except FormatError as error:
            note_place(error, part.final_path)
            raise
        part.write(data, now_ms)
