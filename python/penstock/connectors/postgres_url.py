"""Parts of a PostgreSQL URL, parsed before a connection is made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_PORT: Final = 65_535


def postgres_settings(
    url: str, parse: Callable[[str], dict[str, Any]], refusal: type[Exception], where: str
) -> dict[str, Any]:
    """Parse a URL or a text with libpq's settings.

    Args:
        url: The URL or text.
        parse: The parser of a package that uses libpq.
        refusal: The parser's exception.
        where: The caller, for the message.

    Raises:
        InvalidProgramError: The text is neither.
    """
    try:
        found = parse(url)
    except refusal as error:
        # The text may contain a password, but not the name of a parameter.
        reason = str(error).strip()
        why = reason if reason.startswith("invalid URI query parameter") else "it is neither"
        raise InvalidProgramError(
            f"{where} takes a URL as postgresql://user@host/database, or libpq's settings: {why}"
        ) from error.with_traceback(None)
    for port in filter(None, str(found.get("port", "")).split(",")):
        if not port.isdecimal() or not 0 < int(port) <= _MOST_PORT:
            raise InvalidProgramError(f"{where}: a port is from 1 to {_MOST_PORT}, got {port!r}")
    return found
