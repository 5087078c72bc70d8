"""Records as texts: no record does any harm, and redacted ones reveal nothing."""

from penstock.common import Row
from penstock.taskexecutor.compiled import MIN_TIMESTAMP, Input
from penstock.taskexecutor.task.record_sample import (
    MAX_TEXT_CHARACTERS,
    RecordSample,
    SampledInput,
    shape_of,
    text_of,
)


class Hostile:
    def __repr__(self):
        raise RuntimeError("hush")


def test_values_as_texts():
    assert text_of((1, "a")) == "(1, 'a')"
    assert text_of(Row(1, "a")) == "<Row(1, 'a')>"
    assert "Hostile" in text_of(Hostile())
    assert "..." in text_of("x" * 10_000)
    assert len(text_of([["y" * 300] * 60] * 60)) <= MAX_TEXT_CHARACTERS
    assert text_of("\ud800").encode()


def test_redacted_values_say_nothing():
    secret = ("hush", 7, Row("hush", [1, 2]), {"hush": 1}, b"hush")
    shape = shape_of(secret)
    assert shape == "tuple(str of 4, int, Row(str of 4, list of 2), dict of 1, bytes of 4)"
    assert shape_of(Hostile()) == "Hostile"
    deep = "x"
    for _ in range(100):
        deep = (deep,)
    assert shape_of(deep) == "tuple(tuple(tuple(tuple(tuple))))"


class Kept(Input):
    def __init__(self):
        self.values = []

    def process(self, value, timestamp):
        self.values.append((value, timestamp))


def test_records_pass_as_they_are_also_when_there_are_enough():
    sample, kept = RecordSample(2, redacted=False), Kept()
    sampled = SampledInput(kept, sample)
    for number in range(4):
        sampled.process(number, MIN_TIMESTAMP if number == 0 else number)
    assert kept.values == [(0, MIN_TIMESTAMP), (1, 1), (2, 2), (3, 3)]
    assert sample.full.is_set()
    assert [(one.text, one.timestamp_ms) for one in sample.records()] == [("0", None), ("1", 1)]


def test_a_sample_that_was_read_takes_no_texts():
    asked = []

    class Slow:
        def __repr__(self):
            asked.append(self)
            return "slow"

    sample, kept = RecordSample(3, redacted=False), Kept()
    sampled = SampledInput(kept, sample)
    sampled.process(Slow(), 1)
    assert [one.text for one in sample.records()] == ["slow"]
    sampled.process(Slow(), 2)
    assert len(asked) == 1
    assert len(kept.values) == 2
