"""Nodes of syntax trees that sqlglot lacks."""

from __future__ import annotations

from typing import ClassVar

from sqlglot import exp


class Function(exp.Expression):
    """A call with parameters that are not arguments.

    Its arguments are ``this``, the name in upper case; ``expressions``; and ``options``, a tuple.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False, "options": False}


class CastTo(exp.Expression):
    """A conversion to a logical type.

    Its arguments are ``this``; ``to``, a ``DataType``; and ``safe``, for TRY_CAST.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "to": True, "safe": False}


class TableFunction(exp.Expression):
    """A function in FROM that takes a table: a windowing function, or TO_CHANGELOG.

    Its arguments are ``this``, the name in upper case; ``expressions``; ``alias``.
    """

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False, "alias": False}


class TableArgument(exp.Expression):
    """TABLE name PARTITION BY columns, as the argument of a table function."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expressions": False, "order": False}


class Descriptor(exp.Expression):
    """DESCRIPTOR(columns)."""

    arg_types: ClassVar[dict[str, bool]] = {"expressions": True}


class NamedArgument(exp.Expression):
    """name => value."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True, "expression": True}


class StatementTree(exp.Expression):
    """A statement of ``penstock.table.sql.statements`` as the root of a tree."""

    arg_types: ClassVar[dict[str, bool]] = {"this": True}
