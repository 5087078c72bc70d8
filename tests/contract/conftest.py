"""The contract tests run against both runtimes; the native one is skipped only if unbuilt."""

import contextlib
import os
import threading
from pathlib import Path

import pytest
from support.full_disk import disk_for

from contract.codecs import RUNTIMES as CODEC_RUNTIMES
from contract.codecs import codec_of
from contract.plane import NATIVE_IS_BUILT, Plane, eventually

RUNTIMES = [
    pytest.param(
        "native",
        marks=pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._core is not built"),
    ),
    "pure",
]


@pytest.fixture(params=CODEC_RUNTIMES)
def kind(request):
    """Return the runtime whose codecs are tested."""
    return request.param


@pytest.fixture(params=CODEC_RUNTIMES)
def codec(request):
    """Return the codec of undeclared values."""
    return codec_of(request.param, None)


@pytest.fixture
def no_memory_stays():
    """Check that environments leave no shared memory, neither their own nor a peer's."""
    before = shared_memory()
    yield
    eventually(lambda: shared_memory() == before, f"{shared_memory()} instead of {before}")


def shared_memory():
    """Return descriptors of open shared memory in this process, and its mappings."""
    opened = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            if "memfd:penstock " in os.readlink(f"/proc/self/fd/{descriptor}"):
                opened.append(descriptor)
    maps = Path("/proc/self/maps").read_text().splitlines()
    return opened, [line for line in maps if "memfd:penstock " in line]


@pytest.fixture(params=RUNTIMES)
def plane(request, monkeypatch):
    """Yield a runtime; close its environments afterwards, and check that no thread is left."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", request.param)
    before = set(threading.enumerate())
    plane = Plane(request.param)
    yield plane
    plane.close()
    # Not those that an earlier test has left.
    new = [t for t in threading.enumerate() if t not in before]
    left = [t.name for t in new if not t.daemon or t.name.startswith("penstock-")]
    assert not left, f"threads left behind: {left}"


@pytest.fixture(params=RUNTIMES)
def other_plane(request, plane):
    """Return another executor's runtime, the same one or the other one."""
    del plane
    other = Plane(request.param)
    yield other
    other.close()


@pytest.fixture(params=["local", "same-host", "remote"])
def link(request):
    """Return whether producer and consumer share an environment, a host, or only a network."""
    return request.param


@pytest.fixture
def pair(plane, link):
    """Return a producing and a consuming environment, and a function that joins them."""
    plane.same_host_path = link == "same-host"
    producer = plane.environment()
    consumer = producer if link == "local" else plane.environment()
    return producer, consumer, link == "local"


@pytest.fixture
def limited_file_size():
    """Return a context in which no file of this process may exceed a size: a full disk."""
    return disk_for
