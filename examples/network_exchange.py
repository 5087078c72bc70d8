"""Moves records between two processes through penstock's data plane, without a job.

    python examples/network_exchange.py [--pure]

The parent reads and the child writes.  The child first writes while the parent does not read, until
it has used up the reader's credit and the buffers of its own partition; then the parent reads
everything. The last record is 10 MB long, while a buffer has 4 KB.  With ``--pure``, both use the
twins in plain Python.
"""

import hashlib
import multiprocessing
import secrets
import sys
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING

if not TYPE_CHECKING and "--pure" in sys.argv:
    from penstock.network import pure as network
else:
    from penstock import network

SMALL_RECORDS = 20_000
SMALL_BYTES = 60
LONG_BYTES = 10_000_000
PATIENCE_MS = 60_000
END_OF_INPUT = 2
PARTITION = network.PartitionId.named("records")
BYTES = network.codec_for(network.Types.PRIMITIVE_ARRAY(network.Types.BYTE()))


def environment_of(name: str, token: bytes) -> network.NetworkEnvironment:
    """Return an environment of 64 buffers of 4 KB, which listens on a port of this machine."""
    return network.NetworkEnvironment(
        executor_id=name, token=token, num_segments=64, segment_size=4096
    )


def write(token: bytes, to_reader: Connection) -> None:
    """Write all records to a partition of one subpartition."""
    environment = environment_of("writer", token)
    partition = environment.create_result_partition(PARTITION, 1)
    writer = network.RecordWriter(partition, network.make_selector("FORWARD", 1), BYTES)
    to_reader.send(environment.address)
    to_reader.recv()  # the reader has requested the partition, and does not read yet
    written = 0
    while written < SMALL_RECORDS and partition.wait_available(200):
        writer.emit(b"%060d" % written)
        written += 1
    to_reader.send(written)
    for number in range(written, SMALL_RECORDS):
        writer.emit(b"%060d" % number)
    writer.emit(bytes(LONG_BYTES))
    partition.finish()
    partition.wait_consumed(PATIENCE_MS)
    environment.close()


class Summary(network.Input):
    """Counts the records and hashes the long one."""

    def __init__(self) -> None:
        self.count = 0
        self.in_order = True
        self.digest = ""

    def process(self, value: object, timestamp: int) -> None:
        """Process one record."""
        assert isinstance(value, bytes)
        if len(value) == LONG_BYTES:
            self.digest = hashlib.sha256(value).hexdigest()
            return
        self.in_order = self.in_order and int(value) == self.count
        self.count += 1


class Events(network.ElementHandler):
    """Prints the events between the records."""

    def on_event(self, channel: int, event: bytes, data_type: int) -> None:
        """Print an event."""
        print(f"event: {type(network.parse_event(event)).__name__}")


def read() -> None:
    """Read all records from the partition of another process."""
    token = secrets.token_bytes(32)
    context = multiprocessing.get_context("spawn")
    to_writer, to_reader = context.Pipe()
    process = context.Process(target=write, args=(token, to_reader))
    process.start()
    environment = environment_of("reader", token)
    gate = environment.create_input_gate([network.InputChannelId(PARTITION, 0, to_writer.recv())])
    gate.request_partitions()
    to_writer.send("requested")
    written = to_writer.recv()
    print(f"the writer waits for credit: {written < SMALL_RECORDS}")
    records = Summary()
    processor = network.StreamInputProcessor(gate, [BYTES], [records], Events())
    while processor.process_next(PATIENCE_MS) != END_OF_INPUT:
        pass
    print(f"{records.count} records of {SMALL_BYTES} bytes, in order: {records.in_order}")
    print(f"1 record of {LONG_BYTES} bytes, SHA-256 {records.digest[:16]}")
    gate.close()
    environment.close()
    process.join()


if __name__ == "__main__":
    read()
