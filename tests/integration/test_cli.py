"""``penstock run``: options reach the program, and an unmodified PyFlink program runs."""

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from e2e.running import LIMIT_S, Outcome, run_program


def penstock_run(tmp_path: Path, program: str, *arguments: str, after: tuple = ()) -> Outcome:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(program))
    return run_program(["-m", "penstock", "run", *arguments, str(path), *after])


def test_options_and_arguments_reach_the_program(tmp_path: Path) -> None:
    outcome = penstock_run(
        tmp_path,
        """
        import sys
        from penstock.datastream import StreamExecutionEnvironment

        env = StreamExecutionEnvironment.get_execution_environment()
        print(sys.argv[1:], env.get_parallelism(), __name__)
        stream = env.from_collection([3, 1, 2]).rebalance().map(lambda n: n + 1)
        with stream.execute_and_collect() as results:
            print(sorted(results))
        """,
        *("--target", "local", "-p", "2", "-D", "execution.buffer-timeout.interval=5 ms"),
        after=("--input", "-D"),
    )
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == ["['--input', '-D'] 2 __main__", "[2, 3, 4]"]


PROGRAMS_THAT_FAIL = {
    "syntax": "def broken(:\n    pass\n",
    "import": "import no_such_module_of_anybody\n",
    "value": "def fail():\n    raise ValueError('on purpose')\nfail()\n",
    "cause": "try:\n    1 / 0\nexcept ArithmeticError as error:\n    raise OSError from error\n",
}


@pytest.mark.parametrize("program", PROGRAMS_THAT_FAIL.values(), ids=PROGRAMS_THAT_FAIL)
@pytest.mark.parametrize("way", ["file", "module", "standard input"])
def test_a_program_that_fails_shows_what_python_would(
    program: str, way: str, tmp_path: Path
) -> None:
    """No frames of the command precede the program's."""
    (tmp_path / "failing.py").write_text(program)
    words = {"file": [str(tmp_path / "failing.py")], "module": ["-m", "failing"]}.get(way, ["-"])
    said = []
    for command in (["-m", "penstock", "run", "--target", "local"], []):
        done = subprocess.run(
            [sys.executable, *command, *words],
            **({"input": program} if way == "standard input" else {"stdin": subprocess.DEVNULL}),
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 1
        # Python itself shows the frames that run a module, and has no lines of standard input.
        unlike = {"module": ('  File "<frozen ', "Traceback "), "standard input": ("    ",)}
        lines = done.stderr.splitlines()
        said.append([line for line in lines if not line.startswith(unlike.get(way, "no line"))])
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            ["--target", "session"],
            "ConfigurationError: no session of this user runs on this machine: start",
        ),
        (["--target", "local", "-s", "/nonexistent"], "CheckpointStorageError: /nonexistent is no"),
        (["-D", "spark.master=nonsense"], "ConfigurationError: spark.master: 'nonsense' is no"),
        (["--master", "local[1]"], "ConfigurationError: Spark with spark.master=local[1]: its JVM"),
    ],
)
def test_an_error_ends_with_the_line_of_the_program(
    arguments: list[str], words: str, tmp_path: Path
) -> None:
    """Not below frames of penstock, pyspark and py4j, nor after the error of a file."""
    program = tmp_path / "job.py"
    program.write_text(
        "from penstock.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_collection([1]).print()\n"
        "env.execute()\n"
    )
    outcome = run_program(
        ["-m", "penstock", "run", *arguments, str(program)],
        JAVA_HOME="/nonexistent",
        PENSTOCK_RUN_DIR=str(tmp_path / "run"),
    )
    assert outcome.code == 1
    # The process that starts Java reports that there is none.
    lines = outcome.err[outcome.err.index("Traceback") :].splitlines()
    assert lines[1:3] == [f'  File "{program}", line 4, in <module>', "    env.execute()"]
    assert lines[3].startswith(f"penstock.errors.{words}")
    assert len(lines) == 4


def test_a_module_that_is_not_there_is_named_in_a_line(tmp_path: Path) -> None:
    outcome = run_program(["-m", "penstock", "run", "--target", "local", "-m", "no_such_module"])
    assert outcome.code == 2
    assert outcome.err.splitlines()[-1].endswith("there is no module 'no_such_module'")


def test_a_program_comes_from_standard_input(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def double(n):\n    return 2 * n\n")
    program = """
        import sys
        from beside import double
        from penstock.datastream import StreamExecutionEnvironment

        def halved(n):
            if n == 4:
                raise ValueError("even this")  # A comment of its line.
            return double(n)

        env = StreamExecutionEnvironment.get_execution_environment()
        print(sys.argv, __name__, repr(sys.stdin.read()))
        for numbers in ([1, 2], [4]):
            print(list(env.from_collection(numbers).map(halved).execute_and_collect()))
        """
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "run", "--target", "local", "-", "more"],
        input=textwrap.dedent(program),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.stdout.splitlines() == ["['-', 'more'] __main__ ''", "[2, 4]"], done.stderr
    assert "made at <stdin>:14: print(list(env.from_collection(numbers)" in done.stderr
    assert done.returncode == 1


def test_a_program_from_standard_input_cannot_be_detached() -> None:
    outcome = run_program(["-m", "penstock", "run", "--target", "local", "-d", "-"])
    assert (outcome.code, outcome.out) == (2, "")
    assert "-d is for a program in a file" in outcome.err


def test_an_unmodified_pyflink_program_runs(tmp_path: Path) -> None:
    outcome = penstock_run(
        tmp_path,
        """
        from pyflink.common import Types
        from pyflink.datastream import MapFunction, StreamExecutionEnvironment

        class Double(MapFunction):
            def map(self, value):
                return 2 * value

        env = StreamExecutionEnvironment.get_execution_environment()
        stream = env.from_collection([1, 2], Types.INT()).map(Double(), Types.INT())
        with stream.execute_and_collect() as results:
            print(list(results))
        """,
        *("--target", "local", "--as-pyflink"),
    )
    assert outcome.code == 0, outcome.err
    assert outcome.out == "[2, 4]\n"


def test_a_program_starts_from_a_savepoint(tmp_path: Path) -> None:
    """From a savepoint of another run; ``penstock savepoint`` shows and deletes it."""
    counting = """
        import time
        from penstock.common import Types, WatermarkStrategy
        from penstock.datastream import StreamExecutionEnvironment
        from penstock.datastream.connectors.number_seq import NumberSequenceSource
        from penstock.errors import CheckpointError

        env = StreamExecutionEnvironment.get_execution_environment()
        source = NumberSequenceSource(0, {end})
        numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
        stream = numbers.uid("numbers").{then}
    """
    stopping = """
        with stream.execute_and_collect() as results:
            first = next(results)
            while True:
                try:
                    client = results.get_job_client()
                    path = client.stop_with_savepoint(False, "{folder}").result()
                    break
                except CheckpointError as error:
                    if "not all tasks" not in str(error):
                        raise
            print(path, sum(results) + first)
    """
    end = 100_000
    # It would take minutes to reach its end.
    slowly = counting.format(end=end, then="map(lambda n: time.sleep(0.01) or 1, Types.LONG())")
    program = counting.format(end=end, then="map(lambda n: 1, Types.LONG())")
    first = penstock_run(
        tmp_path,
        textwrap.dedent(slowly) + textwrap.dedent(stopping).format(folder=tmp_path),
        *("--target", "local"),
    )
    assert first.code == 0, first.err
    path, seen = first.out.split()
    rest = penstock_run(
        tmp_path,
        textwrap.dedent(program)
        + "with stream.execute_and_collect() as results:\n    print(sum(results))\n",
        *("--target", "local", "-s", path, "-n", "--claim-mode", "no_claim"),
    )
    assert rest.code == 0, rest.err
    assert int(rest.out) + int(seen) == end + 1
    shown = run_program(["-m", "penstock", "savepoint", "inspect", path])
    assert shown.code == 0, shown.err
    for text in (path, "SAVEPOINT_SUSPEND 1 of 20", "uid 'numbers'", "'SourceReaderState'"):
        assert text in shown.out
    assert run_program(["-m", "penstock", "savepoint", "dispose", path]).code == 0
    assert not Path(path).exists()
    for command in ("inspect", "dispose"):
        gone = run_program(["-m", "penstock", "savepoint", command, path])
        assert gone.code == 1
        assert f"{path} is not a checkpoint or savepoint" in gone.err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-s", "x", "--claim-mode", "LEGACY"), "'LEGACY'"),
        (["-D", "no-equals-sign"], "not of the form key=value"),
        (["--target", "local", "--master", "local[2]"], "--master is for target spark"),
        (["-D", "execution.target=local", "--master", "local[2]"], "--master is for target spark"),
        (["--master", "nonsense"], "spark.master: 'nonsense' is not a master of Spark"),
        (["--target", "spark", "-D", "execution.target=local"], "--target spark and -D execution"),
        (["--target", "elsewhere"], "elsewhere"),
        (["-p", "0"], "0"),
    ],
)
def test_wrong_options_are_named(tmp_path: Path, arguments: list[str], message: str) -> None:
    outcome = penstock_run(tmp_path, "raise SystemExit('not reached')", *arguments)
    assert outcome.code == 2
    assert message in outcome.err


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("slot.request.timeout=soon", "slot.request.timeout: 'soon': must be a duration"),
        ("security.ssl.internal.enable=true", "did you mean security.ssl.internal.enabled?"),
    ],
)
def test_a_wrong_option_is_named_before_the_program_runs(
    tmp_path: Path, option: str, message: str
) -> None:
    outcome = penstock_run(
        tmp_path, "raise SystemExit('not reached')", *("--target", "local", "-D", option)
    )
    assert outcome.code == 2
    assert message in outcome.err
    assert "Traceback" not in outcome.err


def test_options_are_added_to_those_of_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Options of the command line win; the others remain."""
    monkeypatch.setenv(
        "PENSTOCK_CONFIGURATION",
        '{"pipeline.max-parallelism": 7, "parallelism.default": 3, "execution.target": "spark"}',
    )
    outcome = penstock_run(
        tmp_path,
        """
        from penstock.datastream import StreamExecutionEnvironment

        env = StreamExecutionEnvironment.get_execution_environment()
        target = env.get_configuration().get_string("execution.target", None)
        print(env.get_max_parallelism(), env.get_parallelism(), target)
        """,
        *("--target", "local", "-p", "2"),
    )
    assert outcome.code == 0, outcome.err
    assert outcome.out == "7 2 local\n"


def test_a_malformed_process_configuration_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_CONFIGURATION", "[]")
    outcome = penstock_run(tmp_path, "raise SystemExit('not reached')")
    assert outcome.code == 2
    assert "PENSTOCK_CONFIGURATION must be a JSON object" in outcome.err
