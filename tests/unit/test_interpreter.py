"""Interpreters without the global interpreter lock, and a package of which another project has
replaced files, are rejected with an explanation.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.process
ROOT = Path(__file__).resolve().parents[2]


def test_a_running_interpreter_without_the_lock():
    code = "import sys; sys._is_gil_enabled = lambda: False; import penstock"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "ImportError: penstock needs CPython's global interpreter lock" in ended.stderr


def test_a_build_for_one():
    code = (
        "import sysconfig\n"
        "known = sysconfig.get_config_var\n"
        "sysconfig.get_config_var = lambda n: 1 if n == 'Py_GIL_DISABLED' else known(n)\n"
        "import sys, types\n"
        "sys.modules['maturin'] = types.SimpleNamespace(build_sdist=0,\n"
        "    get_requires_for_build_sdist=0, prepare_metadata_for_build_wheel=0)\n"
        "import build_backend"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT / "ci"
    )
    assert ended.returncode == 1
    assert "penstock cannot be built for the free-threaded" in ended.stderr


@pytest.mark.parametrize("words", [["-c", "import penstock.table"], ["-m", "penstock", "doctor"]])
def test_a_package_of_which_another_project_has_replaced_files(words, tmp_path):
    package = tmp_path / "penstock"
    package.mkdir()
    for path in (ROOT / "python" / "penstock").iterdir():
        if path.name not in ("__init__.py", "__pycache__"):
            (package / path.name).symlink_to(path)
    (package / "__init__.py").write_text('"""Flows."""\n\n__version__ = "0.1.0"\n')
    ended = subprocess.run(
        [sys.executable, *words], capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
    )  # fmt: skip
    assert ended.returncode == 1
    last = ended.stderr.splitlines()[-1]
    assert last.startswith(f"ImportError: {package / '__init__.py'} is not that of penstock-engine")
    assert "pip uninstall penstock penstock-engine" in last
