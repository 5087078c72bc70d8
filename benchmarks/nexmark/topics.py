"""The tables as topics of Kafka, one JSON record for each row, in two partitions.

Who reads them finds the broker's address in the environment variable `SERVERS`.
"""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from nexmark.events import SCHEMAS

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVERS = "PENSTOCK_BENCH_KAFKA"
PARTITIONS = 2


def topic(folder: Path, table: str) -> str:
    """Return the topic of a table of a folder."""
    return f"{folder.name}-{table}"


@contextlib.contextmanager
def broker() -> Iterator[str]:
    """Run a broker, whose address is in the environment meanwhile."""
    sys.path.append(str(Path(__file__).resolve().parents[2] / "tests"))
    from integration.kafka.broker import Broker

    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        started = Broker(Path(folder))
        try:
            started.start()
            os.environ[SERVERS] = started.servers
            yield started.servers
        finally:
            os.environ.pop(SERVERS, None)
            started.stop()


def fill(folder: Path, servers: str) -> None:
    """Write the lines of JSON of a folder, as `events.write` leaves it, to new topics."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    created = [NewTopic(topic(folder, table), PARTITIONS) for table in SCHEMAS]
    admin = AdminClient({"bootstrap.servers": servers})
    for future in admin.create_topics(created).values():
        future.result()
    producer = Producer(
        {"bootstrap.servers": servers, "linger.ms": 20, "queue.buffering.max.messages": 1_000_000}
    )
    for table in SCHEMAS:
        name, number = topic(folder, table), 0
        for path in sorted((folder / table).glob("*.json")):
            with path.open("rb") as lines:
                for line in lines:
                    while True:
                        try:
                            producer.produce(name, line.rstrip(), partition=number % PARTITIONS)
                            break
                        except BufferError:
                            producer.poll(0.1)
                    number += 1
    producer.flush()
