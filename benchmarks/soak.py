"""Full load through the data planes of two processes: nothing grows, nothing is lost.

``python benchmarks/soak.py`` runs for ten minutes, or as ``--minutes`` and ``--records`` say. One
process writes records of mixed sizes, some of which span dozens of buffers, to sixteen channels as
fast as the other one reads them.  At every sample the segments in use lie within the configured
pool; at the end every record has arrived, every segment is back, and the resident size of both
processes has not grown after the first third of the run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from penstock.network import load
from penstock.serialization.type_schema import schema_of

CHANNELS = 16
SEGMENTS = 512
SEGMENT_BYTES = 32 << 10
SIZES_BYTES = [8] * 60 + [100] * 25 + [1 << 10] * 10 + [32 << 10] * 4 + [600 << 10]
FLUSH_TIMEOUT_MS = 10
GROWTH_LIMIT_MIB = 16.0
"""The memory that an allocator may retain without a leak."""

SAMPLES = 60
PARTITION_ID = b"soak" * 15
TOKEN = b"a token of the soak, thirty-two b"
NO_TIMESTAMP = -(2**63)
PATIENCE_MS = 60_000


def resident_mib() -> float:
    """Return the resident size of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


class Samples:
    """Resident sizes at regular intervals of the run, with the pool's accounts checked at each."""

    def __init__(self, environment: Any) -> None:
        self._environment = environment
        self.resident_mib: list[float] = []

    def take(self) -> None:
        """Take a sample."""
        total, free = self._environment.total_segments, self._environment.available_segments
        assert total == SEGMENTS, f"a pool of {total} segments where {SEGMENTS} were configured"
        assert 0 <= free <= total, f"{free} segments are free of {total}"
        self.resident_mib.append(round(resident_mib(), 2))

    def growth_mib(self) -> float:
        """Return the rise of the resident size above its maximum in the first third."""
        settled = max(1, len(self.resident_mib) // 3)
        rest = self.resident_mib[settled:] or self.resident_mib
        return max(rest) - max(self.resident_mib[:settled])


class Progress:
    """The completed part of the run: by time, or by records."""

    def __init__(self, minutes: float, records: int | None) -> None:
        self._started = time.monotonic()
        self._seconds = minutes * 60
        self._records = records

    def part(self, records: int) -> float:
        """Return the completed part, 1 at the end."""
        if self._records is not None:
            return min(1.0, records / self._records)
        return min(1.0, (time.monotonic() - self._started) / self._seconds)


def environment_of(runtime: str, *, same_host: bool) -> Any:
    """Create the data plane of this process."""
    return load("NetworkEnvironment", runtime)(
        executor_id=f"soak-{os.getpid()}",
        token=TOKEN,
        num_segments=SEGMENTS,
        segment_size=SEGMENT_BYTES,
        same_host_path=same_host,
    )


def codec_of(runtime: str) -> Any:
    """Return the codec of undeclared values."""
    if runtime == "native":
        from penstock._native.codecs.codec import Codec
    else:
        from penstock.serialization.pure.codec import Codec
    return Codec(schema_of(None))


def first_byte(key: bytes, num_channels: int) -> int:
    """Return the channel that a value names."""
    return key[0] % num_channels


def produce(arguments: argparse.Namespace) -> None:
    """Write until the run is over; print the address first and the account last."""
    environment = environment_of(arguments.runtime, same_host=not arguments.tcp)
    partition = environment.create_result_partition(
        PARTITION_ID, CHANNELS, flush_timeout_ms=FLUSH_TIMEOUT_MS
    )
    selector = load("make_selector", arguments.runtime)("CUSTOM", CHANNELS, function=first_byte)
    codec = codec_of(arguments.runtime)
    writer = load("RecordWriter", arguments.runtime)(partition, selector, codec)
    print(json.dumps(environment.address), flush=True)
    source = random.Random(0)
    values = [bytes([source.randrange(CHANNELS)]) * size for size in SIZES_BYTES * 20]
    source.shuffle(values)
    samples, progress = Samples(environment), Progress(arguments.minutes, arguments.records)
    records, payload_bytes = 0, 0
    while (part := progress.part(records)) < 1:
        for value in values:
            writer.collect(value, NO_TIMESTAMP)
            payload_bytes += len(value)
        records += len(values)
        assert partition.buffers_in_use <= SEGMENTS
        if part * SAMPLES >= len(samples.resident_mib):
            samples.take()
    partition.finish()
    assert partition.wait_consumed(PATIENCE_MS), "the reader did not come to the end"
    partition.release()
    free = environment.available_segments
    assert free == SEGMENTS, f"{SEGMENTS - free} segments of the writer are missing"
    environment.close()
    account = {"records": records, "bytes": payload_bytes, "resident_mib": samples.resident_mib}
    print(json.dumps({**account, "growth_mib": samples.growth_mib()}), flush=True)


def consume(arguments: argparse.Namespace, address: tuple[str, int]) -> dict[str, Any]:
    """Read to the end and return the account."""
    if arguments.runtime == "native":
        from penstock._native.operators.operator_loop import Input
    else:
        from penstock.taskexecutor.compiled.operator_loop import Input

    class Counting(Input):  # type: ignore[misc]  # of either runtime
        records = 0
        payload_bytes = 0

        def process(self, value: bytes, timestamp: int) -> None:
            self.records += 1
            self.payload_bytes += len(value)

    class Events:
        def on_event(self, channel: int, event: bytes, data_type: int) -> None:
            """Ignore events: only the ends of the channels occur."""

    environment = environment_of(arguments.runtime, same_host=not arguments.tcp)
    channels = [(PARTITION_ID, index, address) for index in range(CHANNELS)]
    gate = environment.create_input_gate(channels)
    gate.request_partitions()
    head = Counting()
    codecs = [codec_of(arguments.runtime)] * CHANNELS
    processor = load("StreamInputProcessor", arguments.runtime)(
        gate, codecs, [head] * CHANNELS, Events()
    )
    samples, progress = Samples(environment), Progress(arguments.minutes, arguments.records)
    while (result := processor.process_next(PATIENCE_MS)) != 2:
        assert result == 1, "nothing came for a minute"
        if progress.part(head.records) * SAMPLES >= len(samples.resident_mib):
            samples.take()
    gate.close()
    free = environment.available_segments
    assert free == SEGMENTS, f"{SEGMENTS - free} segments of the reader are missing"
    environment.close()
    account = {"records": head.records, "bytes": head.payload_bytes}
    return {**account, "resident_mib": samples.resident_mib, "growth_mib": samples.growth_mib()}


def run(arguments: argparse.Namespace) -> dict[str, Any]:
    """Run both processes; return their accounts.

    Raises:
        AssertionError: Something was lost, or has grown.
    """
    options = [f"--minutes={arguments.minutes}", f"--runtime={arguments.runtime}", "--produce"]
    if arguments.records is not None:
        options.append(f"--records={arguments.records}")
    if arguments.tcp:
        options.append("--tcp")
    command = [sys.executable, __file__, *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            host, port = json.loads(process.stdout.readline())
            read = consume(arguments, (host, port))
            written = json.loads(process.stdout.readline())
        except BaseException:
            process.kill()
            raise
    assert process.returncode == 0, f"the writer ended with {process.returncode}"
    for what in ("records", "bytes"):
        assert read[what] == written[what], f"{read[what]} of {written[what]} {what} have arrived"
    for name, account in (("writer", written), ("reader", read)):
        growth = account["growth_mib"]
        assert growth <= GROWTH_LIMIT_MIB, (
            f"the {name} has grown by {growth:.1f} MiB: {account['resident_mib']}"
        )
    return {"written": written, "read": read}


def main() -> None:
    """Run one soak and print its result."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--records", type=int, help="end after so many records, whatever the time")
    parser.add_argument("--runtime", choices=["native", "pure"], default="native")
    parser.add_argument("--tcp", action="store_true", help="do without the same-host path")
    parser.add_argument("--produce", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.produce:
        produce(arguments)
        return
    started = time.monotonic()
    accounts = run(arguments)
    seconds = time.monotonic() - started
    written, read = accounts["written"], accounts["read"]
    print(
        f"{written['records']:,} records, {written['bytes'] / (1 << 30):.1f} GiB in {seconds:.0f} s"
        f"; grown by {written['growth_mib']:.1f} (writer) and {read['growth_mib']:.1f} MiB (reader)"
        f" from {written['resident_mib'][0]:.0f} and {read['resident_mib'][0]:.0f} MiB"
    )


if __name__ == "__main__":
    main()
