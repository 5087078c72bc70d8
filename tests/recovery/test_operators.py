"""Each kind of operator continues after a failure without any difference (internals M58, M45).

Goal: the results of a job that failed twice are those of an unfailed run, each of them once.
Method: real processes of the local target; results appear once their checkpoint is complete.
"""

import pytest

from recovery.operator_programs import (
    KINDS,
    expected_joined_and_ranked_batches,
    joined_and_ranked_batches,
    results,
    results_and_counts,
)
from recovery.sink_programs import Fate, fates


@pytest.mark.parametrize(("runtime", "how"), [("native", "kill"), ("pure", "raise")])
@pytest.mark.parametrize("kind", list(KINDS))
def test_results_are_those_of_an_unfailed_run(tmp_path, monkeypatch, kind, runtime, how):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", ["on the way", "told before the sink"])
    shown, expected = results(kind, Fate(tmp_path / "fates", how))
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    assert shown == expected


@pytest.mark.parametrize(("runtime", "how"), [("native", "kill"), ("pure", "raise")])
def test_joins_rankings_and_aggregates_of_batches(tmp_path, monkeypatch, runtime, how):
    """The last attempt continues by columns, if the runtime has any."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", ["on the way", "told before the sink"])
    shown, counts = results_and_counts(joined_and_ranked_batches, Fate(tmp_path / "fates", how))
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    assert shown == sorted(expected_joined_and_ranked_batches())
    assert (counts["Aggregate"].get("numBatchesInColumnState", 0) > 0) is (runtime == "native")
    for name in ("Join", "TopN", "Deduplicate", "Aggregate"):
        assert (counts[name].get("numBatchesInColumns", 0) > 0) is (runtime == "native"), name
        assert counts[name].get("numBatchesGivenUp", 0) == 0, name


@pytest.mark.parametrize(
    ("kind", "cache"),
    [
        *((kind, "64 kb") for kind in ("window", "sessions", "timer", "interval join", "pattern")),
        # Most entries are idle, and are written after each checkpoint.
        ("two inputs", "8 mb"),
    ],
)
def test_results_with_state_in_rocksdb(tmp_path, kind, cache):
    """Compiled operators, timers and buffers of joins, through a cache of a few entries."""
    fates(tmp_path / "fates", ["on the way", "told before the sink"])
    options = {
        "state.backend.type": "rocksdb",
        "penstock.rocksdb.cache.size": cache,
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.incremental": "true",
    }
    shown, expected = results(kind, Fate(tmp_path / "fates", "kill"), options)
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    assert shown == expected


def test_sessions_with_a_log_of_changes(tmp_path):
    """Sessions are mutated in place and serialised in another form."""
    fates(tmp_path / "fates", ["on the way", "told before the sink"])
    options = {
        "state.changelog.enabled": "true",
        "state.changelog.storage": "filesystem",
        "state.changelog.dstl.dfs.base-path": str(tmp_path / "log"),
        "state.changelog.periodic-materialize.interval": "150 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    shown, expected = results("sessions", Fate(tmp_path / "fates", "kill"), options)
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    assert shown == expected
