"""Both forms of the tutorial run as printed, here with the commands of the tests' environment."""

import json
import os
import sys
import tempfile
from pathlib import Path

import pytest
from e2e.spark_jobs import LIGHT_JVMS
from e2e.tutorial import FORMS, blocks, walk


def commands(folder):
    """Return an environment with the commands of an installation."""
    found = folder.parent / "commands"
    found.mkdir(exist_ok=True)
    for name, module in (("python", ""), ("penstock", "-m penstock"), ("pytest", "-m pytest")):
        program = found / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {module} "$@"\n')
        program.chmod(0o755)
    return {
        **os.environ,
        "PATH": f"{found}:{os.environ['PATH']}",
        "PENSTOCK_RUN_DIR": str(folder.parent / "run"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


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
    walk(before, folder, commands(folder))


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize("form", FORMS)
def test_the_steps_on_spark(form, folder):
    before, after = blocks(form)
    assert "local-cluster" in "".join(text for _, text in after)
    environment = commands(folder) | {"PENSTOCK_CONFIGURATION": json.dumps(LIGHT_JVMS)}
    walk([step for step in before if " file " in step[0]], folder, environment)
    walk([("sh", "python make_day.py 1"), *after], folder, environment)
