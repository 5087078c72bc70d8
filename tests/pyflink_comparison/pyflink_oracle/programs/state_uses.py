"""States as programs use them: counts, lists, maps, sums and expiring values."""

from __future__ import annotations

from typing import Any

from pyflink_oracle.expiring_states import expiring, lived

_ORDERS = (("ann", 5), ("bob", 2), ("ann", 3), ("ann", 9), ("bob", 2), ("cid", 1))


def _keyed(f: Any, data: Any = _ORDERS) -> Any:
    return f.pairs(*data).key_by(lambda v: v[0], f.Types.STRING())


def _process(f: Any, opened: Any, element: Any, data: Any = _ORDERS, out: Any = None) -> Any:
    """Return the output of a keyed function that opens and uses its state by these two."""

    class Use(f.KeyedProcessFunction):
        def open(self, runtime_context):
            opened(self, runtime_context)

        def process_element(self, value, ctx):
            yield from element(self, value, ctx)

    return f.collect(_keyed(f, data).process(Use(), out))


def a_running_count(f):
    def opened(self, context):
        self.n = context.get_state(f.ValueStateDescriptor("n", f.Types.INT()))

    def element(self, value, ctx):
        self.n.update((self.n.value() or 0) + 1)
        yield value[0], self.n.value()

    return _process(f, opened, element)


def alternating_alerts(f):
    """The state is cleared after its use."""

    def opened(self, context):
        self.last = context.get_state(f.ValueStateDescriptor("last", f.Types.INT()))

    def element(self, value, ctx):
        last = self.last.value()
        if last is None:
            self.last.update(value[1])
        else:
            self.last.clear()
            yield f"{value[0]}: {last} -> {value[1]}, then {self.last.value()}"

    return _process(f, opened, element)


def the_last_three(f):
    def opened(self, context):
        self.last = context.get_list_state(f.ListStateDescriptor("last", f.Types.INT()))

    def element(self, value, ctx):
        self.last.add(value[1])
        kept = list(self.last.get())[-2:]
        self.last.update(kept)
        yield value[0], kept

    return _process(f, opened, element)


def lists_that_are_extended_and_emptied(f):
    def opened(self, context):
        self.all = context.get_list_state(f.ListStateDescriptor("all", f.Types.INT()))

    def element(self, value, ctx):
        before = list(self.all.get())
        self.all.add_all([value[1], value[1] * 10])
        if len(before) >= 4:
            self.all.update([])
        yield value[0], before, list(self.all.get())

    return _process(f, opened, element)


def items_of_a_cart(f):
    def opened(self, context):
        kind = f.MapStateDescriptor("cart", f.Types.INT(), f.Types.STRING())
        self.cart = context.get_map_state(kind)

    def element(self, value, ctx):
        name, item = value
        if self.cart.contains(item):
            self.cart.remove(item)
        else:
            self.cart.put(item, f"{name}{item}")
        yield (
            name,
            sorted(self.cart.keys()),
            sorted(self.cart.values()),
            sorted(self.cart.items()),
            self.cart.is_empty(),
            self.cart.get(5),
        )

    return _process(f, opened, element)


def maps_of_lists(f):
    def opened(self, context):
        t = f.Types
        kind = f.MapStateDescriptor("m", t.STRING(), t.LIST(t.INT()))
        self.m = context.get_map_state(kind)

    def element(self, value, ctx):
        key = "odd" if value[1] % 2 else "even"
        found = self.m.get(key) or []
        self.m.put(key, [*found, value[1]])
        yield value[0], dict(self.m.items())

    return _process(f, opened, element)


def maps_that_are_put_and_cleared(f):
    def opened(self, context):
        self.m = context.get_map_state(f.MapStateDescriptor("m", f.Types.INT(), f.Types.INT()))

    def element(self, value, ctx):
        self.m.put_all([(n, n * n) for n in range(value[1])])
        self.m.put(1, 100)
        found = sum(v for _, v in self.m.items())
        if value[1] > 4:
            self.m.clear()
        yield value[0], found, len(list(self.m.keys()))

    return _process(f, opened, element)


def sums_and_means(f):
    class Mean(f.AggregateFunction):
        def create_accumulator(self):
            return 0, 0

        def add(self, value, accumulator):
            return accumulator[0] + value, accumulator[1] + 1

        def get_result(self, accumulator):
            return accumulator[0] / accumulator[1]

        def merge(self, a, b):
            return a[0] + b[0], a[1] + b[1]

    def opened(self, context):
        t = f.Types
        self.sum = context.get_reducing_state(
            f.ReducingStateDescriptor("sum", lambda a, b: a + b, t.INT())
        )
        kind = t.TUPLE([t.INT(), t.INT()])
        self.mean = context.get_aggregating_state(
            f.AggregatingStateDescriptor("mean", Mean(), kind)
        )

    def element(self, value, ctx):
        before = self.sum.get(), self.mean.get()
        self.sum.add(value[1])
        self.mean.add(value[1])
        yield value[0], before, self.sum.get(), self.mean.get()
        if self.sum.get() > 7:
            self.sum.clear()
            self.mean.clear()

    return _process(f, opened, element)


def reducing_states_of_function_objects(f):
    class Longest(f.ReduceFunction):
        def reduce(self, value1, value2):
            return value1 if len(value1) >= len(value2) else value2

    def opened(self, context):
        self.longest = context.get_reducing_state(
            f.ReducingStateDescriptor("longest", Longest(), f.Types.STRING())
        )

    def element(self, value, ctx):
        self.longest.add("x" * value[1])
        yield value[0], self.longest.get()

    return _process(f, opened, element)


def states_of_rows(f):
    def opened(self, context):
        t = f.Types
        kind = t.ROW_NAMED(["name", "total"], [t.STRING(), t.DOUBLE()])
        self.row = context.get_state(f.ValueStateDescriptor("row", kind))

    def element(self, value, ctx):
        row = self.row.value() or f.Row(value[0], 0.0)
        row = f.Row(name=row[0], total=row[1] + value[1])
        self.row.update(row)
        yield self.row.value(), row.total

    return _process(f, opened, element)


def states_of_what_has_no_type_of_its_own(f):
    def opened(self, context):
        kind = f.Types.PICKLED_BYTE_ARRAY()
        self.any = context.get_state(f.ValueStateDescriptor("any", kind))
        self.many = context.get_list_state(f.ListStateDescriptor("many", kind))

    def element(self, value, ctx):
        found = self.any.value() or {"seen": set(), "sum": 0}
        found["seen"].add(value[1])
        found["sum"] += value[1]
        self.any.update(found)
        self.many.add((value[0], {value[1]}))
        yield value[0], sorted(self.any.value()["seen"]), found["sum"], list(self.many.get())

    return _process(f, opened, element)


def states_of_several_types(f):
    """One state of each simple type, written for one element and read at the next one."""

    def opened(self, context):
        t = f.Types
        self.states = {
            name: context.get_state(f.ValueStateDescriptor(name, kind))
            for name, kind in {
                "boolean": t.BOOLEAN(),
                "long": t.LONG(),
                "double": t.DOUBLE(),
                "float": t.FLOAT(),
                "text": t.STRING(),
                "bytes": t.PRIMITIVE_ARRAY(t.BYTE()),
                "tuple": t.TUPLE([t.INT(), t.STRING()]),
                "list": t.LIST(t.DOUBLE()),
                "map": t.MAP(t.STRING(), t.INT()),
            }.items()
        }

    values = {
        "boolean": False,
        "long": 2**40,
        "double": 0.1,
        "float": 0.5,
        "text": "é",
        "bytes": b"\x00\xff",
        "tuple": (1, "x"),
        "list": [1.5],
        "map": {"a": 1},
    }

    def element(self, value, ctx):
        yield [self.states[name].value() for name in values]
        for name, given in values.items():
            self.states[name].update(given)

    return _process(f, opened, element, _ORDERS[:3])


def states_in_functions_of_every_kind(f):
    class Count:
        def open(self, runtime_context):
            self.n = runtime_context.get_state(f.ValueStateDescriptor("n", f.Types.INT()))

        def count(self):
            self.n.update((self.n.value() or 0) + 1)
            return self.n.value()

    class Map(Count, f.MapFunction):
        def map(self, value):
            return value[0], self.count()

    class Filter(Count, f.FilterFunction):
        def filter(self, value):
            return self.count() == 1

    class FlatMap(Count, f.FlatMapFunction):
        def flat_map(self, value):
            yield from range(self.count())

    return {
        "map": f.collect(_keyed(f).map(Map())),
        "filter": f.collect(_keyed(f).filter(Filter())),
        "flat_map": f.collect(_keyed(f).flat_map(FlatMap())),
    }


def distinct_values(f):
    class Distinct(f.FilterFunction):
        def open(self, runtime_context):
            kind = f.MapStateDescriptor("seen", f.Types.INT(), f.Types.BOOLEAN())
            self.seen = runtime_context.get_map_state(kind)

        def filter(self, value):
            if self.seen.contains(value[1]):
                return False
            self.seen.put(value[1], True)
            return True

    return f.collect(_keyed(f).filter(Distinct()))


def a_state_and_its_name_in_two_functions(f):
    """States with one name in two operators are two states."""

    class Sum(f.MapFunction):
        def open(self, runtime_context):
            self.sum = runtime_context.get_state(f.ValueStateDescriptor("sum", f.Types.INT()))

        def map(self, value):
            self.sum.update((self.sum.value() or 0) + value[1])
            return value[0], self.sum.value()

    kind = f.Types.TUPLE([f.Types.STRING(), f.Types.INT()])
    once = _keyed(f).map(Sum(), kind)
    return f.collect(once.key_by(lambda v: v[0]).map(Sum(), kind))


def one_state_by_two_descriptors(f):
    def opened(self, context):
        self.one = context.get_state(f.ValueStateDescriptor("s", f.Types.INT()))
        self.other = context.get_state(f.ValueStateDescriptor("s", f.Types.INT()))

    def element(self, value, ctx):
        self.one.update(value[1])
        yield self.other.value()
        self.other.update(-1)
        yield self.one.value()

    return _process(f, opened, element, _ORDERS[:2])


def states_that_are_not_asked_for_in_open(f):
    class Late(f.KeyedProcessFunction):
        def open(self, runtime_context):
            self.context = runtime_context

        def process_element(self, value, ctx):
            state = self.context.get_state(f.ValueStateDescriptor("n", f.Types.INT()))
            state.update((state.value() or 0) + value[1])
            yield value[0], state.value()

    return f.collect(_keyed(f).process(Late()))


def iterating_over_a_map_twice(f):
    def opened(self, context):
        self.m = context.get_map_state(f.MapStateDescriptor("m", f.Types.INT(), f.Types.INT()))

    def element(self, value, ctx):
        for n in range(3):
            self.m.put(n, n + value[1])
        items = self.m.items()
        first = sorted(items)
        again = sorted(items)
        yield first, again, [key in self.m for key in (0, 9)], self.m[1]

    return _process(f, opened, element, _ORDERS[:2])


def objects_that_are_changed_in_place(f):
    """Without an update of the state: at once, at the key's next element, after others."""
    pickled = f.Types.PICKLED_BYTE_ARRAY()

    class Gathering(f.AggregateFunction):
        def create_accumulator(self):
            return []

        def add(self, value, accumulator):
            accumulator.append(value)
            return accumulator

        def get_result(self, accumulator):
            return accumulator

        def merge(self, one, other):
            return one + other

    def opened(self, context):
        self.box = context.get_state(f.ValueStateDescriptor("box", pickled))
        self.list = context.get_list_state(f.ListStateDescriptor("list", pickled))
        self.map = context.get_map_state(
            f.MapStateDescriptor("map", f.Types.STRING(), f.Types.MAP(f.Types.INT(), f.Types.INT()))
        )
        self.fold = context.get_reducing_state(
            f.ReducingStateDescriptor("fold", lambda a, b: (a.extend(b), a)[1], pickled)
        )
        self.all = context.get_aggregating_state(
            f.AggregatingStateDescriptor("all", Gathering(), pickled)
        )
        self.kept = {}

    def element(self, value, ctx):
        key, number = value
        if self.box.value() is None:
            self.box.update({"n": []})
        self.box.value()["n"].append(number)
        self.kept.setdefault(key, self.box.value())["kept"] = number
        added = [number]
        self.list.add(added)
        added.append("later")
        for found in self.list.get():
            found.append(f"got {number}")
        if not self.map.contains("x"):
            self.map.put("x", {})
        self.map.get("x")[number] = 0
        for pair in self.map.items():
            pair[1][number] += 1
        for found in self.map.values():
            found[number] += 10
        folded = [number]
        self.fold.add(folded)
        folded.append("later")
        self.fold.get().append(f"got {number}")
        gathered = [number]
        self.all.add(gathered)
        gathered.append("later")
        self.all.get().append(f"got {number}")
        yield key, str(self.box.value()), str(list(self.list.get()))
        yield key, str(dict(self.map.items())), str(self.fold.get()) + str(self.all.get())

    return _process(f, opened, element)


def pairs_that_are_removed_by_an_iterator(f):
    def opened(self, context):
        self.map = context.get_map_state(
            f.MapStateDescriptor("map", f.Types.STRING(), f.Types.INT())
        )

    def element(self, value, ctx):
        for iterated in (self.map.items, self.map.keys, self.map.values, lambda: iter(self.map)):
            self.map.put_all((f"k{number}", number) for number in range(value[1]))
            pairs = iterated()
            for position, _ in enumerate(pairs):
                if position % 2:
                    pairs.remove()
            yield value[0], len(list(self.map.keys()))
            pairs = iterated()
            for _ in pairs:
                pairs.remove()
            yield value[0], sorted(self.map.items())

    return _process(f, opened, element)


def maps_that_are_changed_while_they_are_iterated_over(f):
    def opened(self, context):
        self.map = context.get_map_state(
            f.MapStateDescriptor("map", f.Types.STRING(), f.Types.INT())
        )

    def element(self, value, ctx):
        changes = {
            "put": lambda: self.map.put("new", 1),
            "put again": lambda: self.map.put("k1", 1),
            "put all": lambda: self.map.put_all([("new", 1)]),
            "remove": lambda: self.map.remove("k1"),
            "clear": lambda: self.map.clear(),
            "get": lambda: self.map.get("k1"),
            "contains": lambda: self.map.contains("k1"),
            "remove by another": lambda: (other := self.map.keys(), next(other), other.remove()),
        }
        for name, change in changes.items():
            self.map.put_all((f"k{number}", number) for number in range(3))
            pairs = self.map.items()
            next(pairs)
            change()
            for what, use in (("next", next), ("remove", lambda pairs: pairs.remove())):
                try:
                    use(pairs)
                except Exception:
                    yield value[0], f"{name}, {what}: refused"
                else:
                    yield value[0], f"{name}, {what}"
            self.map.clear()

    return _process(f, opened, element, _ORDERS[:2])


def many_keys_of_a_map(f):
    def opened(self, context):
        self.m = context.get_map_state(f.MapStateDescriptor("m", f.Types.INT(), f.Types.LONG()))

    def element(self, value, ctx):
        for n in range(300):
            self.m.put(n, (self.m.get(n) or 0) + n)
        for n in range(0, 300, 3):
            self.m.remove(n)
        yield sum(self.m.values()), len(list(self.m.keys())), self.m.contains(3), self.m.contains(4)

    return _process(f, opened, element, [("a", 1), ("a", 2), ("b", 1)])


def values_that_expire(f):
    return lived(f, expiring(f, lambda b: b), "value")


def lists_whose_elements_expire(f):
    return lived(f, expiring(f, lambda b: b), "list")


def maps_whose_entries_expire(f):
    return lived(f, expiring(f, lambda b: b), "map")


def settings_of_time_to_live(f):
    build = f.StateTtlConfig.new_builder
    seconds = f.Time.seconds
    kinds = f.StateTtlConfig.UpdateType, f.StateTtlConfig.StateVisibility
    configs = {
        "default": build(seconds(1)).build(),
        "read": build(seconds(2)).update_ttl_on_read_and_write().build(),
        "never": build(seconds(3)).never_return_expired().build(),
        "visible": build(seconds(3)).return_expired_if_not_cleaned_up().build(),
        "created": build(seconds(3)).update_ttl_on_create_and_write().build(),
        "disabled": build(seconds(3)).set_update_type(kinds[0].Disabled).build(),
    }
    return {
        name: [
            str(config.get_update_type()),
            str(config.get_state_visibility()),
            config.get_ttl().to_milliseconds(),
            config.is_enabled(),
        ]
        for name, config in configs.items()
    }


def states_of_two_functions_after_each_other(f):
    """The state of the first function decides which values the second one sees."""

    class Delay(f.MapFunction):
        def open(self, runtime_context):
            self.last = runtime_context.get_state(f.ValueStateDescriptor("last", f.Types.INT()))

        def map(self, value):
            last = self.last.value()
            self.last.update(value[1])
            return value[0], last

    delayed = _keyed(f).map(Delay()).filter(lambda v: v[1] is not None)
    return f.collect(delayed.key_by(lambda v: v[0]).reduce(lambda a, b: (a[0], a[1] * 100 + b[1])))


def keys_that_are_rows_and_tuples(f):
    t = f.Types

    def counted(select, kind):
        class Count(f.KeyedProcessFunction):
            def open(self, runtime_context):
                self.n = runtime_context.get_state(f.ValueStateDescriptor("n", t.INT()))

            def process_element(self, value, ctx):
                self.n.update((self.n.value() or 0) + 1)
                yield ctx.get_current_key(), self.n.value()

        return f.collect(f.pairs(*_ORDERS).key_by(select, kind).process(Count()))

    return {
        "tuple": counted(lambda v: (v[0], v[1] % 2), t.TUPLE([t.STRING(), t.INT()])),
        "row": counted(lambda v: f.Row(v[0], v[1] % 2), t.ROW([t.STRING(), t.INT()])),
        "boolean": counted(lambda v: v[1] > 2, t.BOOLEAN()),
        "double": counted(lambda v: v[1] / 2, t.DOUBLE()),
        "untyped": counted(lambda v: (v[0], None), None),
    }
