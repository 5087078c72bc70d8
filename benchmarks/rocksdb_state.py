"""Reads and writes of a ValueState in RocksDB, in one thread and without a job.

``rates`` gives reads and writes of a value per second, of all keys alike and of one in a hundred.
"""

import random
import tempfile
import time
from pathlib import Path

from penstock import network
from penstock.common import Types
from penstock.datastream.state import ValueStateDescriptor
from penstock.expressions.evaluation import Evaluation
from penstock.taskexecutor.state.keyed_state_backend import (
    BackendSurroundings,
    KeyGrouping,
    create_keyed_state_backend,
)

GROUPS = 128


def opened(folder: str):
    keys = network.KeyReader(lambda key: key, -1, int, None)
    return create_keyed_state_backend(
        BackendSurroundings(
            {"state.backend.type": "rocksdb"},
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
    """Of all keys alike, and of one in a hundred: read-modify-writes per second."""
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
