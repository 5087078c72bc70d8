"""Runs PyFlink programs of other people, unchanged, and reports which of them work.

    python benchmarks/strangers/verdicts.py FOLDER [--seconds 20] [--tables] [--most 3]

FOLDER has one folder for each repository.  Each program that imports PyFlink's DataStream API but
no Table API, or with ``--tables`` each that creates a table environment of Flink 2, is run by
``penstock run --as-pyflink`` in its own folder, with its repository on the module search path.  A
program that is still running after the given time counts as running: it waits for a broker, or its
sources are endless.
"""

import argparse
import collections
import os
import re
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

#: Patterns of a program's output, in order of priority: verdict, pattern, reason. A group of the
#: pattern replaces ``{}`` in the reason.
REASONS = [
    ("stops", r"JvmOnlyError: .*(Elasticsearch|Pulsar|Kinesis)", "the connector of {} is missing"),
    ("stops", r"JvmOnlyError: ([\w.]+)", "`{}` needs a JVM"),
    ("stops", r"cannot import name '(\w+)' from '(?:pyflink|penstock)", "`{}` cannot be imported"),
    ("stops", r"No module named '((?:pyflink|penstock)[\w.]*)'", "`{}` cannot be imported"),
    ("stops", r"AttributeError: '(?:\w+)' object has no attribute '(\w+)'", "`{}` is missing"),
    ("needs", r"No module named '([\w.]+)'", "the module `{}`"),
    ("stops", r"no connector for ([\w ]+)", "there is no connector for {}"),
    ("stops", r"Cannot discover a connector using option 'connector'='(\w+)'", "no connector `{}`"),
    ("needs", r"(Aborted!)", "answers at a terminal"),
    ("broken", r"(SyntaxError|IndentationError|NameError|mutable default)", "its own mistake"),
    (
        "needs",
        r"(No such file|FileNotFoundError|no such file|was not found)",
        "a file of its author",
    ),
    ("needs", r"(arguments are required|IndexError|KeyError: '[A-Z_]+'|got None)", "settings"),
    ("needs", r"(cannot connect|refused|[Rr]esolve)", "a missing server"),
]
#: Names that Flink 2 has removed: programs with them are for Flink 1.
REMOVED = re.compile(
    r"table\.descriptors|BatchTableEnvironment|CsvTable|use_blink_planner|"
    r"register_table_s|table\.sources|table\.sinks|pyflink\.dataset|WriteMode|sql_update"
)
ENVIRONMENT = re.compile(r"TableEnvironment\s*\.\s*create")
TABLES = re.compile(r"pyflink\.(table|ml|dataset)|StreamTableEnvironment")
IMPORT = re.compile(r"^\s*(from|import) pyflink", re.MULTILINE)


def programs(folder):
    """Return the programs below a folder that use only the DataStream API."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(errors="replace")
        if IMPORT.search(text) and "StreamExecutionEnvironment" in text and not TABLES.search(text):
            found.append(path)
    return found


def table_programs(folder, most):
    """Return up to a number of the programs below a folder that create table environments."""
    found = []
    for path in sorted(folder.rglob("*.py")):
        text = path.read_text(errors="replace")
        if IMPORT.search(text) and ENVIRONMENT.search(text) and not REMOVED.search(text):
            found.append(path)
    return found[:most]


def run(path, repository, seconds, target):
    """Return the exit status of a program, None if it was still running, and its output."""
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryFile() as output:
        places = [str(repository), str(repository / "src"), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places), "TMPDIR": folder}
        command = [sys.executable, "-m", "penstock", "run", "--as-pyflink", "--target", target]
        with subprocess.Popen(
            [*command, path.name],
            cwd=path.parent,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        ) as process:
            try:
                status = process.wait(seconds)
            except subprocess.TimeoutExpired:
                status = None
                os.killpg(process.pid, signal.SIGKILL)
        output.seek(0)
        return status, output.read().decode(errors="replace")


def verdict(status, output):
    """Return in one word whether a program runs, and what it does or lacks."""
    if status is None:
        waits = re.search("kafka|broker", output, re.IGNORECASE)
        return "runs", "waits for a broker" if waits else "has no end"
    if status == 0 and "JvmOnlyError" not in output:
        return "runs", "to its end"
    for word, pattern, reason in REASONS:
        match = re.search(pattern, output)
        if match:
            return word, reason.format(match.group(1))
    lines = output.strip().splitlines() or ["no output"]
    errors = [line for line in lines if re.match(r"[\w.]+(Error|Exception): ", line)]
    return "refused", (errors or lines)[-1][:160]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--tables", action="store_true", help="programs with tables")
    parser.add_argument("--most", type=int, default=3, help="programs with tables per repository")
    parser.add_argument("--target", default="local")
    given = parser.parse_args()
    counts = collections.Counter()
    print("| repository | program | verdict | why |\n|---|---|---|---|")
    for repository in sorted(path for path in given.folder.resolve().iterdir() if path.is_dir()):
        chosen = table_programs(repository, given.most) if given.tables else programs(repository)
        for path in chosen:
            word, reason = verdict(*run(path, repository, given.seconds, given.target))
            counts[word] += 1
            name = path.relative_to(repository)
            print(f"| {repository.name} | {name} | {word} | {reason} |", flush=True)
    print(f"\n{counts.total()} programs: " + ", ".join(f"{n} {w}" for w, n in counts.most_common()))


if __name__ == "__main__":
    main()
