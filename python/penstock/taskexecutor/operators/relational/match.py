"""Matches of patterns among the rows of each partition."""

from __future__ import annotations

import heapq
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.table.functions.evaluation import Evaluator
from penstock.table.plan.expressions import AggregateCall, Column
from penstock.table.plan.match import ALWAYS, references_type
from penstock.table.plan.nodes import INSERT
from penstock.taskexecutor.compiled import MIN_TIMESTAMP
from penstock.taskexecutor.operators.relational.aggregate import Calls
from penstock.taskexecutor.operators.relational.base import KeyedRelationalOperator
from penstock.taskexecutor.operators.relational.batches import ChangeBuffer, key_texts, rows_of
from penstock.taskexecutor.operators.relational.expiring_rows import keyed_rows
from penstock.taskexecutor.operators.relational.ordering import sort_key
from penstock.taskexecutor.operators.relational.python_calls import PythonCalls
from penstock.taskexecutor.operators.relational.watermarks import milliseconds

if TYPE_CHECKING:
    from penstock.table.functions.evaluation import Session
    from penstock.table.plan.expressions import Expression
    from penstock.table.plan.match import MatchSpecification, Reference
    from penstock.table.plan.schema import Schema
    from penstock.taskexecutor.task.operator_context import OperatorContext

_Row = tuple[Any, ...]
#: A matched row: its number in the partition, the position of its element, and the row.
_Matched = tuple[int, int, _Row]


@dataclass(frozen=True)
class Branch:
    """A match that has begun.

    Attributes:
        start: The number of its first row.
        start_ms: The time of that row.
        element: The position of the element that took the last row.
        count: The number of rows of that element.
        rows: The rows, in order.
    """

    start: int
    start_ms: int
    element: int = 0
    count: int = 0
    rows: tuple[_Matched, ...] = ()

    def stored(self) -> tuple[Any, ...]:
        """Return the branch as a value of state."""
        return self.start, self.start_ms, self.element, self.count, self.rows


class MatchValues:
    """Evaluates definitions and measures over the rows matched so far."""

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        specification: MatchSpecification,
        session: Session,
    ) -> None:
        """Creates it; see `MatchOperator`."""
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

    def _value(self, expression: Expression, rows: tuple[_Matched, ...]) -> Any:
        return self._evaluator.column(expression, self._batch(rows))[0].as_py()

    def _batch(self, rows: tuple[_Matched, ...]) -> Any:
        buffer = ChangeBuffer(self._references, has_kinds=False)
        buffer.add(INSERT, [self._read(r, rows) for r in self._specification.references])
        return buffer.take()

    def _read(self, reference: Reference, rows: tuple[_Matched, ...]) -> Any:
        found = [row for _, _, row in rows]
        if reference.variable is not None:
            wanted = self._elements[reference.variable]
            found = [row for _, element, row in rows if element == wanted]
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
        self._calls = Calls(context, (call,), may_retract=False)
        self._call = call
        self._input = input
        self._evaluator = Evaluator((), session)

    def result(self, rows: list[_Row]) -> Any:
        """Return the result over some rows."""
        (accumulator,) = self._calls.accumulators
        value = accumulator.create()
        for row in rows:
            given = [self._argument(argument, row) for argument in self._call.arguments]
            if not (accumulator.skips_null and None in given):
                value = accumulator.add(value, *given)
        return accumulator.result(value)

    def _argument(self, argument: Expression, row: _Row) -> Any:
        if isinstance(argument, Column):
            return row[argument.index]
        return self._evaluator.column(argument, _one_row(self._input, row))[0].as_py()


def _one_row(schema: Schema, row: _Row) -> Any:
    buffer = ChangeBuffer(schema, has_kinds=False)
    buffer.add(INSERT, row)
    return buffer.take()


class MatchOperator(KeyedRelationalOperator):
    """Follows the matches that have begun row by row, in the order of time.

    A greedy element takes a row whenever it may; behind a reluctant one both ways are followed, and
    the first to end wins, as in Flink's NFA.
    """

    def __init__(
        self,
        context: OperatorContext,
        input: Schema,
        output: Schema,
        specification: MatchSpecification,
        session: Session,
    ) -> None:
        """Creates the operator.

        Args:
            context: Of the operator.
            input: The columns of the input.
            output: The columns of the partition, and the measures.
            specification: The pattern and its meaning.
            session: Settings that results depend on.
        """
        super().__init__(context, input, output, has_kinds=False, is_updating=False)
        self.specification = specification
        self.values = MatchValues(context, input, specification, session)
        self.key = sort_key(specification.order)
        self.time_index: int = specification.order[0].expression.index  # type: ignore[attr-defined]
        self.is_rowtime = input.fields[self.time_index].is_rowtime
        self.time = context.processing_time
        #: By key: rows whose time has not passed; the number of rows, and the branches.
        self.waiting = keyed_rows(context, "waiting", 0)
        self.branches = keyed_rows(context, "branches", 0)
        self.due: list[tuple[int, str]] = []
        self.watermark = MIN_TIMESTAMP
        self.late_rows = 0
        context.metric_group().gauge("numLateRecordsDropped", lambda: self.late_rows)

    def open(self) -> None:
        """Note the rows that wait, and open the functions of users."""
        self.due = [(time, text) for text, found in self.waiting.items() for time, _ in found]
        heapq.heapify(self.due)
        self.values.functions.open()

    def close(self) -> None:
        """Close the functions of users."""
        self.values.functions.close()

    def process_columns(self, batch: Any) -> None:
        """Process a batch."""
        texts = key_texts(batch, self.specification.partition)
        rows = rows_of(batch, self.width)
        if not self.is_rowtime:
            now = self.time.now()
            for text, row in zip(texts, rows, strict=True):
                self._follow(text, [(now, row)])
            self.flush()
            return
        times = milliseconds(batch.column(self.time_index)).to_pylist()
        for text, time, row in zip(texts, times, rows, strict=True):
            if time is None or time <= self.watermark:
                self.late_rows += 1
                continue
            found = self.waiting.get(text) or []
            found.append((time, row))
            self.waiting.put(text, found)
            heapq.heappush(self.due, (time, text))

    def process_watermark(self, timestamp: int) -> None:
        """Match the rows whose time has passed."""
        self.watermark = timestamp
        touched: dict[str, None] = {}
        while self.due and self.due[0][0] <= timestamp:
            touched[heapq.heappop(self.due)[1]] = None
        for text in touched:
            found = self.waiting.get(text) or []
            kept = [f for f in found if f[0] > timestamp]
            if kept:
                self.waiting.put(text, kept)
            else:
                self.waiting.remove(text)
            due = [f for f in found if f[0] <= timestamp]
            self._follow(text, sorted(due, key=lambda f: self.key(f[1])))
        self.flush()
        self.output.emit_watermark(timestamp)

    # One partition --------------------------------------------------------------------------------

    def _follow(self, text: str, rows: list[tuple[int, _Row]]) -> None:
        number, stored = self.branches.get(text) or (0, [])
        branches = [Branch(*found) for found in stored]
        for time, row in rows:
            branches = self._next([*branches, Branch(number, time)], number, time, row)
            number += 1
        self.branches.put(text, (number, [branch.stored() for branch in branches]))

    def _next(self, branches: list[Branch], number: int, time: int, row: _Row) -> list[Branch]:
        """Return the branches behind a row, whose matches are emitted."""
        within = self.specification.within_ms
        going: list[Branch] = []
        for branch in branches:
            if within is None or time - branch.start_ms < within:
                going.extend(self._steps(branch, number, row))
        while True:
            ended = next((branch for branch in going if self._is_complete(branch)), None)
            if ended is None:
                return going
            partition = tuple(row[i] for i in self.specification.partition)
            self.changes.add(INSERT, partition + self.values.measures(ended.rows))
            going = [branch for branch in going if self._survives(branch, ended, number)]

    def _steps(self, branch: Branch, number: int, row: _Row) -> list[Branch]:
        """Return the ways in which a branch goes on with a row."""
        found: list[Branch] = []
        pattern = self.specification.pattern
        element, count = branch.element, branch.count
        while element < len(pattern):
            wanted = pattern[element]
            rows = (*branch.rows, (number, element, row))
            holds = self.values.holds(element, rows)
            if holds and (wanted.most is None or count < wanted.most):
                found.append(Branch(branch.start, branch.start_ms, element, count + 1, rows))
            # As in Flink, what follows a greedy element takes no row that the element may take,
            # not even when the element has all its rows.
            is_held = holds and wanted.is_greedy and wanted.least != wanted.most
            if is_held or count < wanted.least:
                return found
            element, count = element + 1, 0
        return found

    def _is_complete(self, branch: Branch) -> bool:
        pattern = self.specification.pattern
        return branch.count >= pattern[branch.element].least and all(
            element.least == 0 for element in pattern[branch.element + 1 :]
        )

    def _survives(self, branch: Branch, ended: Branch, number: int) -> bool:
        """Return whether a branch goes on behind a match that ended with a row."""
        if branch.start == ended.start:
            return False
        kind = self.specification.skip
        if kind == "NEXT":
            return True
        if kind == "PAST LAST":
            return branch.start > number
        return branch.start >= self._skipped_to(ended, kind)

    def _skipped_to(self, ended: Branch, kind: str) -> int:
        """Return the number of the row to which the matching skips.

        Raises:
            ValueError: It is the first row of the match, or there is none.
        """
        variable = self.specification.skip_variable
        names = [element.variable for element in self.specification.pattern]
        numbers = [number for number, element, _ in ended.rows if names[element] == variable]
        if not numbers:
            raise ValueError(f"Could not skip to {variable}: the match has no row of it")
        place = numbers[0] if kind == "FIRST" else numbers[-1]
        if place == ended.start:
            raise ValueError(
                f"Could not skip to the {kind.lower()} row of {variable}: it is the first row of "
                "the match, which would match again without end"
            )
        return place
