"""Records between two processes as a Python program moves them: penstock.network and its peers.

The writer is a separate process, the reader is this one.  The clock runs from the reader's "go" to
the end of the stream, so that neither start nor imports affect the rate.  Every peer moves the same
records: bytes of 64 B, or Arrow batches of two columns.  Peers that are not installed are left out.
All are measured once a round, in turn: the ratios, which have goals, are medians over the rounds.

    python benchmarks/package_exchange.py [--rounds N] [--smoke]
"""

import argparse
import importlib.util
import multiprocessing
import os
import statistics
import tempfile
import time
from multiprocessing import shared_memory

import pyarrow as pa
from penstock.network import PartitionId, RecordBatchCodec, Types, load
from workloads import harness

RECORD = bytes(range(64))
ROWS = 10_000
BATCH_SCHEMA = pa.schema({"number": pa.int64(), "value": pa.float64()})
TOKEN = b"token of the benchmark, 32 bytes"
PARTITION = PartitionId.named("exchange")
BYTES = Types.PRIMITIVE_ARRAY(Types.BYTE())
FINISHED = 2
RECORDS, COLLECTIONS, BATCHES = "records", "collected", "batches"
COLLECTED = 1_000
"""Records that ``collect_all`` takes at once."""


def arrow_batch() -> pa.RecordBatch:
    columns = [pa.array(range(ROWS), pa.int64()), pa.array([0.5] * ROWS, pa.float64())]
    return pa.record_batch(columns, BATCH_SCHEMA)


BATCH_BYTES = 16 * ROWS


class Exchange:
    """One way to move values: the writer's side runs in another process than the reader's."""

    def write(self, pipe, count: int) -> None:
        """Prepare, send the reader's parameters, wait for "go", and write ``count`` values."""
        raise NotImplementedError

    def read(self, pipe, count: int) -> int:
        """Prepare, send "go", and return the number of values, once all have arrived."""
        raise NotImplementedError

    def go(self, pipe) -> None:
        """Start the clock and the writer."""
        self.started = time.perf_counter()
        pipe.send("go")

    def stop(self) -> None:
        """Stop the clock: the last value has arrived."""
        self.seconds = time.perf_counter() - self.started


class Penstock(Exchange):
    """A record writer and a reading loop of either runtime."""

    def __init__(self, runtime: str, what: str, *, same_host: bool) -> None:
        self.runtime = runtime
        self.what = what
        self.same_host = same_host

    def environment(self, name: str):
        return load("NetworkEnvironment", self.runtime)(
            executor_id=name,
            token=TOKEN,
            num_segments=64,
            # A batch fits into one segment, so that its columns are decoded in place.
            segment_size=256 << 10 if self.what == BATCHES else 32 << 10,
            same_host_path=self.same_host,
        )

    def codec(self):
        return load("codec_for", self.runtime)(BYTES)

    def write(self, pipe, count: int) -> None:
        environment = self.environment("writer")
        partition = environment.create_result_partition(PARTITION, 1)
        selector = load("make_selector", self.runtime)("FORWARD", 1)
        writer = load("RecordWriter", self.runtime)(partition, selector, self.codec())
        codec, batch = RecordBatchCodec(BATCH_SCHEMA), arrow_batch()
        pipe.send(environment.address)
        pipe.recv()
        if self.what == RECORDS:
            for _ in range(count):
                writer.emit(RECORD)
        elif self.what == COLLECTIONS:
            for _ in range(count // COLLECTED):
                writer.collect_all([RECORD] * COLLECTED, -(2**63))
        else:
            for _ in range(count):
                writer.emit(codec.encode(batch))
        partition.finish()
        partition.wait_consumed(60_000)
        environment.close()

    def read(self, pipe, count: int) -> int:
        del count
        codec = RecordBatchCodec(BATCH_SCHEMA)

        class Counting(load("Input", self.runtime)):
            """Counts records, or the rows of batches."""

            seen = 0

            def process(self, value, timestamp):
                self.seen += 1

        class Decoding(Counting):
            """Decodes batches and counts them."""

            def process(self, value, timestamp):
                assert codec.decode(value).num_rows == ROWS
                self.seen += 1

        environment = self.environment("reader")
        gate = environment.create_input_gate([(PARTITION, 0, pipe.recv())])
        gate.request_partitions()
        target = Decoding() if self.what == BATCHES else Counting()
        handler = load("ElementHandler")()
        loop = load("StreamInputProcessor", self.runtime)(gate, [self.codec()], [target], handler)
        self.go(pipe)
        while loop.process_next(-1) != FINISHED:
            pass
        self.stop()
        gate.close()
        environment.close()
        return target.seen


class QueueOfMultiprocessing(Exchange):
    """multiprocessing.Queue: pickles through a pipe, one by one."""

    def __init__(self, queue) -> None:
        self.queue = queue

    def write(self, pipe, count: int) -> None:
        pipe.send("ready")
        pipe.recv()
        for _ in range(count):
            self.queue.put(RECORD)
        self.queue.close()
        self.queue.join_thread()

    def read(self, pipe, count: int) -> int:
        pipe.recv()
        self.go(pipe)
        seen = sum(self.queue.get() == RECORD for _ in range(count))
        self.stop()
        return seen


class SharedMemory(Exchange):
    """multiprocessing.shared_memory: batches serialized into two slots, guarded by semaphores."""

    def __init__(self, context) -> None:
        self.free, self.full = context.Semaphore(2), context.Semaphore(0)

    def write(self, pipe, count: int) -> None:
        batch = arrow_batch()
        size = batch.serialize().size
        memory = shared_memory.SharedMemory(create=True, size=2 * size)
        pipe.send((memory.name, size))
        pipe.recv()
        for number in range(count):
            self.free.acquire()
            start = number % 2 * size
            memory.buf[start : start + size] = memoryview(batch.serialize()).cast("B")
            self.full.release()
        pipe.recv()
        memory.close()
        memory.unlink()

    def read(self, pipe, count: int) -> int:
        name, size = pipe.recv()
        memory = shared_memory.SharedMemory(name)
        seen = 0
        self.go(pipe)
        for number in range(count):
            self.full.acquire()
            start = number % 2 * size
            data = bytes(memory.buf[start : start + size])
            self.free.release()
            seen += pa.ipc.read_record_batch(pa.py_buffer(data), BATCH_SCHEMA).num_rows == ROWS
        self.stop()
        memory.close()
        pipe.send("done")
        return seen


class ZeroMQ(Exchange):
    """pyzmq: PUSH and PULL over a Unix socket."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.address = f"ipc://{tempfile.gettempdir()}/penstock-bench-{os.getpid()}-{what}"

    def write(self, pipe, count: int) -> None:
        import zmq

        batch = arrow_batch()
        with zmq.Context() as context, context.socket(zmq.PUSH) as socket:
            socket.bind(self.address)
            pipe.send("bound")
            pipe.recv()
            for _ in range(count):
                socket.send(RECORD if self.what == RECORDS else batch.serialize(), copy=False)
            pipe.recv()  # a socket that is closed earlier may lose its last messages

    def read(self, pipe, count: int) -> int:
        import zmq

        seen = 0
        with zmq.Context() as context, context.socket(zmq.PULL) as socket:
            pipe.recv()
            socket.connect(self.address)
            socket.setsockopt(zmq.RCVTIMEO, 60_000)  # ms, for a writer that dies
            self.go(pipe)
            for _ in range(count):
                if self.what == RECORDS:
                    seen += len(socket.recv()) == len(RECORD)
                else:
                    data = pa.py_buffer(socket.recv())
                    seen += pa.ipc.read_record_batch(data, BATCH_SCHEMA).num_rows == ROWS
            self.stop()
        pipe.send("done")
        return seen


class Flight(Exchange):
    """Arrow Flight: one stream of batches from a server."""

    def __init__(self, *, same_host: bool) -> None:
        place = f"{tempfile.gettempdir()}/penstock-bench-{os.getpid()}.sock"
        self.location = f"grpc+unix://{place}" if same_host else "grpc://127.0.0.1:0"

    def write(self, pipe, count: int) -> None:
        from pyarrow import flight

        batch = arrow_batch()

        class Server(flight.FlightServerBase):
            """Streams the same batch."""

            def do_get(self, context, ticket):
                batches = (batch for _ in range(count))
                return flight.GeneratorStream(BATCH_SCHEMA, batches)

        with Server(self.location) as server:
            pipe.send(server.port)
            pipe.recv()
            pipe.recv()

    def read(self, pipe, count: int) -> int:
        from pyarrow import flight

        del count
        port = pipe.recv()
        location = self.location.replace(":0", f":{port}")
        with flight.connect(location) as client:
            self.go(pipe)
            reader = client.do_get(flight.Ticket(b""))
            seen = sum(chunk.data.num_rows == ROWS for chunk in reader)
            self.stop()
        pipe.send("done")
        return seen


def values_per_second(exchange: Exchange, count: int) -> float:
    """Return the rate at which ``count`` values pass from another process to this one."""
    context = multiprocessing.get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=exchange.write, args=(theirs, count))
    process.start()
    theirs.close()  # so that a read fails if the writer dies
    try:
        seen = exchange.read(mine, count)
    except BaseException:
        process.terminate()
        raise
    finally:
        process.join()
    assert seen == count, f"{seen} of {count} values"
    return count / exchange.seconds


ROWS_OF_PENSTOCK = {
    "64 B records from Python, same host": (RECORDS, True),
    "64 B records from Python, TCP": (RECORDS, False),
    "64 B records from Python by batch, same host": (COLLECTIONS, True),
    "Arrow batches from Python, same host": (BATCHES, True),
    "Arrow batches from Python, TCP": (BATCHES, False),
}
UNITS = {RECORDS: ("M/s", 1e6), COLLECTIONS: ("M/s", 1e6), BATCHES: ("GB/s", 1e9 / BATCH_BYTES)}
COUNTS = {RECORDS: 300_000, COLLECTIONS: 1_000_000, BATCHES: 4_000}
SMOKE_COUNTS = {RECORDS: 20_000, COLLECTIONS: 20_000, BATCHES: 200}
PURE_SHARE = 10
"""The pure twin moves one value in so many of the native one's."""
GOALS = {
    "64 B records from Python, same host": ("multiprocessing.Queue, 64 B records", 10),
    "64 B records from Python, TCP": ("multiprocessing.Queue, 64 B records", 10),
    "64 B records from Python by batch, same host": ("multiprocessing.Queue, 64 B records", 10),
    "Arrow batches from Python, same host": ("Arrow Flight, Unix socket", 1),
    "Arrow batches from Python, TCP": ("Arrow Flight, TCP", 1),
}
"""The peer of each row, and the ratio to reach."""
OWN = "penstock"
STANDARD = "multiprocessing"
ENGINES = {STANDARD: STANDARD, "pyzmq": "pyzmq", "Arrow Flight": "pyarrow"}
"""The packages of peers, by the beginning of the names of their rows."""
MOVED = {RECORDS: "64 B records", COLLECTIONS: "64 B records", BATCHES: "Arrow batches"}
"""Rows that move the same values are compared."""


def peers() -> dict[str, tuple[str, Exchange]]:
    """Return the installed peers, by the names of their rows."""
    context = multiprocessing.get_context("spawn")
    found = {
        "multiprocessing.Queue, 64 B records": (
            RECORDS,
            QueueOfMultiprocessing(context.Queue(1_000)),
        ),
        "multiprocessing.shared_memory, Arrow batches": (BATCHES, SharedMemory(context)),
    }
    if importlib.util.find_spec("zmq") is not None:
        found["pyzmq, 64 B records"] = (RECORDS, ZeroMQ(RECORDS))
        found["pyzmq, Arrow batches"] = (BATCHES, ZeroMQ(BATCHES))
    if importlib.util.find_spec("pyarrow._flight") is not None:
        found["Arrow Flight, Unix socket"] = (BATCHES, Flight(same_host=True))
        found["Arrow Flight, TCP"] = (BATCHES, Flight(same_host=False))
    return found


def contenders() -> dict[str, tuple[str, Exchange]]:
    """Return the peers and penstock, by the names of their rows."""
    own = {
        name: (what, Penstock("native", what, same_host=same_host))
        for name, (what, same_host) in ROWS_OF_PENSTOCK.items()
    }
    return peers() | own


def measure(count_of: dict[str, int]) -> dict[str, float]:
    """Measure each contender once, in turn; return the rates in the units of their rows."""
    return {
        name: values_per_second(exchange, count_of[what]) / UNITS[what][1]
        for name, (what, exchange) in contenders().items()
    }


def measure_twin(count_of: dict[str, int]) -> dict[str, float]:
    """Measure the pure twin once in each of penstock's rows."""
    rates = {}
    for name, (what, same_host) in ROWS_OF_PENSTOCK.items():
        twin = Penstock("pure", what, same_host=same_host)
        rates[name] = values_per_second(twin, count_of[what] // PURE_SHARE) / UNITS[what][1]
    return rates


def engine_of(name: str) -> str:
    """Return the package that a row measures."""
    found = (engine for start, engine in ENGINES.items() if name.startswith(start))
    return next(found, OWN)


def rows(rounds: list[dict[str, float]], twin: dict[str, float]) -> list[dict]:
    """Return the median rate of each contender, and median ratios of rates of the same round."""
    kinds = ROWS_OF_PENSTOCK | {name: (what, True) for name, (what, _) in peers().items()}
    found: list[dict] = [
        {
            "name": name,
            "value": statistics.median(each[name] for each in rounds),
            "unit": UNITS[kinds[name][0]][0],
            "pure": twin.get(name),
            "engine": engine_of(name),
            "moved": MOVED[kinds[name][0]],
        }
        for name in rounds[0]
    ]
    for name, (peer, goal) in GOALS.items():
        if peer in rounds[0]:
            value = statistics.median(each[name] / each[peer] for each in rounds)
            row = {"name": f"{name}, by {peer}", "value": value, "unit": "times", "pure": None}
            found.append({**row, "goal": goal, "met": value >= goal})
    return found


def main() -> None:
    """Measure, print a table and write ``benchmarks/results/exchange.json``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="few values, once; no result file")
    options = parser.parse_args()
    count_of = SMOKE_COUNTS if options.smoke else COUNTS
    before = os.getloadavg()[0]
    rounds = [measure(count_of) for _ in range(1 if options.smoke else options.rounds)]
    found = rows(rounds, measure_twin(count_of))
    for row in found:
        twin = "" if row["pure"] is None else f"  pure {row['pure']:.3g}"
        goal = f"  goal {row['goal']}: {'yes' if row['met'] else 'NO'}" if "goal" in row else ""
        print(f"{row['name']:75} {row['value']:8.3g} {row['unit']}{twin}{goal}")
    if not options.smoke:
        engines = sorted({row["engine"] for row in found if "engine" in row} - {OWN, STANDARD})
        versions = {engine: harness.version_of(engine) for engine in engines}
        load = [before, os.getloadavg()[0]]
        harness.write_document("exchange", found, versions, load_average=load)


if __name__ == "__main__":
    main()
