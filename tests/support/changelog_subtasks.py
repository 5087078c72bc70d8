"""A subtask whose keyed state is logged: its backend, and the handles that its task wrote."""

import copy

from penstock import network
from penstock.checkpoint_storage.file_systems import FileSystems, LocalFileSystem
from penstock.checkpoint_storage.handles import (
    OperatorSubtaskState,
)
from penstock.checkpoint_storage.streams import TOO_LONG_LOG, DriverStateStream, StateOutputStream
from penstock.common import Time, Types
from penstock.datastream.functions import AggregateFunction
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.expressions.evaluation import Evaluation
from penstock.graph.key_groups import key_group, key_group_range
from penstock.serialization.pure.key_hash import key_hash
from penstock.taskexecutor.checkpointing.changelog_states import ChangelogStates
from penstock.taskexecutor.copies.isolation import lending
from penstock.taskexecutor.state.backends.backend_factory import create_keyed_state_backend
from penstock.taskexecutor.state.backends.keyed_state_backend import (
    BackendSurroundings,
    KeyGrouping,
)
from penstock.taskexecutor.state.backends.operator_backend import OperatorStateBackend
from penstock.taskexecutor.state.snapshots.snapshot import (
    OperatorSnapshot,
    RunningSnapshot,
)

OPERATOR = b"o" * 16
FILES = FileSystems({})
GROUPS = 8
ALL = range(GROUPS)
FOREVER = (1 << 63) - 1
KEYS = network.KeyReader(lambda key: key, -1, str, None)
TIMERS = "0/event"
LONG_AGO = 1 << 40
BACKENDS = ["hashmap", "rocksdb"]


class Longest(AggregateFunction):
    def create_accumulator(self):
        return 0

    def add(self, value, accumulator):
        return max(value, accumulator)

    def get_result(self, accumulator):
        return accumulator

    def merge(self, one, other):
        return max(one, other)


def expiring():
    descriptor = ValueStateDescriptor("expiring", Types.LONG())
    descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.days(LONG_AGO)).build())
    return descriptor


STATES = {
    "value": ValueStateDescriptor("value", Types.LONG()),
    "objects": ValueStateDescriptor("objects", Types.PICKLED_BYTE_ARRAY()),
    "list": ListStateDescriptor("list", Types.LONG()),
    "map": MapStateDescriptor("map", Types.STRING(), Types.LONG()),
    "reducing": ReducingStateDescriptor("reducing", lambda a, b: a + b, Types.LONG()),
    "aggregating": AggregatingStateDescriptor("aggregating", Longest(), Types.LONG()),
    "expiring": expiring(),
}
KINDS = {"objects": "value", "expiring": "value"}


def change(name, state, number):
    if name in ("value", "expiring"):
        state.update(number)
    elif name == "objects":
        held = state.value()
        if held is None:
            state.update([number])
        else:
            held.append(number)
    elif name == "map":
        state.put("ab"[number % 2], number)
    else:
        state.add(number)


def group_of(key):
    return key_group(key_hash(None)(key), GROUPS)


def content(backend):
    found = {}
    for name, descriptor in STATES.items():
        backend.state(descriptor)  # opened as all subtasks of an operator do
        for namespace, key, value in backend.table(name, KINDS.get(name, name)):
            found[name, namespace, key] = copy.deepcopy(getattr(value, "value", value))
    for namespace, key, _ in backend.timer_table(TIMERS):
        found[TIMERS, namespace, key] = None
    return found


class Subtask:
    """A backend and the handles that its task wrote."""

    def __init__(self, world, index, parallelism):
        first, last = key_group_range(GROUPS, parallelism, index)
        self.groups = range(first, last + 1)
        self.folder = world.folder
        self.configuration = world.configuration
        self.keyed = create_keyed_state_backend(
            BackendSurroundings(
                self.configuration,
                lambda: 0,
                Evaluation(enabled=False),
                lambda: self.grouping,
                lambda: KEYS,
                lambda: str(self.folder),
                bytes(16),
                index,
            )
        )
        self.backend = self.keyed.states
        self.grouping = KeyGrouping(None, GROUPS, self.groups)
        self.states = ChangelogStates(FILES, self.configuration)
        self.wholes = 0

    def state(self, name, key, namespace=None):
        self.backend.current_key = KEYS.identity(key)
        state = lending(self.backend.state(STATES[name]), STATES[name])
        state.set_current_namespace(namespace)
        return state

    def timer(self, time):
        return self.backend.timer_table(TIMERS).map(time)

    def open_stream(self, is_shared=False, is_log=False):
        if is_log and self.configuration["state.changelog.storage"] == "memory":
            return DriverStateStream(TOO_LONG_LOG)
        folder = self.folder / ("shared" if is_shared else "own")
        folder.mkdir(exist_ok=True)
        return StateOutputStream(LocalFileSystem(), str(folder), inline_threshold_bytes=0)

    def running(self, snapshot):
        states = OperatorStateBackend().open_snapshot()
        return RunningSnapshot(OperatorSnapshot(snapshot), self.opened, states)

    def take(self, checkpoint_id, *, is_full=False):
        base = self.states.begin(checkpoint_id, is_full=is_full).get(OPERATOR)
        self.opened = self.keyed.open_snapshot(self.grouping, checkpoint_id, base)
        running = self.running(checkpoint_id)
        return lambda: self.written(running, base)

    def written(self, running, base):
        while not running.advance(FOREVER):
            pass
        folder = running.database_files()
        snapshot = running.finished()
        handles, _ = self.states.write(OPERATOR, snapshot, folder, base, self.open_stream)
        running.release()
        return OperatorSubtaskState(handles)

    def begin_whole(self):
        self.wholes -= 1
        snapshot_id = self.wholes - 1
        self.states.begin_whole(snapshot_id)
        self.opened = self.keyed.open_snapshot(self.grouping, snapshot_id)
        running = self.running(snapshot_id)

        def write():
            while not running.advance(FOREVER):
                pass
            folder = running.database_files()
            snapshot = running.finished()
            whole = self.states.write_whole(snapshot, folder, lambda: self.open_stream(True))
            running.release()
            self.states.end_whole({OPERATOR: whole})

        return write


def taken(subtask, checkpoint_id, *, completes=True, **how):
    [handle] = subtask.take(checkpoint_id, **how)().managed_keyed
    if completes:
        subtask.states.completed(checkpoint_id)
    return handle


def names(handle):
    return sorted(handle.shared)


def fill(subtask, keys=range(300)):
    for key in keys:
        subtask.state("value", key).update(key)


def take_log(subtask):
    """Take a full checkpoint of 300 keys, then one with a log on top of it."""
    fill(subtask)
    taken(subtask, 1)
    fill(subtask, [7])
    taken(subtask, 2)
