"""Cases that are a value of a declared type at some position of a job.

Many values share a job; if it fails, its halves run separately, down to the single value that
causes the failure.
"""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING, Any

import cloudpickle

from pyflink_oracle import outcomes
from pyflink_oracle.outcomes import error_text, text_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from library import Library

cloudpickle.register_pickle_by_value(outcomes)

NUMBERS = (
    "True",
    "False",
    "0",
    "1",
    "-1",
    "127",
    "128",
    "255",
    "-129",
    "32768",
    "70000",
    "2**31",
    "-2**31-1",
    "2**40",
    "2**53+1",
    "2**63",
    "-2**63-1",
    "2**70",
    "1.0",
    "1.5",
    "-2.7",
    "float('nan')",
    "float('inf')",
    "3.4e38",
    "3.5e38",
    "1e300",
    "1e-46",
    "0.1",
    "-0.0",
    "Decimal('1.50')",
    "Decimal('NaN')",
    "1j",
)
TEXTS = (
    "''",
    "'a'",
    "'ab'",
    "'1'",
    "'1.5'",
    "'\\u00e4\\U0001f600'",
    "'\\ud800'",
    "b'x'",
    "b''",
    "bytearray(b'xy')",
    "'\\0'",
)
MOMENTS = (
    "datetime.date(2020, 1, 2)",
    "datetime.date(1, 1, 1)",
    "datetime.time(1, 2, 3, 4567)",
    "datetime.time(1, 2, tzinfo=UTC)",
    "datetime.datetime(2020, 1, 2, 3, 4, 5, 6789)",
    "datetime.datetime(1960, 1, 2, 3, 4, 5, 6789)",
    "datetime.datetime(2020, 1, 2, tzinfo=UTC)",
    "datetime.timedelta(1)",
    "Instant(1, 2)",
    "Instant(1, 2000000)",
    "Instant(-1, 5000000)",
)
CONTAINERS = (
    "[]",
    "[1]",
    "[None]",
    "[1.5]",
    "['a']",
    "[1, 'a']",
    "[[1]]",
    "()",
    "(1,)",
    "(1, 'a')",
    "('a', 1)",
    "(1, 'a', 2)",
    "(1, None)",
    "(None, 'a')",
    "((1,), 'a')",
    "(300, 'a')",
    "(1, 2)",
    "(1.0, 'a')",
    "Row()",
    "Row(1)",
    "Row(1, 'a')",
    "Row(1, None)",
    "Row(1, 2)",
    "Row(1, 'a', 2)",
    "Row(a=1, b='a')",
    "Row(b='a', a=1)",
    "Row(a=1)",
    "Row(a=1, b='a', c=2)",
    "Row(x=1, y='a')",
    "Row.of_kind(RowKind.DELETE, 1, 'a')",
    "Row.of_kind(RowKind.UPDATE_BEFORE, a=1, b='a')",
    "{}",
    "{'a': 1}",
    "{1: 'a'}",
    "{'a': None}",
    "{'a': 1, 'b': 'a'}",
    "{'a': 1.5}",
    "{None: 1}",
    "{1}",
    "range(2)",
    "{'a': [1]}",
    "[(1, 'a')]",
    "[Row(1, 'a')]",
    "[b'x']",
)
OTHERS = ("None", "object")

SCALARS = (
    "BOOLEAN",
    "BYTE",
    "SHORT",
    "INT",
    "LONG",
    "FLOAT",
    "DOUBLE",
    "CHAR",
    "STRING",
    "BIG_INT",
    "BIG_DEC",
)
TEMPORAL = ("INSTANT", "SQL_DATE", "SQL_TIME", "SQL_TIMESTAMP")
COMPOSITE = (
    "Types.TUPLE([Types.INT(), Types.STRING()])",
    "Types.ROW([Types.INT(), Types.STRING()])",
    "Types.ROW_NAMED(['a', 'b'], [Types.INT(), Types.STRING()])",
    "Types.LIST(Types.INT())",
    "Types.MAP(Types.STRING(), Types.INT())",
    "Types.PICKLED_BYTE_ARRAY()",
    "Types.PRIMITIVE_ARRAY(Types.BYTE())",
    "Types.PRIMITIVE_ARRAY(Types.INT())",
    "Types.BASIC_ARRAY(Types.INT())",
    "Types.OBJECT_ARRAY(Types.STRING())",
    "Types.TUPLE([Types.TUPLE([Types.INT()]), Types.STRING()])",
    "Types.LIST(Types.TUPLE([Types.INT(), Types.STRING()]))",
    "Types.LIST(Types.ROW([Types.INT(), Types.STRING()]))",
)
#: Types with a scalar inside.
WRAPPED = (
    "Types.TUPLE([{0}])",
    "Types.ROW([{0}])",
    "Types.LIST({0})",
    "Types.MAP(Types.STRING(), {0})",
    "Types.MAP({0}, Types.INT())",
    "Types.PRIMITIVE_ARRAY({0})",
    "Types.BASIC_ARRAY({0})",
    "Types.OBJECT_ARRAY({0})",
)
WRAPPING = ("({0},)", "Row({0})", "[{0}]", "{{'a': {0}}}", "{{{0}: 1}}", "[{0}]", "[{0}]", "[{0}]")

ALL_VALUES = (*NUMBERS, *TEXTS, *MOMENTS, *CONTAINERS, *OTHERS)
#: Values within containers.
INNER = ("None", "True", "1", "2**40", "1.5", "'a'", "b'x'", "(1,)")
INNER_MOMENTS = ("None", "1", "datetime.date(2020, 1, 2)", "Instant(1, 2)")


#: Values for positions that share their conversions with others.
FEW = (
    "None",
    "True",
    "1",
    "300",
    "2**40",
    "1.5",
    "1e300",
    "'a'",
    "'ab'",
    "b'x'",
    "Decimal('1.50')",
    "datetime.date(2020, 1, 2)",
    "datetime.time(1, 2, 3, 4567)",
    "datetime.datetime(2020, 1, 2, 3, 4, 5, 6789)",
    "Instant(1, 2)",
    "Instant(1, 2000000)",
    "[1]",
)
FEW_CONTAINERS = (
    "None",
    "1",
    "'a'",
    "[]",
    "[1]",
    "[None]",
    "['a']",
    "(1, 'a')",
    "[1, 'a']",
    "(1, None)",
    "(300, 'a', 1)",
    "(1,)",
    "('a', 1)",
    "Row(1, 'a')",
    "Row(1, None)",
    "Row(a=1, b='a')",
    "Row(b='a', a=1)",
    "Row(x=1, y='a')",
    "Row(1)",
    "Row.of_kind(RowKind.DELETE, 1, 'a')",
    "{'a': 1}",
    "{'a': None}",
    "{1: 'a'}",
    "b'x'",
    "[(1, 'a')]",
    "[Row(1, 'a')]",
)


def value_cases() -> Iterator[tuple[str, str, str]]:
    """Yield position, type and value of each case."""
    for position in POSITIONS:
        # PyFlink encodes and decodes these types differently: only `from_collection` has a meaning
        # to compare with.
        unclear = () if position == "source" else ("CHAR", "BIG_INT", "BIG_DEC")
        kinds = [kind for kind in SCALARS if kind not in unclear]
        few = position not in ("source", "map")
        for kind in (*kinds, *TEMPORAL):
            strict = kind in ("BIG_DEC", *TEMPORAL)
            for value in FEW if few or strict else ALL_VALUES if position == "source" else SIMPLE:
                yield position, f"Types.{kind}()", value
        for kind in COMPOSITE:
            for value in FEW_CONTAINERS if few else (*CONTAINERS, "None", "1", "'a'", "b'x'"):
                yield position, kind, value
        if position == "source":
            for kind in ("INT", "DOUBLE", "BOOLEAN", "STRING", "SQL_DATE", "INSTANT"):
                inner = INNER_MOMENTS if kind in TEMPORAL else INNER
                for outer, wrapping in zip(WRAPPED, WRAPPING, strict=True):
                    for value in inner:
                        yield position, outer.format(f"Types.{kind}()"), wrapping.format(value)


SIMPLE = (*NUMBERS, *TEXTS, *MOMENTS, "None", "[1]", "(1,)")

# The positions: each takes names, type and values, and returns an outcome for each value.


def _collected(stream: Any) -> list[str]:
    with stream.execute_and_collect() as results:
        return [text_of(value) for value in results]


def _described(stream: Any) -> list[str]:
    with stream.map(text_of).execute_and_collect() as results:
        return list(results)


def source(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """From `from_collection` to the client."""
    return _collected(names["env"].from_collection(values, kind))


def source_in_function(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """From `from_collection` to a function."""
    return _described(names["env"].from_collection(values, kind))


def _numbers(names: Any, count: int) -> Any:
    return names["env"].from_collection(list(range(count)), names["Types"].INT())


def _mapped(names: Any, kind: Any, values: list[Any]) -> Any:
    stream = _numbers(names, len(values)).map(lambda i: values[i], kind)
    return stream.disable_chaining()


def map_(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """From a map to the client."""
    return _collected(_mapped(names, kind, values))


def map_in_function(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """From a map to a function in another task."""
    return _described(_mapped(names, kind, values))


def map_chained(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """From a map to a function of the same task."""
    return _described(_numbers(names, len(values)).map(lambda i: values[i], kind))


def side_output(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """From a side output to the client."""
    tag = names["OutputTag"]("tag", kind)

    class Emit(names["ProcessFunction"]):
        def process_element(self, value, ctx):
            yield tag, values[value]

    return _collected(_numbers(names, len(values)).process(Emit()).get_side_output(tag))


def key(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """Return the current key in a function."""

    class Tell(names["KeyedProcessFunction"]):
        def process_element(self, value, ctx):
            yield value, text_of(ctx.get_current_key())

    stream = _numbers(names, len(values)).key_by(lambda i: values[i], kind).process(Tell())
    with stream.execute_and_collect() as results:
        return [text for _, text in sorted(results)]


class _Twice:
    """Runs a keyed function for each number twice: the first writes, the second reads."""

    def __init__(self, names: Any, count: int, function: Any) -> None:
        self.names, self.count, self.function = names, count, function

    def outcomes(self) -> list[str]:
        numbers = [*range(self.count), *range(self.count)]
        names = self.names
        env = names["env"]
        stream = env.from_collection(numbers, names["Types"].INT())
        keyed = stream.key_by(lambda i: i, names["Types"].INT())
        with keyed.process(self.function).execute_and_collect() as results:
            found = dict(iter(results))
        return [found[i] for i in range(self.count)]


def value_state(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """Return the content of a ValueState at the key's next element."""
    descriptor = names["ValueStateDescriptor"]("v", kind)
    written = names["ValueStateDescriptor"]("w", names["Types"].BOOLEAN())

    class Use(names["KeyedProcessFunction"]):
        def open(self, ctx):
            self.state, self.written = ctx.get_state(descriptor), ctx.get_state(written)

        def process_element(self, value, ctx):
            if self.written.value():
                yield value, text_of(self.state.value())
            else:
                self.written.update(True)
                self.state.update(values[value])

    return _Twice(names, len(values), Use()).outcomes()


def value_state_at_once(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """Return the content of a ValueState at once."""
    descriptor = names["ValueStateDescriptor"]("v", kind)

    class Use(names["KeyedProcessFunction"]):
        def open(self, ctx):
            self.state = ctx.get_state(descriptor)

        def process_element(self, value, ctx):
            self.state.update(values[value])
            yield value, text_of(self.state.value())

    return _Twice(names, len(values), Use()).outcomes()


def list_state(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """Return the content of a ListState at the key's next element."""
    descriptor = names["ListStateDescriptor"]("v", kind)

    class Use(names["KeyedProcessFunction"]):
        def open(self, ctx):
            self.state = ctx.get_list_state(descriptor)

        def process_element(self, value, ctx):
            self.state.add(values[value])
            yield value, text_of(list(self.state.get())[:1])

    return _Twice(names, len(values), Use()).outcomes()


def map_state_value(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """Return the entries of a MapState at the key's next element."""
    descriptor = names["MapStateDescriptor"]("v", names["Types"].INT(), kind)
    return _Twice(names, len(values), _use_map(names, descriptor, values, keys=False)).outcomes()


def map_state_key(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """Return the keys of a MapState at the key's next element."""
    descriptor = names["MapStateDescriptor"]("v", kind, names["Types"].INT())
    return _Twice(names, len(values), _use_map(names, descriptor, values, keys=True)).outcomes()


def _use_map(names: Any, descriptor: Any, values: list[Any], *, keys: bool) -> Any:
    written = names["ValueStateDescriptor"]("w", names["Types"].BOOLEAN())

    class Use(names["KeyedProcessFunction"]):
        def open(self, ctx):
            self.state, self.written = ctx.get_map_state(descriptor), ctx.get_state(written)

        def process_element(self, value, ctx):
            if not self.written.value():
                self.written.update(True)
                self.state.put(values[value] if keys else 1, 7 if keys else values[value])
            elif keys:
                found = self.state.get(values[value])
                yield value, text_of([*self.state.keys(), found])
            else:
                yield value, text_of(self.state.get(1))

    return Use()


def broadcast_state(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """Return the content of a broadcast state at once."""
    descriptor = names["MapStateDescriptor"]("m", names["Types"].INT(), kind)
    stream = _numbers(names, len(values))

    class Use(names["BroadcastProcessFunction"]):
        def process_element(self, value, ctx):
            return []

        def process_broadcast_element(self, value, ctx):
            state = ctx.get_broadcast_state(descriptor)
            state.put(value, values[value])
            yield value, text_of(state.get(value))

    joined = stream.connect(_numbers(names, len(values)).broadcast(descriptor)).process(Use())
    with joined.execute_and_collect() as results:
        found = dict(iter(results))
    return [found[i] for i in range(len(values))]


def reduced(names: Any, kind: Any, values: list[Any]) -> list[str]:
    """Return the results of a window's reduce of one record."""
    stream = _mapped(names, kind, values).map(lambda v: v, kind)
    keyed = stream.key_by(lambda v: 0, names["Types"].INT())
    return _collected(keyed.count_window(1).reduce(lambda a, b: a))


POSITIONS = {
    "source": source,
    "source_in_function": source_in_function,
    "map": map_,
    "map_in_function": map_in_function,
    "map_chained": map_chained,
    "side_output": side_output,
    "key": key,
    "value_state": value_state,
    "value_state_at_once": value_state_at_once,
    "list_state": list_state,
    "map_state_value": map_state_value,
    "map_state_key": map_state_key,
    "broadcast_state": broadcast_state,
    "reduced": reduced,
}


def run_values(
    library: Library, position: str, kind: str, values: list[str], suspects: set[str]
) -> dict[str, str]:
    """Return the outcome of each value; `suspects` are run alone."""
    found: dict[str, str] = {}
    _run(library, position, kind, [value for value in values if value not in suspects], found)
    for value in values:
        if value in suspects:
            _run(library, position, kind, [value], found)
    return found


def _run(
    library: Library, position: str, kind: str, values: list[str], found: dict[str, str]
) -> None:
    if not values:
        return
    names = library.names()
    signal.alarm(limit_s)
    try:
        made = [object() if value == "object" else eval(value, names) for value in values]
        answers = POSITIONS[position](names, eval(kind, names), made)
        if len(answers) != len(values):
            raise LostElementsError(f"{len(answers)} of {len(values)} elements")
    except Exception as error:
        if len(values) == 1:
            found[values[0]] = error_text(error)
            return
        half = len(values) // 2
        _run(library, position, kind, values[:half], found)
        _run(library, position, kind, values[half:], found)
        return
    except TooLongError:
        print("too long:", position, kind, values, flush=True)
        if len(values) > 1:
            half = len(values) // 2
            _run(library, position, kind, values[:half], found)
            _run(library, position, kind, values[half:], found)
        return
    finally:
        signal.alarm(0)
    found.update(zip(values, answers, strict=True))


#: The time limit of a job.
limit_s = 30


class TooLongError(BaseException):
    """A job has not ended in time."""


def give_up(*_: object) -> None:
    """Raise, as the handler of the alarm signal."""
    raise TooLongError


class LostElementsError(Exception):
    """A job lost records."""
