"""Contents of snapshots: keyed states, logs of changes, database files, and lists."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from penstock.serialization.pure.dynamic_codec import decode_dynamic
from penstock.serialization.pure.value_bytes import Reader
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.state.key_group_entries import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.checkpoint_storage.file_systems import FileSystems
    from penstock.checkpoint_storage.handles import StreamHandle
    from penstock.checkpoint_storage.streams import Copies

#: Format name and version in the description of a database's files.
FILES_FORMAT: Final = "rocksdb"
FILES_VERSION: Final = 3

#: The versions that can be read.
FILES_VERSIONS: Final = (1, 2, FILES_VERSION)

KeyedStates = dict[str, tuple[str, Mapping[int, bytes]]]
"""Name of a keyed state → its kind and, by key group, its serialised entries."""


@dataclass(frozen=True)
class DatabaseFolder:
    """The files of a database on this machine, which do not change.

    Attributes:
        path: The folder of the files.
        meta: Their description, to be serialised: see `docs/formats/checkpoint.md`.
        key_groups: The key groups that they contain.
    """

    path: str
    meta: Mapping[str, Any]
    key_groups: range


@dataclass(frozen=True)
class DatabaseFiles:
    """The files of a database in a checkpoint.

    Attributes:
        meta: Their description.
        files: Their locations, by name.
        key_groups: The key groups that they contain.
        storage: Reads them.
        copies: Local copies, read where present; None for none.
    """

    meta: Mapping[str, Any]
    files: Mapping[str, StreamHandle]
    key_groups: range
    storage: FileSystems
    copies: Copies | None = None


#: Prefixes of state names in a log: changed entries, and removed keys.
CHANGED: Final = "+"
REMOVED: Final = "-"

#: The kind of logged database rows.
ROWS: Final = "rows"


@dataclass(frozen=True)
class LogSegment:
    """Changes of keyed state from one snapshot to another.

    Removals are applied first: a key that was removed and set again is in both.

    Attributes:
        keyed: By `CHANGED` and the name of a state its changed entries, and by `REMOVED` and the
            name the removed ones, without values.
        timers: The same for timers.
    """

    keyed: KeyedStates
    timers: KeyedStates


class EncodedValues(Sequence[Any]):
    """Serialised values; each access decodes a new object.

    Attributes:
        blocks: The bytes of each value.
    """

    def __init__(self, blocks: Iterable[bytes] = ()) -> None:
        """Wrap serialised values."""
        self.blocks = list(blocks)

    @staticmethod
    def of(values: Iterable[object]) -> EncodedValues:
        """Serialise values.

        Raises:
            SerializationError: A value cannot be serialised.
        """
        encode = TypeSerializer[Any]().serialize
        return EncodedValues([encode(value) for value in values])

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return EncodedValues(self.blocks[index])
        return TypeSerializer[Any]().deserialize(self.blocks[index])

    def __len__(self) -> int:
        return len(self.blocks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"EncodedValues.of({list(self)!r})"


def entries_of(data: bytes) -> Iterator[tuple[object, object, object]]:
    """Yield the entries of a key group as (namespace, key, value)."""
    reader = Reader(data)
    namespace = None
    while reader.position < reader.end:
        if reader.take(1)[0] == NAMESPACE:
            namespace = decode_dynamic(reader)
        else:
            yield namespace, decode_dynamic(reader), decode_dynamic(reader)
