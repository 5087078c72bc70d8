"""The tutorial runs as printed: files are written, commands run, and outputs compared.

The fence of a block defines its kind: ``py file NAME`` and ``sql file NAME`` are files, ``sh`` is
run by a shell, and ``text`` is the end of its output.  Blocks without a language are not run.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from e2e.running import ROOT

PAGES = ROOT / "docs" / "tutorial"
FORMS = {
    "python": ["README.md", "python.md", "python_cluster.md"],
    "sql": ["README.md", "sql.md"],
}
CLUSTER = "## 6. Deploy"


def blocks(form):
    """Return the fences and texts of a form's pages, and where the cluster begins."""
    text = "".join((PAGES / page).read_text() for page in FORMS[form])
    before, _, after = text.partition(CLUSTER)
    fenced = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.M | re.S)
    return fenced.findall(before), fenced.findall(after)


def walk(steps, folder):
    """Run blocks in a folder that has the commands of an installation."""
    commands = folder.parent / "commands"
    commands.mkdir(exist_ok=True)
    for name, module in (("python", ""), ("penstock", "-m penstock"), ("pytest", "-m pytest")):
        program = commands / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {module} "$@"\n')
        program.chmod(0o755)
    environment = {
        **os.environ,
        "PATH": f"{commands}:{os.environ['PATH']}",
        "PENSTOCK_RUN_DIR": str(folder.parent / "run"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    out = ""
    for fence, text in steps:
        if " file " in fence:
            (folder / fence.partition(" file ")[2]).write_text(text)
        elif fence == "sh":
            ran = subprocess.run(
                ["bash", "-euo", "pipefail", "-c", text],
                cwd=folder, env=environment, capture_output=True, text=True,
            )  # fmt: skip
            assert ran.returncode == 0, f"{text}\n{ran.stdout}\n{ran.stderr}"
            out = ran.stdout
        elif fence == "text":
            assert out.endswith(text), f"printed:\n{text}\nfound:\n{out}"


def logs():
    return set(Path(tempfile.gettempdir()).glob("penstock-*.log"))


@pytest.fixture
def folder(tmp_path):
    before = logs()
    made = tmp_path / "shop"
    made.mkdir()
    yield made
    for log in logs() - before:  # the output of background programs stays for their users
        log.unlink()


@pytest.mark.parametrize("form", FORMS)
def test_the_steps_on_this_machine(form, folder):
    before, _ = blocks(form)
    assert len(before) > 6
    walk(before, folder)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("form", FORMS)
def test_the_steps_on_spark(form, folder):
    before, after = blocks(form)
    assert "local-cluster" in "".join(text for _, text in after)
    walk([step for step in before if " file " in step[0]], folder)
    walk([("sh", "python make_day.py 1")], folder)
    walk(after, folder)
