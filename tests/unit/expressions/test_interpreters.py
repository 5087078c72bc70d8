"""The byte-code front end recognises functions on every version that it has a table for.

Other interpreters are used if they are installed: as python3.x on the path, or by pyenv.
"""

import logging
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from penstock.expressions import bytecode
from penstock.expressions.bytecode_tables import TABLES
from penstock.expressions.evaluation import Called, Evaluation, Stage
from penstock.network import runtime

ROOT = Path(__file__).resolve().parents[3]


def interpreter(version):
    """An interpreter of a version and its environment; None if there is none."""
    if version == sys.version_info[:2]:
        return sys.executable, {}
    found = shutil.which("python{}.{}".format(*version))
    if found is None:
        return None
    environment = {}
    if shutil.which("pyenv"):
        listed = subprocess.run(["pyenv", "versions", "--bare"], capture_output=True, text=True)
        environment["PYENV_VERSION"] = ":".join(listed.stdout.split())
    program = "import sys; print(*sys.version_info[:2])"
    answer = subprocess.run(
        [found, "-c", program], capture_output=True, text=True, env={**os.environ, **environment}
    )
    if answer.stdout.split() != [str(part) for part in version]:
        return None
    return found, environment


@pytest.mark.process
@pytest.mark.parametrize("version", TABLES, ids="{0[0]}.{0[1]}".format)
def test_programs_are_what_functions_compute(version):
    found = interpreter(version)
    if found is None:
        pytest.skip("not installed")
    path = os.pathsep.join([str(ROOT / "python"), str(ROOT / "tests")])
    ran = subprocess.run(
        [found[0], "-m", "support.evaluation.front_end"],
        capture_output=True,
        text=True,
        env={**os.environ, **found[1], "PYTHONPATH": path},
    )
    assert ran.returncode == 0, ran.stderr


@pytest.mark.skipif(runtime() != "native", reason="only the native runtime evaluates")
def test_an_unknown_version_evaluates_nothing_and_says_so_once(monkeypatch, caplog):
    monkeypatch.setattr(bytecode, "table", lambda: None)
    bytecode._log_unknown_version.cache_clear()
    with caplog.at_level(logging.WARNING):
        decided = [Evaluation().decide([Stage(lambda x: x)]) for _ in range(3)]
    version = "CPython {}.{}".format(*sys.version_info[:2])
    assert decided == [Called(f"is made of the byte code of {version}, which is not known")] * 3
    (record,) = caplog.records
    assert version in record.getMessage()
    bytecode._log_unknown_version.cache_clear()
