"""Translation of relational nodes to the transformations of a job."""

from __future__ import annotations

from functools import singledispatchmethod
from typing import TYPE_CHECKING, Any

from penstock.graph.transformations import UnionTransformation
from penstock.table.exceptions import TableException
from penstock.table.options.table_options import MINI_BATCH
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.changelog import Changelog, orders_by_time, orders_sort_by_time
from penstock.table.plan.match import automaton
from penstock.table.plan.operator_building import OperatorBuilder, TranslationContext
from penstock.table.plan.rules import check, optimized
from penstock.table.plan.sessions import aggregated_sessions
from penstock.table.plan.sliced_windows import sliced_windows
from penstock.table.plan.time_use import reads_watermarks, splits_equal_times, time_grain
from penstock.table.plan.window_extremes import window_extreme
from penstock.table.plan.windows import is_zoned, window_function_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.graph.transformations import Transformation
    from penstock.table.plan.nodes import Node
    from penstock.table.plan.sessions import AggregatedSessions
    from penstock.table.plan.sliced_windows import SlicedWindows


def translate(
    node: Node, context: TranslationContext, *, keeps_time: bool = False
) -> Transformation:
    """Add the operators of a plan to the environment and return the last one.

    Its records are batches; see ``penstock.table.plan.nodes``.

    Args:
        node: The plan.
        context: The environment.
        keeps_time: Whether each row must follow the watermarks of the rows before it.

    Raises:
        TableException: The plan cannot run in this mode.
    """
    node = optimized(node, is_streaming=context.is_streaming)
    return translate_optimized(node, context, keeps_time=keeps_time)


def translate_optimized(
    node: Node,
    context: TranslationContext,
    *,
    keeps_time: bool = False,
    key: tuple[int, ...] = (),
) -> Transformation:
    """Add the operators of a plan to which the rules have been applied; see `translate`.

    Args:
        node: The plan.
        context: The environment.
        keeps_time: Whether watermarks are as exact as those of the sources.
        key: The positions of the target's key; empty if every row counts.
    """
    check(node, is_streaming=context.is_streaming)
    translation = Translation(context) if keeps_time else Translation.of([node], context)
    return translation.translate_upserts(node, key, None)


def is_updating(node: Node, context: TranslationContext) -> bool:
    """Return whether the batches of a plan have row kinds."""
    node = optimized(node, is_streaming=context.is_streaming)
    return Changelog(is_streaming=context.is_streaming).is_updating(node)


class Translation(OperatorBuilder):
    """Translator of one plan; a node that is read twice becomes one operator."""

    def __init__(
        self,
        context: TranslationContext,
        grain_ms: int | None = None,
        *,
        splits_equal_times: bool = True,
        reads_watermarks: bool = False,
    ) -> None:
        """Create a translator.

        Args:
            context: The environment.
            grain_ms: The granularity of watermarks, see `time_grain`.
            splits_equal_times: See the function of this name.
            reads_watermarks: See the function of this name.
        """
        super().__init__(context)
        self._time_use = {
            "grain_ms": grain_ms,
            "splits_equal_times": splits_equal_times,
            "reads_watermarks": reads_watermarks,
        }
        self._done: dict[int, tuple[Node, Transformation]] = {}

    @classmethod
    def of(cls, nodes: Sequence[Node], context: TranslationContext) -> Translation:
        """Return a translator whose watermarks are as exact as these plans need."""
        return cls(
            context,
            time_grain(nodes),
            splits_equal_times=splits_equal_times(nodes),
            reads_watermarks=reads_watermarks(nodes),
        )

    def translate(self, node: Node) -> Transformation:
        """Return the transformation of a node."""
        known = self._done.get(id(node))
        if known is None:
            known = self._done[id(node)] = (node, self._made(node))
            self._nodes[known[1]] = node
        return known[1]

    def translate_upserts(
        self, node: Node, key: tuple[int, ...], parallelism: int | None
    ) -> Transformation:
        """Return the rows of a node for a table in which only the last row of a key counts.

        Args:
            node: The node.
            key: The positions of the table's key; empty if every row counts.
            parallelism: The number of subtasks that write the table; None for the node's.
        """
        before = self.translate(node)
        if not key or not self._changelog.is_updating(node):
            return before
        own = node.schema.primary_key
        is_in_order = parallelism is None or parallelism == before.parallelism
        if own is not None and set(own) == set(key) and is_in_order:
            return before
        return self._keyed(
            before, key, "upsert_materialize", "SinkMaterializer", node,
            parallelism=parallelism or before.parallelism, input=node.schema, keys=key,
        )  # fmt: skip

    # Nodes ----------------------------------------------------------------------------------------

    @singledispatchmethod
    def _made(self, node: Node) -> Transformation:
        raise TableException(f"{node.describe()} is not supported yet")

    @_made.register(n.Scan)
    def _scan(self, node: n.Scan) -> Transformation:
        made: Transformation = node.source.transformation(self._context)
        self.ids.name_source(made, node.name)
        key = node.schema.primary_key
        if key and n.UPDATE_BEFORE in node.kinds and self._changelog.has_new_rows_only(node):
            return self._one(made, "drop_update_before", "DropUpdateBefore", node, keys=tuple(key))
        return made

    @_made.register(n.Values)
    def _values(self, node: n.Values) -> Transformation:
        from penstock.table.plan.constant_rows import values_batch

        batch = values_batch(node, self._context.session)
        stream = self._environment.from_collection([batch])
        made: Any = stream.transformation
        made.name = "Values"
        made.description = node.describe()
        self.ids.name(made, node)
        return made  # type: ignore[no-any-return]

    @_made.register(n.Project)
    def _project(self, node: n.Project) -> Transformation:
        before = node.input
        if isinstance(before, n.Filter):
            return self._calc(node, before.input, before.condition, node.expressions)
        return self._calc(node, before, None, node.expressions)

    @_made.register(n.Filter)
    def _filter(self, node: n.Filter) -> Transformation:
        return self._calc(node, node.input, node.condition, None)

    def _calc(
        self,
        node: Node,
        input: Node,
        condition: e.Expression | None,
        expressions: tuple[e.Expression, ...] | None,
    ) -> Transformation:
        return self._one(
            self.translate(input), "calc", "Calc", node,
            condition=condition, expressions=expressions, schema=node.schema,
            session=self._context.session,
        )  # fmt: skip

    @_made.register(n.AssignWatermarks)
    def _watermarks(self, node: n.AssignWatermarks) -> Transformation:
        if not self._context.is_streaming:
            return self.translate(node.input)
        return self._one(
            self.translate(node.input), "watermarks", "WatermarkAssigner", node,
            index=node.index, watermark=node.watermark, session=self._context.session,
            **self._time_use, **self._idling(node.idle_timeout_ms),
        )  # fmt: skip

    def _idling(self, own_ms: int | None = None) -> dict[str, Any]:
        timeout_ms = self._context.idle_timeout_ms if own_ms is None else own_ms
        return {"idle_timeout_ms": timeout_ms} if timeout_ms > 0 else {}

    @_made.register(n.ToChangelog)
    def _to_changelog(self, node: n.ToChangelog) -> Transformation:
        return self._one(
            self.translate(node.input), "to_changelog", "ProcessTableFunction", node,
            output=node.schema, codes=node.codes,
        )  # fmt: skip

    @_made.register(n.FromChangelog)
    def _from_changelog(self, node: n.FromChangelog) -> Transformation:
        self._refuse_updates(node.input, node)
        if not self._context.is_streaming:
            raise TableException("FROM_CHANGELOG needs streaming mode")
        return self._one(
            self.translate(node.input), "from_changelog", "ProcessTableFunction", node,
            output=node.schema, place=node.place, codes=node.codes,
        )  # fmt: skip

    @_made.register(n.Aggregate)
    def _aggregate(self, node: n.Aggregate) -> Transformation:
        has_kinds = self._changelog.is_updating(node.input)
        settings: dict[str, Any] = {
            "input": node.input.schema,
            "output": node.schema,
            "keys": node.keys,
            "calls": node.calls,
            "has_kinds": has_kinds,
            **self._phases(),
        }
        before = self.translate(node.input)
        if not self._context.is_streaming:
            return self._keyed(
                before, node.keys, "final_aggregate", "HashAggregate", node, **settings
            )
        enabled = self._context.settings.get(MINI_BATCH, "false")
        settings["per_batch"] = enabled.lower() == "true"
        settings["is_updating"] = self._changelog.is_updating(node)
        settings |= self._expiring(node.state_ttl_ms) | self._old_rows(node)
        return self._keyed(before, node.keys, "aggregate", "GroupAggregate", node, **settings)

    @_made.register(n.CountWindowAggregate)
    def _count_window(self, node: n.CountWindowAggregate) -> Transformation:
        self._refuse_updates(node.input, node)
        return self._keyed(
            self.translate(node.input), node.keys, "count_window", "GroupWindowAggregate", node,
            input=node.input.schema, output=node.schema, keys=node.keys, calls=node.calls,
            size=node.size, slide=node.slide,
        )  # fmt: skip

    @_made.register(n.TableAggregate)
    def _table_aggregate(self, node: n.TableAggregate) -> Transformation:
        return self._keyed(
            self.translate(node.input), node.keys, "table_aggregate", "GroupTableAggregate", node,
            input=node.input.schema, output=node.schema, keys=node.keys, call=node.call,
            has_kinds=self._changelog.is_updating(node.input),
            is_streaming=self._context.is_streaming, **self._expiring(),
        )  # fmt: skip

    @_made.register(n.WindowTableFunction)
    def _window_function(self, node: n.WindowTableFunction) -> Transformation:
        field_ = node.input.schema.fields[node.time_index]
        prefix = "processing_time_" if field_.is_proctime else ""
        if prefix and not self._context.is_streaming:
            raise TableException(
                f"The windows of '{field_.name}' are of processing time, which needs streaming mode"
            )
        settings: dict[str, Any] = {
            "input": node.input.schema,
            "output": node.schema,
            "window": node.window,
            "time_index": node.time_index,
            "session": self._context.session,
        }
        self._refuse_updates(node.input, node)
        before = self.translate(node.input)
        if node.window.kind == "SESSION":
            return self._keyed(
                before, node.partition, f"{prefix}sessions", "WindowTableFunction", node,
                partition=node.partition, **settings,
            )  # fmt: skip
        return self._one(before, f"{prefix}windows", "WindowTableFunction", node, **settings)

    def _refuse_updates(self, input: Node, node: Node) -> None:
        if self._changelog.is_updating(input):
            raise TableException(
                f"{type(node).__name__} doesn't support consuming update and delete changes which "
                f"is produced by node {input.describe()}"
            )

    @_made.register(n.WindowAggregate)
    def _window_aggregate(self, node: n.WindowAggregate) -> Transformation:
        assert node.bounds is not None
        sessions = aggregated_sessions(node) if self._context.is_streaming else None
        if sessions is not None:
            return self._session_aggregate(node, sessions)
        start, end = node.bounds
        partition = tuple(k for k in node.keys if k not in (start, end, node.time_index))
        has_kinds = self._changelog.is_updating(node.input)
        sliced = None if has_kinds or self._phases() else sliced_windows(node)
        if sliced is not None:
            return self._sliced_aggregate(node, sliced, partition)
        settings: dict[str, Any] = {
            "input": node.input.schema,
            "output": node.schema,
            "keys": node.keys,
            "partition": partition,
            "calls": node.calls,
            "end_index": end,
            "has_kinds": has_kinds,
            "session": self._context.session,
            "is_zoned": is_zoned(node.input),
            **self._phases(),
        }
        kind = "window_aggregate"
        function = window_function_of(node.input)
        if function is not None and function.is_proctime:
            kind = "processing_time_window_aggregate"
            is_session = function.window.kind == "SESSION"
            settings |= {
                "start_index": start,
                "time_index": node.time_index,
                "size_ms": 0 if is_session else function.window.size_ms,
            }
        before = self.translate(node.input)
        return self._keyed(before, partition, kind, "WindowAggregate", node, **settings)

    def _sliced_aggregate(
        self, node: n.WindowAggregate, sliced: SlicedWindows, partition: tuple[int, ...]
    ) -> Transformation:
        """Return the operators that combine rows by slice, before and behind the exchange."""
        assert node.bounds is not None
        settings: dict[str, Any] = {
            "input": sliced.rows.schema,
            "calls": node.calls,
            "window": sliced.window,
            "is_attached": sliced.is_attached,
            "session": self._context.session,
            "is_zoned": is_zoned(node.input),
        }
        local = self._one(
            self.translate(sliced.rows), "local_window_aggregate", "LocalWindowAggregate", node,
            keys=partition, time_index=sliced.time_index, **settings,
        )  # fmt: skip
        return self._keyed(
            local, tuple(range(len(partition))), "sliced_window_aggregate", "WindowAggregate", node,
            output=node.schema, keys=node.keys, partition=partition,
            bounds=(*node.bounds, node.time_index), **settings,
        )  # fmt: skip

    def _session_aggregate(
        self, node: n.WindowAggregate, sessions: AggregatedSessions
    ) -> Transformation:
        """Return the operator that aggregates sessions without keeping their rows."""
        self._refuse_updates(sessions.rows, node)
        return self._keyed(
            self.translate(sessions.rows), sessions.partition, "session_aggregate",
            "WindowAggregate", node,
            input=sessions.rows.schema, output=node.schema, window=sessions.function.window,
            time_index=sessions.time_index, keys=node.keys, calls=node.calls,
            bounds=sessions.bounds, windows=sessions.function.schema,
            session=self._context.session, **self._phases(),
        )  # fmt: skip

    def _refuse_proctime(self, node: Node, what: str) -> None:
        function = window_function_of(node)
        if function is not None and function.is_proctime and self._context.is_streaming:
            raise TableException(f"Processing time Window {what} is not supported yet.")

    @_made.register(n.Expand)
    def _expand(self, node: n.Expand) -> Transformation:
        return self._one(
            self.translate(node.input), "expand", "Expand", node,
            output=node.schema, sets=node.sets, keys=node.keys,
        )  # fmt: skip

    @_made.register(n.Correlate)
    def _correlate(self, node: n.Correlate) -> Transformation:
        return self._one(
            self.translate(node.input), "correlate", "Correlate", node,
            input=node.input.schema, output=node.schema, function=node.function,
            arguments=node.arguments, is_outer=node.is_outer, condition=node.condition,
            with_ordinality=node.with_ordinality, session=self._context.session,
        )  # fmt: skip

    @_made.register(n.Union)
    def _union(self, node: n.Union) -> Transformation:
        has_kinds = self._changelog.is_updating(node)
        inputs = []
        for relation in node.relations:
            made = self.translate(relation)
            if has_kinds and not self._changelog.is_updating(relation):
                made = self._one(
                    made, "calc", "Calc", relation,
                    condition=None, expressions=None, schema=relation.schema,
                    session=self._context.session, adds_kinds=True,
                )  # fmt: skip
            inputs.append(made)
        return UnionTransformation(inputs)

    def _joined(self, node: n.Join, kind: str, name: str, **settings: Any) -> Transformation:
        return self._keyed_two(
            self.translate(node.left),
            self.translate(node.right),
            (node.left_keys, node.right_keys),
            kind,
            name,
            node,
            **self._join_settings(node),
            **settings,
        )

    @_made.register(n.Join)
    def _join(self, node: n.Join) -> Transformation:
        settings: dict[str, Any] = {
            "is_null_aware": node.is_null_aware,
            "equates_nulls": node.equates_nulls,
        }
        if self._context.is_streaming:
            settings["is_updating"] = self._changelog.is_updating(node)
            sides = [self._expiring(hinted) for hinted in node.state_ttl_ms]
            if any(sides):
                settings["state_ttl_ms"] = tuple(side.get("state_ttl_ms", 0) for side in sides)
        if node.is_null_aware:
            return self._keyed_two(
                self.translate(node.left),
                self.translate(node.right),
                ((), ()),
                "join" if self._context.is_streaming else "final_join",
                "Join",
                node,
                **self._join_settings(node),
                **settings,
            )
        if not self._context.is_streaming:
            return self._joined(node, "final_join", "HashJoin", **settings)
        return self._joined(node, "join", "Join", **settings)

    @_made.register(n.IntervalJoin)
    def _interval_join(self, node: n.IntervalJoin) -> Transformation:
        self._refuse_updates(node.left, node)
        self._refuse_updates(node.right, node)
        return self._joined(
            node, "interval_join", "IntervalJoin",
            times=(node.left_time, node.right_time), lower_ms=node.lower_ms,
            upper_ms=node.upper_ms,
        )  # fmt: skip

    @_made.register(n.WindowJoin)
    def _window_join(self, node: n.WindowJoin) -> Transformation:
        if not self._context.is_streaming:
            return self._joined(node, "final_join", "WindowJoin")
        self._refuse_proctime(node.left, "Join")
        left = self.translate(node.left)
        extreme = window_extreme(node)
        if extreme is not None:
            left = self._one(left, "window_extremes", "WindowExtremes", node, **extreme._asdict())
        return self._keyed_two(
            left, self.translate(node.right), (node.left_keys, node.right_keys), "window_join",
            "WindowJoin", node, **self._join_settings(node), is_zoned=is_zoned(node.left),
            end_index=node.left_bounds[1], other_end_index=node.right_bounds[1],
        )  # fmt: skip

    @_made.register(n.TemporalJoin)
    def _temporal_join(self, node: n.TemporalJoin) -> Transformation:
        return self._joined(
            node, "temporal_join", "TemporalJoin",
            left_time=node.left_time, right_time=node.right_time,
            is_updating=self._changelog.is_updating(node), **self._expiring(),
        )  # fmt: skip

    @_made.register(n.LookupJoin)
    def _lookup_join(self, node: n.LookupJoin) -> Transformation:
        return self._one(
            self.translate(node.left), "lookup_join", "LookupJoin", node,
            source=node.source, **self._join_settings(node),
        )  # fmt: skip

    @_made.register(n.Rank)
    def _rank(self, node: n.Rank) -> Transformation:
        settings: dict[str, Any] = {
            "input": node.input.schema,
            "output": node.schema,
            "partition": node.partition,
            "order": node.order,
            "first": node.first,
            "last": node.last,
            "with_rank": node.with_rank,
            "has_kinds": self._changelog.is_updating(node.input),
        }
        before = self.translate(node.input)
        if node.bounds is not None or not self._context.is_streaming:
            if node.bounds is not None:
                self._refuse_proctime(node.input, "TopN")
            settings["end_index"] = None if node.bounds is None else node.bounds[1]
            settings["session"] = self._context.session
            settings["is_zoned"] = is_zoned(node.input)
            return self._keyed(
                before, node.partition, "window_rank", "WindowRank", node, **settings
            )
        settings |= self._expiring() | self._old_rows(node)
        return self._keyed(before, node.partition, "rank", "Rank", node, **settings)

    @_made.register(n.Deduplicate)
    def _deduplicate(self, node: n.Deduplicate) -> Transformation:
        return self._keyed(
            self.translate(node.input), node.keys, "deduplicate", "Deduplicate", node,
            input=node.input.schema, output=node.schema, keys=node.keys,
            time_index=node.time_index, keep_last=node.keep_last,
            is_rowtime=node.input.schema.fields[node.time_index].is_rowtime,
            **self._expiring(), **self._old_rows(node),
        )  # fmt: skip

    @_made.register(n.Over)
    def _over(self, node: n.Over) -> Transformation:
        settings: dict[str, Any] = {
            "input": node.input.schema,
            "output": node.schema,
            "partition": node.partition,
            "order": node.order,
            "frame": node.frame,
            "calls": node.calls,
            "has_kinds": self._changelog.is_updating(node.input),
            **self._expiring(),
        }
        before = self.translate(node.input)
        if self._context.is_streaming and orders_by_time(node):
            self._refuse_updates(node.input, node)
            return self._keyed(before, node.partition, "over", "OverAggregate", node, **settings)
        settings["is_streaming"] = self._context.is_streaming
        return self._keyed(before, node.partition, "sorted_over", "OverAggregate", node, **settings)

    @_made.register(n.Sort)
    def _sort(self, node: n.Sort) -> Transformation:
        before = self.translate(node.input)
        settings: dict[str, Any] = {
            "input": node.input.schema,
            "order": node.order,
            "has_kinds": self._changelog.is_updating(node.input),
        }
        if not node.order and self._context.is_streaming and not settings["has_kinds"]:
            return self._keyed(
                before, (), "limit", "Limit", node, input=node.input.schema,
                offset=node.offset, limit=node.limit,
            )  # fmt: skip
        if not self._context.is_streaming:
            return self._keyed(
                before, (), "sort", "Sort", node, offset=node.offset, limit=node.limit, **settings
            )
        if node.order and orders_sort_by_time(node) and node.limit is None and not node.offset:
            self._refuse_updates(node.input, node)
            return self._keyed(before, (), "time_sort", "TemporalSort", node, **settings)
        if node.limit is None:
            raise TableException(
                "Sort on a non-time-attribute field is not supported in streaming mode: order by "
                "an ascending time attribute first, or add LIMIT"
            )
        return self._keyed(
            before, (), "rank", "SortLimit", node,
            input=node.input.schema, output=node.schema, partition=(), order=node.order,
            first=node.offset + 1, last=node.offset + node.limit, with_rank=False,
            has_kinds=settings["has_kinds"], **self._expiring(),
        )  # fmt: skip

    @_made.register(n.SetOperation)
    def _set_operation(self, node: n.SetOperation) -> Transformation:
        keys = tuple(range(len(node.schema)))
        return self._keyed_two(
            self.translate(node.left),
            self.translate(node.right),
            (keys, keys),
            "set_operation",
            node.kind.capitalize(),
            node,
            inputs=(node.left.schema, node.right.schema),
            output=node.schema,
            has_kinds=(
                self._changelog.is_updating(node.left),
                self._changelog.is_updating(node.right),
            ),
            kind=node.kind,
            is_all=node.is_all,
            is_streaming=self._context.is_streaming,
            **self._expiring(),
        )

    @_made.register(n.Match)
    def _match(self, node: n.Match) -> Transformation:
        specification = node.specification
        return self._keyed(
            self.translate(node.input), specification.partition, "match", "Match", node,
            input=node.input.schema, output=node.schema, specification=specification,
            pattern=automaton(specification), session=self._context.session,
        )  # fmt: skip
