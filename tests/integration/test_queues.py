"""from_queue and from_async_iterator: records that the program adds while the job runs."""

import asyncio
import queue
import threading

import pytest
from penstock.common import Configuration, Types
from penstock.connectors.queues import QueueSource
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import PenstockError, SourceError, WrongArgumentError
from support.environments import in_process


@pytest.mark.parametrize("options", [{}, {"execution_checkpointing_interval": "20 ms"}])
def test_records_come_in_their_order_to_the_end(options):
    elements = queue.Queue(maxsize=100)
    end = object()

    def fill():
        for number in range(5000):
            elements.put(number)
        elements.put(end)

    filler = threading.Thread(target=fill, daemon=True)
    stream = in_process(2, **options).from_queue(elements, Types.LONG(), end=end)
    filler.start()
    with stream.execute_and_collect() as results:
        assert list(results) == list(range(5000))
    filler.join()


def test_a_job_on_workers_answers_what_it_is_asked():
    """Each question follows the answer to the previous one: nothing waits for a full batch."""
    questions = queue.SimpleQueue()
    configuration = Configuration.from_dict(
        {"execution.target": "local", "execution.checkpointing.interval": "20 ms"}
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    stream = env.from_queue(questions, Types.LONG()).map(lambda n: n * 2, Types.LONG())
    questions.put(1)
    answers = []
    with stream.execute_and_collect() as results:
        for answer in results:
            answers.append(answer)
            questions.put(answer if len(answers) < 5 else None)
    assert answers == [2, 4, 8, 16, 32]


class Ticks:
    """An asynchronous iterator that yields to the event loop."""

    def __init__(self, count):
        self.left = iter(range(count))

    def __aiter__(self):
        return self

    async def __anext__(self):
        await asyncio.sleep(0)
        for number in self.left:
            return number
        raise StopAsyncIteration


async def ticks():
    async for number in Ticks(3000):
        yield number


@pytest.mark.parametrize(
    "elements", [Ticks(3000), ticks, ticks()], ids=["object", "function", "generator"]
)
def test_an_asynchronous_iterator_is_read_to_its_end(elements):
    stream = in_process().from_async_iterator(elements, Types.LONG())
    with stream.execute_and_collect() as results:
        assert list(results) == list(range(3000))


async def broken():
    yield 1
    raise ValueError("the feed broke")


def test_an_error_of_an_iterator_fails_the_job():
    stream = in_process().from_async_iterator(broken)
    with pytest.raises(PenstockError, match="the feed broke"):
        list(stream.execute_and_collect())


def test_a_job_that_restarts_meets_the_same_error():
    """The job does not end as if the iterator had ended."""
    env = in_process(
        **{
            "restart-strategy_type": "fixed-delay",
            "restart-strategy_fixed-delay_attempts": "2",
            "restart-strategy_fixed-delay_delay": "1 ms",
        }
    )
    stream = env.from_async_iterator(broken)
    with pytest.raises(PenstockError, match="the feed broke"):
        list(stream.execute_and_collect())


def test_a_job_is_cancelled_while_nothing_comes():
    env = in_process()
    env.from_queue(queue.Queue(), Types.LONG()).print()
    client = env.execute_async()
    client.cancel().result()


def test_other_objects_than_queues_are_rejected():
    env = in_process()
    for wrong in ([1], asyncio.Queue(), None):
        with pytest.raises(WrongArgumentError, match=r"queue\.Queue"):
            env.from_queue(wrong)
    with pytest.raises(WrongArgumentError, match="asynchronous iterator"):
        env.from_async_iterator([1])


def test_a_jobmaster_in_another_process_says_where_the_queue_is():
    with pytest.raises(SourceError, match="in the process that runs the program"):
        QueueSource(0).create_enumerator(None)
