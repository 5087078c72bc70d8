"""The cost of an open dashboard: on a job of 400 subtasks, and on W2.

    python benchmarks/dashboard.py [--subtasks 400] [--clients 100] [--seconds 10]
                                   [--numbers 80000000] [--pairs
                                   4] [--smoke]

Prints rows with their goals, for an idle machine:

- `first_view_s`: from the request for the page until the graph is drawn, if Chromium is installed;
- `driver_share.*`: the driver's share of a core while no, one and many clients are notified of
  changes, each turn of `web.refresh-interval` (3 s);
- `metrics_cost`: the cost of the REST interface and metrics for W2 beyond the start of the server,
  as a share of its instructions, by `perf stat` if it is installed: half of the numbers
  subtracted
  from all of them, with and without.  Instructions do not depend on the machine's other work;
- `w2_ratio.one`, `w2_ratio.many`: the time of W2 without REST interface and metrics divided by that
  with both and one client, or many; a quarter of the numbers is subtracted from all of them,
  since
  server and clients start while the job runs.  These are medians over rounds in which the three
  run
  in turn, each round in another order, so that the machine's other work affects all of them.
"""

import argparse
import contextlib
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import SourceFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.discard import DiscardingSink
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.rest.run_files import running_clusters
from workloads import harness

#: name → (unit, goal, whether the goal is a lower bound)
ROWS = {
    "first_view_s": ("s", 1.0, False),
    "driver_share.nobody": ("of a core", None, False),
    "driver_share.one": ("of a core", 0.05, False),
    "driver_share.many": ("of a core", None, False),
    "metrics_cost": ("of W2", 0.01, False),
    "w2_ratio.one": ("of alone", 0.98, True),
    "w2_ratio.many": ("of alone", 0.98, True),
}
PARALLELISM = 4

#: Listens to the events of a job as dashboards do, in a separate process, so that it costs the
#: driver only its requests.
CLIENTS = """
import socket, selectors, sys
host, port, token, job, count = sys.argv[1:]
waiting = selectors.DefaultSelector()
for _ in range(int(count)):
    one = socket.create_connection((host, int(port)))
    lines = f"GET /v1/events?job={job} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {token}"
    one.sendall("\\r\\n".join([*lines, "", ""]).encode())
    waiting.register(one, selectors.EVENT_READ)
seen = set()
while True:
    for key, _ in waiting.select():
        if not key.fileobj.recv(1 << 20):
            sys.exit()
        seen.add(key.fd)
        if len(seen) == int(count):
            print("all", flush=True)
            seen = set()
"""


class UntilThere(SourceFunction):
    """Emits a few numbers a second until a file exists."""

    def __init__(self, path):
        self.path = path

    def run(self, ctx):
        number = 0
        while ctx.is_running() and not self.path.exists():
            ctx.collect(number)
            number += 1
            time.sleep(0.01)


def environment(**options):
    configuration = Configuration()
    for key, value in {"execution.target": "local", **options}.items():
        configuration.set_string(key, value)
    return StreamExecutionEnvironment.get_execution_environment(configuration)


@contextlib.contextmanager
def listening(client, job_id, count):
    """Start so many clients, and wait until each of them was notified once."""
    host, port = client.url.removeprefix("http://").rsplit(":", 1)
    command = [sys.executable, "-c", CLIENTS, host, port, client.token, job_id, str(count)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            process.stdout.readline()
            yield
        finally:
            process.kill()


def driver_share(seconds):
    """Return the share of a core that this process, the driver, uses."""
    process = psutil.Process()
    before, began = sum(process.cpu_times()[:2]), time.monotonic()
    time.sleep(seconds)
    return (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began)


def first_view_s(client, job_id, vertices):
    """Return the time until the graph is drawn; None without a browser."""
    browser_path = next(filter(None, map(shutil.which, ("chromium", "google-chrome"))), None)
    if browser_path is None:
        return None
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
        times = []
        for _ in range(3):
            page = browser.new_page(viewport={"width": 1280, "height": 900})
            began = time.monotonic()
            page.goto(f"{client.url}/?token={client.token}#/jobs/{job_id}")
            drawn = page.locator(".graph-place .vertex").nth(vertices - 1)
            drawn.wait_for(state="attached", timeout=120_000)
            times.append(time.monotonic() - began)
            page.close()
        browser.close()
    return min(times)


def looked_at(options, folder):
    """Measure a job of many vertices with no, one and many clients."""
    env = environment(
        **{
            "rest.bind-port": "0",
            "taskmanager.numberOfTaskSlots": str(PARALLELISM),
        }
    )
    env.set_parallelism(PARALLELISM)
    stream = env.add_source(UntilThere(folder / "end"), "Numbers", Types.LONG())
    vertices = options.subtasks // PARALLELISM
    for _ in range(vertices):
        stream = stream.rebalance().map(lambda n: n + 1, Types.LONG())
    stream.sink_to(DiscardingSink())
    job = env.execute_async("looked at")
    client, job_id = running_clusters()[-1], str(job.get_job_id())
    found = {}
    try:
        found["first_view_s"] = first_view_s(client, job_id, vertices)
        for name, count in (("nobody", 0), ("one", 1), ("many", options.clients)):
            with listening(client, job_id, count) if count else contextlib.nullcontext():
                found[f"driver_share.{name}"] = driver_share(options.seconds)
    finally:
        (folder / "end").touch()
        job.get_job_execution_result().result()
    return found


def w2_s(numbers, clients):
    """Return the time of W2 with so many clients; with 0 there is no dashboard."""
    env = environment(**({"rest.bind-port": "0"} if clients else {}))
    env.set_parallelism(2)
    source = NumberSequenceSource(0, numbers - 1)
    pairs = Types.TUPLE([Types.LONG(), Types.LONG()])
    stream = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    keyed = stream.map(lambda n: (n % 10_000, n), pairs).key_by(lambda pair: pair[0], Types.LONG())
    keyed.reduce(lambda one, other: (one[0], one[1] + other[1])).sink_to(DiscardingSink())
    began = time.monotonic()
    job = env.execute_async("W2")
    watching = contextlib.nullcontext()
    if clients:
        watching = listening(running_clusters()[-1], str(job.get_job_id()), clients)
    with watching:
        job.get_job_execution_result().result()
    return time.monotonic() - began


def without_start_s(numbers, clients):
    """Return the time of three quarters of the numbers."""
    return w2_s(numbers, clients) - w2_s(numbers // 4, clients)


def w2_ratios(options):
    """Return the rates of W2 while one and many dashboards are open, relative to W2 alone."""
    kinds = {"alone": 0, "one": 1, "many": options.clients}
    names, rounds = list(kinds), []
    for number in range(options.pairs):
        turn = number % len(names)
        order = [*names[turn:], *names[:turn]]
        rounds.append({name: without_start_s(options.numbers, kinds[name]) for name in order})
    return {
        f"w2_ratio.{name}": statistics.median(one["alone"] / one[name] for one in rounds)
        for name in names
        if name != "alone"
    }


def instructions(numbers, clients):
    """Return the instructions of driver and workers of a W2 of so many numbers."""
    program = [sys.executable, __file__, "--w2", str(numbers), "--clients", str(clients)]
    command = ["perf", "stat", "-x", ",", "-e", "instructions:u", *program]
    found = subprocess.run(command, capture_output=True, text=True, check=True)
    line = next(line for line in found.stderr.splitlines() if "instructions" in line)
    return int(line.partition(",")[0])


def metrics_cost(numbers):
    """Return the REST interface's and metrics' share of W2; None without perf."""
    if shutil.which("perf") is None:
        return None
    taken = [
        instructions(numbers, clients) - instructions(numbers // 2, clients) for clients in (0, 1)
    ]
    return taken[1] / taken[0] - 1


def judged(found):
    rows = []
    for name, (unit, goal, is_lower_bound) in ROWS.items():
        value = found[name]
        met = None
        if value is not None and goal is not None:
            met = value >= goal if is_lower_bound else value <= goal
        rows.append({"name": name, "value": value, "unit": unit, "goal": goal, "met": met})
    return rows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--subtasks", type=int, default=400)
    parser.add_argument("--clients", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--numbers", type=int, default=80_000_000)
    parser.add_argument("--pairs", type=int, default=4)
    parser.add_argument("--smoke", action="store_true", help="Small, and nothing is kept.")
    parser.add_argument("--w2", type=int, help="Runs W2 with so many numbers, and that is all.")
    options = parser.parse_args()
    if options.w2:
        w2_s(options.w2, options.clients)
        return
    if options.smoke:
        options.subtasks, options.clients, options.seconds = 8, 5, 0.5
        options.numbers, options.pairs = 20_000, 1
    with tempfile.TemporaryDirectory(prefix="penstock-dashboard-") as name:
        os.environ["PENSTOCK_RUN_DIR"] = str(Path(name) / "run")
        found = looked_at(options, Path(name))
        found["metrics_cost"] = metrics_cost(options.numbers)
        found |= w2_ratios(options)
    rows = judged(found)
    for row in rows:
        met = "" if options.smoke else f" met {row['met']}"  # small values are not judged
        value = "-" if row["value"] is None else f"{row['value']:.3f}"
        print(f"{row['name']:24} {value:>8} {row['unit']:10} goal {row['goal']}{met}")
    if not options.smoke:
        harness.write_document("dashboard", rows)


if __name__ == "__main__":
    main()
