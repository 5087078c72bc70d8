"""RowFormat: conversions between messages of a format and rows of a table."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

from penstock.table.plan.nodes import INSERT

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa

    from penstock.table.options.connector_options import OptionSpec
    from penstock.table.types import DataType, RowType

#: The kind of a row and its values in the order of the row type.
KindedRow: TypeAlias = "tuple[int, Sequence[Any]]"

ALL_KINDS = frozenset(range(4))


class RowFormat(ABC):
    """Messages of one format, for rows of one type.

    Attributes:
        identifier: The name in ``format``.
        options: The options, by key without the format's prefix.
        kinds_read: The possible kinds of decoded rows.
        kinds_written: The kinds of rows that can be encoded.
        metadata: The types of the metadata in messages, by key.
        metadata_keys: The metadata columns that follow the others in rows.
        is_text: Whether messages contain no line feed, so that a file can have one per line.
    """

    identifier: ClassVar[str]
    options: ClassVar[Mapping[str, OptionSpec]] = {}
    kinds_read: ClassVar[frozenset[int]] = frozenset({INSERT})
    kinds_written: ClassVar[frozenset[int]] = frozenset({INSERT})
    metadata: ClassVar[Mapping[str, DataType]] = {}
    metadata_keys: tuple[str, ...] = ()
    is_text: ClassVar[bool] = True

    def __init__(self, row_type: RowType, options: Mapping[str, Any]) -> None:
        """Create a format for rows of a type, with the values of its options."""
        self.row_type = row_type
        self.values = options

    def with_metadata(self, keys: Sequence[str]) -> RowFormat:
        """Return a format whose rows have metadata columns after the others."""
        made = copy.copy(self)
        made.metadata_keys = tuple(keys)
        return made

    def with_columns(self, positions: Sequence[int]) -> RowFormat:
        """Return a format that reads some of the columns; others are None in its rows."""
        del positions
        return self

    @abstractmethod
    def decode(self, message: bytes) -> Iterable[KindedRow]:
        """Return the rows of a message.

        Raises:
            FormatError: The message is malformed, and the format does not skip it.
        """

    def why_not_in_columns(self) -> str | None:
        """Return why `columns` never reads messages; None if it may."""
        return f"as the format {self.identifier!r} has no columns"

    def columns(self, messages: Sequence[bytes]) -> list[pa.Array] | None:
        """Return the columns of messages that each hold one row, as `decode` reads them.

        Returns:
            None if `decode` must read the messages, or must explain an error.
        """
        del messages
        return None

    @abstractmethod
    def encode(self, kind: int, row: Sequence[Any]) -> bytes:
        """Return the message of a row, without a line feed."""
