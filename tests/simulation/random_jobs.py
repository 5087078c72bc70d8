"""Random jobs, with their restart strategies and checkpoint settings."""

import random
from dataclasses import replace

from penstock.graph import partitioners as p
from penstock.jobmaster.checkpointing.properties import Retention
from penstock.jobmaster.checkpointing.settings import CheckpointSettings
from penstock.jobmaster.scheduling.restart_strategies import (
    ExponentialDelayRestartStrategy,
    FailureRateRestartStrategy,
    FixedDelayRestartStrategy,
    NoRestartStrategy,
)
from support.graphs import Program

HOUR_MS = 3_600_000


def random_job(rng):
    batch = rng.random() < 0.15
    program = Program(parallelism=rng.randint(1, 2), batch=batch, blocking_shuffles=batch)
    spread = [p.REBALANCE, p.RESCALE, p.BROADCAST, p.GLOBAL, p.SHUFFLE]
    for component in range(rng.choice([1, 1, 1, 2, 3])):
        streams = [program.source(f"S{component}", rng.randint(1, 2))]
        for number in range(rng.choice([0, 1, 1, 2, 3])):
            upstream = program.partition(rng.choice(streams), rng.choice(spread))
            name = f"O{component}.{number}"
            if len(streams) > 1 and rng.random() < 0.3:
                other = program.partition(rng.choice(streams), rng.choice(spread))
                stream = program.co_map(upstream, other, name, rng.randint(1, 3))
            else:
                stream = program.map(upstream, name, rng.randint(1, 3))
            if rng.random() < 0.2:
                stream.slot_sharing_group = rng.choice("xy")
            streams.append(stream)
    return program.job_graph(job_id=bytes(16)), batch


def random_strategy(rng):
    return rng.choice(
        [
            NoRestartStrategy(),
            FixedDelayRestartStrategy(rng.randint(1, 20), rng.choice([0, 10, 500])),
            FailureRateRestartStrategy(rng.randint(1, 5), 1000, rng.choice([0, 50])),
            ExponentialDelayRestartStrategy(
                initial_backoff_ms=10, max_backoff_ms=500, rng=random.Random(rng.random())
            ),
            FixedDelayRestartStrategy(10_000, 10),
        ]
    )


def random_checkpoints(rng, is_batch):
    interval_ms = None if is_batch else rng.choice([20, 60, 60, 250, HOUR_MS, None])
    concurrent = rng.choice([1, 1, 1, 2, 3])
    settings = CheckpointSettings(
        interval_ms=interval_ms,
        timeout_ms=rng.choice([400, 1_000, 2_000]),
        min_pause_ms=rng.choice([0, 0, 10]),
        max_concurrent=concurrent,
        tolerable_failures=rng.choice([0, 2, None, None]),
        is_exactly_once=rng.random() < 0.75,
        num_retained=rng.choice([1, 1, 2, 3]),
        retention=rng.choice(list(Retention)),
        after_tasks_finish=rng.random() < 0.85,
    )
    may_be_unaligned = settings.is_exactly_once and concurrent == 1
    return replace(settings, is_unaligned=may_be_unaligned and rng.random() < 0.5)
