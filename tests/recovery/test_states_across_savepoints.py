"""Every kind of state moves from a savepoint to a job of another parallelism (internals M63, M65).

Method: a job with a source in Python, keyed state, timers, list, union, broadcast and raw state is
stopped halfway; the subtasks of the next one write their initial state to files, and its totals
must be those of one run.
"""

import json
import time
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from penstock.common import Encoder, Types, WatermarkStrategy
from penstock.connectors.split_source import (
    Boundedness,
    InputStatus,
    PythonSource,
    SourceReader,
    SourceSplit,
    SplitEnumerator,
)
from penstock.datastream import KeyedProcessFunction, MapFunction, SourceFunction
from penstock.datastream.connectors.file_system import FileSink
from penstock.datastream.functions import CheckpointedFunction
from penstock.datastream.state import (
    ListStateDescriptor,
    MapStateDescriptor,
    ValueStateDescriptor,
)
from support.sessions import eventually, wait_for

from recovery.savepoint_programs import asked, environment

PAIR = Types.TUPLE([Types.LONG(), Types.LONG()])
KEYS = 10
SPLITS = 6
IN_SPLIT = 3000


@dataclass
class Range(SourceSplit):
    number: int
    end: int

    def split_id(self):
        return str(self.end)


class Ranges(SplitEnumerator):
    """Assigns ranges one by one on request."""

    def __init__(self, context, splits):
        self.context = context
        self.splits = list(splits)

    def handle_split_request(self, subtask_id, requester_hostname):
        if self.splits:
            self.context.assign_split(self.splits.pop(0), subtask_id)
        else:
            self.context.signal_no_more_splits(subtask_id)

    def add_splits_back(self, splits, subtask_id):
        self.splits[:0] = splits

    def add_reader(self, subtask_id):
        pass

    def snapshot_state(self, checkpoint_id):
        return self.splits


class RangeReader(SourceReader):
    """Reads ranges; with a pause more and more slowly, so that it does not come to their end."""

    def __init__(self, context, pause_s):
        self.read = 0
        self.context = context
        self.pause_s = pause_s
        self.splits = []
        self.ended = False

    def start(self):
        if not self.splits:
            self.context.send_split_request()

    def add_splits(self, splits):
        self.splits.extend(splits)

    def notify_no_more_splits(self):
        self.ended = True

    def snapshot_state(self, checkpoint_id):
        return [replace(split) for split in self.splits]

    def poll_next(self, output):
        if not self.splits:
            return InputStatus.END_OF_INPUT if self.ended else InputStatus.NOTHING_AVAILABLE
        self.read += 1
        time.sleep(self.pause_s * self.read)
        split = self.splits[0]
        output.create_output_for_split(split.split_id()).collect(split.number, 0)
        split.number += 1
        if split.number == split.end:
            output.release_output_for_split(split.split_id())
            self.splits.pop(0)
            if not self.splits:
                self.context.send_split_request()
        return InputStatus.MORE_AVAILABLE


class RangeSource(PythonSource):
    def __init__(self, pause_s):
        super().__init__()
        self.pause_s = pause_s

    def get_boundedness(self):
        return Boundedness.BOUNDED

    def create_enumerator(self, enum_context):
        ranges = (Range(i * IN_SPLIT, (i + 1) * IN_SPLIT) for i in range(SPLITS))
        return Ranges(enum_context, ranges)

    def restore_enumerator(self, enum_context, checkpoint):
        return Ranges(enum_context, checkpoint)

    def create_reader(self, reader_context):
        return RangeReader(reader_context, self.pause_s)

    def get_produced_type(self):
        return Types.LONG()


class Keeping(MapFunction, CheckpointedFunction):
    """Holds one of each kind of unkeyed state; writes its initial content to a file."""

    def __init__(self, folder):
        self.folder = folder
        self.subtask = None

    def open(self, runtime_context):
        self.subtask = runtime_context.get_index_of_this_subtask()
        start = {**self.start, "subtask": self.subtask}
        Path(self.folder, f"{self.subtask}.json").write_text(json.dumps(start))

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.seen = store.get_list_state(ListStateDescriptor("seen", Types.LONG()))
        self.all = store.get_union_list_state(ListStateDescriptor("all", Types.LONG()))
        rules = MapStateDescriptor("rules", Types.STRING(), Types.LONG())
        self.rules = store.get_broadcast_state(rules)
        self.start = {
            "restored": context.is_restored(),
            "seen": list(self.seen.get()),
            "all": list(self.all.get()),
            "rules": dict(self.rules.items()),
            "partitions": [
                p.get_stream().read().decode() for p in context.get_raw_operator_state_inputs()
            ],
            "groups": {
                p.get_key_group_id(): p.get_stream().read().decode()
                for p in context.get_raw_keyed_state_inputs()
            },
        }

    def map(self, value):
        self.seen.add(value)
        Path(f"{self.folder}-begun").touch()
        return value

    def snapshot_state(self, context):
        self.all.update([self.subtask])
        self.rules.put("rule", 7)
        operator = context.get_raw_operator_state_output()
        operator.write(f"of {self.subtask}".encode())
        keyed = context.get_raw_keyed_operator_state_output()
        for group in keyed.get_key_group_list():
            keyed.start_new_key_group(group)
            keyed.write(f"group {group}".encode())


class Totals(KeyedProcessFunction):
    """Counts by key, and emits the count when event time has ended."""

    def open(self, runtime_context):
        self.count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

    def process_element(self, value, ctx):
        ctx.timer_service().register_event_time_timer(10**15)
        self.count.update((self.count.value() or 0) + 1)

    def on_timer(self, timestamp, ctx):
        yield ctx.get_current_key(), self.count.value()


def totals(env, folder, pause_s=0.0):
    folder.mkdir()
    source = RangeSource(pause_s)
    strategy = WatermarkStrategy.no_watermarks()
    return (
        env.from_source(source, strategy, "ranges")
        .uid("ranges")
        .map(Keeping(str(folder)), Types.LONG())
        .uid("keeping")
        .key_by(lambda number: number % KEYS, Types.LONG())
        .process(Totals(), PAIR)
        .uid("totals")
    )


def what_they_start_from(folder):
    return [json.loads(path.read_text()) for path in sorted(folder.iterdir())]


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_all_state_is_given_to_the_new_subtasks(tmp_path, monkeypatch, runtime):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    env = environment()
    with totals(env, tmp_path / "first", 0.00001).execute_and_collect() as results:
        wait_for(tmp_path / "first-begun")
        client = results.get_job_client()
        path = asked(client.stop_with_savepoint, False, str(tmp_path))
        assert list(results) == [], "no timer has fired"
    assert not any(start["restored"] for start in what_they_start_from(tmp_path / "first"))
    for parallelism in (1, 3):
        env = environment({"execution.state-recovery.path": path}, parallelism)
        folder = tmp_path / str(parallelism)
        with totals(env, folder).execute_and_collect() as results:
            counts = dict(results)
        assert counts == dict.fromkeys(range(KEYS), SPLITS * IN_SPLIT // KEYS)
        starts = what_they_start_from(folder)
        assert len(starts) == parallelism
        assert all(start["restored"] for start in starts)
        seen = [len(start["seen"]) for start in starts]
        assert max(seen) - min(seen) <= 1
        everything = [number for start in starts for number in start["seen"]]
        assert len(set(everything)) == len(everything) > 0
        assert [start["all"] for start in starts] == [[0, 1]] * parallelism
        assert [start["rules"] for start in starts] == [{"rule": 7}] * parallelism
        assert sorted(p for s in starts for p in s["partitions"]) == ["of 0", "of 1"]
        groups = [group for start in starts for group in start["groups"].items()]
        assert groups == [(str(group), f"group {group}") for group in range(128)]


class Remembering(SourceFunction, CheckpointedFunction):
    """Emits numbers from its last position.

    One that pauses does not end by itself, and holds back the last number.
    """

    def __init__(self, end, pause_s):
        self.end = end
        self.pause_s = pause_s
        self.running = True

    def initialize_state(self, context):
        store = context.get_operator_state_store()
        self.position = store.get_list_state(ListStateDescriptor("position", Types.LONG()))
        self.next = next(iter(self.position.get()), 0)

    def snapshot_state(self, context):
        self.position.update([self.next])

    def run(self, ctx):
        ends = self.pause_s == 0
        while self.running and self.next < (self.end if ends else self.end - 1):
            time.sleep(self.pause_s)
            with ctx.get_checkpoint_lock():
                ctx.collect(self.next)
                self.next += 1
        while self.running and not ends:
            time.sleep(0.001)

    def cancel(self):
        self.running = False


def test_a_loop_takes_up_what_was_on_its_way_back(tmp_path):
    """Elements in an iteration are in its savepoint, and nowhere else.

    In the first job those of even numbers go around until it is stopped.
    """

    def looping(env, pause_s):
        source = Remembering(40, pause_s)
        numbers = env.add_source(source, "numbers", Types.LONG()).uid("numbers")
        loop = numbers.map(lambda n: (n, 0), PAIR).uid("pairs").iterate()

        def step(pair):
            number, steps = pair
            time.sleep(pause_s)
            is_held = pause_s > 0 and number % 2 == 0 and steps == 25
            return number, steps if is_held else steps + 1

        stepped = loop.map(step, PAIR).uid("step")
        loop.close_with(stepped.filter(lambda pair: pair[1] < 50).uid("back"))
        return stepped.filter(lambda pair: pair[1] == 50).uid("out")

    env = environment(parallelism=1)
    with looping(env, 0.0005).execute_and_collect() as results:
        before = [next(results)]  # so there are even ones before it, in the loop
        client = results.get_job_client()
        path = asked(client.stop_with_savepoint, False, str(tmp_path))
        before += list(results)
    env = environment({"execution.state-recovery.path": path}, parallelism=1)
    with looping(env, 0).execute_and_collect() as results:
        after = list(results)
    assert {number for number, _ in after} >= set(range(0, before[0][0], 2))
    assert sorted(before + after) == [(number, 50) for number in range(40)]


def test_a_source_function_continues_where_it_stopped(tmp_path):
    def numbers(env, pause_s):
        return env.add_source(Remembering(2000, pause_s), "numbers", Types.LONG()).uid("numbers")

    env = environment(parallelism=1)
    with numbers(env, 0.0005).execute_and_collect() as results:
        first = [next(results)]
        path = asked(results.get_job_client().stop_with_savepoint, False, str(tmp_path))
        first += list(results)
    assert len(first) < 2000
    env = environment({"execution.state-recovery.path": path}, parallelism=1)
    with numbers(env, 0).execute_and_collect() as results:
        assert first + list(results) == list(range(2000))


@pytest.mark.parametrize("parallelism", [2, 3])
def test_a_source_that_had_finished_is_not_read_again(tmp_path, parallelism):
    """F14: beside one that continues, at any parallelism."""

    def program(env, pause_s):
        short = env.from_collection([1, 2, 3], Types.LONG()).uid("short")
        endless = env.add_source(Remembering(2000, pause_s), "numbers", Types.LONG()).uid("numbers")
        united = short.union(endless).key_by(lambda number: 0, Types.LONG())
        return united.reduce(lambda one, other: one + other).uid("sum")

    env = environment()
    with program(env, 0.0005).execute_and_collect() as results:
        client = results.get_job_client()
        seen = 0
        while seen < 6:  # all elements of the short source have arrived
            seen = max(seen, next(results))
        path = asked(client.stop_with_savepoint, False, str(tmp_path))
        list(results)
    env = environment({"execution.state-recovery.path": path}, parallelism)
    with program(env, 0).execute_and_collect() as results:
        assert max(results) == 6 + sum(range(2000))


@pytest.mark.parametrize("interval", ["", "1 h"])
def test_a_stop_with_savepoint_commits_pending_output(tmp_path, interval):
    """D-2: nothing is missing or duplicated, whether or not there are checkpoints.

    An incomplete part stays hidden when the job stops; the next job continues it.
    """

    def program(env, pause_s):
        sink = FileSink.for_row_format(str(tmp_path / "out"), Encoder.simple_string_encoder())
        source = Remembering(2000, pause_s)
        numbers = env.add_source(source, "numbers", Types.LONG()).uid("numbers")
        numbers.map(str, Types.STRING()).sink_to(sink.build()).uid("sink")

    def files():
        return [path for path in (tmp_path / "out").rglob("*") if path.is_file()]

    def written():
        shown = [path for path in files() if not path.name.startswith(".")]
        return sorted(int(line) for path in shown for line in path.read_text().split())

    options = {"execution.checkpointing.interval": interval} if interval else {}
    env = environment(options, parallelism=1)
    program(env, 0.0005)
    job = env.execute_async()
    eventually(files, "an element is written")
    path = asked(job.stop_with_savepoint, False, str(tmp_path))
    assert len(written()) < 2000
    env = environment({**options, "execution.state-recovery.path": path}, parallelism=1)
    program(env, 0)
    env.execute()
    assert written() == list(range(2000))
    assert not [path for path in files() if path.name.startswith(".")], "nothing is left hidden"
