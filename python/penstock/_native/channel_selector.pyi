from collections.abc import Callable
from typing import Any, Self, final

from typing_extensions import disjoint_base

from penstock._native.codec import Codec
from penstock.serialization.key_types import KeyType

@disjoint_base
class ChannelSelector:
    @property
    def num_channels(self) -> int: ...
    @property
    def is_broadcast(self) -> bool: ...
    def __new__(cls, num_channels: int, *args: Any) -> Self: ...
    def select(self, value: Any) -> int | list[int]: ...

@final
class BroadcastSelector(ChannelSelector): ...

@final
class RoundRobinSelector(ChannelSelector): ...

@final
class ShuffleSelector(ChannelSelector): ...

@final
class KeyGroupSelector(ChannelSelector): ...

@final
class CustomSelector(ChannelSelector): ...

def make_selector(
    kind: str,
    num_channels: int,
    *,
    key_selector: Callable[[Any], Any] | None = None,
    key_type: KeyType = ...,
    elements: Codec | None = None,
    max_parallelism: int = 0,
    function: Callable[[Any, int], Any] | None = None,
    subtask_index: int = 0,
) -> ChannelSelector: ...
