"""Savepoints that are read as tables, and written from data as a job's initial state."""

import importlib
import os
import subprocess
import sys
from dataclasses import dataclass

import pyarrow as pa
import pytest
from penstock.common import Row, Types
from penstock.datastream import KeyedProcessFunction, MapFunction
from penstock.datastream.functions import CheckpointedFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.errors import CheckpointStorageError, InvalidProgramError, SerializationError
from penstock.serialization.class_reference import forget_imported
from penstock.state_processor import Savepoint, SavepointWriter

from recovery.savepoint_programs import Slowly, asked, environment, numbers

COUNT = ValueStateDescriptor("count", Types.LONG())
SEEN = ListStateDescriptor("seen", Types.LONG())
RULES = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])


class Counting(KeyedProcessFunction):
    """Counts by key, and registers timers."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(COUNT)

    def process_element(self, value, ctx):
        self.count.update((self.count.value() or 0) + 1)
        ctx.timer_service().register_event_time_timer(10**12 + value % 3)
        yield ctx.get_current_key(), self.count.value()


class Remembering(MapFunction, CheckpointedFunction):
    """Stores the sum of its initial state when element 0 arrives."""

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.seen = store.get_list_state(SEEN)
        self.rules = store.get_broadcast_state(RULES)

    def map(self, value):
        if value == 0:
            self.seen.add(sum(self.seen.get()) + self.rules.get("plus"))
        return value

    def snapshot_state(self, context):
        pass


def test_a_job_starts_from_data_and_its_state_is_read(tmp_path):
    """A round trip: written from a table, counted on, stopped, and read as tables again."""
    counts = pa.table({"key": [0, 1, 2], "value": [100, 200, 300]})
    begun = (
        SavepointWriter()
        .keyed_state("counting", COUNT, counts, Types.LONG())
        .list_state("remembering", SEEN, [1, 2, 3])
        .broadcast_state("remembering", RULES, {"plus": 10})
        .write(str(tmp_path))
    )
    env = environment({"execution.state-recovery.path": begun, "execution.target": "in-process"})
    env.set_parallelism(1)
    stream = (
        numbers(env, 10**7)
        .map(Slowly())
        .map(Remembering(), Types.LONG())
        .uid("remembering")
        .key_by(lambda number: number % 3, Types.LONG())
        .process(Counting(), PAIR)
        .uid("counting")
    )
    with stream.execute_and_collect() as results:
        last = {}
        for key, count in results:
            last[key] = count
            if len(last) == 3 and min(last.values()) > 150:
                break
        path = asked(results.get_job_client().stop_with_savepoint, False, str(tmp_path))
        last |= dict(results)
    savepoint = Savepoint.read(path)
    table = savepoint.keyed_state("counting", "count").sort_by("key")
    assert table.column("key").to_pylist() == [0, 1, 2]
    assert table.column("value").to_pylist() == [last[key] for key in range(3)]
    assert last[0] > 150
    assert set(table.column("namespace").to_pylist()) == {None}
    assert all(0 <= group < 128 for group in table.column("key_group").to_pylist())
    timers = savepoint.timers("counting").sort_by("time")
    assert timers.column("time").to_pylist() == [10**12, 10**12 + 1, 10**12 + 2]
    assert set(timers.column("domain").to_pylist()) == {"event"}
    assert savepoint.list_state("remembering", "seen").to_pydict() == {
        "subtask": [0] * 4, "value": [1, 2, 3, 16],
    }  # fmt: skip
    assert savepoint.broadcast_state("remembering", "rules").to_pylist() == [
        {"key": "plus", "value": 10}
    ]
    states = {
        (row["uid"], row["kind"], row["state"], row["type"])
        for row in savepoint.states().to_pylist()
    }
    assert {
        ("counting", "keyed", "count", "LONG"),
        ("remembering", "split", "seen", "LIST(LONG)"),
        ("remembering", "broadcast", "rules", "MAP(STRING, LONG)"),
    } <= states


@dataclass
class Visit:
    page: str
    seconds: float


def test_every_kind_of_value_has_its_columns(tmp_path):
    row = Types.ROW_NAMED(["a", "b"], [Types.LONG(), Types.STRING()])
    path = (
        SavepointWriter(4)
        .keyed_state("op", ValueStateDescriptor("row", row), [("k", Row(a=1, b="x"))])
        .keyed_state("op", ValueStateDescriptor("visit", None), [("k", Visit("p", 0.5))])
        .keyed_state("op", ListStateDescriptor("list", PAIR), [("k", [(1, 2), (3, 4)])])
        .keyed_state("op", RULES, [("k", {"r": 7}), ("l", {"s": 8})])
        .keyed_state("op", ValueStateDescriptor("mixed", None), [("k", 1), ("l", "two")])
        .union_list_state("other", SEEN, [5])
        .write(str(tmp_path))
    )
    savepoint = Savepoint.read(path + "/_metadata")

    def values(state):
        return savepoint.keyed_state("op", state).sort_by("key").column("value").to_pylist()

    assert values("row") == [{"a": 1, "b": "x"}]
    assert values("visit") == [{"page": "p", "seconds": 0.5}]
    assert values("list") == [[{"f0": 1, "f1": 2}, {"f0": 3, "f1": 4}]]
    assert values("rules") == [[{"key": "r", "value": 7}], [{"key": "s", "value": 8}]]
    with pytest.raises(SerializationError, match="'value' have no common type of Arrow"):
        values("mixed")
    mixed = savepoint.keyed_state_entries("op", "mixed")
    assert sorted((key, value) for _, key, _, value in mixed) == [("k", 1), ("l", "two")]
    assert savepoint.list_state("other", "seen").column("value").to_pylist() == [5]
    assert savepoint.timers("op").num_rows == 0


MODULE = """
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from pydantic import BaseModel

class Place(NamedTuple):
    town: str

class Kind(Enum):
    NEW = 1

class Name(str):
    pass

class Guest(BaseModel):
    name: str
    age: int = 0

@dataclass(slots=True)
class Stay:
    place: Place
    name: Name
    guests: list[Guest]
"""


def test_records_of_classes_that_the_reader_lacks_are_rows(tmp_path, monkeypatch):
    (tmp_path / "stays_of_a_job.py").write_text(MODULE)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    job = importlib.import_module("stays_of_a_job")
    stay = job.Stay(job.Place("Rome"), job.Name("ada"), [job.Guest(name="bob")])
    path = (
        SavepointWriter(4)
        .keyed_state("op", ValueStateDescriptor("stay", None), [(job.Place("Rome"), stay)])
        .keyed_state("op", ValueStateDescriptor("kind", None), [("k", job.Kind.NEW)])
        .list_state("op", ListStateDescriptor("stays", Types.PICKLED_BYTE_ARRAY()), [stay])
        .write(str(tmp_path / "sp"))
    )
    read = Savepoint.read(path)
    assert read.keyed_state("op", "kind").column("value").to_pylist() == [1]

    monkeypatch.delitem(sys.modules, "stays_of_a_job")
    sys.path.pop(0)
    forget_imported()
    value = {"place": {"town": "Rome"}, "name": "ada", "guests": [{"name": "bob", "age": 0}]}
    assert read.keyed_state("op", "stay").column("value").to_pylist() == [value]
    assert read.list_state("op", "stays").column("value").to_pylist() == [value]
    ((_, key, _, found),) = read.keyed_state_entries("op", "stay")
    assert (key, found.guests[0].name) == (Row(town="Rome"), "bob")
    with pytest.raises(SerializationError, match=r"'stays_of_a_job:Kind'.*must be in sys\.path"):
        read.keyed_state("op", "kind")


READER = """
import sys
from penstock.state_processor import Savepoint

((_, _, _, stay),) = Savepoint.read(sys.argv[1]).keyed_state_entries("op", "stay")
print(type(stay), stay.guests[0].name)
"""


def test_a_program_beside_the_job_s_package_finds_its_classes(tmp_path, monkeypatch):
    """Only the program's own folder is searched, from whatever directory it is started."""
    package = tmp_path / "program" / "shop_of_a_job"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "stays.py").write_text(MODULE)
    (package.parent / "read.py").write_text(READER)
    monkeypatch.syspath_prepend(package.parent)
    stays = importlib.import_module("shop_of_a_job.stays")
    stay = stays.Stay(stays.Place("Rome"), stays.Name("ada"), [stays.Guest(name="bob")])
    descriptor = ValueStateDescriptor("stay", None)
    path = SavepointWriter(4).keyed_state("op", descriptor, [("k", stay)])
    command = [sys.executable, str(package.parent / "read.py"), path.write(str(tmp_path / "sp"))]
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    found = subprocess.run(command, capture_output=True, text=True, cwd="/", env=environment)
    assert found.stdout == "<class 'shop_of_a_job.stays.Stay'> bob\n", found.stderr


def test_entries_are_a_dictionary(tmp_path):
    entries = {"ab": 1, "cd": 2}
    path = SavepointWriter().keyed_state("op", COUNT, entries).write(str(tmp_path / "new"))
    found = Savepoint.read(path).keyed_state_entries("op", COUNT.get_name())
    assert {key: value for _, key, _, value in found} == entries


def test_the_error_names_missing_state(tmp_path):
    with pytest.raises(CheckpointStorageError, match="is not a checkpoint or savepoint"):
        Savepoint.read(str(tmp_path))
    path = SavepointWriter().keyed_state("op", COUNT, [("k", 1)]).write(str(tmp_path / "new"))
    savepoint = Savepoint.read(path)
    with pytest.raises(InvalidProgramError, match=r"no operator 'of', .*it has 'op'"):
        savepoint.keyed_state("of", "count")
    with pytest.raises(InvalidProgramError, match="no keyed state 'sum'; it has 'count'"):
        savepoint.keyed_state("op", "sum")
    with pytest.raises(InvalidProgramError, match="no list state 'count'; it has none"):
        savepoint.list_state("op", "count")


def test_invalid_savepoints_are_not_written(tmp_path):
    with pytest.raises(InvalidProgramError, match="add some first"):
        SavepointWriter().write(str(tmp_path))
    with pytest.raises(InvalidProgramError, match="max_parallelism must be 1 to 32768, got 0"):
        SavepointWriter(0)
    with pytest.raises(SerializationError, match="'count' is declared"):
        SavepointWriter().keyed_state("op", COUNT, [("k", "three")])
    with pytest.raises(InvalidProgramError, match="two key types"):
        writer = SavepointWriter().keyed_state("op", COUNT, [("k", 1)])
        writer.keyed_state("op", RULES, [], Types.STRING())
    with pytest.raises(InvalidProgramError, match="columns key and value, it has a"):
        SavepointWriter().keyed_state("op", COUNT, pa.table({"a": [1]}))
    reducing = ReducingStateDescriptor("sum", lambda one, other: one, Types.LONG())
    with pytest.raises(InvalidProgramError, match="not a ReducingStateDescriptor"):
        SavepointWriter().keyed_state("op", reducing, [("k", 1)])
    assert not list(tmp_path.iterdir())
