"""Blobs travel whole, in frames of a bounded size, or the worker says what is wrong."""

import contextlib
import hashlib
import os
import shutil

import pytest
from penstock.dependencies.manifest import BlobKey
from penstock.errors import AuthenticationError, DependencyError
from penstock.jobmaster import blob_server
from penstock.jobmaster.blob_server import BlobServer
from penstock.rpc.blob_client import BlobClient
from penstock.rpc.frames import read_frame
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
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith("penstock-")] == []


def key_of(data):
    return BlobKey(hashlib.sha256(data).hexdigest(), len(data))


def test_blobs_of_all_sizes(blobs, tmp_path):
    chunk = blob_server.CHUNK_BYTES
    with BlobClient(blobs.address, TOKEN) as client:
        for size in (0, 1, chunk - 1, chunk, chunk + 1, 3 * chunk):
            data = os.urandom(size)
            key = blobs.put(lambda out, data=data: out.write(data))
            assert key == key_of(data)
            client.fetch(key, tmp_path / f"copy-{size}")
            assert (tmp_path / f"copy-{size}").read_bytes() == data


def test_one_content_is_kept_once(blobs, tmp_path):
    for _ in range(2):
        blobs.put(lambda out: out.write(b"same"))
    [folder] = tmp_path.iterdir()
    assert len(list(folder.iterdir())) == 1


def test_other_bytes_than_were_named_are_refused(blobs, tmp_path):
    """The blob was changed on the driver's disk after its digest was taken."""
    key = blobs.put(lambda out: out.write(b"right"))
    [folder] = tmp_path.iterdir()
    for data, message in ((b"wrong", "damaged"), (b"righ", "damaged"), (b"righty", "sent more")):
        (folder / key.digest).write_bytes(data)
        with (
            BlobClient(blobs.address, TOKEN) as client,
            pytest.raises(DependencyError, match=message),
        ):
            client.fetch(key, tmp_path / f"copy of {data!r}")


@pytest.mark.parametrize("digest", ["0" * 64, "../../etc/passwd", "", "A" * 64])
def test_what_is_no_blob_is_refused(blobs, tmp_path, digest):
    blobs.put(lambda out: out.write(b"there"))
    with (
        BlobClient(blobs.address, TOKEN) as client,
        pytest.raises(DependencyError, match="the driver does not send copy"),
    ):
        client.fetch(BlobKey(digest, 5), tmp_path / "copy")


def test_a_stranger_gets_nothing(blobs):
    with pytest.raises(AuthenticationError):
        BlobClient(blobs.address, bytes(31) + b"x")


def test_a_disk_that_fails_is_an_error(blobs, tmp_path):
    key = blobs.put(lambda out: out.write(b"gone"))
    [folder] = tmp_path.iterdir()
    shutil.rmtree(folder)
    with (
        BlobClient(blobs.address, TOKEN) as client,
        pytest.raises(DependencyError, match="No such file"),
    ):
        client.fetch(key, tmp_path / "copy")


def test_a_request_that_is_none_ends_its_connection(blobs):
    """No byte of it is acted upon, and others are served."""
    with BlobClient(blobs.address, TOKEN) as client:
        sock = client._socket
        sock.sendall(b"\x00\x00\x00\x03\xc1\xc1\xc1")
        assert read_frame(sock) is None
