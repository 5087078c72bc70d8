"""Invalid programs: whether and where they fail."""

from __future__ import annotations


def lambdas_for_objects(f):
    s = f.ints(1)
    keyed = s.key_by(lambda v: v)
    windows = f.TumblingEventTimeWindows.of(f.Time.seconds(1))
    return [
        f.outcome(action)
        for action in (
            lambda: s.process(lambda v: v),
            lambda: keyed.process(lambda v: v),
            lambda: keyed.window(windows).process(lambda k, c, e: e),
            lambda: keyed.window(windows).apply(lambda k, c, e: e),
            lambda: keyed.window(windows).aggregate(lambda a: a),
            lambda: s.connect(s).map(lambda v: v),
            lambda: s.connect(s).process(lambda v: v),
        )
    ]


def objects_of_the_wrong_kind(f):
    class Map(f.MapFunction):
        def map(self, value):
            return value

    class Process(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield value

    s = f.ints(1)
    return [
        f.outcome(action)
        for action in (
            lambda: s.flat_map(Map()),
            lambda: s.filter(Map()),
            lambda: s.map(Process()),
            lambda: s.map(Map),
            lambda: s.key_by(Map()),
            lambda: s.key_by(lambda v: v).reduce(Map()),
            lambda: s.process(Map()),
        )
    ]


def aggregations_without_keys(f):
    s = f.pairs(("a", 1))
    names = ("sum", "reduce", "min", "window", "count_window")
    return [f.outcome(lambda name=name: getattr(s, name)) for name in names]


def names_and_settings(f):
    s = f.ints(1).map(lambda v: v)
    return [
        f.outcome(action)
        for action in (
            lambda: s.name("a").get_name(),
            lambda: s.uid("u").name("b").get_name(),
            lambda: s.set_max_parallelism(4).get_name(),
            lambda: s.slot_sharing_group("x").get_name(),
            lambda: s.set_description("d").get_name(),
            lambda: s.force_non_parallel().get_name(),
            lambda: s.start_new_chain().get_name(),
            lambda: s.set_buffer_timeout(5).get_name(),
            lambda: s.set_uid_hash("zz").get_name(),
        )
    ]


def two_operators_of_one_uid(f):
    s = f.ints(1).map(lambda v: v).uid("same").map(lambda v: v).uid("same")
    return f.collected(lambda: s)


def streams_of_two_environments(f):
    return f.sorted(f.ints(1).union(f.ints(2)))


def a_wrong_element_of_a_collection(f):
    t = f.Types
    return [
        f.collected(lambda k=kind, v=values: f.env().from_collection(v, k))
        for kind, values in (
            (t.INT(), [1, "a"]),
            (t.STRING(), ["a", 1]),
            (t.TUPLE([t.INT(), t.INT()]), [(1, 2), (1, "x")]),
            (t.TUPLE([t.INT(), t.INT()]), [(1, 2), 5]),
            (t.ROW([t.INT()]), [f.Row(1), f.Row(2)]),
            (t.LIST(t.INT()), [[1]]),
            (t.MAP(t.STRING(), t.INT()), [{"a": 1}]),
            (t.DOUBLE(), [1.5, 2]),
        )
    ]


def a_map_to_the_wrong_type(f):
    t = f.Types
    kinds = (t.STRING(), t.TUPLE([t.INT(), t.INT()]), t.LIST(t.INT()), t.MAP(t.INT(), t.INT()))
    return [f.collected(lambda k=kind: f.ints(1, 2).map(lambda v: v, k)) for kind in kinds]


def a_process_to_the_wrong_type(f):
    class Give(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield str(value)

    return f.collected(lambda: f.ints(1, 2).process(Give(), f.Types.INT()))


def a_flat_map_to_the_wrong_type(f):
    return f.collected(lambda: f.ints(1, 2).flat_map(lambda v: ["a", 1], f.Types.STRING()))


def a_side_output_of_no_tag(f):
    return f.outcome(lambda: f.ints(1).get_side_output("tag"))


def a_timestamp_that_is_none(f):
    class Tell(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield (value, ctx.timestamp())

    return f.collected(lambda: f.timed(f.ints(1), lambda v: None).process(Tell()))


def a_timestamp_that_is_a_text(f):
    return f.collected(lambda: f.timed(f.ints(1), lambda v: "1").map(lambda v: v))


def a_timestamp_that_is_a_fraction(f):
    return f.collected(lambda: f.timed(f.ints(1), lambda v: 1.5).map(lambda v: v))


def a_reduce_of_two_arguments_too_few(f):
    return f.collected(lambda: f.ints(1, 2).key_by(lambda v: 0).reduce(lambda a: a))


def functions_that_cannot_be_pickled(f):
    import threading

    lock = threading.Lock()
    return f.collected(lambda: f.ints(1).map(lambda v: (v, lock)[0]))


def a_value_that_cannot_be_pickled(f):
    import threading

    return f.collected(lambda: f.ints(1).map(lambda v: threading.Lock()).disable_chaining())


def an_exception_of_the_users_own(f):
    class OwnError(Exception):
        pass

    def fail(v):
        raise OwnError(v)

    return f.collected(lambda: f.ints(1).map(fail))


def a_generator_that_fails_halfway(f):
    def some(v):
        yield v
        raise RuntimeError("halfway")

    return f.collected(lambda: f.ints(1).flat_map(some))


def a_state_asked_for_in_process(f):
    class Use(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.context = runtime_context

        def process_element(self, value, ctx):
            state = self.context.get_state(f.ValueStateDescriptor("v", f.Types.INT()))
            state.update((state.value() or 0) + 1)
            yield state.value()

    return f.collected(lambda: f.ints(1, 2).key_by(lambda v: 0).process(Use()))


def a_state_without_open(f):
    class Use(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield self.state.value()

    return f.collected(lambda: f.ints(1).key_by(lambda v: 0).process(Use()))


def print_before_what(f):
    """Elements are printed after a text, or after nothing."""
    ints = f.ints(1)
    return [
        f.outcome(lambda before=before: type(ints.print(before)).__name__)
        for before in ("a", "", None, 5, b"x", ["a"])
    ]
