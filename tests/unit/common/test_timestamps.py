"""Timestamps that a user's function may return, in both runtimes."""

import datetime
import ipaddress
from decimal import Decimal
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest
from penstock.common import Instant, timestamps
from penstock.network import runtime
from support.zones import machine_in

IMPLEMENTATIONS = [timestamps.timestamp_of]
if runtime() == "native":
    from penstock._native.values.timestamps import timestamp_of as native_timestamp_of

    IMPLEMENTATIONS.append(native_timestamp_of)

NEW_YEAR_MS = 1_704_067_200_000
UTC = datetime.UTC


@pytest.fixture(params=IMPLEMENTATIONS)
def timestamp_of(request):
    return request.param


@pytest.mark.parametrize(
    ("given", "expected_ms"),
    [
        (7, 7),
        (np.int32(7), 7),
        (7.9, 7),
        (Decimal("7.9"), 7),
        (datetime.datetime(2024, 1, 1, tzinfo=UTC), NEW_YEAR_MS),
        (datetime.datetime(2024, 1, 1, 1, tzinfo=ZoneInfo("Europe/Berlin")), NEW_YEAR_MS),
        (datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC), -1),
        (datetime.datetime(2024, 1, 1), NEW_YEAR_MS),
        (pd.Timestamp("2024-01-01T00:00:00.001999999Z"), NEW_YEAR_MS + 1),
        (Instant(-1, 999_999_999), -1),
        (Instant(10**12, 5_000_000), 10**15 + 5),
        (np.datetime64("2024-01-01T00:00:00.001999999"), NEW_YEAR_MS + 1),
        *((np.datetime64("2024-01-01", unit), NEW_YEAR_MS) for unit in "YMDhms"),
        (np.datetime64("2024-01-01", "W"), NEW_YEAR_MS - 4 * 86_400_000),
        (np.datetime64("2024-01-01", "ms"), NEW_YEAR_MS),
        (np.datetime64("1970-01-01T00:00:00.001", "ps"), 1),
        (np.datetime64(-1, "fs"), -1),
        (np.datetime64(2, "25s"), 50_000),
    ],
)
def test_numbers_are_milliseconds_and_points_of_time_are_converted(
    timestamp_of, given, expected_ms
):
    assert timestamp_of(given, "assigner") == expected_ms


@pytest.mark.parametrize(
    "given",
    [
        None,
        "7",
        datetime.date(2024, 1, 1),
        datetime.timedelta(seconds=7),
        np.timedelta64(7, "s"),
        np.datetime64("NaT"),
        pd.NaT,
        ipaddress.ip_address("1.2.3.4"),  # an object with __int__
    ],
)
def test_anything_else_is_refused(timestamp_of, given):
    with pytest.raises(TypeError, match=r"assigner: expected milliseconds .* got "):
        timestamp_of(given, "assigner")


@pytest.mark.parametrize(
    "given", [2**63, float("inf"), Instant(2**60, 0), np.datetime64(2**60, "D")]
)
def test_points_of_time_beyond_64_bits_are_refused(timestamp_of, given):
    with pytest.raises(OverflowError, match="number of 64 bits"):
        timestamp_of(given, "assigner")


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Kolkata"])
def test_a_datetime_without_a_zone_is_of_utc_wherever_the_machine_is(timestamp_of, zone):
    with machine_in(zone):
        assert timestamp_of(datetime.datetime(2024, 1, 1), "assigner") == NEW_YEAR_MS


def test_the_refusal_of_a_generator_shows_what_to_write(timestamp_of):
    with pytest.raises(TypeError, match=r"generator object .*; write return in place of yield"):
        timestamp_of((number for number in [7]), "assigner")
