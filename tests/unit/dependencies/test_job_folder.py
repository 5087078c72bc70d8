"""A job's folder: its contents are complete, and its last user removes it."""

import os
import subprocess
import sys
import threading

import pytest
from penstock.dependencies.job_folder import JobFolder


def test_the_last_one_removes_it(tmp_path):
    path = tmp_path / "base" / "job"
    first, second = JobFolder(path), JobFolder(path)
    first.publish("a/b", lambda part: part.write_text("x"))
    first.leave()
    first.leave()
    assert (path / "a" / "b").read_text() == "x"
    second.leave()
    assert list(path.parent.iterdir()) == []


@pytest.mark.process
def test_one_that_is_killed_does_not_keep_it(tmp_path):
    """The kernel releases the lock of a killed user."""
    path = tmp_path / "job"
    mine = JobFolder(path)
    script = (
        "import sys; from pathlib import Path; from penstock.dependencies.job_folder import "
        "JobFolder; folder = JobFolder(Path(sys.argv[1])); print('in', flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        other.stdout.readline()
        other.kill()
    mine.leave()
    assert not path.exists()


def test_half_built_folders_are_not_found(tmp_path):
    """Neither this user nor a later one finds them; the next one builds the folder."""
    folder = JobFolder(tmp_path / "job")

    def fails(part):
        part.mkdir()
        (part / "first").touch()
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        folder.publish("thing", fails)
    assert not (folder.path / "thing").exists()
    assert list((folder.path / ".parts").iterdir()) == []
    folder.publish("thing", lambda part: part.write_text("whole"))
    folder.publish("thing", fails)
    assert (folder.path / "thing").read_text() == "whole"
    folder.leave()


def test_many_come_and_go_at_once(tmp_path):
    """Each finds the folder that it or another one published, and nothing is left."""
    built, seen = [], []

    def use(number):
        for _ in range(20):
            folder = JobFolder(tmp_path / "job")
            with folder.publishing():
                path = folder.publish("thing", lambda part: part.write_text(built.append(1) or "x"))
            seen.append(path.read_text())
            folder.leave()

    threads = [threading.Thread(target=use, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == ["x"] * 160
    assert list(tmp_path.iterdir()) == []


def test_use_during_removal_leaves_nothing(tmp_path, monkeypatch):
    """A user that found the folder before its removal creates its file in it only afterwards."""
    folder = JobFolder(tmp_path / "job")
    real_rmdir, late = os.rmdir, [1, 2, 3]

    def rmdir(path, **options):
        if late and "removed" in str(path):
            (path / ".users").write_text(str(late.pop()))
        real_rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", rmdir)
    folder.leave()
    assert not late
    assert list(tmp_path.iterdir()) == []


def test_it_can_be_removed_under_those_who_are_dead(tmp_path):
    first, second = JobFolder(tmp_path / "job"), JobFolder(tmp_path / "job")
    first.remove()
    assert list(tmp_path.iterdir()) == []
    second.leave()
    first.leave()
