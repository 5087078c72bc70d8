"""The watermark of a reader of several splits."""

from types import SimpleNamespace

from penstock.common import Duration, WatermarkStrategy
from penstock.taskexecutor.sources.split_outputs import ReaderOutputs
from penstock.testing.test_output import TestOutput


def outputs(strategy):
    output = TestOutput()
    return ReaderOutputs(SimpleNamespace(is_batch=False), strategy, output), output


def test_the_slowest_split_decides_the_watermark():
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(3))
    reader, found = outputs(strategy)
    a, b = reader.create_output_for_split("a"), reader.create_output_for_split("b")
    assert reader.create_output_for_split("a") is a
    a.collect("x", 100)
    b.collect("y", 50)
    reader.on_interval()
    assert found.watermarks == [46]
    b.mark_idle()
    assert found.watermarks == [46, 96]
    b.collect("z", 60)
    reader.on_interval()
    assert found.watermarks == [46, 96]
    reader.release_output_for_split("b")
    a.collect("x", 200)
    reader.on_interval()
    assert found.watermarks == [46, 96, 196]
    assert [(r.value, r.timestamp) for r in found.records] == [
        ("x", 100),
        ("y", 50),
        ("z", 60),
        ("x", 200),
    ]


def test_watermarks_that_the_reader_emits_itself_count():
    reader, found = outputs(None)
    reader.emit_watermark(5)
    reader.emit_watermark(4)
    reader.collect("x")
    reader.mark_idle()
    reader.mark_active()
    reader.emit_watermark(9)
    assert found.watermarks == [5, 9]
    assert reader.aligned_watermark == 9
