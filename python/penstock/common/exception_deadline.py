"""Text of exceptions and values, with a deadline: a user's ``__str__`` may never return.

Without the deadline, such a method would block the thread that reports a failure, and so the job.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from penstock.common.exception_text import (
    MAX_NAME_CHARACTERS,
    MAX_TEXT_CHARACTERS,
    NO_TEXT,
    described,
    encodable,
    repr_of,
    text_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

DESCRIPTION_TIME_S = 10.0
"""Total time for the methods of a class, such as ``__str__``."""


def ask_in_time(ask: Callable[[], None]) -> None:
    """Run a function that calls methods of a user's class; wait at most `DESCRIPTION_TIME_S`."""
    # A daemon: the thread is lost if the class's code never returns.
    thread = threading.Thread(target=ask, name="exception text", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the process can start no thread any more
        ask()
    else:
        thread.join(DESCRIPTION_TIME_S)


def described_in_time(error: BaseException) -> str:
    """Return the class and the text of an exception; takes at most `DESCRIPTION_TIME_S`."""
    text = _told_in_time(error, described)
    return f"{own_name_of(error)[1]}: {NO_TEXT}" if text is None else text


def text_in_time(error: BaseException) -> str:
    """Return the text of an exception; takes at most `DESCRIPTION_TIME_S`."""
    text = _told_in_time(error, text_of)
    return NO_TEXT if text is None else text


def repr_in_time(
    value: object, limit: int = MAX_TEXT_CHARACTERS, tell: Callable[[object], str] = repr
) -> str:
    """Return ``tell(value)``, or after `DESCRIPTION_TIME_S` a text that names the class.

    Args:
        value: Any value.
        limit: The most characters of the text.
        tell: ``repr``, or a function that calls it for the parts of a value.
    """
    if any(type(value) is kind for kind in _PLAIN_VALUES):
        return repr_of(value, limit, tell)
    text = told_in_time(value, lambda value: repr_of(value, limit, tell))
    return f"<{_name_of_class(value)}: its __repr__ does not return>" if text is None else text


def told_in_time(value: T, tell: Callable[[T], str]) -> str | None:
    """Return what ``tell`` returns for a value; None if it does not return in time."""
    texts: list[str] = []
    ask_in_time(lambda: texts.append(tell(value)))
    return texts[0] if texts else None


def _told_in_time(error: BaseException, tell: Callable[[BaseException], str]) -> str | None:
    """Return what ``tell`` returns; None if it does not return in time."""
    return tell(error) if _is_plain(error) else told_in_time(error, tell)


def own_name_of(error: BaseException) -> tuple[str, str]:
    """Return module and name of the class without running its code: the metaclass may have some."""
    kind = type(error)
    module = type.__dict__["__module__"].__get__(kind)
    return (
        encodable(module, MAX_NAME_CHARACTERS) if isinstance(module, str) else "builtins",
        _name_of_class(error),
    )


def _name_of_class(value: object) -> str:
    return encodable(type.__dict__["__qualname__"].__get__(type(value)), MAX_NAME_CHARACTERS)


def _is_plain(error: BaseException) -> bool:
    """Return whether the text needs no user code: a builtin exception of a single string."""
    args = BaseException.__dict__["args"].__get__(error)
    # By identity: a metaclass of the user's may have its own __hash__ and __eq__.
    is_known = any(type(error) is kind for kind in _PLAIN)
    return is_known and len(args) == 1 and type(args[0]) is str


_PLAIN = (
    AttributeError,
    ImportError,
    NotImplementedError,
    OverflowError,
    RecursionError,
    RuntimeError,
    TypeError,
    ValueError,
)

_PLAIN_VALUES = (type(None), bool, int, float, str, bytes)
