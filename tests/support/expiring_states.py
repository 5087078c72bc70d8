"""Random accesses to states with a time to live, compared with a model of them.

    python -m support.expiring_states [--runs 200] [--seed 1]

An expired entry may be removed by the access that finds it, in the background, or by a snapshot. So
there are two models: the lazy one removes only entries that are accessed, the eager one all expired
entries.  A state shows at least the eager model's entries and at most the lazy one's; both models
are equal if nothing is removed in the background.
"""

import argparse
import copy
import random
from dataclasses import dataclass, field

from penstock.common import Time, Types
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.graph import operators
from penstock.taskexecutor.state.snapshots.snapshot import serialised
from penstock.testing import KeyedOneInputStreamOperatorTestHarness
from support.aggregates import Sum

TTL_MS = 600
KEYS = range(2)
MAP_KEYS = range(2)

#: Name → its effect on a builder, and whether expired entries are removed without being read.
CLEANUPS = {
    "none": (lambda builder: builder, False),
    "snapshot": (lambda builder: builder.cleanup_full_snapshot(), True),
    "access": (lambda builder: builder.cleanup_incrementally(1, False), True),
    "record": (lambda builder: builder.cleanup_incrementally(2, True), True),
    "rows": (lambda builder: builder.cleanup_in_rocksdb_compact_filter(1), True),
    "all rows": (
        lambda builder: builder.cleanup_in_rocksdb_compact_filter(1000, Time.milliseconds(1)),
        True,
    ),
}

#: State → its actions.
ACTIONS = {
    "value": ("get", "put", "clear"),
    "list": ("get", "add", "add all", "update", "update with none", "clear"),
    "map": ("items", "keys", "get", "contains", "is empty", "put", "put all", "remove", "clear"),
    "reducing": ("get", "add", "clear"),
    "aggregating": ("get", "add", "clear"),
}


@dataclass(frozen=True)
class Setup:
    """Declarations of the states, and their backend."""

    backend: str
    on_read: bool
    returns_expired: bool
    cleanup: str
    incremental: bool

    @property
    def ttl(self):
        builder = StateTtlConfig.new_builder(Time.milliseconds(TTL_MS))
        builder.disable_cleanup_in_background()
        if self.on_read:
            builder.update_ttl_on_read_and_write()
        if self.returns_expired:
            builder.return_expired_if_not_cleaned_up()
        return CLEANUPS[self.cleanup][0](builder).build()

    @property
    def removes_in_background(self):
        return CLEANUPS[self.cleanup][1]

    def harness(self):
        return KeyedOneInputStreamOperatorTestHarness(
            operators.KeyedProcess(Accesses(self.ttl)),
            lambda element: element[0],
            key_type=Types.LONG(),
            configuration={
                "state.backend.type": self.backend,
                "execution.checkpointing.incremental": str(self.incremental).lower(),
            },
        )


class Accesses(KeyedProcessFunction):
    """Executes an element (key, state, action, map key, number), and emits the result."""

    def __init__(self, ttl):
        self.ttl = ttl

    def open(self, runtime_context):
        descriptors = {
            "value": ValueStateDescriptor("value", Types.LONG()),
            "list": ListStateDescriptor("list", Types.LONG()),
            "map": MapStateDescriptor("map", Types.LONG(), Types.LONG()),
            "reducing": ReducingStateDescriptor("reducing", lambda a, b: a + b, Types.STRING()),
            "aggregating": AggregatingStateDescriptor("aggregating", Sum(""), Types.STRING()),
        }
        opens = {"value": runtime_context.get_state}
        self.states = {}
        for kind, descriptor in descriptors.items():
            descriptor.enable_time_to_live(self.ttl)
            opened = opens.get(kind) or getattr(runtime_context, f"get_{kind}_state")
            self.states[kind] = opened(descriptor)

    def process_element(self, element, ctx):
        _, kind, action, map_key, number = element
        yield getattr(self, "on_" + kind)(self.states[kind], action, map_key, number)

    def on_value(self, state, action, _, number):
        if action == "get":
            return state.value()
        return state.update(number) if action == "put" else state.clear()

    def on_list(self, state, action, _, number):
        if action == "get":
            return list(state.get())
        if action == "add":
            return state.add(number)
        if action == "add all":
            return state.add_all([number, number + 1])
        if action == "clear":
            return state.clear()
        return state.update([number, number + 1] if action == "update" else [])

    def on_map(self, state, action, map_key, number):
        if action == "items":
            return sorted(state.items())
        if action == "keys":
            return sorted(state.keys())
        if action in ("get", "contains", "remove"):
            return getattr(state, action)(map_key)
        if action == "is empty":
            return state.is_empty()
        if action == "put":
            return state.put(map_key, number)
        if action == "put all":
            return state.put_all({map_key: number, (map_key + 1) % len(MAP_KEYS): number + 1})
        return state.clear()

    def on_reducing(self, state, action, _, number):
        if action == "get":
            return state.get()
        return state.add(f"{number} ") if action == "add" else state.clear()

    on_aggregating = on_reducing


@dataclass
class Model:
    """States as lists, by key and kind, of [map key, value, time of the last write or read]."""

    is_eager: bool = False
    entries: dict = field(default_factory=dict)

    def access(self, setup, now_ms, element):
        """Return the results of one access."""
        key, kind, action, map_key, number = element
        self.setup, self.now_ms = setup, now_ms
        found = self.entries.setdefault((key, kind), [])
        if self.is_eager:
            found[:] = [entry for entry in found if not self.expired(entry)]
        if action == "clear":
            found.clear()
            return None
        return getattr(self, "on_" + kind)(found, action, map_key, number)

    def expired(self, entry):
        return entry[2] + TTL_MS <= self.now_ms

    def visible(self, entry):
        return self.setup.returns_expired or not self.expired(entry)

    def read(self, found, entry):
        """Read an entry and update its time; return whether an expired entry may be shown."""
        if self.expired(entry):
            found.remove(entry)
            return self.setup.returns_expired
        if self.setup.on_read:
            entry[2] = self.now_ms
        return True

    def on_value(self, found, action, _, number):
        if action == "get":
            return self.single(found)
        found[:] = [[None, number, self.now_ms]]
        return None

    def single(self, found):
        return next((entry[1] for entry in list(found) if self.read(found, entry)), None)

    def on_list(self, found, action, _, number):
        if action == "get":
            shown = [entry[1] for entry in found if self.visible(entry)]
            kept = [entry for entry in found if not self.expired(entry)]
            if not kept or self.setup.on_read or not self.setup.returns_expired:
                found[:] = kept
            for entry in kept:
                self.read(found, entry)
            return shown
        if action.startswith("update"):
            found.clear()
        if action != "update with none":
            numbers = [number] if action == "add" else [number, number + 1]
            found += [[None, one, self.now_ms] for one in numbers]
        return None

    def on_map(self, found, action, map_key, number):
        if action in ("items", "keys"):
            shown = sorted(e[:2] for e in list(found) if self.read(found, e))
            return [tuple(pair) if action == "items" else pair[0] for pair in shown]
        if action == "is empty":
            return not any(map(self.visible, found))
        of_key = [entry for entry in found if entry[0] == map_key]
        if action in ("get", "contains"):
            shown = [entry[1] for entry in of_key if self.read(found, entry)]
            return bool(shown) if action == "contains" else next(iter(shown), None)
        if action == "remove":
            found[:] = [entry for entry in found if entry[0] != map_key]
            return None
        pairs = {map_key: number}
        if action == "put all":
            pairs[(map_key + 1) % len(MAP_KEYS)] = number + 1
        found[:] = [entry for entry in found if entry[0] not in pairs]
        found += [[one, value, self.now_ms] for one, value in pairs.items()]
        return None

    def on_reducing(self, found, action, _, number):
        former = self.single(found)
        if action == "get":
            return former
        found[:] = [[None, (former or "") + f"{number} ", self.now_ms]]
        return None

    on_aggregating = on_reducing


def is_between(least, shown, most):
    """Return whether observations lie between the eager and the lazy model."""
    if isinstance(most, list):
        return set(least) <= set(shown) and shown == [one for one in most if one in shown]
    if isinstance(most, str):
        return (shown or "").endswith(least or "") and most.endswith(shown or "")
    return shown in (least, most)


class Run:
    """An operator whose states live 600 ms in virtual time, the models, and the history."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        # With all states at once each would be accessed too rarely; and the exact result is known
        # only if nothing is cleaned up in the background.
        self.kinds = self.random.sample(sorted(ACTIONS), 2)
        self.cleans_up = self.random.random() < 0.5
        self.now_ms = self.number = self.checkpoint_id = 0
        self.done = []
        self.models = [Model()]
        self.start(None)

    def go(self, num_steps):
        """Run the accesses; raise a failure with the whole history."""
        steps = [self.access] * 75 + [self.time_passes] * 17 + [self.checkpoint] * 4
        try:
            for _ in range(num_steps):
                self.random.choice([*steps, self.restart, self.restart, self.restart])()
        except BaseException as error:
            error.add_note("\n".join(map(str, self.done)))
            raise
        finally:
            self.test.close()

    def start(self, snapshot):
        cleanups = sorted(CLEANUPS) if self.cleans_up else ["none"]
        self.setup = Setup(
            self.random.choice(["hashmap", "rocksdb"]),
            *self.random.choices([False, True], k=2),
            self.random.choice(cleanups),
            self.random.choice([False, True]),
        )
        self.done.append(self.setup)
        self.test = self.setup.harness()
        self.test.set_processing_time(self.now_ms)
        self.test.initialize_state(snapshot)
        self.test.open()
        if self.setup.removes_in_background and len(self.models) == 1:
            entries = copy.deepcopy(self.models[0].entries)
            self.models.insert(0, Model(is_eager=True, entries=entries))

    def access(self):
        kind = self.random.choice(self.kinds)
        self.number += 2
        element = (
            self.random.choice(KEYS),
            kind,
            self.random.choice(ACTIONS[kind]),
            self.random.choice(MAP_KEYS),
            self.number,
        )
        expected = [model.access(self.setup, self.now_ms, element) for model in self.models]
        self.test.process_element(element)
        shown = self.test.values[-1]
        self.done.append((self.now_ms, element, shown))
        assert is_between(expected[0], shown, expected[-1]), (element, shown, expected)

    def time_passes(self):
        self.now_ms += self.random.choice([1, 200, 300, TTL_MS - 1, TTL_MS])
        self.test.set_processing_time(self.now_ms)

    def checkpoint(self):
        self.checkpoint_id += 1
        self.done.append(f"checkpoint {self.checkpoint_id}")
        self.test.snapshot(self.checkpoint_id)

    def restart(self):
        """Restart from a snapshot that is serialised while the states change."""
        self.checkpoint_id += 1
        self.done.append(f"restart from {self.checkpoint_id}, before it is serialised:")
        running = self.test.begin_snapshot(self.checkpoint_id)
        models = copy.deepcopy(self.models)
        for _ in range(self.random.randrange(4)):
            self.random.choice([self.access, self.access, self.time_passes])()
        snapshot = serialised(running)
        self.test.close()
        self.models = models
        self.start(snapshot)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    for seed in range(arguments.seed, arguments.seed + arguments.runs):
        try:
            Run(seed).go(60)
        except BaseException as error:
            error.add_note(f"--seed {seed} --runs 1")
            raise
