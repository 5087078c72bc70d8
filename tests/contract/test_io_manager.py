"""Temporary files of both runtimes (internals M7): names, order, kept errors, nothing left."""

import os
from itertools import islice
from pathlib import Path

import pytest
from penstock.errors import ConfigurationError, IllegalStateError
from penstock.network.data_type import DataType

EITHER = pytest.mark.parametrize("synchronous", [False, True], ids=["async", "sync"])


@pytest.fixture
def directories(tmp_path):
    return [str(tmp_path / "a"), str(tmp_path / "b")]


@pytest.fixture
def manager(plane, directories):
    """Yield an I/O manager over two directories; it must leave neither files nor threads."""
    manager = plane.load("IOManager")(directories)
    yield manager
    manager.close()
    assert [path for parent in directories for path in Path(parent).iterdir()] == []


def test_names(manager):
    """A7: names are unique and alternate between the directories; an enumerator counts."""
    first, second = manager.create_channel(), manager.create_channel()
    assert {first.directory, second.directory} == {0, 1}
    assert first.path != second.path
    several = list(islice(manager.create_channel_enumerator(), 4))
    assert [channel.directory for channel in several[:2]] == [
        channel.directory for channel in several[2:]
    ]
    assert several[0].directory != several[1].directory
    assert [channel.path.rsplit(".", 2)[1] for channel in several] == [
        "000000",
        "000001",
        "000002",
        "000003",
    ]
    for channel in (first, second, *several):
        assert os.path.dirname(channel.path) == manager.directories[channel.directory]


def test_directories_are_needed(plane):
    """A7: a manager without directories is rejected."""
    with pytest.raises(ConfigurationError):
        plane.load("IOManager")([])


@EITHER
def test_buffers_round_trip(manager, synchronous):
    """A7: buffers are read back in order with their types, more of them than a queue holds."""
    channel = manager.create_channel()
    writer = manager.create_buffer_writer(channel, synchronous=synchronous)
    kinds = [DataType.DATA_BUFFER, DataType.EVENT_BUFFER]
    for size in range(600):
        writer.write(bytes([size % 256]) * size, int(kinds[size % 2]))
    writer.close()
    writer.close()
    reader = manager.create_buffer_reader(channel, synchronous=synchronous)
    for _ in range(10):
        reader.request(600)
    for size in range(600):
        assert reader.next() == (kinds[size % 2], bytes([size % 256]) * size)
        reader.request(600)
    assert reader.next() is None
    reader.close_and_delete()
    assert not os.path.exists(channel.path)


@EITHER
def test_blocks_round_trip(manager, synchronous):
    """A7: blocks are stored bare; a bulk reader reads the whole file and removes it."""
    channel = manager.create_channel()
    writer = manager.create_block_writer(channel, synchronous=synchronous)
    blocks = [bytes([number]) * 512 for number in range(40)]
    for block in blocks:
        writer.write_block(block)
    writer.close()
    assert os.path.getsize(channel.path) == 40 * 512
    reader = manager.create_block_reader(channel, synchronous=synchronous)
    for _ in range(3):
        reader.request(512)
    assert [reader.next() for _ in range(3)] == blocks[:3]
    reader.request(1024)
    assert reader.next() == blocks[3] + blocks[4]
    with pytest.raises(IllegalStateError):
        reader.next()
    reader.close()
    assert manager.read_bulk(channel, 40, 512, synchronous=synchronous) == blocks
    assert not os.path.exists(channel.path)


def test_runtimes_read_each_others_files(plane, manager, tmp_path):
    """A7: the bytes of a file are the same in both runtimes."""
    from penstock.network.pure.memory.file_channel import BufferFileReader

    channel = manager.create_channel()
    writer = manager.create_buffer_writer(channel)
    writer.write(b"abc")
    writer.write(b"", int(DataType.END_OF_PARTITION))
    writer.close()
    reader = BufferFileReader(channel.path, None)
    for _ in range(3):
        reader.request(3)
    assert [reader.next() for _ in range(3)] == [(1, b"abc"), (10, b""), None]
    reader.close_and_delete()


@EITHER
@pytest.mark.parametrize("content", [b"\0", b"\0\0\0\1", b"\0\0\0\5\1abc", b"\0\0\0\1\x63a"])
def test_damaged_file(manager, synchronous, content):
    """A7: an error is remembered: the request, every later call and closing raise it."""
    channel = manager.create_channel()
    Path(channel.path).write_bytes(content)
    reader = manager.create_buffer_reader(channel, synchronous=synchronous)
    if synchronous:
        with pytest.raises(OSError):
            reader.request(100)
    else:
        reader.request(100)
        with pytest.raises(OSError):
            reader.next()
    with pytest.raises(OSError):
        reader.request(100)
    with pytest.raises(OSError):
        reader.close_and_delete()
    assert not os.path.exists(channel.path)


@EITHER
def test_buffer_larger_than_its_target(manager, synchronous):
    """A7: a buffer that does not fit is a remembered error."""
    channel = manager.create_channel()
    writer = manager.create_buffer_writer(channel, synchronous=synchronous)
    writer.write(bytes(100))
    writer.close()
    reader = manager.create_buffer_reader(channel, synchronous=synchronous)
    if not synchronous:
        reader.request(99)
    with pytest.raises(OSError, match="larger"):
        if synchronous:
            reader.request(99)
        else:
            reader.next()
    with pytest.raises(OSError, match="larger"):
        reader.close_and_delete()


def test_files_are_made_once(manager):
    """A7: a writer creates its file; a reader needs an existing one."""
    channel = manager.create_channel()
    with pytest.raises(FileNotFoundError):
        manager.create_buffer_reader(channel)
    writer = manager.create_block_writer(channel)
    with pytest.raises(FileExistsError):
        manager.create_buffer_writer(channel)
    writer.close_and_delete()
    assert not os.path.exists(channel.path)


@EITHER
def test_full_disk(manager, synchronous, limited_file_size):
    """A7: a file that cannot grow is an error that later calls and closing raise."""
    channel = manager.create_channel()
    writer = manager.create_block_writer(channel, synchronous=synchronous)
    with limited_file_size(4096), pytest.raises(OSError):
        for _ in range(1000):
            writer.write_block(bytes(1000))
    with pytest.raises(OSError):
        writer.write_block(b"")
    with pytest.raises(OSError):
        writer.close_and_delete()
    assert not os.path.exists(channel.path)


def test_end_of_the_manager(plane, directories):
    """A7: closing waits for queued requests, removes everything and rejects later requests."""
    manager = plane.load("IOManager")(directories)
    made = manager.directories
    channel = manager.create_channel()
    writer = manager.create_buffer_writer(channel)
    for _ in range(300):
        writer.write(bytes(1000))
    manager.close()
    assert not any(os.path.exists(path) for path in made)
    with pytest.raises(BrokenPipeError):
        writer.write(b"late")
    writer.close()
    with pytest.raises(BrokenPipeError):
        manager.create_channel()
    manager.close()
