"""Partition commit of tables in files: trigger and policies of a FileSink from Flink's options."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.common.time import Duration
from penstock.connectors.files.buckets import check_zone
from penstock.connectors.files.partition_commit import (
    PartitionCommitPolicy,
    PartitionCommitTrigger,
    epoch_ms,
    partition_values,
)
from penstock.errors import InvalidProgramError, SinkError
from penstock.table.exceptions import ValidationException
from penstock.table.functions.casts import CastFailed, parse_timestamp
from penstock.table.functions.time_texts import parse_time_text
from penstock.table.options.connector_options import OptionSpec, duration_ms, text

if TYPE_CHECKING:
    import datetime
    from collections.abc import Callable, Mapping, Sequence

_TRIGGER: Final = "sink.partition-commit.trigger"
_KIND: Final = "sink.partition-commit.policy.kind"
_CLASS: Final = "sink.partition-commit.policy.class"
_PARAMETERS: Final = "sink.partition-commit.policy.class.parameters"
_EXTRACTOR: Final = "partition.time-extractor.kind"
_EXTRACTOR_CLASS: Final = "partition.time-extractor.class"


def _commit_trigger(given: str) -> str:
    """Return the trigger.

    Raises:
        ValueError: The trigger is unknown.
    """
    return _one_of(given, ("process-time", "partition-time"))


def _commit_policies(given: str) -> tuple[str, ...]:
    """Return the kinds of policies, a comma-separated list.

    Raises:
        ValueError: A kind is unknown.
    """
    kinds = tuple(kind.strip().lower() for kind in given.split(","))
    if "metastore" in kinds:
        raise ValueError(
            "there is no metastore that partitions could be added to: use success-file, custom, "
            "or both"
        )
    return tuple(_one_of(kind, ("success-file", "custom")) for kind in kinds)


def _extractor_kind(given: str) -> str:
    """Return the kind of the partition time extractor.

    Raises:
        ValueError: The kind is unknown.
    """
    return _one_of(given, ("default", "custom"))


def _one_of(given: str, known: Sequence[str]) -> str:
    value = given.strip().lower()
    if value not in known:
        raise ValueError(f"expected {' or '.join(known)}")
    return value


def _zone(given: str) -> str:
    """Return the name of a time zone.

    Raises:
        ValueError: The zone is unknown.
    """
    try:
        check_zone(given)
    except InvalidProgramError as error:
        raise ValueError(str(error)) from None
    return given


OPTIONS: Final[dict[str, OptionSpec]] = {
    _TRIGGER: OptionSpec(_commit_trigger, "process-time"),
    "sink.partition-commit.delay": OptionSpec(duration_ms, 0),
    "sink.partition-commit.watermark-time-zone": OptionSpec(_zone, "UTC"),
    _KIND: OptionSpec(_commit_policies),
    _CLASS: OptionSpec(text),
    _PARAMETERS: OptionSpec(text),
    "sink.partition-commit.success-file.name": OptionSpec(text, "_SUCCESS"),
    _EXTRACTOR: OptionSpec(_extractor_kind, "default"),
    _EXTRACTOR_CLASS: OptionSpec(text),
    "partition.time-extractor.timestamp-pattern": OptionSpec(text),
    "partition.time-extractor.timestamp-formatter": OptionSpec(text),
}
"""The options of partition commit."""


def partition_commit(
    values: Mapping[str, Any], keys: Sequence[str]
) -> tuple[PartitionCommitTrigger, list[PartitionCommitPolicy]] | None:
    """Return the trigger and the policies of a table; None without partitions or policies.

    Args:
        values: The values of the options.
        keys: The partition columns.

    Raises:
        ValidationException: A class is missing, or cannot be imported or constructed.
    """
    if not keys or not values[_KIND]:
        return None
    delay = Duration.of_millis(values["sink.partition-commit.delay"])
    if values[_TRIGGER] == "process-time":
        trigger = PartitionCommitTrigger.process_time(delay)
    else:
        trigger = PartitionCommitTrigger.partition_time(_times(values, keys), delay)
    return trigger, [_policy(kind, values) for kind in values[_KIND]]


def _policy(kind: str, values: Mapping[str, Any]) -> PartitionCommitPolicy:
    if kind == "success-file":
        return PartitionCommitPolicy.success_file(values["sink.partition-commit.success-file.name"])
    parameters = values[_PARAMETERS]
    arguments = [] if parameters is None else parameters.split(";")
    made = _construct(_CLASS, values[_CLASS], arguments)
    if not isinstance(made, PartitionCommitPolicy):
        raise ValidationException(
            f"Option '{_CLASS}' names {values[_CLASS]}, which is not a subclass of "
            "penstock.datastream.connectors.file_system.PartitionCommitPolicy"
        )
    return made


def _times(values: Mapping[str, Any], keys: Sequence[str]) -> Callable[[str], int]:
    if values[_EXTRACTOR] == "custom":
        extractor = _construct(_EXTRACTOR_CLASS, values[_EXTRACTOR_CLASS], [])
        if not callable(getattr(extractor, "extract", None)):
            raise ValidationException(
                f"Option '{_EXTRACTOR_CLASS}' names {values[_EXTRACTOR_CLASS]}, which has no "
                "method extract(partition_keys, partition_values) that returns a datetime"
            )
    else:
        extractor = _TimeOfValues(
            values["partition.time-extractor.timestamp-pattern"] or f"${keys[0]}",
            values["partition.time-extractor.timestamp-formatter"],
        )
    return _PartitionTimes(extractor, values["sink.partition-commit.watermark-time-zone"])


def _construct(option: str, path: str | None, arguments: Sequence[str]) -> Any:
    """Return an object of the class that an option names, as ``module.Class``.

    Raises:
        ValidationException: There is no such class, or it rejects the arguments.
    """
    if path is None:
        raise ValidationException(
            f"Option '{option}' is missing: name the class as package.module.Class"
        )
    module, _, name = path.strip().replace(":", ".").rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)(*arguments)
    except (ImportError, AttributeError, TypeError, ValueError) as error:
        raise ValidationException(
            f"Option '{option}': cannot construct {path}, which must name a class of Python as "
            f"package.module.Class: {error}"
        ) from error


@dataclass(frozen=True)
class _TimeOfValues:
    """Extracts a time from the values of partition columns, like Flink's default extractor.

    Attributes:
        pattern: A text in which ``$`` and the name of a column represent its value.
        formatter: Java's pattern of the result; None for an SQL timestamp or date.
    """

    pattern: str
    formatter: str | None

    def extract(self, keys: Sequence[str], values: Sequence[str]) -> datetime.datetime:
        """Return the time of a partition.

        Raises:
            SinkError: The values do not form a time.
        """
        found: str = self.pattern
        # Longer names first: $day must not be replaced within $day_hour.
        for key, value in sorted(zip(keys, values, strict=True), key=lambda pair: -len(pair[0])):
            found = found.replace(f"${key}", value)
        try:
            time = (
                parse_timestamp(found)
                if self.formatter is None
                else parse_time_text(found, self.formatter)
            )
        except CastFailed:
            time = None
        if time is None:
            raise SinkError(
                f"the partition {', '.join(values)} has no time: {found!r} is not a time in the "
                f"form {self.formatter or 'yyyy-MM-dd HH:mm:ss'}; set the options "
                "'partition.time-extractor.timestamp-pattern' and "
                "'partition.time-extractor.timestamp-formatter'"
            )
        return time


@dataclass(frozen=True)
class _PartitionTimes:
    """Returns the time of a folder such as ``day=2020-01-31/hour=10``, in ms since the epoch."""

    extractor: Any
    timezone_id: str

    def __call__(self, partition: str) -> int:
        pairs = partition_values(partition)
        time: datetime.datetime = self.extractor.extract(list(pairs), list(pairs.values()))
        return epoch_ms(time, self.timezone_id)
