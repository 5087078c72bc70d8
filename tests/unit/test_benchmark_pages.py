"""The pages of benchmarks show the measured results."""

import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def generator() -> Any:
    spec = importlib.util.spec_from_file_location("pages", ROOT / "benchmarks" / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_pages_are_current(generator: Any) -> None:
    folder = ROOT / "docs" / "benchmarks"
    found = {path.name: path.read_text() for path in folder.glob("*.md")}
    assert found == generator.pages(), "run: python benchmarks/pages.py"


def test_losses_are_named(generator: Any) -> None:
    rows = [
        {"name": "a", "value": 5, "unit": "ms", "goal": 4, "met": False},
        {"name": "b", "value": 5, "unit": "ms", "goal": 9, "met": True, "flink": 4},
        {"name": "c", "value": 5, "unit": "/s", "goal": None, "met": None, "flink": 4},
        {"name": "d", "value": 5, "unit": "ms", "goal": 4},
        {"workload": "W", "engine": "penstock", "rate": 100},
        {"workload": "W", "engine": "other", "rate": 150},
        {"workload": "V", "engine": "penstock", "rate": 100},
        {"workload": "V", "engine": "other", "rate": 50},
        {"query": "q1", "engine": "plain", "events_per_s": 100.0},
        {"query": "q1", "engine": "sql", "events_per_s": 200.0},
        {"query": "q1", "engine": "duckdb", "events_per_s": 300.0},
        {"query": "q2", "engine": "sql", "events_per_s": None, "failure": "too slow\nmore"},
        {"name": "e", "moved": "records", "engine": "penstock", "value": 2, "unit": "M/s"},
        {"name": "f", "moved": "records", "engine": "queue", "value": 3, "unit": "M/s"},
        {"name": "e, by f", "value": 1, "unit": "times", "goal": 1, "met": True},
    ]
    assert generator.losses(rows) == [
        "a: 5 ms, not 4",
        "b: 5 ms, Flink 4",
        "d: 5 ms, not 4",
        "W: other handles 1.5 times as many records a second",
        "q1: duckdb handles 1.5 times as many records a second",
        "records: queue handles 1.5 times as many records a second",
        "q2: no rate of sql, too slow",
    ]


def test_results_name_their_origin_and_the_versions_of_peers(generator: Any) -> None:
    own = {"native", "pure", "one Python loop", "loop", "multiprocessing"}  # machine has Python's
    for path in generator.RESULTS.glob("*.json"):
        document = json.loads(path.read_text())
        assert [fact for fact in generator.FACTS if not document.get(fact)] == [], path.name
        assert "python" in document["machine"], path.name
        rows = document["rows"]
        rows = rows if isinstance(rows, list) else rows.values()
        peers = {row["engine"] for row in rows if "engine" in row}
        peers = {peer for peer in peers if peer not in own and not generator.is_own(peer)}
        if any(row.get("flink") is not None for row in rows):
            peers.add("flink")
        assert peers == set(document.get("peers") or ()), path.name


def test_results_come_from_a_target_of_make(generator: Any) -> None:
    recipes = (ROOT / "Makefile").read_text()
    targets = re.findall(r"^(bench-[\w-]+):.*\n((?:\t.*\n)+)", recipes, re.M)
    for path in generator.RESULTS.glob("*.json"):
        program, target = json.loads(path.read_text())["command"].split()[:2]
        if program == "make":
            assert target in dict(targets), path.name
        else:
            assert any(f"/python {target}" in recipe for _, recipe in targets), path.name


def test_results_without_an_origin_are_no_page(
    generator: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "some.json").write_text(json.dumps({"command": "make", "rows": [{"name": "a"}]}))
    monkeypatch.setattr(generator, "RESULTS", tmp_path)
    with pytest.raises(SystemExit, match=r"does not name \['date', 'commit', 'machine'\]"):
        generator.pages()


def test_a_page_of_queries_has_a_column_for_each_engine(
    generator: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Rows as `benchmarks/nexmark/run.py` writes them."""

    def row(query: str, engine: str, rate: float | None, failure: str | None = None) -> dict:
        # The CPU time of Flink's JVM is not known.
        cost = None if rate is None or engine == "flink" else 1e9 / rate
        return {
            "query": query, "engine": engine, "events": 10, "events_per_s": rate,
            "cpu_ns_per_event": cost, "failure": failure,
        }  # fmt: skip

    document = {
        "machine": {"cores": 2, "python": "3.11"},
        "date": "2026-11-28",
        "commit": "abc",
        "command": "python benchmarks/nexmark/run.py",
        "peers": {"duckdb": "2.0", "flink": "2.3"},
        "load_average": [0.5, 2.25],
        "rows": [
            row("q0", "plain", 2e6),
            row("q0", "duckdb", 4e6),
            row("q0", "flink", 1e6),
            row("q1", "plain", None, "rows differ"),
            row("q1", "sql", None),
        ],
    }
    (tmp_path / "nexmark.json").write_text(json.dumps(document))
    monkeypatch.setattr(generator, "RESULTS", tmp_path)
    assert generator.pages()["nexmark.md"].splitlines()[2:] == [
        "- command: `python benchmarks/nexmark/run.py`",
        "- date: `2026-11-28`",
        "- commit: `abc`",
        "- machine: `cores 2, python 3.11`",
        "- other engines: `duckdb: 2.0; flink: 2.3`",
        "- load average before and after: 0.5, 2.2",
        "",
        "Million events a second, and the CPU time of an event in ns.",
        "",
        "| query | plain | duckdb | flink | sql |",
        "|---|---|---|---|---|",
        "| q0 | 2.00, 500\N{NO-BREAK SPACE}ns | 4.00, 250\N{NO-BREAK SPACE}ns | 1.00 |  |",
        "| q1 | failed |  |  | not measured |",
        "",
        "The forms of penstock beside Flink, over the queries that both have run:",
        "",
        "- plain: 2.00 times Flink's rate, the geometric mean of 1 queries; at least 2.00 (q0)",
        "",
        "## Where penstock loses or misses a goal",
        "",
        "The fastest form of penstock counts.",
        "",
        "- q0: duckdb handles 2 times as many records a second",
        "- q1: no rate of plain, rows differ",
    ]
