"""Steps of sources that no time ends: on a busy machine they would end at another record."""

import importlib

import pytest


@pytest.fixture
def unhurried_sources(monkeypatch):
    """Let each step of a source emit as many records as it may."""
    # Not at the top: the pytest that only distributes tests has no need of penstock.
    from penstock.taskexecutor import compiled
    from penstock.taskexecutor.sources import split_source

    module = importlib.import_module(compiled.NumberSequenceSource.__module__)
    monkeypatch.setattr(module, "monotonic_ns", lambda: 0)
    monkeypatch.setattr(split_source, "_STEP_NS", 1 << 62)
