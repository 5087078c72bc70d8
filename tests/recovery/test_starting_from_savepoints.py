"""Jobs that start from a savepoint or a retained checkpoint (internals M52, M62, M63).

Method: a job is stopped or cancelled halfway; another one continues from its savepoint, and both
together must have the results of one uninterrupted run.
"""

import os
import shutil
import signal
import textwrap
from contextlib import suppress
from pathlib import Path

import pytest
from e2e.running import run_program
from penstock.common import Configuration, JobStatus, Types
from penstock.datastream import MapFunction
from penstock.datastream.functions import CheckpointListener
from penstock.errors import (
    CheckpointError,
    CheckpointStorageError,
    ConfigurationError,
    CorruptCheckpointError,
    InvalidProgramError,
    JobCancelledError,
    JobExecutionError,
)

from recovery.savepoint_programs import (
    KEYS,
    asked,
    counted,
    environment,
    last_counts,
    numbers,
    stopped,
)

ELEMENTS = 50_000
ALL = dict.fromkeys(range(KEYS), ELEMENTS // KEYS)


def savepoint_of_counts(directory, options=None, parallelism=2):
    """Return the savepoint of a job that counts numbers, stopped halfway."""
    env = environment(options, parallelism)
    with counted(numbers(env, ELEMENTS), slowly=True).execute_and_collect() as results:
        path, counts = stopped(results, directory)
    assert 0 < sum(counts.values()) < ELEMENTS
    return path


def counts_from(path, options=None, parallelism=2):
    """Return the counts of a job that starts from a savepoint."""
    env = environment({"execution.state-recovery.path": path, **(options or {})}, parallelism)
    with counted(numbers(env, ELEMENTS)).execute_and_collect() as results:
        return last_counts(results)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"execution.checkpointing.unaligned.enabled": "true"},
        {"execution.checkpointing.mode": "AT_LEAST_ONCE"},
    ],
)
def test_a_savepoint_between_checkpoints(tmp_path, options):
    """The job continues after one savepoint, and stops with the other; results are emitted again.

    The continuing job is another program, which does not know the results emitted before.
    """
    options = {"execution.checkpointing.interval": "10 ms", **options}
    env = environment(options)
    with counted(numbers(env, ELEMENTS), slowly=True).execute_and_collect() as results:
        client = results.get_job_client()
        paths = [asked(client.trigger_savepoint, str(tmp_path))]
        path, before = stopped(results, tmp_path)
    assert before, "what came before the savepoint is shown"
    for taken in (*paths, path):
        counts = counts_from(taken, options, parallelism=3)
        if "execution.checkpointing.mode" in options:
            assert all(count >= ELEMENTS // KEYS for count in counts.values())
        else:
            assert counts == ALL


@pytest.fixture(scope="module")
def savepoint(tmp_path_factory):
    """Return one savepoint for the tests that only read it."""
    return savepoint_of_counts(tmp_path_factory.mktemp("savepoints"))


@pytest.mark.parametrize("runtime", ["native", "pure"])
@pytest.mark.parametrize("parallelism", [1, 2, 3])
def test_a_job_continues_at_another_parallelism(savepoint, monkeypatch, runtime, parallelism):
    """Input that the stopped job had read is not read again, and its counts continue."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    assert counts_from(savepoint, parallelism=parallelism) == ALL


@pytest.mark.parametrize("compresses", [True, False])
def test_state_is_restored_compressed_or_not(tmp_path, compresses):
    """Whatever the setting of the job that starts from it."""
    option = "execution.checkpointing.snapshot-compression"
    path = savepoint_of_counts(tmp_path, {option: str(compresses).lower()})
    assert (b"compression" in (Path(path) / "_metadata").read_bytes()) is compresses
    assert counts_from(path, {option: str(not compresses).lower()}) == ALL


@pytest.mark.parametrize("form", ["directory", "slash", "metadata", "url", "relative", "moved"])
def test_a_savepoint_is_named_by_its_directory_or_its_metadata(
    savepoint, tmp_path, monkeypatch, form
):
    """A moved savepoint is found, too: its files are named relative to it."""
    path = {
        "slash": savepoint + "/",
        "metadata": savepoint + "/_metadata",
        "url": "file://" + savepoint,
        "relative": Path(savepoint).name,
        "moved": str(tmp_path / "elsewhere"),
    }.get(form, savepoint)
    if form == "relative":
        monkeypatch.chdir(Path(savepoint).parent)
    if form == "moved":
        shutil.copytree(savepoint, path)
    assert counts_from(path, {"execution.target": "in-process"}) == ALL


def test_the_files_of_a_moved_savepoint_are_found(tmp_path):
    """State that is too large for the metadata is stored in files beside it."""
    inline = {"execution.checkpointing.data-inline-threshold": "0"}
    path = savepoint_of_counts(tmp_path / "before", inline)
    assert len(list(Path(path).iterdir())) > 1
    (tmp_path / "before").rename(tmp_path / "after")
    assert counts_from(path.replace("before", "after")) == ALL


@pytest.mark.parametrize("claims", [True, False])
def test_the_owner_of_a_retained_checkpoint_deletes_it(tmp_path, claims):
    """The job that claims it, once it has one of its own; otherwise only its owner."""
    options = {
        "execution.checkpointing.interval": "10 ms",
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
        "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
        "execution.checkpointing.data-inline-threshold": "0",
    }
    metadata = "checkpoints/*/chk-*/_metadata"
    env = environment(options)
    client = None
    with counted(numbers(env, ELEMENTS), slowly=True).execute_and_collect() as results:
        client = results.get_job_client()
        next(results)
        # When a later one has files, the first one is complete.
        while {path.parent.name for path in tmp_path.glob(metadata)} <= {"chk-1"}:
            next(results)
        client.cancel().result()
        with pytest.raises(JobCancelledError):
            client.get_job_execution_result().result()
    [retained] = [path.parent for path in tmp_path.glob(metadata)]
    mode = "CLAIM" if claims else "NO_CLAIM"
    options["execution.state-recovery.claim-mode"] = mode
    files = sorted(retained.iterdir())
    assert counts_from(str(retained), options) == ALL
    assert retained.exists() != claims
    if not claims:
        assert sorted(retained.iterdir()) == files
        assert counts_from(str(retained), options) == ALL, "it is still whole"


def test_a_job_without_checkpoints_restarts_from_its_savepoint(savepoint, tmp_path):
    """The savepoint is the latest complete one."""

    flag = tmp_path / "failed"

    def fail_once(pair):
        if not flag.exists():
            flag.touch()
            raise RuntimeError("misfortune")
        return pair

    options = {
        "execution.state-recovery.path": savepoint,
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "1 ms",
    }
    env = environment(options)
    stream = counted(numbers(env, ELEMENTS)).map(fail_once, Types.TUPLE([Types.LONG()] * 2))
    with stream.execute_and_collect() as results:
        assert last_counts(results) == ALL
    assert flag.exists()


def test_state_of_an_operator_that_is_gone(savepoint):
    """The error names it and its uid, unless the state is dropped on purpose."""

    def program(options):
        env = environment({"execution.state-recovery.path": savepoint, **options})
        return numbers(env, ELEMENTS).filter(lambda number: number < 0).execute_and_collect()

    with pytest.raises(InvalidProgramError, match=r"'Reduce' \(uid 'counts', id [0-9a-f]{32}\)"):
        program({})
    with program({"execution.state-recovery.ignore-unclaimed-state": "true"}) as results:
        assert list(results) == []


def test_another_type_of_a_state_is_refused(savepoint):
    """The error names the state and both types; other key types are rejected, too.

    No restart can help, though the job has checkpoints.
    """
    options = {
        "execution.state-recovery.path": savepoint,
        "execution.target": "in-process",
        "execution.checkpointing.interval": "1 h",
    }

    def program(key, value):
        pairs = numbers(environment(options), ELEMENTS).map(
            lambda number: (number % KEYS, 1), Types.TUPLE([Types.LONG(), value])
        )
        keyed = pairs.key_by(lambda pair: key(pair[0]), Types.LONG() if key is int else None)
        with keyed.reduce(lambda one, other: one).uid("counts").execute_and_collect() as results:
            list(results)

    with pytest.raises(
        InvalidProgramError, match=r"written as TUPLE\(LONG, LONG\), .* TUPLE\(LONG, DOUBLE\)"
    ):
        program(int, Types.DOUBLE())
    with pytest.raises(InvalidProgramError, match="keys of 'Reduce' were of type LONG, and are of"):
        program(str, Types.LONG())


@pytest.mark.parametrize("key_groups", [64, 256])
def test_another_maximum_parallelism_is_refused(savepoint, key_groups):
    env = environment({"execution.state-recovery.path": savepoint})
    env.set_max_parallelism(key_groups)
    with pytest.raises(InvalidProgramError, match=f"128 key groups, the job has {key_groups}"):
        counted(numbers(env, ELEMENTS)).execute_and_collect()


def test_a_savepoint_replaces_a_derived_maximum_parallelism(tmp_path):
    """F12: an unset maximum is that of the savepoint, and it limits the parallelism."""
    env = environment({"execution.target": "in-process"})
    env.set_max_parallelism(3)
    with counted(numbers(env, ELEMENTS), slowly=True).execute_and_collect() as results:
        path, _ = stopped(results, tmp_path)
    assert counts_from(path, {"execution.target": "in-process"}, parallelism=3) == ALL
    with pytest.raises(InvalidProgramError, match="3 key groups: its parallelism can be 3 at most"):
        counts_from(path, parallelism=4)


def test_a_program_may_try_again(savepoint, tmp_path):
    """With another path: the program is not lost, and the sink of its results is not duplicated."""
    env = environment({"execution.target": "in-process"})
    stream = counted(numbers(env, ELEMENTS))
    for path in (str(tmp_path / "missing"), savepoint):
        configuration = Configuration()
        configuration.set_string("execution.state-recovery.path", path)
        env.configure(configuration)
        if path != savepoint:
            with pytest.raises(CheckpointStorageError):
                stream.execute_and_collect()
    with stream.execute_and_collect() as results:
        assert last_counts(results) == ALL


def test_the_error_names_an_invalid_savepoint(savepoint, tmp_path):
    missing = str(tmp_path / "missing")
    with pytest.raises(CheckpointStorageError, match=f"{missing} is not a checkpoint or savepoint"):
        counts_from(missing)
    torn = tmp_path / "torn"
    shutil.copytree(savepoint, torn)
    metadata = (torn / "_metadata").read_bytes()
    (torn / "_metadata").write_bytes(metadata[:-1])
    with pytest.raises(CorruptCheckpointError, match=r"torn/_metadata: .*torn, or was changed"):
        counts_from(str(torn))
    (torn / "_metadata").write_bytes(metadata[:4] + bytes([0, 0, 0, 99]) + metadata[8:])
    with pytest.raises(CorruptCheckpointError, match="version is 99"):
        counts_from(str(torn))
    with pytest.raises(ConfigurationError, match="LEGACY"):
        counts_from(savepoint, {"execution.state-recovery.claim-mode": "LEGACY"})
    with pytest.raises(ConfigurationError, match="BATCH"):
        counts_from(savepoint, {"execution.runtime-mode": "BATCH"})


@pytest.mark.parametrize("damage", ["missing", "changed"])
def test_a_damaged_file_of_a_savepoint_is_named(tmp_path, damage):
    inline = {
        "execution.checkpointing.data-inline-threshold": "0",
        "execution.target": "in-process",
    }
    path = Path(savepoint_of_counts(tmp_path, inline))
    files = sorted(file for file in path.iterdir() if file.name != "_metadata")
    for file in files:
        if damage == "missing":
            file.unlink()
        else:
            data = file.read_bytes()
            file.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    with pytest.raises(CorruptCheckpointError) as caught:
        counts_from(str(path), {"execution.target": "in-process"})
    assert any(str(file) in str(caught.value) for file in files)


def test_an_operator_that_was_added_starts_without_state(savepoint):
    """A new source, too: it starts at its beginning."""
    env = environment({"execution.state-recovery.path": savepoint})
    more = numbers(env, KEYS).uid("more")
    stream = counted(numbers(env, ELEMENTS).union(more.map(lambda n: n, Types.LONG())))
    with stream.execute_and_collect() as results:
        assert last_counts(results) == dict.fromkeys(range(KEYS), ELEMENTS // KEYS + 1)


def test_a_savepoint_of_a_job_that_started_from_one(savepoint, tmp_path):
    env = environment({"execution.state-recovery.path": savepoint}, parallelism=1)
    with counted(numbers(env, ELEMENTS), slowly=True).execute_and_collect() as results:
        path = asked(results.get_job_client().stop_with_savepoint, False, str(tmp_path))
        list(results)
    assert counts_from(path) == ALL


PLACES = """
    import sys
    import time
    from dataclasses import dataclass, field
    from penstock.common import Types, WatermarkStrategy
    from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    from penstock.datastream.connectors.number_seq import NumberSequenceSource
    from penstock.datastream.state import ValueStateDescriptor
    from penstock.errors import CheckpointError

    @dataclass
    class Seen:
        {fields}

    class Count(KeyedProcessFunction):
        def __init__(self, is_slow):
            self.is_slow = is_slow

        def open(self, runtime_context):
            self.seen = runtime_context.get_state(ValueStateDescriptor("seen", None))

        def process_element(self, value, ctx):
            if self.is_slow and value % 10 == 0:
                time.sleep(0.01)
            seen = self.seen.value() or Seen(0)
            seen.count += 1
            self.seen.update(seen)
            yield repr(seen)

    env = StreamExecutionEnvironment.get_execution_environment()
    source = NumberSequenceSource(0, 300_000)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    count = Count(is_slow=len(sys.argv) > 1)  # so that it runs still when it is to be stopped
    stream = numbers.key_by(lambda n: 0, Types.LONG()).process(count, Types.STRING()).uid("count")
    with stream.execute_and_collect() as results:
        last = next(results)
        while len(sys.argv) > 1:
            try:
                client = results.get_job_client()
                print(client.stop_with_savepoint(False, sys.argv[1]).result())
                break
            except CheckpointError as error:
                if "not all tasks" not in str(error):
                    raise
        for last in results:
            pass
    print(last)
"""


def test_the_fields_of_a_class_in_state_may_change(tmp_path):
    """The program's own class: one field is dropped, one is added with its default."""
    program = tmp_path / "program.py"

    def run(fields, *options, after=()):
        program.write_text(textwrap.dedent(PLACES).format(fields=fields))
        options = ["--target", "local", *options]
        return run_program(["-m", "penstock", "run", *options, str(program), *after])

    first = run("count: int; kind: str = 'old'", after=[str(tmp_path)])
    assert first.code == 0, first.err
    path, last = first.out.splitlines()
    assert "kind='old'" in last
    second = run("count: int; names: list = field(default_factory=list)", "-s", path)
    assert second.code == 0, second.err
    assert second.out == "Seen(count=300001, names=[])\n"
    third = run("count: int; names: list", "-s", path)
    assert third.code != 0
    for text in (
        "__main__:Seen",
        "(count, kind)",
        "(count, names)",
        "'names' would need a default",
    ):
        assert text in third.err, third.err


def test_a_class_in_state_may_be_renamed_and_moved(tmp_path):
    """The class is found by its former name if the program knows that name as well."""
    program = tmp_path / "program.py"
    text = textwrap.dedent(PLACES).format(fields="count: int")
    renamed = text.replace("Seen", "Found")

    def run(text, *options, after=()):
        program.write_text(text)
        options = ["--target", "local", *options]
        return run_program(["-m", "penstock", "run", *options, str(program), *after])

    first = run(text, after=[str(tmp_path)])
    assert first.code == 0, first.err
    path, _ = first.out.splitlines()
    second = run(renamed.replace("class Count", "Seen = Found\n\nclass Count"), "-s", path)
    assert second.code == 0, second.err
    assert second.out == "Found(count=300001)\n"
    defined, _, rest = renamed.partition("@dataclass")
    of_class, _, rest = rest.partition("class Count")
    (tmp_path / "found.py").write_text(f"from dataclasses import dataclass\n@dataclass{of_class}")
    moved = run(f"{defined}\nfrom found import Found as Seen, Found\nclass Count{rest}", "-s", path)
    assert moved.code == 0, moved.err
    assert moved.out == "Found(count=300001)\n"
    third = run(renamed, "-s", path)
    assert third.code != 0
    assert "no class '__main__:Seen'" in third.err
    assert "Former = Renamed" in third.err


class DiesWhenTold(MapFunction, CheckpointListener):
    """Kills its worker once, at the notification of a checkpoint."""

    def __init__(self, wish):
        self.wish = wish

    def map(self, value):
        return value

    def notify_checkpoint_complete(self, checkpoint_id):
        with suppress(FileNotFoundError):
            self.wish.unlink()
            os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("drain", [True, False])
def test_a_job_that_loses_a_worker_when_its_savepoint_is_complete_fails(tmp_path, drain):
    """Sinks have started to commit: the job must not restart from an earlier checkpoint."""
    wish = tmp_path / "die"
    wish.touch()

    def counts(env, *, slowly):
        return counted(numbers(env, ELEMENTS).map(DiesWhenTold(wish), Types.LONG()), slowly)

    env = environment({"execution.checkpointing.interval": "1 h"})
    with counts(env, slowly=True).execute_and_collect() as results:
        client = results.get_job_client()
        with pytest.raises(
            CheckpointError, match=r"is complete, but job .* failed while"
        ) as caught:
            asked(client.stop_with_savepoint, drain, str(tmp_path / "savepoints"))
        with pytest.raises(JobExecutionError, match="start it from that savepoint"):
            last_counts(results)
        assert client.get_job_status().result() is JobStatus.FAILED
    (path,) = (tmp_path / "savepoints").iterdir()
    assert str(path) in str(caught.value)
    if not drain:
        env = environment({"execution.state-recovery.path": str(path)})
        with counts(env, slowly=False).execute_and_collect() as results:
            assert last_counts(results) == ALL
