"""Frames: they are read back, and an invalid length is rejected before the body is read.

Method: a socket pair, hypothesis for bodies, and hand-made bytes for invalid frames.
"""

import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.errors import CorruptStreamError
from penstock.rpc import frames
from support.patience import PATIENCE_S


@pytest.fixture(params=["one by one", "many at once"])
def read(request):
    """Return the frame reader of a socket."""
    if request.param == "one by one":
        return lambda sock: lambda: frames.read_frame(sock)
    return lambda sock: frames.FrameReader(sock).read


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    left, right = socket.socketpair()
    with left, right:
        left.settimeout(PATIENCE_S)
        right.settimeout(PATIENCE_S)
        yield left, right


@given(bodies=st.lists(st.binary(min_size=1, max_size=2000), max_size=8))
def test_frames_come_out_as_they_went_in(bodies: list[bytes]) -> None:
    for reader in (lambda sock: lambda: frames.read_frame(sock), frames_of):
        left, right = socket.socketpair()
        with left, right:
            for body in bodies:
                frames.write_frame(left, body)
            left.shutdown(socket.SHUT_WR)
            assert list(iter(reader(right), None)) == bodies


def frames_of(sock):
    return frames.FrameReader(sock).read


def test_frames_larger_than_one_look(pair: tuple[socket.socket, socket.socket]) -> None:
    """Bytes of the next frame that arrive with one frame are kept, however the two are cut."""
    left, right = pair
    bodies = [b"a" * 70_000, b"b", b"c" * 65_532, b"d" * 65_536, b"e" * 3]
    sent = b"".join(map(frames.framed, bodies))
    sender = threading.Thread(target=left.sendall, args=(sent,))
    sender.start()
    read = frames_of(right)
    assert [read() for _ in bodies] == bodies
    sender.join()


def test_a_frame_that_arrives_byte_by_byte(pair, read) -> None:
    left, right = pair
    for byte in struct.pack(">I", 3) + b"abc":
        left.sendall(bytes([byte]))
    assert read(right)() == b"abc"


def test_the_largest_frame_and_one_more(pair, read, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "MAX_FRAME_BYTES", 16)
    left, right = pair
    next_frame = read(right)
    frames.write_frame(left, b"x" * 16)
    assert next_frame() == b"x" * 16
    with pytest.raises(ValueError, match="this one has 17"):
        frames.write_frame(left, b"x" * 17)
    left.sendall(struct.pack(">I", 17))
    with pytest.raises(CorruptStreamError, match="17 bytes was announced"):
        next_frame()


@pytest.mark.parametrize("announced", [0, frames.MAX_FRAME_BYTES + 1, 2**32 - 1])
def test_a_length_out_of_range_is_refused(pair, read, announced: int) -> None:
    left, right = pair
    left.sendall(struct.pack(">I", announced))
    with pytest.raises(CorruptStreamError):
        read(right)()


def test_an_empty_body_is_not_sent(pair: tuple[socket.socket, socket.socket]) -> None:
    with pytest.raises(ValueError, match="0"):
        frames.write_frame(pair[0], b"")


@pytest.mark.parametrize("cut", [1, 3, 4, 6])
def test_a_stream_that_ends_inside_a_frame(pair, read, cut: int) -> None:
    left, right = pair
    left.sendall((struct.pack(">I", 3) + b"abc")[:cut])
    left.shutdown(socket.SHUT_WR)
    with pytest.raises(CorruptStreamError, match="stream ends"):
        read(right)()
