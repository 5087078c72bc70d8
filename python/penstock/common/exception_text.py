"""Text of exceptions whose classes may misbehave.

The class of an exception may be the user's.  Its text, its name and its attributes may raise, even
``SystemExit``; it may reject changes, as a frozen dataclass does; and its text may contain lone
surrogates, which no encoding has.  Reports must not depend on that.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

MAX_TEXT_CHARACTERS: Final = 16 * 1024
"""Limit of an exception's text, which may contain the record that caused it."""
MAX_NAME_CHARACTERS: Final = 1024
"""Limit of the name of an exception's class, which programs may create."""

NO_TEXT: Final = "<the exception's class did not return its text in time: see its __str__>"
"""Stands for the text of an exception whose ``__str__`` does not return."""


def encodable(text: str, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """Escape the characters that UTF-8 cannot encode, and cut the text to ``limit`` characters."""
    return text[:limit].encode("utf-8", "backslashreplace").decode()[:limit]


def name_of(error: BaseException) -> tuple[str, str]:
    """Return the module and the qualified name of an exception's class."""
    kind = type(error)
    module = _attribute(kind, "__module__")
    qualname = _attribute(kind, "__qualname__")
    return (
        encodable(module, MAX_NAME_CHARACTERS) if isinstance(module, str) else "builtins",
        encodable(qualname, MAX_NAME_CHARACTERS) if isinstance(qualname, str) else "Exception",
    )


def text_of(error: BaseException, limit: int = MAX_TEXT_CHARACTERS) -> str:
    """Return the text of an exception, at most ``limit`` characters of it."""
    try:
        return encodable(str(error), limit)
    except BaseException as nested:
        return f"<the exception's __str__ raised {name_of(nested)[1]}>"


def described(error: BaseException) -> str:
    """Return the class and the text of an exception."""
    return f"{name_of(error)[1]}: {text_of(error)}"


def repr_of(
    value: object, limit: int = MAX_TEXT_CHARACTERS, tell: Callable[[object], str] = repr
) -> str:
    """Return ``tell(value)``, or its class if that raises."""
    try:
        return encodable(tell(value), limit)
    except BaseException as error:
        return f"<{type(value).__name__}: {name_of(error)[1]} in its __repr__>"


def attach(error: BaseException, name: str, value: object) -> None:
    """Set an attribute of an exception, even if its class rejects that."""
    BaseException.__getattribute__(error, "__dict__")[name] = value


def attached(error: BaseException, name: str) -> Any:
    """Return the value set by `attach`; None if nothing is set."""
    return BaseException.__getattribute__(error, "__dict__").get(name)


def caused_by(error: BaseException, cause: BaseException) -> None:
    """Set the cause of an exception, even if its class rejects that."""
    BaseException.__dict__["__cause__"].__set__(error, cause)


def annotate(error: BaseException, note: str) -> None:
    """Add a note to an exception, even if its class rejects that."""
    notes = attached(error, "__notes__")
    attach(error, "__notes__", [*notes, note] if isinstance(notes, list) else [note])


def _attribute(kind: type, name: str) -> object:
    # A class with a metaclass may compute, or withhold, even its name.
    with contextlib.suppress(BaseException):
        return getattr(kind, name)
    return None
