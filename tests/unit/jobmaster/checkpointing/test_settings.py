"""Options of checkpoints, one by one; invalid values start nothing."""

import dataclasses

import pytest
from penstock.common import Configuration
from penstock.common.options.check import check_options
from penstock.datastream import CheckpointingMode, StreamExecutionEnvironment
from penstock.errors import ConfigurationError
from penstock.jobmaster.checkpointing.properties import CheckpointProperties, Retention
from penstock.jobmaster.checkpointing.settings import CheckpointSettings
from penstock.network.events import NO_ALIGNMENT_TIMEOUT_MS, Alignment, SnapshotKind

DEFAULTS = CheckpointSettings.of({}, 1000)
UNALIGNED = {"unaligned.enabled": "true"}


def settings(options):
    keys = {f"execution.checkpointing.{key}": value for key, value in options.items()}
    return CheckpointSettings.of(keys, 1000)


@pytest.mark.parametrize(("options", "changed"), [
    ({"timeout": "20 s"}, {"timeout_ms": 20_000}),
    ({"min-pause": "500 ms"}, {"min_pause_ms": 500}),
    ({"min-pause": "5 s"}, {"min_pause_ms": 5000, "interval_ms": 5000}),
    ({"max-concurrent-checkpoints": "3"}, {"max_concurrent": 3}),
    ({"tolerable-failed-checkpoints": "7"}, {"tolerable_failures": 7}),
    ({"mode": "AT_LEAST_ONCE"}, {"is_exactly_once": False}),
    (UNALIGNED, {"is_unaligned": True}),
    ({"unaligned": "true"}, {"is_unaligned": True}),
    (UNALIGNED | {"mode": "AT_LEAST_ONCE"}, {"is_exactly_once": False}),
    ({"aligned-checkpoint-timeout": "3 s"}, {"aligned_timeout_ms": 3000}),
    ({"alignment-timeout": "3 s"}, {"aligned_timeout_ms": 3000}),
    ({"num-retained": "4"}, {"num_retained": 4}),
    (
        {"externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"},
        {"retention": Retention.RETAIN_ON_CANCELLATION},
    ),
    ({"checkpoints-after-tasks-finish": "false"}, {"after_tasks_finish": False}),
    ({"cleaner.parallel-mode": "false"}, {"cleans_in_parallel": False}),
])  # fmt: skip
def test_each_option_changes_one_setting(options, changed):
    assert settings(options) == dataclasses.replace(DEFAULTS, **changed)


@pytest.mark.parametrize(("options", "kind", "alignment"), [
    ({}, "CHECKPOINT", (Alignment.ALIGNED, NO_ALIGNMENT_TIMEOUT_MS)),
    ({"mode": "AT_LEAST_ONCE"}, "CHECKPOINT", (Alignment.AT_LEAST_ONCE, NO_ALIGNMENT_TIMEOUT_MS)),
    ({"mode": "AT_LEAST_ONCE"}, "SAVEPOINT", (Alignment.ALIGNED, NO_ALIGNMENT_TIMEOUT_MS)),
    (UNALIGNED, "CHECKPOINT", (Alignment.UNALIGNED, NO_ALIGNMENT_TIMEOUT_MS)),
    (UNALIGNED, "CHECKPOINT that does not overtake", (Alignment.ALIGNED, NO_ALIGNMENT_TIMEOUT_MS)),
    (UNALIGNED, "SAVEPOINT", (Alignment.ALIGNED, NO_ALIGNMENT_TIMEOUT_MS)),
    (UNALIGNED | {"aligned-checkpoint-timeout": "3 s"}, "CHECKPOINT", (Alignment.ALIGNED, 3000)),
])  # fmt: skip
def test_alignment_of_barriers(options, kind, alignment):
    name, _, held_back = kind.partition(" ")
    properties = CheckpointProperties(SnapshotKind[name], overtakes=not held_back)
    assert settings(options).alignment(properties) == alignment


def test_the_setters_of_an_environment_are_these_options():
    env = StreamExecutionEnvironment.get_execution_environment(Configuration())
    env.enable_checkpointing(1000, CheckpointingMode.AT_LEAST_ONCE)
    config = env.get_checkpoint_config()
    config.set_checkpoint_timeout(20_000)
    config.set_min_pause_between_checkpoints(500)
    config.set_max_concurrent_checkpoints(3)
    config.set_tolerable_checkpoint_failure_number(7)
    found = CheckpointSettings.of(env._configuration.to_dict(), config.get_checkpoint_interval())
    assert found == dataclasses.replace(
        DEFAULTS,
        is_exactly_once=False,
        timeout_ms=20_000,
        min_pause_ms=500,
        max_concurrent=3,
        tolerable_failures=7,
    )


WRONG = {
    "execution.checkpointing.interval": "9 ms",
    "execution.checkpointing.mode": "ONCE",
    "execution.checkpointing.timeout": "9 ms",
    "execution.checkpointing.min-pause": "soon",
    "execution.checkpointing.max-concurrent-checkpoints": "0",
    "execution.checkpointing.tolerable-failed-checkpoints": "-1",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN",
    "execution.checkpointing.unaligned.enabled": "maybe",
    "execution.checkpointing.unaligned.forced": "2",
    "execution.checkpointing.aligned-checkpoint-timeout": "-1 s",
    "execution.checkpointing.storage": "tape",
    "execution.checkpointing.num-retained": "0",
    "execution.checkpointing.incremental": "some",
    "execution.checkpointing.snapshot-compression": "lz4",
    "execution.checkpointing.checkpoints-after-tasks-finish": "no one",
    "execution.checkpointing.data-inline-threshold": "-1",
    "execution.checkpointing.local-backup.enabled": "here",
    "execution.state-recovery.from-local": "here",
    "execution.state-recovery.claim-mode": "LEGACY",
    "execution.state-recovery.ignore-unclaimed-state": "2",
    "state.backend.type": "paper",
    "state.changelog.enabled": "perhaps",
    "penstock.checkpointing.barrier-buffer": "SOMEWHERE",
    "penstock.checkpointing.barrier-buffer.max-size": "-2",
    "taskmanager.memory.managed.size": "1 kb",
    "restart-strategy.type": "hope",
    "restart-strategy.fixed-delay.attempts": "-1",
    "restart-strategy.fixed-delay.delay": "-1 s",
    "restart-strategy.failure-rate.max-failures-per-interval": "0",
    "restart-strategy.failure-rate.failure-rate-interval": "0 s",
    "restart-strategy.failure-rate.delay": "x",
    "restart-strategy.exponential-delay.initial-backoff": "0 s",
    "restart-strategy.exponential-delay.max-backoff": "0 s",
    "restart-strategy.exponential-delay.backoff-multiplier": "0.5",
    "restart-strategy.exponential-delay.reset-backoff-threshold": "0 s",
    "restart-strategy.exponential-delay.jitter-factor": "2",
    "restart-strategy.exponential-delay.attempts-before-reset-backoff": "0",
}


@pytest.mark.parametrize("key", WRONG)
def test_a_wrong_value_is_refused_before_a_job_starts(key):
    with pytest.raises(ConfigurationError, match=key):
        check_options({key: WRONG[key]})
