"""Buckets, names and rolling of a FileSink's files."""

from __future__ import annotations

import datetime
import re
from importlib import import_module
from typing import Any, NoReturn
from zoneinfo import ZoneInfo

from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.constants import MIN_LONG_VALUE
from penstock.errors import InvalidProgramError, SinkError


@checks_arguments
class BucketAssigner:
    """Assigner of records to folders below the sink's; subclasses override `get_bucket_id`."""

    def __init__(self, strftime_format: str | None = None, timezone_id: str | None = None) -> None:
        """Create an assigner; for the built-in ones use the static methods."""
        self._strftime_format = strftime_format
        self._timezone_id = timezone_id
        # A name is valid for a whole second, and converting to local time is slow.
        self._second: int | None = None
        self._name = ""

    @staticmethod
    def base_path_bucket_assigner() -> BucketAssigner:
        """Write all records into the sink's folder itself."""
        return BucketAssigner()

    @staticmethod
    def date_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str | None = None
    ) -> BucketAssigner:
        """Write records into a folder named after the time at which they are written.

        Args:
            format_str: Java's pattern: the letters y M d H m s, and quoted text.
            timezone_id: As "Europe/Berlin"; the machine's zone when None.

        Raises:
            InvalidProgramError: The pattern has other letters, or the zone is unknown.
        """
        if timezone_id is not None:
            check_zone(timezone_id)
        return BucketAssigner(strftime_format(format_str), timezone_id)

    @staticmethod
    def event_time_bucket_assigner(
        format_str: str = "yyyy-MM-dd--HH", timezone_id: str = "UTC"
    ) -> BucketAssigner:
        """Write records into a folder named after their timestamps (beyond PyFlink).

        Args:
            format_str: A pattern, as for `date_time_bucket_assigner`.
            timezone_id: As "Europe/Berlin".

        Raises:
            InvalidProgramError: The pattern has other letters, or the zone is unknown.
        """
        check_zone(timezone_id)
        return EventTimeBucketAssigner(strftime_format(format_str), timezone_id)

    def get_bucket_id(self, element: Any, processing_time_ms: int) -> str:  # noqa: ARG002
        """Return the folder of a record, relative to the sink's; empty for the sink's own."""
        if self._strftime_format is None:
            return ""
        second = processing_time_ms // 1000
        if second != self._second:
            zone = None if self._timezone_id is None else ZoneInfo(self._timezone_id)
            time = datetime.datetime.fromtimestamp(second, tz=zone)
            self._name = time.strftime(self._strftime_format)
            self._second = second
        return self._name

    def get_java_object(self) -> NoReturn:
        """Reject the call: there is no Java object behind it."""
        requires_jvm("BucketAssigner.get_java_object", "use the assigner itself")


class EventTimeBucketAssigner(BucketAssigner):
    """Assigner to folders that are named after the timestamps of records."""

    def get_bucket_id(self, element: Any, timestamp_ms: int) -> str:
        """Return the folder of a record.

        Args:
            element: The record.
            timestamp_ms: Its timestamp, in ms.

        Raises:
            SinkError: The record has no timestamp.
        """
        if timestamp_ms == MIN_LONG_VALUE:
            raise SinkError(
                "event_time_bucket_assigner needs records with timestamps: call "
                "assign_timestamps_and_watermarks before sink_to"
            )
        return super().get_bucket_id(element, timestamp_ms)


def check_zone(timezone_id: str) -> None:
    """Reject an unknown time zone.

    Raises:
        InvalidProgramError: It is unknown.
    """
    try:
        ZoneInfo(timezone_id)
    except (KeyError, ValueError, OSError):
        raise InvalidProgramError(f"unknown time zone {timezone_id!r}") from None


_PATTERN = re.compile(r"'[^']*'|y+|M+|d+|H+|m+|s+|[^A-Za-z']+|.")
_FIELDS = {
    "yyyy": "%Y", "yy": "%y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S",
}  # fmt: skip


def strftime_format(pattern: str) -> str:
    """Convert Java's pattern of a date to Python's format.

    Raises:
        InvalidProgramError: The pattern has unknown letters.
    """
    parts = []
    for part in _PATTERN.findall(pattern):
        if part in _FIELDS:
            parts.append(_FIELDS[part])
        elif part[0].isalpha():
            raise InvalidProgramError(
                f"date pattern {pattern!r}: unknown field {part!r}; use {', '.join(_FIELDS)}"
            )
        else:
            parts.append(part.strip("'").replace("%", "%%"))
    return "".join(parts)


@checks_arguments
class RollingPolicy:
    """Policy that decides when a file is finished and a new one begins.

    Attributes:
        part_size_bytes: A file of this size is finished; None for any size.
        rollover_interval_ms: A file of this age is finished; None for any age.
        inactivity_interval_ms: A file not written to for this long is finished; None for never.
    """

    def __init__(
        self,
        part_size_bytes: int | None,
        rollover_interval_ms: int | None,
        inactivity_interval_ms: int | None,
    ) -> None:
        """Create a policy; use the static methods."""
        self.part_size_bytes = part_size_bytes
        self.rollover_interval_ms = rollover_interval_ms
        self.inactivity_interval_ms = inactivity_interval_ms

    @staticmethod
    def default_rolling_policy(
        part_size: int = 1024 * 1024 * 128,
        rollover_interval: int = 60 * 1000,
        inactivity_interval: int = 60 * 1000,
    ) -> DefaultRollingPolicy:
        """Finish files by size in bytes, by age and by inactivity in ms.

        Raises:
            InvalidProgramError: One of them is not positive.
        """
        for value in (part_size, rollover_interval, inactivity_interval):
            if value <= 0:
                raise InvalidProgramError(f"sizes and intervals must be positive, got {value}")
        return DefaultRollingPolicy(part_size, rollover_interval, inactivity_interval)

    @staticmethod
    def on_checkpoint_rolling_policy() -> OnCheckpointRollingPolicy:
        """Finish files at every checkpoint, and not in between."""
        return OnCheckpointRollingPolicy(None, None, None)

    def get_java_object(self) -> NoReturn:
        """Reject the call: there is no Java object behind it."""
        requires_jvm("RollingPolicy.get_java_object", "use the policy itself")


class DefaultRollingPolicy(RollingPolicy):
    """Policy that finishes files by size, age and inactivity."""

    @staticmethod
    def builder() -> Any:
        """Return the builder that PyFlink 1 had; use `default_rolling_policy`."""
        import_module("penstock.flink_1").say_once(
            "DefaultRollingPolicy.builder()", "write RollingPolicy.default_rolling_policy(…)"
        )
        return import_module("penstock.flink_1.files").PolicyBuilder()


class OnCheckpointRollingPolicy(RollingPolicy):
    """Policy that finishes files at every checkpoint."""


def _check_name(method: str, part: str) -> None:
    if "/" in part or "\0" in part:
        raise InvalidProgramError(
            f"{method} takes a part of a file's name, without /, got {part!r}"
        )


@checks_arguments
class OutputFileConfig(NoJavaMembers):
    """Names of part files: prefix, subtask and number, suffix.

    Attributes:
        has_own_suffix: False if the program chose no suffix, so that the format's is used.
    """

    def __init__(self, part_prefix: str, part_suffix: str) -> None:
        """Create a configuration."""
        self._part_prefix = part_prefix
        self._part_suffix = part_suffix
        self.has_own_suffix = True

    @staticmethod
    def builder() -> OutputFileConfig.OutputFileConfigBuilder:
        """Return a builder of a configuration."""
        return OutputFileConfig.OutputFileConfigBuilder()

    def get_part_prefix(self) -> str:
        """Return the prefix of part files."""
        return self._part_prefix

    def get_part_suffix(self) -> str:
        """Return the suffix of part files."""
        return self._part_suffix

    def get_java_object(self) -> NoReturn:
        """Reject the call: there is no Java object behind it."""
        requires_jvm("OutputFileConfig.get_java_object", "use the configuration itself")

    @checks_arguments
    class OutputFileConfigBuilder(NoJavaMembers):
        """Builder of an OutputFileConfig."""

        def __init__(self) -> None:
            self._part_prefix = "part"
            self._part_suffix: str | None = None

        def with_part_prefix(self, prefix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the prefix.

            Raises:
                InvalidProgramError: It contains a slash, and so would name another folder.
            """
            _check_name("with_part_prefix", prefix)
            self._part_prefix = prefix
            return self

        def with_part_suffix(self, suffix: str) -> OutputFileConfig.OutputFileConfigBuilder:
            """Set the suffix.

            Raises:
                InvalidProgramError: It contains a slash, and so would name another folder.
            """
            _check_name("with_part_suffix", suffix)
            self._part_suffix = suffix
            return self

        def build(self) -> OutputFileConfig:
            """Return the configuration."""
            made = OutputFileConfig(self._part_prefix, self._part_suffix or "")
            made.has_own_suffix = self._part_suffix is not None
            return made
