from collections.abc import Collection
from typing import Any, Self, final

@final
class KeyGroupEntries:
    @property
    def num_added(self) -> int: ...
    @property
    def added_bytes(self) -> int: ...
    def __new__(
        cls,
        kind: str | None,
        max_parallelism: int,
        key_groups: range,
        has_timers: bool,
        kept: Collection[int] = (),
    ) -> Self: ...
    def add_removed(self, namespace: Any, number: int, identity: Any) -> None: ...
    def key_groups(self) -> list[int]: ...
    def take(self, key_group: int) -> bytes: ...
