"""Tests of formats and connectors run in a zone where a point of time without its zone is wrong.

Goal: the setup that ensures this cannot be lost.  Method: this file is one of them.
"""

import datetime

from support.zones import OF_OTHER_ZONES, TESTS, ZONES, zone_of


def test_this_file_runs_in_another_zone(zone_of_the_file, request):
    assert zone_of_the_file == (request.config.getoption("--zone") or zone_of(request.path))
    offset = datetime.datetime(2024, 1, 1).astimezone().utcoffset()
    assert offset != datetime.timedelta() or zone_of_the_file == "UTC"


def test_every_named_file_is_there_and_each_zone_has_some():
    files = []
    for name in OF_OTHER_ZONES:
        path = TESTS / name
        found = sorted(path.glob("test_*.py")) if path.is_dir() else [path]
        assert found
        assert all(file.is_file() for file in found), name
        files += found
    for folder in ("unit", "integration"):
        assert {zone_of(file) for file in files if folder in file.parts} == set(ZONES)
    assert zone_of(TESTS / "unit" / "test_documents.py") is None
