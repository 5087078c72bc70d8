"""The duration of the next incremental checkpoint when few keys have changed since the last one.

``measured`` runs a keyed sum at parallelism 2 whose keys all exist before the first checkpoint.
Then one key in a hundred changes before each further checkpoint, which is requested after these
were processed: in some rounds keys of neighbouring key groups, in others keys of all of them.  The
times are from the trigger of a checkpoint until it is complete.
"""

import json
import os
import statistics
import tempfile
import time
import urllib.request
from pathlib import Path

from jobs import ended
from penstock.common import Configuration, Types, WatermarkStrategy
from penstock.datastream import FlatMapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.graph.key_groups import key_group
from penstock.rest.run_files import running_clusters
from penstock.serialization.pure.key_hash import key_hash

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
GROUPS = 128
#: One key in so many changes.
SHARE = 100
PATIENCE_S = 300
#: The time for the processing of a wave, so that the checkpoint does not wait for it.
PAUSE_S = 1


class Waves(FlatMapFunction):
    """Emits all keys once, then the keys of each new file."""

    def __init__(self, folder, keys):
        self.folder = folder
        self.keys = keys

    def flat_map(self, number):
        if number == 0:
            for key in range(self.keys):
                yield key, 1
        else:
            time.sleep(0.001)
            for path in Path(self.folder).glob("wave-*"):
                chosen = json.loads(path.read_text())
                path.unlink()
                for key in chosen:
                    yield key, 1


def waves(keys):
    """Return the changing keys, by their distribution."""
    hash_of = key_hash("LONG")
    by_group = sorted(range(keys), key=lambda key: key_group(hash_of(key), GROUPS))
    return {"clustered": by_group[: keys // SHARE], "spread": list(range(0, keys, SHARE))}


class Cluster:
    """The job's REST interface."""

    def __init__(self):
        self.address = until(lambda: next(iter(running_clusters()), None))
        self.job = self.ask("GET", "/jobs")["jobs"][0]["id"]

    def ask(self, method, path, body=None):
        request = urllib.request.Request(
            f"{self.address.url}/v1{path}",
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {self.address.token}", "Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request) as answer:
            return json.load(answer)

    def runs(self):
        vertices = self.ask("GET", f"/jobs/{self.job}")["vertices"]
        return all(of["tasks"]["RUNNING"] == of["parallelism"] for of in vertices) or None

    def checkpoint(self):
        """Take a checkpoint; return its milliseconds."""
        path = f"/jobs/{self.job}/checkpoints"
        trigger = self.ask("POST", path, {})["request-id"]

        def done():
            status = self.ask("GET", f"{path}/{trigger}")
            return status["operation"] if status["status"]["id"] == "COMPLETED" else None

        operation = until(done)
        if "failure-cause" in operation:
            raise RuntimeError(operation["failure-cause"]["stack-trace"])
        checkpoint_id = operation["checkpointId"]
        found = self.ask("GET", f"{path}/details/{checkpoint_id}")
        return found["end_to_end_duration"]


def until(found):
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        if (value := found()) is not None:
            return value
        time.sleep(0.002)
    raise TimeoutError("the job does not come so far")


def submitted(folder, keys, options):
    configuration = Configuration()
    for key, value in {
        "execution.target": "local",
        "pipeline.max-parallelism": str(GROUPS),
        "rest.bind-port": "0",
        "execution.checkpointing.interval": "1 h",
        "execution.checkpointing.incremental": "true",
        "execution.checkpointing.dir": str(folder / "checkpoints"),
        **options,
    }.items():
        configuration.set_string(key, value)
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    source = NumberSequenceSource(0, 10**15)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers")
    pairs = numbers.set_parallelism(1).flat_map(Waves(str(folder), keys), PAIR).set_parallelism(1)
    sums = pairs.key_by(lambda pair: pair[0], Types.LONG()).sum(1).set_parallelism(2)
    sums.filter(lambda pair: False).set_parallelism(2).print().set_parallelism(2)
    return env.execute_async("increments")


def measured(keys, rounds, options=None, settling=0):
    """Return the median milliseconds of a checkpoint of all keys, and after each kind of wave.

    Of the ``settling`` ones after the first the longest counts: RocksDB meanwhile writes the data
    that was only in memory, and until then all of it counts as changed.
    """
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as scratch:
        folder = Path(scratch)
        # There may be other clusters on the machine, and an earlier one may not have ended yet.
        os.environ["PENSTOCK_RUN_DIR"] = str(folder / "run")
        client = submitted(folder, keys, options or {})
        try:
            cluster = Cluster()
            until(cluster.runs)
            # It follows all keys in the stream.
            whole = cluster.checkpoint()
            found = {"whole": [whole]}
            chosen_by_kind = waves(keys)
            rounds_of = [("settling", chosen_by_kind["clustered"], settling)]
            rounds_of += [(kind, chosen, rounds) for kind, chosen in chosen_by_kind.items()]
            for kind, chosen, count in rounds_of:
                for number in range(count):
                    partial = folder / f"next-{kind}-{number}"
                    partial.write_text(json.dumps(chosen))
                    wave = partial.rename(folder / f"wave-{kind}-{number}")
                    until(lambda wave=wave: None if wave.exists() else True)
                    time.sleep(PAUSE_S)
                    found.setdefault(kind, []).append(cluster.checkpoint())
        finally:
            ended(client)
        longest = {"settling": max(found.pop("settling", [0]))}
        return longest | {kind: statistics.median(of) for kind, of in found.items()}
