"""Accumulators, sinks in Python and operator state on the local target."""

import pytest
from penstock.common import Configuration, Types
from penstock.common.accumulators import Accumulator, IntMaximum, ListAccumulator
from penstock.connectors.writer_sink import PythonSink, SinkWriter
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.functions.checkpointed import CheckpointedFunction
from penstock.datastream.state import ListStateDescriptor, MapStateDescriptor
from penstock.errors import JobExecutionError


def environment(parallelism=1):
    configuration = Configuration.from_dict({"execution.target": "local"})
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(parallelism)
    return env


class Longest(Accumulator):
    """A user-defined accumulator."""

    def __init__(self):
        self.text = ""

    def add(self, value):
        self.text = max(self.text, value, key=lambda text: (len(text), text))

    def get_local_value(self):
        return self.text

    def reset_local(self):
        self.text = ""

    def merge(self, other):
        self.add(other.text)


class Measure(MapFunction):
    def open(self, runtime_context):
        self.count = runtime_context.get_int_counter("count")
        self.lengths = runtime_context.get_histogram("lengths")
        self.largest = IntMaximum()
        runtime_context.add_accumulator("largest", self.largest)
        self.longest = Longest()
        runtime_context.add_accumulator("longest", self.longest)
        subtasks = ListAccumulator([runtime_context.get_index_of_this_subtask()])
        runtime_context.add_accumulator("subtasks", subtasks)

    def map(self, value):
        self.count.add(1)
        self.lengths.add(len(value))
        self.largest.add(len(value))
        self.longest.add(value)
        return value


class Shout(MapFunction):
    """Chained behind the other function, and counts with it."""

    def open(self, runtime_context):
        self.count = runtime_context.get_int_counter("count")

    def map(self, value):
        self.count.add(100)
        return value.upper()


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_accumulators_of_all_subtasks_are_merged_in_the_result(runtime, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUNTIME", runtime)
    env = environment(2)
    words = env.from_collection(["a", "bb", "cc", "dddd"], Types.STRING()).rebalance()
    words.map(Measure(), Types.STRING()).map(Shout(), Types.STRING()).print()
    result = env.execute()
    assert result.get_accumulator_result("count") == 404
    assert result.get_accumulator_result("lengths") == {1: 1, 2: 2, 4: 1}
    assert result.get_accumulator_result("none") is None
    assert result.get_all_accumulator_results() == {
        "count": 404,
        "lengths": {1: 1, 2: 2, 4: 1},
        "largest": 4,
        "longest": "dddd",
        "subtasks": [0, 1],
    }


def test_an_accumulator_that_cannot_be_merged_fails_the_job():
    class Count(MapFunction):
        def open(self, runtime_context):
            if runtime_context.get_index_of_this_subtask() == 0:
                runtime_context.get_int_counter("n")
            else:
                runtime_context.get_histogram("n")

        def map(self, value):
            return value

    env = environment(2)
    env.from_collection([1, 2], Types.INT()).rebalance().map(Count(), Types.INT()).print()
    with pytest.raises(JobExecutionError, match="accumulator 'n'"):
        env.execute()


class FileSink(PythonSink):
    def __init__(self, path):
        super().__init__()
        self.path = path

    def create_writer(self, context):
        return FileWriter(self.path / str(context.get_index_of_subtask()))


class FileWriter(SinkWriter):
    def __init__(self, path):
        self.path = path
        self.kept = []
        self.log = []

    def write(self, element, context):
        if element == "bad":
            raise ValueError("this writer takes no bad")
        self.kept.append(f"{element}@{context.timestamp()}")

    def write_watermark(self, watermark):
        self.log.append(f"watermark {watermark}")

    def flush(self, end_of_input):
        self.log.append(f"{' '.join(sorted(self.kept))} end={end_of_input}")

    def close(self):
        self.path.write_text("\n".join([*self.log, "closed"]))


def test_a_writer_gets_elements_and_is_flushed_and_closed(tmp_path):
    env = environment(2)
    env.from_collection(["a", "b", "c", "d"], Types.STRING()).rebalance().sink_to(
        FileSink(tmp_path)
    )
    env.execute()
    found = {path.name: path.read_text().splitlines() for path in tmp_path.iterdir()}
    assert set(found) == {"0", "1"}
    for watermark, flushed, closed in found.values():
        assert watermark == f"watermark {2**63 - 1}"
        assert flushed.endswith("end=True")
        assert closed == "closed"
    elements = " ".join(flushed.removesuffix(" end=True") for _, flushed, _ in found.values())
    assert sorted(elements.split()) == ["a@None", "b@None", "c@None", "d@None"]


def test_a_writer_that_raises_fails_the_job_and_is_closed(tmp_path):
    env = environment()
    env.from_collection(["a", "bad"], Types.STRING()).sink_to(FileSink(tmp_path))
    with pytest.raises(ValueError, match="takes no bad"):
        env.execute()
    assert (tmp_path / "0").read_text() == "closed"


class Remember(MapFunction, CheckpointedFunction):
    def initialize_state(self, context):
        self.restored = context.is_restored()
        store = context.get_operator_state_store()
        self.seen = store.get_list_state(ListStateDescriptor("seen", Types.INT()))
        self.all = store.get_union_list_state(ListStateDescriptor("all", Types.INT()))
        rules = MapStateDescriptor("rules", Types.STRING(), Types.INT())
        store.get_broadcast_state(rules).put("factor", 10)

    def open(self, runtime_context):
        store = runtime_context.get_operator_state_store()
        rules = MapStateDescriptor("rules", Types.STRING(), Types.INT())
        self.factor = store.get_broadcast_state(rules).get("factor")
        self.same = store.get_list_state(ListStateDescriptor("seen", Types.INT()))

    def map(self, value):
        self.seen.add(value)
        self.all.update([*self.all.get(), -value])
        return value * self.factor, list(self.same.get()), list(self.all.get()), self.restored


def test_functions_keep_state_that_belongs_to_no_key():
    stream = environment().from_collection([1, 2], Types.INT()).map(Remember())
    with stream.execute_and_collect() as found:
        assert list(found) == [(10, [1], [-1], False), (20, [1, 2], [-1, -2], False)]
