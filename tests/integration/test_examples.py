"""The examples do what they say, in threads of this process."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS

#: What a program's stream has, in any order.
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
        assert sorted(results) == EXPECTED[name]


def test_the_example_that_asks_a_service(monkeypatch, capfd):
    """As a program: it starts the service, and ends it."""
    monkeypatch.setattr("sys.argv", ["async_enrichment.py"])
    runpy.run_path(str(EXAMPLES / "async_enrichment.py"), run_name="__main__")
    printed = capfd.readouterr().out
    assert [printed.count(f"{item},{price}") for item, price in (("tea", 2.5), ("cake", 4.0))] == [
        2,
        1,
    ]


def test_the_notebook():
    """Its cells one after the other, as a kernel runs them."""
    notebook = json.loads((EXAMPLES / "live_notebook.ipynb").read_text())
    names = {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            exec(compile("".join(cell["source"]), "cell", "exec"), names)
    assert len(names["first"]) == 10
    assert sorted(names["frame"]["f1"]) == [n * 0.5 for n in range(1000)]


@pytest.mark.parametrize("arguments", [[], ["--pure"]], ids=["native", "pure"])
def test_the_example_of_two_processes(arguments):
    """Both twins of the data plane say the same: the writer had to wait, and nothing was lost."""
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
