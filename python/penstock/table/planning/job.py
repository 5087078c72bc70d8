"""Jobs of tables: translates plans into an environment of their own, and starts them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.configuration import Configuration
from penstock.common.options import pipeline
from penstock.datastream.data_stream import DataStream
from penstock.datastream.data_stream.collect import collect_stream
from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
from penstock.table.connectors.constraints import NotNullEnforcer
from penstock.table.exceptions import TableException
from penstock.table.options.table_options import MAX_COLUMN_WIDTH, NOT_NULL_ENFORCER, PARALLELISM
from penstock.table.plan import nodes as n
from penstock.table.plan.operator_building import TranslationContext
from penstock.table.plan.translation import translate_optimized
from penstock.table.planning.pruning import pruned
from penstock.table.table_result.table_result import InsertResult, QueryResult
from penstock.table.types import RowField, RowType

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.graph.transformations import Transformation
    from penstock.table.plan.nodes import Node
    from penstock.table.planning.planner import Planner
    from penstock.table.table_config import TableConfig

_TABLE_PREFIX = "table."
_MODE = pipeline.RUNTIME_MODE.key
_NAME = pipeline.NAME.key


class TableJobs:
    """Starts jobs of one table environment.

    Args:
        root: The configuration of the underlying stream environment.
        config: The options of the table environment.
        planner: The planner.
    """

    def __init__(self, root: Configuration, config: TableConfig, planner: Planner) -> None:
        self._root = root
        self._config = config
        self._planner = planner

    def environment(self) -> StreamExecutionEnvironment:
        """Return a stream environment for one job, with the options of both environments."""
        configuration = Configuration(self._root)
        for key, value in self._config.get_configuration().to_dict().items():
            if not key.startswith(_TABLE_PREFIX):
                configuration.set_string(key, value)
        mode = "STREAMING" if self._planner.is_streaming else "BATCH"
        configuration.set_string(_MODE, mode)
        made = StreamExecutionEnvironment(configuration)
        self.set_parallelism(made)
        return made

    def set_parallelism(self, environment: StreamExecutionEnvironment) -> None:
        """Set the parallelism of tables in an environment, if it is configured."""
        parallelism = self._config.get(PARALLELISM, None)
        if parallelism is not None and int(parallelism) > 0:
            environment.set_parallelism(int(parallelism))

    def context(self, environment: StreamExecutionEnvironment) -> TranslationContext:
        """Return the context in which plans are translated to operators of an environment."""
        return TranslationContext(
            environment,
            self._planner.session(),
            self._planner.is_streaming,
            dict(self._config.to_map()),
        )

    def query(self, node: Node) -> QueryResult:
        """Start the job of a query.

        Raises:
            TableException: The plan cannot run.
        """
        environment = self.environment()
        context = self.context(environment)
        [plan] = pruned([node], is_streaming=context.is_streaming, settings=context.settings)
        transformation = translate_optimized(plan, context)
        results = collect_stream(environment, transformation, self._name("collect"))
        return QueryResult(
            row_type_of(node),
            results,
            is_streaming=self._planner.is_streaming,
            time_zone=self._config.get_local_timezone(),
            longest=int(self._config.get(MAX_COLUMN_WIDTH, "30") or 30),
        )

    def insert(self, sinks: Sequence[n.Sink]) -> InsertResult:
        """Start a single job that writes several tables.

        Raises:
            TableException: A plan cannot run, or a table does not accept its updates.
        """
        environment = self.environment()
        self.add_sinks(sinks, environment)
        names = [sink.name for sink in sinks]
        name = self._name(f"insert-into_{','.join(names)}")
        client = environment.execute_async(name)
        return InsertResult(names, client)

    def add_sinks(self, sinks: Sequence[n.Sink], environment: StreamExecutionEnvironment) -> None:
        """Add the operators of insertions to an environment, whose next job runs them.

        Raises:
            TableException: A plan cannot run, or a table does not accept its updates.
        """
        from penstock.table.plan.changelog import unread_by_tables
        from penstock.table.plan.translation import Translation

        context = self.context(environment)
        plans = pruned(
            [sink.input for sink in sinks],
            is_streaming=context.is_streaming,
            settings=context.settings,
        )
        pairs = list(zip(sinks, plans, strict=True))
        context.new_rows_only = unread_by_tables(pairs)
        translation = Translation.of([sink.input for sink in sinks], context)
        for sink, plan in pairs:
            check_changes(sink.input, sink.kinds, sink.name, is_streaming=context.is_streaming)
            check_times(sink.input, sink.name)
            made: Transformation = translation.translate_upserts(
                plan, sink.sink.upsert_key, sink.sink.parallelism
            )
            sink.sink.consume(self._enforced(sink, made, environment), context)
            translation.ids.name_sinks(sink.name)

    def _enforced(
        self, sink: n.Sink, transformation: Transformation, environment: StreamExecutionEnvironment
    ) -> Transformation:
        """Return the rows, with NULL enforcement for the table's NOT NULL columns."""
        columns = sink.sink.required
        if not columns:
            return transformation
        drops = (self._config.get(NOT_NULL_ENFORCER, "ERROR") or "ERROR").upper() == "DROP"
        stream: DataStream[Any] = DataStream(environment, transformation)
        enforcer = NotNullEnforcer(sink.name, columns, drops)
        return stream.flat_map(enforcer).name("ConstraintEnforcer").transformation

    def _name(self, default: str) -> str:
        return self._config.get(_NAME, default) or default


def check_times(node: Node, target: str) -> None:
    """Check that a table or stream gets at most one time attribute.

    Raises:
        TableException: There are several.
    """
    names = [field.name for field in node.schema if field.is_rowtime]
    if len(names) > 1:
        raise TableException(
            f"The query contains more than one rowtime attribute column [{', '.join(names)}] for "
            f"writing into table '{target}'. Please select the column that should be used as the "
            "event-time timestamp for the table sink by casting all other columns to regular "
            "TIMESTAMP or TIMESTAMP_LTZ."
        )


def check_changes(node: Node, kinds: frozenset[int], target: str, *, is_streaming: bool) -> None:
    """Check that a table accepts the row kinds of a plan.

    Raises:
        TableException: The plan updates or deletes, and the table only accepts insertions.
    """
    from penstock.table.plan.changelog import Changelog

    changelog = Changelog(is_streaming=is_streaming)
    found = changelog.kinds(node)
    refused = found - kinds
    if n.UPDATE_BEFORE in refused and n.UPDATE_AFTER in kinds:
        refused -= {n.UPDATE_BEFORE}
    if not refused:
        return
    changes = "update and delete" if n.DELETE in refused else "update"
    if n.UPDATE_AFTER not in refused:
        changes = "delete"
    producer = _producer(node, changelog)
    raise TableException(
        f"Table sink '{target}' doesn't support consuming {changes} changes which is produced by "
        f"node {producer.describe()}: write into a table with a changelog format or an upsert "
        "connector, or use to_changelog_stream"
    )


def _producer(node: Node, changelog: Any) -> Node:
    """Return the lowest node that emits updates."""
    for child in node.inputs:
        if changelog.is_updating(child):
            return _producer(child, changelog)
    return node


def row_type_of(node: Node) -> RowType:
    """Return the type of the rows of a plan."""
    return RowType([RowField(field.name, field.type) for field in node.schema], nullable=False)
