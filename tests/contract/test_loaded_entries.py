"""Serialised entries of a snapshot, loaded into tables that already have others.

Goal: in both runtimes a table has the last loaded entry of each key, whatever the types of keys and
values and however many there are, and truncated bytes leave no reference.  Method: dictionaries,
serialised entry by entry, loaded in parts.
"""

import gc
import importlib
import weakref

import pytest
from penstock.errors import CorruptStreamError, PenstockError
from penstock.serialization.type_serializer import TypeSerializer

from contract.codecs import RUNTIMES

ENTRY, NAMESPACE = b"\x01", b"\x02"
#: From one beyond those that an entry holds inline to the widest that is not written as text.
INTEGERS = [0, -1, 63, -33, 127, -129, 2**15, -(2**31), 2**31, 2**62 - 1, -(2**62)]
WIDE = [2**62, -(2**62) - 1, 2**63 - 1, -(2**63), 2**63, 2**200]
OTHERS = ["k", "", True, 1.0, (1, "two"), None, b"bytes"]


@pytest.fixture(params=RUNTIMES)
def modules(request):
    if request.param == "native":
        names = "penstock._native.state.state_table", "penstock._native.keys.keys"
    else:
        names = "penstock.taskexecutor.state.table", "penstock.serialization.pure.keys"
    return [importlib.import_module(name) for name in names]


def table_and_keys(modules, plain=int, kind="value"):
    tables, keys = modules
    return tables.StateTable("state", kind), keys.KeyReader(lambda key: key, -1, plain, None)


def written(entries, namespace=None):
    encode = TypeSerializer().serialize
    parts = [NAMESPACE, encode(namespace)] if namespace is not None else []
    for key, value in entries:
        parts += [ENTRY, encode(key), encode(value)]
    return b"".join(parts)


def model(keys, entries, namespace=None):
    return {(namespace, keys.identity(key)): value for key, value in entries}


def content(table):
    return {(namespace, key): value for namespace, key, value in table}


@pytest.mark.parametrize("plain", [int, str])
def test_keys_and_values_of_any_kind_are_read_back(modules, plain):
    table, keys = table_and_keys(modules, plain)
    values = [*INTEGERS, *WIDE, *OTHERS, [1, 2], {"a": [None]}]
    entries = [(key, values[i % len(values)]) for i, key in enumerate([*INTEGERS, *WIDE, *OTHERS])]
    entries += [(1000 + i, value) for i, value in enumerate(values * 40)]
    table.load(written(entries), keys)
    found = content(table)
    assert found == model(keys, entries)
    assert {type(value) for value in found.values()} == {type(value) for value in values}
    for key, value in entries:
        assert table.map(None).get(keys.identity(key)) == value


def test_later_entries_replace_earlier_ones(modules):
    """Also if a key occurs twice at once, and if the table has it already."""
    table, keys = table_and_keys(modules)
    table.map(None).put(7, "before")
    table.map(None).put(8, "stays")
    twice = [(key, f"{key}-{turn}") for turn in range(3) for key in (7, *range(100, 105))]
    table.load(written(twice), keys)
    table.load(written([(100, 1), (9, 2**70)]), keys)
    assert content(table) == {
        (None, 8): "stays", **model(keys, twice), (None, 100): 1, (None, 9): 2**70,
    }  # fmt: skip


def test_namespaces_are_apart_however_many_entries_they_have(modules):
    table, keys = table_and_keys(modules)
    parts = [(None, 5), (("w", 1), 32), (("w", 2), 33), (("w", 3), 1), (("w", 1), 3)]
    data, expected = b"", {}
    for number, (namespace, count) in enumerate(parts):
        entries = [(key, 100 * number + key) for key in range(count)]
        data += written(entries, namespace)
        expected |= model(keys, entries, namespace)
    table.load(data, keys)
    assert content(table) == expected


def test_timers_are_read_back(modules):
    table, keys = table_and_keys(modules, kind="timer")
    encode = TypeSerializer().serialize
    timers = [(1, None), ("a", "w"), ((1, 2), None), (2**70, ("w", 1))]
    data = NAMESPACE + encode(500)
    data += b"".join(ENTRY + encode(key) + encode(namespace) for key, namespace in timers)
    table.load(data, keys)
    assert set(content(table)) == {
        (500, identity if namespace is None and type(identity) is not tuple else
         (identity, namespace))
        for key, namespace in timers
        for identity in [keys.identity(key)]
    }  # fmt: skip


class Seen:
    """A value whose instances are counted; a call decodes it."""

    def __reduce__(self):
        return seen, ()


INSTANCES = weakref.WeakSet()


def seen():
    value = Seen()
    INSTANCES.add(value)
    return value


def test_bytes_that_end_early_are_refused_and_nothing_is_kept(modules):
    entries = [(key, Seen()) for key in (1, "two", 2**70)] * 12
    data = written(entries)
    whole_ends = set()
    position = 0
    for entry in entries:
        whole_ends.add(position := position + len(written([entry])))
    for end in range(1, len(data)):
        table, keys = table_and_keys(modules)
        if end in whole_ends:
            continue
        # A class that reads the bytes of another one may raise any error.
        with pytest.raises((PenstockError, ValueError, EOFError)):
            table.load(data[:end], keys)
        table.dispose()
    gc.collect()
    assert not INSTANCES


def test_invalid_entries_are_rejected(modules):
    table, keys = table_and_keys(modules)
    with pytest.raises(CorruptStreamError, match="0x07 where an entry"):
        table.load(written([(1, 2), (3, 4)]) + b"\x07", keys)
