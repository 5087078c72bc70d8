"""docs/formats/checkpoint.md: the stored form of an operator's state, written and read."""

import os
import zlib

import pytest
from penstock.checkpoint_storage.file_systems import FileSystems, LocalFileSystem
from penstock.checkpoint_storage.handles import (
    CHECKED_BYTES,
    ByteStreamHandle,
    IncrementalKeyGroupsHandle,
    KeyGroupsHandle,
    OperatorSubtaskState,
)
from penstock.checkpoint_storage.streams import DriverStateStream, StateOutputStream
from penstock.errors import CorruptCheckpointError
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.checkpointing.snapshot_format import (
    OperatorSnapshotReader,
    OperatorSnapshotWriter,
    write_keyed,
)
from penstock.taskexecutor.state.snapshots.snapshot import OperatorSnapshot
from penstock.taskexecutor.state.snapshots.snapshot_contents import EncodedValues

#: Two states in the groups 3 and 5, and timers in 5.
SNAPSHOT = OperatorSnapshot(
    7,
    keyed={
        "count": ("value", {3: b"\x01\xc1\xc2", 5: b"\x01\xc3\xc4\x01\xc5\xc6"}),
        "empty": ("list", {}),
        "names": ("map", {3: b"\x02\x41w\x01\xc1\x00"}),
    },
    timers={"0/event": ("timer", {5: b"\x02\xc9\x01\xc3\x00"})},
    lists={"list": EncodedValues.of([1, [2]])},
    union_lists={"union": EncodedValues.of(["x"])},
    broadcast={"rules": EncodedValues.of([[("a", 1)]])},
    raw_keyed={3: b"raw"},
    raw_operator=(b"one", b""),
)


def written(snapshot, compresses=False):
    return OperatorSnapshotWriter(DriverStateStream, compresses=compresses).write(snapshot)


@pytest.mark.parametrize("compresses", [False, True])
def test_a_snapshot_is_read_as_it_was_written(compresses):
    state = written(SNAPSHOT, compresses)
    assert OperatorSnapshotReader(range(8), FileSystems({})).read(7, state) == SNAPSHOT


@pytest.mark.parametrize("compresses", [False, True])
def test_a_subtask_reads_its_own_key_groups(compresses):
    state = written(SNAPSHOT, compresses)
    found = OperatorSnapshotReader(range(4, 8), FileSystems({})).read(7, state)
    assert found.entries("count") == {5: [(None, 3, 4), (None, 5, 6)]}
    assert found.entries("names") == {}
    assert found.timers == SNAPSHOT.timers
    assert found.raw_keyed == {}


def test_the_bytes_of_keyed_state():
    """The golden bytes of format 2: a head, then the groups one after the other."""
    (handle,) = written(SNAPSHOT).managed_keyed
    head = bytes.fromhex("02 0000003d")
    assert handle.stream.data[: len(head)] == head
    assert (handle.first_group, handle.offsets) == (3, (66, -1, 97))
    groups = handle.stream.data[66:]
    assert groups.hex(" ") == (
        "00 01 00 00 00 00 00 00 00 03 01 c1 c2 "
        "00 03 00 00 00 00 00 00 00 06 02 41 77 01 c1 00 00 00 "
        "00 01 00 00 00 00 00 00 00 06 01 c3 c4 01 c5 c6"
        " 00 04 00 00 00 00 00 00 00 05 02 c9 01 c3 00 00 00"
    )


def test_the_bytes_of_compressed_keyed_state():
    """The golden bytes of format 3: each group, after its length, has the bytes of format 2."""
    (handle,), (plain,) = written(SNAPSHOT, True).managed_keyed, written(SNAPSHOT).managed_keyed
    data, offset = handle.stream.data, handle.offsets[0]
    assert data[0] == 3
    assert b"compression" in data[:offset]
    assert b"zlib" in data[:offset]
    length = int.from_bytes(data[offset : offset + 8], "big")
    assert offset + 8 + length == handle.offsets[2]
    group = zlib.decompress(data[offset + 8 : offset + 8 + length])
    assert group == plain.stream.data[plain.offsets[0] : plain.offsets[2]]


def test_compressed_bytes_that_are_changed_are_refused():
    (handle,) = written(SNAPSHOT, True).managed_keyed
    data, offset = handle.stream.data, handle.offsets[0] + 8
    changed = data[:offset] + bytes([data[offset] ^ 0xFF]) + data[offset + 1 :]
    other = data.replace(b"zlib", b"zstd")
    for bad, match in ((changed, "the stream: .*decompressing"), (other, "compressed by 'zstd'")):
        stream = ByteStreamHandle("the stream", bad)
        state = OperatorSubtaskState(
            managed_keyed=(KeyGroupsHandle(handle.first_group, handle.offsets, stream),)
        )
        with pytest.raises(CorruptCheckpointError, match=match):
            OperatorSnapshotReader(range(8), FileSystems({})).read(7, state)


def test_other_formats_and_torn_streams_are_refused():
    (handle,) = written(SNAPSHOT).managed_keyed
    data = handle.stream.data
    for changed, match in (
        (b"\x01" + data[1:], "of format 1; this version of penstock reads 2 and 3"),
        (data[:-4], "is truncated: expected"),
    ):
        torn = KeyGroupsHandle(
            handle.first_group, handle.offsets, ByteStreamHandle("the stream", changed)
        )
        state = OperatorSubtaskState(managed_keyed=(torn,))
        with pytest.raises(CorruptCheckpointError, match=match):
            OperatorSnapshotReader(range(8), FileSystems({})).read(7, state)


@pytest.mark.parametrize(
    ("meta", "match"),
    [
        ({"format": "changelog", "version": 2}, "change log of version 2; .* reads 1"),
        ({"format": "rocksdb", "version": 4}, "'rocksdb', version 4; .* up to version 3"),
        ({"format": "other", "version": 1}, "format 'other', version 1"),
    ],
)
def test_incremental_state_of_another_version_is_refused(meta, match):
    stream = ByteStreamHandle("the description", TypeSerializer().serialize(meta))
    handle = IncrementalKeyGroupsHandle(7, "backend", 0, 8, 0, stream, {}, {})
    state = OperatorSubtaskState(managed_keyed=(handle,))
    with pytest.raises(CorruptCheckpointError, match=match):
        OperatorSnapshotReader(range(8), FileSystems({})).read(7, state)


@pytest.mark.parametrize("compresses", [False, True])
@pytest.mark.parametrize("own", [range(1), range(3, 5), range(7, 8), range(8)])
def test_a_subtask_reads_the_blocks_of_its_own_key_groups(tmp_path, own, compresses):
    """Each byte is read once; damage in other subtasks' blocks is not detected."""
    large = {group: os.urandom(700_000) for group in range(8)}
    snapshot = OperatorSnapshot(7, keyed={"state": ("value", large), "more": ("list", {4: b"x"})})
    stream = StateOutputStream(LocalFileSystem(), str(tmp_path))
    offsets = write_keyed(stream, snapshot, compresses=compresses)
    handle = KeyGroupsHandle(0, tuple(offsets.values()), stream.handle())
    read = []

    class Watched(LocalFileSystem):
        def read(self, path):
            read.append((0, handle.stream.size))
            return super().read(path)

        def read_at(self, path, offset, size):
            read.append((offset, size))
            return super().read_at(path, offset, size)

    files = FileSystems({})
    files._local = Watched()
    found = OperatorSnapshotReader(own, files).read(
        7, OperatorSubtaskState(managed_keyed=(handle,))
    )
    assert found.keyed["state"][1] == {group: large[group] for group in own}
    assert found.keyed["more"][1] == ({4: b"x"} if 4 in own else {})
    wanted = sum(700_000 for _ in own)
    assert sum(size for _, size in read) <= wanted + 4 * CHECKED_BYTES
    assert len(read) <= 2
    if len(own) == 8:
        assert len(read) == 1
