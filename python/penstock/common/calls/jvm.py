"""The errors for calls that only a JVM could serve."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from penstock.errors import JvmOnlyError

if TYPE_CHECKING:
    from collections.abc import Callable


def requires_jvm(what: str, instead: str) -> NoReturn:
    """Reject a call that PyFlink forwards to Java.

    Args:
        what: The name as the user wrote it.
        instead: The replacement in penstock, as a clause.

    Raises:
        JvmOnlyError: Always.
    """
    raise JvmOnlyError(f"{what} needs a JVM, and penstock has none: {instead}")


def refused_function(name: str, instead: str) -> Callable[..., NoReturn]:
    """Create a function that rejects every call.

    Args:
        name: PyFlink's name.
        instead: The replacement in penstock, as a clause.
    """

    def refuse(*args: Any, **kwargs: Any) -> NoReturn:  # noqa: ARG001
        requires_jvm(f"{name}()", instead)

    refuse.__name__ = refuse.__qualname__ = name
    refuse.__doc__ = f"Refused: {instead}."
    return refuse
