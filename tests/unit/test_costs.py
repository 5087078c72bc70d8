"""The costs of a test include the processes that it starts."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.costs import Descendants, recorded, table

pytestmark = pytest.mark.process

TESTS = Path(__file__).parents[1]

BUSY = """
import subprocess, sys

def test_busy():
    code = "import time\\nwhile time.process_time() < 0.3: pass"
    subprocess.run([sys.executable, "-c", code], check=True)

def test_a_server_starts():
    code = "import time\\nwhile time.process_time() < 0.5: pass\\nprint()\\ninput()"
    global server
    server = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    server.stdout.readline()

def test_the_server_ends():
    server.communicate(b"\\n")

def test_idle():
    pass
"""


def test_each_test_has_its_costs(tmp_path):
    (tmp_path / "test_two.py").write_text(BUSY)
    subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "support.costs", "--costs=costs", "test_two.py"],
        cwd=tmp_path,
        env={
            **os.environ,
            "PYTHONPATH": str(TESTS),
            "PYTEST_ADDOPTS": "",
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
        },
        check=True,
        capture_output=True,
    )
    busy, starts, ends, idle = recorded(tmp_path / "costs")
    assert busy["cpu_s"] > 0.2 > idle["cpu_s"]
    assert starts["cpu_s"] > 0.4 > ends["cpu_s"]
    assert idle["processes"] == 0
    first, second = table([idle, busy], lambda test: test, 5).splitlines()[2:]
    assert first.startswith(f"| `{busy['test']}` | 1 | ")
    assert second.startswith(f"| `{idle['test']}` | 1 | ")


def test_processes_are_counted_that_have_ended():
    descendants = Descendants()
    *_, before = descendants.totals()
    code = "import subprocess; subprocess.run(['cat'])"
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as child:
        while descendants.totals()[2] < before + 2:
            assert child.poll() is None
    assert descendants.totals()[2] == before + 2
