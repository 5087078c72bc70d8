"""A worker with a full disk: the job fails with a remedy, and leaves no partial file.

Method: a function limits the size of the worker's files, which is close to a full disk.
"""

import resource

import pytest
from penstock.common import Configuration, Types
from penstock.common.serialization import Encoder
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import BucketAssigner, FileSink, RollingPolicy
from penstock.errors import SinkError, TemporaryFileError

LIMIT_BYTES = 1024 * 1024


class Limited(MapFunction):
    """Forwards records, in a process whose files stay small."""

    def open(self, runtime_context):
        resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT_BYTES, LIMIT_BYTES))

    def map(self, value):
        return value


def environment(tmp_path, **settings):
    configuration = {
        "execution.target": "local",
        "io.tmp.dirs": str(tmp_path / "temporary"),
        **settings,
    }
    (tmp_path / "temporary").mkdir()
    env = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict(configuration)
    )
    env.set_parallelism(1)
    return env


RESTART = {
    "restart-strategy.type": "fixed-delay",
    "restart-strategy.fixed-delay.attempts": "1",
    "restart-strategy.fixed-delay.delay": "1 ms",
}


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_a_file_sink_on_a_full_disk(tmp_path, runtime, monkeypatch):
    """The job fails, once more after the restart; nothing was committed, and no file is left."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    env = environment(tmp_path, **RESTART)
    out = tmp_path / "out"
    sizes = [LIMIT_BYTES // 2, LIMIT_BYTES // 2, 2 * LIMIT_BYTES]
    (
        env.from_collection(sizes, Types.INT())
        .map(Limited(), Types.INT())
        .map(lambda size: "x" * size, Types.STRING())
        .sink_to(
            FileSink.for_row_format(str(out), Encoder.simple_string_encoder())
            .with_bucket_assigner(BucketAssigner.base_path_bucket_assigner())
            .with_rolling_policy(RollingPolicy.default_rolling_policy(part_size=LIMIT_BYTES // 4))
            .build()
        )
    )
    with pytest.raises(SinkError, match="make room there or give the sink another folder"):
        env.execute()
    assert list(out.iterdir()) == []


def test_an_iteration_on_a_full_disk(tmp_path):
    """The tail fails the job at once, although the head could continue for a while."""
    env = environment(tmp_path)
    pair = Types.TUPLE([Types.INT(), Types.STRING()])
    loop = env.from_collection([(0, "x" * 200)], pair).map(Limited(), pair).iterate()
    grown = loop.flat_map(lambda v: [(v[0] + 1, v[1])] * (300 if v[0] < 2 else 1), pair)
    loop.close_with(grown.filter(lambda v: v[0] < 1000))
    grown.filter(lambda v: v[0] == 1000).print()
    with pytest.raises(TemporaryFileError) as caught:
        env.execute()
    assert f"a file in {tmp_path}/temporary/penstock-task-" in str(caught.value)
    assert list((tmp_path / "temporary").iterdir()) == []
