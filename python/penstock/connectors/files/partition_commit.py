"""Partition commit: the moment from which readers may rely on a folder of a FileSink.

As in Flink's filesystem connector, a folder is committed when the trigger fires and all of its
files have their names.  Files that follow later commit their folder again.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote
from zoneinfo import ZoneInfo

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.connectors.files.buckets import (
    BucketAssigner,
    EventTimeBucketAssigner,
    check_zone,
    strftime_format,
)
from penstock.errors import InvalidProgramError, SinkError, WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.common.time import Duration, Time


@dataclass(frozen=True)
class PartitionTimes:
    """Derives the time of a partition from the name of its folder.

    Attributes:
        pattern: Java's pattern of the folder, for messages.
        strptime_format: The same for Python.
        timezone_id: The zone of the times.
    """

    pattern: str
    strptime_format: str
    timezone_id: str

    def __call__(self, partition: str) -> int:
        """Return the time of a partition, in ms since the epoch.

        Raises:
            SinkError: The folder does not match the pattern.
        """
        try:
            local = datetime.datetime.strptime(partition, self.strptime_format)
        except ValueError:
            raise SinkError(
                f"the folder {partition!r} does not match the pattern {self.pattern!r} of the "
                "partition time: pass partition_time the pattern of the bucket assigner"
            ) from None
        return epoch_ms(local, self.timezone_id)


def epoch_ms(time: datetime.datetime, timezone_id: str) -> int:
    """Return a time in ms since the epoch; one without a zone is of the given zone."""
    if time.tzinfo is None:
        # If clocks show an hour twice, the partition waits for the second one, the later time.
        time = time.replace(tzinfo=ZoneInfo(timezone_id), fold=1)
    return round(time.timestamp() * 1000)


def partition_values(partition: str) -> dict[str, str]:
    """Return the values of a partition whose folders are named ``key=value``, in their order."""
    pairs = [part.partition("=") for part in partition.split("/")]
    return {unquote(key): unquote(value) for key, sign, value in pairs if sign}


@checks_arguments
class PartitionCommitTrigger:
    """Condition under which a partition is committed; evaluated at each complete checkpoint.

    Attributes:
        delay_ms: The delay.
        time_of: Returns the time of a partition in ms; None for processing time.
    """

    def __init__(self, delay_ms: int, time_of: Callable[[str], int] | None = None) -> None:
        """Create a trigger; use the static methods."""
        self.delay_ms = delay_ms
        self.time_of = time_of

    @staticmethod
    def process_time(delay: Duration | Time | None = None) -> PartitionCommitTrigger:
        """Commit a partition when processing time reaches that of its first file plus a delay.

        Args:
            delay: The delay; none by default, so that each checkpoint with files of a partition
                commits it.

        Raises:
            InvalidProgramError: The delay is negative.
        """
        return PartitionCommitTrigger(0 if delay is None else _delay_ms(delay, "process_time"))

    @staticmethod
    def partition_time(
        time_of_partition: str | Callable[[str], int],
        delay: Duration | Time,
        timezone_id: str = "UTC",
    ) -> PartitionCommitTrigger:
        """Commit a partition when the watermark reaches the partition's time plus a delay.

        Args:
            time_of_partition: The pattern of folders, as for `BucketAssigner`, or a function
                that returns the time of a folder in ms since the epoch.
            delay: The length of a partition, such as one hour for hourly folders.
            timezone_id: The zone of a pattern's times.

        Raises:
            InvalidProgramError: The pattern has unknown letters, the zone is unknown, or the delay
                is negative.
        """
        if callable(time_of_partition):
            time_of = time_of_partition
        else:
            check_zone(timezone_id)
            format_str = strftime_format(time_of_partition)
            time_of = PartitionTimes(time_of_partition, format_str, timezone_id)
        return PartitionCommitTrigger(_delay_ms(delay, "partition_time"), time_of)

    def is_due(self, partition: str, since_ms: int, now_ms: int, watermark: int) -> bool:
        """Return whether a partition may be committed.

        Args:
            partition: Its folder, relative to the sink's.
            since_ms: The time of its first file, in ms.
            now_ms: The time of the machine, in ms.
            watermark: The watermark, in ms.
        """
        if self.time_of is None:
            return now_ms >= since_ms + self.delay_ms
        return watermark >= self.time_of(partition) + self.delay_ms


def _delay_ms(delay: Duration | Time, place: str) -> int:
    given = delay.to_milliseconds()
    if given < 0:
        raise InvalidProgramError(f"{place} takes a delay of at least 0 ms, got {given} ms")
    return given


@dataclass(frozen=True)
class PartitionCommitContext:
    """A partition that is committed.

    Attributes:
        partition: Its folder, relative to the sink's, as ``day=2020-01-31/hour=10``.
        path: The path or URL of the folder.
    """

    partition: str
    path: str
    _files: FileSystems

    @property
    def partition_spec(self) -> dict[str, str]:
        """The values of a partition whose folders are named ``key=value``, in their order."""
        return partition_values(self.partition)

    def write_file(self, name: str, data: bytes = b"") -> None:
        """Put a small file into the folder; it replaces one of the same name.

        Args:
            name: The name.  Readers of files skip names that begin with a dot or an underscore.
            data: The content.

        Raises:
            SinkError: The file cannot be written.
        """
        path = f"{self.path}/{name}"
        try:
            self._files.of(path).publish(path, data)
        except OSError as error:
            raise SinkError(f"the file sink cannot write {path}: {error}") from error


class PartitionCommitPolicy:
    """Action that commits a partition; subclasses have a `commit`."""

    @staticmethod
    def success_file(name: str = "_SUCCESS") -> PartitionCommitPolicy:
        """Put an empty file into the folder.

        Raises:
            InvalidProgramError: The name is empty or contains a slash.
        """
        if not name or "/" in name or "\0" in name:
            raise InvalidProgramError(
                f"the name of a success file must not be empty or contain /, got {name!r}"
            )
        return _SuccessFile(name)

    def commit(self, context: PartitionCommitContext) -> None:
        """Commit a partition.

        A partition is committed again if more files follow, or if the job fails before the next
        checkpoint: the action must be repeatable.
        """
        raise NotImplementedError(f"{type(self).__name__}.commit")


class _SuccessFile(PartitionCommitPolicy):
    def __init__(self, name: str) -> None:
        self._name = name

    def commit(self, context: PartitionCommitContext) -> None:
        """Write the file."""
        context.write_file(self._name)


class _Callback(PartitionCommitPolicy):
    def __init__(self, function: Callable[[PartitionCommitContext], object]) -> None:
        self._function = function

    def commit(self, context: PartitionCommitContext) -> None:
        """Call the function."""
        self._function(context)


def policy_of(given: Any) -> PartitionCommitPolicy:
    """Return the policy for a policy or a function of the context.

    Raises:
        WrongArgumentError: The argument is neither.
    """
    if isinstance(given, PartitionCommitPolicy):
        return given
    if callable(given) and not isinstance(given, type):
        return _Callback(given)
    raise WrongArgumentError(
        f"with_partition_commit takes PartitionCommitPolicy objects and functions, got {given!r}"
    )


def check_folders(assigner: BucketAssigner, trigger: PartitionCommitTrigger) -> None:
    """Check that a pattern of partition times is that of the folders that an assigner names.

    Raises:
        InvalidProgramError: The patterns or the time zones differ.
    """
    times = trigger.time_of
    is_named_by_time = type(assigner) in (BucketAssigner, EventTimeBucketAssigner)
    if not isinstance(times, PartitionTimes) or not is_named_by_time:
        return
    if assigner._strftime_format != times.strptime_format:
        raise InvalidProgramError(
            f"with_partition_commit: the bucket assigner does not name folders by "
            f"{times.pattern!r}: give the same pattern to it and to partition_time"
        )
    zone, named = assigner._timezone_id, times.timezone_id
    now = datetime.datetime.now(datetime.UTC)
    is_same = zone == named or (
        zone is None and now.astimezone().utcoffset() == now.astimezone(ZoneInfo(named)).utcoffset()
    )
    if not is_same:
        raise InvalidProgramError(
            f"with_partition_commit: the bucket assigner names folders in "
            f"{zone or 'the time zone of the machine'}, but partition_time reads them in {named}: "
            "give the same timezone_id to both"
        )


@dataclass(frozen=True)
class PartitionCommit:
    """Partition commit of a sink.

    Attributes:
        base_path: The folder of the sink.
        trigger: The condition of a commit.
        policies: The actions of a commit, in their order.
    """

    base_path: str
    trigger: PartitionCommitTrigger
    policies: tuple[PartitionCommitPolicy, ...]
