"""The examples produce their documented results, in threads of this process."""

import json
import math
import re
import runpy
import subprocess
import sys
from collections import Counter
from datetime import UTC
from pathlib import Path

import pytest
from support import figures

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
SENSORS_START_MS = 1_767_225_600_000

#: The contents of a program's stream, in any order.
EXPECTED = {
    "clickstream_sessions": [
        ("ann", 0, 5 * MINUTE_MS, 3),
        ("ann", 50 * MINUTE_MS, 50 * MINUTE_MS, 1),
        ("bob", MINUTE_MS, 20 * MINUTE_MS, 2),
    ],
    "fraud_detection": ["account 1: 900.0 after a small payment"],
    "top_n": [(0, "cake", 5), (0, "tea", 7), (HOUR_MS, "cake", 2), (HOUR_MS, "jam", 9)],
    "interval_join": [(1, "tea", "card"), (3, "jam", "cash")],
    "broadcast_enrichment": [("cake", 3.90625), ("jam", 3.75), ("tea", 2.5)],
    "unpaid_orders": [
        (1, "paid", 4 * MINUTE_MS),
        (2, "unpaid", 15 * MINUTE_MS),
        (3, "paid", 13 * MINUTE_MS),
    ],
    "deduplication": [("e1", "created"), ("e2", "created"), ("e3", "paid")],
    "fraud_patterns": [(3, 2, 900.0), (11, 2, 900.0)],
    "iot_late_data": sorted(
        [
            *[
                (f"mean {20 + sensor}.0", sensor, SENSORS_START_MS + minute * MINUTE_MS, 60)
                for sensor in (0, 1)
                for minute in (0, 1, 2)
                if (sensor, minute) != (0, 0)
            ],
            # Two corrections of the first minute, and the reading that was too late for it.
            ("mean 20.0", 0, SENSORS_START_MS, 58),
            ("mean 20.0", 0, SENSORS_START_MS, 59),
            ("mean 21.0", 1, SENSORS_START_MS, 59),
            ("too late", 0, SENSORS_START_MS + 25_000, 1),
        ]
    ),
}


@pytest.fixture(autouse=True)
def in_process(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "in-process")
    options = {"parallelism.default": "2"}
    monkeypatch.setenv("PENSTOCK_CONFIGURATION", json.dumps(options))


def environment():
    from penstock.datastream import StreamExecutionEnvironment

    return StreamExecutionEnvironment.get_execution_environment()


@pytest.mark.parametrize("name", EXPECTED)
def test_the_stream_of_an_example(name):
    example = runpy.run_path(str(EXAMPLES / f"{name}.py"))
    with example["define"](environment()).execute_and_collect() as results:
        found = sorted(results)
    assert found == EXPECTED[name]
    if name in figures.DRAWN:
        figures.keeps(name, example, found)


def test_the_replica_of_a_table(tmp_path):
    example = runpy.run_path(str(EXAMPLES / "cdc_replica.py"))
    example["write_changes"](tmp_path)
    found = example["replicate"](tmp_path)
    assert found == [(1, "tea", 2.75), (3, "jam", 3.0)]
    figures.keeps("cdc_replica", example, found)


def test_features_of_users():
    """The last row of each user has all purchases that a loop over them finds."""
    example = runpy.run_path(str(EXAMPLES / "streaming_features.py"))
    last = {}
    with example["define"](environment()).execute_and_collect() as results:
        for row in results:
            last[row.user] = max(last.get(row.user, ()), tuple(row)[1:])
    wanted = {}
    for user, hour, price in example["purchases"]().itertuples(index=False):
        wanted.setdefault(user, []).append((hour < 6 or hour >= 22, math.log2(price)))
    assert len(last) == 50
    for user, found in wanted.items():
        purchases, at_night, mean_log_price = last[user]
        assert (purchases, at_night) == (len(found), sum(night for night, _ in found))
        assert mean_log_price == pytest.approx(sum(price for _, price in found) / len(found))
    figures.keeps("streaming_features", example, [last[user] for user in sorted(last)])


def test_the_best_items():
    example = runpy.run_path(str(EXAMPLES / "sql_over_streams.py"))
    totals, best = {}, {}
    for sale in example["SALES"]:
        item = (sale["city"], sale["item"])
        totals[item] = totals.get(item, 0) + sale["amount"]
    with example["define"](environment()).execute_and_collect() as changes:
        for row in changes:
            if row.get_row_kind().name in ("INSERT", "UPDATE_AFTER"):
                best[row.city] = (-row.total, row.item)
    assert best == {
        city: min((-total, item) for (place, item), total in totals.items() if place == city)
        for city in example["CITIES"]
    }
    rows = [(city, item, -total) for city, (total, item) in best.items()]
    figures.keeps("sql_over_streams", example, rows)


@pytest.mark.parametrize("query", ["q5", "q7"])
def test_queries_of_nexmark(query):
    example = runpy.run_path(str(EXAMPLES / "nexmark_queries.py"))
    size_ms, slide_ms = {"q5": (10_000, 2_000), "q7": (10_000, 10_000)}[query]
    wanted = set()
    first_ms = example["START_MS"]
    for end_ms in range(first_ms + slide_ms, first_ms + 30_000 + size_ms, slide_ms):
        bids = [bid for bid in example["BIDS"] if end_ms - size_ms <= bid["ts"] < end_ms]
        if not bids:
            continue
        if query == "q5":
            counts = Counter(bid["auction"] for bid in bids)
            wanted.add((end_ms, *min(counts.items(), key=lambda one: (-one[1], one[0]))))
        else:
            best = max(bid["price"] for bid in bids)
            wanted |= {
                (end_ms, bid["auction"], bid["bidder"], best)
                for bid in bids
                if bid["price"] == best
            }
    found = set()
    with example["define"](environment(), query).execute_and_collect() as rows:
        for *values, end in rows:
            found.add((int(end.replace(tzinfo=UTC).timestamp() * 1000), *values))
    assert found == wanted
    figures.keeps(f"nexmark_{query}", example, found)


def test_the_gallery_names_each_example():
    """At least ten programs, each with its test and its figure."""
    page = (EXAMPLES.parent / "docs" / "gallery.md").read_text()
    programs = {path.name for path in EXAMPLES.iterdir() if path.is_file()}
    assert set(re.findall(r"\(\.\./examples/([\w.]+)\)", page)) == programs
    assert page.count("`tests/") >= 10
    shown = re.findall(r"\(images/gallery/(\w+)\.svg\)", page)
    assert sorted(shown) == sorted(figures.DRAWN)
    assert {path.stem for path in figures.FIGURES.iterdir()} == set(shown)


def test_the_example_that_asks_a_service(monkeypatch, capfd):
    """As a program: it starts the service, and ends it."""
    monkeypatch.setattr("sys.argv", ["async_enrichment.py"])
    example = runpy.run_path(str(EXAMPLES / "async_enrichment.py"), run_name="__main__")
    printed = capfd.readouterr().out
    assert [printed.count(f"{item},{price}") for item, price in (("tea", 2.5), ("cake", 4.0))] == [
        2,
        1,
    ]
    prices = {item: float(price) for item, price in re.findall(r"\b([a-z]+),([\d.]+)", printed)}
    figures.keeps("async_enrichment", example, prices)


def test_the_notebook():
    """Its cells run one after the other, as in a kernel."""
    notebook = json.loads((EXAMPLES / "live_notebook.ipynb").read_text())
    names = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "cell", "exec"), names)
    assert len(names["first"]) == 10
    assert sorted(names["frame"]["f1"]) == [n * 0.5 for n in range(1000)]


@pytest.mark.parametrize("arguments", [[], ["--pure"]], ids=["native", "pure"])
def test_the_example_of_two_processes(arguments):
    """Both twins of the data plane agree: the writer had to wait, and nothing was lost."""
    if not arguments:
        pytest.importorskip("penstock._core")
    command = [sys.executable, str(EXAMPLES / "network_exchange.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "the writer waits for credit: True",
        "event: EndOfPartition",
        "20000 records of 60 bytes, in order: True",
        "1 record of 10000000 bytes, SHA-256 f5e02aa71e67f41d",
    ]
