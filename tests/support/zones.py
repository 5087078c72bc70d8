"""The time zone of this process and of its child processes.

Results must not depend on it.  Test machines are mostly in UTC, where a point of time that has lost
its zone looks right.  So the tests of formats and connectors run in other zones: each file in one
of them, or in the zone that ``--zone`` names.
"""

import os
import time
from contextlib import contextmanager
from pathlib import Path
from zlib import crc32

import pytest

#: One west of UTC, with summer time, and one east of it with an additional half hour.
ZONES = ("America/New_York", "Asia/Kolkata")

#: Files and folders of tests that exchange points of time with other systems.
OF_OTHER_ZONES = (
    "unit/connectors",
    "unit/formats",
    "unit/connectors/test_bulk_file_sink.py",
    "unit/connectors/test_file_compaction.py",
    "unit/taskexecutor/test_file_formats.py",
    "unit/connectors/test_file_sink.py",
    "unit/connectors/test_file_sink_options.py",
    "unit/connectors/test_object_file_sink.py",
    "unit/taskexecutor/test_types_of_columns.py",
    "contract/test_codec.py",
    "integration/kafka",
    "integration/test_avro_registry.py",
    "integration/test_data_frames.py",
    "integration/test_delta.py",
    "integration/test_delta_changes.py",
    "integration/test_elasticsearch.py",
    "integration/test_formats.py",
    "integration/test_frames.py",
    "integration/test_http_sink.py",
    "integration/test_http_source.py",
    "integration/test_iceberg.py",
    "integration/test_iceberg_source.py",
    "integration/test_instants.py",
    "integration/test_jdbc_instants.py",
    "integration/test_jdbc_lookup.py",
    "integration/test_jdbc_sink.py",
    "integration/test_kinesis.py",
    "integration/test_mongodb.py",
    "integration/test_mqtt.py",
    "integration/test_postgres_cdc.py",
    "integration/test_postgres_cdc_values.py",
    "integration/test_rabbitmq.py",
    "integration/test_redis.py",
    "integration/test_sink_contract.py",
    "integration/test_source_contract.py",
)

TESTS = Path(__file__).parent.parent


def pytest_addoption(parser):
    parser.addoption("--zone", help="the time zone in which tests of formats and connectors run")


@pytest.fixture(scope="module", autouse=True)
def zone_of_the_file(request):
    """Set the zone in which the tests of this file run; None for the machine's zone."""
    zone = zone_of(request.path)
    if zone is None:
        yield None
        return
    with machine_in(request.config.getoption("--zone") or zone) as chosen:
        yield chosen


def zone_of(path):
    """Return the zone in which a test file runs; None for the machine's zone."""
    if not path.is_relative_to(TESTS):
        return None
    name = path.relative_to(TESTS).as_posix()
    if not any(name == other or name.startswith(f"{other}/") for other in OF_OTHER_ZONES):
        return None
    return ZONES[crc32(name.encode()) % len(ZONES)]


@contextmanager
def machine_in(zone):
    """Set the time zone of this process, and of workers that it starts within the block."""
    before = os.environ.get("TZ")
    os.environ["TZ"] = zone
    time.tzset()
    try:
        yield zone
    finally:
        if before is None:
            del os.environ["TZ"]
        else:
            os.environ["TZ"] = before
        time.tzset()
