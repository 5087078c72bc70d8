"""Process functions: their contexts, side outputs, timers and results."""

from __future__ import annotations

from typing import Any


def process_gives_every_form(f):
    class Give(f.ProcessFunction):
        def process_element(self, value, ctx):
            return [[value], (value, value), range(value), {value: 1}, "ab", iter([value])][value]

    return f.collected(lambda: f.ints(0, 1, 2, 3, 4, 5).process(Give()))


def process_that_gives_a_number_fails(f):
    class Give(f.ProcessFunction):
        def process_element(self, value, ctx):
            return value

    return f.collected(lambda: f.ints(1, 2).process(Give()))


def context_tells_moments(f):
    class Tell(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield (value, ctx.timestamp(), ctx.timer_service().current_watermark())

    return f.collected(lambda: f.timed(f.ints(5, 3, 9), lambda v: v).process(Tell()))


def context_without_timestamps(f):
    class Tell(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield (value, ctx.timestamp(), ctx.timer_service().current_watermark())

    return f.collected(lambda: f.ints(5, 3).process(Tell()))


def timers_without_a_key_fail(f):
    class Use(f.ProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(5)
            yield value

    return f.collected(lambda: f.ints(5).process(Use()))


def keyed_context_tells_its_key(f):
    class Tell(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield (ctx.get_current_key(), value, ctx.timestamp())

    keyed = f.timed(f.pairs(("a", 1), ("b", 2)), lambda v: v[1])
    return f.collect(keyed.key_by(lambda v: v[0], f.Types.STRING()).process(Tell()))


def timers_fire_in_order_of_time(f):
    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(100 - value)
            ctx.timer_service().register_event_time_timer(100 - value)

        def on_timer(self, timestamp, ctx):
            yield (timestamp, ctx.timestamp(), ctx.get_current_key(), str(ctx.time_domain()))

    timed = f.timed(f.ints(1, 3, 2), lambda v: v)
    return f.collected(lambda: timed.key_by(lambda v: v, f.Types.INT()).process(Timed()))


def timers_that_are_deleted_do_not_fire(f):
    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            service = ctx.timer_service()
            if value < 3:
                service.register_event_time_timer(1000 + value)
            else:
                service.delete_event_time_timer(1001)
                service.delete_event_time_timer(5000)
            return []

        def on_timer(self, timestamp, ctx):
            yield timestamp

    timed = f.timed(f.ints(1, 2, 3), lambda v: v)
    return f.collect(timed.key_by(lambda v: 0, f.Types.INT()).process(Timed()))


def timers_read_and_clear_state(f):
    class Timed(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_list_state(f.ListStateDescriptor("l", f.Types.INT()))

        def process_element(self, value, ctx):
            self.state.add(value)
            ctx.timer_service().register_event_time_timer(50)
            ctx.timer_service().register_event_time_timer(60)
            return []

        def on_timer(self, timestamp, ctx):
            yield (timestamp, list(self.state.get()))
            self.state.clear()

    timed = f.timed(f.ints(1, 2, 3), lambda v: v)
    return f.collect(timed.key_by(lambda v: 0, f.Types.INT()).process(Timed()))


def timers_of_negative_time(f):
    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(-5)
            ctx.timer_service().register_event_time_timer(0)
            ctx.timer_service().register_event_time_timer(2**62)
            return []

        def on_timer(self, timestamp, ctx):
            yield timestamp

    timed = f.timed(f.ints(1), lambda v: v)
    return f.collect(timed.key_by(lambda v: 0, f.Types.INT()).process(Timed()))


def timers_of_a_fraction(f):
    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(1.5)
            return []

        def on_timer(self, timestamp, ctx):
            yield timestamp

    return f.collected(lambda: f.ints(1).key_by(lambda v: 0).process(Timed()))


def timers_without_on_timer(f):
    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(1)
            yield value

    return f.collected(lambda: f.ints(1).key_by(lambda v: 0).process(Timed()))


def timers_in_batch_mode(f):
    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value * 10)
            yield ("element", value, ctx.timer_service().current_watermark())

        def on_timer(self, timestamp, ctx):
            yield ("timer", timestamp, ctx.timer_service().current_watermark())

    timed = f.timed(f.ints(3, 1, 2, env=f.batch_env()), lambda v: v)
    return f.collect(timed.key_by(lambda v: 0, f.Types.INT()).process(Timed()))


def side_output_of_a_process(f):
    tag = f.OutputTag("odd", f.Types.INT())

    class Split(f.ProcessFunction):
        def process_element(self, value, ctx):
            if value % 2:
                yield tag, value
            else:
                yield value

    main = f.ints(1, 2, 3, 4).process(Split(), f.Types.INT())
    odd = main.get_side_output(tag)
    return f.collect(odd), f.collect(main), f.sorted(main.union(odd))


def side_output_without_a_type(f):
    tag = f.OutputTag("any")

    class Split(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield tag, {"v": [value]}
            yield value

    return f.collected(lambda: f.ints(1, 2).process(Split()).get_side_output(tag))


def side_output_tag_made_in_the_function(f):
    class Split(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield f.OutputTag("x", f.Types.INT()), value
            yield value

    tag = f.OutputTag("x", f.Types.INT())
    return (
        f.collected(lambda: f.ints(1, 2).process(Split(), f.Types.INT())),
        f.collected(lambda: f.ints(1, 2).process(Split(), f.Types.INT()).get_side_output(tag)),
    )


def side_output_tag_nobody_asks_for(f):
    class Split(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield f.OutputTag("other", f.Types.INT()), value
            yield value

    asked = f.OutputTag("asked", f.Types.INT())
    return (
        f.collected(lambda: f.ints(1, 2).process(Split())),
        f.collected(lambda: f.ints(1, 2).process(Split(), f.Types.INT())),
        f.collected(lambda: f.ints(1, 2).process(Split()).map(str)),
        f.collected(lambda: f.ints(1, 2).process(Split(), f.Types.INT()).get_side_output(asked)),
        f.collected(
            lambda: f.ints(1, 2).key_by(lambda v: v).process(_keyed_split(f), f.Types.INT())
        ),
    )


def _keyed_split(f):
    class Split(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield f.OutputTag("other", f.Types.INT()), value
            yield value

    return Split()


def side_output_of_another_kind_of_value(f):
    tag = f.OutputTag("t", f.Types.INT())

    class Split(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield tag, "text"

    return f.collected(lambda: f.ints(1).process(Split()).get_side_output(tag))


def side_output_of_tuples_and_rows(f):
    pair = f.OutputTag("p", f.Types.TUPLE([f.Types.STRING(), f.Types.INT()]))
    row = f.OutputTag("r", f.Types.ROW_NAMED(["a", "b"], [f.Types.STRING(), f.Types.INT()]))

    class Split(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield pair, ("p", value)
            yield row, f.Row(b=value, a="r")
            yield row, f.Row("r", value)

    main = f.ints(1, 2).process(Split())
    summed = main.get_side_output(pair).key_by(lambda v: v[0], f.Types.STRING()).sum(1)
    return f.collect(summed), f.collect(main.get_side_output(row))


def side_output_of_a_timer(f):
    tag = f.OutputTag("t", f.Types.LONG())

    class Timed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            ctx.timer_service().register_event_time_timer(value + 1)
            return []

        def on_timer(self, timestamp, ctx):
            yield tag, timestamp
            yield "main"

    timed = f.timed(f.ints(1, 5), lambda v: v).key_by(lambda v: 0, f.Types.INT())
    return f.collect(timed.process(Timed()).get_side_output(tag))


def side_output_of_a_map_is_a_value(f):
    tag = f.OutputTag("t", f.Types.INT())
    kind = f.Types.TUPLE([f.Types.STRING(), f.Types.INT()])
    mapped = f.ints(1, 2).map(lambda v: (tag.tag_id, v), kind)
    side = f.outcome(lambda: mapped.get_side_output(tag))
    return side, f.collect(mapped)


def side_output_asked_twice(f):
    tag = f.OutputTag("t", f.Types.INT())

    class Split(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield tag, value

    main = f.ints(1, 2).process(Split())
    a, b = main.get_side_output(tag), main.get_side_output(tag)
    return f.sorted(a.map(lambda v: ("a", v)).union(b.map(lambda v: ("b", v))))


def side_output_of_one_name_and_two_types(f):
    first, second = f.OutputTag("t", f.Types.INT()), f.OutputTag("t", f.Types.STRING())

    class Split(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield first, value

    main = f.ints(1, 2).process(Split())
    a = main.get_side_output(first)
    return f.collected(lambda: a), f.outcome(lambda: main.get_side_output(second))


def process_behind_key_by_and_map(f):
    keyed = f.ints(1, 2, 3, 4).key_by(lambda v: v % 2, f.Types.INT())

    class Count(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.state = runtime_context.get_state(f.ValueStateDescriptor("n", f.Types.LONG()))

        def process_element(self, value, ctx):
            n = (self.state.value() or 0) + value
            self.state.update(n)
            yield f.Row(ctx.get_current_key(), n)

    kind = f.Types.ROW_NAMED(["k", "n"], [f.Types.INT(), f.Types.LONG()])
    return f.collect(keyed.process(Count(), kind).map(lambda r: (r.k, r.n)))


def process_of_a_process_function_on_keys(f):
    class Plain(f.ProcessFunction):
        def process_element(self, value, ctx):
            yield value

    return f.collected(lambda: f.ints(1, 2).key_by(lambda v: v).process(Plain()))


def process_of_a_keyed_function_without_keys(f):
    class Keyed(f.KeyedProcessFunction):
        def process_element(self, value, ctx):
            yield value

    return f.collected(lambda: f.ints(1, 2).process(Keyed()))


def async_keeps_the_order(f):
    class Ask(f.AsyncFunction):
        async def async_invoke(self, value):
            return [value, value * 10]

        def timeout(self, value):
            return [-1]

    asked = f.AsyncDataStream.ordered_wait(
        f.ints(1, 2, 3), Ask(), f.Time.seconds(10), 2, f.Types.INT()
    )
    return f.collected(lambda: asked)


def async_without_order(f):
    class Ask(f.AsyncFunction):
        async def async_invoke(self, value):
            return [] if value == 2 else [str(value)]

    return f.sorted(
        f.AsyncDataStream.unordered_wait(
            f.ints(1, 2, 3), Ask(), f.Time.seconds(10), 2, f.Types.STRING()
        )
    )


def async_of_a_number_fails(f):
    class Ask(f.AsyncFunction):
        async def async_invoke(self, value):
            return value

    return f.collected(
        lambda: f.AsyncDataStream.ordered_wait(f.ints(1), Ask(), f.Time.seconds(10), 2)
    )


def async_gives_every_iterable(f):
    def run(result: Any) -> Any:
        class Ask(f.AsyncFunction):
            async def async_invoke(self, value):
                return result(value)

        waiting = f.AsyncDataStream.ordered_wait
        return f.collected(lambda: waiting(f.ints(1, 2), Ask(), f.Time.seconds(10), 2))

    return {
        "tuple": run(lambda value: (value, 5)),
        "iterator": run(lambda value: (value + i for i in range(2))),
        "set": run(lambda value: {value}),
        "keys": run(lambda value: {value: "a"}),
        "text": run(lambda value: "ab"),
        "nothing": run(lambda value: None),
    }
