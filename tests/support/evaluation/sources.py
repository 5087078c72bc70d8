"""A writer of random functions, most of which only compute."""

#: By family, literals for the functions that read fields of that family.
FAMILIES = {
    "int": ["0", "1", "7", "-3", "12", "2**62", "-(2**63)", "2**63 - 1", "2**64", "True"],
    "float": ["0.0", "-0.0", "1.5", "-2.25", "float('nan')", "float('inf')", "1e300", "3", "0.1"],
    "str": ["''", "'a'", "'abc'", "'ß'", "'%s'", "'12'", "'x' * 9"],
    "pair": ["(1, 2)", "(2, 1)", "(0, 0)", "(-4, 2**62)", "(2**70, 3)", "(True, 5)", "(1.5, -0.0)"],
    "word": ["('a', 1)", "('b', 2)", "('', 0)", "('long word', -7)", "('a', 2**63)"],
    "nested": ["((1, 2), 'x')", "((0, -1), 'yz')", "((2**62, 2**62), '')"],
    "list": ["[1, 2]", "[0, -5]", "[2**62, 1]", "[3, 4, 5]"],
    "dict": ["{'a': 1, 's': 'x'}", "{'a': -2, 's': ''}", "{'a': 2**64, 's': 'yy', 1: 2}"],
    "sale": [
        "(DAY, CENT)", "(datetime(9999, 12, 31), Decimal('1E+40'))", "(DAY + SECOND, 3)",
        "(datetime(2026, 1, 1, tzinfo=timezone.utc), Decimal('-0'))", "(DAY, Decimal('NaN'))",
        "(datetime(2026, 1, 1, tzinfo=OwnZone(calls)), CENT)", "(OwnTime(2026, 1, 1), CENT)",
        "(DAY, OwnDecimal('2.5'))", "(date(2026, 1, 1), 7)", "(time(3, 4, 5), Decimal('sNaN'))",
        "(time(3, tzinfo=OwnZone(calls)), 1.5)", "(-SECOND, Decimal(2) ** 70)",
    ],
}  # fmt: skip
#: Values of types that a program was not written for, but may receive.
STRANGE = [
    "None", "()", "(1,)", "(1, 2, 3)", "[]", "{}", "b'ab'", "True", "False", "1", "'a'", "(1, 'a')",
    "2.5", "1j", "OwnInt(4)", "OwnStr('A')", "Pair(1, 2)", "Pair('a', 3)", "OwnTuple((1, 2))",
    "OwnDict(a=3)", "Noted(calls, 3)", "(Noted(calls, 1), 2)", "[Noted(calls, 1), 'a']",
    "{'a': Noted(calls, 2), 's': 's'}", "{OwnStr('a'): 5, 's': 'a'}", "frozenset((1, 2))",
    "((True, None), 'x')", "(float('nan'), float('nan'))", "AnyIndex()", "(AnyIndex(), 1)",
    "{1: 2, 2**62: 3}", "range(3)", "CENT", "SECOND",
    "(DAY, CENT)", "...", "NotImplemented", "(1, [2])",
]  # fmt: skip
#: By family, numbers and strings that are read from fields of ``v``.
_NUMBERS = {
    "int": ["{v}"],
    "float": ["{v}"],
    "str": ["({v} == 'a')", "({v} < 'b')"],
    "pair": ["{v}[0]", "{v}[1]", "{v}[-1]"],
    "word": ["{v}[1]"],
    "nested": ["{v}[0][0]", "{v}[0][1]", "{v}[-2][-1]"],
    "list": ["{v}[0]", "{v}[1]", "{v}[-1]"],
    "dict": ["{v}['a']"],
    "sale": ["{v}[1]", "({v}[1] + CENT)", "({v}[0] < DAY)", "({v}[0] - DAY)"],
}
_STRINGS = {
    "str": ["{v}", "{v}", "{v}[0]"],
    "word": ["{v}[0]"],
    "nested": ["{v}[1]"],
    "dict": ["{v}['s']"],
}
_MADE = {
    "int": "{n}",
    "float": "{n} / 2",
    "str": "{s}",
    "pair": "({n}, {m})",
    "word": "({s}, {n})",
    "nested": "(({n}, {m}), {s})",
    "list": "[{n}, {m}]",
    "dict": "{{'a': {n}, 's': {s}}}",
    "sale": "(DAY + {n} * SECOND, CENT * {m})",
}
_CONSTANTS = [
    "0",
    "1",
    "2",
    "3",
    "-1",
    "7",
    "10",
    "True",
    "1.5",
    "-0.0",
    "2**62",
    "10**18",
    "2**64",
]
_DEFAULTS = [*_CONSTANTS * 3, "'d'", "None", "(4, 5)", "[6, 7]", "{'a': 8}", "G", "float('nan')"]
_SMALL = ["0", "1", "2", "3", "-1", "True", "1.5", "2**62", "-(2**63)"]
#: Values at which integers get longer, in CPython and in C.  No factors: strings are repeated by
#: these.
_BOUNDARIES = ["2**30", "2**31", "2**32", "2**60", "2**63", "2**64", "(2**30 - 1)", "(2**60 - 1)"]
_DIVISIONS = ["//", "%", "/"]
_DIVISORS = ["3", "-7", "2**62"]
_COMPARISONS = ["<", "<=", "==", "!=", ">", ">="]

#: Places of a function: the class around its method, the method, its number of arguments.
PLACES = {
    "map": ("MapFunction", "map", 1),
    "filter": ("FilterFunction", "filter", 1),
    "flat_map": ("FlatMapFunction", "flat_map", 1),
    "key": ("KeySelector", "get_key", 1),
    "reduce": ("ReduceFunction", "reduce", 2),
    "add": ("object", "add", 2),
    "timestamp": ("TimestampAssigner", "extract_timestamp", 2),
    "partition": ("Partitioner", "partition", 2),
}


class Expressions:
    """Random expressions over some variables.

    ``names`` are further numbers: globals, closures, defaults, local variables.
    """

    def __init__(self, random, variables, names):
        self.random = random
        self.variables = variables  # (name, family)
        self.names = list(names)

    def _leaf(self, table):
        leaves = [
            leaf.format(v=name) for name, family in self.variables for leaf in table.get(family, ())
        ]
        return self.random.choice(leaves) if leaves else None

    def number(self, depth):
        random, n = self.random, lambda: self.number(depth - 1)
        if depth <= 0 or random.random() < 0.2:
            chosen = random.random()
            leaf = self._leaf(_NUMBERS)
            if leaf is not None and chosen < 0.6:
                return leaf
            if self.names and chosen < 0.8:
                return random.choice(self.names)
            return random.choice(_CONSTANTS)
        forms = [
            lambda: f"({n()} {random.choice('+-')} {n()})",
            lambda: f"({n()} {random.choice('+-')} {n()})",
            lambda: f"({n()} * {random.choice(_SMALL)})",
            lambda: f"({self.number(0)} * ({self.number(0)} % 5))",
            lambda: f"({self._leaf(_NUMBERS)} * {self._leaf(_NUMBERS)})",
            lambda: f"({n()} {random.choice(_DIVISIONS)} {random.choice([*_DIVISORS, n()])})",
            lambda: f"({n()} {random.choice('&|^')} {n()})",
            lambda: f"({n()} {random.choice('+-')} {random.choice(_BOUNDARIES)})",
            lambda: f"({self.number(0)} >> {self.number(0)})",
            lambda: f"({self.number(0)} << {random.choice(['0', '3', '64', '-1', 'True', 'G'])})",
            lambda: f"({n()} {random.choice(['<< 1', '<< 70', '>> 2', '>> 64'])})",
            lambda: f"({n()} ** {random.choice(['2', '2', '3', '0', '-1', '0.5'])})",
            lambda: f"({random.choice('--~+')}{n()})",
            lambda: f"({n()} if {self.truth(depth - 1)} else {n()})",
            lambda: f"({n()} {random.choice(['and', 'or'])} {n()})",
            lambda: f"({n()}, {n()})[{random.choice(['0', '1', '-1', self.truth(0)])}]",
            lambda: self.truth(depth - 1),
        ]
        called = [
            lambda: f"abs({n()})",
            lambda: f"max({n()}, {n()})",
            lambda: f"len({self.string(depth - 1)})",
            lambda: f"sum([{self.number(0)} for _ in range(2)])",
            lambda: f"({n()}).real",
            lambda: f"(lambda q: q + {n()})({n()})",
            lambda: f"(w := {n()})",
        ]
        return random.choice(called if random.random() < 0.04 else forms)()

    def string(self, depth):
        random, s = self.random, lambda: self.string(depth - 1)
        leaf = self._leaf(_STRINGS)
        if depth <= 0 or random.random() < 0.3:
            return leaf if leaf is not None and random.random() < 0.8 else "'lit'"
        forms = [
            lambda: f"({s()} + {s()})",
            lambda: f"({leaf or repr('u')} * {random.choice(['0', '2', '3', '-1', '2**62'])})",
            lambda: f"('<%s>' % {self.number(depth - 1)})",
            lambda: f"('%s' % {s()})",
            lambda: f"({s()} if {self.truth(depth - 1)} else {s()})",
            lambda: f"({s()} or {s()})",
        ]
        called = [
            lambda: f'f"{{{self.number(0)}}}-{{{leaf or 1}!r:>5}}"',
            lambda: f"{s()}.upper()",
            lambda: f"{s()}[1:]",
            lambda: f"{s()}[::-1]",
            lambda: f"{s()}.replace('a', 'bb')",
            lambda: f"str({self.number(depth - 1)})",
        ]
        return random.choice(called if random.random() < 0.06 else forms)()

    def truth(self, depth):
        random, n = self.random, lambda: self.number(depth - 1)
        compare = lambda: random.choice(_COMPARISONS)  # noqa: E731
        if depth <= 0:
            return f"({self.number(0)} {compare()} {random.choice(_CONSTANTS)})"
        v = random.choice(self.variables)[0]
        forms = [
            lambda: f"({n()} {compare()} {n()})",
            lambda: f"({n()} {compare()} {n()} {compare()} {n()})",
            lambda: f"(not {n()})",
            lambda: f"(not not {n()})",
            lambda: f"({self.truth(depth - 1)} {random.choice(['and', 'or'])} {self.truth(0)})",
            lambda: f"({n()} {random.choice(['in', 'not in'])} (1, 2.5, 'a', None, {n()}))",
            lambda: f"({n()} in (0, 1, 2**62))",
            lambda: f"({self.string(0)} {random.choice(['in', 'not in'])} {self.string(0)})",
            lambda: f"({self.string(0)} {compare()} {self.string(depth - 1)})",
            lambda: f"({v} {random.choice(['is', 'is not'])} None)",
            lambda: f"({v} is {v})",
            lambda: f"({v} {compare()} {v})",
            lambda: f"({v} in {{1, 2}})",
        ]
        called = [
            lambda: f"isinstance({v}, (int, str))",
            lambda: f"bool({n()})",
            lambda: f"any(q > 0 for q in ({self.number(0)}, {self.number(0)}))",
        ]
        return random.choice(called if random.random() < 0.04 else forms)()

    def made(self, family, depth):
        """Return an expression with the shape of a family."""
        numbers = {"n": self.number(depth), "m": self.number(depth - 1)}
        return _MADE[family].format(**numbers, s=self.string(depth - 1))


class FunctionWriter:
    """Writes one function after the other into the body of ``make()``."""

    def __init__(self, random):
        self.random = random
        self.lines = []
        self.changes = []
        self.count = 0

    def function(self, place, families, made):
        """Add a function; return the expression that names it.

        Args:
            place: One of ``PLACES``.
            families: The families of the arguments.
            made: The family of the result; None for a truth value, a key, a timestamp or a
            channel.
        """
        random = self.random
        self.count += 1
        name = f"f{self.count}"
        parameters = ["x", "y"][: len(families)]
        names = ["G", "c"] if random.random() < 0.5 else []
        names += ["missing"] if random.random() < 0.01 else []
        names += random.choices(["len", "max"], k=1) if random.random() < 0.03 else []
        signature, more = self._signature(parameters)
        expressions = Expressions(
            random, list(zip(parameters, families, strict=True)), [*names, *more]
        )
        wrapper = random.choice(
            ["lambda"] * 8 + ["def"] * 8 + ["method"] * 3 + ["object"] * 3
            + ["static", "class", "partial", "cache", "wraps", "callable", "idiom", "many"]
        )  # fmt: skip
        is_lambda = wrapper in ("lambda", "idiom", "many")
        if wrapper in ("method", "object", "callable") and random.random() < 0.4:
            expressions.names.append("self.factor")
        body = self._body(expressions, place, made, is_lambda)
        self._wrap(wrapper, name, place, signature, body)
        self._changes(name, wrapper, len(more))
        return name

    def _signature(self, parameters):
        random, head = self.random, ", ".join(parameters)
        default = lambda: random.choice(_DEFAULTS)  # noqa: E731
        forms = [
            (f"{head}", []),
            (f"{head}", []),
            (f"{head}, k={default()}", ["k"]),
            (f"{head}, k={default()}", ["k"]),
            (f"{head}, k={default()}, j={default()}", ["k", "j", "k"]),
            (f"{head}, *, k={default()}", ["k"]),
            (f"{head}, k={default()}, *, j={default()}", ["k", "j"]),
            (f"{head}, /, k={default()}", ["k"]),
            (f"{head}, *rest", []),
            (f"{head}, k={default()}, **rest", ["k"]),
            (f"{head}, seen=[1, 2]", ["seen[0]", "seen[-1]"]),
            (f"{head}, seen={{'a': 3}}", ["seen['a']"]),
        ]
        if random.random() < 0.03:
            # Called without a keyword; other wrong parameters are rejected when a program is built.
            forms = [(f"{head}, *, k", ["k"])]
        return random.choice(forms)

    def _body(self, expressions, place, made, is_lambda):
        random = self.random
        depth = random.choice([1, 2, 2, 3])

        def value():
            if place == "filter":
                kind = random.random()
                return expressions.truth(depth) if kind < 0.7 else expressions.number(depth)
            if place == "flat_map":
                return self._many(expressions, made, depth)
            if place == "key":
                shape = random.choice(["int", "str", "pair", "word"])
                return expressions.made(shape, depth - 1)
            if place in ("timestamp", "partition"):
                sign = "" if random.random() < 0.95 else "-"
                return f"({sign}({expressions.number(depth - 1)}) % 4)"
            return expressions.made(made, depth)

        if is_lambda:
            return value()
        lines = []
        if random.random() < 0.5:
            lines += self._statements(expressions, depth)
        if place == "flat_map" and random.random() < 0.4:
            lines += [f"yield {expressions.made(made, depth)}", "change(-1)"]
            lines += [f"yield {expressions.made(made, depth)}"]
            return lines
        if random.random() < 0.2:
            lines += [f"if {expressions.truth(depth)}:", f"    return {value()}"]
        return [*lines, f"return {value()}"]

    def _many(self, expressions, made, depth):
        one, other = expressions.made(made, depth), expressions.made(made, 1)
        forms = [f"[{one}]", f"[{one}, {other}]", f"({one}, {other})", "()", f"[{one}] * 3"]
        forms += [f"({one} for _ in range(2))", one]
        return self.random.choices(forms, weights=[4, 4, 2, 1, 2, 1, 1])[0]

    def _statements(self, expressions, depth):
        random, n = self.random, lambda: expressions.number(depth - 1)
        v = random.choice(expressions.variables)[0]
        forms = [
            (["z = " + n()], ["z"]),
            ([f"z = {n()}", f"z {random.choice('+-')}= {n()}"], ["z"]),
            ([f"z, q = {n()}, {n()}", "z, q = q, z"], ["z", "q"]),
            ([f"z, q = {v}"], ["z", "q"]),
            (
                [f"if {expressions.truth(depth)}:", f"    z = {n()}", "else:", f"    z = {n()}"],
                ["z"],
            ),
            ([f"z = {n()}", f"if {expressions.truth(depth)}:", f"    z = {n()}"], ["z"]),
            ([f"if {expressions.truth(depth)}:", f"    z = {n()}"], ["z"]),
            ([f"z = {n()}", f"z = z and {n()}"], ["z"]),
            (["pass"], []),
            (["calls.append(1)"], []),
            (["global G", "G = G + 1"], []),
            ([f"assert {expressions.truth(depth)}, 'no'"], []),
            (["z = 0", "for q in (1, 2):", f"    z = z + {n()}"], ["z"]),
            (["try:", f"    z = {n()}", "except TypeError:", "    z = 5"], ["z"]),
            (["import math", f"z = math.floor({n()})"], ["z"]),
        ]
        weights = [3, 3, 2, 2, 2, 2, 1, 2, 1, 1, 1, 1, 1, 1, 1]
        lines, names = random.choices(forms, weights=weights)[0]
        expressions.names += names * 2
        return lines

    def _wrap(self, wrapper, name, place, signature, body):
        base, method, _ = PLACES[place]
        lines = self.lines
        if wrapper == "lambda":
            lines.append(f"{name} = lambda {signature}: {body}")
        elif wrapper == "idiom":
            with_name = f"{signature}, i=i" if "*" not in signature and signature else signature
            lines.append(f"{name} = [lambda {with_name}: {body} for i in (4, 2, 9)][1]")
        elif wrapper == "many":
            lines.append(f"{name} = [lambda {signature}: ({body}) for c in (4, 2, 9)][0]")
        elif wrapper in ("def", "partial", "cache", "wraps"):
            lines += {"cache": ["@functools.lru_cache"], "wraps": ["@wrapped"]}.get(wrapper, [])
            lines += [f"def {name}({signature}):", *("    " + line for line in body)]
            if wrapper == "partial":
                lines.append(f"{name} = functools.partial({name})")
        else:
            called = "__call__" if wrapper == "callable" else method
            own = wrapper in ("method", "object", "callable")
            first = {"static": [], "class": ["cls"]}.get(wrapper, ["self"])
            listed = ", ".join([*first, signature]).removesuffix(", ")
            bases = base if wrapper == "object" else "object"
            lines += [f"class C{name}({bases}):", "    factor = 3"]
            kept = f"{name}_object" if not own or wrapper == "method" else name
            lines += [f"    __reduce__ = lambda self: (original, (__name__, {kept!r}))"]
            lines += [f"    @{wrapper}method"] if wrapper in ("static", "class") else []
            lines += [f"    def {called}({listed}):", *("        " + line for line in body)]
            lines += [f"C{name}.__qualname__ = 'C{name}'", f"globals()['C{name}'] = C{name}"]
            lines.append(f"named(C{name}.__dict__[{called!r}], '{name}_method')")
            lines.append(f"{name} = C{name}()")
            if not own or wrapper == "method":
                lines += [f"globals()[{name + '_object'!r}] = {name}", f"{name} = {name}.{method}"]
        lines.append(f"named({name}, {name!r})")

    def _changes(self, name, wrapper, defaults):
        random = self.random
        value = lambda: random.choice(_DEFAULTS)  # noqa: E731
        new = f"({', '.join(value() for _ in range(max(1, defaults)))},)"
        forms = [
            [f"c = {value()}"],
            [f"G = {value()}"],
            ["globals().pop('G', None)"],
            ["globals()['len'] = 4"],
            ["globals()['max'] = lambda *numbers: 3", "globals().pop('len', None)"],
            [f"plain({name}).__defaults__ = {new}"],
            [f"plain({name}).__defaults__ = None"],
            [f"plain({name}).__kwdefaults__ = {{'k': {value()}, 'j': 1}}"],
            [f"plain({name}).__code__ = (lambda x, y=1, k=2: (k, c, x)).__code__"],
            [f"plain({name}).__code__ = (lambda x, y=1, k=2: (k, x)).__code__"],
            [f"touch(plain({name}).__defaults__)"],
            [f"{name}.factor = {value()}"],
        ]
        if random.random() < 0.5:
            self.changes += random.choices(forms, weights=[4, 4, 1, 1, 1, 2, 1, 1, 1, 1, 3, 2])[0]


#: Names that every case uses.
_SURROUNDINGS = """\
import functools
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from support.evaluation.values import *
calls = []
G = 5
steps = 0
def wrapped(function):
    @functools.wraps(function)
    def around(*arguments, **named):
        return function(*arguments, **named)
    return around
def named(function, name):
    # By a name of this module, a function is shipped as itself and not as a copy.
    if isinstance(function, (staticmethod, classmethod)):
        function = function.__func__
    globals()[name] = function
    if isinstance(function, functools.partial):
        named(function.func, name + "_called")
    elif hasattr(function, "__qualname__") and not hasattr(function, "__self__"):
        function.__qualname__ = name
def plain(function):
    for name in ("__func__", "func", "__wrapped__"):
        function = getattr(function, name, function)
    return function
def touch(defaults):
    for value in defaults or ():
        if isinstance(value, list):
            value[0] = value[0] + 1
            value.append(9)
        elif isinstance(value, dict):
            value['a'] = 10
"""

PRELUDE = (
    """\
from penstock.datastream.functions import *
from penstock.common.watermark_strategy import TimestampAssigner
"""
    + _SURROUNDINGS
)

#: The same names without penstock.
STAND_INS = (
    """\
class MapFunction: pass
FilterFunction = FlatMapFunction = KeySelector = ReduceFunction = MapFunction
TimestampAssigner = Partitioner = MapFunction
"""
    + _SURROUNDINGS
)


class Case:
    """Generated functions, as the text of a module that has ``stages`` and ``change``.

    ``change(step)`` is called before each element and changes the surroundings at some of them; a
    generator calls it with -1 between two elements.
    """

    def __init__(self, random):
        self.random = random
        self.writer = FunctionWriter(random)
        self.stages = []  # (place, name)
        self.arguments = []

    def add(self, place, families, made=None):
        self.stages.append((place, self.writer.function(place, families, made)))

    def values(self, family, count):
        """Return literals, most of them of one family."""
        pick = self.random.choice
        return [
            pick(STRANGE) if self.random.random() < 0.1 else pick(FAMILIES[family])
            for _ in range(count)
        ]

    def text(self):
        lines = ["def make():", "    c = 5"]
        lines += ["    " + line for line in self.writer.lines]
        lines += ["    def change(step):", "        nonlocal c", "        global G, steps"]
        lines += ["        steps += 1"]
        for line in self.writer.changes:
            step = self.random.randrange(1, 12)
            lines += [f"        if steps == {step}:", "            try:"]
            lines += [f"                {line}", "            except Exception: pass"]
        names = ", ".join(name for _, name in self.stages)
        lines += [f"    return [{names}], change", "stages, change = make()"]
        return "\n".join(lines) + "\n"
