"""Blobs arrive whole, in frames of a bounded size, or the worker reports the error."""

import contextlib
import hashlib
import os

import pytest
from penstock.dependencies.manifest import BlobKey
from penstock.errors import AuthenticationError, DependencyError
from penstock.jobmaster import blob_server
from penstock.jobmaster.blob_server import BlobServer
from penstock.rpc.blob_client import BlobClient
from penstock.rpc.blob_messages import BlobChunk
from penstock.rpc.control_credentials import ControlCredentials
from penstock.rpc.frames import read_frame, write_frame
from penstock.rpc.message import encode_message
from penstock.rpc.messages import ROLE_BLOB
from penstock.rpc.server import RpcServer

TOKEN = bytes(32)


@pytest.fixture
def blobs(tmp_path):
    with contextlib.ExitStack() as cleanup:
        server = RpcServer(TOKEN)
        cleanup.callback(server.close)
        made = BlobServer([str(tmp_path)])
        cleanup.callback(made.close)
        server.register(ROLE_BLOB, made.serve)
        server.start()
        made.address = server.address
        yield made


def key_of(data):
    return BlobKey(hashlib.sha256(data).hexdigest(), len(data))


def test_blobs_of_all_sizes(blobs, tmp_path):
    chunk = blob_server.CHUNK_BYTES
    with BlobClient(blobs.address, ControlCredentials(TOKEN)) as client:
        for size in (0, 1, chunk - 1, chunk, chunk + 1, 3 * chunk):
            data = os.urandom(size)
            key = blobs.put(lambda out, data=data: out.write(data))
            assert key == key_of(data)
            client.fetch(key, tmp_path / f"copy-{size}")
            assert (tmp_path / f"copy-{size}").read_bytes() == data


def test_one_content_is_kept_once(blobs, tmp_path):
    """Blobs have no name on the disk: the kernel reclaims them."""
    assert len({blobs.put(lambda out: out.write(b"same")) for _ in range(2)}) == 1
    blobs.put(lambda out: out.write(b"other"))
    for number, data in enumerate((b"same", b"other")):
        with BlobClient(blobs.address, ControlCredentials(TOKEN)) as client:
            client.fetch(key_of(data), tmp_path / str(number))
        assert (tmp_path / str(number)).read_bytes() == data
    assert sorted(path.name for path in tmp_path.iterdir()) == ["0", "1"]


@pytest.mark.parametrize(
    ("chunks", "message"),
    [
        ([(b"wrong", True)], "damaged in transit"),
        ([(b"righ", True)], "damaged in transit: 4 of 5 bytes"),
        ([(b"right", False), (b"y", True)], "the driver sent more"),
        ([(b"rig", False)], "closed the connection within copy"),
    ],
)
def test_other_bytes_than_were_named_are_refused(tmp_path, chunks, message):
    """The sender does not matter."""

    def serve(sock, peer):
        with sock:
            read_frame(sock)
            for data, last in chunks:
                write_frame(sock, encode_message(BlobChunk(data, last)))

    server = RpcServer(TOKEN)
    server.register(ROLE_BLOB, serve)
    server.start()
    try:
        with (
            BlobClient(server.address, ControlCredentials(TOKEN)) as client,
            pytest.raises(DependencyError, match=message),
        ):
            client.fetch(key_of(b"right"), tmp_path / "copy")
    finally:
        server.close()


@pytest.mark.parametrize("digest", ["0" * 64, "../../etc/passwd", "", "A" * 64])
def test_invalid_blobs_are_rejected(blobs, tmp_path, digest):
    blobs.put(lambda out: out.write(b"there"))
    with (
        BlobClient(blobs.address, ControlCredentials(TOKEN)) as client,
        pytest.raises(DependencyError, match="the driver does not send copy"),
    ):
        client.fetch(BlobKey(digest, 5), tmp_path / "copy")


def test_a_stranger_gets_nothing(blobs):
    with pytest.raises(AuthenticationError):
        BlobClient(blobs.address, ControlCredentials(bytes(31) + b"x"))


def test_after_the_end_there_are_no_blobs(blobs, tmp_path):
    """A connection that is open at that time is dropped."""
    key = blobs.put(lambda out: out.write(b"gone"))
    with BlobClient(blobs.address, ControlCredentials(TOKEN)) as client:
        client.fetch(key, tmp_path / "first")
        blobs.close()
        with pytest.raises((DependencyError, OSError)):
            client.fetch(key, tmp_path / "second")


def test_a_request_that_is_none_ends_its_connection(blobs):
    """No byte of an invalid request has an effect, and other connections are served."""
    with BlobClient(blobs.address, ControlCredentials(TOKEN)) as client:
        sock = client._socket
        sock.sendall(b"\x00\x00\x00\x03\xc1\xc1\xc1")
        assert read_frame(sock) is None
