"""Names and texts in quotes, as SQL statements have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


def quoted(name: str) -> str:
    """Quote a name."""
    return f"`{name.replace('`', '``')}`"


def dotted(parts: Iterable[str]) -> str:
    """Return the quoted parts of a name, joined by dots."""
    return ".".join(map(quoted, parts))


def escaped(text: str) -> str:
    """Return a text as it stands between the quotes of a literal."""
    return text.replace("'", "''")
