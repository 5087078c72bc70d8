"""An enum member in RocksDB's state that the program lacks is an error with both names.

Method: the enum of this module is replaced between a snapshot and the access to the restored state,
whose rows are decoded when they are read.
"""

import enum
import sys

import pytest
from penstock.common.time import Time
from penstock.common.typeinfo import Types
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    StateTtlConfig,
    ValueStateDescriptor,
)
from penstock.errors import SerializationError
from penstock.serialization import value_layouts
from penstock.serialization.class_reference import forget_imported
from unit.taskexecutor.rocksdb_backends import KEYS, Storage, make, read, restored

__all__ = ["make"]


class Color(enum.Enum):
    RED = 1
    BLUE = 2


class Later(enum.Enum):
    BLUE = 2


ANY = Types.PICKLED_BYTE_ARRAY()
VALUE = ValueStateDescriptor("value", ANY)
ELEMENTS = ListStateDescriptor("elements", ANY)
PAIRS = MapStateDescriptor("pairs", ANY, ANY)
KEYS_OF_PAIRS = MapStateDescriptor("keys", ANY, ANY)
EXPIRING = ValueStateDescriptor("expiring", ANY)
EXPIRING.enable_time_to_live(StateTtlConfig.new_builder(Time.hours(1)).build())


def filled(backend):
    backend.current_key = KEYS.identity(1)
    backend.state(VALUE).update(Color.RED)
    backend.state(ELEMENTS).add(Color.RED)
    backend.state(PAIRS).put("a", Color.RED)
    backend.state(KEYS_OF_PAIRS).put(Color.RED, 1)
    backend.state(EXPIRING).update(Color.RED)
    return backend


def forget_classes():
    """Forget the known classes, as in another process."""
    forget_imported()
    for forget in value_layouts.on_change:
        forget(Color)


@pytest.mark.parametrize(
    ("name", "look"),
    [
        ("value", lambda backend: backend.state(VALUE).value()),
        ("expiring", lambda backend: backend.state(EXPIRING).value()),
        ("elements", lambda backend: list(backend.state(ELEMENTS).get())),
        ("pairs", lambda backend: backend.state(PAIRS).get("a")),
        ("pairs", lambda backend: list(backend.state(PAIRS).items())),
        ("keys", lambda backend: list(backend.state(KEYS_OF_PAIRS).keys())),
        ("value", lambda backend: list(backend.table("value", "value"))),
        ("pairs", lambda backend: list(backend.table("pairs", "map"))),
    ],
    ids=["value", "expiring", "list", "pair", "pairs", "keys", "table", "table of pairs"],
)
def test_it_is_named_with_its_enum_and_state(make, tmp_path, monkeypatch, name, look):
    state, _ = Storage(tmp_path / "checkpoints").written(filled(make()))
    monkeypatch.setattr(sys.modules[__name__], "Color", Later)
    forget_classes()
    try:
        backend = restored(make(), [read(state)])
        backend.current_key = KEYS.identity(1)
        with pytest.raises(SerializationError) as raised:
            look(backend)
    finally:
        monkeypatch.undo()
        forget_classes()
    told = f"member 'RED' of {__name__}:Color, which has no such member here (it has BLUE)"
    assert told in str(raised.value)
    assert raised.value.__notes__ == [f"in the state {name!r}"]
