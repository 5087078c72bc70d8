"""Positions of sources in checkpoints: a restore emits exactly the other records (M34, M63)."""

import threading
from itertools import chain

import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.connectors.files import splits as file_splits
from penstock.datastream.functions import CheckpointedFunction, SourceFunction
from penstock.datastream.state import ListStateDescriptor
from penstock.graph import operators
from penstock.serialization.codec import codec_for
from penstock.serialization.type_serializer import TypeSerializer
from penstock.taskexecutor.compiled import END_OF_DATA
from penstock.testing import OneInputStreamOperatorTestHarness, redistribute
from support.patience import PATIENCE_S


def numbers(start, end, **arguments):
    return operators.NumberSequenceSource(start=start, end=end, **arguments)


def collection(values):
    encode = codec_for(Types.INT()).encode
    elements = tuple(encode(value) for value in values)
    return operators.CollectionSource(elements=elements, element_type=Types.INT())


def read(test, count=None):
    """Run so many steps of one element, or until no element is available."""
    while count is None or count > 0:
        status = test.operator.emit_next(1)
        if status != 0:
            return status
        if count is not None:
            count -= 1
    return 0


def run(descriptor, snapshots, counts, *, parallelism=None):
    """Start subtasks from ``snapshots``, read as far as ``counts`` says, and take snapshots."""
    parallelism = len(counts) if parallelism is None else parallelism
    restored = redistribute(snapshots, parallelism) if snapshots else [None] * parallelism
    values, taken = [], []
    for subtask, (snapshot, count) in enumerate(zip(restored, counts, strict=True)):
        test = OneInputStreamOperatorTestHarness(
            descriptor, subtask=subtask, parallelism=parallelism
        )
        test.initialize_state(snapshot)
        with test:
            read(test, count)
            taken.append(test.snapshot(1))
            values.append(test.values)
    return values, taken


STRATEGY = WatermarkStrategy.for_monotonous_timestamps()


@pytest.mark.parametrize("count", range(12))
@pytest.mark.parametrize(
    "descriptor",
    [
        numbers(1, 10),
        numbers(1, 10, watermark_strategy=STRATEGY),
        collection(range(1, 11)),
        operators.HybridSource(sources=(numbers(1, 4), collection([5, 6, 7]), numbers(8, 10))),
        operators.HybridSource(
            sources=(
                numbers(1, 2),
                operators.HybridSource(sources=(numbers(3, 9), numbers(10, 10))),
            ),
        ),
    ],
    ids=["numbers", "watermarks", "collection", "hybrid", "nested"],
)
def test_the_rest_follows_what_was_emitted(descriptor, count):
    (first,), snapshots = run(descriptor, None, [count])
    (rest,), ended = run(descriptor, snapshots, [None])
    assert first + rest == list(range(1, 11))
    assert run(descriptor, ended, [None])[0] == [[]]


@pytest.mark.parametrize("parallelism", [1, 2, 3, 5])
@pytest.mark.parametrize(
    "descriptor",
    [
        numbers(1, 40),
        operators.HybridSource(
            sources=(numbers(1, 20), collection(range(21, 30)), numbers(30, 40))
        ),
    ],
    ids=["numbers", "hybrid"],
)
def test_every_record_is_emitted_once_at_another_parallelism(descriptor, parallelism):
    """Subtasks are at different positions, and in different parts of a hybrid source."""
    first, snapshots = run(descriptor, None, [2, 19, 0])
    second, snapshots = run(descriptor, snapshots, [3] * parallelism)
    third, ended = run(descriptor, snapshots, [None, None])
    emitted = [value for subtask in first + second + third for value in subtask]
    assert sorted(emitted) == list(range(1, 41))
    assert run(descriptor, ended, [None])[0] == [[]]


@pytest.mark.parametrize("block_bytes", [5, 1000])
@pytest.mark.parametrize("ending", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("charset", ["utf-8", "utf-16"])
def test_files_continue_after_the_last_line(tmp_path, monkeypatch, block_bytes, ending, charset):
    monkeypatch.setattr(file_splits, "_SMALLEST_SPLIT_BYTES", 16)
    monkeypatch.setattr(file_splits, "_BLOCK_BYTES", block_bytes)
    lines = {"a": ["", "a", "é" * 9, "", "x" * 30, "last"], "b": ["b1", "b2"]}
    for name, content in lines.items():
        (tmp_path / name).write_bytes(ending.join(content).encode(charset))
    descriptor = operators.FileSource(paths=(str(tmp_path),), charset=charset)
    everything = lines["a"] + lines["b"]
    for count in range(len(everything) + 3):
        (first,), snapshots = run(descriptor, None, [count])
        (rest,), _ = run(descriptor, snapshots, [None])
        assert first + rest == everything
        two, snapshots = run(descriptor, None, [count, 1])
        three, ended = run(descriptor, snapshots, [None] * 3)
        assert sorted(line for part in two + three for line in part) == sorted(everything)
        assert run(descriptor, ended, [None])[0] == [[]]


@pytest.mark.parametrize("block_bytes", [5, 1000])
def test_lines_stay_in_their_order_at_another_parallelism(tmp_path, monkeypatch, block_bytes):
    """Small splits of several subtasks are read in the file's order by their successors.

    Lines out of order would be late.
    """
    monkeypatch.setattr(file_splits, "_SMALLEST_SPLIT_BYTES", 8)
    monkeypatch.setattr(file_splits, "_SPLIT_BYTES", 16)
    monkeypatch.setattr(file_splits, "_BLOCK_BYTES", block_bytes)
    for name, first in (("b", 100), ("a", 150)):
        (tmp_path / name).write_text("".join(f"{n}\n" for n in range(first, first + 50)))
    descriptor = operators.FileSource(paths=(str(tmp_path / "b"), str(tmp_path / "a")))
    for counts in ([1, 1], [0, 9], [9, 0], [5, 5, 5]):
        first, snapshots = run(descriptor, None, counts)
        for parallelism in (1, 2, 3):
            rest, _ = run(descriptor, snapshots, [None] * parallelism)
            found = [[int(line) for line in part] for part in rest]
            assert all(part == sorted(part) for part in found)
            emitted = [*map(int, chain.from_iterable(first)), *chain.from_iterable(found)]
            assert sorted(emitted) == list(range(100, 200))


def test_a_split_of_a_former_version_has_no_place():
    split = file_splits.FileSplit("a", 1, 5, 2)
    assert split.place == 0
    assert TypeSerializer().deserialize(TypeSerializer().serialize(split)) == split


def test_new_files_are_found_once_by_whatever_subtask(tmp_path):
    """At the time of the snapshot some were read, partly read, found, or not yet found."""
    for name in "abcdef":
        (tmp_path / name).write_text(f"{name}1\n{name}2\n{name}3\n")
    descriptor = operators.FileSource(paths=(str(tmp_path),), discovery_interval_ms=60_000)
    first, snapshots = run(descriptor, None, [0, 3])
    assert first[0] == []
    # The first step of a subtask only looks for files; it emits from the next one on.
    _, snapshots_of_seekers = run(descriptor, snapshots, [1, 1])
    (tmp_path / "g").write_text("g1\n")

    def continued(snapshots, parallelism):
        values, taken = [], []
        for subtask, snapshot in enumerate(redistribute(snapshots, parallelism)):
            test = OneInputStreamOperatorTestHarness(
                descriptor, subtask=subtask, parallelism=parallelism
            )
            test.initialize_state(snapshot)
            with test:
                for _ in range(50):
                    test.operator.emit_next(1)
                taken.append(test.snapshot(2))
                values.extend(test.values)
        return values, taken

    everything = [name + number for name in "abcdef" for number in "123"] + ["g1"]
    for parallelism in (1, 2, 3):
        found, taken = continued(snapshots, parallelism)
        assert sorted(first[1] + found) == everything
        assert continued(taken, 2)[0] == []
    assert all(len(snapshot.lists["SourceReaderState"]) <= 6 for snapshot in snapshots_of_seekers)


def test_a_file_that_was_read_need_not_exist_any_more(tmp_path):
    for name in "ab":
        (tmp_path / name).write_text(f"{name}\n")
    descriptor = operators.FileSource(paths=(str(tmp_path / "a"), str(tmp_path / "b")))
    (first,), snapshots = run(descriptor, None, [2])
    (tmp_path / "a").unlink()
    (rest,), _ = run(descriptor, snapshots, [None])
    assert first + rest == ["a", "b"]


class Counting(SourceFunction, CheckpointedFunction):
    """Counts to 1000 under the lock, as the older interface requires."""

    def __init__(self):
        self.next = 0
        self.running = True
        self.at_half = threading.Event()

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.state = store.get_list_state(ListStateDescriptor("next", Types.LONG()))
        for position in self.state.get():
            self.next = position

    def snapshot_state(self, context):
        self.state.update([self.next])

    def run(self, ctx):
        while self.running and self.next < 1000:
            with ctx.get_checkpoint_lock():
                ctx.collect(self.next)
                self.next += 1
            if self.next == 500:
                self.at_half.set()

    def cancel(self):
        self.running = False


def test_source_functions_are_asked_under_their_lock():
    """The snapshot falls between two records although the function has its own thread."""
    function = Counting()
    with OneInputStreamOperatorTestHarness(operators.FunctionSource(function)) as old:
        old.operator.emit_next(1)
        assert function.at_half.wait(PATIENCE_S)
        snapshot = old.snapshot(1)
    (position,) = snapshot.lists["next"]
    new = OneInputStreamOperatorTestHarness(operators.FunctionSource(Counting()))
    new.initialize_state(snapshot)
    with new:
        while new.operator.emit_next(1) != END_OF_DATA:
            new.operator.wait_available(1000)
        assert old.values[:position] + new.values == list(range(1000))
