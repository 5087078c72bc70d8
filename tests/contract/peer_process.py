"""A peer in its own process, to be stopped and killed: it writes or reads endlessly.

Usage: ``peer_process.py RUNTIME SAME_HOST produce``, ``… offer CHANNELS`` (without writing) or ``…
consume HOST PORT``.  It prints a line of JSON when it is ready: its address, or that each channel
has delivered.
"""

from __future__ import annotations

import json
import sys

from contract.plane import PATIENCE_MS, Plane, partition_id

CHANNELS = 3
VALUE_BYTES = 100_000


def produce(plane: Plane) -> None:
    environment = plane.environment()
    partition = environment.create_result_partition(partition_id(), CHANNELS)
    writing = plane.writing(partition)
    print(json.dumps(environment.address), flush=True)
    while True:
        writing.write(*(bytes([channel]) * VALUE_BYTES for channel in range(CHANNELS)))


def offer(plane: Plane, channels: int) -> None:
    environment = plane.environment()
    _partition = environment.create_result_partition(partition_id(), channels)
    print(json.dumps(environment.address), flush=True)
    sys.stdin.read()


def consume(plane: Plane, address: tuple[str, int]) -> None:
    environment = plane.environment()
    gate = environment.create_input_gate(
        [(partition_id(), channel, address) for channel in range(CHANNELS)]
    )
    gate.request_partitions()
    # From every channel: a subpartition without a reader's request would wait for ever.
    waited_for = set(range(CHANNELS))
    while waited_for:
        delivered = gate.next_buffer(PATIENCE_MS)
        assert delivered is not None, f"nothing came from {waited_for}"
        waited_for.discard(delivered[0])
    print(json.dumps("reading"), flush=True)
    while gate.next_buffer(PATIENCE_MS) is not None:
        pass


def main(arguments: list[str]) -> None:
    plane = Plane(arguments[0])
    plane.same_host_path = arguments[1] == "same-host"
    if arguments[2] == "produce":
        produce(plane)
    elif arguments[2] == "offer":
        offer(plane, int(arguments[3]))
    else:
        consume(plane, (arguments[3], int(arguments[4])))


if __name__ == "__main__":
    main(sys.argv[1:])
