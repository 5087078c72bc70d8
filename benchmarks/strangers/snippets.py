"""Runs the Python snippets of documentation about PyFlink, and reports which of them work.

    python benchmarks/strangers/snippets.py FOLDER … [--python INTERPRETER] [--only TEXT]

Snippets are read from Markdown and reStructuredText below the folders; those that use the Table API
are left out.  Each runs in a separate process, as PyFlink on penstock, or with the PyFlink of
another interpreter.  Names that a snippet uses but does not define are those of PyFlink's modules,
or streams of a few tuples; at the end the plan of everything built is computed.
"""

from __future__ import annotations

import abc
import argparse
import collections
import importlib
import importlib.util
import os
import pkgutil
import re
import signal
import subprocess
import sys
import tempfile
import textwrap
import typing
from pathlib import Path
from typing import Any

FENCE = re.compile(
    r"^([ \t]*)```[ \t]*python[^\n]*\n(.*?)^[ \t]*```"
    r"|^([ \t]*)\{\{< highlight \"?python\"?[^\n]*\n(.*?)^[ \t]*\{\{< /highlight",
    re.DOTALL | re.MULTILINE,
)
DIRECTIVE = re.compile(
    r"^([ \t]*)\.\. code(?:-block)?:: python[^\n]*\n((?:\1[ \t]+\S[^\n]*\n|[ \t]*\n)+)",
    re.MULTILINE,
)
TABLES = re.compile(r"pyflink\.table|TableEnvironment|t_env|table_env|@ud[a-z]+\(|DataTypes\.")
OWN = ("pyflink.", "penstock.")
MODULES = ("common", "datastream", "metrics")
#: Streams of pairs of a text and a number.
STREAMS = (
    *("input", "stream", "ds", "data_stream", "input_stream", "source", "source_stream"),
    *("stream1", "stream2", "some_stream", "some_data_stream", "dataStream", "other_stream"),
    *("otherStream1", "otherStream2", "main_data_stream", "text", "words", "item_stream"),
    "rule_stream",
)
#: Paths of files and addresses.
TEXTS = ("path", "OUTPUT_PATH", "test_dir", "AVRO_FILE_PATH", "PARQUET_FILE_PATH", "brokers")
#: A reader's values for placeholders.
FILLED = {
    "<key selector>": "lambda pair: pair[0]",
    "<window assigner>": "TumblingEventTimeWindows.of(Time.seconds(5))",
    "<windowed transformation>(<window function>)": "reduce(lambda a, b: a)",
    "<time>": "1",
    ".map(...)": ".map(lambda pair: pair)",
    ".filter(...)": ".filter(lambda pair: True)",
    ".flat_map(...)": ".flat_map(lambda pair: [pair])",
    ".reduce(...)": ".reduce(lambda a, b: a)",
}
#: Mistakes of these pages, at which PyFlink fails as well, and the intended code.
CORRECTED = {
    "Duration.ofSeconds": "Duration.of_seconds",
    "Duration.ofMinutes": "Duration.of_minutes",
    "Duration.ofHours": "Duration.of_hours",
    "Duration.ofDays": "Duration.of_days",
    "Duration.ofMillis": "Duration.of_millis",
    "monitor_continously": "monitor_continuously",
    "enable_changelog_statebackend": "enable_changelog_state_backend",
}
#: A name to which the reader assigns a value; streams are defined below.
GIVEN = re.compile(r"^(\w+)(?:: [^=\n]+)? = \.\.\..*$", re.MULTILINE)
#: Placeholders whose value cannot be guessed.
PLACEHOLDER = re.compile(r"<[a-z][\w /-]*>|^\s*\.\.\.|\(\.\.\.\)|\[\.\.\.\]", re.MULTILINE)

RUNS, NO_CODE, NEEDS, FAILS = "runs", "no code", "needs", "fails"


def snippets(path: Path) -> list[str]:
    """Return the snippets of a page that use the DataStream API."""
    text = path.read_text(errors="replace") + "\n"
    if path.suffix == ".rst":
        found = [body for _, body in DIRECTIVE.findall(text)]
    else:
        found = [first or second for _, first, _, second in FENCE.findall(text)]
    return [one for one in map(textwrap.dedent, found) if not TABLES.search(one)]


def public_names() -> dict[str, Any]:
    """Return the public names of PyFlink's modules."""
    found: dict[str, Any] = {"abstractmethod": abc.abstractmethod, "ABC": abc.ABC}
    found |= {name: getattr(typing, name) for name in typing.__all__}
    for room in MODULES:
        package = importlib.import_module(f"pyflink.{room}")
        modules = [package]
        for module in pkgutil.walk_packages(package.__path__, f"pyflink.{room}."):
            if ".tests" not in module.name and "flink_1" not in module.name:
                try:
                    modules.append(importlib.import_module(module.name))
                except ImportError:
                    continue
        for module in reversed(modules):
            for name in {*dir(module), *getattr(module, "__all__", ())}:
                value = None if name.startswith("_") else getattr(module, name, None)
                if str(getattr(value, "__module__", "")).startswith(OWN):
                    found[name] = value
    return found


def subjects(environment: Any) -> dict[str, Any]:
    """Return the objects that snippets presuppose: an environment, and streams."""
    from pyflink.common import Time, Types, WatermarkStrategy
    from pyflink.common.watermark_strategy import TimestampAssigner
    from pyflink.datastream.window import TumblingEventTimeWindows

    class Second(TimestampAssigner):
        def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
            del record_timestamp
            return int(value[1])

    kind = Types.TUPLE([Types.STRING(), Types.INT()])
    plain = environment.from_collection([("a", 1), ("b", 2)], type_info=kind)
    strategy = WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Second())
    timed = plain.assign_timestamps_and_watermarks(strategy)
    keyed = timed.key_by(lambda pair: pair[0], key_type=Types.STRING())
    environments = ("env", "environment", "stream_execution_environment")
    found = {**dict.fromkeys(environments, environment), "keyed_stream": keyed}
    found["windowed_stream"] = keyed.window(TumblingEventTimeWindows.of(Time.seconds(5)))
    found["all_windowed_stream"] = timed.window_all(TumblingEventTimeWindows.of(Time.seconds(5)))
    found["connected_streams"] = timed.connect(timed)
    found["cached_stream"] = timed.cache()
    return found | dict.fromkeys(STREAMS, timed) | dict.fromkeys(TEXTS, str(Path.cwd()))


def run_here(code: str) -> tuple[str, str]:
    """Run a snippet in this process; return the verdict and its reason."""
    for placeholder, text in FILLED.items():
        code = code.replace(placeholder, text)
    mistakes = [mistake for mistake in CORRECTED if mistake in code]
    for mistake in mistakes:
        code = code.replace(mistake, CORRECTED[mistake])
    given = {*STREAMS, "env", "keyed_stream", "windowed_stream"}
    code = GIVEN.sub(lambda match: "" if match[1] in given else match[0], code)
    try:
        compiled = compile(code, "snippet", "exec")
    except SyntaxError:
        return NO_CODE, "placeholders" if PLACEHOLDER.search(code) else "it is not Python"
    from pyflink.datastream import StreamExecutionEnvironment

    environment = StreamExecutionEnvironment.get_execution_environment()
    environment.set_parallelism(1)
    # No job runs: the snippet's operators are inspected as a plan.
    StreamExecutionEnvironment.execute = lambda self, name=None: self.get_execution_plan()
    known = {**public_names(), **subjects(environment)}
    names: dict[str, Any] = {"__name__": "__main__", "env": environment, "input": known["input"]}
    for _ in range(50):
        try:
            exec(compiled, names)
            environment.get_execution_plan()
        except NameError as error:
            if error.name in known and error.name not in names:
                names[error.name] = known[error.name]
                continue
            return NEEDS, f"`{error.name}`"
        except FileNotFoundError:
            return NEEDS, "a file"
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("pyflink"):
                return NEEDS, f"the module `{error.name}`"
            return FAILS, f"ModuleNotFoundError: {error}"
        except Exception as error:
            text = " ".join(str(error).split()).replace("|", "/")
            return FAILS, f"{type(error).__name__}: {text:.160}"
        return RUNS, ", ".join(f"with `{CORRECTED[one]}` for `{one}`" for one in mistakes)
    return NEEDS, "too many names"


def run(code: str, interpreter: str, seconds: float) -> tuple[str, str]:
    """Run a snippet in a process; return the verdict and its reason."""
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [interpreter, __file__, "--one"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=folder,
            start_new_session=True,
        ) as process,
    ):
        try:
            output, _ = process.communicate(code, seconds)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return FAILS, "no end"
    lines = [line for line in output.splitlines() if line.startswith("verdict\t")]
    if not lines:
        return FAILS, (output.strip().splitlines() or ["no output"])[-1][:160]
    _, word, reason = lines[-1].split("\t")
    return word, reason


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="*")
    parser.add_argument("--one", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--python", default=sys.executable, help="the interpreter of a PyFlink")
    parser.add_argument("--only", default="", help="a part of the page's name and number")
    parser.add_argument("--seconds", type=float, default=90.0)
    given = parser.parse_args()
    if given.one:
        sys.path.pop(0)
        if importlib.util.find_spec("penstock"):
            importlib.import_module("penstock.as_pyflink")
        word, reason = run_here(sys.stdin.read())
        print("verdict", word, reason, sep="\t")
        return
    counts: collections.Counter[str] = collections.Counter()
    print("| page | snippet | verdict | why |\n|---|---:|---|---|")
    for folder in given.folders:
        pages = [path for path in sorted(folder.rglob("*")) if path.suffix in (".md", ".rst")]
        for page in pages:
            name = page.relative_to(folder)
            for number, code in enumerate(snippets(page), 1):
                if given.only not in f"{name} {number}":
                    continue
                word, reason = run(code, given.python, given.seconds)
                counts[word] += 1
                print(f"| {name} | {number} | {word} | {reason} |", flush=True)
    print(f"\n{counts.total()} snippets: " + ", ".join(f"{n} {w}" for w, n in counts.most_common()))


if __name__ == "__main__":
    main()
