"""Reads and writes of keyed state, in one thread and without a job.

``rates`` returns reads and writes of a value in RocksDB per second, of all keys alike and of one in
a hundred; ``map_rates`` the same for entries of maps, in either backend.
"""

import random
import tempfile
import time
from pathlib import Path

from penstock import network
from penstock.common import Types
from penstock.datastream.state import MapStateDescriptor, ValueStateDescriptor
from penstock.expressions.evaluation import Evaluation
from penstock.taskexecutor.state.backends.backend_factory import create_keyed_state_backend
from penstock.taskexecutor.state.backends.keyed_state_backend import (
    BackendSurroundings,
    KeyGrouping,
)

GROUPS = 128


#: The number of entries in each key's map.
PAIRS = 10


def opened(folder: str, backend: str = "rocksdb"):
    keys = network.KeyReader(lambda key: key, -1, int, None)
    return create_keyed_state_backend(
        BackendSurroundings(
            {"state.backend.type": backend},
            lambda: 0,
            Evaluation(enabled=False),
            lambda: KeyGrouping("LONG", GROUPS, range(GROUPS)),
            lambda: keys,
            lambda: str(Path(folder, "task")),
            bytes(16),
            0,
        )
    )


def rates(keys: int, accesses: int) -> tuple[float, float]:
    """Return read-modify-writes per second, of all keys alike and of one in a hundred."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        backend = opened(folder)
        state = backend.state(ValueStateDescriptor("count", Types.LONG()))
        for key in range(keys):
            backend.current_key = key
            state.update(0)
        chosen = random.Random(1)
        found = []
        for among in (keys, keys // 100):
            order = [chosen.randrange(among) for _ in range(accesses)]
            began = time.perf_counter()
            for key in order:
                backend.current_key = key
                state.update(state.value() + 1)
            found.append(accesses / (time.perf_counter() - began))
        backend.dispose()
    return found[0], found[1]


def map_rates(pairs: int, accesses: int, backend: str) -> tuple[float, float]:
    """Return the same for entries of maps that have ten each."""
    with tempfile.TemporaryDirectory(prefix="penstock-bench-") as folder:
        states = opened(folder, backend)
        state = states.state(MapStateDescriptor("counts", Types.LONG(), Types.LONG()))
        keys = max(1, pairs // PAIRS)
        for key in range(keys):
            states.current_key = key
            for name in range(PAIRS):
                state.put(name, 0)
        chosen = random.Random(1)
        found = []
        for among in (keys, max(1, keys // 100)):
            order = [(chosen.randrange(among), chosen.randrange(PAIRS)) for _ in range(accesses)]
            began = time.perf_counter()
            for key, name in order:
                states.current_key = key
                state.put(name, state.get(name) + 1)
            found.append(accesses / (time.perf_counter() - began))
        states.dispose()
    return found[0], found[1]
