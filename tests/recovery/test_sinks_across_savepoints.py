"""Committing sinks in jobs that are stopped with a savepoint and continue from it (M30, M64).

Goal: both runs together publish every element once; with drain or without, with checkpoints besides
or without, at another parallelism.
"""

import re
import threading

import pytest
from penstock.common import Types
from penstock.common.serialization import Encoder
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from penstock.errors import SinkError

from recovery.savepoint_programs import Slowly, asked, environment, numbers

ELEMENTS = 20_000
CHECKPOINTS = {"execution.checkpointing.interval": "20 ms"}


def lines(env, *, slowly):
    stream = numbers(env, ELEMENTS)
    if slowly:
        stream = stream.map(Slowly()).uid("slowly")
    return stream.map(str, Types.STRING()).rebalance()


def files_of(env, out, *, slowly=False):
    sink = (
        FileSink.for_row_format(str(out), Encoder.simple_string_encoder())
        .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
        .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=10_000))
        .build()
    )
    lines(env, slowly=slowly).sink_to(sink).uid("files")


def shown(out):
    return [line for part in out.glob("part-*") for line in part.read_text().splitlines()]


@pytest.mark.parametrize(
    ("options", "drain", "parallelism"),
    [({}, False, 3), ({}, True, 1), (CHECKPOINTS, False, 1), (CHECKPOINTS, True, 3)],
)
def test_files_continue_from_a_savepoint(tmp_path, options, drain, parallelism):
    out = tmp_path / "out"
    env = environment(options)
    files_of(env, out, slowly=True)
    client = env.execute_async()
    path = asked(client.stop_with_savepoint, drain, str(tmp_path / "savepoints"))
    client.get_job_execution_result().result()
    assert len(shown(out)) < ELEMENTS
    if drain:
        assert list(out.glob(".*")) == []
    env = environment({"execution.state-recovery.path": path, **options}, parallelism)
    files_of(env, out)
    env.execute()
    assert sorted(map(int, shown(out))) == list(range(ELEMENTS))
    assert list(out.glob(".*")) == []


def test_a_savepoint_that_a_later_run_went_on_from_says_how_it_is_gone_back_to(tmp_path):
    """The file that was open then is published now; the error says how to restore anyway."""
    out = tmp_path / "out"
    env = environment(CHECKPOINTS)
    files_of(env, out, slowly=True)
    client = env.execute_async()
    while not list(out.glob(".part-*")):
        threading.Event().wait(0.01)
    path = asked(client.stop_with_savepoint, False, str(tmp_path / "savepoints"))
    client.get_job_execution_result().result()
    shown_before = set(out.glob("part-*"))
    assert list(out.glob(".part-*")), "files are open across the savepoint"
    options = {
        "execution.state-recovery.path": path,
        "restart-strategy.type": "none",
        **CHECKPOINTS,
    }
    env = environment(options)
    files_of(env, out)
    env.execute()
    since = set(out.glob("part-*")) - shown_before
    moved_back = set()
    while True:
        env = environment(options)
        files_of(env, out)
        try:
            env.execute()
        except SinkError as error:
            words = str(error)
        else:
            break
        assert "has since committed the file" in words
        assert "Start from the last checkpoint or savepoint of that run" in words
        found = re.search(r"rename (part-\S+) to (\S+), ", words)
        moved_back.add((out / found[1]).rename(out / found[2]).with_name(found[1]))
    assert moved_back
    for part in since - moved_back:
        part.unlink()
    assert sorted(map(int, shown(out))) == list(range(ELEMENTS))


@pytest.mark.parametrize("drain", [False, True])
def test_results_continue_from_a_savepoint(tmp_path, drain):
    env = environment(CHECKPOINTS)
    with lines(env, slowly=True).execute_and_collect() as results:
        client = results.get_job_client()
        path = asked(client.stop_with_savepoint, drain, str(tmp_path / "savepoints"))
        first = list(results)
    assert len(first) < ELEMENTS
    env = environment({"execution.state-recovery.path": path, **CHECKPOINTS})
    with lines(env, slowly=False).execute_and_collect() as results:
        second = list(results)
    assert sorted(map(int, first + second)) == list(range(ELEMENTS))
