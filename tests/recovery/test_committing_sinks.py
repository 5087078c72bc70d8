"""Published output of committing sinks after failures: the same as that of an unfailed run.

Goal: readers of committed output see every element exactly once, whenever a function raised or a
worker was killed: halfway, before, within and after commits, and during restores (M64, D-2).
Method: real processes of the local target; each moment fails once in one job.
"""

import pytest
from penstock.datastream.connectors.file_system import FileCompactor, StreamFormat

from recovery.sink_functions import FileTransactions, FileWriteAhead, write_by_function
from recovery.sink_programs import (
    POLICIES,
    Fate,
    collect_lines,
    expected_lines,
    fates,
    write_files,
    write_transactions,
)

ON_THE_WAY = ["on the way", "told before the sink"]
IN_THE_SINK = [
    "flush",
    "prepare commit",
    "snapshot",
    "before commit",
    "within commit",
    "after commit",
    "restore writer",
    "restore committer",
]


ELEMENTS = 20_000
RUNS = pytest.mark.parametrize(("runtime", "how"), [("native", "kill"), ("pure", "raise")])


@RUNS
@pytest.mark.parametrize("policy", list(POLICIES))
def test_files_are_exactly_those_of_an_unfailed_run(tmp_path, monkeypatch, runtime, how, policy):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", ON_THE_WAY)
    out = tmp_path / "out"
    write_files(out, ELEMENTS, policy, Fate(tmp_path / "fates", how), {})
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    parts = list(out.glob("part-*"))
    assert sorted(line for part in parts for line in part.read_text().splitlines()) == (
        expected_lines(ELEMENTS)
    )


class FailingCompactor(FileCompactor):
    """Fails when a subtask starts to merge files, which first reads its format."""

    def __init__(self, fate):
        super().__init__(FileCompactor.RECORD_WISE, read_format=StreamFormat.text_line_format())
        self.fate = fate

    def __getattribute__(self, name):
        if name == "read_format":
            object.__getattribute__(self, "fate").strike("while files are put together")
        return super().__getattribute__(name)


@RUNS
def test_files_that_are_put_together_are_exactly_those_of_an_unfailed_run(
    tmp_path, monkeypatch, runtime, how
):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", [*ON_THE_WAY, "while files are put together"])
    out = tmp_path / "out"
    fate = Fate(tmp_path / "fates", how)
    write_files(out, ELEMENTS, "on checkpoint", fate, {}, FailingCompactor(fate))
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    parts = [path for path in out.iterdir() if not path.name.startswith(".")]
    assert sorted(line for part in parts for line in part.read_text().splitlines()) == (
        expected_lines(ELEMENTS)
    )
    assert len([path for path in parts if path.name.startswith("compacted-")]) > len(parts) / 2


@RUNS
def test_commits_are_exact_whenever_something_fails(tmp_path, monkeypatch, runtime, how):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", [*ON_THE_WAY, *IN_THE_SINK])
    out = tmp_path / "out"
    out.mkdir()
    write_transactions(out, ELEMENTS, Fate(tmp_path / "fates", how), {})
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    committed = [path.read_text() for path in out.glob("*.committed")]
    assert sorted(line for text in committed for line in text.splitlines()) == (
        expected_lines(ELEMENTS)
    )


@RUNS
def test_results_are_collected_once(tmp_path, monkeypatch, runtime, how):
    """Also in order, for each key."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", ON_THE_WAY)
    results = collect_lines(ELEMENTS, Fate(tmp_path / "fates", how), {})
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    assert sorted(results) == expected_lines(ELEMENTS)
    counts = [int(line.split()[1]) for line in results if line.startswith("3 ")]
    assert counts == sorted(counts)


def test_results_that_may_come_twice_are_shown_at_once(tmp_path):
    """With AT_LEAST_ONCE they wait for no checkpoint."""
    fates(tmp_path / "fates", [])
    options = {"execution.checkpointing.mode": "AT_LEAST_ONCE"}
    assert sorted(collect_lines(2000, Fate(tmp_path / "fates", "raise"), options)) == (
        expected_lines(2000)
    )


@pytest.mark.parametrize("sink_class", [FileTransactions, FileWriteAhead])
def test_sink_functions_commit_once(tmp_path, sink_class):
    """In one runtime: both runtimes run them in the same operator."""
    moments = ["prepare commit", "before commit", "after commit", "restore committer"]
    fates(tmp_path / "fates", [*ON_THE_WAY, *moments])
    out = tmp_path / "out"
    out.mkdir()
    write_by_function(sink_class, out, ELEMENTS, Fate(tmp_path / "fates", "kill"))
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    committed = [path.read_text() for path in out.glob("*.committed")]
    assert sorted(line for text in committed for line in text.splitlines()) == (
        expected_lines(ELEMENTS)
    )
