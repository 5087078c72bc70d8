"""Parallelism and how records are spread over subtasks."""

from __future__ import annotations

from typing import Any


def _placed(f: Any) -> Any:
    class Place(f.MapFunction):
        def open(self, runtime_context):
            self.index = runtime_context.get_index_of_this_subtask()

        def map(self, value):
            return (self.index, value)

    return Place()


def custom_partitioner_function(f):
    pairs = f.pairs(("a", 0), ("b", 1), ("c", 2), env=f.env(2))
    spread = pairs.partition_custom(lambda key, n: key % n, lambda v: v[1])
    return f.sorted(spread.map(_placed(f)).set_parallelism(2))


def custom_partitioner_object(f):
    class ByLength(f.Partitioner):
        def partition(self, key, num_partitions):
            return len(key) % num_partitions

    texts = f.env(2).from_collection(["", "x", "yy", "zzz"], f.Types.STRING())
    spread = texts.partition_custom(ByLength(), lambda v: v)
    return f.sorted(spread.map(_placed(f)).set_parallelism(2))


def custom_partitioner_beyond_fails(f):
    spread = f.ints(1, 2, env=f.env(2)).partition_custom(lambda key, n: n, lambda v: v)
    return f.collected(lambda: spread.map(_placed(f)).set_parallelism(2))


def custom_partitioner_of_a_text_fails(f):
    spread = f.ints(1, 2, env=f.env(2)).partition_custom(lambda key, n: "0", lambda v: v)
    return f.collected(lambda: spread.map(_placed(f)).set_parallelism(2))


def broadcast_copies(f):
    return f.sorted(f.ints(1, 2, env=f.env(2)).broadcast().map(_placed(f)).set_parallelism(2))


def rebalance_counts(f):
    spread = f.ints(*range(8), env=f.env(2)).rebalance().map(_placed(f)).set_parallelism(2)
    return f.sorted(spread.map(lambda v: v[0]))


def rescale_counts(f):
    spread = f.ints(*range(8), env=f.env(2)).rescale().map(_placed(f)).set_parallelism(2)
    return f.sorted(spread.map(lambda v: v[0]))


def shuffle_keeps_all(f):
    return f.sorted(f.ints(*range(8), env=f.env(2)).shuffle().map(lambda v: v))


def forward_keeps_the_order(f):
    return f.collect(f.ints(3, 1, 2).forward().map(lambda v: v))


def forward_of_unequal_parallelism_fails(f):
    env = f.env(2)
    first = f.ints(1, 2, env=env).map(lambda v: v).set_parallelism(2)
    return f.collected(lambda: first.forward().map(lambda v: v).set_parallelism(1))


def keys_stay_together(f):
    keyed = f.ints(*range(10), env=f.env(2)).key_by(lambda v: v % 3, f.Types.INT())
    placed = keyed.map(_placed(f)).map(lambda v: (v[0], v[1] % 3))
    return len(set(f.collect(placed)))


def key_groups_decide_the_subtask(f):
    keyed = f.ints(*range(10), env=f.env(2)).key_by(lambda v: v, f.Types.INT())
    return f.sorted(keyed.map(_placed(f)))


def a_collection_has_one_subtask(f):
    return f.collect(f.ints(*range(6), env=f.env(2)).map(_placed(f)).set_parallelism(1))


def numbers_of_a_sequence(f):
    env = f.env()
    source = f.NumberSequenceSource(1, 4)
    strategy = f.WatermarkStrategy.no_watermarks()
    stream = env.from_source(source, strategy, "numbers", f.Types.LONG())
    return f.collect(stream.map(lambda v: v * 2, f.Types.LONG()))


def an_empty_sequence(f):
    strategy = f.WatermarkStrategy.no_watermarks()
    return f.collected(
        lambda: f.env().from_source(f.NumberSequenceSource(5, 4), strategy, "none", f.Types.LONG())
    )


def a_sequence_with_timestamps(f):
    class Moment(f.TimestampAssigner):
        def extract_timestamp(self, value, record_timestamp):
            return value * 1000

    class Tell(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield (value, ctx.timestamp())

    strategy = f.WatermarkStrategy.for_monotonous_timestamps().with_timestamp_assigner(Moment())
    stream = f.env().from_source(f.NumberSequenceSource(1, 3), strategy, "n", f.Types.LONG())
    return f.collected(lambda: stream.process(Tell()))


def word_count_at_parallelism_2(f):
    t = f.Types
    lines = f.env(2).from_collection(["to be or", "not to be"], t.STRING())
    words = lines.flat_map(lambda s: [(w, 1) for w in s.split()], t.TUPLE([t.STRING(), t.INT()]))
    counts = words.key_by(lambda v: v[0], t.STRING()).reduce(lambda a, b: (a[0], a[1] + b[1]))
    return f.sorted(counts)


def window_sums_at_parallelism_2(f):
    pairs = f.pairs(*((f"k{i % 3}", i) for i in range(30)), env=f.env(2))
    keyed = f.timed(pairs, lambda v: v[1] * 100).key_by(lambda v: v[0], f.Types.STRING())
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    return f.sorted(keyed.window(windows).reduce(lambda a, b: (a[0], a[1] + b[1])))


def parallelism_0_fails(f):
    return f.collected(lambda: f.ints(1).map(lambda v: v).set_parallelism(0))


def a_collection_of_parallelism_2_fails(f):
    return f.collected(lambda: f.ints(1, env=f.env(2)).set_parallelism(2))
