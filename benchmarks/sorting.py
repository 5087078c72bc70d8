"""Sorting (string, integer) records by key, as BATCH execution does with keyed inputs.

    python benchmarks/sorting.py [--records N] [--keys K] [--managed-mib M] [--smoke]

A process for each sorter: the native one, which keeps serialised records and an index of normalised
keys in segments, and its pure twin, which keeps the records themselves.  CPU time is that of the
sorter; memory is the peak of the process beyond its start.

Then a process for each stored output, of 8 and of 500 consumers: records of 100 bytes are written
round robin, sorted by consumer in the managed memory that a task reserves, and read buffer by
buffer, one consumer after the other.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time

from workloads import harness

STEP = 10_000

#: Consumers of the stored outputs.
CONSUMERS = (8, 500)


def measure(sorter: str, records: int, keys: int, managed_mib: int) -> dict[str, object]:
    """Sort in this process, and return its CPU time, peak memory and runs."""
    from penstock.network import KeyReader
    from penstock.taskexecutor.compiled import Input
    from penstock.taskexecutor.operators.external_sort import ExternalSorter, create_sorter
    from penstock.taskexecutor.worker.memory_manager import MemoryManager

    class Counter(Input):
        """Counts emitted records."""

        count = 0

        def process(self, value: object, timestamp: int) -> None:
            """Count a record."""
            self.count += 1

    chance = random.Random(1)
    counter, ends = Counter(), [0]

    def end_key() -> None:
        ends[0] += 1

    with tempfile.TemporaryDirectory() as folder:
        make = create_sorter if sorter == "native" else ExternalSorter
        under_test = make(MemoryManager(managed_mib << 20), lambda: folder)
        read = KeyReader(lambda record: record[0], 0, str, None).read
        start, spent = peak_mib(), 0.0
        for first in range(0, records, STEP):
            batch = [(f"key-{chance.randrange(keys):08d}", n) for n in range(first, first + STEP)]
            began = time.process_time()
            for record in batch:
                under_test.add(read(record), record[1], 0, record)
            spent += time.process_time() - began
        runs = under_test.num_runs
        began = time.process_time()
        under_test.drain([counter], end_key)
        spent += time.process_time() - began
        under_test.close()
    assert counter.count == records
    return {
        "cpu_s": round(spent, 2),
        "peak_mib": peak_mib() - start,
        "runs": runs,
        "keys": ends[0],
    }


def measure_output(consumers: int, records: int) -> dict[str, object]:
    """Write and read a stored output in this process; return its CPU times and peak memory."""
    from penstock._native.codecs.codec import Codec
    from penstock.columns.column_batch import NO_TIMESTAMP
    from penstock.network import load
    from penstock.serialization.type_schema import schema_of
    from penstock.taskexecutor.task.stored_output import MOST_BYTES

    partition_id, value = bytes(60), bytes(93)
    start = peak_mib()
    with tempfile.TemporaryDirectory() as folder:
        network = load("NetworkEnvironment", "native")(
            executor_id="benchmark", token=bytes(32), temp_directories=[folder]
        )
        partition = network.create_result_partition(
            partition_id, consumers, "BLOCKING", managed_bytes=MOST_BYTES
        )
        selector = load("make_selector", "native")("REBALANCE", consumers)
        writer = load("RecordWriter", "native")(partition, selector, Codec(schema_of(None)))
        began = time.process_time()
        for _ in range(records):
            writer.collect(value, NO_TIMESTAMP)
        partition.finish()
        written = time.process_time()
        size = 0
        for consumer in range(consumers):
            gate = network.create_input_gate([(partition_id, consumer, None)])
            gate.request_partitions()
            while not gate.is_finished():
                size += len(gate.next_buffer(60_000)[2])
            gate.close()
        ended = time.process_time()
        network.close()
    assert size > records * len(value)
    return {
        "write_cpu_s": round(written - began, 2),
        "read_cpu_s": round(ended - written, 2),
        "peak_mib": peak_mib() - start,
    }


def peak_mib() -> int:
    """Return the highest memory of this process so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10


def main() -> None:
    """Measure both sorters and the stored outputs by turns."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--keys", type=int, default=500_000)
    parser.add_argument("--managed-mib", type=int, default=512)
    parser.add_argument("--smoke", action="store_true", help="few records, no result file")
    parser.add_argument("--sorter", choices=("native", "pure"), help="measure it in this process")
    parser.add_argument("--consumers", type=int, help="measure their output in this process")
    options = parser.parse_args()
    if options.smoke:
        options.records, options.keys = 2 * STEP, 1000
    if options.sorter:
        found = measure(options.sorter, options.records, options.keys, options.managed_mib)
        print(json.dumps(found))
        return
    if options.consumers:
        print(json.dumps(measure_output(options.consumers, options.records)))
        return
    arguments = [f"--{name}={getattr(options, name)}" for name in ("records", "keys")]
    arguments.append(f"--managed-mib={options.managed_mib}")
    measured = {sorter: ["--sorter", sorter] for sorter in ("native", "pure")}
    measured |= {f"output for {n}": [f"--consumers={n}"] for n in CONSUMERS}
    rows = {}
    for name, choice in measured.items():
        command = [sys.executable, __file__, *arguments, *choice]
        rows[name] = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
        print(f"{name:14}", rows[name], flush=True)
    for name in ("cpu_s", "peak_mib"):
        print(f"{name}: pure / native = {rows['pure'][name] / rows['native'][name]:.1f}")
    if not options.smoke:
        harness.write_document("sorting", rows)


if __name__ == "__main__":
    main()
