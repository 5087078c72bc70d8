"""Imports for values: packages with circular imports are complete in every thread.

Method: a package waits in its own import, and a second thread needs one of its modules meanwhile.
"""

import builtins
import importlib
import pickle
import sys
import threading

import pytest
from penstock.serialization import imports
from penstock.serialization.class_reference import resolve
from penstock.serialization.imports import unpickled
from support.patience import PATIENCE_S
from support.sessions import eventually

PACKAGE = {
    "__init__": f"""
import builtins
builtins.ring.begun.set()
assert builtins.ring.may_go_on.wait({PATIENCE_S})
from rings.one import One
from rings.two import Two
""",
    "one": """
import rings.two
class One:
    pass
""",
    "two": """
import builtins
builtins.ring.two_was_early = not builtins.ring.may_go_on.is_set()
import rings.one
class Two:
    pass
""",
}


class Ring:
    def __init__(self):
        self.begun, self.may_go_on = threading.Event(), threading.Event()
        self.two_was_early = False


@pytest.fixture
def ring(tmp_path, monkeypatch):
    """Yield the control of a package that is not imported yet."""
    folder = tmp_path / "rings"
    folder.mkdir()
    for name, source in PACKAGE.items():
        (folder / f"{name}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    made = Ring()
    monkeypatch.setattr(builtins, "ring", made, raising=False)
    yield made
    made.may_go_on.set()
    for name in ("rings", "rings.one", "rings.two"):
        sys.modules.pop(name, None)
        imports._imported.discard(name)


class Started(threading.Thread):
    """A thread that stores the result of a call or its exception."""

    def __init__(self, call):
        super().__init__(daemon=True)
        self.call, self.result = call, None
        self.start()

    def run(self):
        try:
            self.result = self.call()
        except BaseException as error:
            self.result = error

    def value(self):
        self.join(PATIENCE_S)
        return self.result

    def waits(self):
        """Return whether the thread waits for an import lock, or has ended without waiting."""
        frame = sys._current_frames().get(self.ident)
        return frame is None or frame.f_code.co_name in ("import_for_value", "acquire")


def instance_of(module, name):
    """Return the pickle of an instance of a class that this process has not imported."""
    return (
        b"\x80\x04\x8c"
        + bytes([len(module)])
        + module.encode()
        + b"\x8c"
        + bytes([len(name)])
        + name.encode()
        + b"\x93)\x81."
    )


WAYS = {
    "pickled": lambda: unpickled(instance_of("rings.two", "Two")),
    "by its class": lambda: resolve("rings.two:Two")(),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "first",
    [lambda: unpickled(instance_of("rings.one", "One")), lambda: importlib.import_module("rings")],
    ids=["another value", "user code"],
)
def test_a_value_waits_until_its_package_is_whole(ring, first, way):
    importing = Started(first)
    assert ring.begun.wait(PATIENCE_S)
    second = Started(WAYS[way])
    eventually(second.waits, "the second thread waits")
    ring.may_go_on.set()
    assert type(second.value()).__qualname__ == "Two"
    assert not isinstance(importing.value(), BaseException)
    assert not ring.two_was_early


def test_values_of_many_classes_are_unpickled():
    values = [1, {"a": [1.5, None]}, frozenset({2}), range(3), ValueError("x"), pickle.PickleError]
    assert repr(unpickled(pickle.dumps(values))) == repr(values)


MOVED = {
    "penstock.datastream.connectors.kafka.partitions": "KafkaPartitionSplit",
    "penstock.datastream.connectors.dynamic_kafka.splits": "DynamicKafkaSourceSplit",
    "penstock.datastream.connectors.committer": "CommittableSummary",
    "penstock.datastream.connectors.http_source": "HttpSplit",
    "penstock.datastream.connectors.hybrid_splits": "HybridSplit",
    "penstock.datastream.connectors.queues": "QueueSplit",
    "penstock.datastream.connectors.split_source": "InputStatus",
    "penstock.datastream.connectors.delta.changes": "ChangesSplit",
    "penstock.datastream.connectors.iceberg.reader": "TableFile",
    "penstock.datastream.connectors.mqtt.source": "MqttSplit",
    "penstock.datastream.connectors.postgres_cdc.description": "TableSplit",
    "penstock.datastream.connectors.rabbitmq.source": "RMQSplit",
    "penstock.datastream.formats.file_format": "FileRange",
    "penstock.taskexecutor.sinks.part_file": "PendingFile",
    "penstock.taskexecutor.sources.file_splits": "FileSplit",
}


@pytest.mark.parametrize("module", MOVED)
def test_a_value_of_a_class_whose_module_was_moved_is_read(module):
    """Savepoints from before the move contain the former name."""
    name = MOVED[module]
    by_name = b"\x80\x04c" + f"{module}\n{name}\n".encode() + b"."
    found = unpickled(by_name)
    assert (found.__name__, found) == (name, resolve(f"{module}:{name}"))
    assert found.__module__ != module
