"""A failed test that needs processes runs again, alone and once; if it passes then, it is flaky."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
TESTS = Path(__file__).parents[1]

#: Fails each test that calls `once`, but only in its first run.
ONCE = """
from pathlib import Path

def once(name):
    first = not Path(name).exists()
    Path(name).touch()
    return first
"""


@pytest.fixture
def run_tests(tmp_path):
    """Run tests, given by file, under the real conftest; return the exit status and the output."""

    def run(files, *options):
        tests = tmp_path / "tests"
        tests.mkdir()
        (tests / "conftest.py").symlink_to(TESTS / "conftest.py")
        (tmp_path / "pytest.ini").write_text("[pytest]\ntestpaths = tests\ntimeout = 100\n")
        for name, text in files.items():
            (tests / name).parent.mkdir(exist_ok=True)
            (tests / name).write_text(ONCE + text)
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *options],
            cwd=tmp_path,
            env={
                **os.environ,
                "PYTHONPATH": str(TESTS),
                "PYTEST_ADDOPTS": "",
                "TMPDIR": str(tmp_path),  # a worker that crashes leaves its temporary folder
                "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",  # these take a second to load
                "PYTEST_PLUGINS": "pytest_timeout,xdist.plugin",
            },
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, done.stdout + done.stderr

    return run


def closing_line(output):
    return output.strip().splitlines()[-1]


def kept_outputs(tmp_path):
    return {path.name: path.read_text() for path in (tmp_path / "build" / "flaky").iterdir()}


FAILING_ONCE = """
import pytest

@pytest.fixture(scope="module")
def server():
    assert not once("server"), "it does not start"

def test_of_luck():
    print("what it said before")
    assert not once("luck"), "unlucky"

def test_one(server): pass
def test_two(server): pass
def test_beside_them(): pass
"""


def test_tests_that_fail_once_pass_and_are_named(run_tests, tmp_path):
    """Tests that a broken fixture kept from running are one failure, not two."""
    status, output = run_tests({"integration/test_luck.py": FAILING_ONCE}, "--max-flaky=2")
    assert status == 0, output
    assert " 4 passed, 3 flaky in" in closing_line(output)
    assert "FLAKY tests/integration/test_luck.py::test_of_luck - AssertionError: unlucky" in output
    kept = kept_outputs(tmp_path)
    assert "AssertionError: unlucky" in kept["tests_integration_test_luck.py_test_of_luck.txt"]
    assert "what it said before" in kept["tests_integration_test_luck.py_test_of_luck.txt"]
    assert "it does not start" in kept["tests_integration_test_luck.py_test_one.txt"]


CRASHING = """
import os, signal

def test_before_it():
    pass

def test_of_luck():
    if once("crash"):
        os.kill(os.getpid(), signal.SIGKILL)

def test_behind_it():
    pass
"""

LEAVING = """
import tempfile
from support import leftovers

leftovers.PATIENCE_S = 0.0

def test_of_luck():
    if once("leftover"):
        tempfile.mkstemp(prefix="forgotten")
"""


def test_crashed_workers_and_leftovers_are_run_again(run_tests, tmp_path):
    """Under xdist a crash ends the worker; another worker runs its remaining tests."""
    files = {
        "integration/test_crash.py": CRASHING,
        "recovery/test_leftover.py": LEAVING,
        "unit/test_one.py": "def test_of_one_process(): pass",
    }
    status, output = run_tests(files, "--max-flaky=3", "-n", "2")
    assert status == 0, output
    assert " 5 passed, 2 flaky in" in closing_line(output)
    kept = kept_outputs(tmp_path)
    assert "crashed while running" in kept["tests_integration_test_crash.py_test_of_luck.txt"]
    assert "the test has left" in kept["tests_recovery_test_leftover.py_test_of_luck.txt"]


def test_a_second_failure_and_a_failure_of_one_process_fail_the_run(run_tests, tmp_path):
    files = {
        "integration/test_broken.py": "def test_broken():\n    assert not 'broken'",
        "integration/test_luck.py": "def test_of_luck():\n    assert not once('luck')",
        "unit/test_one.py": "def test_of_one_process():\n    assert not once('one')",
    }
    status, output = run_tests(files, "--max-flaky=3")
    assert status == 1, output
    assert " 2 failed, 1 passed, 1 flaky in" in closing_line(output)
    assert "FAILED tests/integration/test_broken.py::test_broken" in output
    assert "FAILED tests/unit/test_one.py::test_of_one_process" in output
    assert "Second run, alone" in output
    kept = kept_outputs(tmp_path)["tests_integration_test_broken.py_test_broken.txt"]
    assert "second run" in kept


def test_more_flaky_tests_than_allowed_fail_the_run(run_tests):
    text = "".join(f"def test_{n}():\n    assert not once('{n}')\n" for n in range(2))
    status, output = run_tests({"e2e/test_luck.py": text}, "--max-flaky=1")
    assert status == 1, output
    assert " 2 failed in" in closing_line(output)
    assert "2 tests were flaky, more than 1" in output
