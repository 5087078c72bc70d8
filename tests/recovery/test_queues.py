"""from_queue in a job whose workers are killed: each record once while the program lives."""

import queue

import pytest
from penstock.common import Types
from penstock.datastream import MapFunction

from recovery.programs import environment
from recovery.sink_programs import Fate, fates

ELEMENTS = 20_000
MOMENTS = {4_000: "first", 9_500: "second", 15_001: "third"}


class FailingAt(MapFunction):
    def __init__(self, fate):
        self.fate = fate

    def map(self, value):
        if value in MOMENTS:
            self.fate.strike(MOMENTS[value])
        return value


@pytest.mark.parametrize(("runtime", "how"), [("native", "kill"), ("pure", "raise")])
def test_each_record_once_though_workers_are_killed(tmp_path, monkeypatch, runtime, how):
    """Elements are added as results arrive, that is, when a checkpoint includes them."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", MOMENTS.values())
    elements = queue.Queue()
    stream = environment({}).from_queue(elements, Types.LONG())
    numbers = stream.map(FailingAt(Fate(tmp_path / "fates", how)), Types.LONG())
    found = []
    for number in range(2_500):
        elements.put(number)
    put = 2_500
    with numbers.execute_and_collect() as results:
        for number in results:
            found.append(number)
            if put < ELEMENTS:
                elements.put(put)
                put += 1
                if put == ELEMENTS:
                    elements.put(None)
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    assert found == list(range(ELEMENTS))
