"""F8: streams of state and the directories of checkpoints on a local disk."""

import errno
import os
import re
import resource
import threading

import pytest
from penstock.checkpoint_storage import file_systems
from penstock.checkpoint_storage import storage as storage_module
from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata
from penstock.checkpoint_storage.disposal import discard_streams
from penstock.checkpoint_storage.file_systems import FileSystems, LocalFileSystem
from penstock.checkpoint_storage.handles import CHECKED_BYTES, ByteStreamHandle, FileHandle
from penstock.checkpoint_storage.storage import (
    CheckpointStorage,
    FileSystemCheckpointStorage,
    load_metadata,
)
from penstock.checkpoint_storage.streams import (
    MAX_DRIVER_STATE_BYTES,
    DriverStateStream,
    StateOutputStream,
    read_part,
    read_stream,
)
from penstock.errors import (
    CheckpointStorageError,
    ConfigurationError,
    CorruptCheckpointError,
)
from penstock.state_processor.reader import Savepoint
from support.patience import PATIENCE_S

JOB = bytes(range(16))
FILES = FileSystems({})
URLS = ["{}", "file://{}"]


def stream_in(folder, threshold=10):
    return StateOutputStream(LocalFileSystem(), str(folder), threshold)


@pytest.mark.parametrize("size", [1, 9, 10])
def test_a_small_stream_has_no_file(tmp_path, size):
    stream = stream_in(tmp_path)
    stream.write(b"x" * size)
    handle = stream.handle()
    assert isinstance(handle, ByteStreamHandle)
    assert read_stream(handle, FILES) == b"x" * size
    assert not os.listdir(tmp_path)


def test_an_empty_stream_has_no_handle(tmp_path):
    assert stream_in(tmp_path).handle() is None


def test_without_a_threshold_a_byte_is_a_file(tmp_path):
    stream = stream_in(tmp_path, threshold=0)
    stream.write(b"x")
    handle = stream.handle()
    stream.close()
    assert isinstance(handle, FileHandle)
    assert read_stream(handle, FILES) == b"x"
    assert stream_in(tmp_path, threshold=0).handle() is None


@pytest.mark.parametrize("size", [11, 3_000_000])
def test_a_large_stream_is_a_file(tmp_path, size):
    stream = stream_in(tmp_path)
    data = os.urandom(size)
    for start in range(0, size, 700_000):
        stream.write(data[start : start + 700_000])
    assert stream.position == size
    handle = stream.handle()
    stream.close()
    assert isinstance(handle, FileHandle)
    assert handle.size == size
    assert read_stream(handle, FILES) == data


def test_a_stream_that_is_given_up_leaves_nothing(tmp_path):
    stream = stream_in(tmp_path)
    stream.write(os.urandom(2_000_000))
    assert os.listdir(tmp_path)
    stream.close()
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("harm", ["flipped", "torn", "longer", "gone"])
def test_a_harmed_file_is_named(tmp_path, harm):
    stream = stream_in(tmp_path)
    stream.write(b"state of an operator")
    handle = stream.handle()
    path = tmp_path / os.listdir(tmp_path)[0]
    data = path.read_bytes()
    if harm == "gone":
        path.unlink()
    else:
        harmed = {"flipped": b"S" + data[1:], "torn": data[:-1], "longer": data + b"!"}[harm]
        path.write_bytes(harmed)
    with pytest.raises(CorruptCheckpointError, match=str(path)):
        read_stream(handle, FILES)


BLOCK = CHECKED_BYTES


@pytest.mark.parametrize("written", [100_000, BLOCK, 3_000_000])
@pytest.mark.parametrize(
    ("start", "end", "base", "size"),
    [
        (0, 5, 0, BLOCK),
        (5, BLOCK, 0, BLOCK),
        (BLOCK, BLOCK + 1, BLOCK, BLOCK),
        (BLOCK - 1, BLOCK + 1, 0, 2 * BLOCK),
        (13 * BLOCK + 5, 13 * BLOCK + 9, 13 * BLOCK, 10),
        (0, 13 * BLOCK + 10, 0, 13 * BLOCK + 10),
    ],
)
def test_a_part_of_a_file_is_read_and_checked_alone(tmp_path, written, start, end, base, size):
    """A part is read whatever pieces it was written in; damage elsewhere is not detected."""
    data = os.urandom(13 * BLOCK + 10)
    stream = stream_in(tmp_path)
    for at in range(0, len(data), written):
        stream.write(data[at : at + written])
    handle = stream.handle()
    path = tmp_path / os.listdir(tmp_path)[0]
    others = bytearray(data)
    for at in range(0, len(data), BLOCK):
        if not base <= at < base + size:
            others[at] ^= 1
    path.write_bytes(others)
    assert read_part(handle, start, end, FILES) == (base, data[base : base + size])
    others[start] ^= 1
    path.write_bytes(others)
    with pytest.raises(CorruptCheckpointError, match=str(path)):
        read_part(handle, start, end, FILES)
    path.write_bytes(data[: end - 1])
    with pytest.raises(CorruptCheckpointError, match="were written"):
        read_part(handle, start, end, FILES)


def test_state_kept_by_the_driver_is_bounded():
    stream = DriverStateStream()
    stream.write(b"x" * MAX_DRIVER_STATE_BYTES)
    assert len(read_stream(stream.handle(), FILES)) == MAX_DRIVER_STATE_BYTES
    with pytest.raises(CheckpointStorageError, match=r"set execution\.checkpointing\.dir"):
        DriverStateStream().write(b"x" * (MAX_DRIVER_STATE_BYTES + 1))


@pytest.mark.parametrize("url", URLS)
def test_a_checkpoint_comes_and_goes(tmp_path, url):
    storage = FileSystemCheckpointStorage(url.format(tmp_path), JOB, FILES)
    location = storage.create_checkpoint(3)
    content = CheckpointMetadata(3, 5, {})
    pointer = storage.publish(location, content)
    for named in (pointer, f"{pointer}/", f"{pointer}/_metadata"):
        assert load_metadata(named, FILES)[0] == content
    assert sorted(os.listdir(tmp_path / JOB.hex() / "chk-3")) == ["_metadata"]
    storage.close({pointer})
    assert (tmp_path / JOB.hex()).exists(), "a checkpoint is in it"
    storage.discard(pointer)
    storage.close(())
    assert not os.listdir(tmp_path)


@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("is_retained", [True, False])
def test_leftovers_of_killed_workers_are_removed_with_the_job(tmp_path, url, is_retained):
    """Checkpoints that only began or were not reported, and shared files."""
    storage = FileSystemCheckpointStorage(url.format(tmp_path), JOB, FILES)
    job_directory = tmp_path / JOB.hex()
    (job_directory / "shared").mkdir(parents=True)
    (job_directory / "shared" / "rows").write_bytes(b"perhaps of the retained one")
    pointers = [
        storage.publish(storage.create_checkpoint(number), CheckpointMetadata(number, 5, {}))
        for number in (2, 3)
    ]
    storage.create_checkpoint(4)
    (job_directory / "chk-4" / "state").write_bytes(b"of a task")
    storage.close(pointers[1:] if is_retained else ())
    left = sorted(os.listdir(job_directory)) if job_directory.exists() else []
    assert left == (["chk-3", "shared"] if is_retained else [])


def test_leftovers_of_an_earlier_run_are_not_part_of_a_checkpoint(tmp_path):
    storage = FileSystemCheckpointStorage(str(tmp_path), JOB, FILES)
    location = storage.create_checkpoint(3)
    with open(f"{location}/left", "wb"):
        pass
    assert not os.listdir(storage.create_checkpoint(3))


def test_a_savepoint_has_a_directory_of_its_own(tmp_path):
    storage = CheckpointStorage(JOB, FILES)
    first, second = (storage.create_savepoint(f"{tmp_path}/") for _ in range(2))
    assert first != second
    assert os.path.basename(first).startswith("savepoint-000102-")


def test_a_savepoint_takes_no_directory_that_is_there(tmp_path, monkeypatch):
    """Ten names are tried; no file is written into an existing directory."""
    drawn = iter(["a"] * 10 + ["b"] + ["a"] * 10)
    monkeypatch.setattr(storage_module.secrets, "token_hex", lambda count: next(drawn))
    storage = CheckpointStorage(JOB, FILES)
    assert storage.create_savepoint(str(tmp_path)).endswith("savepoint-000102-a")
    assert storage.create_savepoint(str(tmp_path)).endswith("savepoint-000102-b")
    with pytest.raises(CheckpointStorageError, match="no unused name for a savepoint"):
        storage.create_savepoint(str(tmp_path))


def test_metadata_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    """If the disk is full halfway, no directory is left that looks like a checkpoint."""
    storage = FileSystemCheckpointStorage(str(tmp_path), JOB, FILES)
    location = storage.create_checkpoint(1)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(file_systems.os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        storage.publish(location, CheckpointMetadata(1, 1, {}))
    assert not os.listdir(location)


def test_a_wrong_pointer_says_what_to_name(tmp_path):
    for pointer in (str(tmp_path), f"{tmp_path}/nothing"):
        with pytest.raises(CheckpointStorageError, match="name the directory that holds it"):
            load_metadata(pointer, FILES)


def test_an_unknown_scheme_is_refused():
    with pytest.raises(ConfigurationError, match="gopher"):
        FILES.of("gopher://host/checkpoints")


def test_the_driver_keeps_checkpoints_without_a_directory():
    storage = CheckpointStorage(JOB, FILES)
    location = storage.create_checkpoint(4)
    assert storage.publish(location, CheckpointMetadata(4, 1, {})) == location
    storage.discard(location)
    storage.close(())


def test_a_file_that_cannot_be_written_is_named(tmp_path):
    """As the file system protocol requires; errors of open files do not contain the name."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    path = str(tmp_path / "file")
    file = LocalFileSystem().create(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1, before[1]))
    try:
        with pytest.raises(OSError, match=re.escape(f"File too large: '{path}'")):
            file.write(b"too much")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        file.close()


class Deleting:
    """Files of which each is deleted while another one is being deleted."""

    def __init__(self, parties):
        self.barrier = threading.Barrier(parties)
        self.deleted = []

    def of(self, path):
        del path
        return self

    def delete_file(self, path):
        self.barrier.wait(PATIENCE_S)
        if path == "harmed":
            raise PermissionError(path)
        self.deleted.append(path)


@pytest.mark.parametrize(("in_parallel", "parties"), [(True, 2), (False, 1)])
def test_files_are_deleted_several_at_a_time_where_that_is_wanted(in_parallel, parties):
    files = Deleting(parties)
    unused = [FileHandle(str(number), 1, ()) for number in range(2)]
    discard_streams(unused, files, in_parallel=in_parallel)
    assert sorted(files.deleted) == ["0", "1"]


def test_a_file_that_cannot_be_deleted_beside_others_is_an_error():
    unused = [FileHandle(name, 1, ()) for name in ("harmed", "other")]
    with pytest.raises(PermissionError, match="harmed"):
        discard_streams(unused, Deleting(2), in_parallel=True)


@pytest.mark.parametrize("named", ["chk-1", "chk-1/_metadata"])
def test_the_error_names_metadata_that_is_a_directory(tmp_path, named):
    (tmp_path / "chk-1" / "_metadata").mkdir(parents=True)
    with pytest.raises(CheckpointStorageError, match=r"not a checkpoint.*_metadata is a directory"):
        storage_module.load_metadata(str(tmp_path / named), FileSystems({}))


def test_a_checkpoint_in_the_memory_of_a_driver_is_named_as_such():
    with pytest.raises(
        CheckpointStorageError, match=r"driver:7 is in the memory.*checkpointing\.dir"
    ):
        Savepoint.read("driver:7")


@pytest.mark.parametrize("read", ["read", "read_at"])
def test_a_pipe_or_a_device_in_the_place_of_a_file_is_an_error(tmp_path, read):
    """A pipe would wait for a writer, and /dev/zero has no end."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "zero").symlink_to("/dev/zero")
    for path in map(str, (tmp_path / "pipe", tmp_path / "zero")):
        with pytest.raises(OSError, match=f"a pipe or a device.*{path}"):
            getattr(LocalFileSystem(), read)(path, *((0, 8) if read == "read_at" else ()))


def test_a_directory_is_deleted_while_files_come_and_go(tmp_path, monkeypatch):
    """A task that was not yet notified of an abort creates and deletes files there."""
    folder = tmp_path / "chk-1"
    folder.mkdir()
    rmdir, unlink = os.rmdir, os.unlink
    events = {"unlink": ["gone"], "rmdir": ["new"]}

    def meddling(path, **how):
        if events["rmdir"]:
            (folder / events["rmdir"].pop()).touch()
        rmdir(path, **how)

    def racing(path, **how):
        if events["unlink"]:
            (folder / events["unlink"].pop()).unlink()
        unlink(path, **how)

    for name in ("gone", "kept"):
        (folder / name).touch()
    monkeypatch.setattr(os, "rmdir", meddling)
    monkeypatch.setattr(os, "unlink", racing)
    LocalFileSystem().delete_directory(str(folder))
    assert not folder.exists()
    LocalFileSystem().delete_directory(str(folder))
