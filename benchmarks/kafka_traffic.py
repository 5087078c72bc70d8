"""The processes that measure latency through Kafka, one for each part.

    python benchmarks/kafka_traffic.py load SERVERS TOPIC PARTITIONS RATE SECONDS
    python benchmarks/kafka_traffic.py meter SERVERS TOPIC COUNT WARM_UP

``load`` writes ``RATE`` records of 100 bytes a second, those of a millisecond together, each with
the moment when it was due by the machine's monotonic clock, which all processes share: a record
that the generator writes late counts as late from when it was due.  ``meter`` prints ``ready`` when
a first record has arrived, reads the next ``COUNT``, and prints their latencies in ms as JSON,
without the first ``WARM_UP``.  The last line of ``load`` is its own delay.
"""

import json
import sys
import time

FIRST = b"first"
"""The beginning of the record value that makes `meter` ready."""

TICK_NS = 1_000_000

PATIENCE_S = 60
"""The time without any record after which `meter` gives up."""


def percentiles(took_ms: list[float]) -> dict[str, float]:
    took_ms.sort()
    count = len(took_ms)
    return {
        "count": count,
        "median": took_ms[count // 2],
        "p99": took_ms[count * 99 // 100],
        "p999": took_ms[count * 999 // 1000],
        "max": took_ms[-1],
    }


def load(servers: str, topic: str, partitions: int, rate: int, seconds: int) -> None:
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
    producer.list_topics(topic)  # connects
    late_ms = []
    begun_ns = time.monotonic_ns() + 100 * TICK_NS
    number = 0
    for tick in range(seconds * 1_000_000_000 // TICK_NS):
        due_ns = begun_ns + tick * TICK_NS
        while (rest_ns := due_ns - time.monotonic_ns()) > 0:
            time.sleep(rest_ns / 1e9)
        end = (tick + 1) * TICK_NS * rate // 1_000_000_000
        while number < end:
            producer.produce(topic, f"{due_ns} {number}".ljust(100), partition=number % partitions)
            number += 1
        producer.poll(0)
        late_ms.append((time.monotonic_ns() - due_ns) / 1e6)
    producer.flush()
    print(json.dumps(percentiles(late_ms)))


def meter(servers: str, topic: str, count: int, warm_up: int) -> None:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": servers, "group.id": "meter"})
    partitions = consumer.list_topics(topic).topics[topic].partitions
    consumer.assign([TopicPartition(topic, number, 0) for number in partitions])
    taken, seen = [], 0
    heard_s = time.monotonic()
    while seen < count:
        # Only one record is awaited: for more, the client would wait until all of them have
        # arrived.
        messages = consumer.consume(1, 0.1)
        if messages:
            messages += consumer.consume(1000, 0)
        now_ns = time.monotonic_ns()
        if messages:
            heard_s = time.monotonic()
        elif time.monotonic() - heard_s > PATIENCE_S:
            raise SystemExit(f"nothing came for {PATIENCE_S} s behind {seen} of {count}")
        for message in messages:
            if message.error() is not None:
                raise SystemExit(message.error().str())
            value = message.value()
            if value.startswith(FIRST):
                print("ready", flush=True)
                continue
            seen += 1
            due_ns, number, *_ = value.split()
            if int(number) >= warm_up:
                taken.append((now_ns - int(due_ns)) / 1e6)
    consumer.close()
    print(json.dumps(percentiles(taken)))


if __name__ == "__main__":
    what, servers, topic, *numbers = sys.argv[1:]
    {"load": load, "meter": meter}[what](servers, topic, *map(int, numbers))
