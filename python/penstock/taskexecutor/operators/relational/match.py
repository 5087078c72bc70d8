"""Matches of patterns among the rows of each partition."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from penstock.columns.record_batches import rows_of
from penstock.graph.operators import CompiledPattern, PatternCondition
from penstock.table.functions.evaluation import Evaluator
from penstock.table.plan.expressions import AggregateCall, Column
from penstock.table.plan.match import ALWAYS, references_type
from penstock.table.plan.nodes import INSERT
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.operators.pattern import create_matcher
from penstock.taskexecutor.operators.relational.aggregates.aggregate_calls import AggregateCalls
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.batches import ChangeBuffer
from penstock.taskexecutor.operators.relational.expiring_rows import keyed_rows
from penstock.taskexecutor.operators.relational.key_texts import key_texts
from penstock.taskexecutor.operators.relational.ordering import sort_key
from penstock.taskexecutor.operators.relational.python_calls import PythonCalls
from penstock.taskexecutor.operators.relational.waiting_rows import WaitingRows
from penstock.taskexecutor.operators.relational.watermarks import milliseconds

if TYPE_CHECKING:
    import pyarrow as pa

    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.match import MatchSpecification, Reference
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.compiled.operator_context import OperatorContext
    from penstock.taskexecutor.compiled.pattern_matching import PartialMatch

_Row = tuple[Any, ...]
#: A matched row: the position of its element, and the row.
_Matched = tuple[int, _Row]


class MatchValues:
    """Evaluates definitions and measures over the rows matched so far."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        specification: MatchSpecification,
        session: Session,
    ) -> None:
        """Create the values; see `MatchOperator`."""
        self._specification = specification
        self._elements = {e.variable: i for i, e in enumerate(specification.pattern)}
        self._input = input
        self._references = references_type(specification.references)
        conditions = dict(specification.definitions)
        self._conditions = [conditions.get(e.variable, ALWAYS) for e in specification.pattern]
        calls = [r.value for r in specification.references if isinstance(r.value, AggregateCall)]
        self._calls = {call: _AggregateOfRows(context, call, input, session) for call in calls}
        values = [r.value for r in specification.references if r.kind != "AGGREGATE"]
        self.functions = PythonCalls(context)
        self.functions.register([*self._conditions, *specification.measures, *values])
        self._evaluator = Evaluator((), session, self.functions.call)

    def holds(self, element: int, rows: tuple[_Matched, ...]) -> bool:
        """Return whether the last row may belong to an element."""
        condition = self._conditions[element]
        return condition is ALWAYS or self._value(condition, rows) is True

    def measures(self, rows: tuple[_Matched, ...]) -> _Row:
        """Return the measures of a match."""
        batch = self._batch(rows)
        return tuple(
            self._evaluator.column(measure, batch)[0].as_py()
            for measure in self._specification.measures
        )

    def _value(self, expression: Expression, rows: tuple[_Matched, ...]) -> object:
        return self._evaluator.column(expression, self._batch(rows))[0].as_py()

    def _batch(self, rows: tuple[_Matched, ...]) -> pa.RecordBatch:
        buffer = ChangeBuffer(self._references, has_kinds=False)
        buffer.add(INSERT, [self._read(r, rows) for r in self._specification.references])
        return buffer.take()

    def _read(self, reference: Reference, rows: tuple[_Matched, ...]) -> object:
        if reference.variable is None:
            found = [row for _, row in rows]
        else:
            wanted = self._elements[reference.variable]
            found = [row for element, row in rows if element == wanted]
        if isinstance(reference.value, AggregateCall):
            return self._calls[reference.value].result(found)
        place = reference.offset if reference.kind == "FIRST" else -1 - reference.offset
        if not -len(found) <= place < len(found):
            return None
        row = found[place]
        if isinstance(reference.value, Column):
            return row[reference.value.index]
        return self._evaluator.column(reference.value, _one_row(self._input, row))[0].as_py()


class _AggregateOfRows:
    """One aggregate over matched rows."""

    def __init__(
        self, context: OperatorContext, call: AggregateCall, input: Schema, session: Session
    ) -> None:
        self._calls = AggregateCalls(context, (call,), may_retract=False)
        self._call = call
        self._input = input
        self._evaluator = Evaluator((), session)

    def result(self, rows: list[_Row]) -> object:
        """Return the result over some rows."""
        (accumulator,) = self._calls.accumulators
        value = accumulator.create()
        for row in rows:
            given = [self._argument(argument, row) for argument in self._call.arguments]
            if not (accumulator.skips_null and None in given):
                value = accumulator.add(value, *given)
        return accumulator.result(value)

    def _argument(self, argument: Expression, row: _Row) -> object:
        if isinstance(argument, Column):
            return row[argument.index]
        return self._evaluator.column(argument, _one_row(self._input, row))[0].as_py()


def _one_row(schema: Schema, row: _Row) -> pa.RecordBatch:
    buffer = ChangeBuffer(schema, has_kinds=False)
    buffer.add(INSERT, row)
    return buffer.take()


class MatchOperator(KeyedRelationalOperator):
    """Offers the rows of each partition, in the order of time, to the matcher of a pattern."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        specification: MatchSpecification,
        pattern: CompiledPattern,
        session: Session,
    ) -> None:
        """Create the operator.

        Args:
            context: The operator's context.
            input: The columns of the input.
            output: The columns of the partition, and the measures.
            specification: The pattern and its meaning.
            pattern: Its automaton; the functions of its conditions are the elements' positions.
            session: Settings that results depend on.
        """
        super().__init__(context, input, output, has_kinds=False, is_updating=False)
        self.specification = specification
        self.values = MatchValues(context, input, specification, session)
        self.variables = [element.variable for element in specification.pattern]
        conditions = [
            PatternCondition(partial(self._holds, condition.function), is_iterative=True)
            for condition in pattern.conditions
        ]
        self.matcher = create_matcher(
            replace(pattern, conditions=tuple(conditions)),
            lambda function: function,
            context.processing_time.now,
        )
        self.key = sort_key(specification.order)
        self.time_index: int = specification.order[0].expression.index  # type: ignore[attr-defined]
        self.is_rowtime = input.fields[self.time_index].is_rowtime
        self.time = context.processing_time
        #: By key: rows whose time has not passed; the matcher's entry.
        self.waiting = WaitingRows(keyed_rows(context, "waiting", 0))
        self.entries = keyed_rows(context, "matches", 0)
        self.watermark = MIN_TIMESTAMP
        self.late_rows = 0
        context.metric_group().gauge("numLateRecordsDropped", lambda: self.late_rows)

    def open(self) -> None:
        """Note the rows that wait and the matches that end, and open the user functions."""
        self.waiting.open()
        window_ms = self.matcher.window_ms
        if window_ms and self.is_rowtime:
            for text, entry in self.entries.items():
                for match in entry[2]:
                    if match[1]:
                        self.waiting.wake(match[3] + window_ms, text)
        self.values.functions.open()

    def close(self) -> None:
        """Close the user functions."""
        self.values.functions.close()

    def process_columns(self, batch: pa.RecordBatch) -> None:
        """Process a batch."""
        texts = key_texts(batch, self.specification.partition)
        rows = rows_of(batch, self.width)
        if not self.is_rowtime:
            now = self.time.now()
            for text, row in zip(texts, rows, strict=True):
                self._match(text, [(now, row)], now)
            self.flush()
            return
        times = milliseconds(batch.column(self.time_index)).to_pylist()
        for text, time, row in zip(texts, times, rows, strict=True):
            if time is None or time <= self.watermark:
                self.late_rows += 1
                continue
            self.waiting.add(text, (time, row))

    def process_watermark(self, timestamp: int) -> None:
        """Match the rows whose time has passed, and end matches whose window has."""
        self.watermark = timestamp
        for text, due in self.waiting.passed(timestamp):
            self._match(text, sorted(due, key=lambda f: self.key(f[1])), timestamp)
        self.flush()
        self.output.emit_watermark(timestamp)

    # One partition --------------------------------------------------------------------------------

    def _match(self, text: str, rows: list[tuple[int, _Row]], time: int) -> None:
        """Offer rows of a partition to its matches, then end those whose window is over."""
        matcher = self.matcher
        entry = self.entries.get(text)
        if entry is None:
            entry = matcher.new_entry()
        else:
            matcher.adopt(entry)
        for row_time, row in rows:
            self._emit(matcher.advance(entry, row_time))
            self._emit(matcher.process(entry, row, row_time))
            if matcher.has_begun and matcher.window_ms and self.is_rowtime:
                self.waiting.wake(row_time + matcher.window_ms, text)
        self._emit(matcher.advance(entry, time))
        if matcher.is_unused(entry):
            self.entries.remove(text)
        else:
            self.entries.put(text, entry)

    def _holds(self, element: int, row: _Row, match: PartialMatch) -> bool:
        """Return whether a row may belong to an element after the rows matched so far."""
        rows = [
            (position, matched)
            for position, variable in enumerate(self.variables[: element + 1])
            for matched in match.get_events_for_pattern(variable)
        ]
        return self.values.holds(element, (*rows, (element, row)))

    def _emit(self, matches: list[dict[str, list[_Row]]]) -> None:
        for match in matches:
            rows = tuple(
                (position, row)
                for position, variable in enumerate(self.variables)
                for row in match.get(variable, ())
            )
            partition = tuple(rows[0][1][i] for i in self.specification.partition)
            self.changes.add(INSERT, partition + self.values.measures(rows))
