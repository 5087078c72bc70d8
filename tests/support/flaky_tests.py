"""A pytest plugin that runs failed tests of processes again, alone and once.

A test that passes then is flaky: it counts as passed, a section of the summary names it, and
`build/flaky` keeps the output of its first failure.  More flaky tests than ``--max-flaky`` fail the
run.  Tests of one process are not run again: they have no excuse.

The tests run again when all others have ended, each in a new pytest, so a test that crashed its
worker runs again like any other.
"""

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.leftovers import without_mark

#: More failures than these have a common cause, and a second run is useless.
MAX_RERUNS = 10
#: A safety net behind the timeout of each test.
GRACE_S = 300
#: The end of the second run's output that the summary shows.
SHOWN_LINES = 60


def pytest_addoption(parser):
    parser.getgroup("flaky tests").addoption(
        "--max-flaky",
        type=int,
        metavar="N",
        help="run failed tests of processes again, alone and once; those that pass are flaky, "
        "and more than N flaky tests fail the run",
    )


def pytest_configure(config):
    on_worker = hasattr(config, "workerinput")
    if config.option.max_flaky is not None and not on_worker and not config.option.collectonly:
        config.pluginmanager.register(FlakyTests(config), "flaky_tests")


class Failure:
    """Tests that failed together: a single test, or all tests that one broken fixture blocked."""

    def __init__(self):
        self.reports = {}
        self.path = None
        self.second_output = None

    @property
    def tests(self):
        return list(self.reports)

    @property
    def passed(self):
        return self.path is not None and self.second_output is None

    @property
    def first_line(self):
        longrepr = next(iter(self.reports.values()))[0].longrepr
        crash = getattr(longrepr, "reprcrash", None)
        text = str(longrepr) if crash is None else crash.message
        return text.partition("\n")[0]


class FlakyTests:
    def __init__(self, config):
        self._config = config
        self._allowed = config.option.max_flaky
        self._folder = config.rootpath / "build" / "flaky"
        self._failures = {}
        self._flaky = []
        self._not_rerun = 0
        shutil.rmtree(self._folder, ignore_errors=True)

    def pytest_runtest_logreport(self, report):
        if not report.failed:
            return
        needs = self._config.pluginmanager.getplugin("needs_of_tests")
        if "process" in needs.of(report.nodeid):
            failure = self._failures.setdefault(_cause(report), Failure())
            failure.reports.setdefault(report.nodeid, []).append(report)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtestloop(self, session):
        result = yield
        if len(self._failures) > MAX_RERUNS:
            self._not_rerun = len(self._failures)
        else:
            for failure in self._failures.values():
                self._run_again(failure)
            self._flaky = [failure for failure in self._failures.values() if failure.passed]
        if len(self._flaky) <= self._allowed:
            for failure in self._flaky:
                self._forgive(session, failure)
        return result

    def pytest_report_teststatus(self, report):
        return ("flaky", "f", "FLAKY") if hasattr(report, "flaky") else None

    def pytest_terminal_summary(self, terminalreporter):
        if self._not_rerun:
            terminalreporter.section("flaky tests")
            terminalreporter.line(
                f"{self._not_rerun} tests of processes failed, more than {MAX_RERUNS}: "
                "none was run again"
            )
        if not self._flaky:
            return
        terminalreporter.section("flaky tests")
        for failure in self._flaky:
            for test in failure.tests:
                terminalreporter.line(f"FLAKY {test} - {failure.first_line}")
            terminalreporter.line(f"    first failure: {failure.path}")
        if len(self._flaky) > self._allowed:
            terminalreporter.line(
                f"{len(self._flaky)} tests were flaky, more than {self._allowed}: they fail the run"
            )

    def _run_again(self, failure):
        """Run the tests of a failure in a new pytest and keep the output of the first run."""
        self._folder.mkdir(parents=True, exist_ok=True)
        name = re.sub(r"[^\w.=-]+", "_", failure.tests[0])[:150]
        failure.path = self._folder / f"{name}.txt"
        failure.path.write_text(
            "".join(_text_of(report) for reports in failure.reports.values() for report in reports)
        )
        passed, output = _run_alone(self._config, failure.tests)
        if not passed:
            failure.second_output = output
            shown = "\n".join(output.splitlines()[-SHOWN_LINES:])
            with failure.path.open("a") as file:
                file.write(f"\n==== second run, alone, failed too ====\n{output}")
            for reports in failure.reports.values():
                reports[-1].sections.append(("Second run, alone", shown))

    def _forgive(self, session, failure):
        """Count the tests as passed instead of failed."""
        stats = self._config.pluginmanager.getplugin("terminalreporter").stats
        for test, reports in failure.reports.items():
            for category in ("failed", "error"):
                stats[category] = [one for one in stats.get(category, []) if one not in reports]
            session.testsfailed -= len(reports)
            if not any(one.nodeid == test for one in stats.get("passed", [])):
                self._log(_report_of_success(reports[0]))
            flaky = _report_of_success(reports[0])
            flaky.flaky = True
            self._log(flaky)

    def _log(self, report):
        self._config.hook.pytest_runtest_logreport(report=report)


def _cause(report):
    """Return the common cause of failures: a broken module fixture fails all its tests."""
    crash = getattr(report.longrepr, "reprcrash", None)
    if report.when != "setup" or crash is None:
        return report.nodeid
    return (report.nodeid.partition("::")[0], crash.path, crash.lineno, crash.message)


def _report_of_success(failed):
    return pytest.TestReport(
        failed.nodeid, failed.location, failed.keywords, "passed", longrepr=None, when="call"
    )


def _text_of(report):
    sections = "".join(f"\n---- {title} ----\n{content}" for title, content in report.sections)
    return f"==== {report.nodeid}: {report.when} ====\n{report.longreprtext}\n{sections}\n"


def _run_alone(config, tests):
    """Return whether all of the tests passed in a new pytest, and its output."""
    timeout_s = float(config.getini("timeout") or 0) * len(tests) + GRACE_S
    with tempfile.TemporaryDirectory(prefix="penstock-rerun-") as folder:
        results = Path(folder) / "results.xml"
        with subprocess.Popen(
            [
                *(sys.executable, "-m", "pytest", *tests, f"--junitxml={results}"),
                *(f"--rootdir={config.rootpath}", "-p", "no:cacheprovider", "-p", "no:xdist"),
                *(["-c", str(config.inipath)] if config.inipath else []),
            ],
            cwd=config.rootpath,
            env=without_mark(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,  # so that all its child processes can be ended with it
        ) as run:
            try:
                output, _ = run.communicate(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(run.pid, signal.SIGKILL)
                output, _ = run.communicate()
                output += f"\nended after {timeout_s:.0f} s"
        passed = run.returncode == 0 and _passed(results) == len(tests)
        return passed, output


def _passed(results):
    """Return the number of passed tests in a JUnit file."""
    suite = ElementTree.parse(results).getroot().find("testsuite")
    return int(suite.get("tests")) - sum(
        int(suite.get(name)) for name in ("errors", "failures", "skipped")
    )
