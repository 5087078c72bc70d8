"""Restart strategies (internals M46)."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from penstock.errors import ConfigurationError
from penstock.jobmaster.scheduling.restart_strategies import (
    ExponentialDelayRestartStrategy,
    FailureRateRestartStrategy,
    FixedDelayRestartStrategy,
    NoRestartStrategy,
    restart_strategy_from_configuration,
)


def test_none_never_restarts():
    strategy = NoRestartStrategy()
    strategy.notify_failure(0)
    assert not strategy.can_restart()


def test_fixed_delay_counts_attempts():
    strategy = FixedDelayRestartStrategy(3, 7)
    allowed = []
    for now in range(5):
        assert strategy.notify_failure(now)
        allowed.append(strategy.can_restart())
    assert allowed == [True, True, True, False, False]
    assert strategy.backoff_ms(0) == 7


def test_failure_rate_forgets_old_failures():
    strategy = FailureRateRestartStrategy(2, 100, 5)
    outcomes = []
    for now in (0, 10, 101, 120, 150, 300):
        strategy.notify_failure(now)
        outcomes.append(strategy.can_restart())
    # 0, 10, 101: the oldest of three is 101 ms ago; 10, 101, 120: 110 ms; 101..150 only 49.
    assert outcomes == [True, True, True, True, False, True]


def test_failure_rate_refuses_at_exactly_the_interval():
    strategy = FailureRateRestartStrategy(1, 100, 0)
    strategy.notify_failure(0)
    strategy.notify_failure(100)
    assert not strategy.can_restart()


def exponential(**options):
    defaults = {
        "initial_backoff_ms": 2,
        "max_backoff_ms": 6,
        "multiplier": 2.0,
        "jitter_factor": 0.0,
        "reset_threshold_ms": 1000,
    }
    return ExponentialDelayRestartStrategy(**{**defaults, **options})


def test_exponential_merges_failures_of_one_window():
    """Initial 2, multiplier 2, max 6, three attempts: delays 2, 4, 6, then no more."""
    strategy = exponential(attempts_before_reset=3)
    now = 0
    for delay in (2, 4, 6):
        assert strategy.notify_failure(now)
        assert strategy.can_restart()
        assert strategy.backoff_ms(now) == delay
        for later in range(1, delay + 1):
            assert not strategy.notify_failure(now + later)
            assert strategy.can_restart()
            assert strategy.backoff_ms(now + later) == delay - later
        now += delay + 1
    assert strategy.notify_failure(now)
    assert not strategy.can_restart()


def test_exponential_resets_after_a_quiet_time():
    strategy = exponential()
    strategy.notify_failure(0)
    strategy.notify_failure(3)
    assert strategy.backoff_ms(3) == 4
    quiet = 3 + 4 + 1000
    strategy.notify_failure(quiet)
    assert strategy.backoff_ms(quiet) == 2


def test_exponential_does_not_reset_just_before():
    strategy = exponential()
    strategy.notify_failure(0)
    just_before = 2 + 999
    strategy.notify_failure(just_before)
    assert strategy.backoff_ms(just_before) == 4


@given(st.integers(0, 2**32), st.floats(0, 1), st.floats(1, 3), st.integers(1, 40))
def test_exponential_jitter_stays_in_bounds(seed, jitter, multiplier, failures):
    strategy = ExponentialDelayRestartStrategy(
        initial_backoff_ms=100,
        max_backoff_ms=5000,
        multiplier=multiplier,
        jitter_factor=jitter,
        rng=random.Random(seed),
    )
    now = 0
    for attempt in range(failures):
        assert strategy.notify_failure(now)
        delay = strategy.backoff_ms(now)
        backoff = min(100 * multiplier**attempt, 1e9)
        assert 100 <= delay <= 5000
        assert delay <= max(100, backoff * (1 + jitter))
        if backoff <= 5000:
            assert delay >= min(5000, int(backoff * (1 - jitter)))
        now += delay + 1


def test_exponential_survives_very_many_failures():
    strategy = exponential()
    now = 0
    for _ in range(5000):
        strategy.notify_failure(now)
        now += strategy.backoff_ms(now) + 1
    assert strategy.can_restart()


@pytest.mark.parametrize(
    "options",
    [
        {"initial_backoff_ms": 0},
        {"max_backoff_ms": 1},
        {"multiplier": 0.5},
        {"jitter_factor": 1.5},
        {"reset_threshold_ms": 0},
        {"attempts_before_reset": 0},
    ],
)
def test_exponential_parameters_are_checked(options):
    with pytest.raises(ConfigurationError):
        exponential(**options)


def configured(**keys):
    flat = {f"restart-strategy.{k}": v for k, v in keys.items()}
    return restart_strategy_from_configuration(flat)


def test_nothing_is_restarted_by_default():
    """Without checkpoints a restart would repeat all output."""
    assert isinstance(restart_strategy_from_configuration({}), NoRestartStrategy)


def test_jobs_with_checkpoints_restart_by_default():
    interval = {"execution.checkpointing.interval": "1 s"}
    strategy = restart_strategy_from_configuration(interval)
    assert isinstance(strategy, ExponentialDelayRestartStrategy)
    none = restart_strategy_from_configuration(interval | {"restart-strategy.type": "none"})
    assert isinstance(none, NoRestartStrategy)


@pytest.mark.parametrize("name", ["none", "off", "disable", "None"])
def test_none_by_its_names(name):
    assert isinstance(configured(type=name), NoRestartStrategy)


@pytest.mark.parametrize("attempts", ["infinite", "Infinite", "2147483647"])
@pytest.mark.parametrize(
    ("kind", "key"),
    [
        ("fixed-delay", "attempts"),
        ("failure-rate", "max-failures-per-interval"),
        ("exponential-delay", "attempts-before-reset-backoff"),
    ],
)
def test_infinite_attempts(kind, key, attempts):
    """Flink's documentation writes "infinite" for the largest number, which is never reached."""
    strategy = configured(**{"type": kind, f"{kind}.{key}": attempts})
    for now in range(1000):
        strategy.notify_failure(now * 10_000)
        assert strategy.can_restart()


def test_configured_strategies():
    fixed = configured(
        **{"type": "fixed-delay", "fixed-delay.attempts": "5", "fixed-delay.delay": "2 s"}
    )
    assert str(fixed) == "FixedDelayRestartStrategy(attempts=5, delay=2000 ms)"
    assert str(configured(type="fixeddelay")).endswith("(attempts=1, delay=1000 ms)")
    rate = configured(
        **{
            "type": "failure-rate",
            "failure-rate.max-failures-per-interval": "4",
            "failure-rate.failure-rate-interval": "5 min",
            "failure-rate.delay": "PT3S",
        }
    )
    assert str(rate) == (
        "FailureRateRestartStrategy(max-failures-per-interval=4, interval=300000 ms, delay=3000 ms)"
    )
    exponential_delay = configured(
        **{
            "type": "exponential-delay",
            "exponential-delay.initial-backoff": "10ms",
            "exponential-delay.max-backoff": "1h",
            "exponential-delay.backoff-multiplier": "3.5",
            "exponential-delay.jitter-factor": "0",
            "exponential-delay.attempts-before-reset-backoff": "9",
        }
    )
    text = str(exponential_delay)
    for part in ("=10 ms", "=3600000 ms", "=3.5", "jitter-factor=0.0", "backoff=9"):
        assert part in text


@pytest.mark.parametrize(
    "keys",
    [
        {"type": "sometimes"},
        {"type": "fixed-delay", "fixed-delay.attempts": "many"},
        {"type": "fixed-delay", "fixed-delay.attempts": "-1"},
        {"type": "fixed-delay", "fixed-delay.delay": "soon"},
        {"type": "exponential-delay", "exponential-delay.backoff-multiplier": "x"},
        {"type": "exponential-delay", "exponential-delay.backoff-multiplier": "0.9"},
        {"type": "exponential-delay", "exponential-delay.jitter-factor": "1.1"},
        {"type": "exponential-delay", "exponential-delay.jitter-factor": "nan"},
        {"type": "exponential-delay", "exponential-delay.initial-backoff": "0 ms"},
        {"type": "exponential-delay", "exponential-delay.attempts-before-reset-backoff": "0"},
        {"type": "failure-rate", "failure-rate.max-failures-per-interval": "0"},
        {"type": "failure-rate", "failure-rate.failure-rate-interval": "0 s"},
    ],
)
def test_bad_configuration_names_the_key(keys):
    with pytest.raises(ConfigurationError, match="restart-strategy"):
        configured(**keys)
