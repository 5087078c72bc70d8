"""Detects values of a state that are held elsewhere; the native twin has the same name.

A state stores the objects of functions, which may keep references to them or to parts of them and
change them at any time.  Reference counts tell: a value to which only its state refers, and whose
parts have one owner each, cannot be changed until it is read again.
"""

import gc
import sys
from typing import Any, Final

from penstock.common.types import Row
from penstock.taskexecutor.copies.copy_plans import (
    DEEPCOPY,
    FROZEN,
    INSTANCE,
    NAMED_TUPLE,
    ROW,
    UNCHANGING,
    parts_of,
    plan_of,
)

_BUILTIN: Final = frozenset((list, dict, set, tuple, frozenset, bytearray))

#: Kinds by class; classes of the program stay cached, since the process belongs to the job.
_kinds: dict[type, int] = dict.fromkeys(_BUILTIN, INSTANCE)


def is_held(holder: tuple[object, ...], place: int, most: int = sys.maxsize) -> bool | None:
    """Return whether another owner beside a state may change the value at a place of a tuple.

    Args:
        holder: A tuple that refers to the value; the state refers to the value or to parts of it.
        place: The place of the value.
        most: The number of parts that may be visited.

    Returns:
        None if the value has more parts, so that it is not known.
    """
    parts = [holder[place]]
    left = most
    while parts:
        # Without the references of this list, of the call and of the part's owner.
        owners = sys.getrefcount(parts[-1]) - 3
        part = parts.pop()
        if _kind(part) == UNCHANGING:
            continue
        if owners > 1:
            if not _is_fixed(part):
                return True
            continue
        if owners == 1:
            found = _has_held_parts(part, left)
            if found is not False:
                return found
        else:
            more = _parts(part, left)
            if more is None:
                return None
            left -= len(more)
            parts += more
            del more
        del part
    return False


def _has_held_parts(value: object, most: int) -> bool | None:
    """Return whether a mutable part of a value has an owner outside of the value; see `is_held`."""
    found: list[Any] = []
    visits: dict[int, int] = {}
    parts: list[Any] = [value]
    is_first = True
    while parts:
        part = parts.pop()
        if not is_first:
            if part is value or _kind(part) == UNCHANGING:
                continue
            if id(part) in visits:
                visits[id(part)] += 1
                continue
            visits[id(part)] = 1
            found.append(part)
        is_first = False
        more = _parts(part, most)
        if more is None:
            return None
        most -= len(more)
        parts += more
    part = more = None
    return any(
        # Without the references of the list and of the call.
        sys.getrefcount(found[number]) - 2 > visits[id(found[number])]
        and not _is_fixed(found[number])
        for number in range(len(found))
    )


def _kind(value: object) -> int:
    cls = type(value)
    kind = _kinds.get(cls)
    if kind is None:
        kind = _kinds[cls] = plan_of(value).kind
    return kind


def _parts(value: Any, most: int) -> list[object] | None:
    """Return the parts of a value; None if there are more than a number."""
    kind = _kind(value)
    if type(value) in _BUILTIN and len(value) > most:
        return None
    if kind == ROW:
        found = list(value) if type(value) is Row else []
    else:
        found = parts_of(value) if kind == DEEPCOPY else gc.get_referents(value)
    return [part for part in found if not isinstance(part, type)] if len(found) <= most else None


def _is_fixed(value: object) -> bool:
    """Return whether neither a value nor anything in it ever changes."""
    kind = _kind(value)
    if kind == UNCHANGING:
        return True
    if type(value) not in (tuple, frozenset) and kind not in (NAMED_TUPLE, FROZEN):
        return False
    return all(map(_is_fixed, _parts(value, sys.maxsize) or ()))
