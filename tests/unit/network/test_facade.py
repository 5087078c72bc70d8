"""Selection of the runtime."""

import subprocess
import sys

import penstock.network
import pytest
from penstock.errors import ConfigurationError


def test_selection(monkeypatch):
    """The variable selects, native is the default, anything else is an error."""
    monkeypatch.delenv("PENSTOCK_RUNTIME", raising=False)
    assert penstock.network.runtime() == "native"
    monkeypatch.setenv("PENSTOCK_RUNTIME", "pure")
    assert penstock.network.runtime() == "pure"
    assert penstock.network.NetworkEnvironment.__module__ == "penstock.network.pure.environment"
    monkeypatch.setenv("PENSTOCK_RUNTIME", "fast")
    with pytest.raises(ConfigurationError, match="'fast'"):
        penstock.network.runtime()


def test_missing_extension_is_an_error(monkeypatch):
    """Without the extension the native runtime is refused, never replaced in silence."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", "native")
    for name in ("penstock._core", "penstock._native.record_writer"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("NetworkEnvironment", "RecordWriter"):
        with pytest.raises(ConfigurationError, match="PENSTOCK_RUNTIME=pure"):
            penstock.network.load(name)


def test_unknown_name():
    with pytest.raises(AttributeError, match="NetworkEnvironmnet"):
        _ = penstock.network.NetworkEnvironmnet


def test_import_starts_nothing():
    """Importing the package loads neither runtime and starts no thread."""
    code = (
        "import sys, threading, penstock.network;"
        "assert threading.active_count() == 1;"
        "assert not [m for m in sys.modules if m.startswith(('penstock._', 'penstock.network.p'))]"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
