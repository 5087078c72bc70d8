"""Kinds of known differences; docs/pyflink.md explains each.

A case and its two outcomes determine the kind; the first matching one counts.  A difference without
a kind is not accepted: fix it, or add a kind here and there.
"""

from __future__ import annotations

import re
from collections.abc import Callable

Judgement = Callable[[str, str, str], bool]

_ARGUMENT_ERRORS = (
    "WrongArgumentError",
    "InvalidProgramError",
    "TypeError",
    "ConfigurationError",
    "OverflowError",
)
_ERROR = re.compile(r"![A-Za-z0-9]+")
_NUMBER = r"Types\.(BYTE|SHORT|INT|LONG|FLOAT|DOUBLE)\(\)"


def _fails(outcome: str, *errors: str) -> bool:
    return outcome.startswith("!") and any(error in outcome for error in errors)


def _case(pattern: str) -> Judgement:
    found = re.compile(pattern)
    return lambda case, _pyflink, _penstock: found.search(case) is not None


def _both_fail(_case: str, pyflink: str, penstock: str) -> bool:
    return pyflink.startswith("!") and penstock.startswith("!")


def _refused(case: str, pyflink: str, penstock: str) -> bool:
    answers = not pyflink.startswith("!")
    return " | " not in case and answers and _fails(penstock, *_ARGUMENT_ERRORS)


def _wrong_objects(case: str, pyflink: str, penstock: str) -> bool:
    wrong = re.search(r"assign_windows|merge_windows|StateTtlConfig", case) is not None
    return wrong and not pyflink.startswith("!") and _fails(penstock, "AttributeError")


def _errors_within(_case: str, pyflink: str, penstock: str) -> bool:
    return _ERROR.sub("!", pyflink) == _ERROR.sub("!", penstock)


def _own_names(_case: str, pyflink: str, _penstock: str) -> bool:
    return "<pyflink." in pyflink or "Wrapper>" in pyflink or pyflink == "<StreamFormat>"


def _more(case: str, pyflink: str, penstock: str) -> bool:
    return " | " not in case and pyflink.startswith("!") and not penstock.startswith("!")


def _of_keyed(case: str, pyflink: str, penstock: str) -> bool:
    asked = re.search(r"(keyed_\w+|key_by\(.*\))\.get_type\(\)", case)
    shown = "<KeyedStream get_type=type RowTypeInfo(f0: " in pyflink
    return shown or (asked is not None and "RowTypeInfo(f0: " in pyflink and penstock[:1] != "!")


CALLS: dict[str, Judgement] = {
    "a keyed stream has the type of its records": _of_keyed,
    "the call is rejected": _refused,
    "an argument without a needed attribute": _wrong_objects,
    "needs a JVM": lambda _case, _pyflink, penstock: _fails(penstock, "JvmOnlyError"),
    "another class of error": _both_fail,
    "penstock has more": _more,
    "a getter fails with another error": _errors_within,
    "an internal form": _case(r"(to|from)_internal_type"),
    "another text of an object": _own_names,
    "PyFlink's own operator": _case(
        r"partition_custom|get_side_output|assign_timestamps_and_watermarks"
    ),
    "a list of types becomes a row": _case(r"\[(Types\.INT\(\)|int_type)?\]"),
    "an array of objects": _case(r"OBJECT_ARRAY"),
    "a text created by Java": _case(r"configuration\.set_(float|bytearray)"),
    "a number too large for Java": _case(r"2\*\*31|get_default_local_parallelism"),
    "a bug of PyFlink": _case(
        r"StateTtlConfig|EmbeddedRocksDBStateBackend|== Types|set_parallelism\(-1\)"
    ),
    "a getter of an object": _case(r"get_agg_function|AggregatingStateDescriptor|ttl"),
}


def _value(answered: bool, position: str, kind: str = "", value: str = "") -> Judgement:
    """Return whether penstock accepts a value that PyFlink rejects, or the reverse."""

    def judged(case: str, pyflink: str, penstock: str) -> bool:
        where, declared, given = case.split(" | ", 2)
        matches = zip((position, kind, value), (where, declared, given), strict=True)
        differ = pyflink.startswith("!") is answered and penstock.startswith("!") is not answered
        return differ and all(re.search(pattern, text) for pattern, text in matches)

    return judged


VALUES: dict[str, Judgement] = {
    "another class of error": _both_fail,
    "from_collection accepts more": _value(True, r"^source"),
    "None is a value": _value(True, "", "", "None"),
    "penstock accepts more": _value(True, ""),
    "a Java object's text": _value(False, r"^source", "STRING"),
    "from_collection rejects other classes": _value(False, r"^source"),
    "a tuple that is too long": _value(False, "", r"^Types\.(TUPLE|ROW)"),
    "a number of the wrong kind in a state": _value(False, "state", rf"^{_NUMBER}$"),
    "None does not fit the type": _value(False, "", "", r"^None$"),
    "a decimal as a boolean": _value(False, "", r"^Types\.BOOLEAN", "Decimal"),
    "microseconds of a time": _case(r"\| [^|]*(SQL_TIME|INSTANT)"),
    "a value that Java cannot represent": _case(r"^source \| "),
    "a fraction as a boolean": _case(r"^map \| Types\.BOOLEAN\(\) \| (1e-46|0\.1)$"),
}


def _programs(*names: str) -> Judgement:
    return lambda case, _pyflink, _penstock: case in names


#: Each program was judged individually.
PROGRAMS: dict[str, Judgement] = {
    "the program is rejected": _programs(
        "arguments.lambdas_for_objects",
        "arguments.objects_of_the_wrong_kind",
        "arguments.two_operators_of_one_uid",
        "connected.half_keyed_connect_fails",
        "process.process_of_a_keyed_function_without_keys",
        "written.moments_of_sessions",
    ),
    "an unrequested side output": _programs(
        "process.side_output_tag_made_in_the_function",
        "process.side_output_tag_nobody_asks_for",
        "connected.co_process_without_keys",
    ),
    "a local class is pickled": _programs(
        "states.value_state_of_a_local_class",
        "states.list_and_map_state_of_a_local_class",
        "states.elements_of_a_local_class",
    ),
    "an instant within another value": _case(
        r"^(typed?s?\.instants_|value_uses\.dates_on_their_way)"
    ),
    "the subtask of a key": _programs("partitions.key_groups_decide_the_subtask"),
    "a source calls its timestamp assigner": _programs("partitions.a_sequence_with_timestamps"),
    "listed among the values": _programs(
        "types.big_integers",
        "types.dates_and_times",
        "types.dates_within_rows_and_tuples",
        "types.lists_in_every_form",
        "types.numbers_where_others_are_declared",
        "types.rows_in_every_form",
        "types.tuples_in_every_form",
        "types.values_without_a_type",
        "typed.big_ints_at_the_client",
        "typed.times_at_the_client",
        "typed.timestamps_at_the_client",
    ),
    "PyFlink's own operator": _programs("process.side_output_of_a_map_is_a_value"),
    "keys that are equal in Python": _programs("states.keys_of_many_kinds"),
    "returning nothing is no error": _programs(
        "process.timers_without_on_timer",
        "connected.co_flat_map_that_gives_none",
        "given.others_of_timer",
    ),
    "partition_custom needs no parallelism": _programs(
        "partitions.custom_partitioner_function",
        "partitions.custom_partitioner_object",
        "two_input_uses.partitioned_by_a_function",
    ),
    "an expired state is gone": _programs(
        "state_uses.lists_whose_elements_expire",
        "state_uses.maps_whose_entries_expire",
        "state_uses.values_that_expire",
    ),
    "timers that timers register": _programs("timer_order.timers_that_register_timers"),
    "sessions in BATCH mode": _programs("windows.sessions_in_batch_mode"),
    "window functions in BATCH mode": _programs("window_uses.windows_in_batch_mode"),
    "from_collection accepts more": _programs(
        "arguments.a_wrong_element_of_a_collection",
        "typed.bytes_at_the_client",
        "typed.bytes_everywhere",
        "typed.rows_at_the_client",
        "typed.rows_everywhere",
        "written.a_file_of_floats_within",
        "written.a_file_of_lists",
        "written.a_file_of_lists_of_doubles",
    ),
}


PLANS: dict[str, Judgement] = {
    "a window over all records": _case(r": window_all$|all windowed: "),
    "caching a stream that is not an operator": _case(": cache$"),
    "an assigner for a keyed stream": _case(": assign_timestamps_and_watermarks of Python$"),
    "inputs after a custom partition": _case("^custom: connect"),
    "a side output without an operator": _case("^(side output|custom): get_side_output$"),
    "a function of the wrong kind": _case("^connected.*: process with keys$"),
    "a sink of one subtask": _case("^union of keyed: print of one subtask$"),
}


def kind_of(name: str, case: str, pyflink: str, penstock: str) -> str | None:
    """Return the kind of a difference; None if it has none."""
    kinds = {"calls": CALLS, "values": VALUES, "programs": PROGRAMS, "plans": PLANS}
    judgements = kinds[name]
    return next((k for k, fits in judgements.items() if fits(case, pyflink, penstock)), None)
