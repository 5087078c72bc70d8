"""Functions and classes of programs as bytes."""

import pickle
import traceback
from collections.abc import Callable
from types import CodeType

import cloudpickle
import pytest
from penstock.serialization import code_pickle
from penstock.serialization.code_pickle import CodePickler, dumps


def _without_file(code: CodeType) -> tuple[object, ...]:
    """As cloudpickle reduces code from 3.1.3 on."""
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
    """Also of the functions within a function."""
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
