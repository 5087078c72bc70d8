"""F15: copies of checkpoints on the worker's disk: stored, pruned, read, given up."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from penstock.checkpoint_storage.file_systems import FileSystems, LocalFileSystem
from penstock.checkpoint_storage.handles import (
    FileHandle,
    IncrementalKeyGroupsHandle,
    KeyGroupsHandle,
    OperatorSubtaskState,
    TaskStateSnapshot,
)
from penstock.checkpoint_storage.streams import read_stream
from penstock.taskexecutor.checkpointing.local_state import CopiedStateStream, LocalStateStores

JOB, VERTEX, SLOT = b"j" * 16, b"v" * 16, b"slot"
FILES = FileSystems({})
BUFFERED = 4096


@pytest.fixture
def stores(tmp_path):
    (tmp_path / "local").mkdir()
    stores = LocalStateStores([str(tmp_path / "local")])
    yield stores
    stores.close()
    assert not list((tmp_path / "local").iterdir()), "nothing is left of a worker that has ended"


@pytest.fixture
def store(stores):
    return stores.of(JOB, SLOT, VERTEX, 3)


@pytest.fixture
def write(tmp_path, store):
    """Write a file of a checkpoint and return its handle."""
    (tmp_path / "remote").mkdir()

    def write(checkpoint_id, data, threshold=0):
        stream = CopiedStateStream(
            LocalFileSystem(), str(tmp_path / "remote"), threshold, BUFFERED, store, checkpoint_id
        )
        stream.write(data)
        handle = stream.handle()
        stream.close()
        return handle

    return write


def copies(tmp_path):
    return sorted(path.parent.name for path in (tmp_path / "local").rglob("chk_*/*"))


def groups(handle):
    state = OperatorSubtaskState(managed_keyed=(KeyGroupsHandle(0, (0,), handle),))
    return TaskStateSnapshot({b"o" * 16: state})


def test_a_file_is_read_from_its_copy(tmp_path, store, write):
    handle = write(1, b"state" * 1000)
    os.unlink(handle.path)
    assert read_stream(handle, FILES, store) == b"state" * 1000
    (copy,) = (tmp_path / "local").rglob("chk_*/*")
    folders = copy.relative_to(tmp_path / "local").parts[1:-1]
    assert folders == (f"jid_{JOB.hex()}", f"vtx_{VERTEX.hex()}_sti_3", "chk_1")


def test_state_without_a_file_has_no_copy(tmp_path, write):
    assert not isinstance(write(1, b"short", threshold=100), FileHandle)
    assert copies(tmp_path) == []


@pytest.mark.parametrize("harm", ["torn", "flipped", "gone"])
def test_the_file_replaces_a_damaged_copy(tmp_path, store, write, caplog, harm):
    handle = write(1, b"state" * 1000)
    (copy,) = (tmp_path / "local").rglob("chk_*/*")
    if harm == "torn":
        copy.write_bytes(b"state")
    elif harm == "flipped":
        copy.write_bytes(b"t" + copy.read_bytes()[1:])
    else:
        copy.unlink()
    assert read_stream(handle, FILES, store) == b"state" * 1000
    assert handle.path in caplog.text
    assert store.read(handle) is None, "it is not tried again"
    assert copies(tmp_path) == []


def test_a_file_that_was_written_elsewhere_has_no_copy(store, write, tmp_path):
    path = tmp_path / "remote" / "other"
    path.write_bytes(b"x")
    assert store.read(FileHandle(str(path), 1, (0,))) is None


def test_a_complete_checkpoint_removes_the_copies_before_it(tmp_path, store, write):
    for checkpoint_id in (1, 2, 3):
        store.written(checkpoint_id, groups(write(checkpoint_id, b"state")))
    store.completed(2)
    assert copies(tmp_path) == ["chk_2", "chk_3"]
    store.completed(1)
    assert copies(tmp_path) == ["chk_2", "chk_3"]
    store.completed(3)
    assert copies(tmp_path) == ["chk_3"]


def test_files_that_later_checkpoints_refer_to_keep_their_copies(tmp_path, store, write):
    first = write(1, b"shared")
    for checkpoint_id in (1, 2, 3):
        meta = write(checkpoint_id, b"meta")
        shared = {"1": first} if checkpoint_id < 3 else {"3": write(3, b"new")}
        handle = IncrementalKeyGroupsHandle(checkpoint_id, "", 0, 1, 0, meta, shared, {})
        state = OperatorSubtaskState(managed_keyed=(handle,))
        store.written(checkpoint_id, TaskStateSnapshot({b"o" * 16: state}))
        store.completed(checkpoint_id)
        assert copies(tmp_path) == {
            1: ["chk_1", "chk_1"], 2: ["chk_1", "chk_2"], 3: ["chk_3", "chk_3"],
        }[checkpoint_id]  # fmt: skip


def test_an_aborted_checkpoint_has_no_copies(tmp_path, store, write):
    store.written(1, groups(write(1, b"state")))
    store.written(2, groups(write(2, b"state")))
    store.aborted(2)
    assert copies(tmp_path) == ["chk_1"]


def test_a_stream_that_is_given_up_leaves_no_copy(tmp_path, store):
    stream = CopiedStateStream(LocalFileSystem(), str(tmp_path), 0, BUFFERED, store, 1)
    stream.write(b"x" * (2 << 20))
    assert copies(tmp_path) == ["chk_1"]
    stream.close()
    assert copies(tmp_path) == []


def test_a_copy_that_cannot_be_made_fails_no_checkpoint(tmp_path, store, write, caplog):
    (tmp_path / "local" / "x").touch()
    store._directory = tmp_path / "local" / "x"
    handle = write(1, b"state")
    assert read_stream(handle, FILES, store) == b"state"
    assert "cannot write a local copy of state" in caplog.text
    (tmp_path / "local" / "x").unlink()


def test_copies_are_kept_as_long_as_the_slot(tmp_path, stores, store, write):
    write(1, b"state")
    assert stores.of(JOB, SLOT, VERTEX, 3) is store
    stores.release(b"another slot")
    assert copies(tmp_path) == ["chk_1"]
    stores.release(SLOT)
    assert copies(tmp_path) == []


def test_no_copy_is_begun_once_the_slot_is_gone(tmp_path, stores, write):
    """A writing thread may outlive its task."""
    stores.release(SLOT)
    write(1, b"state")
    assert copies(tmp_path) == []


@pytest.mark.process
def test_copies_of_a_killed_worker_are_removed(tmp_path):
    """The next worker that creates a folder there removes it."""
    program = (
        "import os, signal; "
        "from penstock.taskexecutor.checkpointing.local_state import LocalStateStores; "
        f"LocalStateStores([{str(tmp_path)!r}]).of(b'', b'', b'', 0); "
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run([sys.executable, "-c", program], check=False)
    [left] = [path for path in tmp_path.iterdir() if path.is_dir()]
    stores = LocalStateStores([str(tmp_path)])
    stores.of(JOB, SLOT, VERTEX, 0)
    assert not left.exists()
    stores.close()
    assert not list(tmp_path.iterdir())


def test_threads_that_write_one_checkpoint_leave_each_other_the_folder(store, monkeypatch, caplog):
    """Files of a database are written in parallel; small ones turn out to need no copy."""
    small, large = (store.open_copy(1, name) for name in ("small", "large"))
    giving_up = threading.Thread(target=small.drop)
    real = Path.open

    def opens(path, *arguments, **keywords):
        # By now the folder exists.  The thread that gives up may have to wait for this one, so this
        # one does not wait until it ends.
        giving_up.start()
        giving_up.join(0.2)
        return real(path, *arguments, **keywords)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "open", opens)
        large.write(b"state")
    large.end()
    giving_up.join()
    assert "cannot write a local copy of state" not in caplog.text
