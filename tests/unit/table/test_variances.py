"""Variances of integers, with the overflows that Flink 2.3 computes."""

import pytest
from penstock.table import types
from unit.table.running import HarnessTable, run, settled

_OVER = "OVER (ORDER BY k ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"


def _results(kind, values, *calls):
    table = HarnessTable.of("t", k=types.IntType(), v=kind)
    sql = f"SELECT {', '.join(calls)} FROM t"
    return settled(run(sql, [table], [("t", list(enumerate(values)))], is_streaming=False))


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (types.TinyIntType(), [3, 4, 100], (21, 55)),
        (types.SmallIntType(), [200, 300, -300], (3352, 321)),
        (types.IntType(), [100000, 200001], (2147483647, 70711)),
        (types.BigIntType(), [1, 2], (0, 0)),
        (types.BigIntType(), [5000000000, 1], (6249999997500000256, 3535533905)),
    ],
)
def test_a_group_computes_exactly_and_casts_the_result_as_java_does(kind, values, expected):
    assert _results(kind, values, "VAR_POP(v)", "STDDEV_SAMP(v)") == {expected: 1}


@pytest.mark.parametrize(
    ("kind", "values", "expected"),
    [
        (types.IntType(), [1, 2], [(0, None, 0), (0, 1, 0)]),
        (
            types.IntType(),
            [100000, 200001, 3],
            [(0, None, 0), (-721175472, -1442350944, 0), (336123585, 672247170, 18333)],
        ),
        (types.SmallIntType(), [300, -300], [(0, None, 0), (-8304, -16608, 0)]),
        (types.BigIntType(), [5000000000, 1], [(0, None, 0), (1638313979072612096, None, None)]),
    ],
)
def test_over_computes_each_step_in_the_type_of_the_argument(kind, values, expected):
    calls = [f"{name}(v) {_OVER}" for name in ("VAR_POP", "VAR_SAMP", "STDDEV_POP")]
    width = 3 if None not in expected[-1] else 1
    found = _results(kind, values, *calls[:width])
    assert sorted(found.elements(), key=repr) == sorted((r[:width] for r in expected), key=repr)
