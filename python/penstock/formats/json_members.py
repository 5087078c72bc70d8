"""Members of JSON objects as attributes of structs, which msgspec decodes fastest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable


def members_struct(members: Iterable[tuple[int, str, Any]], *, missing_fails: bool) -> Any:
    """Return a struct whose attribute ``f{position}`` is a member or None.

    Args:
        members: The position, the name and the class of each member.
        missing_fails: Whether an object without a member is invalid; otherwise it is None.
    """
    fields: list[Any] = []
    names = {}
    for position, name, kind in members:
        attribute = f"f{position}"
        names[attribute] = name
        optional = kind | None
        fields.append((attribute, optional) if missing_fails else (attribute, optional, None))
    return msgspec.defstruct("Members", fields, rename=names, gc=False)
