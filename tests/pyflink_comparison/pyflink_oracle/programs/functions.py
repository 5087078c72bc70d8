"""map, flat_map and filter: valid functions, their results and their errors."""

from __future__ import annotations

from typing import Any


def map_with_defaults_and_closures(f):
    by = [lambda v, i=i: v * i for i in (1, 10)]
    stream = f.ints(1, 2, 3).flat_map(lambda v: [v, -v], f.Types.INT())
    return f.collect(stream.map(by[1], f.Types.INT()).map(lambda v, k=7: v + k))


def map_of_keyword_only_default(f):
    return f.collect(f.ints(1, 2).map(lambda v, *, k=3: v + k))


def map_of_a_partial(f):
    import functools

    return f.collected(lambda: f.ints(1, 2).map(functools.partial(pow, 2)))


def map_of_a_builtin(f):
    return f.collected(lambda: f.ints(1, 2).map(str))


def map_of_a_class(f):
    return f.collected(lambda: f.ints(1, 2).map(complex))


def map_of_a_bound_method(f):
    return f.collected(lambda: f.ints(1, 2).map([5, 6, 7].index if False else "abc".__getitem__))


def map_of_a_callable_object(f):
    class Add:
        def __call__(self, value):
            return value + 1

    return f.collected(lambda: f.ints(1, 2).map(Add()))


def map_of_two_parameters_fails(f):
    return f.collected(lambda: f.ints(1, 2).map(lambda a, b: a))


def map_without_parameters_fails(f):
    return f.collected(lambda: f.ints(1, 2).map(lambda: 1))


def map_that_gives_a_generator(f):
    return f.collected(lambda: f.ints(1, 2).map(lambda v: (i for i in range(v))))


def map_that_gives_none_untyped(f):
    return f.collected(lambda: f.ints(1, 2).map(lambda v: None).map(lambda v: v is None))


def flat_map_forms(f):
    def forms(v):
        return [[], (v, v), range(v), {v: 1}, {v}, "ab", iter([v]), b"xy"][v]

    return f.collected(lambda: f.ints(0, 1, 2, 3, 4, 5, 6, 7).flat_map(forms))


def flat_map_that_gives_a_number_fails(f):
    return f.collected(lambda: f.ints(1, 2).flat_map(lambda v: v))


def flat_map_that_gives_none_of_some(f):
    return f.collected(lambda: f.ints(1, 2, 3).flat_map(lambda v: [v] if v % 2 else None))


def flat_map_generator_with_return(f):
    def some(v):
        yield v
        if v == 2:
            return
        yield v * 10

    return f.collect(f.ints(1, 2, 3).flat_map(some, f.Types.INT()))


def flat_map_with_none_inside(f):
    return f.collected(lambda: f.ints(1, 2).flat_map(lambda v: [None, v]).map(lambda v: str(v)))


def filter_truths(f):
    forms = [0, 1, "", "a", [], [0], None, 0.0, float("nan"), (), {}]
    numbers = f.ints(*range(len(forms)))
    return f.collected(lambda: numbers.filter(lambda i: forms[i]))


def filter_of_a_function_object(f):
    class Odd(f.FilterFunction):
        def open(self, runtime_context):
            self.seen = 0

        def filter(self, value):
            self.seen += 1
            return self.seen % 2

    return f.collect(f.ints(5, 6, 7, 8).filter(Odd()))


def filter_keeps_rows(f):
    kind = f.Types.ROW_NAMED(["a", "b"], [f.Types.INT(), f.Types.STRING()])
    rows = f.env().from_collection([f.Row(1, "x"), f.Row(2, "y")], kind)
    return f.collect(rows.filter(lambda r: r.a > 1).map(lambda r: (r.b, r[0], r.as_dict())))


def a_failing_map_names_its_error(f):
    return f.collected(lambda: f.ints(1, 0).map(lambda v: 1 // v))


def a_failing_filter(f):
    return f.collected(lambda: f.ints(1, 0).filter(lambda v: v.nothing))


def a_failing_open(f):
    class Bad(f.MapFunction):
        def open(self, runtime_context):
            raise ValueError("no")

        def map(self, value):
            return value

    return f.collected(lambda: f.ints(1).map(Bad()))


def functions_are_opened_once(f):
    class Count(f.MapFunction):
        def __init__(self):
            self.opened = 0

        def open(self, runtime_context):
            self.opened += 1

        def map(self, value):
            return (self.opened, value)

    return f.collect(f.ints(1, 2).map(Count()))


def runtime_context_tells(f):
    class Tell(f.MapFunction):
        def open(self, runtime_context):
            c = runtime_context
            self.told = (
                c.get_task_name(),
                c.get_number_of_parallel_subtasks(),
                c.get_max_number_of_parallel_subtasks(),
                c.get_index_of_this_subtask(),
                c.get_attempt_number(),
                c.get_task_name_with_subtasks(),
                c.get_job_parameter("none", "default"),
            )

        def map(self, value):
            return self.told

    return f.collected(lambda: f.ints(1).map(Tell()).name("told")), f.collected(
        lambda: f.ints(1).map(Tell()).disable_chaining()
    )


def job_parameters(f):
    env = f.env()
    env.get_config().set_global_job_parameters({"a": "1", "b": "x"})

    class Tell(f.MapFunction):
        def open(self, runtime_context):
            self.told = (
                runtime_context.get_job_parameter("a", "d"),
                runtime_context.get_job_parameter("zz", "d"),
            )

        def map(self, value):
            return self.told

    return f.collect(f.ints(1, env=env).map(Tell()))


def changes_of_a_closure_stay_in_the_worker(f):
    seen: list[Any] = []

    def remember(value):
        seen.append(value)
        return len(seen)

    collected = f.collect(f.ints(5, 6, 7).map(remember))
    return collected, seen


def two_branches_do_not_share_a_list(f):
    lists = f.ints(1, 2).map(lambda v: [v])

    def change(v):
        v.append(9)
        return v

    return f.sorted(lists.map(change).union(lists.map(lambda v: [*v, "other"])))


def a_chain_of_conversions(f):
    t = f.Types
    stream = f.ints(1, 2).map(str, t.STRING()).map(float, t.DOUBLE()).map(int, t.LONG())
    return f.collect(stream.map(lambda v: {"v": v}, t.MAP(t.STRING(), t.LONG())))


def map_keeps_the_kind_of_rows(f):
    kind = f.Types.ROW([f.Types.INT()])

    def deleted(v):
        row = f.Row(v)
        row.set_row_kind(f.RowKind.DELETE)
        return row

    return f.collect(f.ints(1, 2).map(deleted, kind).map(lambda r: r, kind))


def keyed_map_and_flat_map_with_state(f):
    class Count(f.MapFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(f.ValueStateDescriptor("n", f.Types.INT()))

        def map(self, value):
            self.state.update((self.state.value() or 0) + 1)
            return (value, self.state.value())

    class Twice(f.FlatMapFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_list_state(f.ListStateDescriptor("l", f.Types.INT()))

        def flat_map(self, value):
            self.state.add(value)
            yield from list(self.state.get())

    keyed = f.ints(1, 2, 3, 4).key_by(lambda v: v % 2, f.Types.INT())
    return f.collect(keyed.map(Count())), f.collect(keyed.flat_map(Twice(), f.Types.INT()))


def keyed_filter_with_state(f):
    class First(f.FilterFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(f.ValueStateDescriptor("n", f.Types.BOOLEAN()))

        def filter(self, value):
            if self.state.value():
                return False
            self.state.update(True)
            return True

    return f.collect(f.ints(1, 3, 2, 4).key_by(lambda v: v % 2, f.Types.INT()).filter(First()))


def state_without_a_key_fails(f):
    class Use(f.MapFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(f.ValueStateDescriptor("n", f.Types.INT()))

        def map(self, value):
            return self.state.value()

    return f.collected(lambda: f.ints(1).map(Use()))


def limit_of_the_collected(f):
    return f.outcome(lambda: f.ints(1, 2, 3, 4).map(lambda v: v * 2).execute_and_collect(limit=2))


def collected_by_a_loop_and_next(f):
    results = f.ints(1, 2, 3).execute_and_collect("named")
    first = next(results)
    rest = list(results)
    results.close()
    return first, rest


def two_jobs_of_one_environment(f):
    env = f.env()
    a = f.collect(f.ints(1, 2, env=env).map(lambda v: v + 1))
    return a, f.collect(f.ints(3, env=env).map(lambda v: v + 1))


def execute_with_nothing_fails(f):
    return f.outcome(lambda: f.env().execute("none"))


def print_and_execute(f):
    env = f.env()
    f.ints(1, env=env).map(lambda v: v).print()
    return type(env.execute("job")).__name__
