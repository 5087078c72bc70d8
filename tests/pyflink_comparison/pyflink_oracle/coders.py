"""Values that PyFlink's coders reject, without a job: a worker would run the same code."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyflink_oracle.library import Library

#: Values that make the compiled coders read beyond the end of a tuple or a row.
_TOO_SHORT = {
    "TUPLE": {"()", "(1,)", "None", "[]", "[None]", "((1,), 'a')", "[1]", "[(1,)]"},
    "ROW": {"Row()", "Row(1)", "Row(a=1)"},
}


def without_short_ones(kind: str, values: list[str]) -> list[str]:
    """Return the values that do not crash the interpreter."""
    for name, short in _TOO_SHORT.items():
        if name in kind:
            values = [value for value in values if value not in short]
    if kind.startswith("Types.TUPLE([Types.TUPLE"):
        return []
    return values


def refused(library: Library, kind: str, values: list[str]) -> set[str]:
    """Return the values that a coder of the type cannot write."""
    from pyflink.fn_execution.coders import from_type_info

    names = library.names()
    coder = from_type_info(eval(kind, names)).get_impl()
    found = set()
    for value in values:
        try:
            coder.encode(object() if value == "object" else eval(value, names))
        except Exception:
            found.add(value)
    return found
