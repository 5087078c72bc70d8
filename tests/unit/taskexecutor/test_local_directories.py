"""Folders of a killed process are removed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from penstock.taskexecutor.worker.local_directories import LocalDirectory


@pytest.mark.process
def test_a_killed_process_leaves_nothing_for_long(tmp_path):
    """The next process removes its folder; those of live processes and other users stay."""
    (tmp_path / "theirs-x").mkdir()
    program = (
        "import os, signal; "
        "from penstock.taskexecutor.worker.local_directories import LocalDirectory; "
        f"LocalDirectory({str(tmp_path)!r}, 'mine-'); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    [abandoned] = [path for path in tmp_path.glob("mine-*") if path.is_dir()]
    living = LocalDirectory(str(tmp_path), "mine-")
    another = LocalDirectory(str(tmp_path), "mine-")
    assert not abandoned.exists()
    assert Path(living.path).is_dir()
    assert len(os.listdir(tmp_path)) == 5
    living.close()
    another.close()
    assert os.listdir(tmp_path) == ["theirs-x"]


def test_a_folder_that_is_written_to_while_it_is_removed_goes_as_well(tmp_path, monkeypatch):
    folder = LocalDirectory(str(tmp_path), "here-")
    remove = shutil.rmtree

    def remove_beside_a_writer(path, **options):
        remove(path, **options)
        monkeypatch.setattr(shutil, "rmtree", remove)
        Path(path).mkdir()
        Path(path, "late").touch()

    monkeypatch.setattr(shutil, "rmtree", remove_beside_a_writer)
    folder.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_removed_is_left_to_the_next_process(tmp_path, monkeypatch, caplog):
    folder = LocalDirectory(str(tmp_path), "here-")
    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        folder.close()
    assert "the next process will" in caplog.text
    LocalDirectory(str(tmp_path), "here-").close()
    assert list(tmp_path.iterdir()) == []
