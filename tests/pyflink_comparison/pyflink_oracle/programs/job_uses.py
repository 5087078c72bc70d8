"""Jobs as programs set them up: names, settings, parallelism, failures and their results."""

from __future__ import annotations

from typing import Any

from pyflink_oracle.outcomes import error_text


def settings_of_an_environment(f):
    env = f.env()
    env.set_parallelism(3).set_max_parallelism(64).set_buffer_timeout(50)
    env.enable_checkpointing(1000, f.CheckpointingMode.AT_LEAST_ONCE)
    env.set_runtime_mode(f.RuntimeExecutionMode.STREAMING)
    checkpoints = env.get_checkpoint_config()
    checkpoints.set_min_pause_between_checkpoints(10)
    checkpoints.set_checkpoint_timeout(5000)
    checkpoints.set_max_concurrent_checkpoints(2)
    checkpoints.set_tolerable_checkpoint_failure_number(4)
    return [
        env.get_parallelism(),
        env.get_max_parallelism(),
        env.get_buffer_timeout(),
        env.is_chaining_enabled(),
        env.get_checkpoint_interval(),
        str(env.get_checkpointing_mode()),
        checkpoints.get_min_pause_between_checkpoints(),
        checkpoints.get_checkpoint_timeout(),
        checkpoints.get_max_concurrent_checkpoints(),
        checkpoints.get_tolerable_checkpoint_failure_number(),
        checkpoints.is_checkpointing_enabled(),
        checkpoints.is_unaligned_checkpoints_enabled(),
        env.disable_operator_chaining().is_chaining_enabled(),
    ]


def settings_by_a_configuration(f):
    env = f.env(
        settings={
            "pipeline.max-parallelism": "32",
            "execution.buffer-timeout": "7 ms",
            "execution.checkpointing.interval": "3 s",
            "pipeline.auto-watermark-interval": "33 ms",
            "pipeline.object-reuse": "true",
        }
    )
    config = env.get_config()
    first = [
        env.get_max_parallelism(),
        env.get_buffer_timeout(),
        env.get_checkpoint_interval(),
        config.get_auto_watermark_interval(),
        config.is_object_reuse_enabled(),
    ]
    more = f.Configuration()
    more.set_string("pipeline.auto-watermark-interval", "44 ms")
    more.set_integer("parallelism.default", 2)
    env.configure(more)
    config = env.get_config()
    return [*first, config.get_auto_watermark_interval(), env.get_parallelism()]


def settings_of_executions(f):
    config = f.env().get_config()
    config.set_auto_watermark_interval(20)
    config.set_parallelism(2)
    config.set_max_parallelism(16)
    config.enable_object_reuse()
    config.set_task_cancellation_interval(5)
    config.set_global_job_parameters({"a": "1", "b": "x"})
    return [
        config.get_auto_watermark_interval(),
        config.get_parallelism(),
        config.get_max_parallelism(),
        config.is_object_reuse_enabled(),
        config.disable_object_reuse().is_object_reuse_enabled(),
        config.get_task_cancellation_interval(),
        sorted(config.get_global_job_parameters().items()),
    ]


def parameters_in_functions(f):
    class Tell(f.MapFunction):
        def open(self, runtime_context):
            self.found = runtime_context.get_job_parameter("greeting", "none")
            self.other = runtime_context.get_job_parameter("absent", "default")

        def map(self, value):
            return f"{self.found} {value} {self.other}"

    env = f.env()
    env.get_config().set_global_job_parameters({"greeting": "hello"})
    return f.collect(f.ints(1, env=env).map(Tell()))


def what_the_runtime_context_tells(f):
    class Tell(f.MapFunction):
        def open(self, runtime_context):
            self.told = [
                runtime_context.get_number_of_parallel_subtasks(),
                runtime_context.get_max_number_of_parallel_subtasks(),
                runtime_context.get_index_of_this_subtask(),
                runtime_context.get_attempt_number(),
                "Tell" in runtime_context.get_task_name()
                or "named" in runtime_context.get_task_name(),
                runtime_context.get_task_name_with_subtasks().split("(")[-1],
            ]

        def map(self, value):
            return self.told

    env = f.env(2)
    env.set_max_parallelism(8)
    told = f.ints(1, env=env).map(Tell()).name("named").set_parallelism(1)
    return f.collect(told)


def names_and_their_streams(f):
    ints = f.ints(1, 2)
    mapped = ints.map(lambda v: v).name("first")
    filtered = mapped.filter(lambda v: True)
    keyed = filtered.key_by(lambda v: v)
    return [
        mapped.get_name(),
        filtered.get_name(),
        keyed.reduce(lambda a, b: a).name("last").get_name(),
        ints.map(lambda v: v).uid("u").set_uid_hash("a" * 32).get_name(),
    ]


def a_name_of_no_letters(f):
    return f.collected(lambda: f.ints(1, 2).map(lambda v: v).name("").map(lambda v: v + 1))


def parallelism_of_operators(f):
    class Where(f.MapFunction):
        def open(self, runtime_context):
            self.many = runtime_context.get_number_of_parallel_subtasks()

        def map(self, value):
            return self.many

    def many(parallelism, own):
        env = f.env(parallelism)
        stream = f.ints(1, 2, 3, env=env).map(Where(), f.Types.INT())
        return sorted(set(f.collect(stream if own is None else stream.set_parallelism(own))))

    return {
        "inherited": many(2, None),
        "own": many(2, 3),
        "one": many(4, 1),
        "nothing": f.outcome(lambda: many(2, 0)),
        "negative": f.outcome(lambda: many(2, -1)),
        "more than the maximum": f.outcome(
            lambda: f.ints(1).map(lambda v: v).set_max_parallelism(2).set_parallelism(3)
        ),
    }


def chains_that_are_begun_and_cut(f):
    def run(cut):
        stream = f.ints(1, 2, 3).map(lambda v: v + 1, f.Types.INT())
        return f.collect(cut(stream.map(lambda v: v * 2, f.Types.INT())).filter(lambda v: v > 4))

    return {
        "whole": run(lambda s: s),
        "new": run(lambda s: s.start_new_chain()),
        "none": run(lambda s: s.disable_chaining()),
    }


def deep_chains(f):
    stream = f.ints(*range(5))
    for step in range(40):
        stream = stream.map(lambda v, step=step: v + step, f.Types.INT())
        if step % 10 == 5:
            stream = stream.filter(lambda v: v >= 0)
    return f.collect(stream)


def results_that_are_limited(f):
    def limited(limit):
        with f.ints(*range(10)).execute_and_collect(limit=limit) as results:
            return list(results)

    return {
        str(limit): f.outcome(lambda limit=limit: limited(limit)) for limit in (1, 3, 10, 20, 0, -1)
    }


def results_that_are_left_unread(f):
    results = f.ints(*range(100)).execute_and_collect()
    first = [next(results), next(results)]
    results.close()
    return first


def results_of_a_job(f):
    env = f.env()
    f.ints(1, env=env).print()
    result = env.execute("the name")
    return [
        type(result.get_job_id()).__name__,
        result.get_net_runtime() >= 0,
        result.get_all_accumulator_results(),
    ]


def jobs_after_each_other(f):
    env = f.env()
    found = []
    for n in (1, 2):
        stream = f.ints(n, n * 10, env=env).map(lambda v, n=n: v + n, f.Types.INT())
        found.append(f.collect(stream))
    f.ints(5, env=env).print()
    env.execute()
    return found, f.outcome(env.execute)


def jobs_that_run_beside_the_program(f):
    env = f.env()
    f.ints(1, 2, env=env).map(lambda v: v).print()
    client = env.execute_async("beside")
    result = client.get_job_execution_result().result()
    return str(client.get_job_id()) == str(result.get_job_id())


def _fails(f: Any, make: Any) -> str:
    def run():
        return f.collect(make(f.pairs(("a", 1), ("b", 0))))

    return f.outcome(run)


def failures_of_functions(f):
    def divide(v, *_):
        return 1 // v[1]

    class Process(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield divide(value)

    class Keyed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(1)
            return []

        def on_timer(self, timestamp, ctx):
            yield divide((0, 0))

    class Open(f.MapFunction):
        def open(self, runtime_context):
            raise KeyError("open")

        def map(self, value):
            return value

    class Window(f.ProcessWindowFunction):
        def process(self, key, context, elements):
            yield [divide(v) for v in elements]

    windows = f.TumblingEventTimeWindows.of(f.Time.milliseconds(10))

    def timed(s):
        return f.timed(s, lambda v: v[1]).key_by(lambda v: v[0])

    return {
        "map": _fails(f, lambda s: s.map(divide)),
        "filter": _fails(f, lambda s: s.filter(divide)),
        "flat_map": _fails(f, lambda s: s.flat_map(lambda v: [divide(v)])),
        "key_by": _fails(f, lambda s: s.key_by(divide).map(lambda v: v)),
        "reduce": _fails(f, lambda s: s.key_by(lambda v: 0).reduce(lambda a, b: divide(b))),
        "process": _fails(f, lambda s: s.process(Process())),
        "on_timer": _fails(f, lambda s: timed(s).process(Keyed())),
        "open": _fails(f, lambda s: s.map(Open())),
        "window": _fails(f, lambda s: timed(s).window(windows).process(Window())),
        "timestamp": _fails(f, lambda s: f.timed(s, divide)),
        "partition": _fails(
            f,
            lambda s: (
                s.map(lambda v: v, s.get_type())
                .set_parallelism(1)
                .partition_custom(lambda key, n: 1 // key, lambda v: v[1])
                .map(lambda v: v)
                .set_parallelism(2)
            ),
        ),
    }


def failures_of_a_sink(f):
    env = f.env()
    f.ints(1, 0, env=env).map(lambda v: 1 // v).print()
    try:
        env.execute()
    except Exception as error:
        return error_text(error).split(",", maxsplit=1)[0]
    return "none"


def failures_that_tell_their_text(f):
    class OwnError(Exception):
        pass

    def fail(value):
        raise OwnError(f"value {value} is bad")

    try:
        f.collect(f.ints(7).map(fail))
    except Exception as error:
        found: BaseException | None = error
        texts = []
        while found is not None:
            texts.append(str(found))
            found = found.__cause__
        return "value 7 is bad" in "\n".join(texts), "OwnError" in repr(error) + "\n".join(texts)
    return None


def restarts_that_are_enough(f):
    """The source starts over; the function has lost its count."""
    import os
    import tempfile

    marker = tempfile.mktemp()

    class Once(f.MapFunction):
        def map(self, value):
            if value == 2 and not os.path.exists(marker):
                with open(marker, "w"):
                    pass
                raise ValueError("once")
            return value

    env = f.env(
        settings={
            "restart-strategy.type": "fixed-delay",
            "restart-strategy.fixed-delay.attempts": "2",
            "restart-strategy.fixed-delay.delay": "10 ms",
        }
    )
    f.ints(1, 2, 3, env=env).map(Once(), f.Types.INT()).print()
    result = env.execute()
    os.remove(marker)
    return result.get_net_runtime() >= 0


def lives_of_functions(f):
    class Life(f.MapFunction):
        def __init__(self):
            self.seen = ["init"]

        def open(self, runtime_context):
            self.seen.append("open")

        def map(self, value):
            self.seen.append(value)
            return list(self.seen)

        def close(self):
            self.seen.append("close")

    function = Life()
    found = f.collect(f.ints(1, 2).map(function))
    return found, function.seen


def captured_values_are_copied(f):
    captured = {"n": 1}
    stream = f.ints(1, 2).map(lambda v: v + captured["n"], f.Types.INT())
    captured["n"] = 100
    found = f.collect(stream)
    return found, captured


def metrics_of_functions(f):
    class Count(f.MapFunction):
        def open(self, runtime_context):
            group = runtime_context.get_metrics_group().add_group("own").add_group("k", "v")
            self.counter = group.counter("n")
            self.meter = group.meter("m")
            self.distribution = group.distribution("d")
            self.last = 0
            group.gauge("g", lambda: self.last)

        def map(self, value):
            self.counter.inc()
            self.counter.inc(2)
            self.counter.dec()
            self.meter.mark_event(3)
            self.distribution.update(value)
            self.last = value
            return self.counter.get_count()

    return f.collected(lambda: f.ints(5, 6, 7).map(Count(), f.Types.LONG()))


def cached_streams_in_batch_mode(f):
    env = f.batch_env()
    cached = f.ints(1, 2, 3, env=env).map(lambda v: v * 10, f.Types.INT()).cache()
    first = f.sorted(cached.map(lambda v: v + 1, f.Types.INT()))
    second = f.sorted(cached.filter(lambda v: v > 10))
    return first, second


def word_counts_at_every_parallelism(f):
    t = f.Types
    lines = ["to be or not to be", "that is the question", "be that as it is"]

    def count(parallelism, batch):
        env = f.batch_env(parallelism) if batch else f.env(parallelism)
        stream = env.from_collection(lines, t.STRING()).flat_map(str.split, t.STRING())
        pairs = stream.map(lambda w: (w, 1), t.TUPLE([t.STRING(), t.INT()]))
        counted = f.collect(pairs.key_by(lambda v: v[0], t.STRING()).sum(1))
        return sorted(counted)

    return {f"{p} {batch}": count(p, batch) for p in (1, 3) for batch in ("", "batch")}


def functions_of_every_form(f):
    import functools
    import operator

    class Times:
        def __init__(self, n):
            self.n = n

        def __call__(self, value):
            return value * self.n

        def method(self, value):
            return value - self.n

    def nested(value):
        def inner(n):
            return inner(n - 1) + value if n else 0

        return inner(3)

    functions = {
        "lambda": lambda v: v + 1,
        "nested": nested,
        "partial": functools.partial(operator.mul, 3),
        "builtin": abs,
        "type": str,
        "operator": operator.neg,
        "method": Times(5).method,
        "default": lambda v, n=7: v * n,
        "text": "{}!".format,
    }
    return {
        name: f.collected(lambda function=function: f.ints(1, -2).map(function))
        for name, function in functions.items()
    } | {"callable": f.collected(lambda: f.ints(1, -2).map(Times(4)))}


def plans_of_jobs(f):
    import json

    env = f.env(2)
    keyed = f.pairs(("a", 1), env=env).name("source").key_by(lambda v: v[0])
    keyed.sum(1).name("sum").print().name("out")
    plan = json.loads(env.get_execution_plan())
    return sorted(plan), len(plan["nodes"]) > 1, "id" in plan["nodes"][0]
