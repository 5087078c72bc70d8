"""Time zones by Java's names."""

import datetime

import pytest

pytest.importorskip("pyarrow")

from penstock.errors import ConfigurationError
from penstock.table import EnvironmentSettings, TableEnvironment
from penstock.table.options.time_zones import legacy_zone, time_zone, zone_id

_MOMENT = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)


def _hours(zone: datetime.tzinfo) -> float:
    offset = _MOMENT.astimezone(zone).utcoffset()
    assert offset is not None
    return offset / datetime.timedelta(hours=1)


@pytest.mark.parametrize(
    ("name", "hours"),
    [("GMT+8", 8), ("GMT-08:00", -8), ("GMT+0530", 5.5), ("UTC+01:00", 1), ("UT+1", 1),
     ("+02:00", 2), ("-2", -2), ("Z", 0), ("UTC", 0), ("GMT0", 0), ("Etc/GMT+8", -8),
     ("Asia/Tokyo", 9)],
)  # fmt: skip
def test_offsets_and_regions_are_time_zones(name: str, hours: float) -> None:
    assert _hours(time_zone(name)) == hours


@pytest.mark.parametrize("name", ["", "EST", "PST", "nowhere", "utc", "+19:00", "GMT+8:30", "Q+1"])
def test_other_names_are_none(name: str) -> None:
    with pytest.raises(ValueError, match="not a time zone"):
        time_zone(name)


@pytest.mark.parametrize(
    ("name", "hours"),
    [("GMT+8", 8), ("GMT+8:30", 8.5), ("GMT+0830", 8.5), ("PST", -8), ("EST", -5),
     ("Asia/Tokyo", 9), ("UTC+01:00", 0), ("+02:00", 0), ("nowhere", 0), ("GMT-24", 0)],
)  # fmt: skip
def test_unknown_names_of_convert_tz_are_utc(name: str, hours: float) -> None:
    assert _hours(legacy_zone(name)) == hours


def test_offsets_have_one_form() -> None:
    assert [zone_id(name) for name in ("GMT+8", "UTC+1", "Asia/Tokyo")] == [
        "GMT+08:00", "UTC+01:00", "Asia/Tokyo",
    ]  # fmt: skip


def test_the_session_may_be_at_an_offset() -> None:
    tables = TableEnvironment.create(EnvironmentSettings.in_batch_mode())
    config = tables.get_config()
    config.set("table.local-time-zone", "GMT+8")
    assert config.get_local_timezone() == "GMT+08:00"
    config.set_local_timezone("-02:00")
    assert config.get_local_timezone() == "GMT-02:00"
    query = "SELECT CAST(TO_TIMESTAMP_LTZ(0, 3) AS STRING)"
    with tables.execute_sql(query).collect() as rows:
        assert next(iter(rows))[0] == "1969-12-31 22:00:00.000"
    for refused in ("UTC+01:00", "+01:00", "Z", "nowhere"):
        with pytest.raises(ConfigurationError, match="GMT"):
            config.set("table.local-time-zone", refused)
