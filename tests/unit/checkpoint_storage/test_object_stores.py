"""F8: streams of state and the directories of checkpoints in an object store."""

import os
import uuid

import pytest
from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata
from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.checkpoint_storage.storage import FileSystemCheckpointStorage, load_metadata
from penstock.checkpoint_storage.streams import StateOutputStream, read_stream
from penstock.common.options.check import check_options
from penstock.errors import (
    CheckpointStorageError,
    ConfigurationError,
    CorruptCheckpointError,
)
from support.s3_server import ACCESS_KEY, BUCKET, SECRET_KEY, s3_server

JOB = bytes(range(16))


@pytest.fixture(scope="module")
def server():
    with s3_server() as running:
        yield running


@pytest.fixture
def folder():
    """Return a directory of the bucket that no other test uses."""
    return uuid.uuid4().hex


@pytest.fixture
def url(folder):
    return f"s3://{BUCKET}/{folder}"


def test_a_checkpoint_comes_and_goes(server, folder, url):
    """No object is left, not even directory markers below the configured directory."""
    files = FileSystems(server.options)
    storage = FileSystemCheckpointStorage(url, JOB, files)
    location = storage.create_checkpoint(3)
    stream = StateOutputStream(files.of(location), location, 10)
    stream.write(b"state of an operator")
    assert stream.handle().path.startswith(f"{url}/{JOB.hex()}/chk-3/")
    pointer = storage.publish(location, CheckpointMetadata(3, 5, {}))
    assert len(server.objects(folder)) == 2
    for named in (pointer, f"{pointer}/", f"{pointer}/_metadata"):
        assert load_metadata(named, files)[0] == CheckpointMetadata(3, 5, {})
    storage.close({pointer})
    assert len(server.objects(folder)) == 2, "a checkpoint is in it"
    storage.discard(pointer)
    storage.close(())
    assert not server.objects(folder)
    keys = server.client.list_objects_v2(Bucket=BUCKET, Prefix=f"{folder}/").get("Contents", [])
    assert [entry["Key"] for entry in keys] in ([], [f"{folder}/"])


@pytest.mark.parametrize("size", [21, 3_000_000, 12_000_000])
def test_a_stream_is_an_object(server, folder, url, size):
    files = FileSystems(server.options)
    stream = StateOutputStream(files.of(url), url, 10)
    data = os.urandom(size)
    for start in range(0, size, 700_000):
        stream.write(data[start : start + 700_000])
    if size > 1 << 20:
        assert not server.objects(folder), "an object appears whole"
    handle = stream.handle()
    stream.close()
    assert server.objects(folder) == {handle.path.removeprefix(f"s3://{BUCKET}/"): size}
    assert read_stream(handle, files) == data


def test_a_stream_that_is_given_up_leaves_nothing(server, folder, url):
    stream = StateOutputStream(FileSystems(server.options).of(url), url, 10)
    stream.write(os.urandom(2_000_000))
    stream.close()
    assert not server.objects(folder)


@pytest.mark.parametrize("harm", ["flipped", "torn", "gone"])
def test_a_harmed_object_is_named(server, url, harm):
    files = FileSystems(server.options)
    stream = StateOutputStream(files.of(url), url, 10)
    stream.write(b"state of an operator")
    handle = stream.handle()
    key = handle.path.removeprefix(f"s3://{BUCKET}/")
    client = server.client
    if harm == "gone":
        client.delete_object(Bucket=BUCKET, Key=key)
    else:
        body = {"flipped": b"S", "torn": b""}[harm] + b"tate of an operator"
        client.put_object(Bucket=BUCKET, Key=key, Body=body)
    with pytest.raises(CorruptCheckpointError, match=handle.path):
        read_stream(handle, files)


def test_torn_metadata_is_not_taken_for_whole(server, url):
    files = FileSystems(server.options)
    storage = FileSystemCheckpointStorage(url, JOB, files)
    pointer = storage.publish(storage.create_checkpoint(1), CheckpointMetadata(1, 5, {}))
    key = f"{pointer}/_metadata".removeprefix(f"s3://{BUCKET}/")
    whole = server.client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    for size in (0, 4, len(whole) - 1):
        server.client.put_object(Bucket=BUCKET, Key=key, Body=whole[:size])
        with pytest.raises(CorruptCheckpointError):
            load_metadata(pointer, files)


def test_leftovers_of_an_earlier_run_are_not_part_of_a_checkpoint(server, folder, url):
    storage = FileSystemCheckpointStorage(url, JOB, FileSystems(server.options))
    key = f"{folder}/{JOB.hex()}/chk-3/left"
    server.client.put_object(Bucket=BUCKET, Key=key, Body=b"")
    storage.create_checkpoint(3)
    assert not server.objects(folder)


@pytest.mark.parametrize("fault", ["gone", "locked"])
def test_the_error_of_a_server_has_the_path_and_no_secrets(server, url, fault):
    files = FileSystems(server.options)
    fs = files.of(url)
    fs.publish(f"{url}/there", b"x")
    with getattr(server, fault)():
        for attempt in (
            lambda: fs.publish(f"{url}/file", b"x"),
            lambda: fs.read(f"{url}/there"),
            lambda: fs.delete_directory(url),
        ):
            with pytest.raises(CheckpointStorageError, match=url) as caught:
                attempt()
            assert SECRET_KEY not in str(caught.value)
    assert fs.read(f"{url}/there") == b"x"


def test_the_options_take_effect(server, url):
    """The server rejects another access key; a bucket in the host name is requested there."""
    with pytest.raises(CheckpointStorageError, match="ACCESS_DENIED"):
        FileSystems({**server.options, "s3.access-key": "other"}).of(url).publish(url, b"")
    assert server.hosts == {"127.0.0.1"}
    port = server.endpoint.rpartition(":")[2]
    hosts = {
        **server.options,
        "s3.endpoint": f"http://localhost:{port}",
        "s3.path.style.access": "false",
    }
    fs = FileSystems(hosts).of(url)
    with pytest.raises(FileNotFoundError):
        fs.read(f"{url}/nothing")
    assert "bucket.localhost" in server.hosts


def test_older_names_of_the_options_count(server, folder, url):
    options = {
        "s3.endpoint": server.endpoint,
        "s3.access.key": ACCESS_KEY,
        "fs.s3a.secret.key": SECRET_KEY,
        "s3.endpoint.region": "eu-central-1",
    }
    check_options(options)
    FileSystems(options).of(url).publish(f"{url.replace('s3:', 's3a:')}/file", b"x")
    assert len(server.objects(folder)) == 1


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"s3.access-key": "a"}, "belong together"),
        ({"s3.secret-key": "hush"}, "belong together"),
        ({"s3.session-token": "hush"}, "needs s3.access-key"),
        ({"s3.path.style.access": "true"}, r"needs s3\.endpoint"),
        ({"s3.path.style.access": "perhaps"}, "true or false"),
        ({"s3.endpoint": "ftp://host"}, "must be a server"),
        ({"s3.endpoint": "http://me:hush@host"}, "must be a server"),
        ({"s3.endpoint": "http://host/path"}, "must be a server"),
        (
            {"s3.entropy.key": "_entropy_"},
            r"s3\.entropy\.key: '_entropy_': penstock reaches S3 by pyarrow",
        ),
        ({"fs.s3a.threads.max": "5"}, "penstock reaches S3 by pyarrow"),
        ({"fs.default-scheme": "s3://bucket"}, "write complete URLs"),
    ],
    ids=str,
)
def test_impossible_settings_are_rejected_before_the_job_starts(options, says):
    with pytest.raises(ConfigurationError, match=says) as caught:
        check_options(options)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["s3://key:hush@bucket/path", "s3://bucket/path?endpoint_override=host"]
)
def test_a_url_holds_no_settings(url):
    """URLs are logged, and stored in metadata."""
    with pytest.raises(
        ConfigurationError, match="a URL of S3 must consist of a bucket and a path"
    ) as caught:
        FileSystems({}).of(url)
    assert "hush" not in str(caught.value)


def test_a_scheme_of_fsspec_is_reached():
    """The scheme of fsspec's memory file system, in this process."""
    files = FileSystems({})
    url = f"memory://{uuid.uuid4().hex}"
    storage = FileSystemCheckpointStorage(url, JOB, files)
    location = storage.create_checkpoint(1)
    pointer = storage.publish(location, CheckpointMetadata(1, 5, {}))
    assert load_metadata(pointer, files)[0] == CheckpointMetadata(1, 5, {})
    storage.discard(pointer)
    with pytest.raises(CheckpointStorageError, match="name the directory"):
        load_metadata(pointer, files)
    storage.close(())
    assert not files.of(url).exists(storage.job_directory)
