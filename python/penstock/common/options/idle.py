"""Options of state, checkpoints and restarts that have no effect because of others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.options import (
    adaptive,
    changelog,
    checkpointing,
    restart_strategy,
    rocksdb,
    state,
    state_recovery,
)
from penstock.common.options.registry import options_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.common.options.option import Option

_BEGINNINGS: Final = ("fixed-delay", "failure-rate", "exponential-delay")


def idle_options(configuration: Mapping[str, str]) -> Iterator[tuple[str, Sequence[Option[Any]]]]:
    """Yield options that have no effect, set or not, with the reason.

    Args:
        configuration: The options, which are already checked.
    """
    if state.BACKEND.read(configuration) != "rocksdb":
        yield f"they apply only with {state.BACKEND.key} rocksdb", options_of(rocksdb)
    elif rocksdb.MANAGED.read(configuration):
        yield (
            f"with {rocksdb.MANAGED.key} the databases of a slot share their block cache",
            (rocksdb.BLOCK_CACHE_SIZE,),
        )
    else:
        yield (
            f"without {rocksdb.MANAGED.key} databases share no memory",
            (rocksdb.MEMORY_PER_SLOT, rocksdb.WRITE_BUFFER_RATIO),
        )
    if not rocksdb.PARTITIONED.read(configuration):
        yield (
            f"indexes have parts only with {rocksdb.PARTITIONED.key}",
            (rocksdb.METADATA_BLOCK_SIZE,),
        )
    if not rocksdb.USE_BLOOM_FILTER.read(configuration):
        yield f"{rocksdb.USE_BLOOM_FILTER.key} is false", (rocksdb.BLOOM_FILTER_BITS,)
    is_chosen = checkpointing.STORAGE.is_set(configuration)
    if checkpointing.FOLDER.read(configuration) is None or (
        is_chosen and checkpointing.STORAGE.read(configuration) == "jobmanager"
    ):
        yield (
            "the driver keeps checkpoints in its memory, and they end with it",
            (
                checkpointing.FOLDER,
                checkpointing.RETENTION,
                checkpointing.LOCAL_BACKUP,
                state_recovery.FROM_LOCAL,
            ),
        )
    yield from _of_changelog(configuration)
    if not checkpointing.UNALIGNED.read(configuration):
        yield (
            f"barriers overtake data only with {checkpointing.UNALIGNED.key}",
            (checkpointing.ALIGNED_TIMEOUT, checkpointing.FORCE_UNALIGNED),
        )
    if checkpointing.BARRIER_BUFFER.read(configuration) == "NONE":
        yield (
            f"no data waits behind barriers without {checkpointing.BARRIER_BUFFER.key}",
            (checkpointing.BARRIER_BUFFER_LIMIT,),
        )
    if checkpointing.INTERVAL.read(configuration) is None:
        yield (
            f"no checkpoint follows another without {checkpointing.INTERVAL.key}",
            (checkpointing.MIN_PAUSE,),
        )
    if state_recovery.PATH.read(configuration) is None:
        yield (
            f"the job starts without state if {state_recovery.PATH.key} is not set",
            (state_recovery.CLAIM_MODE, state_recovery.IGNORE_UNCLAIMED),
        )
    if adaptive.SCHEDULER.read(configuration) != "Adaptive":
        yield (
            f"jobs keep their parallelism without {adaptive.SCHEDULER.key} Adaptive",
            options_of(adaptive),
        )
    elif checkpointing.INTERVAL.read(configuration) is None:
        yield (
            f"a running job is not rescaled to more slots without {checkpointing.INTERVAL.key}",
            (adaptive.COOLDOWN, adaptive.EXECUTING_STABILIZATION_TIMEOUT),
        )
    yield from _of_other_restarts(configuration)


def _of_changelog(
    configuration: Mapping[str, str],
) -> Iterator[tuple[str, Sequence[Option[Any]]]]:
    if not changelog.ENABLED.read(configuration):
        yield f"changes are logged only with {changelog.ENABLED.key}", options_of(changelog)
        return
    yield f"with {changelog.ENABLED.key} checkpoints log changes", (checkpointing.INCREMENTAL,)
    if changelog.STORAGE.read(configuration) == "memory":
        yield f"{changelog.STORAGE.key} is memory", (changelog.BASE_PATH,)
    if not changelog.MATERIALIZE.read(configuration):
        yield (
            f"{changelog.MATERIALIZE.key} is false",
            (changelog.MATERIALIZE_INTERVAL, changelog.MAX_FAILURES),
        )
    if changelog.RETRY_POLICY.read(configuration) == "none":
        yield (
            f"{changelog.RETRY_POLICY.key} is none",
            (changelog.MAX_ATTEMPTS, changelog.ATTEMPT_DELAY),
        )


def _of_other_restarts(
    configuration: Mapping[str, str],
) -> Iterator[tuple[str, Sequence[Option[Any]]]]:
    kind = restart_strategy.effective_type(configuration)
    others = [
        option
        for option in options_of(restart_strategy)
        for name in _BEGINNINGS
        if name != kind and option.key.startswith(f"restart-strategy.{name}.")
    ]
    yield f"{restart_strategy.TYPE.key} is {kind}", others
