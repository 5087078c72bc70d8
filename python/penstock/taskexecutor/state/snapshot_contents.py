"""Contents of snapshots: serialised keyed states, logs of changes, files of databases, lists."""

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

#: What says in the description of a database's files what they are.
FILES_FORMAT: Final = "rocksdb"
FILES_VERSION: Final = 3

#: The versions that are read.
FILES_VERSIONS: Final = (1, 2, FILES_VERSION)

KeyedStates = dict[str, tuple[str, Mapping[int, bytes]]]
"""Name of a keyed state → its kind and, by key group, its serialised entries."""


@dataclass(frozen=True)
class DatabaseFolder:
    """The files of a database on this machine, which nobody changes.

    Attributes:
        path: The folder that has them.
        meta: What describes them, to be serialised: see `docs/formats/checkpoint.md`.
        key_groups: The key groups that they have.
    """

    path: str
    meta: Mapping[str, Any]
    key_groups: range


@dataclass(frozen=True)
class DatabaseFiles:
    """The files of a database in a checkpoint.

    Attributes:
        meta: What describes them.
        files: Where they are, by their names.
        key_groups: The key groups that they have.
        storage: Reads them.
        copies: Where they are read if they are there; None for nowhere.
    """

    meta: Mapping[str, Any]
    files: Mapping[str, StreamHandle]
    key_groups: range
    storage: FileSystems
    copies: Copies | None = None


#: What the names of states begin with in a log: entries that have changed, and keys that are gone.
CHANGED: Final = "+"
REMOVED: Final = "-"

#: The kind of what a log has of the rows of a database.
ROWS: Final = "rows"


@dataclass(frozen=True)
class LogSegment:
    """Changes of keyed state from one snapshot to another.

    What is gone comes first: a key that was removed and set again is in both.

    Attributes:
        keyed: By the name of a state behind `CHANGED` its entries, and behind `REMOVED` those that
            are gone, without values.
        timers: The same of timers.
    """

    keyed: KeyedStates
    timers: KeyedStates


class EncodedValues(Sequence[Any]):
    """Values that are serialised, one by one; each access gives a new one.

    Attributes:
        blocks: Their bytes.
    """

    def __init__(self, blocks: Iterable[bytes] = ()) -> None:
        """Holds serialised values."""
        self.blocks = list(blocks)

    @staticmethod
    def of(values: Iterable[Any]) -> EncodedValues:
        """Serialises values.

        Raises:
            SerializationError: One cannot be.
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


def entries_of(data: bytes) -> Iterator[tuple[Any, Any, Any]]:
    """The entries of a key group, as (namespace, key, value)."""
    reader = Reader(data)
    namespace = None
    while reader.position < reader.end:
        if reader.take(1)[0] == NAMESPACE:
            namespace = decode_dynamic(reader)
        else:
            yield namespace, decode_dynamic(reader), decode_dynamic(reader)
