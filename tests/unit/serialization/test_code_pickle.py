"""Functions and classes of programs as bytes."""

import pickle
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from types import CodeType

import cloudpickle
import pytest
from penstock.serialization import code_pickle
from penstock.serialization.code_pickle import CodePickler, dumps


def _without_file(code: CodeType) -> tuple[object, ...]:
    """Reduce code as cloudpickle does from 3.1.3 on."""
    make, parts = cloudpickle.Pickler.dispatch_table[CodeType](code)
    return make, tuple("<dynamic-code>" if part == code.co_filename else part for part in parts)


def _divides() -> Callable[[int], float]:
    return lambda number: sum(1 / one for one in (number,))


@pytest.fixture(params=["as installed", "without files"])
def any_cloudpickle(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "without files":
        monkeypatch.setattr(code_pickle, "_TABLE", {CodeType: _without_file})


@pytest.mark.usefixtures("any_cloudpickle")
def test_tracebacks_of_shipped_functions_show_their_lines() -> None:
    """Also for functions within a function."""
    shipped = pickle.loads(dumps(_divides()))
    with pytest.raises(ZeroDivisionError) as raised:
        shipped(0)
    shown = traceback.format_exception(raised.value)
    assert any("1 / one for one in" in line for line in shown)
    assert __file__ in "".join(shown)


def test_equal_functions_have_equal_bytes() -> None:
    assert dumps(_divides()) == dumps(_divides())


def test_other_types_are_cloudpickles() -> None:
    reduced = {kind for kind in CodePickler.dispatch_table if kind is not CodeType}
    assert reduced == {kind for kind in cloudpickle.Pickler.dispatch_table if kind is not CodeType}


class _Hidden:
    __slots__ = ("__hidden", "__weakref__", "seen")

    def __init__(self) -> None:
        self.__hidden = 1
        self.seen = 2

    def hidden(self) -> int:
        return self.__hidden


class _Derived(_Hidden):
    __slots__ = "last"

    def __init__(self) -> None:
        super().__init__()
        self.last = 3


@pytest.fixture
def own_classes() -> Iterator[None]:
    """Treat the classes above as a program's own, unknown where they are read."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.process
@pytest.mark.usefixtures("own_classes")
def test_classes_keep_their_slots() -> None:
    # Another process: this one would find the classes that it pickled.
    asks = (
        "import pickle, sys, weakref\n"
        "one = pickle.load(sys.stdin.buffer)\n"
        "weakref.ref(one)\n"
        "print(one.hidden(), one.seen, one.last, hasattr(one, '__dict__'), one.__getstate__()[0])"
    )
    asked = subprocess.run(
        [sys.executable, "-c", asks], input=dumps(_Derived()), capture_output=True, check=True
    )
    assert asked.stdout.split() == b"1 2 3 False None".split()
