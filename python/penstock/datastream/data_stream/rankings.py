"""The first records of each key: `top_n` and `deduplicate` (beyond PyFlink).

Both are functions with ordinary keyed state: checkpoints, rescaling, RocksDB and time to live work
as for any other function.  With batches of columns, state is the same and is accessed once for each
key of a batch.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, Protocol

from penstock.columns.change_batches import Changes
from penstock.common.row_kind import RowKind
from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.common.values.change_rows import change_row, kind_of_change, type_of_changes
from penstock.datastream.data_stream.key_fields import key_selector_of
from penstock.datastream.functions import (
    AggregateFunction,
    Function,
    KeyedProcessFunction,
    KeySelector,
    ProcessWindowFunction,
)
from penstock.datastream.functions.function import check_function
from penstock.datastream.functions.window import ProcessAllWindowFunction
from penstock.datastream.shipping import shipped
from penstock.datastream.state import ValueStateDescriptor
from penstock.datastream.state_lifetime import Lifetime, expiring, ttl_config
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.expressions.computed import computed_by
from penstock.expressions.functions import bound_function

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from penstock.columns.array_types import Integers
    from penstock.columns.column_batch import ColumnBatch
    from penstock.columns.first_rows import Inserted
    from penstock.columns.groups import Groups
    from penstock.common.typeinfo import RowTypeInfo, TypeInformation
    from penstock.datastream.data_stream.settings import StreamSettings
    from penstock.datastream.functions import RuntimeContext
    from penstock.datastream.state_ttl_config import StateTtlConfig

#: Results of a ranking: each change as a row, or the final records when the input ends.
Results = Literal["changes", "final"]
_RESULTS: Final = ("changes", "final")

#: Keys with room for more records do not keep them as columns.
_MOST_ROWS: Final = 16

#: The latest timestamp, whose timer fires when the input ends.
_END: Final = 2**63 - 1


class GroupState(Protocol):
    """The function's state of the keys of a batch, by the numbers of their groups."""

    def values(self) -> list[Any]:
        """Return the value of each key, or None."""

    def put(self, group: int, value: object) -> None:
        """Set the value of a key; nobody changes it in place."""

    def enter(self, group: int) -> None:
        """Set the current key."""


class Ranking(NamedTuple):
    """A function that ranks the records of each key, and its results.

    Attributes:
        function: The function.
        name: The name of the operator.
        is_declared: Whether the type of the results is declared, and not from annotations.
        result_type: The type of the results.
        why_rows: Why batches of columns are processed as rows; None if they are not.
        order: Computes the values by which batches are ordered; None without an order.
    """

    function: KeyedProcessFunction
    name: str
    is_declared: bool
    result_type: TypeInformation | None
    why_rows: str | None = None
    order: Any = None

    def with_order(self, order: Any, rank: str | None) -> Ranking:
        """Return the same ranking with an order."""
        is_computed = computed_by(order) is not None
        reason = self.why_rows
        if rank is not None:
            reason = "as other ranks change with each"
        elif not is_computed:
            reason = "as a function computes the order"
        return self._replace(order=order if is_computed else None, why_rows=reason)


def ranked(
    keyed: StreamSettings,
    n: int,
    by: Any,
    *,
    descending: bool,
    results: Results,
    rank: str | None,
    ttl: Lifetime,
) -> Ranking:
    """Return the ranking of the first records of each key; `KeyedStream.top_n`."""
    _check_results(results, "top_n")
    if rank is not None and results == "final":
        raise InvalidProgramError(
            "top_n: results='final' emits the records themselves, which have no field for a rank: "
            "leave rank out, or use results='changes'"
        )
    order = Order(n, order_of(keyed._plain(), by, "top_n"), descending=descending)
    function = TopN(order, results, rank, ttl_config(ttl, "top_n"))
    if results == "final":
        return _same_records(keyed, function, "TopN").with_order(order.by, rank)
    row = type_of_changes(keyed._plain()._record_type())
    if row is not None and rank is not None:
        if rank in row.get_field_names():
            raise InvalidProgramError(
                f"top_n: the records have a field {rank!r} already: choose another name as rank"
            )
        row = Types.ROW_NAMED(
            [*row.get_field_names(), rank], [*row.get_field_types(), Types.LONG()]
        )
    return _changes(keyed, function, "TopN", row).with_order(order.by, rank)


def deduplicated(
    keyed: StreamSettings, keep: Literal["first", "last"], results: Results, ttl: Lifetime
) -> Ranking:
    """Return the ranking of one record of each key; `KeyedStream.deduplicate`."""
    check_keep(keep)
    _check_results(results, "deduplicate")
    config = ttl_config(ttl, "deduplicate")
    if keep == "first":
        return _same_records(keyed, First(config), "Deduplicate")
    if results == "final":
        return _same_records(keyed, Last(results, config), "Deduplicate")
    row = type_of_changes(keyed._plain()._record_type())
    return _changes(keyed, Last(results, config), "Deduplicate", row)


def _changes(
    keyed: StreamSettings, function: KeyedProcessFunction, name: str, row: RowTypeInfo | None
) -> Ranking:
    """Return a ranking whose results are change rows."""
    why_rows = "as they are no rows" if row is None else None
    return Ranking(function, name, keyed.transformation.output_type is not None, row, why_rows)


def _same_records(keyed: StreamSettings, function: KeyedProcessFunction, name: str) -> Ranking:
    """Return a ranking whose results are some of the records."""
    declared: Any = keyed.transformation.output_type
    if declared is None:
        return Ranking(function, name, False, keyed._kept_annotation())
    return Ranking(function, name, True, declared)


def check_keep(keep: object) -> None:
    """Check that `keep` is "first" or "last".

    Raises:
        WrongArgumentError: It is something else.
    """
    if keep not in ("first", "last"):
        raise WrongArgumentError(f"deduplicate: keep must be 'first' or 'last', got {keep!r}")


def _check_results(results: object, where: str) -> None:
    if results not in _RESULTS:
        raise WrongArgumentError(f"{where}: results must be 'changes' or 'final', got {results!r}")


def order_of(stream: StreamSettings, by: Any, where: str) -> Any:
    """Return the function that computes the value by which records are ordered.

    Args:
        stream: The stream of the records.
        by: A function, the name of a field, an expression, or a list of names and expressions.
        where: The name of the call, for messages.

    Raises:
        InvalidProgramError: A field does not exist, or the argument is not a function.
    """
    parts = tuple(by) if isinstance(by, list | tuple) else (by,)
    if not parts:
        raise InvalidProgramError(
            f"{where}: by must be a field, an expression, a function or a list of fields, "
            f"got {by!r}"
        )
    given = key_selector_of(parts, stream._record_type(), where)
    function = stream._function(given, where)
    check_function(function, KeySelector, where, or_callable=True)
    return shipped(function, where)


class Order:
    """An order of records and the number of first records that a ranking keeps.

    None is less than any value, as in Flink SQL.  Of equal records the earlier one is first.
    """

    def __init__(self, n: int, by: Any, *, descending: bool) -> None:
        """Create an order.

        Raises:
            WrongArgumentError: ``n`` is not a positive integer, or ``descending`` is no boolean.
        """
        given: Any = n
        if type(given) is not int or given < 1:
            raise WrongArgumentError(f"top_n: n must be a positive integer, got {n!r}")
        direction: Any = descending
        if type(direction) is not bool:
            raise WrongArgumentError(
                f"top_n: descending must be a single True or False, got {descending!r}; to order "
                'one number the other way, negate it: by=[field("price"), -field("at")]'
            )
        self.n = n
        self.by = by
        self.descending = descending

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the function that computes the order."""
        if isinstance(self.by, Function):
            self.by.open(runtime_context)

    def close(self) -> None:
        """Close the function that computes the order."""
        if isinstance(self.by, Function):
            self.by.close()

    def key(self) -> Callable[[Any], tuple[bool, Any]]:
        """Return the function that computes the value by which records are compared."""
        select = bound_function(self.by, "get_key")

        def key(record: Any) -> tuple[bool, Any]:
            value = select(record)
            if isinstance(value, tuple):
                value = tuple((part is not None, part) for part in value)
            return value is not None, value

        return key

    def keys_of(self, columns: Sequence[Any]) -> list[tuple[bool, Any]]:
        """Return the values by which the records of a batch are compared, as `key` does.

        Args:
            columns: The columns of the values, one for each field of the order.
        """
        values = [column.to_pylist() for column in columns]
        if len(values) == 1:
            return [(value is not None, value) for value in values[0]]
        rows = zip(*values, strict=True)
        return [(True, tuple([(part is not None, part) for part in row])) for row in rows]

    def insert(self, entries: list[Any], key: Any, record: Any) -> int | None:
        """Insert a record; return its position, or None if ``n`` records precede it.

        Args:
            entries: Pairs of key and record in order; changed in place, also beyond ``n``.
            key: The key of the record.
            record: The record.
        """
        low, high = 0, len(entries)
        while low < high:
            middle = (low + high) // 2
            other = entries[middle][0]
            stays = not (other < key) if self.descending else not (key < other)
            if stays:
                low = middle + 1
            else:
                high = middle
        if low >= self.n:
            return None
        entries.insert(low, (key, record))
        return low

    def inserted(
        self, groups: Groups, orders: list[Any], known: list[Any], sizes: Integers
    ) -> Inserted:
        """Insert the records of a batch, whose positions stand for them.

        Args:
            groups: The records of the batch by key.
            orders: The columns of the values by which they are compared.
            known: Pairs of sort key and record, group by group in order; their positions stand
                behind those of the batch.
            sizes: By group, the number of these pairs.
        """
        from penstock.columns.first_rows import codes_with_known, inserted
        from penstock.columns.group_kernels import NoKernelError
        from penstock.columns.order_ranks import OrderColumn, are_ranked, order_ranks

        if are_ranked(column.type for column in orders):
            columns = [
                OrderColumn(index, self.descending, nulls_first=not self.descending)
                for index in range(len(orders))
            ]
            codes = codes_with_known(groups, sizes)
            try:
                ranks = order_ranks(Columns(orders), codes, KnownKeys(known, orders), columns)
                return inserted(groups, sizes, codes, ranks, self.n)
            except NoKernelError:
                # The batch is inserted record by record.
                pass
        return self._inserted_one_by_one(groups, orders, known, sizes)

    def _inserted_one_by_one(
        self, groups: Groups, orders: list[Any], known: list[Any], sizes: Integers
    ) -> Inserted:
        import numpy as np

        from penstock.columns.first_rows import Inserted, Replaced

        pairs = iter([(key, place) for place, (key, _) in enumerate(known, len(groups))])
        firsts = [list(islice(pairs, size)) for size in sizes.tolist()]
        rows, before, changed = [], [], set()
        keys = self.keys_of(orders)
        for position, (group, key) in enumerate(zip(groups.codes.tolist(), keys, strict=True)):
            if self.insert(firsts[group], key, position) is not None:
                rows.append(position)
                changed.add(group)
                before.append(firsts[group].pop()[1] if len(firsts[group]) > self.n else -1)
        places = [place for group in changed for _, place in firsts[group]]
        return Inserted(
            Replaced(np.array(rows, np.int64), np.array(before, np.int64)),
            np.array(list(changed), np.int64),
            np.array([len(firsts[group]) for group in changed], np.int64),
            np.array(places, np.int64),
        )


class Columns(NamedTuple):
    """The values by which the records of a batch are compared."""

    columns: list[Any]

    def column(self, index: int) -> Any:
        """Return a column."""
        return self.columns[index]


class KnownKeys(NamedTuple):
    """The values by which records of state are compared.

    Attributes:
        known: Pairs of sort key and record.
        columns: The columns of a batch, whose types the values have.
    """

    known: list[Any]
    columns: list[Any]

    def column(self, index: int) -> Any:
        """Return the values of a column as an Arrow array.

        Raises:
            NoKernelError: A value does not fit its type.
        """
        import pyarrow as pa

        from penstock.columns.group_kernels import NoKernelError

        if len(self.columns) == 1:
            values = [key[1] for key, _ in self.known]
        else:
            values = [key[1][index][1] for key, _ in self.known]
        try:
            return pa.array(values, self.columns[index].type)
        except (pa.ArrowException, OverflowError, TypeError):
            raise NoKernelError from None


class TopN(KeyedProcessFunction):
    """The function that keeps the first records of each key in order."""

    def __init__(
        self, order: Order, results: Results, rank: str | None, ttl: StateTtlConfig | None
    ) -> None:
        """Store the arguments of `KeyedStream.top_n`."""
        self._order = order
        self._results = results
        self._rank = rank
        #: By key: a tuple of pairs of sort key and record; old snapshots have lists.  The garbage
        #: collector forgets tuples of plain values.
        self.descriptor = expiring(ValueStateDescriptor("top", Types.PICKLED_BYTE_ARRAY()), ttl)

    @property
    def order_of_columns(self) -> Order | None:
        """The order of the records if they may be stored as columns, or None."""
        return self._order if self._results == "changes" and self._order.n <= _MOST_ROWS else None

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state."""
        self._order.open(runtime_context)
        self._key = self._order.key()
        self._top = runtime_context.get_state(self.descriptor)

    def close(self) -> None:
        """Close the function that computes the order."""
        self._order.close()

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Process a record."""
        _require_insert(value, "top_n")
        entries: list[Any] = list(self._top.value() or ())
        place = self._order.insert(entries, self._key(value), value)
        if place is None:
            return
        dropped = [record for _, record in entries[self._order.n :]]
        del entries[self._order.n :]
        self._top.update(tuple(entries))
        if self._results == "final":
            ctx.timer_service().register_event_time_timer(_END)
        elif self._rank is None:
            for record in dropped:
                yield change_row(RowKind.DELETE, record)
            yield change_row(RowKind.INSERT, value)
        else:
            yield from self._moved([record for _, record in entries], place, dropped)

    def process_batch(
        self,
        batch: ColumnBatch,
        groups: Groups,
        orders: list[Any],
        state: GroupState,
        ctx: KeyedProcessFunction.Context,
    ) -> Changes | None:
        """Process a batch of rows, as `process_element` does one by one, without ranks."""
        import numpy as np

        known: list[Any] = []
        sizes = []
        for entries in state.values():
            if entries:
                known.extend(entries)
                sizes.append(len(entries))
            else:
                sizes.append(0)
        found = self._order.inserted(groups, orders, known, np.array(sizes, np.int64))
        rows, before = found.replaced
        if not len(rows):
            return None
        entries = self._entries(batch, orders, known, found)
        for group, size in zip(found.groups.tolist(), found.sizes.tolist(), strict=True):
            state.put(group, tuple(islice(entries, size)))
            if self._results == "final":
                state.enter(group)
                ctx.timer_service().register_event_time_timer(_END)
        if self._results == "final":
            return None
        is_old = before >= len(batch)
        old = [known[place][1] for place in (before[is_old] - len(batch)).tolist()]
        before = before.copy()
        before[is_old] = range(len(batch), len(batch) + len(old))
        return Changes(batch, rows, before, old, RowKind.DELETE, RowKind.INSERT)

    def restore(self, record: Any) -> None:
        """Insert a stored record of the current key, which has been emitted."""
        entries = list(self._top.value() or ())
        if self._order.insert(entries, self._key(record), record) is not None:
            self._top.update(tuple(entries[: self._order.n]))

    def _entries(
        self, batch: ColumnBatch, orders: list[Any], known: list[Any], found: Inserted
    ) -> Iterator[Any]:
        """Yield the pairs of sort key and record that stay, group by group."""
        import pyarrow as pa

        new = pa.array(found.rows[found.rows < len(batch)])
        keys = self._order.keys_of([column.take(new) for column in orders])
        pairs = zip(keys, batch.take(new).handed_over(), strict=True)
        count = len(batch)
        for place in found.rows.tolist():
            yield next(pairs) if place < count else known[place - count]

    def _moved(self, records: list[Any], place: int, dropped: list[Any]) -> Iterator[Any]:
        """Emit the changed ranks: the record at `place` is new and moved the later ones down."""
        for position in range(place, len(records)):
            before = records[position + 1] if position + 1 < len(records) else None
            if position + 1 == len(records):
                if not dropped:
                    yield self._row(RowKind.INSERT, records[position], position)
                    return
                before = dropped[0]
            yield self._row(RowKind.UPDATE_BEFORE, before, position)
            yield self._row(RowKind.UPDATE_AFTER, records[position], position)

    def _row(self, kind: RowKind, record: Any, position: int) -> Any:
        row = change_row(kind, record)
        names = row._field_names()
        ranked = Row.of_kind(kind, *row, position + 1)
        if names is not None:
            ranked.set_field_names([*names, str(self._rank)])
        return ranked

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:  # noqa: ARG002
        """Emit the records when the input ends."""
        for _, record in self._top.value() or ():
            yield record


class First(KeyedProcessFunction):
    """The function that emits the first record of each key."""

    order_of_columns = None

    def __init__(self, ttl: StateTtlConfig | None) -> None:
        """Describe the state."""
        self.descriptor = expiring(ValueStateDescriptor("seen", Types.BOOLEAN()), ttl)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state."""
        self._seen = runtime_context.get_state(self.descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:  # noqa: ARG002
        """Process a record."""
        _require_insert(value, "deduplicate")
        if not self._seen.value():
            self._seen.update(True)
            yield value

    def process_batch(
        self,
        batch: ColumnBatch,
        groups: Groups,
        orders: list[Any],  # noqa: ARG002
        state: GroupState,
        ctx: KeyedProcessFunction.Context,  # noqa: ARG002
    ) -> ColumnBatch | None:
        """Process a batch, as `process_element` does one by one."""
        import pyarrow as pa

        new = []
        firsts = groups.firsts.tolist()
        for group, (first, seen) in enumerate(zip(firsts, state.values(), strict=True)):
            if not seen:
                state.put(group, True)
                new.append(first)
        return batch.take(pa.array(new)) if new else None


class Last(KeyedProcessFunction):
    """The function that emits the last record of each key, at each change or at the end."""

    order_of_columns = None

    def __init__(self, results: Results, ttl: StateTtlConfig | None) -> None:
        """Store the arguments of `KeyedStream.deduplicate`."""
        self._results = results
        self.descriptor = expiring(ValueStateDescriptor("last", Types.PICKLED_BYTE_ARRAY()), ttl)

    def open(self, runtime_context: RuntimeContext) -> None:
        """Open the state."""
        self._last = runtime_context.get_state(self.descriptor)

    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        """Process a record."""
        _require_insert(value, "deduplicate")
        found = self._last.value()
        # In a tuple, so that a record that is None differs from no record.
        self._last.update((value,))
        if self._results == "final":
            ctx.timer_service().register_event_time_timer(_END)
        elif found is None:
            yield change_row(RowKind.INSERT, value)
        else:
            yield change_row(RowKind.UPDATE_BEFORE, found[0])
            yield change_row(RowKind.UPDATE_AFTER, value)

    def process_batch(
        self,
        batch: ColumnBatch,
        groups: Groups,
        orders: list[Any],  # noqa: ARG002
        state: GroupState,
        ctx: KeyedProcessFunction.Context,
    ) -> Changes | None:
        """Process a batch, as `process_element` does one by one."""
        import pyarrow as pa

        old, known = [], []
        rows = batch.take(pa.array(groups.lasts)).handed_over()
        for group, (row, found) in enumerate(zip(rows, state.values(), strict=True)):
            if found is not None:
                old.append(found[0])
                known.append(group)
            state.put(group, (row,))
            if self._results == "final":
                state.enter(group)
                ctx.timer_service().register_event_time_timer(_END)
        if self._results == "final":
            return None
        before = groups.previous
        before[groups.firsts[known]] = range(len(batch), len(batch) + len(old))
        return Changes(
            batch, range(len(batch)), before, old, RowKind.UPDATE_BEFORE, RowKind.UPDATE_AFTER
        )

    def on_timer(self, timestamp: int, ctx: KeyedProcessFunction.OnTimerContext) -> Iterator[Any]:  # noqa: ARG002
        """Emit the record when the input ends."""
        found = self._last.value()
        if found is not None:
            yield found[0]


class TopOfWindow(AggregateFunction):
    """The aggregation that keeps the first records of a window in order."""

    def __init__(self, order: Order) -> None:
        """Store the order."""
        self._order = order
        self._key: Callable[[Any], Any] | None = None

    def create_accumulator(self) -> list[Any]:
        """Return an empty list."""
        return []

    def add(self, value: Any, accumulator: list[Any]) -> list[Any]:
        """Insert a record."""
        if self._key is None:
            # Functions of windows are not opened, so the key function is created here.
            self._key = self._order.key()
        self._order.insert(accumulator, self._key(value), value)
        del accumulator[self._order.n :]
        return accumulator

    def get_result(self, accumulator: list[Any]) -> list[Any]:
        """Return the records in order."""
        return [record for _, record in accumulator]

    def merge(self, acc_a: list[Any], acc_b: list[Any]) -> list[Any]:
        """Merge the first records of two windows."""
        for key, record in acc_b:
            self._order.insert(acc_a, key, record)
        del acc_a[self._order.n :]
        return acc_a


class EachOfWindow(ProcessWindowFunction[Any, Any, Any, Any]):
    """The function that emits the records of lists one by one."""

    def process(self, key: Any, context: Any, elements: Iterable[Any]) -> Iterable[Any]:  # noqa: ARG002
        """Return the records of a window."""
        return [record for records in elements for record in records]


class EachOfAll(ProcessAllWindowFunction[Any, Any, Any]):
    """The function that emits the records of lists one by one, without keys."""

    def process(self, context: Any, elements: Iterable[Any]) -> Iterable[Any]:  # noqa: ARG002
        """Return the records of a window."""
        return [record for records in elements for record in records]


def first_record(first: Any, second: Any) -> Any:  # noqa: ARG001
    """Return the earlier of two records."""
    return first


def last_record(first: Any, second: Any) -> Any:  # noqa: ARG001
    """Return the later of two records."""
    return second


def _require_insert(value: Any, where: str) -> None:
    kind = kind_of_change(value)
    if kind is not RowKind.INSERT:
        raise InvalidProgramError(
            f"{where} takes only insertions, and {value!r:.200} is {kind}: call it before joins "
            "and rankings that emit changes, not after them"
        )
