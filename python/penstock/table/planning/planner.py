"""Planner: binds statements of an environment, and returns the nodes of its tables."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.common.options.value_types import ChoiceType
from penstock.table.connectors.interfaces import TableContext, TableSource
from penstock.table.connectors.registry import connector_of
from penstock.table.exceptions import TableException, ValidationException
from penstock.table.functions.evaluation import Session
from penstock.table.options.connector_options import OptionSpec, duration_ms, read_options
from penstock.table.options.table_options import (
    ALIGNMENT_GROUP,
    ALIGNMENT_MAX_DRIFT,
    ALIGNMENT_UPDATE_INTERVAL,
    DYNAMIC_OPTIONS,
    SOURCE_IDLE_TIMEOUT,
    WATERMARK_EMIT_STRATEGY,
)
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.binder import Binder
from penstock.table.plan.context import PlanningContext
from penstock.table.plan.schema import Field, Schema, without_time
from penstock.table.schema.resolution import resolve_schema
from penstock.table.schema.resolved_schema import (
    ComputedColumn,
    MetadataColumn,
    PhysicalColumn,
    ResolvedSchema,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.graph.transformations import Transformation
    from penstock.table import types
    from penstock.table.catalog.manager import CatalogManager
    from penstock.table.catalog.objects import CatalogBaseTable, ObjectIdentifier
    from penstock.table.connectors.interfaces import ExecutionContext, TableSink
    from penstock.table.plan.nodes import Node
    from penstock.table.table_config import TableConfig

_WATERMARK_OPTIONS: Final = {
    SOURCE_IDLE_TIMEOUT: OptionSpec(duration_ms),
    # A watermark after each row is one of the times at which on-periodic may emit it.
    WATERMARK_EMIT_STRATEGY: OptionSpec(ChoiceType("on-periodic", "on-event").parse),
    ALIGNMENT_GROUP: OptionSpec(str),
    ALIGNMENT_MAX_DRIFT: OptionSpec(duration_ms),
    ALIGNMENT_UPDATE_INTERVAL: OptionSpec(duration_ms),
}
"""Options of watermarks, which a table of any connector accepts."""


class Planner:
    """Binds statements of one environment.

    Args:
        catalogs: The catalogs.
        config: The options.
        is_streaming: Whether queries run in streaming mode.
    """

    def __init__(self, catalogs: CatalogManager, config: TableConfig, is_streaming: bool) -> None:
        self._catalogs = catalogs
        self._config = config
        self.is_streaming = is_streaming
        self._views: list[ObjectIdentifier] = []

    def session(self) -> Session:
        """Return the settings on which results of functions depend."""
        query_time_ms = None if self.is_streaming else time.time_ns() // 1_000_000
        return Session(
            self._config.get_local_timezone(), query_time_ms, self._catalogs.current_database
        )

    def context(self, text: str = "") -> PlanningContext:
        """Return the context of a statement."""
        return PlanningContext(
            find_table=self.find_table,
            find_function=self._catalogs.find_function,
            full_path=self._full_path,
            list_tables=self._catalogs.list_tables,
            is_streaming=self.is_streaming,
            session=self.session(),
            text=text,
            settings=self._config.to_map(),
        )

    def _full_path(self, path: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._catalogs.identifier(path).to_list())

    def query(self, tree: Any, text: str = "") -> Node:
        """Return the node of a query.

        Raises:
            TableException: The query is invalid or unsupported.
        """
        from penstock.table.plan.queries import bind_query

        return bind_query(tree, self.context(text))

    def expanded_text(self, tree: Any, text: str) -> str | None:
        """Return a query with all names written out; None if a part of it stays as written.

        Raises:
            TableException: The query is invalid, or cannot be run.
        """
        from penstock.table.plan.expanded_text import expanded_text

        return expanded_text(
            tree,
            self.context(text),
            object_path=lambda path: self._catalogs.identifier(path).to_list(),
            function_path=self._catalogs.function_path,
        )

    def resolved(self, table: CatalogBaseTable) -> ResolvedSchema:
        """Return the columns of a table or view with their types.

        Raises:
            ValidationException: The declaration is invalid.
        """
        if table.resolved is not None:
            return table.resolved
        if table.is_view:
            return schema_of_node(self._view(table))
        return resolve_schema(table.schema, self.context())

    def shown(self, schema: ResolvedSchema) -> ResolvedSchema:
        """Return a schema as programs see it: in batch mode, Flink has no event-time attributes."""
        if self.is_streaming:
            return schema
        columns = [
            c.copy(without_time(c.data_type)) if getattr(c.data_type, "shows_rowtime", False) else c
            for c in schema.columns
        ]
        return ResolvedSchema(columns, schema.watermark_specs, schema.primary_key)

    # Tables -----------------------------------------------------------------------------------

    def find_table(
        self, path: Sequence[str], hints: Mapping[str, str] | None = None
    ) -> Node | None:
        """Return the node of a table or view; None if the name does not exist."""
        identifier = self._catalogs.identifier(path)
        table = self._catalogs.find_table(identifier)
        if table is None:
            return None
        if not table.is_view:
            return self.scan(identifier, table, hints or {})
        if hints:
            raise ValidationException(
                f"View '{identifier.as_summary_string()}' cannot have OPTIONS: they are for tables"
            )
        if identifier in self._views:
            raise ValidationException(f"View '{identifier.as_summary_string()}' reads itself")
        self._views.append(identifier)
        try:
            return self._view(table)
        finally:
            self._views.pop()

    def _view(self, table: CatalogBaseTable) -> Node:
        if table.plan is not None:
            plan: Node = table.plan
            return plan
        assert table.query is not None
        from penstock.table.plan.queries import bind_query, renamed
        from penstock.table.sql.parsing import parse_query

        node = bind_query(parse_query(table.query), self._context_of_view(table))
        names = [column.name for column in table.schema.columns]
        return renamed(node, names, "") if names else node

    def _context_of_view(self, table: CatalogBaseTable) -> PlanningContext:
        """Return an environment in which short names are relative to the database of a view."""
        namespace = table.namespace
        context = self.context(table.query or "")
        if namespace is None:
            return context
        catalogs = self._catalogs
        return replace(
            context,
            find_table=lambda path, hints: self.find_table(
                tuple(catalogs.identifier(path, namespace).to_list()), hints
            ),
            find_function=lambda path: catalogs.find_function(path, namespace),
            full_path=lambda path: tuple(catalogs.identifier(path, namespace).to_list()),
        )

    def table_context(
        self,
        identifier: ObjectIdentifier,
        table: CatalogBaseTable,
        hints: Mapping[str, str] | None = None,
    ) -> TableContext:
        """Return the table's description for its connector.

        Raises:
            ValidationException: The statement has options, and the configuration forbids them.
        """
        if hints and (self._config.get(DYNAMIC_OPTIONS, "true") or "").lower() == "false":
            raise ValidationException(
                "The 'OPTIONS' hint is allowed only when the config option "
                f"'{DYNAMIC_OPTIONS}' is set to true."
            )
        options = {**table.options, **(hints or {})}
        options.pop("connector", None)
        options = {key: text for key, text in options.items() if key not in _WATERMARK_OPTIONS}
        return TableContext(
            identifier.as_summary_string(),
            self.resolved(table),
            options,
            tuple(table.partition_keys),
            self.is_streaming,
            self._config.to_map(),
        )

    def scan(
        self,
        identifier: ObjectIdentifier,
        table: CatalogBaseTable,
        hints: Mapping[str, str] | None = None,
    ) -> Node:
        """Return the node that reads a table: its scan, computed columns and watermark.

        Raises:
            ValidationException: The connector is write-only, or an option is invalid.
        """
        name = identifier.as_summary_string()
        if table.source is not None:
            source: TableSource = table.source
            return scan_node(name, source, self.resolved(table), self.context())
        context = self.table_context(identifier, table, hints)
        options = {**table.options, **(hints or {})}
        source = connector_of(options, name).source(context)
        origin = tuple(sorted(options.items()))
        node = scan_node(name, source, context.schema, self.context(), origin)
        idle_timeout_ms = _watermark_options(name, options)
        if isinstance(node, n.AssignWatermarks) and idle_timeout_ms is not None:
            node = replace(node, idle_timeout_ms=idle_timeout_ms)
        return node

    def described(self, path: Sequence[str]) -> Node | None:
        """Return the node of a table or view, even of a write-only table.

        The node of such a table has columns, but cannot be executed.
        """
        try:
            return self.find_table(path)
        except ValidationException as error:
            identifier = self._catalogs.identifier(path)
            table = self._catalogs.find_table(identifier)
            if table is None or table.is_view or table.source is not None:
                raise
            resolved = self.resolved(table)
            source = UnreadableSource(error, resolved)
            name = identifier.as_summary_string()
            return scan_node(name, source, resolved, self.context())

    def sink(
        self,
        identifier: ObjectIdentifier,
        table: CatalogBaseTable,
        hints: Mapping[str, str] | None = None,
    ) -> TableSink:
        """Return the sink of a table.

        Raises:
            TableException: The table is distributed into buckets.
            ValidationException: The table is a view, the connector is read-only, or an option is
                invalid.
        """
        name = identifier.as_summary_string()
        if table.is_view or table.source is not None:
            raise ValidationException(f"View '{name}' cannot be written: INSERT needs a table")
        if table.distribution is not None:
            raise TableException(
                f"Table '{name}' is distributed into buckets, but no connector writes buckets"
            )
        context = self.table_context(identifier, table, hints)
        return connector_of({**table.options, **(hints or {})}, name).sink(context)


class UnreadableSource(TableSource):
    """Source of a write-only table; a query that reads it raises the error.

    Args:
        error: The reason.
        resolved: The columns of the table.
    """

    def __init__(self, error: Exception, resolved: ResolvedSchema) -> None:
        self._error = error
        found = [c for c in resolved.columns if isinstance(c, MetadataColumn)]
        self.metadata = {column.key: column.data_type for column in found}

    def with_metadata(self, keys: Sequence[str]) -> TableSource:
        """Return the source itself: it reads nothing."""
        del keys
        return self

    def transformation(self, context: ExecutionContext) -> Transformation:
        """Reject the call.

        Raises:
            Exception: Always: the reason.
        """
        del context
        raise self._error


def scan_node(
    name: str,
    source: TableSource,
    resolved: ResolvedSchema,
    context: PlanningContext,
    origin: tuple[tuple[str, str], ...] | None = None,
) -> Node:
    """Return the node of a source with a schema's metadata, computed columns and watermark.

    Args:
        name: The path of the table.
        source: The source.
        resolved: The columns of the table.
        context: The context of its expressions.
        origin: See `Scan`.

    Raises:
        ValidationException: The source does not have the metadata, or it has another type.
    """
    metadata = [c for c in resolved.columns if isinstance(c, MetadataColumn)]
    keys = list(dict.fromkeys(column.key for column in metadata))
    unknown = [key for key in keys if key not in source.metadata]
    if unknown:
        raise ValidationException(
            f"Invalid metadata key '{unknown[0]}' in column "
            f"'{next(c.name for c in metadata if c.key == unknown[0])}' of table '{name}'. "
            f"Supported metadata keys: {', '.join(source.metadata) or 'none'}"
        )
    if keys:
        source = source.with_metadata(keys)
    physical = [c for c in resolved.columns if isinstance(c, PhysicalColumn)]
    fields = [Field(c.name, _plain(c.data_type)) for c in physical]
    fields += [Field(f"$metadata${key}", source.metadata[key]) for key in keys]
    node: Node = n.Scan(
        Schema(tuple(fields)), name, source, frozenset(source.kinds), source.is_bounded,
        origin=origin,
    )  # fmt: skip
    node = _with_metadata(node, resolved, keys, Binder(context))
    node = _with_computed(node, resolved)
    return _with_watermark(node, resolved)


def _plain(data_type: types.DataType) -> types.DataType:
    typed: Any = data_type
    return typed.with_time_attribute(None) if hasattr(typed, "with_time_attribute") else data_type


def _with_metadata(
    node: Node, resolved: ResolvedSchema, keys: Sequence[str], binder: Binder
) -> Node:
    """Return the columns that are not computed, in the order of the declaration."""
    stored = [c for c in resolved.columns if not isinstance(c, ComputedColumn)]
    places = {c.name: i for i, c in enumerate(c for c in stored if isinstance(c, PhysicalColumn))}
    number = len(places)
    columns = n.columns(node)
    expressions = []
    for column in stored:
        if not isinstance(column, MetadataColumn):
            expressions.append(columns[places[column.name]])
            continue
        found = columns[number + keys.index(column.key)]
        wanted = _plain(column.data_type)
        if found.type != wanted:
            found = (
                replace(found, type=wanted)
                if found.type.nullable() == wanted.nullable() and wanted.is_nullable
                else binder.cast(found, wanted)
            )
        expressions.append(found)
    return n.project(node, expressions, [column.name for column in stored])


def _with_computed(node: Node, resolved: ResolvedSchema) -> Node:
    names = resolved.get_column_names()
    stored = iter(n.columns(node))
    expressions: list[e.Expression] = [
        column.expression if isinstance(column, ComputedColumn) else next(stored)
        for column in resolved.columns
    ]
    return n.project(node, expressions, names)


def _watermark_options(name: str, options: Mapping[str, str]) -> int | None:
    """Check a table's options of watermarks, and return its idle timeout in ms, or None.

    Raises:
        ValidationException: A value is invalid, or the table asks for watermark alignment.
    """
    given = {key: text for key, text in options.items() if key in _WATERMARK_OPTIONS}
    values = read_options(f"table {name}", given, _WATERMARK_OPTIONS)
    group, drift_ms = values[ALIGNMENT_GROUP], values[ALIGNMENT_MAX_DRIFT]
    if (group is None) != (drift_ms is None):
        raise ValidationException(
            f"'{ALIGNMENT_GROUP}' and '{ALIGNMENT_MAX_DRIFT}' must be set when configuring "
            f"watermark alignment of table {name}"
        )
    if group is not None:
        raise ValidationException(
            f"Table {name} has the option '{ALIGNMENT_GROUP}', but sources of tables cannot wait "
            "for each other: remove the option, or pass a strategy with "
            "with_watermark_alignment(…) to from_source, and the stream to from_data_stream"
        )
    timeout_ms: int | None = values[SOURCE_IDLE_TIMEOUT]
    return timeout_ms


def _with_watermark(node: Node, resolved: ResolvedSchema) -> Node:
    """Return the node with the time attribute, key and watermark of the schema."""
    fields = tuple(Field(column.name, column.data_type) for column in resolved.columns)
    key = tuple(resolved.get_primary_key_indexes()) or None
    schema = Schema(fields, key)
    if not resolved.watermark_specs or resolved.watermark_specs[0].watermark_expression is None:
        return replace(node, schema=schema) if schema != node.schema or _has_time(schema) else node
    watermark = resolved.watermark_specs[0]
    index = resolved.get_column_names().index(watermark.rowtime_attribute)
    return n.AssignWatermarks(schema, node, index, watermark.watermark_expression)


def _has_time(schema: Schema) -> bool:
    return any(field.is_time for field in schema)


def schema_of_node(node: Node) -> ResolvedSchema:
    """Return the columns of a query as a resolved schema."""
    return ResolvedSchema([PhysicalColumn(field.name, field.type) for field in node.schema])
