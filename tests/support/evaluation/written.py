"""A writer of random expressions, each with its equivalent in plain Python."""

from penstock.common.typeinfo import Types
from penstock.common.types import Row
from penstock.expressions import (
    argument,
    as_list,
    as_tuple,
    coalesce,
    element,
    field,
    greatest,
    least,
    lit,
    when,
)

ROW_TYPE = Types.ROW_NAMED(
    ["user", "price", "n", "tag", "ok"],
    [Types.STRING(), Types.DOUBLE(), Types.LONG(), Types.STRING(), Types.BOOLEAN()],
)
TUPLE_TYPE = Types.TUPLE(
    [Types.STRING(), Types.DOUBLE(), Types.LONG(), Types.STRING(), Types.BOOLEAN()]
)
NAMES = ("user", "price", "n", "tag", "ok")

#: By shape of elements: their type, a field's expression, and its Python equivalent.
SHAPES = {
    "row": (ROW_TYPE, field, lambda name: f"x[{name!r}]"),
    "tuple": (
        TUPLE_TYPE,
        lambda name, *t: field(NAMES.index(name), *t),
        lambda n: f"x[{NAMES.index(n)}]",
    ),
    "named": (
        TUPLE_TYPE,
        lambda n, *t: field(f"f{NAMES.index(n)}", *t),
        lambda n: f"x[{NAMES.index(n)}]",
    ),
    "dict": (None, field, lambda name: f"x[{name!r}]"),
    "untyped row": (None, field, lambda name: f"x[{name!r}]"),
    "list": (
        None,
        lambda n, *t: element.field(NAMES.index(n), *t),
        lambda n: f"x[{NAMES.index(n)}]",
    ),
}

VALUES = {
    "user": ["", "Ann", "bOB ", "ß", "a,b,c"],
    "price": [0.0, -0.0, 2.5, float("inf"), float("nan"), -1e300],
    "n": [0, 1, -7, 2**31, 2**62, -(2**63), 2**70, 86_399_999, 1_700_000_000_123],
    "tag": [None, "x", "Tag"],
    "ok": [True, False],
}
#: Values that may contradict an element's type.
STRANGE = [None, 3, "text", 2.5, True, b"x", (1, 2), [1]]


def an_element(random, shape):
    values = {
        name: random.choice(STRANGE if random.random() < 0.04 else VALUES[name]) for name in NAMES
    }
    match shape:
        case "tuple" | "named":
            return tuple(values.values())
        case "list":
            return list(values.values())
        case "dict":
            return values
        case "row" if random.random() < 0.2:
            # Rows declare names, and may list them in any order.
            return Row(**dict(reversed(values.items())))
    return Row(**values)


class Written:
    """Random expressions; each method returns an expression and its meaning in Python."""

    def __init__(self, random, shape):
        self.random = random
        _, self.field, self.meant = SHAPES[shape]

    def _field(self, name):
        return self.field(name), self.meant(name)

    def number(self, depth):
        random = self.random
        if depth == 0 or random.random() < 0.2:
            value = random.choice([0, 1, -3, 2.5, 10**18, 2**62])
            return random.choice(
                [self._field("n"), self._field("price"), (lit(value), repr(value))]
            )
        (one, first), (other, second) = self.number(depth - 1), self.number(depth - 1)
        (condition, holds), (text, meant) = self.truth(depth - 1), self.text(depth - 1)
        n, of_n = self.field("n", Types.LONG()), self.meant("n")
        forms = [
            lambda: (one + other, f"({first} + {second})"),
            lambda: (one - 3, f"({first} - 3)"),
            lambda: (2 - one, f"(2 - {first})"),
            lambda: (one * other, f"({first} * {second})"),
            lambda: (one / other, f"({first} / {second})"),
            lambda: (one // 7, f"({first} // 7)"),
            lambda: (one % other, f"({first} % {second})"),
            lambda: (one**2, f"({first} ** 2)"),
            lambda: (-one, f"(-{first})"),
            lambda: (abs(one), f"abs({first})"),
            lambda: (one.round(), f"round({first})"),
            lambda: (one.round(1), f"round({first}, 1)"),
            lambda: (one.floor(), f"math.floor({first})"),
            lambda: (least(one, other), f"min({first}, {second})"),
            lambda: (greatest(one, other, 3), f"max({first}, {second}, 3)"),
            lambda: (
                when(condition).then(one).otherwise(other),
                f"({first} if {holds} else {second})",
            ),
            lambda: (coalesce(one, other), f"({first} if {first} is not None else {second})"),
            lambda: (text.str.length(), f"len({meant})"),
            lambda: (text.str.find("a"), f"str.find({meant}, 'a')"),
            lambda: (condition.cast(Types.INT()), f"int({holds})"),
            lambda: (n.dt.hour(), f"({of_n} // 3600000 % 24)"),
            lambda: (n.dt.weekday(), f"(({of_n} // 86400000 + 3) % 7 + 1)"),
            lambda: (n.dt.millisecond(), f"({of_n} % 1000)"),
        ]
        return random.choice(forms)()

    def text(self, depth):
        random = self.random
        if depth == 0 or random.random() < 0.3:
            return random.choice([self._field("user"), self._field("user"), self._field("tag")])
        (one, first), (other, second) = self.text(depth - 1), self.text(depth - 1)
        condition, holds = self.truth(depth - 1)
        number, value = self.number(depth - 1)
        return random.choice(
            [
                lambda: (one.str.lower(), f"str.lower({first})"),
                lambda: (one.str.upper(), f"str.upper({first})"),
                lambda: (one.str.strip(), f"str.strip({first})"),
                lambda: (one.str.strip("aA"), f"str.strip({first}, 'aA')"),
                lambda: (one.str.replace("n", other), f"str.replace({first}, 'n', {second})"),
                lambda: (one.str.slice(1), f"{first}[1:]"),
                lambda: (one.str.slice(None, 2), f"{first}[:2]"),
                lambda: (one + other, f"({first} + {second})"),
                lambda: ("<" + one, f"('<' + {first})"),
                lambda: (coalesce(one, "none"), f"({first} if {first} is not None else 'none')"),
                lambda: (number.cast(Types.STRING()), f"str({value})"),
                lambda: (
                    when(condition).then(one).when(~condition).then("no").otherwise(None),
                    f"({first} if {holds} else 'no' if not {holds} else None)",
                ),
            ]
        )()

    def truth(self, depth):
        random = self.random
        if depth == 0 or random.random() < 0.2:
            return self._field("ok")
        (one, first), (other, second) = self.truth(depth - 1), self.truth(depth - 1)
        (number, value), (text, meant) = self.number(depth - 1), self.text(depth - 1)
        return random.choice(
            [
                lambda: (one & other, f"(True if {first} and {second} else False)"),
                lambda: (one | other, f"(True if {first} or {second} else False)"),
                lambda: (~one, f"(not {first})"),
                lambda: (number > 3, f"({value} > 3)"),
                lambda: (number <= self.field("n"), f"({value} <= {self.meant('n')})"),
                lambda: (number == 1, f"({value} == 1)"),
                lambda: (number != 2.5, f"({value} != 2.5)"),
                lambda: (
                    number.between(0, 10),
                    f"(True if {value} >= 0 and {value} <= 10 else False)",
                ),
                lambda: (number.is_in([0, 1, 2.5]), f"({value} in (0, 1, 2.5))"),
                lambda: (text == "Ann", f"({meant} == 'Ann')"),
                lambda: (text.is_null(), f"({meant} is None)"),
                lambda: (text.is_not_null(), f"({meant} is not None)"),
                lambda: (text.str.contains("n"), f"('n' in {meant})"),
                lambda: (text.str.starts_with("A"), f"str.startswith({meant}, 'A')"),
                lambda: (text.str.ends_with("b"), f"str.endswith({meant}, 'b')"),
            ]
        )()

    def anything(self, depth):
        random = self.random
        kind = random.choice([self.number, self.text, self.truth])
        (one, first), (other, second) = kind(depth), self.number(depth - 1)
        return random.choice(
            [
                lambda: (one, first),
                lambda: (as_tuple(one, other), f"({first}, {second})"),
                lambda: (as_list(one, 5), f"[{first}, 5]"),
                lambda: (as_tuple(element, argument(0)), "(x, x)"),
            ]
        )()
