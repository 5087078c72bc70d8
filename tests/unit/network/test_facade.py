"""Selection of the runtime."""

import subprocess
import sys

import penstock.network
import pytest
from penstock.errors import ConfigurationError


def test_selection(monkeypatch):
    """The variable selects, native is the default, any other value is an error."""
    monkeypatch.delenv("PENSTOCK_RUNTIME", raising=False)
    assert penstock.network.runtime() == "native"
    monkeypatch.setenv("PENSTOCK_RUNTIME", "pure")
    assert penstock.network.runtime() == "pure"
    assert penstock.network.NetworkEnvironment.__module__ == "penstock.network.pure.environment"
    monkeypatch.setenv("PENSTOCK_RUNTIME", "fast")
    with pytest.raises(ConfigurationError, match="'fast'"):
        penstock.network.runtime()


@pytest.mark.parametrize("kind", ["native", "pure"])
def test_everything_is_there(monkeypatch, kind):
    """Every name of the facade is an object with that name in the selected runtime."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", kind)
    if kind == "native":
        pytest.importorskip("penstock._core")
    for name in penstock.network.__all__:
        assert getattr(penstock.network, name).__name__ == name
    place = "penstock._core" if kind == "native" else "penstock.network.pure.memory.segment"
    assert penstock.network.MemorySegment.__module__ == place


@pytest.mark.parametrize("kind", ["native", "pure"])
def test_older_interface(monkeypatch, kind):
    """A program can frame records itself and read them back."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", kind)
    if kind == "native":
        pytest.importorskip("penstock._core")
    from penstock.network import DeserializationResult, SerializationResult

    serializer = penstock.network.SpanningRecordSerializer()
    serializer.add_record(b"record")
    buffer = bytearray(4 + 6)
    result = serializer.continue_writing_with_next_buffer(buffer)
    assert result is SerializationResult.FULL_RECORD_MEMORY_SEGMENT_FULL
    deserializer = penstock.network.SpillingAdaptiveSpanningRecordDeserializer()
    deserializer.set_next_buffer(bytes(buffer))
    result, record = deserializer.get_next_record()
    assert result is DeserializationResult.LAST_RECORD_FROM_BUFFER
    assert record == b"record"


def test_missing_extension_is_an_error(monkeypatch):
    """Without the extension the native runtime is rejected, never replaced silently."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", "native")
    for name in ("penstock._core", "penstock._native.records.record_writer"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("NetworkEnvironment", "RecordWriter"):
        with pytest.raises(ConfigurationError, match="PENSTOCK_RUNTIME=pure"):
            penstock.network.load(name)


def test_unknown_name():
    with pytest.raises(AttributeError, match="NetworkEnvironmnet"):
        _ = penstock.network.NetworkEnvironmnet


@pytest.mark.process
def test_import_starts_nothing():
    """Importing the package loads neither runtime and starts no thread."""
    code = (
        "import sys, threading, penstock.network;"
        "assert threading.active_count() == 1;"
        "assert 'penstock.network.legacy.readers' not in sys.modules;"
        "unwanted = ('penstock._', 'penstock.network.pure.');"
        "assert not [m for m in sys.modules if m.startswith(unwanted)]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.process
def test_the_pure_twins_need_no_extension(monkeypatch):
    """Every name of the pure facade exists where the native modules cannot be imported."""
    code = (
        "import sys\n"
        "sys.modules['penstock._core'] = sys.modules['penstock._native'] = None\n"
        "from penstock.network.pure import *\n"
        "SpanningRecordSerializer().add_record(b'record')\n"
        "assert SpillingAdaptiveSpanningRecordDeserializer().has_unfinished_data is False\n"
        "assert codec_for(Types.LONG()).decode(codec_for(Types.LONG()).encode(7)) == 7"
    )
    monkeypatch.setenv("PENSTOCK_RUNTIME", "pure")
    subprocess.run([sys.executable, "-c", code], check=True)


def test_identifiers():
    """Equal names have equal identifiers of 60 bytes; numbers and attempts distinguish them."""
    from penstock.network import PartitionId

    named = PartitionId.named("words", producer=2)
    assert named == PartitionId.named("words", producer=2)
    assert len({named, PartitionId.named("words"), PartitionId.named("words", 2, 1)}) == 3
    assert PartitionId.random() != PartitionId.random()
    assert len(named) == len(PartitionId.random()) == 60
    with pytest.raises(ValueError, match="the attempt is -1"):
        PartitionId.named("words", attempt=-1)
