"""StreamTask: life cycle of a chain, fused operators, failures, cancellation, end of input."""

import asyncio
import queue
import threading
from contextlib import suppress
from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import pytest
from penstock.common import exception_deadline
from penstock.datastream.connectors.data_generator import DataGeneratorSource, RateLimiterStrategy
from penstock.datastream.functions import (
    AsyncFunction,
    CheckpointListener,
    KeyedProcessFunction,
    MapFunction,
    SourceFunction,
)
from penstock.errors import CancelTaskError, QueueFullError
from penstock.graph import operators
from penstock.graph.job_graph import ChainConfig, ChainedOutput, OperatorConfig
from penstock.rpc.messages import NotifyCheckpointComplete
from penstock.taskexecutor.task.mailbox import (
    CHECKPOINTS,
    COORDINATORS,
    LOOKS,
    Mailbox,
    MailboxUser,
)
from penstock.taskexecutor.task.stream_task import StreamTask
from penstock.taskexecutor.task.task_failure import OPERATOR_ATTRIBUTE
from penstock.taskexecutor.time.processing_time import ProcessingTimeService
from support.patience import PATIENCE_S


def environment(**options):
    defaults = {
        "task_name": "task",
        "job_id": b"",
        "temp_directory": None,
        "subtask": 0,
        "parallelism": 1,
        "max_parallelism": 128,
        "attempt_number": 0,
        "configuration": {},
        "restored": None,
        "report_checkpoint": None,
        "local_state": None,
        "partitions": [],
        "gates": [],
        "network": None,
        "metrics": {},
        "operator_metrics": {},
    }
    return SimpleNamespace(**{**defaults, **options})


def chain_of(*descriptors, names=None):
    last = len(descriptors) - 1
    return ChainConfig(
        tuple(
            OperatorConfig(
                id=bytes([i]) * 16,
                uid=None,
                name=names[i] if names else type(descriptor).__name__,
                descriptor=descriptor,
                chained_outputs=() if i == last else (ChainedOutput(i + 1),),
            )
            for i, descriptor in enumerate(descriptors)
        )
    )


def numbers(count):
    return operators.NumberSequenceSource(start=1, end=count)


def sink_to(found):
    return operators.FunctionSink(found.append)


def run(chain, **options):
    task = StreamTask(chain, environment(**options))
    task.restore()
    task.invoke()
    return task


def test_neighbouring_functions_are_fused_and_keep_their_meaning():
    found = []
    run(
        chain_of(
            numbers(10),
            operators.Map(lambda v: v * 2),
            operators.Filter(lambda v: v % 3 == 0),
            operators.Map(lambda v: (v, v)),
            operators.Filter(lambda v: v[0] > 6),
            sink_to(found),
        )
    )
    assert found == [(12, 12), (18, 18)]


@pytest.mark.parametrize("failing", [1, 2, 3])
def test_failure_names_the_operator_within_a_fused_run(failing):
    def ok(value):
        return value

    def broken(value):
        raise ValueError(f"bad {value}")

    functions = [operators.Map(broken if i == failing else ok) for i in (1, 2, 3)]
    names = ["source", "op1", "op2", "op3", "sink"]
    task = StreamTask(chain_of(numbers(1), *functions, sink_to([]), names=names), environment())
    task.restore()
    with pytest.raises(ValueError, match="bad 1") as failure:
        task.invoke()
    assert getattr(failure.value, OPERATOR_ATTRIBUTE) == f"op{failing}"


def test_life_cycle_runs_from_tail_to_head():
    calls = []

    class Recorded(MapFunction):
        def __init__(self, name):
            self.name = name

        def open(self, runtime_context):
            calls.append("open " + self.name)

        def map(self, value):
            calls.append("map " + self.name)
            return value

        def close(self):
            calls.append("close " + self.name)

    run(
        chain_of(
            numbers(1),
            operators.Map(Recorded("a")),
            operators.Map(Recorded("b")),
            operators.DiscardingSink(),
        )
    )
    assert calls == ["open b", "open a", "map a", "map b", "close b", "close a"]


def test_failure_in_open_closes_what_was_opened():
    closed = []

    class Opened(MapFunction):
        def map(self, value):
            return value

        def close(self):
            closed.append(True)

    class Broken(MapFunction):
        def open(self, runtime_context):
            raise RuntimeError("open trouble")

        def map(self, value):
            return value

    chain = chain_of(
        numbers(1),
        operators.Map(Broken()),
        operators.Map(Opened()),
        operators.DiscardingSink(),
        names=["source", "broken", "opened", "sink"],
    )
    task = StreamTask(chain, environment())
    with pytest.raises(RuntimeError, match="open trouble") as failure:
        task.restore()
    assert getattr(failure.value, OPERATOR_ATTRIBUTE) == "broken"
    assert closed == [True]


def test_an_error_while_closing_that_gives_no_text_is_not_waited_for(monkeypatch):
    monkeypatch.setattr(exception_deadline, "DESCRIPTION_TIME_S", 0.01)
    answered = threading.Event()

    class Silent(Exception):
        def __str__(self):
            answered.wait()
            return "too late"

        __repr__ = __str__

    class Broken(MapFunction):
        def map(self, value):
            raise ValueError("first")

        def close(self):
            raise Silent

    try:
        with pytest.raises(ValueError, match="first") as failure:
            run(chain_of(numbers(1), operators.Map(Broken()), operators.DiscardingSink()))
        assert "Silent: <the exception's class" in failure.value.__notes__[0]
    finally:
        answered.set()


def test_cancelling_wakes_a_source_that_waits():
    started = threading.Event()

    class Waiting(SourceFunction):
        def __init__(self):
            self.ended = threading.Event()

        def run(self, ctx):
            started.set()
            self.ended.wait()

        def cancel(self):
            self.ended.set()

    source = operators.FunctionSource(Waiting())
    task = StreamTask(chain_of(source, sink_to([])), environment())
    outcome = []

    def work():
        task.restore()
        try:
            task.invoke()
        except CancelTaskError as error:
            outcome.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    assert started.wait(PATIENCE_S)
    task.cancel()
    task.cancel()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert len(outcome) == 1


def test_mails_run_in_the_tasks_thread():
    threads = []
    found = []

    class Posting(MapFunction):
        def open(self, runtime_context):
            operator = runtime_context._operator
            operator.post(lambda: threads.append(threading.current_thread()), LOOKS)

        def map(self, value):
            return value

    run(chain_of(numbers(3), operators.Map(Posting()), sink_to(found)))
    assert threads == [threading.current_thread()]
    assert found == [1, 2, 3]


class WhoseTurn(KeyedProcessFunction):
    """Emits its key before and after the next operator has processed an element."""

    def process_element(self, value, ctx):
        yield ctx.get_current_key()
        yield ctx.get_current_key()
        ctx.timer_service().register_processing_time_timer(0)

    def on_timer(self, timestamp, ctx):
        yield -ctx.get_current_key()


class Slow(AsyncFunction):
    async def async_invoke(self, value):
        await asyncio.sleep(0)
        return [value]


def test_a_waiting_operator_runs_no_timers_of_those_before_it():
    """D2: while the asynchronous operator waits for room, the keyed one before it is in the middle
    of an element, so none of its timers may change its current key.
    """
    found = []
    waiting = {"timeout_ms": 0, "capacity": 1, "ordered": True, "retry_strategy": None}
    chain = chain_of(
        numbers(3),
        operators.KeyedProcess(WhoseTurn()),
        operators.AsyncWait(Slow(), **waiting),
        sink_to(found),
    )
    keyed = replace(chain.operators[1], key_selectors=(lambda value: value,))
    run(replace(chain, operators=(chain.operators[0], keyed, *chain.operators[2:])))
    assert [value for value in found if value > 0] == [1, 1, 2, 2, 3, 3]


def test_mails_run_from_a_position_on_and_one_may_wait_for_another():
    ran = []
    mailbox = Mailbox(lambda: None)

    def waits():
        mailbox.run_pending(1)
        ran.append("waited")

    mailbox.execute(waits, LOOKS, 1)
    mailbox.execute(lambda: ran.append("source"), LOOKS, 0)
    mailbox.execute(lambda: ran.append("sink"), LOOKS, 2)
    mailbox.wait(None, 2)
    mailbox.run_pending()
    assert ran == ["sink", "waited", "source"]


def test_a_waiting_operator_runs_none_of_the_tasks_own_mails():
    """For example a checkpoint, which would miss the record that the operator holds."""
    ran = []
    mailbox, timers = Mailbox(lambda: None), ProcessingTimeService(lambda: 10)
    mailbox.execute(partial(ran.append, "checkpoint"), CHECKPOINTS)
    mailbox.execute(partial(ran.append, "answer"), LOOKS, 0)
    timers.register(5, lambda _: ran.append("alignment times out"))
    timers.register(5, lambda _: ran.append("call times out"), 0)
    mailbox.run_pending(0)
    timers.fire_due(0)
    assert ran == ["answer", "call times out"]
    mailbox.run_pending()
    timers.fire_due()
    assert ran[2:] == ["checkpoint", "alignment times out"]


def test_a_mailbox_takes_so_many_mails_of_each_user():
    """One too many is rejected, others are accepted, and the place becomes free again."""
    ran = []
    mailbox = Mailbox(lambda: None)
    first, second = (MailboxUser("mails of a test", 2) for _ in range(2))
    for number in range(2):
        mailbox.execute(partial(ran.append, number), first)
    with pytest.raises(QueueFullError, match="mails of a test: 2 wait for the task's thread"):
        mailbox.execute(partial(ran.append, "too many"), first)
    mailbox.execute(partial(ran.append, "other"), second)
    mailbox.run_pending()
    mailbox.execute(partial(ran.append, "later"), first)
    mailbox.run_pending()
    assert ran == [0, 1, "other", "later"]


class Listener(MapFunction, CheckpointListener):
    def map(self, value):
        return value


@pytest.mark.parametrize(("function", "wakes"), [(Listener(), True), (lambda value: value, False)])
def test_a_task_is_woken_for_a_completion_that_a_function_listens_to(function, wakes):
    """Also in a chain of functions that form one operator."""
    chain = chain_of(
        numbers(1), operators.Map(lambda value: value), operators.Map(function), sink_to([])
    )
    task = StreamTask(chain, environment())
    task.restore()
    handled = []
    complete = NotifyCheckpointComplete((b"",), 1)
    assert task.handle_checkpoint_message(complete, lambda: handled.append("complete")) == wakes
    assert task.mailbox.has_mail == wakes
    assert handled == []
    task.mailbox.run_pending()
    assert handled == (["complete"] if wakes else [])


def test_a_source_without_records_registers_its_wake_up_before_it_waits():
    """A notification would wait for the interpreter's lock until this thread waits."""
    order = queue.SimpleQueue()
    rested = threading.Event()
    rare = DataGeneratorSource(str, 10, RateLimiterStrategy.per_second(1e-6)).source_operator()
    task = StreamTask(chain_of(rare, operators.Map(Listener()), sink_to([])), environment())
    task.restore()
    source = task._opened_chain().head
    emit_next, wait_available = source.emit_next, source.wait_available

    def emit(limit):
        order.put("emit")
        return emit_next(limit)

    def wait(timeout_ms):
        order.put("wait")
        rested.set()
        wait_available(60_000)

    source.emit_next, source.wait_available = emit, wait

    def invoke():
        with suppress(CancelTaskError):
            task.invoke()

    thread = threading.Thread(target=invoke)
    thread.start()
    assert rested.wait(PATIENCE_S)
    complete = NotifyCheckpointComplete((b"",), 1)
    told = threading.Event()

    def handled():
        order.put("handled")
        told.set()

    assert task.handle_checkpoint_message(complete, handled)
    assert told.wait(PATIENCE_S)
    task.cancel()
    thread.join()
    found = [order.get() for _ in range(order.qsize())]
    at = found.index("handled")
    assert found[at - 2 : at] == ["wait", "emit"]


@pytest.mark.parametrize(
    ("user", "say"),
    [
        (CHECKPOINTS, lambda task: task.handle_checkpoint_message(None)),
        (COORDINATORS, lambda task: task.handle_operator_event(None)),
    ],
)
def test_messages_do_not_pile_up_behind_user_code(user, say):
    """A blocked task queues a limited number of messages, and can still be cancelled."""
    task = StreamTask(chain_of(numbers(1), sink_to([])), environment())
    for _ in range(user.limit):
        say(task)
    with pytest.raises(QueueFullError, match=f"{user.name}: {user.limit} wait"):
        say(task)
    for _ in range(3):
        task.cancel()
    assert task.mailbox.size == user.limit + 1


def test_timers_fire_from_a_position_on_and_one_may_wait_for_another():
    fired = []
    timers = ProcessingTimeService(lambda: 10)

    def waits(_):
        timers.fire_due(1)
        timers.register(5, fired.append)  # for the next call: it must not starve the input
        fired.append("waited")

    timers.register(1, waits, 1)
    timers.register(2, lambda _: fired.append("source"), 0)
    timers.register(3, lambda _: fired.append("sink"), 2)
    timers.register(30, fired.append, 2)
    assert (timers.wait_ms(1000), timers.wait_ms(1000, 1)) == (0, 0)
    timers.fire_due()
    assert fired == ["sink", "waited", "source"]
    assert (timers.wait_ms(1000), timers.wait_ms(1000, 1), timers.wait_ms(7, 3)) == (0, 20, 7)
    timers.fire_due()
    assert fired[3:] == [5]
