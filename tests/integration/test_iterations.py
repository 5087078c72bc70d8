"""Programs with feedback edges on the local target, compared with plain Python."""

import pytest
from penstock.common import Configuration, Types
from penstock.datastream import (
    CoMapFunction,
    RuntimeExecutionMode,
    StreamExecutionEnvironment,
)
from penstock.errors import InvalidProgramError


def environment(parallelism=1, runtime="native", workers=1):
    configuration = Configuration.from_dict(
        {
            "execution.target": "local",
            "penstock.runtime": runtime,
            "taskmanager.numberOfTaskSlots": str(max(1, parallelism // workers)),
        }
    )
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


def results(stream):
    with stream.execute_and_collect() as found:
        return sorted(found)


def successor(number):
    return number // 2 if number % 2 == 0 else 3 * number + 1


def steps_of_collatz(number):
    steps = 0
    while number != 1:
        number = successor(number)
        steps += 1
    return steps


def collatz(env, numbers, partition):
    pair = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    start = env.from_collection([(n, n, 0) for n in numbers], pair)
    loop = start.rebalance().map(lambda v: v, pair).iterate()
    stepped = partition(loop).map(
        lambda v: v if v[1] == 1 else (v[0], successor(v[1]), v[2] + 1), pair
    )
    loop.close_with(stepped.filter(lambda v: v[1] != 1))
    return stepped.filter(lambda v: v[1] == 1).map(lambda v: (v[0], v[2]))


@pytest.mark.parametrize(
    ("parallelism", "runtime", "workers"),
    [(1, "native", 1), (2, "native", 1), (2, "pure", 1), (2, "native", 2)],
)
def test_a_loop_ends_by_itself_when_it_is_empty(parallelism, runtime, workers, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    numbers = range(1, 60)
    found = collatz(environment(parallelism, runtime, workers), numbers, lambda s: s.rebalance())
    assert results(found) == [(n, steps_of_collatz(n)) for n in numbers]


def test_a_loop_over_keys_sends_records_to_other_subtasks():
    numbers = range(1, 60)
    found = collatz(environment(2), numbers, lambda s: s.key_by(lambda v: v[1], Types.LONG()))
    assert results(found) == [(n, steps_of_collatz(n)) for n in numbers]


def test_more_than_all_buffers_hold_is_fed_back_without_deadlock():
    """Every record becomes many, so that the loop holds more than its buffers and its memory."""
    env = environment()
    pair = Types.TUPLE([Types.INT(), Types.STRING()])
    loop = env.from_collection([(0, "x" * 100)], pair).iterate()
    grown = loop.flat_map(lambda v: [(v[0] + 1, v[1])] * (200 if v[0] < 2 else 1), pair)
    loop.close_with(grown.filter(lambda v: v[0] < 4))
    assert results(grown.filter(lambda v: v[0] == 4).map(lambda v: v[0])) == [4] * 40_000


def test_a_co_iteration_has_feedback_of_another_type():
    class Spell(CoMapFunction):
        def map1(self, value):
            return str(value)

        def map2(self, value):
            return value + "."

    env = environment()
    loop = env.from_collection([1, 2], Types.INT()).iterate().with_feedback_type(Types.STRING())
    spelled = loop.map(Spell(), Types.STRING())
    loop.close_with(spelled.filter(lambda v: len(v) < 4))
    assert results(spelled) == ["1", "1.", "1..", "1...", "2", "2.", "2..", "2..."]


NESTED = Types.TUPLE([Types.INT(), Types.INT(), Types.INT(), Types.INT()])


def counted_down(stream, field):
    """Build a loop that counts a field of (number, rounds, steps, total) down to 0."""
    loop = stream.map(lambda v: v, NESTED).iterate()

    def step(v):
        if v[field] == 0:
            return v
        return (*v[:field], v[field] - 1, *v[field + 1 : 3], v[3] + 1)

    stepped = loop.rebalance().map(step, NESTED)
    loop.close_with(stepped.filter(lambda v: v[field] > 0))
    return stepped.filter(lambda v: v[field] == 0)


@pytest.mark.parametrize(
    ("parallelism", "runtime", "workers"), [(1, "native", 1), (2, "native", 2), (2, "pure", 1)]
)
def test_loops_within_a_loop_end_by_themselves(parallelism, runtime, workers, monkeypatch):
    """Two loops, one after the other, in a third; each outer round takes all steps again."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    env = environment(parallelism, runtime, workers)
    start = env.from_collection([(n, n, 0, 0) for n in range(8)], NESTED)
    outer = start.rebalance().map(lambda v: v, NESTED).iterate()
    first = counted_down(outer.map(lambda v: (v[0], v[1], 3, v[3]), NESTED), 2)
    # The second loop spins for long while the first one, before it, gets nothing.
    second = counted_down(first.map(lambda v: (v[0], v[1], 10 * v[0], v[3]), NESTED), 2)
    rounded = second.map(lambda v: (v[0], v[1] - 1, v[2], v[3]), NESTED)
    outer.close_with(rounded.filter(lambda v: v[1] > 0))
    found = rounded.filter(lambda v: v[1] <= 0).map(lambda v: (v[0], v[3]))
    assert results(found) == [(n, max(n, 1) * (3 + 10 * n)) for n in range(8)]


def test_loops_one_after_the_other_end_one_after_the_other():
    env = environment(2)
    start = env.from_collection([(n, 5, 7, 0) for n in range(4)], NESTED)
    found = counted_down(counted_down(start, 1), 2)
    assert results(found) == [(n, 0, 0, 12) for n in range(4)]


def test_batch_mode_refuses_iterations():
    env = environment()
    env.set_runtime_mode(RuntimeExecutionMode.BATCH)
    loop = env.from_collection([1], Types.INT()).iterate()
    loop.close_with(loop.map(lambda v: v, Types.INT()))
    loop.print()
    with pytest.raises(InvalidProgramError, match="BATCH"):
        env.execute()
