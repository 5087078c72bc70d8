"""What a run leaves on disk is its user's alone, and has no secrets.

Method: a job with high availability, RocksDB, checkpoints and files of its own looks, while it
runs and after it, for what other users could open.
"""

import os
import stat
import tempfile
from pathlib import Path

import pytest
from penstock.common import Configuration, Types
from penstock.datastream import KeyedProcessFunction, StreamExecutionEnvironment
from penstock.datastream.state import ValueStateDescriptor

SECRET = "hunter2-hunter2"

OF_THE_USERS_CHOICE = {"checkpoints", "module.py", "found"}
"""Where the user has asked for files, and other users of a group may be to read them."""


def open_to_others(root):
    """The files and folders below a folder that other users can read, and all with the secret."""
    found = []
    for folder, folders, files in os.walk(root):
        if folder == str(root):
            folders[:] = [name for name in folders if name not in OF_THE_USERS_CHOICE]
            files = [name for name in files if name not in OF_THE_USERS_CHOICE]
        # Whoever cannot enter a folder cannot open what is in it.
        folders[:] = [name for name in folders if is_open(f"{folder}/{name}", stat.S_IXOTH)]
        found += [f"{folder}/{name}" for name in files if is_open(f"{folder}/{name}", stat.S_IROTH)]
    return found


def is_open(path, mode):
    try:
        return bool(Path(path).lstat().st_mode & (mode | mode << 3))
    except FileNotFoundError:
        return False


class Looks(KeyedProcessFunction):
    def __init__(self, root):
        self.root = root

    def open(self, runtime_context):
        descriptor = ValueStateDescriptor("seen", Types.LONG())
        self.seen = runtime_context.get_state(descriptor)

    def process_element(self, value, ctx):
        self.seen.update(value)
        if value == 9:
            names = os.listdir(f"{self.root}/temporary")
            (Path(self.root) / "found").write_text(
                "\n".join([*open_to_others(self.root), f"{len(names)} names"])
            )
        yield value


@pytest.mark.timeout(120)
def test_nobody_else_can_read_what_a_run_leaves(tmp_path, monkeypatch):
    before = os.umask(0o022)
    try:
        run(tmp_path, monkeypatch)
    finally:
        os.umask(before)


def run(root, monkeypatch):
    root.chmod(0o755)
    temporary = root / "temporary"
    temporary.mkdir(mode=0o755)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.setenv("TMPDIR", str(temporary))
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(root / "run"))
    (root / "module.py").write_text("")
    options = {
        "execution.target": "local",
        "rest.port": "0",
        "state.backend.type": "rocksdb",
        "execution.checkpointing.interval": "50 ms",
        "execution.checkpointing.dir": str(root / "checkpoints"),
        "high-availability.type": "filesystem",
        "high-availability.storageDir": str(root / "shared"),
        "high-availability.cluster-id": "mine",
        "s3.access-key": "key",
        "s3.secret-key": SECRET,
    }
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(options))
    env.set_parallelism(1)
    env.add_python_file(str(root / "module.py"))
    looked = env.from_collection(list(range(10)), Types.LONG()).key_by(lambda value: value % 3)
    looked.process(Looks(str(root)), Types.LONG()).print()
    env.execute()
    *readable, count = (root / "found").read_text().splitlines()
    assert readable == []
    assert int(count.split()[0]) > 0, "there was something to look at"
    assert open_to_others(root) == []
    for path in root.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes()
