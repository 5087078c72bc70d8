"""Keywords that PyFlink 1 gave to parameters which have other names in PyFlink 2."""

from __future__ import annotations

import functools
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

F = TypeVar("F", bound="Callable[..., Any]")


def former_keywords(**names: str) -> Callable[[F], F]:
    """Return a decorator of a method that also accepts the keywords of PyFlink 1.

    The first use of a former keyword is logged.

    Args:
        names: The parameters by their former names.
    """

    def decorate(method: F) -> F:
        @functools.wraps(method)
        def renaming(*args: Any, **given: Any) -> Any:
            for former in names.keys() & given.keys():
                present = names[former]
                if present in given:
                    raise TypeError(f"{method.__name__}() got {former} and {present}, its new name")
                import_module("penstock.flink_1").say_once(
                    f"{method.__name__}({former}=…)", f"write {present}=…"
                )
                given[present] = given.pop(former)
            return method(*args, **given)

        return renaming  # type: ignore[return-value]

    return decorate
