"""Runs one engine's program as a process tree and reports rate, start-up and peak memory.

Every program gets its parameters in the environment variable ``BENCH`` (JSON) and appends lines of
JSON to the file ``BENCH["marks"]``: ``{"first": ns}`` at its first record and ``{"last": ns}``
after its last one (wall-clock nanoseconds); with several processes the earliest and the latest
count.  Start-up is the time from the start of the process to the first record.  A program that
measures latency appends ``{"latencies": [[stamp, nanoseconds], ...]}`` as well, and one whose
engine counts the paths of records ``{"paths": {metric: count}}``.
"""

import dataclasses
import datetime
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Self

import psutil

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results"

#: The version of Flink's figures that a benchmark only names; they were measured once, with JDK 17,
#: on another machine with two cores of an AMD EPYC.
FLINK = "2.3.0, measured once on another machine"

#: The engine that rates are compared with.
PLAIN = "one Python loop"

#: Elements of the first seconds of a latency run are ignored: they include the others' start.
WARM_UP_NS = 2_000_000_000


@dataclasses.dataclass(frozen=True)
class Latency:
    """Percentiles of one run, in ms."""

    p50: float
    p95: float
    p99: float


@dataclasses.dataclass(frozen=True)
class Run:
    """One engine on one workload."""

    engine: str
    workload: str
    records: int
    seconds: float
    startup_s: float
    peak_mb: float
    cpu_s: float  # of the program and the children it waited for, start-up included
    latency_ms: Latency | None = None
    #: The number of records on each path, by metric; None if the engine does not count them.
    paths: dict[str, int] | None = None

    @property
    def rate(self) -> float:
        """Return records per second, first record to last."""
        return self.records / self.seconds


class PeakMemory:
    """The largest sum of the proportional set sizes of a process and its descendants."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self.peak_bytes = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _sample(self) -> None:
        while not self._stop.wait(0.25):
            try:
                root = psutil.Process(self._pid)
                tree = [root, *root.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            total = 0
            for process in tree:
                try:
                    total += process.memory_full_info().pss
                except psutil.Error:
                    continue  # it ended between the two calls
            self.peak_bytes = max(self.peak_bytes, total)


def measure(
    engine: str,
    workload: str,
    command: list[str],
    records: int,
    parameters: dict[str, object],
    environment: dict[str, str] | None = None,
    limit_s: float = 900,
) -> Run:
    """Run one program to its end.

    Raises:
        RuntimeError: The program failed or left no marks; the message has the end of its
        output.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        marks, log = Path(scratch, "marks"), Path(scratch, "log")
        marks.touch()
        bench = json.dumps({"marks": str(marks), "workload": workload, **parameters})
        with log.open("wb") as out:
            used = _children_cpu_s()
            started = time.time_ns()
            process = subprocess.Popen(
                command,
                stdout=out,
                stderr=out,
                env={**os.environ, **(environment or {}), "BENCH": bench},
                cwd=scratch,
            )
            with PeakMemory(process.pid) as memory:
                try:
                    code = process.wait(limit_s)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
                    code = -9
        lines = [json.loads(line) for line in marks.read_text().splitlines()]
        firsts = [line["first"] for line in lines if "first" in line]
        lasts = [line["last"] for line in lines if "last" in line]
        if code != 0 or not firsts or not lasts:
            tail = log.read_text(errors="replace")[-3000:]
            raise RuntimeError(f"{engine} on {workload}: exit code {code}\n{tail}")
    return Run(
        engine=engine,
        workload=workload,
        records=records,
        seconds=(max(lasts) - min(firsts)) / 1e9,
        startup_s=(min(firsts) - started) / 1e9,
        peak_mb=memory.peak_bytes / 1e6,
        cpu_s=_children_cpu_s() - used,
        latency_ms=_percentiles([pair for line in lines for pair in line.get("latencies", ())]),
        paths=next((line["paths"] for line in lines if "paths" in line), None),
    )


def _children_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _percentiles(seen: list[tuple[int, int]]) -> Latency | None:
    """Return percentiles of (stamp, latency) pairs in ns, without those of the warm-up."""
    if not seen:
        return None
    begin = min(stamp for stamp, _ in seen) + WARM_UP_NS
    latencies = sorted(latency for stamp, latency in seen if stamp >= begin)
    p50, p95, p99 = (latencies[int(share * len(latencies))] / 1e6 for share in (0.5, 0.95, 0.99))
    return Latency(p50, p95, p99)


def machine() -> dict[str, object]:
    model = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.machine(),
    )
    return {
        "cpu": model,
        "cores": os.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30),
        "kernel": platform.release(),
        "python": platform.python_version(),
    }


def origin() -> dict[str, object]:
    """Return the machine, the date and the commit of a measurement."""
    today = datetime.datetime.now(datetime.UTC).date()
    return {"machine": machine(), "date": today.isoformat(), "commit": commit()}


def commit() -> str:
    found = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True
    )
    return found.stdout.strip() or "unknown"


def print_table(runs: list[Run]) -> None:
    print(
        f"{'workload':12} {'engine':30} {'records/s':>14} {'of plain':>9} {'seconds':>8} "
        f"{'start-up s':>11} {'cpu s':>7} {'peak MB':>8}  p50/p95/p99 ms"
    )
    plain = {run.workload: run.rate for run in runs if run.engine == PLAIN}
    for run in runs:
        ratio = f"{run.rate / plain[run.workload]:.2f}" if run.workload in plain else ""
        found = run.latency_ms
        latency = f"{found.p50:.3f}/{found.p95:.3f}/{found.p99:.3f}" if found else ""
        print(
            f"{run.workload:12} {run.engine:30} {run.rate:14,.0f} {ratio:>9} {run.seconds:8.2f} "
            f"{run.startup_s:11.2f} {run.cpu_s:7.1f} {run.peak_mb:8.0f}  {latency}"
        )
        if run.paths is not None:
            print(f"{'':12} {_paths(run.paths)}")


def _paths(counts: dict[str, int]) -> str:
    """Return the counts as text, such as `numRecordsEvaluated 4,000,000`."""
    return ", ".join(f"{name} {count:,}" for name, count in counts.items()) or "no counted path"


def write_results(name: str, runs: list[Run], peers: dict[str, str]) -> None:
    """Write the runs of workloads, with the versions of peers by their engine."""
    rows = [dataclasses.asdict(run) | {"rate": round(run.rate)} for run in runs]
    write_document(name, rows, peers)


def write_document(
    name: str, rows: object, peers: dict[str, str] | None = None, **more: object
) -> None:
    """Write ``benchmarks/results/NAME.json`` atomically.

    Args:
        name: The name of the file.
        rows: The figures.
        peers: The versions of the other engines among the figures, by column or engine.
        more: Further facts.
    """
    RESULTS.mkdir(exist_ok=True)
    document = {
        **origin(),
        # A path of one machine says nothing elsewhere.
        "command": " ".join(
            "FOLDER" if Path(word).is_absolute() else word for word in ["python", *sys.argv]
        ),
        "peers": peers or {},
        **more,
        "rows": rows,
    }
    target = RESULTS / f"{name}.json"
    partial = target.with_suffix(".json.partial")
    partial.write_text(json.dumps(document, indent=1) + "\n")
    partial.replace(target)


def version_of(distribution: str, python: str = sys.executable) -> str:
    """Return the version of a distribution that an interpreter has."""
    program = f"import importlib.metadata as m; print(m.version({distribution!r}))"
    found = subprocess.run([python, "-c", program], capture_output=True, text=True, check=True)
    return found.stdout.strip()


def python_for(module: str, variable: str) -> str | None:
    """Return the interpreter with a peer: this one, or the one in an environment variable."""
    for candidate in (os.environ.get(variable), sys.executable):
        if candidate:
            probe = subprocess.run(
                [
                    candidate,
                    "-c",
                    f"import importlib.util as u, sys; sys.exit(u.find_spec({module!r}) is None)",
                ]
            )
            if probe.returncode == 0:
                return candidate
    return None
