"""SQL statements that read and change one table, in the dialect of each database."""

from __future__ import annotations

import datetime
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

#: Classes of values for which SQLite has no type, and how it stores them: a column of numbers
#: converts the text of a decimal to a number.
_SQLITE_TEXTS: Final[dict[type, Callable[[Any], str]]] = {
    Decimal: str,
    datetime.datetime: lambda value: value.isoformat(" "),
    datetime.date: datetime.date.isoformat,
    datetime.time: datetime.time.isoformat,
}

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_$]*")


def database_of(url: str) -> str:
    """Return the kind of database that a URL of JDBC or SQLAlchemy names: ``sqlite``."""
    # SQLAlchemy's URLs name a driver after the database.
    return urlsplit(url.removeprefix("jdbc:")).scheme.partition("+")[0]


def sqlite_values(values: Iterable[Any]) -> tuple[Any, ...]:
    """Return values as SQLite's package accepts them: decimals, dates and times as texts."""
    return tuple(
        value if (text := _SQLITE_TEXTS.get(type(value))) is None else text(value)
        for value in values
    )


@dataclass(frozen=True)
class TableStatements:
    """Builder of the statements for one table.

    Attributes:
        kind: The database: ``sqlite``, ``postgresql`` or ``mysql``.
        table: The name of the table, with its schema if it needs one.
        columns: The names of the columns.
    """

    kind: str
    table: str
    columns: tuple[str, ...]

    @staticmethod
    def of_url(url: str, table: str, columns: Sequence[str]) -> TableStatements:
        """Return the statements for a table of the database that a JDBC URL names."""
        return TableStatements(database_of(url), table, tuple(columns))

    @property
    def is_known(self) -> bool:
        """True if the dialect of the database is known."""
        return self.kind in ("sqlite", "postgresql", "mysql")

    def quoted(self, name: str) -> str:
        """Quote a name for the database.

        PostgreSQL folds unquoted names to lower case, so a name with capitals stays unquoted: a
        DDL statement that wrote it without quotes has created the folded name.
        """
        if self.kind == "mysql":
            return "`" + name.replace("`", "``") + "`"
        if self.kind == "postgresql" and _PLAIN.fullmatch(name) and name != name.lower():
            return name
        return '"' + name.replace('"', '""') + '"'

    @property
    def quoted_table(self) -> str:
        """The name of the table, quoted for the database."""
        return ".".join(self.quoted(part) for part in self.table.split("."))

    def select(self, names: Sequence[str], *, where: str = "", order_by: Sequence[str] = ()) -> str:
        """Return a query of some columns; without any, of the constant 1."""
        columns = ", ".join(self.quoted(name) for name in names) or "1"
        text = f"SELECT {columns} FROM {self.quoted_table}"
        if where:
            text += f" WHERE {where}"
        if order_by:
            text += f" ORDER BY {', '.join(self.quoted(name) for name in order_by)}"
        return text

    def any_of(self, names: Sequence[str], number: int) -> str:
        """Return the condition that columns match one of a number of keys.

        Its values are those of each key, one key after the other.
        """
        if len(names) == 1:
            marks = ", ".join("?" * number)
            return f"{self.quoted(names[0])} IN ({marks})"
        one = " AND ".join(f"{self.quoted(name)} = ?" for name in names)
        return " OR ".join([f"({one})"] * number)

    def between(self, name: str) -> str:
        """Return the condition that a column lies between two values, inclusive."""
        return f"{self.quoted(name)} BETWEEN ? AND ?"

    def insert(self) -> str:
        """Return the statement that inserts a row."""
        columns = ", ".join(self.quoted(name) for name in self.columns)
        marks = ", ".join("?" * len(self.columns))
        return f"INSERT INTO {self.quoted_table} ({columns}) VALUES ({marks})"

    def upsert(self, key: Sequence[str]) -> str:
        """Return the statement that inserts a row or replaces the one with the same key."""
        others = [self.quoted(name) for name in self.columns if name not in key]
        if self.kind == "mysql":
            changed = others or [self.quoted(key[0])]
            values = ", ".join(f"{name} = VALUES({name})" for name in changed)
            return f"{self.insert()} ON DUPLICATE KEY UPDATE {values}"
        keys = ", ".join(self.quoted(name) for name in key)
        if not others:
            return f"{self.insert()} ON CONFLICT ({keys}) DO NOTHING"
        values = ", ".join(f"{name} = EXCLUDED.{name}" for name in others)
        return f"{self.insert()} ON CONFLICT ({keys}) DO UPDATE SET {values}"

    def delete(self, key: Sequence[str]) -> str:
        """Return the statement that deletes the row of a key."""
        condition = " AND ".join(f"{self.quoted(name)} = ?" for name in key)
        return f"DELETE FROM {self.quoted_table} WHERE {condition}"
