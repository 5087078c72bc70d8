"""Values of types unknown to the evaluator, for generated functions."""

from datetime import datetime, timedelta, tzinfo
from decimal import Decimal
from typing import NamedTuple

DAY = datetime(2026, 1, 1)
SECOND = timedelta(seconds=1)
CENT = Decimal("0.01")


class OwnInt(int):
    """A subclass of int with its own operators."""

    def __add__(self, other):
        return OwnInt(int(self) * 2 + other)

    def __repr__(self):
        return f"OwnInt({int(self)})"


class OwnStr(str):
    """A subclass of str with its own operators."""

    __hash__ = str.__hash__

    def __eq__(self, other):
        return str(self).lower() == str(other).lower()

    def __add__(self, other):
        return OwnStr(f"{self!s}-{other}")

    def __repr__(self):
        return f"OwnStr({str(self)!r})"


class Pair(NamedTuple):
    """A tuple that the evaluator does not treat as one."""

    left: object
    right: object


class OwnTuple(tuple):
    """A tuple whose fields are counted from 1."""

    __slots__ = ()

    def __getitem__(self, index):
        return tuple.__getitem__(self, index - 1)


class OwnDict(dict):
    """A dictionary that contains every key."""

    def __missing__(self, key):
        return 77


class OwnZone(tzinfo):
    """A time zone that records its calls."""

    def __init__(self, calls):
        self.calls = calls

    def utcoffset(self, moment):
        self.calls.append("offset")
        return timedelta(hours=1)

    def dst(self, moment):
        return None

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return "OwnZone()"


class OwnTime(datetime):
    """A subclass of datetime with its own operators."""

    def __add__(self, other):
        return "later"

    def __sub__(self, other):
        return 8

    def __lt__(self, other):
        return 5

    __gt__ = __lt__


class OwnDecimal(Decimal):
    """A subclass of Decimal with its own operators."""

    def __add__(self, other):
        return 7

    __radd__ = __mul__ = __lt__ = __add__


class Noted:
    """Records its calls; from then on operators may fail."""

    def __init__(self, calls, number):
        self.calls = calls
        self.number = number

    def _note(self, what, other=None):
        self.calls.append((what, self.number, repr(other)))
        return self.number

    def __add__(self, other):
        return self._note("+", other) + 1

    __radd__ = __mul__ = __rmul__ = __sub__ = __lt__ = __gt__ = __add__

    def __getitem__(self, index):
        return self._note("[]", index)

    def __iter__(self):
        return iter([self._note("iter")])

    def __bool__(self):
        return self._note("bool") > 1

    def __eq__(self, other):
        return self._note("==", other) == other

    def __hash__(self):
        return hash(self.number)

    def __deepcopy__(self, memo):
        return self

    def __repr__(self):
        return f"Noted({self.number})"


class AnyIndex:
    """An object with ``__index__`` that is not an integer."""

    def __index__(self):
        return 1

    def __repr__(self):
        return "AnyIndex()"


def original(case, name):
    """Return the original of a generated function's copy, so that its changes are visible."""
    import sys

    return getattr(sys.modules[case], name)
