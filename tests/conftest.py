"""Settings of all tests."""

import signal

from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# What a shell starts in the background ignores Ctrl-C, and so would every process of a test.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long one example takes measures the machine and what else it does, not the code.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")

#: Tests that start no processes, or hardly any.
OF_ONE_PROCESS = (
    "tests/contract/",
    "tests/pyflink_comparison/",
    "tests/simulation/",
    "tests/unit/",
)


class TwoLanes(LoadScopeScheduling):
    """Tests with processes of their own run one after the other, the others beside them by file."""

    def _split_scope(self, nodeid):
        file = nodeid.partition("::")[0]
        return file if file.startswith(OF_ONE_PROCESS) else "processes"


def pytest_xdist_make_scheduler(config, log):
    """With `-n 2`."""
    return TwoLanes(config, log)
