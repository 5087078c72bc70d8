"""Jobs on a real Spark, in local mode and on a local cluster with executors of its own."""

import collections
import json
import os
import re
import signal
import venv
from pathlib import Path

import pytest
from e2e.running import ROOT, Outcome, assert_nothing_left, run_program, start_program
from e2e.spark_jobs import light_jvms

# Starting Spark takes minutes on a busy machine.
pytestmark = pytest.mark.spark

PROGRAMS = str(Path(__file__).with_name("programs.py"))
MASTERS = ["local[2]", "local-cluster[2,1,1024]"]


def program(name: str, master: str, argument: Path | str = "", *options: str) -> Outcome:
    return run_program([PROGRAMS, name, master, str(argument), *options])


@pytest.mark.parametrize("runtime", ["native", "pure"])
@pytest.mark.parametrize("master", MASTERS)
def test_word_count(master: str, runtime: str, text: Path, tmp_path: Path) -> None:
    """`penstock run` of the example returns collections.Counter's totals."""
    output = tmp_path / "counts"
    example = str(ROOT / "examples" / "word_count.py")
    outcome = run_program(
        [
            "-m",
            "penstock",
            "run",
            "--master",
            master,
            "-p",
            "2",
            example,
            "--input",
            str(text),
            "--output",
            str(output),
        ],
        PENSTOCK_RUNTIME=runtime,
        PENSTOCK_CONFIGURATION=json.dumps(light_jvms(master)),
    )
    assert outcome.code == 0, outcome.err
    expected = collections.Counter()
    for path in text.iterdir():
        expected.update(word for word in re.split(r"\W+", path.read_text().lower()) if word)
    found = {}
    for path in output.rglob("part-*"):
        found.update(line.split(" ") for line in path.read_text().splitlines())
    assert {word: int(count) for word, count in found.items()} == dict(expected)


@pytest.fixture(scope="module")
def on_one_spark(
    classes_of_spark: None, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, str]:
    """Return the output of programs that run one after the other, because Spark starts slowly."""
    names = (
        "collects+prints+raises+tells_processes+cancels+goes_on_from_a_savepoint+exchanges_frames"
        "+exchanges_streams+runs_in_stages+computes_with_batches+joins_and_ranks_batches"
        "+loses_a_worker+is_given_up"
    )
    outcome = program(names, "local[2]", tmp_path_factory.mktemp("programs"))
    assert outcome.code == 0, outcome.err
    parts = re.split(r"^--- (\w+)\n", outcome.out, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def test_results_return_and_spark_serves_several_jobs(on_one_spark: dict[str, str]) -> None:
    assert on_one_spark["collects"].splitlines() == ["[1, 4, 9]"] * 2


def test_printed_lines_are_on_the_standard_output_of_the_program(
    on_one_spark: dict[str, str],
) -> None:
    """All of them, and before `execute` returns."""
    *lines, last = on_one_spark["prints"].splitlines()
    assert sorted(map(int, (line.partition("> ")[2] for line in lines))) == list(range(20_000))
    assert last == "executed"


def test_a_batch_job_runs_in_stages(on_one_spark: dict[str, str]) -> None:
    assert on_one_spark["runs_in_stages"] == "[(0, 1683), (1, 1617), (2, 1650)]\n"


def test_functions_of_batches(on_one_spark: dict[str, str]) -> None:
    totals = sorted(
        sum(n for n in range(first, first + 1000) if n % 3 == key)
        for first in range(0, 3000, 1000)
        for key in range(3)
    )
    assert on_one_spark["computes_with_batches"] == f"True {totals} {totals}\n"


def test_joins_and_rankings_of_batches(on_one_spark: dict[str, str]) -> None:
    found, *counts = on_one_spark["joins_and_ranks_batches"].splitlines()
    joined = [(n, n % 1000) for n in range(3000)]
    ranked = [(-1, n) for n in range(2994, 3000)]
    deduplicated = [(-2, n) for n in range(3000)]
    assert found == str(sorted([*joined, *ranked, *deduplicated]))
    assert sorted(counts) == ["Deduplicate True 0", "Join True 0", "TopN True 0"]


def test_frames_of_spark_are_streams_and_streams_frames(on_one_spark: dict[str, str]) -> None:
    lines = on_one_spark["exchanges_frames"].splitlines()
    assert lines[:2] == ["struct<n:bigint,text:string> (999000, 1000)", "[]"]
    assert "from_spark takes a DataFrame of Spark, got [1]" in lines[2]
    assert "the column 'span' is of Spark's type interval day" in lines[3]
    assert "to_spark takes a SparkSession, got 'spark'" in lines[4]
    assert "no declared type" in lines[5]


def test_streams_of_spark_are_streams_and_streams_streams_of_spark(
    on_one_spark: dict[str, str],
) -> None:
    lines = on_one_spark["exchanges_streams"].splitlines()
    assert lines[:2] == ["4 True", "[9900]"]
    assert "this one is a stream: write it by foreachBatch" in lines[2]
    assert "takes the schema of a DataFrame, got 'n LONG'" in lines[3]
    assert "takes the path of a folder, got None" in lines[4]


def test_a_job_on_spark_is_stopped_and_another_one_continues(on_one_spark: dict[str, str]) -> None:
    assert on_one_spark["goes_on_from_a_savepoint"] == "True True\n"


@pytest.mark.slow
def test_a_job_on_spark_is_watched_and_cancelled_over_rest(tmp_path: Path) -> None:
    options = (
        "rest_port=0",
        "metrics_fetcher_update-interval=100 ms",
        "execution_checkpointing_interval=1 h",
        "metrics_reporter_own_factory_class=spark",
        "metrics_reporter_own_interval=100 ms",
        "spark_metrics_conf_*_sink_csv_class=org.apache.spark.metrics.sink.CsvSink",
        f"spark_metrics_conf_*_sink_csv_directory={tmp_path}",
    )
    arguments = [PROGRAMS, "is_watched", "local[2]", "", *options]
    outcome = run_program(arguments, PENSTOCK_RUN_DIR=str(tmp_path / "run"))
    assert outcome.code == 0, outcome.err
    shown, refused, rescaled, ended = outcome.out.splitlines()
    assert shown.startswith("{'status': 'RUNNING'} [{'id': 'Status.JVM.Threads.Count', 'min': ")
    assert "would need 3 slots and can have 2: its host has no place for more" in refused
    assert rescaled == "1 {}"
    assert ended == "JobCancelledError []"
    # Spark's own sinks have the metrics, too.
    (shown_by_spark,) = tmp_path.glob(
        "*.driver.AccumulatorSource.penstock.*.jobmanager.*.numRestarts.csv"
    )
    assert shown_by_spark.read_text().splitlines()[0] == "t,value"
    (records, *_) = tmp_path.glob("*.penstock.*.taskmanager.*.Same.0.numRecordsIn.csv")
    assert float(records.read_text().splitlines()[-1].split(",")[1]) > 0


@pytest.mark.slow
def test_active_session_is_used_and_left_as_it_is(tmp_path: Path) -> None:
    """Without a configured interpreter, workers use this one, not the first on the path."""
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\nexit 1\n")
    other.chmod(0o755)
    arguments = [PROGRAMS, "finds_the_session", "unused", ""]
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    outcome = run_program(arguments, PATH=path)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == ["True", "3"]
    assert "Spark runs already, without effect: spark.task.cpus\n" in outcome.err


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "master"), [("finds_the_session", "unused"), ("collects", MASTERS[1])]
)
def test_executors_without_penstock_are_named(name: str, master: str, tmp_path: Path) -> None:
    """Their interpreter is another one here: a bare virtual environment."""
    venv.create(tmp_path / "bare")
    python = str(tmp_path / "bare" / "bin" / "python")
    outcome = run_program([PROGRAMS, name, master, ""], PYSPARK_PYTHON=python)
    assert outcome.code != 0
    assert f"'{python}', cannot import penstock: install penstock-engine there" in outcome.err


@pytest.mark.slow
def test_a_spark_that_does_not_start_says_why() -> None:
    """Its JVM runs, and rejects an option; its files are removed with it."""
    outcome = program("collects", "local[1]", "", "spark.task.cpus=abc")
    assert outcome.code == 1
    said = outcome.err.splitlines()[-1]
    assert "ConfigurationError: Spark with spark.master=local[1]: " in said
    assert "'abc' in the config \"spark.task.cpus\"" in said


def test_user_exception_reaches_the_caller(on_one_spark: dict[str, str]) -> None:
    """As that exception, with the operator, the subtask and the user's own line."""
    said = on_one_spark["raises"]
    assert "caught integer division or modulo by zero" in said
    assert "divide" in said
    assert "1 // (number - 2)" in said


@pytest.mark.slow
def test_user_code_that_exits_and_what_it_logged() -> None:
    """sys.exit() fails the job, and Spark's own log does not hide the output of user code."""
    outcome = program("exits", "local[2]")
    assert outcome.code == 1
    assert "JobExecutionError: user code raised SystemExit: 0" in outcome.err
    assert "leaver (1/1): on my way out" in outcome.err
    assert "NativeCodeLoader" not in outcome.err
    assert "default log4j profile" not in outcome.err


@pytest.mark.slow
def test_too_few_slots_names_asked_and_given() -> None:
    """Each slot needs a worker of its own here."""
    options = ["slot_request_timeout=16 s", "taskmanager_numberOfTaskSlots=1"]
    outcome = program("collects", "local[1]", "", *options)
    assert outcome.code != 0
    assert "NoResourceAvailableError" in outcome.err
    assert re.search(r"\b2\b.*\b1\b", outcome.err[outcome.err.index("NoResourceAvailableError") :])


def test_slots_are_spread_over_the_places_there_are(on_one_spark: dict[str, str]) -> None:
    """Three subtasks run in the two TaskExecutors for which Spark has places."""
    assert on_one_spark["tells_processes"].splitlines() == ["[1, 2]"]


def test_killed_worker_fails_the_job(on_one_spark: dict[str, str]) -> None:
    assert "is lost" in on_one_spark["loses_a_worker"]


@pytest.mark.slow
def test_killed_worker_of_a_cluster_fails_the_job(tmp_path: Path) -> None:
    outcome = program("loses_a_worker", MASTERS[1], tmp_path)
    assert outcome.code == 0, outcome.err
    assert "is lost" in outcome.out


def test_a_stage_that_spark_gives_up_is_a_lost_worker(on_one_spark: dict[str, str]) -> None:
    """Each TaskExecutor has its own stage, so the job continues with another one."""
    said = on_one_spark["is_given_up"]
    assert re.match(r"TaskExecutor taskexecutor-1-\w+ \(pid \d+\) is lost: ", said)
    if "its host is lost: " in said:  # Spark reported it before the loss had to be declared
        assert "Job aborted due to stage failure: Task 0 in stage" in said
    assert said.endswith("goes on RUNNING\n")


@pytest.mark.slow
@pytest.mark.parametrize("master", ["local[1]", "local-cluster[1,1,1024]"])
def test_the_process_that_hosted_a_worker_hosts_the_next_one(master: str, tmp_path: Path) -> None:
    """Another process would have to start and import first; its daemon reads no archives."""
    outcome = program("is_hosted_again", master, tmp_path)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == [
        "by the same process: True",
        "forked from penstock.spark.python_daemon",
    ]


@pytest.mark.slow
def test_idle_executors_are_made_ready_to_host(tmp_path: Path) -> None:
    outcome = program("finds_executors_ready", MASTERS[1], tmp_path)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == ["ready", "ready again True", "[]"]


@pytest.mark.slow
def test_executors_that_spark_excludes(tmp_path: Path) -> None:
    """A job continues on other executors; Spark's retry of the task hosts no worker.

    An excluded executor is no place for the next job, which reports how many slots it got.
    """
    exclude = "spark.excludeOnFailure."
    outcome = program(
        *("flees", "local-cluster[3,1,1024]", tmp_path, f"{exclude}enabled=true"),
        f"{exclude}application.maxFailedTasksPerExecutor=1",
        f"{exclude}application.maxFailedExecutorsPerNode=3",
    )
    assert outcome.code == 0, outcome.err
    elsewhere, workers, refused, *_ = outcome.out.splitlines()
    assert elsewhere == "1 excluded, goes on elsewhere: True"
    assert workers == "workers: 1"
    assert re.search(r"after 3 s: 3 are required in all, .* have given [012];", refused)


@pytest.mark.slow
def test_a_stopped_spark_ends_the_job_and_the_next_one_starts_another(tmp_path: Path) -> None:
    """Whatever the restart strategy: no worker can be started."""
    outcome = program("loses_its_spark", "local[2]", tmp_path)
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == ["NoResourceAvailableError True", "[1]"]


SPARK_ENCRYPTS = [
    "spark.authenticate=true",
    "spark.authenticate.secret=a secret of Spark's own",
    "spark.network.crypto.enabled=true",
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("master", "options"),
    [
        (MASTERS[0], ["security.ssl.internal.enabled=true"]),
        (MASTERS[1], SPARK_ENCRYPTS),
    ],
    ids=MASTERS,
)
def test_secrets_are_in_no_file(master: str, options: list[str], tmp_path: Path) -> None:
    """Neither tokens (control, data, the latter's source) nor TLS keys reach a disk.

    The keys, of both planes, are created because Spark encrypts its network, too.
    """
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    arguments = [PROGRAMS, "keeps_secrets", master, str(tmp_path), *options]
    outcome = run_program(arguments, TMPDIR=str(temporary))
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines()[-1] == "5 secrets, True []"
    assert list(temporary.iterdir()) == []


@pytest.mark.slow
def test_tasks_that_spark_would_write_to_a_file_are_refused() -> None:
    """Beyond a limit Spark sends the code of a task through a file."""
    options = ["spark.broadcast.UDFCompressionThreshold=1000", "slot_request_timeout=10 s"]
    outcome = program("collects", "local[2]", "", *options)
    assert outcome.code != 0
    assert "raise spark.broadcast.UDFCompressionThreshold" in outcome.err


@pytest.mark.slow
def test_temporary_folders_of_a_killed_spark(tmp_path: Path) -> None:
    """The next start of Spark removes them, and leaves those of a running one alone."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    os.mkfifo(tmp_path / "running")
    arguments = [PROGRAMS, "runs_until_interrupted", "local[2]", str(tmp_path)]
    killed = start_program(arguments, TMPDIR=str(temporary))
    (tmp_path / "running").read_text()
    (left,) = temporary.glob("penstock-spark-*")
    running = run_program([PROGRAMS, "collects", "local[2]", ""], TMPDIR=str(temporary))
    assert running.code == 0, running.err
    assert list(left.iterdir()) != []
    os.killpg(killed.pid, signal.SIGKILL)
    killed.communicate()
    assert_nothing_left(killed.pid)
    assert list(left.iterdir()) != []
    outcome = run_program([PROGRAMS, "collects", "local[2]", ""], TMPDIR=str(temporary))
    assert outcome.code == 0, outcome.err
    assert list(temporary.glob("penstock-spark-*")) == []


def test_cancel(on_one_spark: dict[str, str]) -> None:
    assert on_one_spark["cancels"].split()[-2:] == ["JobCancelledError", "CANCELED"]


@pytest.mark.slow
def test_interrupt_ends_everything(tmp_path: Path) -> None:
    """Ctrl-C reaches the program as KeyboardInterrupt; `run_program` finds nothing left."""
    os.mkfifo(tmp_path / "running")
    outcome = run_program(
        [PROGRAMS, "runs_until_interrupted", "local[2]", str(tmp_path)],
        interrupt_after=tmp_path / "running",
    )
    assert outcome.code != 0
    assert "KeyboardInterrupt" in outcome.err
