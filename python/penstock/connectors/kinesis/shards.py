"""Shards of a stream, the position in each, and their assignment to subtasks."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from zlib import crc32

from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.values.instants import micros_of
from penstock.connectors.split_source import SourceSplit
from penstock.errors import InvalidProgramError, WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

INITIAL_POSITION: Final = "flink.stream.initpos"
INITIAL_TIMESTAMP: Final = "flink.stream.initpos.timestamp"

_POSITIONS: Final = ("LATEST", "TRIM_HORIZON", "AT_TIMESTAMP")
_HASH_KEYS: Final = 1 << 128


@dataclass
class ShardSplit(SourceSplit):
    """A shard, and the read position in it.

    Attributes:
        stream: The name of the stream.
        shard_id: The id of the shard in the stream.
        first_hash_key: The first hash key of the shard.
        last_hash_key: The last one.
        start_ms: The time from which a new shard is read, in ms; None for its beginning.
        sequence_number: The number of the last record that was emitted; None before the first.
    """

    stream: str
    shard_id: str
    first_hash_key: int = 0
    last_hash_key: int = _HASH_KEYS - 1
    start_ms: int | None = None
    sequence_number: str | None = None

    def split_id(self) -> str:
        """Return the stream and the shard."""
        return f"{self.stream}/{self.shard_id}"


class KinesisShardAssigner(NoJavaMembers):
    """Decides which subtask reads each shard."""

    def __init__(self, j_kinesis_shard_assigner: None = None) -> None:
        """Create an assigner; use the static methods.

        Raises:
            JvmOnlyError: A Java assigner was passed.
        """
        if j_kinesis_shard_assigner is not None:
            requires_jvm("KinesisShardAssigner(j_kinesis_shard_assigner)", "use of()")
        self._subtask_of: Callable[[ShardSplit, int], int] = _by_id

    @staticmethod
    def default_shard_assigner() -> KinesisShardAssigner:
        """Return an assigner by the hash of stream and shard id."""
        return KinesisShardAssigner.of(_by_id)

    @staticmethod
    def uniform_shard_assigner() -> KinesisShardAssigner:
        """Return an assigner by the ranges of hash keys, for equal shares of subtasks."""
        return KinesisShardAssigner.of(_by_hash_keys)

    @staticmethod
    def of(function: Callable[[ShardSplit, int], int]) -> KinesisShardAssigner:
        """Return an assigner that calls a function (beyond PyFlink).

        Args:
            function: Function that returns the subtask of a shard, with ``stream``, ``shard_id``,
                ``first_hash_key`` and ``last_hash_key``, for a number of subtasks.
        """
        given: Any = function
        if not callable(given):
            raise WrongArgumentError(f"KinesisShardAssigner.of takes a function, got {function!r}")
        made = KinesisShardAssigner()
        made._subtask_of = function
        return made

    def subtask_of(self, shard: ShardSplit, parallelism: int) -> int:
        """Return the subtask that reads a shard."""
        return self._subtask_of(shard, parallelism) % parallelism


def _by_id(shard: ShardSplit, parallelism: int) -> int:
    return crc32(shard.split_id().encode()) % parallelism


def _by_hash_keys(shard: ShardSplit, parallelism: int) -> int:
    middle = (shard.first_hash_key + shard.last_hash_key) // 2
    return middle * parallelism // _HASH_KEYS


@dataclass(frozen=True)
class InitialPosition:
    """The position from which the shards of a new job are read.

    Attributes:
        name: ``LATEST``, ``TRIM_HORIZON`` or ``AT_TIMESTAMP``.
        timestamp_ms: The time of ``AT_TIMESTAMP``, in ms.
    """

    name: str = "LATEST"
    timestamp_ms: int | None = None

    @staticmethod
    def of(used_by: str, properties: Mapping[str, str]) -> InitialPosition:
        """Return the position that the properties describe.

        Raises:
            InvalidProgramError: The position is unknown, or its time is missing or malformed.
        """
        name = properties.get(INITIAL_POSITION, "LATEST").upper()
        if name not in _POSITIONS:
            raise InvalidProgramError(
                f"{used_by}: '{INITIAL_POSITION}' is one of {', '.join(_POSITIONS)}, got {name!r}"
            )
        if name != "AT_TIMESTAMP":
            return InitialPosition(name)
        given = properties.get(INITIAL_TIMESTAMP, "")
        return InitialPosition(name, _milliseconds(used_by, given))

    def start_ms(self, now_ms: int) -> int | None:
        """Return the time from which existing shards are read; None for their beginning.

        ``LATEST`` becomes the current time: a job that fails before it has read a record must not
        skip records that arrive meanwhile.
        """
        return now_ms if self.name == "LATEST" else self.timestamp_ms


def _milliseconds(used_by: str, given: str) -> int:
    """Parse a time: seconds since the epoch, or ISO 8601."""
    try:
        return int(float(given) * 1000)
    except (ValueError, OverflowError):
        pass
    try:
        return micros_of(datetime.datetime.fromisoformat(given)) // 1000
    except ValueError:
        raise InvalidProgramError(
            f"{used_by}: '{INITIAL_TIMESTAMP}' must be a time such as 2024-05-06T07:08:09+00:00, "
            f"or seconds since the epoch, got {given!r}"
        ) from None
