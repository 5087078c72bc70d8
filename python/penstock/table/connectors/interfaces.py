"""TableSource, TableSink and ConnectorFactory: the base classes of connectors."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from penstock.errors import DependencyError, InvalidProgramError, SourceError
from penstock.table.exceptions import ValidationException
from penstock.table.formats.registry import create_row_format, row_format_class
from penstock.table.options.connector_options import OptionSpec, positive, read_options, text
from penstock.table.plan.nodes import INSERT, UPDATE_BEFORE

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.datastream.data_stream import DataStream
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.graph.transformations import Transformation
    from penstock.table.formats.row_format import RowFormat
    from penstock.table.plan.predicates import Predicate
    from penstock.table.schema.resolved_schema import ResolvedSchema
    from penstock.table.types import DataType, RowType

INSERT_ONLY: frozenset[int] = frozenset({INSERT})
ALL_KINDS: frozenset[int] = frozenset(range(4))
#: Those of a table in which the last row of a key replaces the one before.
UPSERT_KINDS = ALL_KINDS - {UPDATE_BEFORE}

SINK_PARALLELISM = OptionSpec(positive)
"""The option ``sink.parallelism``."""


class ExecutionContext(Protocol):
    """Context in which a plan is translated to operators."""

    @property
    def environment(self) -> StreamExecutionEnvironment:
        """The environment of the operators."""

    @property
    def state_ttl_ms(self) -> int:
        """The time after which state that was not written expires; 0 for never."""


@dataclass(frozen=True)
class TableContext:
    """A table for a connector to read or write.

    Attributes:
        name: The full name, for messages.
        schema: The resolved columns.
        options: The options of the table except ``connector``.
        partition_keys: The columns that the table is partitioned by.
        is_streaming: Whether the query runs in streaming mode.
        settings: The options of the table environment.
    """

    name: str
    schema: ResolvedSchema
    options: Mapping[str, str]
    partition_keys: tuple[str, ...] = ()
    is_streaming: bool = True
    settings: Mapping[str, str] = field(default_factory=dict)

    @property
    def physical_type(self) -> RowType:
        """The type of the records."""
        return self.schema.to_physical_row_data_type()

    @property
    def key_names(self) -> list[str]:
        """The names of the primary key's columns; empty without one."""
        key = self.schema.get_primary_key()
        return [] if key is None else list(key.columns)

    def key_positions(self, row_type: RowType) -> list[int]:
        """Return the positions of the primary key's columns in rows of a type; or none."""
        names = row_type.field_names()
        return [names.index(name) for name in self.key_names]

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Add the name of the table to errors of creating its source or sink.

        Raises:
            ValidationException: An option is invalid, a package is not installed, or the stored
                table does not exist.
        """
        try:
            yield
        except (InvalidProgramError, DependencyError, SourceError) as error:
            raise ValidationException(f"Table {self.name}: {error}") from error


class TableSource(ABC):
    """Reads a table as record batches.

    A batch has the table's physical columns and then the wanted metadata columns; if ``kinds`` is
    not INSERT alone, a last column has the row kinds.

    Attributes:
        kinds: The possible row kinds.
        is_bounded: Whether the source is bounded.
        metadata: The types of the metadata that can be read, by key.
    """

    kinds: frozenset[int] = INSERT_ONLY
    is_bounded: bool = True
    metadata: Mapping[str, DataType] = {}

    def with_metadata(self, keys: Sequence[str]) -> TableSource:
        """Return a source that reads these metadata columns after the physical ones."""
        assert not keys
        return self

    def with_columns(self, positions: Sequence[int]) -> TableSource:
        """Return a source in whose batches only some physical columns need values.

        The batches still have all columns; the source may leave NULL in the others.
        """
        del positions
        return self

    def with_predicates(self, predicates: Sequence[Predicate]) -> TableSource | None:
        """Return a source that may leave out rows which do not satisfy all predicates.

        Returns:
            None if it would still read every row.
        """
        del predicates
        return None

    def explanation(self) -> str | None:
        """Return how rows are read, for EXPLAIN; None if there is only one way."""
        return None

    @abstractmethod
    def transformation(self, context: ExecutionContext) -> Transformation:
        """Return the operator whose records are the table's batches."""


class KeyLookup(Protocol):
    """Looks up rows by keys, in one subtask."""

    def register(self, metrics: Any) -> None:
        """Register the counters as metrics of an operator."""

    def lookup(
        self, names: Sequence[str], keys: Sequence[tuple[Any, ...]]
    ) -> Mapping[tuple[Any, ...], Sequence[tuple[Any, ...]]]:
        """Return the rows of each key: the values of all physical columns.

        Args:
            names: The columns of a key.
            keys: The keys, without NULL.

        Raises:
            SourceError: The rows cannot be read.
        """

    def close(self) -> None:
        """Release connections."""


class LookupTableSource(TableSource):
    """A source that can also look up rows by keys."""

    @abstractmethod
    def key_lookup(self) -> KeyLookup:
        """Return the lookup of one subtask."""


class TableSink(ABC):
    """Writes record batches into a table.

    A batch has the written columns of the table, and a last column with the row kinds if the query
    updates.

    Attributes:
        kinds: The row kinds that can be written.
        required: The positions and names of NOT NULL columns for which a query may produce NULL.
        upsert_key: The positions of the key of an upsert sink; empty for others.
        parallelism: The number of subtasks; None for the query's.
    """

    kinds: frozenset[int] = INSERT_ONLY
    required: Sequence[tuple[int, str]] = ()
    upsert_key: tuple[int, ...] = ()
    parallelism: int | None = None

    def overwriting(self, table: str) -> TableSink:
        """Return a sink that replaces the rows of the table, or of the partitions that it writes.

        Args:
            table: The name of the table, for errors.

        Raises:
            ValidationException: The connector cannot replace rows.
        """
        raise ValidationException(
            f"INSERT OVERWRITE requires that the connector of table '{table}' can replace rows: "
            "use INSERT INTO"
        )

    @abstractmethod
    def consume(self, transformation: Transformation, context: ExecutionContext) -> None:
        """Add the operators that write the records of a transformation."""


class ConnectorFactory:
    """Creates the sources and sinks of one connector.

    Attributes:
        identifier: The name in ``connector``.
        options: The options by key, without those of formats.
        prefixes: The prefixes of keys that are passed through.
    """

    identifier: ClassVar[str]
    options: ClassVar[Mapping[str, OptionSpec]] = {}
    prefixes: ClassVar[tuple[str, ...]] = ()

    def source(self, context: TableContext) -> TableSource:
        """Return the source of a table.

        Raises:
            ValidationException: The connector only writes, or an option is wrong.
        """
        raise ValidationException(
            f"Connector '{self.identifier}' can only be used as a sink: it cannot be read as "
            f"table {context.name}"
        )

    def sink(self, context: TableContext) -> TableSink:
        """Return the sink of a table.

        Raises:
            ValidationException: The connector only reads, or an option is wrong.
        """
        raise ValidationException(
            f"Connector '{self.identifier}' can only be used as a source: table {context.name} "
            "cannot be written"
        )

    def read_options(
        self, context: TableContext, *, format_keys: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Return the values of the connector's options; those of its formats are passed through.

        Args:
            context: The table.
            format_keys: The options that name formats.

        Raises:
            ValidationException: An option is missing or unknown, or its value is invalid.
        """
        prefixes = list(self.prefixes)
        for key in format_keys:
            named = context.options.get(key)
            if named is not None:
                prefixes.append(f"{key.removesuffix('format')}{named}.")
        specs = {**self.options, **{key: OptionSpec(text) for key in format_keys}}
        return read_options(
            f"connector '{self.identifier}'", context.options, specs, prefixes=prefixes
        )

    def row_format(
        self, context: TableContext, row_type: RowType, key: str = "format"
    ) -> RowFormat:
        """Return the format that an option names, for rows of a type.

        Raises:
            ValidationException: The option is missing, names no format, or an option of the
                format is invalid.
        """
        named = context.options.get(key)
        if named is None:
            raise ValidationException(
                f"Missing required options of connector '{self.identifier}': {key}"
            )
        prefix = f"{key.removesuffix('format')}{named}."
        row_format_class(named, self.identifier)
        options = {
            option.removeprefix(prefix): value
            for option, value in context.options.items()
            if option.startswith(prefix)
        }
        return create_row_format(named, self.identifier, row_type, options)


def stream_of(transformation: Transformation, context: ExecutionContext) -> DataStream[Any]:
    """Return the stream of a transformation, for the DataStream API."""
    from penstock.datastream.data_stream import DataStream

    return DataStream(context.environment, transformation)
