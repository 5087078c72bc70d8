"""Process functions that only compute, set timers and emit behave the same, evaluated or called."""

import threading

import pytest
from penstock.common.typeinfo import Types
from penstock.datastream.functions import KeyedProcessFunction
from penstock.datastream.output_tag import OutputTag
from penstock.expressions.evaluation import Called, Evaluation
from penstock.graph import operators
from penstock.network import runtime
from penstock.testing import KeyedOneInputStreamOperatorTestHarness

native = pytest.mark.skipif(runtime() != "native", reason="only the native runtime evaluates")

LATE = OutputTag("late", Types.PICKLED_BYTE_ARRAY())
STEP = 10


class Function(KeyedProcessFunction):
    """Emits nothing and sets a timer for each element, if the element has a number."""

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1])

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), timestamp, ctx.timestamp()


class Emitting(Function):
    def process_element(self, value, ctx):
        yield value[0], value[1] + 1, ctx.timestamp()


class EmittingWhatItGets(Function):
    def process_element(self, value, ctx):
        yield value


class ToASideOutput(Function):
    def process_element(self, value, ctx):
        yield LATE, value


class InOneCase(Function):
    def process_element(self, value, ctx):
        if value[1] > 5:
            yield value[1] * STEP


class Returning(Function):
    def process_element(self, value, ctx):
        if value[1] == 3:
            return
        timers = ctx.timer_service()
        timers.register_event_time_timer(value[1] // STEP * STEP + STEP - 1)
        timers.register_processing_time_timer(timers.current_watermark() + 1)
        yield timers.current_watermark(), value[0]


class Deleting(Function):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_event_time_timer(value[1] + 1)
        timers.register_event_time_timer(value[1] + 2)
        timers.delete_event_time_timer(value[1] + 1)
        timers.register_processing_time_timer(value[1])
        timers.delete_processing_time_timer(value[1])

    def on_timer(self, timestamp, ctx):
        if timestamp < 20:
            ctx.timer_service().register_event_time_timer(timestamp * 2 + 1)
            yield timestamp


class InTwoWays(Function):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(value[1] if value[1] > 5 else STEP)


class Silent(KeyedProcessFunction):
    def process_element(self, value, ctx):
        pass


EVALUATED = [
    Function, Emitting, EmittingWhatItGets, ToASideOutput, InOneCase, Returning, Deleting,
    InTwoWays, Silent,
]  # fmt: skip


class Asked(Function):
    """Its yield returns None."""

    def process_element(self, value, ctx):
        self.answer = yield value[1]


class Twice(Function):
    def process_element(self, value, ctx):
        yield value
        yield value


class AfterOneCase(Function):
    def process_element(self, value, ctx):
        if value[1] > 5:
            ctx.timer_service().register_event_time_timer(value[1])
        yield value


class ComputingBehind(Function):
    def process_element(self, value, ctx):
        yield value[0]
        ctx.timer_service().register_event_time_timer(value[1])


class List(Function):
    def process_element(self, value, ctx):
        return [value, value]


class WithItself(Function):
    offset = 3

    def process_element(self, value, ctx):
        yield value[1] + self.offset


class Handling(Function):
    def process_element(self, value, ctx):
        try:
            yield value[1] // (value[1] - 3)
        except ZeroDivisionError:
            yield "none"


class ByKeyword(Function):
    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(timestamp=value[1])


class Clock(Function):
    def process_element(self, value, ctx):
        timers = ctx.timer_service()
        timers.register_processing_time_timer(timers.current_processing_time() + 1)


class WithItsContext(Function):
    def process_element(self, value, ctx):
        yield (ctx, value[1])[1]


class Choosing(Function):
    def process_element(self, value, ctx):
        yield (value if value[1] else ctx) is ctx


#: By class, the beginning of the explanation.
CALLED = {
    Asked: "continues after it has emitted a record",
    Twice: "continues after it has emitted a record",
    AfterOneCase: "continues after an effect that only one branch has",
    ComputingBehind: "continues after it has emitted a record",
    List: "returns records",
    WithItself: "uses 'self', which the method is bound to",
    Handling: "handles exceptions",
    ByKeyword: "calls a function in line ",
    Clock: "",
    WithItsContext: "computes with its context",
    Choosing: "",
}

ELEMENTS = [("a", 1), ("b", 7), ("a", 3), ("a", 2.75), ("b", True), ["a", 9], ("a", 12), ("b", 7)]
WRONG = [("a", "x"), ("a", 2**63), ("a",), ("b", None), ("a", float("inf"))]


def seen(function, *, elements=ELEMENTS, key=lambda value: value[0], **options):
    """Return all that a harness shows of a function, records between watermarks; or its error."""
    with KeyedOneInputStreamOperatorTestHarness(
        operators.KeyedProcess(function), key, configuration=options
    ) as test:
        seen = []
        try:
            for number, element in enumerate(elements):
                test.process_element(element, number)
                if number % 3 == 2:
                    test.process_watermark(number)
                seen.append((test.num_event_time_timers, test.num_processing_time_timers))
            test.set_processing_time(50)
            test.process_watermark(100)
        except Exception as error:
            seen.append((type(error), str(error)))
        sides = [repr(record) for record in test.output.side_output(LATE)]
        return seen, [repr(record) for record in test.records], sides


@pytest.mark.parametrize("cls", [*EVALUATED, *CALLED])
@pytest.mark.parametrize("last", [None, *WRONG], ids=repr)
def test_all_that_is_seen_of_a_function_is_the_same(cls, last):
    elements = ELEMENTS if last is None else [*ELEMENTS, last]
    called = seen(cls(), elements=elements, **{"penstock.evaluate-functions": "false"})
    assert seen(cls(), elements=elements) == called


@pytest.mark.parametrize("key", [("a", 1), (1.5, ("b",)), b"x", 2**70, None], ids=repr)
def test_keys_of_any_kind_are_seen_as_they_are(key):
    result, records, _ = seen(Function(), elements=[("a", 4)], key=lambda value: key)
    assert result == [(1, 0)]
    assert [repr((key, 4, 4)) in record for record in records] == [True]


@native
@pytest.mark.parametrize("cls", EVALUATED)
def test_it_is_evaluated(cls):
    assert not isinstance(Evaluation().decide_procedure(cls().process_element), Called)
    assert not isinstance(Evaluation().decide_procedure(cls().on_timer), Called)


@native
@pytest.mark.parametrize("cls", CALLED)
def test_it_is_called(cls):
    decided = Evaluation().decide_procedure(cls().process_element)
    assert isinstance(decided, Called)
    assert decided.reason.startswith(CALLED[cls])


@native
def test_a_function_with_new_code_is_called():
    """The program was derived from its old code."""

    class Changing(Function):
        def process_element(self, value, ctx):
            yield 1

    def other(self, value, ctx):
        yield 2

    with KeyedOneInputStreamOperatorTestHarness(
        operators.KeyedProcess(Changing()), lambda value: value[0]
    ) as test:
        test.process_element(("a", 1))
        Changing.process_element.__code__ = other.__code__
        test.process_element(("a", 1))
        assert test.values == [1, 2]


def test_other_threads_run_while_timers_register_the_next_ones():
    step = 1

    class Endless(Function):
        def on_timer(self, timestamp, ctx):
            if step:
                ctx.timer_service().register_event_time_timer(timestamp + step)

    def end():
        nonlocal step
        step = 0

    with KeyedOneInputStreamOperatorTestHarness(
        operators.KeyedProcess(Endless()), lambda value: value[0]
    ) as test:
        test.process_element(("a", 1))
        ending = threading.Timer(0.01, end)
        ending.start()
        # If other threads could not run, `end` would never be called.
        test.process_watermark(2**62)
        ending.join()
        assert test.num_event_time_timers == 0


def test_a_context_that_was_kept_has_the_time_of_the_last_timer():
    kept = []

    class Keeping(Function):
        def process_element(self, value, ctx):
            kept.append(ctx)
            ctx.timer_service().register_event_time_timer(value[1])

    with KeyedOneInputStreamOperatorTestHarness(
        operators.KeyedProcess(Keeping()), lambda value: value[0]
    ) as test:
        test.process_element(("a", 5), 3)
        test.process_watermark(9)
        assert kept[0].timestamp() == 5
