"""MATCH_RECOGNIZE finds what Flink finds; the results were compared with Flink 2.3."""

import datetime

import pytest

pytest.importorskip("sqlglot")
pytest.importorskip("pyarrow")

from penstock.errors import IllegalStateError
from penstock.table import types
from penstock.table.exceptions import TableException, ValidationException
from unit.table.planning import ROWTIME, TEXT
from unit.table.running import HarnessTable, RunningQuery

MATCHED = (
    "SELECT {select} FROM e MATCH_RECOGNIZE (PARTITION BY u ORDER BY ts MEASURES {measures} "
    "{after} PATTERN ({pattern}) {within} DEFINE {define}) AS m"
)
USUAL = {
    "select": "*",
    "measures": "A.n AS a, LAST(B.n) AS b, C.n AS c",
    "after": "AFTER MATCH SKIP TO NEXT ROW",
    "pattern": "A B C",
    "within": "",
    "define": "B AS B.n > A.n, C AS C.n > 3",
}


def table():
    return HarnessTable.of("e", u=TEXT, n=types.IntType(), ts=ROWTIME)


def second(number):
    return datetime.datetime(2024, 1, 1, 0, 0, number)


def rows(*numbers, user="x"):
    return [(user, number, second(number)) for number in numbers]


def query(restored=None, **parts):
    return RunningQuery(MATCHED.format(**{**USUAL, **parts}), [table()], restored=restored)


def matches(given=tuple(range(1, 6)), **parts):
    running = query(**parts)
    try:
        running.give("e", rows(*given))
        running.end()
        assert all(kind == 0 for kind, _ in running.changes())
        return [row for _, row in running.changes()]
    finally:
        running.close()


@pytest.mark.parametrize(
    ("pattern", "wanted"),
    [
        ("A B C", [("x", 2, 3, 4), ("x", 3, 4, 5)]),
        ("A B* C", []),
        ("A B*? C", [("x", 1, 3, 4), ("x", 2, 3, 4), ("x", 3, None, 4), ("x", 4, None, 5)]),
        ("A B{1,2} C", []),
        ("A B? C", [("x", 2, 3, 4), ("x", 3, None, 4), ("x", 4, None, 5)]),
        ("A B{2} C", [("x", 1, 3, 4), ("x", 2, 4, 5)]),
        ("A C B{1,2}?", [("x", 3, 5, 4)]),
    ],
)
def test_quantifiers(pattern, wanted):
    assert matches(pattern=pattern) == wanted


@pytest.mark.parametrize(
    ("after", "wanted"),
    [
        ("", [("x", 2, 3, 4), ("x", 3, 4, 5)]),
        ("ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW", [("x", 2, 3, 4)]),
        ("AFTER MATCH SKIP TO FIRST B", [("x", 2, 3, 4), ("x", 3, 4, 5)]),
        ("AFTER MATCH SKIP TO LAST C", [("x", 2, 3, 4)]),
    ],
)
def test_the_row_after_which_matching_continues(after, wanted):
    assert matches(after=after) == wanted


def test_measures_are_expressions_and_aggregates_of_matched_rows():
    measures = (
        "SUM(B.n * 2) AS s, COUNT(B.*) AS m, AVG(n) AS v, C.n + FIRST(B.n, 1) AS c, "
        "LAST(B.n, 5) AS nothing"
    )
    assert matches(measures=measures, pattern="A B{2} C") == [
        ("x", 10, 2, 2, 7, None),
        ("x", 14, 2, 3, 9, None),
    ]


def test_a_later_match_waits_for_one_that_began_before_it():
    """As in Flink: which of the two counts is known once the earlier one has ended."""
    running = query(
        pattern="A B+ C",
        define="B AS B.n > A.n, C AS C.n < B.n",
        after="AFTER MATCH SKIP PAST LAST ROW",
    )
    # In the match from 1, B still includes 3, where a match from 5 ends.
    running.give("e", [("x", n, second(at)) for at, n in enumerate((1, 5, 6, 3, 0))])
    running.end()
    assert [row for _, row in running.changes()] == [("x", 1, 3, 0)]
    running.close()


def test_parts_that_do_not_fit_together_are_refused():
    with pytest.raises(TableException, match="PATTERN cannot be matched"):
        query(pattern="A+ B? C")


def test_matches_end_with_the_watermark_and_leave_nothing():
    running = query(pattern="A B C", within="WITHIN INTERVAL '3' SECOND")
    running.give("e", rows(2, 3))
    running.harness.process_watermark("e", 1 << 50)
    operators = running.harness._opened().operators
    matching = next(operator for operator in operators if hasattr(operator, "matcher"))
    assert len(matching.entries) == 0
    running.close()


def test_a_match_must_end_in_time():
    assert matches(pattern="A B{2} C", within="WITHIN INTERVAL '3' SECOND") == []
    assert len(matches(pattern="A B{2} C", within="WITHIN INTERVAL '4' SECOND")) == 2


def test_rows_are_matched_in_the_order_of_time_and_by_partition():
    running = query(pattern="A B", measures="A.n AS a, B.n AS b", define="B AS B.n > A.n")
    running.give("e", rows(3, 1) + rows(5, user="y") + rows(2))
    running.end()
    assert [row for _, row in running.changes()] == [("x", 1, 2), ("x", 2, 3)]
    running.close()


def test_the_time_of_a_match_is_a_time_attribute():
    running = RunningQuery(
        "SELECT u, COUNT(*) FROM e MATCH_RECOGNIZE (PARTITION BY u ORDER BY ts MEASURES "
        "MATCH_ROWTIME() AS rt PATTERN (A) DEFINE A AS A.n > 1) AS m "
        "GROUP BY u, TUMBLE(rt, INTERVAL '1' MINUTE)",
        [table()],
    )
    running.give("e", rows(1, 2, 3))
    running.end()
    assert running.changes() == [(0, ("x", 2))]
    running.close()


def test_begun_matches_are_in_snapshots():
    first = query()
    first.give("e", rows(2, 3))
    first.harness.process_watermark("e", 1 << 50)
    snapshot = first.harness.snapshot(1)
    first.close()
    second_ = query(restored=snapshot)
    second_.give("e", rows(4))
    second_.end()
    assert second_.changes() == [(0, ("x", 2, 3, 4))]
    second_.close()


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"pattern": "A B C+"}, "Greedy quantifiers are not allowed as the last element"),
        ({"pattern": "A B?? C"}, "Reluctant optional variables"),
        ({"pattern": "A*"}, "empty matches"),
        ({"pattern": "A (B | C)"}, "Groups, alternatives"),
        ({"pattern": "A B A"}, "occurs twice"),
        ({"after": "ALL ROWS PER MATCH"}, "ALL ROWS PER MATCH"),
        ({"define": "D AS D.n > 1"}, "'D' is not in PATTERN"),
        ({"define": "B AS B.n > PREV(B.n)"}, "PREV is not supported"),
        ({"measures": "SUM(A.n + B.n) AS s"}, "several variables"),
        ({"measures": "COUNT(DISTINCT B.n) AS s"}, "COUNT with DISTINCT is not supported"),
    ],
)
def test_invalid_clauses_are_rejected(parts, words):
    with pytest.raises((TableException, ValidationException), match=words.replace("(", r"\(")):
        query(**parts)


def test_a_skip_to_the_first_row_of_a_match_is_refused():
    with pytest.raises(IllegalStateError, match="would match again without end"):
        matches(after="AFTER MATCH SKIP TO FIRST A")
