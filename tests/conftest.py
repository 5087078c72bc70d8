"""Settings of all tests."""

import gc
import shutil
import signal
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from support.leftovers import Leftovers

pytest_plugins = [
    "support.costs",
    "support.flaky_tests",
    "support.lanes",
    "support.own_process",
    "support.process_state",
    "support.shaking",
    "support.shared_fork_servers",
    "support.unhurried_sources",
    "support.zones",
]

# Shells start background processes with Ctrl-C ignored, and a test's processes would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# The duration of an example, and of drawing it, measures the machine and its load, not the code.
UNHURRIED = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
# Each run draws the same examples, so what fails is what a change has broken; others on request.
settings.register_profile("penstock", derandomize=True, **UNHURRIED)
settings.register_profile("new-examples", derandomize=False, **UNHURRIED)
settings.load_profile("penstock")


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Pause the garbage collector while pytest collects, and exempt the collected objects for good.

    Modules and items are hundreds of megabytes that stay; each garbage collection would scan them.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


@pytest.fixture(scope="session", autouse=True)
def own_temporary_folder():
    """Create a temporary folder that only these tests use.

    Not one of pytest's folders, which other users, such as those of servers, cannot enter.
    """
    folder = tempfile.mkdtemp(prefix="penstock-tests-")
    Path(folder).chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(autouse=True)
def nothing_is_left(request):
    """Check that a test that runs jobs leaves no process, port, file, memory or Spark job."""
    if request.node.get_closest_marker("process") is None:
        yield
        return
    leftovers = Leftovers()
    yield
    leftovers.check()
