"""Runs cases under PyFlink, to record, or under penstock, to compare.

python -m pyflink_oracle.run record [calls|values|programs|plans]
python -m pyflink_oracle.run compare [calls|values|programs|plans] [--all] [--accept]
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from pyflink_oracle import coders, kinds, outcomes, recording, values
from pyflink_oracle.calls import call_cases
from pyflink_oracle.library import Library
from pyflink_oracle.plans import check_complete, run_plans
from pyflink_oracle.programs import USES, programs
from pyflink_oracle.programs.flink import Flink

CASES = ("calls", "values", "programs", "plans")

#: One of so many cases runs, among cases that need a job each.
SAMPLE = 16

#: Subjects of many programs, of which only one of so many is compared.
LARGE_SUBJECTS = ("given", "relatives", "typed", "written", *USES)
SAMPLE_OF_PROGRAMS = 6

#: Text of Java that differs in each process: an object's address, a pickled class.
_OF_ONE_PROCESS = re.compile(r"@[0-9a-f]{5,}|__class__=")

#: Positions without serialisation between two functions, or without PyFlink's coders.
_WITHOUT_CODER = ("source", "source_in_function", "map_chained")


def run_calls(library: Library, cases: list[str]) -> dict[str, str]:
    """Return the outcome of each expression; those that do not end have none."""
    found = {}
    for case in cases:
        names = library.names()
        code = compile(case, case, "eval")
        signal.alarm(10)
        try:
            found[case] = outcomes.outcome_of(lambda code=code, names=names: eval(code, names))
        except values.TooLongError:
            print("too long:", case, file=sys.stderr)
        finally:
            signal.alarm(0)
    return found


def record_calls(library: Library) -> None:
    """Record all calls."""
    found = run_calls(library, list(call_cases(library)))
    content = {"getters": outcomes.getters, **recording.by_outcome(found)}
    recording.save("calls.json", content)


def record_values(library: Library) -> None:
    """Record all values, position by position."""
    groups: dict[tuple[str, str], list[str]] = {}
    for position, kind, value in values.value_cases():
        groups.setdefault((position, kind), []).append(value)
    found: dict[str, str] = {}
    for (position, kind), given in groups.items():
        outcome = _recorded(library, position, kind, given)
        found.update(
            (f"{position} | {kind} | {value}", text)
            for value, text in outcome.items()
            if _OF_ONE_PROCESS.search(text) is None
        )
        recording.save("values.json", recording.by_outcome(found))


def _recorded(library: Library, position: str, kind: str, given: list[str]) -> dict[str, str]:
    if outcomes.outcome_of(lambda: eval(kind, library.names())).startswith("!"):
        return {}
    if position in _WITHOUT_CODER:
        return values.run_values(library, position, kind, given, set())
    given = coders.without_short_ones(kind, given)
    bad = coders.refused(library, kind, given)
    good = [value for value in given if value not in bad]
    answered = values.run_values(library, position, kind, good, set())
    return {value: answered.get(value, "!Py4JJavaError") for value in given}


def record_programs(only: str) -> None:
    """Record the programs whose names contain `only`, and keep the other records.

    They run in another process, since some crash PyFlink; the remaining ones run in the next one.
    """
    recorded = recording.load("programs.json") if only else {}
    left = [name for name in programs() if only in name]
    while left:
        with tempfile.TemporaryDirectory() as folder:
            answers = Path(folder) / "answers"
            answers.touch()
            command = [sys.executable, "-m", "pyflink_oracle.run", "answer", str(answers), *left]
            ended = subprocess.run(command, check=False).returncode
            answered = [json.loads(line) for line in answers.read_text().splitlines()]
        recorded |= {name: outcome for name, outcome in answered if outcome is not None}
        left = left[len(answered) :]
        if left:
            print(f"ended PyFlink with {ended}:", left.pop(0), file=sys.stderr)
        ordered = {name: recorded[name] for name in programs() if name in recorded}
        recording.save("programs.json", ordered)


def answer_programs(library: Library, path: str, names: list[str]) -> None:
    """Append a line of JSON for each program to a file, its name and its outcome, or None."""
    for name in names:
        outcome = run_programs(library, [name]).get(name)
        with Path(path).open("a") as answers:
            answers.write(json.dumps([name, outcome]) + "\n")


def run_programs(library: Library, names: list[str]) -> dict[str, Any]:
    """Return the outcome of each program as JSON has it; those that do not end have none."""
    found: dict[str, Any] = {}
    known = programs()
    for name in names:
        signal.alarm(300)  # the first job of a JVM takes long
        try:
            found[name] = json.loads(json.dumps(known[name](Flink(library))))
        except Exception as error:
            found[name] = outcomes.error_text(error)
        except values.TooLongError:
            print("too long:", name, file=sys.stderr)
        finally:
            signal.alarm(0)
    return found


def record_plans(library: Library) -> None:
    """Record how records are partitioned behind each method of each kind of stream."""
    check_complete(library)
    recording.save("plans.json", recording.by_outcome(run_plans(library)))


def compare_plans() -> tuple[dict[str, str], dict[str, str]]:
    """Return the recorded outcomes and penstock's; an unrecorded case has "nothing"."""
    found = run_plans(Library("penstock"))
    return dict.fromkeys(found, "nothing") | recording.by_case(recording.load("plans.json")), found


def compare_programs(only: str, everything: bool) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the recorded outcomes and penstock's; of large subjects a sample for each runtime."""
    recorded = recording.load("programs.json")
    names = [name for name in recorded if only in name]
    if not everything:
        chosen = int(os.environ.get("PENSTOCK_RUNTIME") == "pure")
        names = [
            name
            for name in names
            if name.split(".")[0] not in LARGE_SUBJECTS
            or zlib.crc32(name.encode()) % SAMPLE_OF_PROGRAMS == chosen
        ]
    return recorded, run_programs(Library("penstock"), names)


def compare_calls() -> tuple[dict[str, str], dict[str, str]]:
    """Return the recorded outcomes and penstock's."""
    content = recording.load("calls.json")
    outcomes.getters.update(content.pop("getters"))
    recorded = recording.by_case(content)
    return recorded, run_calls(Library("penstock"), list(recorded))


def compare_values(everything: bool) -> tuple[dict[str, str], dict[str, str]]:
    """Return the recorded outcomes and penstock's; of rejected values a sample."""
    library = Library("penstock")
    recorded = recording.by_case(recording.load("values.json"))
    if not everything:
        recorded = {
            case: outcome
            for case, outcome in recorded.items()
            if not outcome.startswith("!") or zlib.crc32(case.encode()) % SAMPLE == 0
        }
    groups: dict[tuple[str, str], dict[str, str]] = {}
    for case, outcome in recorded.items():
        position, kind, value = case.split(" | ")
        groups.setdefault((position, kind), {})[value] = outcome
    found = {}
    for (position, kind), given in groups.items():
        suspects = {value for value, outcome in given.items() if outcome.startswith("!")}
        answers = values.run_values(library, position, kind, list(given), suspects)
        found.update({f"{position} | {kind} | {value}": text for value, text in answers.items()})
    return recorded, found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("action", choices=["record", "compare"])
    parser.add_argument("cases", nargs="?", choices=CASES)
    parser.add_argument("--all", action="store_true", help="without sampling")
    parser.add_argument("--only", default="", help="programs whose names contain this")
    parser.add_argument("--accept", action="store_true", help="write the differences down as known")
    if sys.argv[1:2] == ["answer"]:
        signal.signal(signal.SIGALRM, values.give_up)
        library = Library("pyflink")
        library.share_python_workers()
        answer_programs(library, sys.argv[2], sys.argv[3:])
        os._exit(0)  # PyFlink's threads would keep the process alive
    args = parser.parse_args()
    signal.signal(signal.SIGALRM, values.give_up)
    wanted = CASES if args.cases is None else (args.cases,)
    if args.action == "record":
        for name in wanted:
            if name == "programs":
                record_programs(args.only)
                continue
            library = Library("pyflink")
            library.share_python_workers()
            {"calls": record_calls, "values": record_values, "plans": record_plans}[name](library)
        return 0
    os.environ["PENSTOCK_CONFIGURATION"] = json.dumps({"execution.target": "in-process"})
    failed = False
    for name in wanted:
        recorded, found = {
            "calls": compare_calls,
            "values": lambda: compare_values(args.all),
            "programs": lambda: compare_programs(args.only, args.all or bool(args.only)),
            "plans": compare_plans,
        }[name]()
        failed |= report(name, recorded, found, accept=args.accept)
    return int(failed)


def report(
    name: str, recorded: dict[str, Any], found: dict[str, Any], *, accept: bool = False
) -> bool:
    """Print unknown and outdated differences; return whether there are any."""
    differing = {
        case: kinds.kind_of(name, case, str(outcome), str(found[case]))
        for case, outcome in recorded.items()
        if case in found and not outcomes.agree(outcome, found[case])
    }
    known_file = f"{name}_known_differences.json"
    if accept:
        by_kind: dict[str, list[str]] = {}
        for case, kind in differing.items():
            if kind is not None:
                by_kind.setdefault(kind, []).append(case)
        recording.save(known_file, by_kind)
    known = recording.by_case(recording.load(known_file))
    new = [case for case, kind in differing.items() if known.get(case) is None or kind is None]
    other = [case for case, kind in differing.items() if case not in new and known[case] != kind]
    gone = [case for case in known if case in found and case not in differing]
    for case in new:
        print(
            f"{case}\n    pyflink:  {_short(recorded[case])}\n    penstock: {_short(found[case])}"
        )
        print(f"    of the kind {differing[case] or 'that nobody has judged, see kinds.py'}")
    for case in other:
        print(f"{case}\n    is {differing[case]!r} now, listed as {known[case]!r}")
    for case in gone:
        print(f"{case}\n    agrees now: take it out of {known_file}")
    print(f"{len(found)} {name}, {len(differing)} differ, {len(new)} of them unknown")
    return bool(new or other or gone)


def _short(outcome: Any) -> str:
    return str(outcome)[:300]


if __name__ == "__main__":
    sys.exit(main())
