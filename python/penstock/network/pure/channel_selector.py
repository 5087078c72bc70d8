"""Channel selectors in plain Python, which choose the subpartition of a record."""

from __future__ import annotations

import operator
import random
from typing import TYPE_CHECKING, Any

from penstock.errors import InvalidProgramError
from penstock.graph.key_groups import key_group, operator_index
from penstock.network.pure.arguments import truncated
from penstock.serialization.key_types import UNDECLARED, KeyType, exact_type
from penstock.serialization.pure.key_hash import key_hash
from penstock.serialization.pure.uncopied import Uncopied

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from penstock.serialization.codec import Codec

#: The result of ``select`` for a record that goes to every channel.
ALL_CHANNELS = -1


class ChannelSelector(Uncopied):
    """Chooses a channel for each record; this one always chooses channel 0."""

    def __init__(self, num_channels: int) -> None:
        self.num_channels = num_channels

    @property
    def is_broadcast(self) -> bool:
        """Return whether every record goes to every channel."""
        return False

    def select(self, value: Any) -> int | list[int]:  # noqa: ARG002
        """Return the channel of a record, :data:`ALL_CHANNELS`, or a list of several channels."""
        return 0


class _BroadcastSelector(ChannelSelector):
    """BROADCAST: all channels."""

    @property
    def is_broadcast(self) -> bool:
        return True

    def select(self, value: Any) -> int:  # noqa: ARG002
        return ALL_CHANNELS


class _RoundRobinSelector(ChannelSelector):
    """REBALANCE and RESCALE: one channel after the other, from the one after ``start``."""

    def __init__(self, num_channels: int, start: int) -> None:
        super().__init__(num_channels)
        self.current = start

    def select(self, value: Any) -> int:  # noqa: ARG002
        following = self.current + 1
        self.current = following if following < self.num_channels else 0
        return self.current


class _ShuffleSelector(ChannelSelector):
    """SHUFFLE: any channel with equal probability."""

    def __init__(self, num_channels: int) -> None:
        super().__init__(num_channels)
        self.random = random.Random()

    def select(self, value: Any) -> int:  # noqa: ARG002
        return self.random.randrange(self.num_channels)


class _KeyGroupSelector(ChannelSelector):
    """KEY_GROUP: the subtask that owns the key group of the record's key."""

    def __init__(
        self,
        num_channels: int,
        key_selector: Callable[[Any], Any],
        key_type: KeyType,
        max_parallelism: int,
        elements: Codec | None,
    ) -> None:
        super().__init__(num_channels)
        self.key_selector = key_selector
        self.convert = key_type.convert
        self.elements = elements
        self.is_kept = None if elements is None else exact_type(elements.schema).has
        self.hash = key_hash(key_type.kind)
        self.channels = [
            operator_index(max_parallelism, num_channels, group) for group in range(max_parallelism)
        ]

    def select(self, value: Any) -> int:
        if self.is_kept is not None and not self.is_kept(value):
            # The receiver computes the key of the received value, so the sender must too.
            assert self.elements is not None
            value = self.elements.decode(self.elements.encode(value))
        key = self.key_selector(value)
        if self.convert is not None:
            key = self.convert(key)
        code = self.hash(key)
        return self.channels[key_group(code, len(self.channels))]


class _CustomSelector(ChannelSelector):
    """CUSTOM: the channel that the user's partitioner returns for the record's key."""

    def __init__(
        self,
        num_channels: int,
        key_selector: Callable[[Any], Any],
        function: Callable[[Any, int], Any],
    ) -> None:
        super().__init__(num_channels)
        self.key_selector = key_selector
        self.function = function

    def select(self, value: Any) -> int | list[int]:
        channel = self.function(self.key_selector(value), self.num_channels)
        if type(channel) is list or type(channel) is tuple:
            return checked_channels(channel, self.num_channels)
        return checked_channel(channel, self.num_channels)


def checked_channels(channels: Sequence[Any], num_channels: int) -> list[int]:
    """Return the channels that a user's partitioner chose, after a check.

    Raises:
        InvalidProgramError: One of them is not a channel, or is named twice.
    """
    checked = [checked_channel(channel, num_channels) for channel in channels]
    if len(set(checked)) < len(checked):
        raise InvalidProgramError(
            f"the partitioner returned {channels!r}, which names a channel twice"
        )
    return checked


def checked_channel(channel: Any, num_channels: int) -> int:
    """Return the channel that a user's partitioner chose, after a check.

    Raises:
        InvalidProgramError: the result is not a channel.
    """
    try:
        index = operator.index(channel)
    except TypeError:
        index = -1
    if not 0 <= index < num_channels:
        raise InvalidProgramError(
            f"the partitioner returned {channel!r}, which is none of the {num_channels} channels "
            f"0 to {num_channels - 1}"
        )
    return index


def identity(value: Any) -> Any:
    """Return the record itself: the key selector of a partitioner of whole records."""
    return value


def make_selector(
    kind: str,
    num_channels: int,
    *,
    key_selector: Callable[[Any], Any] | None = None,
    key_type: KeyType = UNDECLARED,
    elements: Codec | None = None,
    max_parallelism: int = 0,
    function: Callable[[Any, int], Any] | None = None,
    subtask_index: int = 0,  # noqa: ARG001  every kind so far chooses alike on all subtasks
) -> ChannelSelector:
    """Return the selector of a partitioner.

    Args:
        kind: FORWARD, REBALANCE, RESCALE, SHUFFLE, BROADCAST, GLOBAL, KEY_GROUP or CUSTOM.
        num_channels: Subpartitions to choose from.
        key_selector: For KEY_GROUP and CUSTOM; the default of CUSTOM is the record itself.
        key_type: For KEY_GROUP, the declared type of the keys.
        elements: For KEY_GROUP, the codec of the records if sending may change their keys.
        max_parallelism: For KEY_GROUP, the number of key groups.
        function: For CUSTOM, called with key and number of channels; returns a channel, or a list
            or tuple of any number of channels.
        subtask_index: The index of the producer.

    Raises:
        ValueError: an unknown kind, or a required argument is missing.
    """
    num_channels, max_parallelism = truncated(num_channels, 32), truncated(max_parallelism, 32)
    if num_channels < 1:
        raise ValueError(f"{num_channels} channels")
    match kind:
        case "FORWARD" | "GLOBAL":
            return ChannelSelector(num_channels)
        case "REBALANCE":
            return _RoundRobinSelector(num_channels, random.randrange(num_channels))
        case "RESCALE":
            return _RoundRobinSelector(num_channels, -1)
        case "SHUFFLE":
            return _ShuffleSelector(num_channels)
        case "BROADCAST":
            return _BroadcastSelector(num_channels)
        case "KEY_GROUP":
            if key_selector is None or max_parallelism < num_channels:
                raise ValueError(
                    "KEY_GROUP needs a key selector and at least as many key groups as channels, "
                    f"not {max_parallelism} for {num_channels}"
                )
            return _KeyGroupSelector(
                num_channels, key_selector, key_type, max_parallelism, elements
            )
        case "CUSTOM":
            if function is None:
                raise ValueError("CUSTOM needs a function")
            return _CustomSelector(num_channels, key_selector or identity, function)
    raise ValueError(f"unknown partitioner kind {kind!r}")
