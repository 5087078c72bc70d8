"""Files by which the command line finds clusters: only the owner's, and only of live clusters."""

import json
import os
import stat

import pytest
from penstock.rest.run_files import RunFile, run_directory, running_clusters


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    return tmp_path / "run"


def test_a_file_is_the_owners_and_goes_with_the_cluster(folder):
    first, second = RunFile("http://127.0.0.1:1", "secret"), RunFile("http://127.0.0.1:2", None)
    first.write()
    second.write()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    assert [(one.url, one.token, one.pid) for one in running_clusters()] == [
        ("http://127.0.0.1:1", "secret", os.getpid()),
        ("http://127.0.0.1:2", None, os.getpid()),
    ]
    first.remove()
    first.remove()
    assert [one.url for one in running_clusters()] == ["http://127.0.0.1:2"]
    second.remove()
    assert not folder.exists()
    assert running_clusters() == []


def test_files_of_ended_processes_are_removed(folder):
    """Even if another process has the same number by now."""
    RunFile("http://127.0.0.1:1", None).write()
    path = next(folder.iterdir())
    content = json.loads(path.read_text())
    for change in ({"pid": 2**22 + 5}, {"process_started_s": content["process_started_s"] - 100}):
        path.write_text(json.dumps(content | change))
        assert running_clusters() == []
        assert not path.exists()


def test_other_files_are_left_alone(folder):
    folder.mkdir(mode=0o700)
    for number, text in enumerate(["", "{", "[]", "null", '{"url": 1}']):
        (folder / f"{number}.json").write_text(text)
    assert running_clusters() == []
    assert len(list(folder.iterdir())) == 5


def test_files_of_other_users_are_not_believed(folder, monkeypatch):
    """They could name an address to which the client would send its token."""
    RunFile("http://127.0.0.1:1", None).write()
    path = next(folder.iterdir())
    found = os.stat(path)
    foreign = os.stat_result([*found[:4], found.st_uid + 1, *found[5:]])
    monkeypatch.setattr(os, "fstat", lambda descriptor: foreign)
    assert running_clusters() == []
    assert path.exists()
    monkeypatch.undo()


def test_a_link_among_the_files_is_not_followed(folder, tmp_path):
    RunFile("http://127.0.0.1:1", None).write()
    path = next(folder.iterdir())
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert running_clusters() == []


def test_a_folder_that_is_open_to_others_is_closed(folder):
    folder.mkdir(mode=0o777)
    folder.chmod(0o777)
    RunFile("http://127.0.0.1:1", None).write()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_link_in_the_place_of_the_folder_is_refused(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises((PermissionError, FileExistsError)):
        RunFile("http://127.0.0.1:1", None).write()
    assert running_clusters() == []


def test_the_folder_is_the_users_own(monkeypatch, tmp_path):
    monkeypatch.delenv("PENSTOCK_RUN_DIR")
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert run_directory() == tmp_path / "penstock"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert run_directory().name == f"penstock-{os.getuid()}"
