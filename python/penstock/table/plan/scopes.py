"""Resolution of names: the columns that a name may refer to in a query."""

from __future__ import annotations

import difflib
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.functions import registry
from penstock.table.plan.expressions import Column, Expression, Literal, OuterColumn

if TYPE_CHECKING:
    from penstock.table.plan.schema import Schema


@dataclass(frozen=True)
class Relation:
    """A table of FROM.

    Attributes:
        names: The parts of its name, whose last ones may qualify a column; empty without a name.
        schema: Its columns.
        start: The position of its first column in the joined row.
        hidden: The positions in the joined row of columns that ``*`` omits (of USING).
    """

    names: tuple[str, ...]
    schema: Schema
    start: int = 0
    hidden: frozenset[int] = frozenset()

    def answers_to(self, qualifier: tuple[str, ...]) -> bool:
        """Return whether a qualifier refers to this relation."""
        number = len(qualifier)
        return number <= len(self.names) and self.names[len(self.names) - number :] == qualifier


@dataclass
class Scope:
    """The relations to whose columns names may refer.

    Attributes:
        relations: The relations.
        outer: The scope of the enclosing query; None outside of subqueries.
        is_correlated: Whether a name was found in an outer scope.
    """

    relations: list[Relation] = field(default_factory=list)
    outer: Scope | None = None
    is_correlated: bool = False

    @classmethod
    def of(cls, schema: Schema, names: tuple[str, ...] = ()) -> Scope:
        """Return the scope of one relation."""
        return cls([Relation(names, schema)])

    @property
    def width(self) -> int:
        """The number of columns of the joined row."""
        return sum(len(relation.schema) for relation in self.relations)

    def add(self, names: tuple[str, ...], schema: Schema) -> None:
        """Add a relation, whose columns follow the existing ones."""
        self.relations.append(Relation(names, schema, self.width))

    def columns(self, qualifier: tuple[str, ...] = ()) -> list[Column]:
        """Return the columns of ``*`` or ``t.*``.

        Raises:
            ValidationException: No relation has the name.
        """
        found = [r for r in self.relations if not qualifier or r.answers_to(qualifier)]
        if not found:
            raise ValidationException(f"Table '{'.'.join(qualifier)}' not found")
        return [
            Column(f.type, r.start + i, f.name)
            for r in found
            for i, f in enumerate(r.schema)
            if qualifier or r.start + i not in r.hidden
        ]

    def relation_of(self, column: Column) -> Relation:
        """Return the relation that a column of the joined row belongs to."""
        return next(r for r in self.relations if r.start <= column.index < r.start + len(r.schema))

    def place_of(self, parts: tuple[str, ...]) -> tuple[Scope, Column, tuple[str, ...]] | None:
        """Return the scope and column that a dotted name means, and its fields; None without."""
        scope: Scope | None = self
        while scope is not None:
            found = scope._find(parts)
            if found is not None:
                return scope, *found
            scope = scope.outer
        return None

    def resolve(self, parts: tuple[str, ...]) -> Expression:
        """Return the column, or the field of a row column, to which a dotted name refers.

        Raises:
            ValidationException: The name is unknown or ambiguous.
        """
        scope: Scope | None = self
        depth = 0
        while scope is not None:
            found = scope._find(parts)
            if found is not None:
                column, fields = found
                expression: Expression = column
                if depth:
                    expression = OuterColumn(column.type, column.index, column.name, depth)
                    inner: Scope | None = self
                    for _ in range(depth):
                        assert inner is not None
                        inner.is_correlated = True
                        inner = inner.outer
                return fields_of(expression, fields)
            scope = scope.outer
            depth += 1
        raise ValidationException(
            f"Column '{parts[-1] if len(parts) == 1 else '.'.join(parts)}' not found in any table"
            f"{self._hint(parts[-1])}"
        )

    def _find(self, parts: tuple[str, ...]) -> tuple[Column, tuple[str, ...]] | None:
        # The longest qualifier first: t.a is the column a of t rather than the field a of a column
        # t.
        for length in range(len(parts) - 1, -1, -1):
            qualifier, name, fields = parts[:length], parts[length], parts[length + 1 :]
            matches = [
                Column(r.schema.fields[i].type, r.start + i, name)
                for r in self.relations
                if not qualifier or r.answers_to(qualifier)
                for i, f in enumerate(r.schema)
                if f.name == name and (qualifier or r.start + i not in r.hidden)
            ]
            if len(matches) > 1:
                raise ValidationException(f"Column '{'.'.join(parts)}' is ambiguous")
            if matches:
                return matches[0], fields
        return self._find_in_rows(parts)

    def _find_in_rows(self, parts: tuple[str, ...]) -> tuple[Column, tuple[str, ...]] | None:
        """Return the row column that has a field of a name which no column has, and the fields."""
        for length in range(len(parts) - 1, -1, -1):
            qualifier, name, fields = parts[:length], parts[length], parts[length + 1 :]
            matches = [
                (Column(f.type, r.start + i, f.name), (*path, *fields))
                for r in self.relations
                if not qualifier or r.answers_to(qualifier)
                for i, f in enumerate(r.schema)
                if qualifier or r.start + i not in r.hidden
                for path in _paths_to(name, f.type)
            ]
            if len(matches) > 1:
                raise ValidationException(f"Column '{'.'.join(parts)}' is ambiguous")
            if matches:
                return matches[0]
        return None

    def _hint(self, name: str) -> str:
        known = [f.name for r in self.relations for f in r.schema]
        near = difflib.get_close_matches(name, known, n=1)
        if not near:
            near = [k for k in known if k.lower() == name.lower()]
        return f"; did you mean '{near[0]}'?" if near else ""


def _paths_to(name: str, kind: types.DataType) -> list[tuple[str, ...]]:
    """Return the paths to fields of a name inside a row; those in rows of the row if it has none.

    A type that is not a row has none.
    """
    if not isinstance(kind, types.RowType):
        return []
    if name in kind.field_names():
        return [(name,)]
    return [(f.name, *path) for f in kind for path in _paths_to(name, f.data_type)]


def fields_of(expression: Expression, names: tuple[Any, ...]) -> Expression:
    """Return a field of a row, by name or position.

    Raises:
        ValidationException: The value is not a row, or has no such field.
    """
    for name in names:
        kind = expression.type
        if not isinstance(kind, types.RowType):
            raise ValidationException(f"'{expression}' is of type {kind} and has no field '{name}'")
        text = types.VarCharType(0x7FFFFFFF, nullable=False)
        expression = registry.call("GET", expression, Literal(text, name))
    return expression
