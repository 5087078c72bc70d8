"""HttpSource in a job whose workers are killed: each record once.

The service has more elements as results arrive, that is, when a checkpoint includes them.
"""

import threading

import pytest
from penstock.common import Types, WatermarkStrategy
from penstock.datastream import MapFunction
from penstock.datastream.connectors.http import HttpSource
from support.number_pages import NumberPages

from recovery.programs import environment
from recovery.sink_programs import Fate, fates

ELEMENTS = 12_000
MOMENTS = {2_500: "first", 6_001: "second", 9_999: "third"}


class FailingAt(MapFunction):
    def __init__(self, fate):
        self.fate = fate

    def map(self, value):
        number = value["id"]
        if number in MOMENTS:
            self.fate.strike(MOMENTS[number])
        return number


@pytest.mark.parametrize(("runtime", "how"), [("native", "kill"), ("pure", "raise")])
def test_each_record_once_though_workers_are_killed(tmp_path, monkeypatch, runtime, how):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    fates(tmp_path / "fates", MOMENTS.values())
    with NumberPages("id", 2000, 1500) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            source = HttpSource(
                f"http://127.0.0.1:{server.server_port}/",
                cursor_parameter="after",
                cursor="id",
                interval_ms=5,
            )
            strategy = WatermarkStrategy.no_watermarks()
            stream = environment({}).from_source(source, strategy, "http")
            numbers = stream.map(FailingAt(Fate(tmp_path / "fates", how)), Types.LONG())
            found = []
            with numbers.execute_and_collect() as results:
                for number in results:
                    found.append(number)
                    server.count = min(ELEMENTS, server.count + 1)
                    if len(found) == ELEMENTS:
                        break
        finally:
            server.shutdown()
            thread.join()
    assert not list((tmp_path / "fates").iterdir()), "the job ended before it failed"
    assert found == list(range(ELEMENTS))
