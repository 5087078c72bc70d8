"""Nexmark's queries have DuckDB's results, in each form and in both runtimes.

Goal: every query of `benchmarks/nexmark` is right, and uses its fast paths. Method: five thousand
events over fifty seconds of event time, so that windows and sessions end; the target in-process
with two subtasks.
"""

import itertools
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from penstock.network import runtime as runtime_here
from penstock.table.connectors import file_formats

# After the tests' path: a module of `benchmarks` has the name of one of the tests' folders.
sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

from nexmark import engines, events, frames, loops, own_sql, patterns, program
from nexmark.flink_sql import SQL
from nexmark.forms import FORMS
from nexmark.oracle import Oracle
from nexmark.results import QUERIES, difference

pytestmark = pytest.mark.process

EVENTS = 5000
RATE = 100
IN_PROCESS = {"execution.target": "in-process"}
RECOVERING = {
    **IN_PROCESS,
    "execution.checkpointing.interval": "20 ms",
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "9",
    "restart-strategy.fixed-delay.delay": "1 ms",
}
AGGREGATING = ("Aggregate: ", "SlidingEventTimeWindows: ")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return events.write(tmp_path_factory.mktemp("nexmark"), EVENTS, rate=RATE)


@pytest.fixture(scope="module")
def oracle(folder):
    found = Oracle(folder)
    yield found
    found.close()


@pytest.mark.slow
@pytest.mark.parametrize("query", QUERIES)
def test_a_plain_loop_has_the_result_of_duckdb(folder, oracle, query):
    assert difference(query, loops.LOOPS[query](folder), oracle.rows(query)) is None


@pytest.mark.slow
@pytest.mark.parametrize("query", frames.FRAMES)
def test_polars_has_the_result_of_duckdb(folder, oracle, query):
    assert difference(query, frames.rows(query, folder), oracle.rows(query)) is None


@pytest.mark.parametrize(
    ("form", "query"), [(form, query) for form, queries in FORMS.items() for query in queries]
)
def test_a_job_has_the_result_of_duckdb(folder, oracle, form, query):
    _, stream = program.stream_of(form, query, folder, **IN_PROCESS)
    with stream.execute_and_collect() as results:
        assert difference(query, results, oracle.rows(query)) is None


@pytest.mark.parametrize("query", ["q4", "q5", "q7", "q9", "q11", "q16", "q18", "q19", "q20"])
def test_a_statement_whose_source_fails_has_the_result_of_duckdb(
    folder, oracle, query, monkeypatch
):
    """Its operators continue from frequent checkpoints."""
    read, places = file_formats.ParquetOfTable.parts, itertools.count()

    def parts(self, file, first):
        for part in read(self, file, first):
            yield part
            if next(places) in (5, 30):
                raise OSError("on purpose")

    monkeypatch.setattr(file_formats.ParquetOfTable, "parts", parts)
    monkeypatch.setattr(file_formats, "_PART_ROWS", 100)
    engines.joined_files(folder)
    env = own_sql.environment(folder)
    for key, value in RECOVERING.items():
        env.get_config().set(key, value)
    found = own_sql.rows_of(env.sql_query(SQL[query]))
    assert difference(query, found, oracle.rows(query)) is None
    assert next(places) > 5


@pytest.mark.parametrize("runtime", ["pure"])
@pytest.mark.parametrize("query", ["q1", "q5", "q8", "q13", "q15", "q18", "q20"])
def test_a_job_of_the_pure_runtime_has_the_result_of_duckdb(folder, oracle, query, runtime):
    options = {"execution.target": "local", "penstock.runtime": runtime}
    _, stream = program.stream_of("plain", query, folder, **options)
    with stream.execute_and_collect() as results:
        assert difference(query, results, oracle.rows(query)) is None


@pytest.mark.parametrize("query", ["q0", "q5", "q9"])
def test_lines_of_json_give_the_same(tmp_path, query):
    folder = events.write(tmp_path, 1000, form="json", rate=RATE)
    _, stream = program.stream_of("plain", query, folder, "json", **IN_PROCESS)
    with stream.execute_and_collect() as results:
        assert difference(query, results, Oracle(folder).rows(query)) is None


@pytest.mark.skipif(runtime_here() != "native", reason="only the native runtime evaluates")
@pytest.mark.parametrize("query", ["q0", "q1", "q2", "q14", "q22"])
def test_expressions_are_evaluated_for_every_record(folder, query):
    from penstock.datastream.connectors import DiscardingSink

    env, stream = program.stream_of("expressions", query, folder, **IN_PROCESS)
    stream.sink_to(DiscardingSink())
    text = env.explain(analyze=True)
    assert "0 given up and called" in text
    assert "called, it" not in text
    bids = EVENTS * events.BIDS_OF_A_ROUND // events.EVENTS_OF_A_ROUND
    assert f": {bids:,} evaluated" in text


@pytest.mark.skipif(runtime_here() != "native", reason="only the native runtime has columns")
@pytest.mark.parametrize("query", ["q15"])
def test_aggregates_group_batches(folder, query):
    from penstock.datastream.connectors import DiscardingSink

    env, stream = program.stream_of("expressions", query, folder, **IN_PROCESS)
    stream.sink_to(DiscardingSink())
    lines = [line.strip() for line in env.explain(analyze=True).splitlines()]
    (counts,) = (line for line in lines if line.startswith(AGGREGATING))
    assert re.search(r"\b[1-9]\d* batches in columns", counts), counts
    bids = EVENTS * events.BIDS_OF_A_ROUND // events.EVENTS_OF_A_ROUND
    assert f"{bids:,} records in" in counts


@pytest.mark.skipif(runtime_here() != "native", reason="only the native runtime has columns")
@pytest.mark.parametrize(("query", "joins"), [("q20", 1), ("q23", 2)])
def test_joins_join_batches(folder, query, joins):
    from penstock.datastream.connectors import DiscardingSink

    env, stream = program.stream_of("expressions", query, folder, **IN_PROCESS)
    stream.sink_to(DiscardingSink())
    lines = [line.strip() for line in env.explain(analyze=True).splitlines()]
    counts = [line for line in lines if line.startswith("Join")]
    assert len(counts) == joins, lines
    for line in counts:
        assert re.search(r"\b[1-9]\d* batches in columns", line), line
        assert " given up" not in line.partition("batches in columns")[2], line


@pytest.mark.skipif(runtime_here() != "native", reason="only the native runtime has columns")
@pytest.mark.parametrize("query", ["q5", "q17"])
def test_records_are_combined_before_they_are_sent(folder, query):
    from penstock.datastream.connectors import DiscardingSink

    env, stream = program.stream_of("expressions", query, folder, **IN_PROCESS)
    stream.sink_to(DiscardingSink())
    text = env.explain(analyze=True)
    lines = [line.strip() for line in text.splitlines()]
    (counts,) = (line for line in lines if line.startswith(AGGREGATING))
    assert re.search(r"\b[1-9]\d* batches in columns", counts), counts
    assert re.search(r"\b[1-9][\d,]* combined before they were sent", text), text


def test_events_have_the_ratio_of_nexmark_and_a_prefix_is_a_prefix():
    (few,), (many,) = (list(events.batches(count)) for count in (1000, 2000))
    assert [few[table].num_rows for table in events.SCHEMAS] == [20, 60, 920]
    for table, batch in few.items():
        assert batch.equals(many[table].slice(0, batch.num_rows))


def test_another_seed_makes_other_events():
    (one,), (other,) = (list(events.batches(1000, seed)) for seed in (1, 2))
    assert not one["bid"].equals(other["bid"])
    assert one["bid"].equals(next(events.batches(1000, 1))["bid"])


def test_half_of_the_bids_go_to_hot_auctions_and_most_come_from_hot_bidders():
    (block,) = events.batches(50_000)
    auctions = block["bid"]["auction"].to_numpy() - events.FIRST_AUCTION_ID
    bidders = block["bid"]["bidder"].to_numpy() - events.FIRST_PERSON_ID
    assert 0.48 < (auctions % events.HOT_GROUP == 0).mean() < 0.53
    assert 0.73 < (bidders % events.HOT_GROUP == 1).mean() < 0.78


def test_a_wrong_result_is_reported():
    rows = [("2015-07-15", *[0] * 12)]
    told = difference("q15", rows, [("2015-07-15", *[1] * 12)])
    assert told is not None
    assert told.startswith("q15: 1 rows are missing, such as ('2015-07-15', 1,")


@pytest.mark.parametrize("query", patterns.PATTERNS)
def test_patterns_match_what_a_plain_loop_finds(folder, query):
    found = patterns.found(query, folder, **IN_PROCESS)
    assert found == Counter(patterns.loop(query, folder))
    assert found
