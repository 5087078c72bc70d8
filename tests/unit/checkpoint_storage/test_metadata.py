"""F9: the metadata of a checkpoint is read back from its file, and no other file is accepted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata, OperatorState
from penstock.checkpoint_storage.handles import (
    ByteStreamHandle,
    ChannelStateHandle,
    FileHandle,
    IncrementalKeyGroupsHandle,
    KeyGroupsHandle,
    OperatorStateHandle,
    OperatorSubtaskState,
    PartitionableState,
)
from penstock.checkpoint_storage.metadata_serializer import (
    deserialize_metadata,
    serialize_metadata,
)
from penstock.errors import CorruptCheckpointError

HERE = "/checkpoints/job/chk-7"

names = st.text(max_size=8)
i32 = st.integers(0, 2**31 - 1)
i64 = st.integers(0, 2**63 - 1)
offsets = st.lists(st.integers(-1, 2**63 - 1), max_size=4).map(tuple)
streams = st.builds(ByteStreamHandle, names, st.binary(max_size=20)) | st.builds(
    FileHandle,
    st.sampled_from([f"{HERE}/a", "/elsewhere/b", "s3://bucket/c"]),
    i64,
    st.lists(st.integers(0, 2**32 - 1), max_size=3).map(tuple),
)
plain_groups = st.builds(KeyGroupsHandle, i32, offsets, streams, names)
files = st.dictionaries(names, streams, max_size=2)
keyed = plain_groups | st.builds(
    IncrementalKeyGroupsHandle, i64, names, i32, i32, i64, streams, files, files
)
states = st.dictionaries(
    names,
    st.builds(PartitionableState, st.sampled_from(["split", "union", "broadcast"]), offsets),
    max_size=3,
)
operator_states = st.builds(OperatorStateHandle, states, streams)
channels = st.builds(ChannelStateHandle, i32, i32, i32, offsets, i64, streams)


def some(strategy):
    return st.lists(strategy, max_size=2).map(tuple)


subtasks = st.builds(
    OperatorSubtaskState,
    some(keyed),
    some(plain_groups),
    some(operator_states),
    some(operator_states),
    some(channels),
    some(channels),
)


@st.composite
def operators(draw):
    parallelism = draw(st.integers(1, 4))
    finished = draw(st.frozensets(st.integers(0, parallelism - 1)))
    present = draw(st.sets(st.integers(0, parallelism - 1)))
    return OperatorState(
        draw(st.binary(min_size=16, max_size=16)),
        parallelism,
        draw(i32),
        draw(names),
        draw(names),
        {index: draw(subtasks) for index in sorted(present - finished)},
        finished,
        draw(st.none() | st.binary(max_size=9)),
        draw(st.dictionaries(names, names, max_size=2)),
    )


metadata = st.builds(
    lambda number, time, states, properties: CheckpointMetadata(
        number, time, {state.operator_id: state for state in states}, properties
    ),
    i64,
    i64,
    st.lists(operators(), max_size=3),
    st.dictionaries(names, names, max_size=2),
)


@given(metadata)
def test_it_survives_its_file(content):
    assert deserialize_metadata(serialize_metadata(content, HERE), HERE) == content


def test_the_directory_can_be_moved():
    """F8: files in the checkpoint's own directory are found in the directory's new place."""
    state = OperatorSubtaskState(
        raw_keyed=(KeyGroupsHandle(0, (0,), FileHandle(f"{HERE}/a", 3, (1,))),)
    )
    content = CheckpointMetadata(
        7, 1, {b"o" * 16: OperatorState(b"o" * 16, 1, 128, subtasks={0: state})}
    )
    moved = deserialize_metadata(serialize_metadata(content, HERE), "/new/place")
    assert moved.operators[b"o" * 16].subtasks[0].raw_keyed[0].stream.path == "/new/place/a"


@given(metadata, st.data())
def test_a_changed_or_torn_file_is_named(content, data):
    """Every flipped bit and every truncation is detected, and the error names the file."""
    whole = serialize_metadata(content, HERE)
    if data.draw(st.booleans()):
        broken = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        at = data.draw(st.integers(0, len(whole) - 1))
        broken = (
            whole[:at] + bytes((whole[at] ^ (1 << data.draw(st.integers(0, 7))),)) + whole[at + 1 :]
        )
    with pytest.raises(CorruptCheckpointError, match="chk-7/_metadata"):
        deserialize_metadata(broken, HERE)


@given(st.binary(max_size=200))
def test_garbage_is_no_metadata(data):
    with pytest.raises(CorruptCheckpointError, match="_metadata"):
        deserialize_metadata(data, HERE)


def test_another_version_is_refused():
    data = bytearray(serialize_metadata(CheckpointMetadata(1, 1, {}), HERE))
    data[7] = 9
    with pytest.raises(
        CorruptCheckpointError, match="its version is 9; this version of penstock reads 7"
    ):
        deserialize_metadata(bytes(data), HERE)


def test_the_bytes_of_an_empty_checkpoint():
    """The golden bytes of version 7."""
    data = serialize_metadata(CheckpointMetadata(3, 1000, {}, {"kind": "CHECKPOINT"}), HERE)
    assert data.hex() == (
        "4960672d"
        "00000007"
        "0000000000000003"
        "00000000"
        "00000000"
        "00000000000003e8"
        "00000001"
        "00046b696e64"
        "000a434845434b504f494e54" + data[-4:].hex()
    )
