"""Functions of texts, ``field("user").str.lower()``, equivalent to the methods of ``str``."""

from __future__ import annotations

from typing import Any

from penstock.expressions import nodes as n
from penstock.expressions.expression import Expression, as_node


class StringFunctions:
    """Functions of a text."""

    __slots__ = ("_expression",)

    def __init__(self, expression: Expression) -> None:
        """Use ``expression.str``."""
        self._expression = expression

    def lower(self) -> Expression[str]:
        """Convert to lower case."""
        return self._call("lower")

    def upper(self) -> Expression[str]:
        """Convert to upper case."""
        return self._call("upper")

    def title(self) -> Expression[str]:
        """Capitalise each word."""
        return self._call("title")

    def strip(self, characters: Any = None) -> Expression[str]:
        """Remove white space, or some characters, at both ends."""
        return self._call_with_optional("strip", characters)

    def lstrip(self, characters: Any = None) -> Expression[str]:
        """Remove white space, or some characters, at the beginning."""
        return self._call_with_optional("lstrip", characters)

    def rstrip(self, characters: Any = None) -> Expression[str]:
        """Remove white space, or some characters, at the end."""
        return self._call_with_optional("rstrip", characters)

    def replace(self, old: Any, new: Any) -> Expression[str]:
        """Replace every occurrence of a text."""
        return self._call("replace", old, new)

    def starts_with(self, prefix: Any) -> Expression[bool]:
        """Return whether the text starts with a prefix."""
        return self._call("starts_with", prefix)

    def ends_with(self, suffix: Any) -> Expression[bool]:
        """Return whether the text ends with a suffix."""
        return self._call("ends_with", suffix)

    def contains(self, part: Any) -> Expression[bool]:
        """Return whether a text occurs in this one."""
        return self._call("contains", part)

    def find(self, part: Any) -> Expression[int]:
        """Return the position of a text's first occurrence, from 0; -1 if there is none."""
        return self._call("find", part)

    def length(self) -> Expression[int]:
        """Return the number of characters."""
        return self._call("length")

    def slice(self, start: Any = None, stop: Any = None) -> Expression[str]:
        """Return the characters from one position up to another, as ``text[start:stop]``."""
        return self._call("slice", start, stop)

    def split(self, separator: Any = None) -> Expression[list[str]]:
        """Return the list of parts between separators, or between white space."""
        return self._call_with_optional("split", separator)

    def _call(self, name: str, *operands: Any) -> Expression:
        nodes = (self._expression.node, *map(as_node, operands))
        return Expression(n.Call(f"str.{name}", nodes))

    def _call_with_optional(self, name: str, operand: Any) -> Expression:
        return self._call(name) if operand is None else self._call(name, operand)
