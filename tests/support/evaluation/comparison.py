"""Runs generated functions in penstock's operators and in plain Python, and compares them."""

import random
import re
import sys
import traceback
from copy import deepcopy
from dataclasses import dataclass, field
from functools import lru_cache
from types import ModuleType

from penstock.common.time import Duration, Time
from penstock.common.timestamps import timestamp_of
from penstock.common.watermark_strategy import TimestampAssigner, WatermarkStrategy
from penstock.datastream.connectors.number_seq import NumberSequenceSource
from penstock.datastream.functions import AggregateFunction
from penstock.datastream.window import TumblingEventTimeWindows
from penstock.expressions.evaluation import Evaluation
from penstock.expressions.functions import bound_function
from penstock.network import KeyReader, make_selector
from penstock.testing import PipelineTestHarness
from support.evaluation.sources import FAMILIES, PLACES, PRELUDE, Case
from support.evaluation.values import original

#: Elements of each case; fewer where results are folded, since squares of squares grow fast.
ELEMENTS = 20
ELEMENTS_OF_FOLDS = 8
FOLDS = ("reduce", "window reduce", "window aggregate")

#: Kinds of cases, with how often they are drawn.
KINDS = {
    "chain": 60,
    "numbers": 12,
    "reduce": 10,
    "window reduce": 5,
    "window aggregate": 5,
    "timestamps": 6,
    "key groups": 6,
    "partitions": 4,
}


def described(value, depth=4):
    """Return a value's type and contents, equal for equal values of the two modules."""
    kind = type(value)
    if kind is int:
        return hex(value)
    if isinstance(value, (tuple, list, set, frozenset)) and depth:
        return kind.__name__, [described(item, depth - 1) for item in list.__iter__(list(value))]
    if isinstance(value, dict) and depth:
        items = [(described(k, depth - 1), described(v, depth - 1)) for k, v in value.items()]
        return kind.__name__, items
    return kind.__name__, _same_for_both(repr(value))


def failure(error, file_name):
    """Return an error's type, text and the last user lines of its traceback."""
    frames = traceback.walk_tb(error.__traceback__)
    lines = [line for frame, line in frames if frame.f_code.co_filename == file_name]
    words = str(error).partition("\n  at ")[0]
    return type(error).__name__, _same_for_both(words), lines[-1] if lines else None


def _same_for_both(text):
    return re.sub("0x[0-9a-f]+|fuzzed_(evaluated|called)", "", text)


_PRELUDE = compile(PRELUDE, "<prelude>", "exec")


@lru_cache(maxsize=1000)
def _compiled(literal):
    return compile(literal, "<literal>", "eval")


class Side:
    """A module with a case's functions: one side is for penstock, one for plain Python."""

    def __init__(self, name, code, file_name):
        self.name = name
        self.file_name = file_name
        self.module = ModuleType(name)
        sys.modules[name] = self.module
        exec(_PRELUDE, self.module.__dict__)
        exec(code, self.module.__dict__)

    def evaluate(self, literal):
        return eval(_compiled(literal), self.module.__dict__)

    def close(self):
        del sys.modules[self.name]

    def function(self, place, index):
        """Return the function that is called for each record at a place."""
        return bound_function(self.module.stages[index], PLACES[place][1])

    def outcomes(self, feed, elements):
        """Return each record's result, nothing or a failure, while the surroundings change."""
        found = []
        for step, literal in enumerate(elements):
            self.module.change(step)
            value = self.evaluate(literal)
            try:
                feed(value)
            except Exception as error:
                found.append(failure(error, self.file_name))
            else:
                found.append(None)
        return found


class Assigner(TimestampAssigner):
    def __init__(self, function):
        self.extract_timestamp = function

    def extract_timestamp(self, value, record_timestamp):
        raise NotImplementedError


class Aggregator(AggregateFunction):
    def __init__(self, initial, function):
        self.initial = initial
        self.add = function

    def create_accumulator(self):
        return self.initial

    def add(self, value, accumulator):
        raise NotImplementedError

    def get_result(self, accumulator):
        return accumulator

    def merge(self, acc_a, acc_b):
        raise NotImplementedError


def generate(seed, number):
    """Return a case by number: its kind, functions and records."""
    chooser = random.Random(f"{seed}/{number}")
    kind = chooser.choices(list(KINDS), weights=list(KINDS.values()))[0]
    case = Case(chooser)
    family = "int" if kind == "numbers" else chooser.choice(list(FAMILIES))
    if kind in ("chain", "numbers"):
        _add_chain(case, chooser, family)
    elif kind == "timestamps":
        case.add("timestamp", [family, "int"])
    elif kind in ("key groups", "partitions"):
        case.add("key", [family])
        case.add("partition", ["int", "int"])
    else:
        case.add("key", [family])
        if kind == "window aggregate":
            case.add("add", [family, family], family)
        else:
            case.add("reduce", [family, family], family)
    if kind == "numbers":
        start = chooser.choice([0, -3, 2**60, 2**62 - 5, -(2**62)])
        elements = [str(start + i) for i in range(ELEMENTS)]
    else:
        # Few different elements, so that keys repeat.
        few = case.values(family, 8)
        count = ELEMENTS_OF_FOLDS if kind in FOLDS else ELEMENTS
        elements = [chooser.choice(few) for _ in range(count)]
    return kind, case, elements


def _add_chain(case, chooser, family):
    for _ in range(chooser.choice([1, 1, 2, 3, 4, 5])):
        place = chooser.choices(["map", "filter", "flat_map"], weights=[5, 2, 2])[0]
        made = family if place == "filter" else chooser.choice(list(FAMILIES))
        taken = family if chooser.random() < 0.9 else chooser.choice(list(FAMILIES))
        case.add(place, [taken], made)
        family = made


@dataclass
class Running:
    """A case during its comparison.

    Attributes:
        copies: Whether values are copied between operators, as without object reuse.
        outcomes: For each side, the results of the elements.
        results: For each side, the emitted values, described.
    """

    seed: int
    number: int
    outcomes: list = field(default_factory=list)
    results: list = field(default_factory=list)

    def __post_init__(self):
        self.kind, self.case, self.elements = generate(self.seed, self.number)
        # Folded values are not copied at every step.
        self.copies = self.kind in ("chain", "numbers") and self.number % 3 == 0
        self.text = self.case.text()
        file_name = f"<case {self.seed}/{self.number}>"
        code = compile(self.text, file_name, "exec")
        self.tested = Side(f"fuzzed_evaluated_{self.number}", code, file_name)
        self.plain = Side(f"fuzzed_called_{self.number}", code, file_name)

    def close(self):
        self.tested.close()
        self.plain.close()

    @property
    def calls(self):
        return [side.module.calls for side in (self.tested, self.plain)]

    def difference(self):
        """Return the difference between the two sides as a text; None if they agree."""
        for i, (found, expected) in enumerate(zip(*self.outcomes, strict=True)):
            if found != expected:
                element = self.elements[i] if i < len(self.elements) else "end of input"
                return f"element {i}, {element}: {found}, in plain Python {expected}"
        pairs = [("results", *self.results), ("side effects", *self.calls)]
        for what, found, expected in pairs:
            if found != expected:
                i = next(
                    (i for i, pair in enumerate(zip(found, expected, strict=False))
                     if pair[0] != pair[1]),
                    min(len(found), len(expected)),
                )  # fmt: skip
                return f"{what} from {i}: {found[i : i + 2]}, in plain Python {expected[i : i + 2]}"
        return None

    def report(self):
        places = [place for place, _ in self.case.stages]
        return (
            f"case {self.number} of seed {self.seed}, {self.kind} {places}:\n"
            f"{self.text}\n"
            f"elements: {self.elements}\n{self.difference()}\n"
            f"run it alone: make fuzz SEED={self.seed} CASE={self.number}"
        )


# Plain Python ------------------------------------------------------------------------------------


def plain_chain(running, side, emitted):
    functions = [
        (place, side.function(place, i)) for i, (place, _) in enumerate(running.case.stages)
    ]

    handed_on = deepcopy if running.copies else lambda value: value

    def feed(value, stage=0):
        if stage == len(functions):
            emitted.append(value)
            return
        place, function = functions[stage]
        if place == "map":
            feed(handed_on(function(value)), stage + 1)
        elif place == "filter":
            if function(value):
                feed(handed_on(value), stage + 1)
        else:
            for made in function(value):
                feed(handed_on(made), stage + 1)

    return feed


def plain_fold(running, side, emitted, contents):
    """Fold by key as all of penstock's folds do; ``contents`` are the keys' folds."""
    select = side.function("key", 0)
    # The equality of keys is not tested here; this selector can only be called.
    keys = KeyReader(lambda *value: select(*value), -1, None, None)
    place = running.case.stages[1][0]
    fold = side.function(place, 1)
    initial = side.evaluate("(0, 0)") if place == "add" else None

    def feed(value):
        key = keys.read(value)
        kept = contents.get(key)
        if place == "add":
            made = fold(value, initial if kept is None else kept)
        else:
            made = value if kept is None else fold(kept, value)
        contents[key] = made
        emitted.append(made)

    return feed


def compare_in_plain_python(running):
    side, emitted, contents = running.plain, [], {}
    kind = running.kind
    if kind in ("chain", "numbers"):
        feed = plain_chain(running, side, emitted)
    elif kind == "timestamps":
        extract = side.function("timestamp", 0)

        def feed(value):
            timestamp = timestamp_of(extract(value, -(2**63)), extract)
            emitted.append((value, None if timestamp == -(2**63) else timestamp))

    elif kind in ("key groups", "partitions"):
        select, partition = side.function("key", 0), side.function("partition", 1)
        # A function that penstock can only call, not evaluate.
        selector = selector_of(kind, lambda *value: select(*value), partition)
        feed = lambda value: emitted.append(selector.select(value))  # noqa: E731
    else:
        feed = plain_fold(running, side, emitted, contents)
    if kind == "numbers":
        outcomes = side.outcomes(feed, [])
        outcomes.append(numbers_outcome(side, feed, running.elements))
    else:
        outcomes = side.outcomes(feed, running.elements)
    if kind in ("window reduce", "window aggregate"):
        # All windows end at the same time: each new timer replaces one that has fired.
        folds = list(contents.values())
        emitted = [made for made in folds[:1] + folds[:0:-1] if made is not None]
    return outcomes, emitted


def numbers_outcome(side, feed, elements):
    side.module.change(0)
    try:
        for literal in elements:
            feed(int(literal))
    except Exception as error:
        return failure(error, side.file_name)
    return None


def selector_of(kind, select, partition):
    if kind == "key groups":
        return make_selector("KEY_GROUP", 4, key_selector=select, max_parallelism=128)
    return make_selector("CUSTOM", 4, key_selector=select, function=partition)


# penstock ----------------------------------------------------------------------------------------


def build(running, stream):
    """Return the part of a program for a case."""
    stages = running.tested.module.stages
    if running.kind in ("chain", "numbers"):
        for (place, _), stage in zip(running.case.stages, stages, strict=True):
            stream = getattr(stream, place)(stage)
        return stream
    if running.kind == "timestamps":
        return with_timestamps(stream, running.tested.function("timestamp", 0))
    if running.kind == "reduce":
        return stream.key_by(stages[0]).reduce(stages[1])
    windows = (
        with_timestamps(stream, original)
        .key_by(stages[0])
        .window(TumblingEventTimeWindows.of(Time.milliseconds(10)))
    )
    if running.kind == "window reduce":
        return windows.reduce(stages[1])
    initial = running.tested.evaluate("(0, 0)")
    return windows.aggregate(Aggregator(initial, running.tested.function("add", 1)))


def with_timestamps(stream, function):
    function = (lambda value, timestamp: 0) if function is original else function
    strategy = WatermarkStrategy.for_bounded_out_of_orderness(Duration.of_millis(0))
    return stream.assign_timestamps_and_watermarks(
        strategy.with_timestamp_assigner(Assigner(function))
    )


def compare_selection(running):
    side, emitted = running.tested, []
    evaluation, select = Evaluation(), side.function("key", 0)
    if running.kind == "key groups":
        select, _ = evaluation.key_selection(select)
    else:
        select = evaluation.without_call(select, 1)
    partition = evaluation.without_call(side.function("partition", 1), 2)
    selector = selector_of(running.kind, select, partition)
    outcomes = side.outcomes(lambda value: emitted.append(selector.select(value)), running.elements)
    return outcomes, emitted


def harness_for(*, copies):
    return PipelineTestHarness({"pipeline.object-reuse": str(not copies).lower()})


def compare_numbers(running):
    harness = harness_for(copies=running.copies)
    elements = [int(literal) for literal in running.elements]
    stream = harness.environment.from_source(
        NumberSequenceSource(elements[0], elements[-1]),
        WatermarkStrategy.no_watermarks(),
        "numbers",
    )
    harness.sink("results", build(running, stream))
    with harness:
        running.tested.module.change(0)
        outcome = None
        try:
            harness.run_sources()
        except Exception as error:
            outcome = failure(error, running.tested.file_name)
        return [outcome], harness.values("results")


def compare_batch(batch):
    """Run cases that share a harness; each has a source and a sink of its own."""
    harness = harness_for(copies=batch[0].copies)
    for running in batch:
        source = f"source {running.number}"
        harness.sink(f"sink {running.number}", build(running, harness.source(source)))
    with harness:
        for running in batch:
            source, sink = f"source {running.number}", f"sink {running.number}"
            outcomes = running.tested.outcomes(
                lambda value, source=source: harness.process_element(source, value),
                running.elements,
            )
            running.outcomes.append(outcomes)
            if running.kind.startswith("window"):
                harness.process_watermark(source, 2**63 - 1)
            records = harness.output(sink).records
            emitted = [tuple(record) for record in records]
            if running.kind != "timestamps":
                emitted = [value for value, _ in emitted]
            running.results.append([described(value) for value in emitted])


def compare(seed, numbers):
    """Compare cases.

    Returns:
        The number of comparisons, of an element at a place; and the reports of those that differ.
    """
    cases = [Running(seed, number) for number in numbers]
    try:
        batch = []
        for running in cases:
            if running.kind == "numbers":
                found = compare_numbers(running)
            elif running.kind in ("key groups", "partitions"):
                found = compare_selection(running)
            else:
                batch.append(running)
                continue
            running.outcomes.append(found[0])
            running.results.append([described(value) for value in found[1]])
        for copies in (False, True):
            alike = [running for running in batch if running.copies is copies]
            if alike:
                compare_batch(alike)
        for running in cases:
            outcomes, emitted = compare_in_plain_python(running)
            running.outcomes.append(outcomes)
            running.results.append([described(value) for value in emitted])
        comparisons = sum(len(running.elements) for running in cases)
        return comparisons, [running.report() for running in cases if running.difference()]
    finally:
        for running in cases:
            running.close()
