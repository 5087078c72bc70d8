"""BATCH mode sorts keyed inputs within managed memory, and on disk beyond it.

Method: the native sorter and its twin sort random elements with little memory; the results are
compared with Python's.
"""

import random
import resource
from pathlib import Path

import pytest
from penstock import network
from penstock.common import Types
from penstock.datastream.functions import BroadcastProcessFunction, KeyedProcessFunction
from penstock.datastream.state import MapStateDescriptor
from penstock.errors import IllegalStateError, SerializationError, TemporaryFileError
from penstock.graph import operators
from penstock.runtime import runtime
from penstock.taskexecutor.compiled import Input
from penstock.taskexecutor.operators import external_sort
from penstock.taskexecutor.worker.memory_manager import MemoryManager
from penstock.testing import (
    KeyedOneInputStreamOperatorTestHarness,
    TwoInputStreamOperatorTestHarness,
)


def sorters():
    """Yield the pure sorter, and the native one if its extension is in use."""
    yield external_sort.ExternalSorter
    if runtime() == "native":
        from penstock._native.records.external_sorter import ExternalSorter

        yield ExternalSorter


@pytest.fixture(params=sorters(), ids=lambda kind: kind.__module__.split(".")[1])
def kind(request):
    return request.param


class Collector(Input):
    """One input of an operator; its records are added to the group of the current key."""

    def __init__(self, number, groups):
        self.number = number
        self.groups = groups

    def process(self, value, timestamp):
        self.groups[-1].append((timestamp, self.number, value))


def drained(under_test):
    """Return the sorter's output, by key."""
    groups = [[]]
    under_test.drain([Collector(n, groups) for n in range(2)], lambda: groups.append([]))
    assert groups.pop() == []
    return groups


def elements(count, seed=1):
    """Generate key, time, number of the input and value; times are often equal."""
    chance = random.Random(seed)
    return [
        (f"key {chance.randrange(200)}", chance.randrange(20), chance.randrange(2), (n, "x" * 500))
        for n in range(count)
    ]


def expected(given):
    """Return the records in the order of keys, then of time; those of one time in their order."""
    groups = {}
    for key, *element in given:
        groups.setdefault(key, []).append(tuple(element))
    return [sorted(groups[key], key=lambda element: element[0]) for key in sorted(groups)]


@pytest.mark.parametrize(("memory_bytes", "count", "spills"), [
    (1 << 30, 3000, False), (4 << 20, 16_000, True), (0, 8000, True), (0, 10, False),
])  # fmt: skip
def test_records_come_key_by_key_in_the_order_of_time(tmp_path, kind, memory_bytes, count, spills):
    keys = network.KeyReader(lambda element: element, -1, str, None)
    under_test = kind(MemoryManager(memory_bytes), lambda: str(tmp_path))
    for key, *element in (given := elements(count)):
        under_test.add(keys.identity(key), *element)
    assert (under_test.num_runs > 0) is spills
    assert drained(under_test) == expected(given)
    under_test.close()
    assert not list(tmp_path.iterdir())


def test_many_runs_are_merged_on_the_way(tmp_path, kind):
    under_test = kind(MemoryManager(0), lambda: str(tmp_path), 3)
    for key, *element in (given := elements(12_000)):
        under_test.add(key, *element)
        assert under_test.num_runs <= 3
    assert len(list(tmp_path.rglob("*.channel"))) == under_test.num_runs
    assert drained(under_test) == expected(given)
    under_test.close()


def test_a_full_disk_is_named(tmp_path, kind):
    """A limit of the size of files is close to a full disk; nothing is left."""
    under_test = kind(MemoryManager(0), lambda: str(tmp_path))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, limits[1]))
    try:
        with pytest.raises(TemporaryFileError, match=rf"file in {tmp_path}: .*io\.tmp\.dirs"):
            for key, *element in elements(12_000):
                under_test.add(key, *element)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    under_test.close()
    assert not list(tmp_path.iterdir())


KEYS = [
    *(-(2**63), -1, 0, 1, 255, 256, 2**40, 2**63 - 1),
    *("", "a", "a\0", "a\0b", "aaaaaaa", "aaaaaaa\0", "aaaaaaaa", "aaaaaaaab", "é", "\ud800"),
    *(True, 1.5, None, (1, "x"), 2**63, -(2**70), b"a"),
]


@pytest.mark.parametrize("first", ["a", "aaaaaaaab", 5])
def test_keys_of_all_kinds_have_one_order_in_memory_and_on_disk(tmp_path, kind, first):
    """The first keys determine the prefix that normalised keys leave out."""
    given = [(first, n, 0, (n, "y" * 500)) for n in range(3000)]
    given += [(key, -n, 1, repr(key)) for n in range(2) for key in KEYS]
    under_test = kind(MemoryManager(0), lambda: str(tmp_path))
    for key, *element in given:
        under_test.add(network.identity_of(key), *element)
    assert under_test.num_runs > 0
    assert drained(under_test) == expected(
        (external_sort.key_bytes(network.identity_of(key)), *element) for key, *element in given
    )
    under_test.close()


class Failing(Input):
    """Fails at the first record."""

    def process(self, value, timestamp):
        raise InterruptedError


def test_one_that_is_given_up_leaves_no_files(tmp_path, kind):
    memory = MemoryManager(8 << 20)
    under_test = kind(memory, lambda: str(tmp_path))
    for key, *element in elements(24_000):
        under_test.add(key, *element)
    with pytest.raises(InterruptedError):
        under_test.drain([Failing()] * 2, lambda: None)
    assert list(tmp_path.rglob("*.channel"))
    under_test.close()
    assert not list(tmp_path.iterdir())
    assert memory.available_bytes == 8 << 20


def test_failed_writes_are_named(tmp_path, kind):
    under_test = kind(MemoryManager(0), lambda: str(tmp_path))
    with pytest.raises((SerializationError, TypeError), match="generator"):
        for n in range(100):
            under_test.add(1, 0, 0, (n for n in range(3)))


class Order(KeyedProcessFunction):
    def process_element(self, element, ctx):
        yield ctx.get_current_key(), ctx.timestamp(), element[1]


@pytest.mark.parametrize("size", ["0", "1 gb"])
def test_a_batch_operator_sorts_with_any_managed_memory(size):
    harness = KeyedOneInputStreamOperatorTestHarness(
        operators.KeyedProcess(Order()),
        lambda element: element[0],
        key_type=Types.STRING(),
        configuration={
            "execution.runtime-mode": "BATCH",
            "taskmanager.memory.managed.size": size,
        },
    )
    given = elements(6000)
    with harness as test:
        for key, time_ms, _, value in given:
            test.process_element((key, value), time_ms)
        folder = test._task._temp_directory
        assert (folder is not None) is (size == "0")
        test.process_watermark(2**63 - 1)
        found = {}
        for key, *rest in test.values:
            # A key is complete when the next one starts.
            assert key not in found or next(reversed(found)) == key
            found.setdefault(key, []).append(tuple(rest))
        assert {key: [t for t, _ in rest] for key, rest in found.items()} == {
            key: sorted(t for k, t, *_ in given if k == key) for key in found
        }
        assert sum(map(len, found.values())) == len(given)
    assert folder is None or not Path(folder.name).exists()


KNOWN = MapStateDescriptor("known", Types.STRING(), Types.INT())
END = 2**63 - 1


class Beside(BroadcastProcessFunction):
    """Emits each element with the values broadcast so far."""

    def process_element(self, element, ctx):
        yield element, ctx.timestamp(), sorted(ctx.get_broadcast_state(KNOWN).items())

    def process_broadcast_element(self, element, ctx):
        ctx.get_broadcast_state(KNOWN).put(element, ctx.timestamp())
        yield element


def beside(size="1 gb"):
    return TwoInputStreamOperatorTestHarness(
        operators.BroadcastProcess(Beside()),
        configuration={
            "execution.runtime-mode": "BATCH",
            "taskmanager.memory.managed.size": size,
        },
    )


def test_in_batch_mode_all_that_is_broadcast_comes_first():
    """Flink's operator reads the broadcast input first, until it ends; the order is kept."""
    with beside() as test:
        test.process_element1("late", 9)
        test.process_element2("a", 1)
        test.process_element1("early", 3)
        test.process_watermark1(END)
        test.operator.end_input(0)
        test.process_element2("b", 2)
        assert test.values == ["a", "b"]
        assert test.output.watermarks == []
        test.process_watermark2(END)
        known = [("a", 1), ("b", 2)]
        assert test.values[2:] == [("late", 9, known), ("early", 3, known)]
        assert test.output.watermarks == [END]


def test_in_batch_mode_records_pass_once_all_is_broadcast():
    with beside() as test:
        test.process_element2("a", 1)
        test.process_watermark2(END)
        test.process_element1("x", 5)
        assert test.values == ["a", ("x", 5, [("a", 1)])]
        test.process_watermark1(END)
        assert test.output.watermarks == [END]


def test_records_beside_a_long_broadcast_are_kept_on_disk():
    with beside("0") as test:
        for n in range(6000):
            test.process_element1((n, "x" * 500), 6000 - n)
        folder = test._task._temp_directory
        assert folder is not None
        test.process_watermark2(END)
        assert [(value[0], time_ms) for value, time_ms, _ in test.values] == [
            (n, 6000 - n) for n in range(6000)
        ]
    assert not Path(folder.name).exists()


def test_managed_memory_is_shared():
    memory = MemoryManager(100)
    assert memory.reserve("a", 60)
    assert not memory.reserve("b", 41)
    assert memory.reserve("b", 40)
    assert memory.available_bytes == 0
    memory.release("a", 10)
    assert memory.reserve("b", 10)
    with pytest.raises(
        IllegalStateError, match="releases 51 bytes of managed memory and has reserved 50"
    ):
        memory.release("a", 51)
    memory.release_all("b")
    assert memory.available_bytes == 50
