"""The function behind a callable."""

from __future__ import annotations

import functools
import inspect
from typing import Any


def called_function(function: Any) -> Any:
    """Return what a callable calls, with its annotations; a class as it is.

    Partial functions and decorators that use ``functools.wraps`` call another function, and other
    objects their method ``__call__``.
    """
    called = function
    while isinstance(called, functools.partial):
        called = called.func
    if isinstance(called, type):
        return called
    if not inspect.isroutine(called):
        called = getattr(type(called), "__call__", called)  # noqa: B004
    return inspect.unwrap(called)
