"""Requirements of tests, by their markers, and their distribution to processes of pytest.

A test is marked with its needs: `process`, `spark`, `kafka`, `server` or `browser`.  Tests with one
of the last four need processes, too, and so do all tests in the folders whose tests run jobs.

`make test` skips tests marked `slow`.  Two kinds of tests that need processes are marked
automatically: runs with the pure runtime, whose parts the contract suite compares with the native
ones (in that suite they are not marked), and, in the folders of failures and of Spark, all but the
first parameters of each test.
"""

import json
import os
import tempfile
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

NEEDS = {
    "process": "starts processes, such as the workers of a job",
    "spark": "needs Java and pyspark; starts a real Spark",
    "kafka": "needs the broker of Kafka that these tests share",
    "server": "needs a server that is no part of penstock, such as a broker or a database",
    "browser": "needs Chromium",
}
SLOW = "slow: is left out by `make test`, unless all tests are asked for"
#: Every test in these folders runs a job, or something else with processes.
FOLDERS = {"e2e", "integration", "recovery"}
#: In these folders the first parameters of a test show the mechanism; the others are variants.
FOLDERS_OF_VARIANTS = {"e2e", "recovery"}
#: In these folders a run with the pure runtime is no variant: they compare the runtimes.
FOLDERS_OF_RUNTIMES = {"contract", "pyflink_comparison"}
#: Tests of a lane run one after the other: each Spark uses gigabytes, and a broker starts slowly.
LANES = ("spark", "kafka")


def needs(item, name):
    return item.get_closest_marker(name) is not None


def pytest_configure(config):
    for name, meaning in NEEDS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.addinivalue_line("markers", SLOW)
    config.pluginmanager.register(Needs(config), "needs_of_tests")


@pytest.hookimpl(optionalhook=True)  # without the plugin xdist
def pytest_xdist_make_scheduler(config, log):
    config.option.loadscopereorder = False
    return Lanes(config, log)


class Needs:
    """The needs of each test by name, also in the process that assigns tests to workers."""

    def __init__(self, config):
        self._needs = {}
        self._folder = None
        self._told_by = getattr(config, "workerinput", {}).get("needs_of_tests")

    @pytest.hookimpl(optionalhook=True)
    def pytest_configure_node(self, node):
        """Let a worker write the needs of its tests: workers send only names."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="penstock-needs-")
        node.workerinput["needs_of_tests"] = str(Path(self._folder.name) / "needs.json")

    def pytest_unconfigure(self):
        if self._folder is not None:
            self._folder.cleanup()

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(self, collector):
        """Let each worker begin with other files.

        The first import of a test file rewrites its assertions, which takes as long as the rest;
        later ones read the result.
        """
        report = yield
        if isinstance(collector, pytest.Directory) and (worker := _worker_of(collector.config)):
            number, workers = worker
            first = len(report.result) * number // workers
            report.result = report.result[first:] + report.result[:first]
        return report

    @pytest.hookimpl(tryfirst=True)  # so that these markers can select tests, too
    def pytest_collection_modifyitems(self, config, items):
        if _worker_of(config):  # all workers number the tests alike
            items.sort(key=lambda item: item.path.parts)
        shown = set()
        for item in items:
            folders = set(_file_of(item).split("/"))
            # Looked up once, as there are thousands of tests.
            names = {mark.name for mark in item.iter_markers()}
            found = names & NEEDS.keys()
            if folders & FOLDERS or found:
                found.add("process")
                item.add_marker(pytest.mark.process)
                is_variant = folders & FOLDERS_OF_VARIANTS and _test_of(item) in shown
                if is_variant or (_runs_pure(item) and not folders & FOLDERS_OF_RUNTIMES):
                    item.add_marker(pytest.mark.slow)
                else:
                    shown.add(_test_of(item))
            self._needs[item.nodeid] = [name for name in NEEDS if name in found]
            if not found and "slow" in names:
                self._needs[item.nodeid] = ["slow"]
        # These tests take longest, so they start first.
        first = (*LANES, "process")
        items.sort(key=lambda item: [name not in self._needs[item.nodeid] for name in first])
        if self._told_by is not None:
            self._tell(Path(self._told_by))

    def of(self, nodeid):
        if not self._needs and self._folder is not None:
            path = Path(self._folder.name) / "needs.json"
            self._needs = json.loads(path.read_text())
        return self._needs[nodeid]

    def _tell(self, path):
        own = path.with_suffix(f".{os.getpid()}")
        own.write_text(json.dumps(self._needs))
        own.replace(path)  # all workers write the same


def _worker_of(config):
    """Return the number of this worker, and how many there are; None outside of workers."""
    told = getattr(config, "workerinput", None)
    return told and (int(told["workerid"].removeprefix("gw")), told["workercount"])


def _file_of(item):
    return item.nodeid.partition("::")[0]


def _test_of(item):
    return item.nodeid.partition("[")[0]


def _runs_pure(item):
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return parameters.get("runtime") == "pure"


class Lanes(LoadScopeScheduling):
    """Assigns to a worker the tests of one file, those of a lane, or a slow test without needs."""

    def _split_scope(self, nodeid):
        found = self.config.pluginmanager.getplugin("needs_of_tests").of(nodeid)
        if found == ["slow"]:  # such as one of many seeds
            return nodeid
        return next((lane for lane in LANES if lane in found), nodeid.partition("::")[0])

    def remove_node(self, node):
        """Return the test that ran when the worker crashed; another one runs the rest.

        The base class also queues the crashed test, which might then crash every worker in turn.
        """
        units = self.assigned_work[node].values()
        pending = ((unit, test) for unit in units for test in unit if not unit[test])
        unit, crashed = next(pending, (None, None))
        if unit is None:
            return super().remove_node(node)
        unit[crashed] = True
        self.workqueue.update(self.assigned_work.pop(node))
        for other in self.assigned_work:
            self._reschedule(other)
        return crashed
