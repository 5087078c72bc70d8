"""Changes in place of values in keyed state are stored, as in PyFlink and Flink's heap.

Goal: the next line, the key's next element and a restored checkpoint see the change; a checkpoint
holds the state at its own time, whatever changes later. Method: functions that mutate the values
that they have stored and read, in every kind of state; the lines that they emit are compared with
those of PyFlink 2.3.0.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from penstock.common import Time, Types
from penstock.datastream import AggregateFunction, KeyedProcessFunction, ProcessWindowFunction
from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.errors import IllegalStateError
from penstock.graph import operators
from penstock.network import runtime
from penstock.taskexecutor.state.snapshots.snapshot import serialised
from penstock.testing import KeyedOneInputStreamOperatorTestHarness, PipelineTestHarness
from support.patience import PATIENCE_S

BACKENDS = {
    "hashmap": {"state.backend.type": "hashmap"},
    "rocksdb": {"state.backend.type": "rocksdb", "penstock.rocksdb.cache.size": "64 kb"},
    "log": {"state.changelog.enabled": "true"},
}
ANY = Types.PICKLED_BYTE_ARRAY()

#: PyFlink's answer to (key, number) for ELEMENTS.
PYFLINK = [
    "a v={'n': [1]} l=[[1, 'later', 'g1']] m={'x': {1: 1, 'i1': 1, 'v1': 1}}"
    " r=[1, 'x', 'got1'] a=[[1, 'y'], 'G1']",
    "a v={'n': [1, 2]} l=[[1, 'later', 'g1', 'g2'], [2, 'later', 'g2']]"
    " m={'x': {1: 1, 'i1': 1, 'v1': 1, 2: 2, 'i2': 1, 'v2': 1}}"
    " r=[1, 'x', 'got1', 2, 'got2'] a=[[1, 'y'], 'G1', [2, 'y'], 'G2']",
    "b v={'n': [1]} l=[[1, 'later', 'g1']] m={'x': {1: 1, 'i1': 1, 'v1': 1}}"
    " r=[1, 'x', 'got1'] a=[[1, 'y'], 'G1']",
    "a v={'n': [1, 2, 3]}"
    " l=[[1, 'later', 'g1', 'g2', 'g3'], [2, 'later', 'g2', 'g3'], [3, 'later', 'g3']]"
    " m={'x': {1: 1, 'i1': 1, 'v1': 1, 2: 2, 'i2': 1, 'v2': 1, 3: 3, 'i3': 1, 'v3': 1}}"
    " r=[1, 'x', 'got1', 2, 'got2', 3, 'got3']"
    " a=[[1, 'y'], 'G1', [2, 'y'], 'G2', [3, 'y'], 'G3']",
    "b v={'n': [1, 2]} l=[[1, 'later', 'g1', 'g2'], [2, 'later', 'g2']]"
    " m={'x': {1: 1, 'i1': 1, 'v1': 1, 2: 2, 'i2': 1, 'v2': 1}}"
    " r=[1, 'x', 'got1', 2, 'got2'] a=[[1, 'y'], 'G1', [2, 'y'], 'G2']",
]
ELEMENTS = [("a", 1), ("a", 2), ("b", 1), ("a", 3), ("b", 2)]


class Gathering(AggregateFunction):
    def create_accumulator(self):
        return []

    def add(self, value, accumulator):
        accumulator.append(value)
        return accumulator

    def get_result(self, accumulator):
        return accumulator

    def merge(self, a, b):
        return a + b


def extended(a, b):
    a.extend(b)
    return a


class Careless(KeyedProcessFunction):
    """Mutates every value that it reads, and never updates the state."""

    def __init__(self, *, ages=False):
        self.ages = ages

    def open(self, runtime_context):
        descriptors = [
            ValueStateDescriptor("v", ANY),
            ListStateDescriptor("l", ANY),
            MapStateDescriptor("m", Types.STRING(), ANY),
            ReducingStateDescriptor("r", extended, ANY),
            AggregatingStateDescriptor("a", Gathering(), ANY),
        ]
        for descriptor in descriptors if self.ages else ():
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.v = runtime_context.get_state(descriptors[0])
        self.l = runtime_context.get_list_state(descriptors[1])
        self.m = runtime_context.get_map_state(descriptors[2])
        self.r = runtime_context.get_reducing_state(descriptors[3])
        self.a = runtime_context.get_aggregating_state(descriptors[4])

    def process_element(self, value, ctx):
        key, number = value
        if self.v.value() is None:
            self.v.update({"n": []})
        self.v.value()["n"].append(number)
        added = [number]
        self.l.add(added)
        added.append("later")
        for element in self.l.get():
            element.append(f"g{number}")
        if not self.m.contains("x"):
            self.m.put("x", {})
        self.m.get("x")[number] = number
        for pair in self.m.items():
            pair[1][f"i{number}"] = 1
        for found in self.m.values():
            found[f"v{number}"] = 1
        folded = [number]
        self.r.add(folded)
        folded.append("x")
        self.r.get().append(f"got{number}")
        gathered = [number]
        self.a.add(gathered)
        gathered.append("y")
        self.a.get().append(f"G{number}")
        yield (
            f"{key} v={self.v.value()} l={list(self.l.get())} m={dict(self.m.items())} "
            f"r={self.r.get()} a={self.a.get()}"
        )


def key(value):
    return value[0]


def harness_of(function, backend, **options):
    configuration = BACKENDS[backend] | options
    return KeyedOneInputStreamOperatorTestHarness(
        operators.KeyedProcess(function), key, configuration=configuration
    )


@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize("ages", [False, True])
def test_changes_in_place_are_seen_as_by_pyflink(backend, ages):
    with harness_of(Careless(ages=ages), backend) as test:
        for element in ELEMENTS:
            test.process_element(element)
        assert test.values == PYFLINK


@pytest.mark.parametrize("options", [{}, {"pipeline.object-reuse": "true"}])
@pytest.mark.parametrize("backend", list(BACKENDS))
def test_changes_in_place_are_in_checkpoints(backend, options):
    """Each element reads what a checkpoint holds of earlier elements."""
    snapshot, found = None, []
    for number, element in enumerate(ELEMENTS):
        test = harness_of(Careless(), backend, **options)
        test.initialize_state(snapshot)
        with test:
            test.process_element(element)
            found += test.values
            snapshot = test.snapshot(number)
    assert found == PYFLINK


class Keeping(KeyedProcessFunction):
    """Holds the objects of its state beyond the call, and mutates them for other keys' elements."""

    def open(self, runtime_context):
        self.v = runtime_context.get_state(ValueStateDescriptor("v", ANY))
        self.m = runtime_context.get_map_state(MapStateDescriptor("m", Types.STRING(), ANY))
        self.l = runtime_context.get_list_state(ListStateDescriptor("l", ANY))
        self.kept = []

    def process_element(self, value, ctx):
        name, action = value
        if action == "keep":
            self.v.update({"box": [name]})
            self.m.put("x", [name])
            self.l.add([name])
            self.kept += [self.v.value()["box"], self.m.get("x"), next(iter(self.l.get()))]
        elif action == "see":
            yield f"{name} {self.v.value()} {dict(self.m.items())} {list(self.l.get())}"
        else:
            for kept in self.kept:
                kept.append(action)


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_a_checkpoint_does_not_see_later_changes(backend):
    with harness_of(Keeping(), backend) as test:
        for element in [("a", "keep"), ("b", "keep"), ("c", 1)]:
            test.process_element(element)
        # They are serialised while later elements are processed.
        first = test.begin_snapshot(1)
        test.process_element(("c", 2))
        second = test.begin_snapshot(2)
        test.process_element(("c", 3))
        snapshots = [serialised(first), serialised(second), test.snapshot(3)]
        test.process_element(("a", "see"))
        assert test.values == ["a {'box': ['a', 1, 2, 3]} {'x': ['a', 1, 2, 3]} [['a', 1, 2, 3]]"]
    for snapshot, seen in zip(snapshots, ([1], [1, 2], [1, 2, 3]), strict=True):
        restored = harness_of(Keeping(), backend)
        restored.initialize_state(snapshot)
        with restored:
            for name in "ab":
                restored.process_element((name, "see"))
            assert restored.values == [
                f"{name} {{'box': {[name, *seen]}}} {{'x': {[name, *seen]}}} {[[name, *seen]]}"
                for name in "ab"
            ]


class Busy(KeyedProcessFunction):
    """Uses enough other state between reading an object and mutating it to fill all caches."""

    def open(self, runtime_context):
        self.v = runtime_context.get_state(ValueStateDescriptor("v", ANY))
        self.m = runtime_context.get_map_state(MapStateDescriptor("m", Types.LONG(), ANY))
        self.l = runtime_context.get_list_state(ListStateDescriptor("l", ANY))
        self.others = runtime_context.get_map_state(
            MapStateDescriptor("others", Types.LONG(), Types.STRING())
        )

    def process_element(self, value, ctx):
        name, number = value
        value, pair, added = self.v.value() or {}, self.m.get(7) or [], [number]
        self.v.update(value)
        self.m.put(7, pair)
        self.l.add(added)
        for other in range(3000):
            self.others.put(other, "text" * 10)
        value[number] = number
        pair.append(number)
        added.append("later")
        for other in range(3000):
            self.others.get(other)
        yield f"{name} {self.v.value()} {self.m.get(7)} {list(self.l.get())}"


@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_an_object_is_that_of_the_state_however_much_is_used_in_between(backend):
    with harness_of(Busy(), backend) as test:
        for element in [("a", 1), ("b", 1), ("a", 2), ("b", 2)]:
            test.process_element(element)
        assert test.values == [
            "a {1: 1} [1] [[1, 'later']]",
            "b {1: 1} [1] [[1, 'later']]",
            "a {1: 1, 2: 2} [1, 2] [[1, 'later'], [2, 'later']]",
            "b {1: 1, 2: 2} [1, 2] [[1, 'later'], [2, 'later']]",
        ]


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_more_objects_than_are_watched(backend):
    """A function holds an object for each key: the state contains the object, or a copy."""

    class ForEach(KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(ValueStateDescriptor("s", ANY))
            self.kept = {}

        def process_element(self, value, ctx):
            name, number = value
            kept = self.kept.setdefault(name, [])
            kept.append(number)
            self.state.update(kept)
            if number == 2:
                yield name, self.state.value()

    with harness_of(ForEach(), backend) as test:
        for number in range(3):
            for name in range(1500):
                test.process_element((name, number))
        assert test.values == [(name, [0, 1, 2]) for name in range(1500)]
        snapshot = test.snapshot(1)
    restored = harness_of(ForEach(), backend)
    restored.initialize_state(snapshot)
    with restored:
        kept = {entry[1]: entry[2] for entry in restored._context.keyed_state.tables["s"]}
        assert kept == {name: [0, 1, 2] for name in range(1500)}


@pytest.mark.parametrize("backend", list(BACKENDS))
def test_state_of_windows_is_changed_in_place_too(backend):
    class Counting(ProcessWindowFunction):
        def process(self, key, context, elements):
            own = context.window_state().get_state(ValueStateDescriptor("s", ANY))
            shared = context.global_state().get_map_state(
                MapStateDescriptor("m", Types.STRING(), ANY)
            )
            if own.value() is None:
                own.update([])
            if not shared.contains("x"):
                shared.put("x", [])
            own.value().append(len(elements))
            shared.get("x").append(len(elements))
            yield key, own.value(), shared.get("x")

        def clear(self, context):
            context.window_state().get_state(ValueStateDescriptor("s", ANY)).clear()

    harness = PipelineTestHarness(BACKENDS[backend])
    windows = (
        harness.source("in").key_by(key).window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    )
    harness.sink("out", windows.process(Counting()))
    with harness:
        for name, moment in [("a", 1), ("a", 2), ("b", 3), ("a", 11)]:
            harness.process_element("in", (name, moment), moment)
        harness.process_watermark("in", 100)
        assert harness.values("out") == [
            ("a", [2], [2]),
            ("b", [1], [1]),
            ("a", [1], [2, 1]),
        ]


CHANGES = {
    "put": lambda state: state.put("new", 1),
    "put again": lambda state: state.put("k1", 1),
    "put all": lambda state: state.put_all({"new": 1}),
    "set": lambda state: state.__setitem__("k1", 1),
    "remove": lambda state: state.remove("k1"),
    "delete": lambda state: state.__delitem__("k1"),
    "clear": lambda state: state.clear(),
}
ITERATORS = {
    "items": lambda state: state.items(),
    "keys": lambda state: state.keys(),
    "values": lambda state: state.values(),
    "iter": iter,
}


class Iterating(KeyedProcessFunction):
    """Calls a function with a map state of five pairs."""

    def __init__(self, use, *, ages):
        self.use = use
        self.ages = ages

    def open(self, runtime_context):
        descriptor = MapStateDescriptor("pairs", Types.STRING(), Types.INT())
        if self.ages:
            descriptor.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())
        self.state = runtime_context.get_map_state(descriptor)

    def process_element(self, value, ctx):
        if value[1] == "fill":
            self.state.put_all({f"k{number}": number for number in range(5)})
        else:
            self.use(self.state)
        yield sorted(self.state.items())


def iterate(use, backend, ages):
    """Return the map's entries after ``use``, in the key's next element."""
    with harness_of(Iterating(use, ages=ages), backend) as test:
        for element in [("a", "fill"), ("b", "fill"), ("a", "use")]:
            test.process_element(element)
        test.process_element(("b", "fill"))
        assert len(test.values[-1]) == 5
        return test.values[-2]


@pytest.mark.parametrize("ages", [False, True])
@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize("iterator", list(ITERATORS))
def test_an_iterator_over_a_map_removes_what_it_has_given(iterator, backend, ages):
    def use(state):
        pairs = ITERATORS[iterator](state)
        assert iter(pairs) is pairs
        with pytest.raises(IllegalStateError, match="'pairs' has no pair to remove"):
            pairs.remove()
        for position, _ in enumerate(pairs):
            if position % 2:
                pairs.remove()
                with pytest.raises(IllegalStateError, match="'pairs' has no pair to remove"):
                    pairs.remove()

    assert iterate(use, backend, ages) == [("k0", 0), ("k2", 2), ("k4", 4)]


@pytest.mark.parametrize("ages", [False, True])
@pytest.mark.parametrize("backend", list(BACKENDS))
def test_an_iterator_may_remove_all(backend, ages):
    def use(state):
        pairs = state.items()
        for _ in pairs:
            pairs.remove()
        assert state.is_empty()
        assert list(state) == []

    assert iterate(use, backend, ages) == []


@pytest.mark.parametrize("ages", [False, True])
@pytest.mark.parametrize("backend", list(BACKENDS))
@pytest.mark.parametrize("change", list(CHANGES))
def test_a_map_cannot_be_changed_otherwise_while_it_is_iterated_over(change, backend, ages):
    def use(state):
        for make in ITERATORS.values():
            state.put_all({f"k{number}": number for number in range(5)})
            pairs = make(state)
            next(pairs)
            CHANGES[change](state)
            with pytest.raises(IllegalStateError, match="map state 'pairs' was changed while"):
                next(pairs)
            with pytest.raises(IllegalStateError, match="map state 'pairs' was changed while"):
                pairs.remove()
        state.clear()
        state.put_all({f"k{number}": number for number in range(5)})
        first, second = state.items(), state.keys()
        next(first), next(second)
        first.remove()
        with pytest.raises(IllegalStateError, match="map state 'pairs' was changed while"):
            next(second)
        assert len(list(first)) == 4

    iterate(use, backend, ages)


@pytest.mark.process
@pytest.mark.slow
@pytest.mark.skipif(runtime() == "pure", reason="is what this test starts")
def test_the_pure_runtime_does_the_same():
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
        env=os.environ | {"PENSTOCK_RUNTIME": "pure"},
        cwd=Path(__file__).parents[3],
        check=True,
        timeout=PATIENCE_S,
    )
