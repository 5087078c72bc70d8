"""With --shake, processes of a test are stopped at random, and a failure reports the pauses."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.stops_processes]
TESTS = Path(__file__).parents[1]

SHAKEN = """
import subprocess
from pathlib import Path

import pytest

def is_stopped(pid):
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"

def test_shaken():
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as child:
        while not is_stopped(child.pid):
            pass
        while is_stopped(child.pid):
            pass
    pytest.fail("to see what is said")

@pytest.mark.stops_processes
def test_left_alone():
    pytest.fail("to see what is said")
"""


def test_processes_stop_and_continue(tmp_path):
    folder = tmp_path / "integration"
    folder.mkdir()
    (tmp_path / "conftest.py").symlink_to(TESTS / "conftest.py")
    (folder / "test_one.py").write_text(SHAKEN)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--shake=1", "integration"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(TESTS),
            "PYTEST_ADDOPTS": "",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        check=False,
        capture_output=True,
        text=True,
    )
    assert "2 failed in" in done.stdout, done.stdout + done.stderr
    shaken, left_alone = done.stdout.split("test_left_alone", 1)
    assert "Captured pauses call" in shaken
    assert " 'cat'\n" in shaken
    assert "Captured pauses call" not in left_alone
