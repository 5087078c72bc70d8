"""RocksDB backends without a task, functions that fill them, and storage for their snapshots."""

import copy

import pytest
from penstock import network
from penstock.checkpoint_storage.file_systems import FileSystems, LocalFileSystem
from penstock.checkpoint_storage.handles import OperatorSubtaskState
from penstock.checkpoint_storage.streams import StateOutputStream
from penstock.common.typeinfo import Types
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from penstock.datastream.window import TimeWindow
from penstock.expressions.evaluation import Evaluation
from penstock.graph.key_groups import key_group
from penstock.serialization.pure.key_hash import key_hash
from penstock.taskexecutor.checkpointing.incremental_states import IncrementalBases
from penstock.taskexecutor.checkpointing.snapshot_format import (
    OperatorSnapshotReader,
)
from penstock.taskexecutor.checkpointing.uploaded_files import UploadedFiles
from penstock.taskexecutor.state.backends.backend_factory import create_keyed_state_backend
from penstock.taskexecutor.state.backends.keyed_state_backend import (
    BackendSurroundings,
    KeyGrouping,
)
from penstock.taskexecutor.state.backends.operator_backend import OperatorStateBackend
from penstock.taskexecutor.state.snapshots.snapshot import (
    OperatorSnapshot,
    RunningSnapshot,
    serialised,
)

MAX_PARALLELISM = 16
FOREVER = (1 << 63) - 1
VALUE = ValueStateDescriptor("value", Types.LONG())
ELEMENTS = ListStateDescriptor("elements", Types.LONG())
PAIRS = MapStateDescriptor("pairs", Types.STRING(), Types.LONG())
KEYS = network.KeyReader(lambda key: key, -1, str, None)
ALL = range(MAX_PARALLELISM)
FILES = FileSystems({})


@pytest.fixture
def make(tmp_path):
    """Create backends and dispose of them; nothing is left then."""
    made = []

    def new(kind="rocksdb", key_groups=ALL, **options):
        configuration = {
            "state.backend.type": kind,
            "penstock.rocksdb.cache.size": "64 kb",
            "state.backend.rocksdb.localdir": str(tmp_path / "local"),
            **{key.replace("_", "."): value for key, value in options.items()},
        }
        backend = create_keyed_state_backend(
            BackendSurroundings(
                configuration,
                lambda: 0,
                Evaluation(enabled=False),
                lambda: KeyGrouping(None, MAX_PARALLELISM, key_groups),
                lambda: KEYS,
                lambda: str(tmp_path / "task"),
                bytes(16),
                0,
            )
        )
        made.append(backend)
        return backend

    yield new
    for backend in made:
        backend.dispose()
    assert not list(tmp_path.glob("local/penstock-rocksdb-*"))


def filled(backend, keys=range(300), factor=1):
    """Return a backend with some state of every kind for each of its keys."""
    groups = (
        backend._surroundings.grouping().key_groups if hasattr(backend, "_surroundings") else ALL
    )
    for number in keys:
        if group_of(number) in groups:
            backend.current_key = KEYS.identity(number)
            backend.state(VALUE).update(number * factor)
            pairs = backend.state(PAIRS)
            pairs.put("a", number)
            pairs.put("b", factor)
            elements = backend.state(ELEMENTS)
            elements.set_current_namespace(TimeWindow(number % 3, 10))
            elements.add(number)
            elements.add(factor)
            backend.timer_table("0/event").map(number).put((number, "w"), 1)
    return backend


def group_of(number):
    return key_group(key_hash(None)(number), MAX_PARALLELISM)


def content(backend):
    tables = [backend.table(*named) for named in (("value", "value"), ("pairs", "map"))]
    tables += [backend.table("elements", "list"), backend.timer_table("0/event")]
    return [copy.deepcopy({(n, k): v for n, k, v in table}) for table in tables]


def snapshot_of(backend, checkpoint_id=1, base=None):
    grouping = KeyGrouping(None, MAX_PARALLELISM, ALL)
    return backend.open_snapshot(grouping, checkpoint_id, base)


def incremental():
    """Return the arguments of a snapshot that may have entries beside the files."""
    return IncrementalBases(0, {}).of(b"operator")


def canonical(backend):
    states = OperatorStateBackend().open_snapshot()
    return serialised(RunningSnapshot(OperatorSnapshot(1), snapshot_of(backend), states))


def restored(backend, snapshots, key_groups=ALL):
    for snapshot in snapshots:
        backend.restore(
            snapshot.keyed, snapshot.timers, key_groups, KEYS, snapshot.files, snapshot.log
        )
    return backend


class Storage:
    """Writes incremental snapshots to a folder, as a task does."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.uploads = UploadedFiles(FILES, 2)

    def stream(self, is_shared=False):
        del is_shared
        return StateOutputStream(LocalFileSystem(), str(self.folder), 0)

    def written(self, backend, checkpoint_id=1, *, is_full=False, base=None):
        """Return the handles of a snapshot, and the number of bytes that they refer to."""
        snapshot = snapshot_of(backend, checkpoint_id, base)
        assert snapshot.advance(FOREVER)
        follow_up = snapshot.follow_up()
        folder = snapshot.database_files()
        keyed, referred = self.uploads.write(
            checkpoint_id, b"operator", folder, self.stream, is_full=is_full
        )
        snapshot.release()
        while follow_up is not None and not follow_up.advance(0):
            pass
        return OperatorSubtaskState(managed_keyed=keyed), referred


def read(*states, key_groups=ALL):
    handles = tuple(handle for state in states for handle in state.managed_keyed)
    state = OperatorSubtaskState(managed_keyed=handles)
    return OperatorSnapshotReader(key_groups, FILES).read(1, state)
