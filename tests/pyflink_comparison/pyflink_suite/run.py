"""Runs the tests that PyFlink has for its DataStream API against penstock.

    python -m pyflink_suite.run FOLDER [--only TEXT] [--log FILE] [--accept]

FOLDER is ``flink-python`` of Flink's source, of the version nearest to 2.3.0.  A test passes, is
disabled by PyFlink itself, needs Java's objects, or differs as an item of docs/pyflink.md says.
The verdicts are compared with those of ``recorded/pyflink_suite.json``.
"""

from __future__ import annotations

import argparse
import collections
import importlib
import json
import os
import subprocess
import sys
import traceback
import unittest
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parents[1] / "recorded" / "pyflink_suite.json"

PASSES = "passes"
SWITCHED_OFF = "switched off"
NEEDS_JAVA = "needs Java"
DIFFERS = "differs: "
"""The beginning of a verdict that ends with the text of an item of docs/pyflink.md."""

FAILS = "fails: "


class _Verdicts(unittest.TestResult):
    """Prints the verdict of each test as a line of JSON."""

    def addSuccess(self, test: unittest.TestCase) -> None:
        _report(test, PASSES)

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:
        del reason
        _report(test, SWITCHED_OFF)

    def addError(self, test: Any, err: Any) -> None:
        _report(test, _verdict_of(err[1]))
        traceback.print_exception(err[1])

    addFailure = addError


def _report(test: unittest.TestCase, verdict: str) -> None:
    print(
        json.dumps([test.id().removeprefix("pyflink."), verdict]), file=sys.__stdout__, flush=True
    )


def _verdict_of(error: BaseException | None) -> str:
    from penstock.errors import JvmOnlyError

    from pyflink_suite.stand_ins import NeedsJavaError

    first = error
    while error is not None:
        if isinstance(error, (NeedsJavaError, JvmOnlyError)):
            return NEEDS_JAVA
        if isinstance(error, AttributeError) and error.name and error.name.startswith("_j_"):
            return NEEDS_JAVA
        error = error.__cause__ or error.__context__
    text = " ".join(str(first).split())
    return f"{FAILS}{type(first).__name__}: {text:.200}"


def run_module(folder: Path, name: str) -> None:
    """Run the tests of a module in this process."""
    from pyflink_suite import stand_ins

    stand_ins.install(folder)
    module = importlib.import_module(name)
    unittest.defaultTestLoader.loadTestsFromModule(module).run(_Verdicts())


def _modules(folder: Path) -> list[str]:
    """Return the names of the modules with tests."""
    files = [
        file
        for room in ("common", "datastream")
        for file in folder.joinpath("pyflink", room).rglob("tests/test_*.py")
    ]
    names = [".".join(file.relative_to(folder).with_suffix("").parts) for file in sorted(files)]
    return [name for name in names if not name.endswith(".test_util")]


def _run_all(folder: Path, only: str, log: Any) -> dict[str, str]:
    """Run each module in a process, and return the verdict of each test."""
    found: dict[str, str] = {}
    for module in (name for name in _modules(folder) if only in name):
        command = [sys.executable, "-m", "pyflink_suite.run", str(folder)]
        done = subprocess.run(
            [*command, "--module", module],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            check=False,
            env={**os.environ, "PENSTOCK_CONFIGURATION": '{"execution.target": "local"}'},
        )
        for line in done.stdout.splitlines():
            test, verdict = json.loads(line)
            found[test] = verdict
        if done.returncode:
            found[module.removeprefix("pyflink.")] = (
                f"{FAILS}the process ends with {done.returncode}"
            )
    return found


def different(found: dict[str, str], recorded: dict[str, str]) -> list[str]:
    """Return a line for each test whose verdict is not the recorded one."""
    lines = []
    for test, verdict in found.items():
        known = recorded.get(test)
        if known is None:
            lines.append(f"{test}: {verdict} (not recorded)")
        elif verdict != known and not (verdict.startswith(FAILS) and known.startswith(DIFFERS)):
            lines.append(f"{test}: {verdict} (recorded: {known})")
    return lines


def main() -> int:
    """Run the suite; return 1 if a verdict is not the recorded one."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="a part of the names of the modules to run")
    parser.add_argument("--module", help=argparse.SUPPRESS)
    parser.add_argument("--log", default=os.devnull, help="where the errors of tests go")
    parser.add_argument("--accept", action="store_true", help="record the verdicts")
    given = parser.parse_args()
    folder = given.folder.resolve()
    if given.module:
        run_module(folder, given.module)
        return 0
    with open(given.log, "w") as log:
        found = _run_all(folder, given.only, log)
    recorded = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
    lines = different(found, recorded)
    print(*lines, sep="\n")
    for test, verdict in found.items():
        known = recorded.get(test, "")
        if verdict.startswith(FAILS) and known.startswith(DIFFERS):
            found[test] = known
    counts = collections.Counter(verdict.partition(": ")[0] for verdict in found.values())
    print(f"{len(found)} tests: " + ", ".join(f"{n} {word}" for word, n in counts.most_common()))
    if given.accept:
        RECORDED.write_text(json.dumps({**recorded, **found}, indent=1, sort_keys=True) + "\n")
    return 1 if lines else 0


if __name__ == "__main__":
    sys.exit(main())
