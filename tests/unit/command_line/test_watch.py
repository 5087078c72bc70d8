"""Live views fit into a terminal of 80 columns, a line for each vertex.

Method: a view of made-up vertices is rendered for that width.
"""

import io
import sys

import pytest
from penstock.command_line.job_commands import table_of
from penstock.command_line.metrics_command import _RATES, _SHARES, _rates_of
from penstock.command_line.watch import _behind, _job_view, _top_view
from penstock.metrics.values import HISTOGRAM_FIGURES
from rich.console import Console

LONG = "Source: numbers with a long name -> Timestamps/Watermarks -> a function with a long name"


def _vertex(**changes):
    return {
        "id": "a",
        "status": "INITIALIZING",
        "in-rate": 1_234_567.0,
        "out-rate": 1_234_567.0,
        "busy": 1.0,
        "back-pressured": 0.25,
        "skew": 100.0,
        "watermark": 0,
        **changes,
    }


def _lines(view):
    terminal = io.StringIO()
    Console(width=80, file=terminal).print(view)
    return [line.rstrip() for line in terminal.getvalue().splitlines() if line.strip()]


def test_a_job_is_shown_in_a_line_for_each_vertex():
    job = {
        "name": "counts",
        "jid": "0" * 32,
        "state": "RUNNING",
        "duration": 61_000,
        "restarts": 0,
        "checkpoints": {"completed": 3, "failed": 0, "last-duration": 16},
        "vertices": [_vertex(), _vertex(id="b", status="RUNNING", watermark=None)],
    }
    lines = _lines(_job_view(job, {"a": LONG, "b": "Map"}, 90_061_000))
    assert max(map(len, lines)) <= 80
    first, second = lines[-2:]
    assert first.startswith(" Source: n")
    figures = ["1,234,567", "1,234,567", "100", "%", "25", "%", "100", "%", "25", "h"]
    assert first.split("…")[1].split() == [*figures, "INITIALIZING"]
    assert second.startswith(" Map ")
    assert second.endswith("-  RUNNING")


def test_the_busiest_vertices_are_shown_in_a_line_each():
    rows = [{"job": "a job with a long name of its own", "name": LONG, **_vertex()}] * 2
    lines = _lines(_top_view(rows))
    assert max(map(len, lines)) <= 80
    assert len(lines) == 4, "a head, its rule and two rows"
    assert lines[-1].split()[-6:] == ["100", "%", "25", "%", "1,234,567", "1,234,567"]
    assert lines[-1].startswith(" a job")


def test_rates_are_shown_in_a_line_for_each_vertex_and_names_of_metrics_below(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    names = [f"numRecordsOf{index}" for index in range(30)]
    names += ["own_min", *(f"latency_{figure}" for figure in HISTOGRAM_FIGURES)]
    fast = dict.fromkeys(_RATES, 1_234_567_890.1) | dict.fromkeys(_SHARES, 1000.0)
    rows = [
        {"vertex": LONG, "parallelism": 128, "names": names, **fast},
        {"vertex": "Map", "parallelism": 1, "names": [], **dict.fromkeys((*_RATES, *_SHARES))},
    ]
    lines = _rates_of(rows, set(names)).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[1].split()[-7:] == ["128", *["1234567890"] * 3, *["1000"] * 3]
    assert lines[2].split() == ["Map", "1", *"------"]
    listed = " ".join(lines[7:]).split(", ")
    assert listed == sorted([*names[:31], "latency_*"])


@pytest.mark.parametrize(
    ("watermark", "shown"),
    [
        (None, "-"),
        (99_988_000, "12.0 s"),
        (100_001_000, "-1.0 s"),
        (98_000_000, "33 min"),
        (50_000_000, "14 h"),
        (-1_700_000_000_000, "19,677 d"),
        (2**63 - 1, "end"),
    ],
)
def test_the_distance_behind_the_clock_has_a_readable_unit(watermark, shown):
    assert _behind(watermark, 100_000_000) == shown


@pytest.mark.parametrize("is_terminal", [True, False])
def test_tables_fit_into_a_terminal_and_are_whole_in_a_file(monkeypatch, is_terminal):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
    monkeypatch.setenv("COLUMNS", "80")
    titles = ("vertex", "parallelism", "state", "records in", "records out")
    rows = [[LONG, 2, "RUNNING", 10**9, None], ["short", 2, "RUNNING", 0, 0]]
    header, long, short = table_of(titles, rows).splitlines()
    assert (LONG in long) is not is_terminal
    assert header.index("parallelism") == long.index("2  ") == short.index("2  ")
    if is_terminal:
        assert max(map(len, (header, long, short))) <= 80
        assert "Source: numbers with a" in long
