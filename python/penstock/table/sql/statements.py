"""Statements as data; their queries and expressions are sqlglot's trees."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.table.types import DataType

#: A name of one to three parts: catalog, database, object.
Path = tuple[str, ...]


@dataclass(frozen=True)
class Statement:
    """Any statement."""


@dataclass(frozen=True)
class Query(Statement):
    """SELECT, VALUES, WITH or a set operation.

    Attributes:
        tree: The syntax tree.
    """

    tree: Any


@dataclass(frozen=True)
class ColumnDefinition:
    """A column of CREATE TABLE.

    Attributes:
        name: The name.
        type: The declared type; None for a computed column.
        expression: The tree of a computed column's expression.
        text: The text of the expression.
        metadata_key: The key of a metadata column; its name by default.
        is_metadata: Whether it is a metadata column.
        is_virtual: Whether a metadata column is read-only.
        comment: Its comment.
    """

    name: str
    type: DataType | None = None
    expression: Any = None
    text: str = ""
    metadata_key: str | None = None
    is_metadata: bool = False
    is_virtual: bool = False
    comment: str | None = None


@dataclass(frozen=True)
class WatermarkDefinition:
    """WATERMARK FOR column AS expression.

    Attributes:
        column: The parts of the column's name.
        expression: The tree of the expression.
        text: The text of the expression.
    """

    column: tuple[str, ...]
    expression: Any
    text: str


@dataclass(frozen=True)
class LikeClause:
    """LIKE table (options).

    Attributes:
        path: The table.
        options: Pairs such as ``("EXCLUDING", "ALL")``.
    """

    path: Path
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class CreateTable(Statement):
    """CREATE TABLE, with an optional AS SELECT or LIKE.

    For ALTER TABLE, ``positions`` has the preceding column of each column, None for the first one.
    For REPLACE TABLE, ``must_exist`` is true.  If the parentheses only name columns of AS SELECT,
    ``query_columns`` has their order.
    """

    path: Path
    columns: tuple[ColumnDefinition, ...] = ()
    watermarks: tuple[WatermarkDefinition, ...] = ()
    primary_key: tuple[str, ...] | None = None
    key_name: str | None = None
    is_key_enforced: bool = False
    comment: str | None = None
    partition_keys: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    like: LikeClause | None = None
    query: Any = None
    query_columns: tuple[str, ...] = ()
    is_temporary: bool = False
    if_not_exists: bool = False
    or_replace: bool = False
    must_exist: bool = False
    positions: dict[str, str | None] = field(default_factory=dict)
    distribution: str | None = None


@dataclass(frozen=True)
class CreateView(Statement):
    """CREATE VIEW; ``text`` is the text of the query."""

    path: Path
    query: Any
    text: str
    columns: tuple[str, ...] = ()
    comment: str | None = None
    is_temporary: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateFunction(Statement):
    """CREATE FUNCTION name AS 'class' LANGUAGE language."""

    path: Path
    class_name: str
    language: str = "JAVA"
    is_temporary: bool = False
    is_system: bool = False
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateDatabase(Statement):
    """CREATE DATABASE."""

    path: Path
    comment: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True)
class CreateCatalog(Statement):
    """CREATE CATALOG."""

    name: str
    comment: str | None = None
    options: dict[str, str] = field(default_factory=dict)
    if_not_exists: bool = False


@dataclass(frozen=True)
class Drop(Statement):
    """DROP TABLE, VIEW, FUNCTION, DATABASE or CATALOG, by ``kind``."""

    kind: str
    path: Path
    if_exists: bool = False
    is_temporary: bool = False
    is_system: bool = False
    is_cascade: bool = False


@dataclass(frozen=True)
class PartitionChange:
    """A partition of ALTER TABLE … ADD or DROP PARTITION.

    Attributes:
        values: The values, by column.
        options: The options of a new partition.
        is_lenient: Whether an existing, or a missing, partition is accepted.
    """

    values: dict[str, str]
    options: dict[str, str] = field(default_factory=dict)
    is_lenient: bool = False


@dataclass(frozen=True)
class Alter(Statement):
    """ALTER TABLE, VIEW, DATABASE, CATALOG or FUNCTION.

    Attributes:
        kind: The kind of the object.
        path: The name of the object.
        action: ``RENAME``, ``RENAME COLUMN``, ``SET``, ``RESET``, ``ADD``, ``MODIFY``,
            ``DROP``, ``DROP PRIMARY KEY``, ``DROP CONSTRAINT``, ``DROP WATERMARK``,
            ``ADD PARTITION``, ``DROP PARTITION``, ``AS``.
        arguments: A path; two names; options; keys of options; a `CreateTable` with the columns,
            watermarks and key to add or modify; names of columns; a `Query`.
        if_exists: Whether a missing object is accepted.
    """

    kind: str
    path: Path
    action: str
    arguments: Any = None
    if_exists: bool = False


@dataclass(frozen=True)
class Use(Statement):
    """USE [CATALOG | MODULES] names."""

    kind: str
    names: tuple[str, ...]


@dataclass(frozen=True)
class Show(Statement):
    """SHOW.

    Attributes:
        kind: ``TABLES``, ``VIEWS``, ``CREATE TABLE``, ``COLUMNS``, …
        path: The object, or the name after FROM or IN.
        pattern: The pattern after LIKE.
        is_negated: Whether the condition is NOT LIKE.
        is_insensitive: Whether the condition is ILIKE.
        partition: For PARTITIONS: the requested values by column.
    """

    kind: str
    path: Path = ()
    pattern: str | None = None
    is_negated: bool = False
    is_insensitive: bool = False
    partition: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Describe(Statement):
    """DESCRIBE [CATALOG | DATABASE | FUNCTION] [EXTENDED] path."""

    path: Path
    is_extended: bool = False
    kind: str = "TABLE"


@dataclass(frozen=True)
class Explain(Statement):
    """EXPLAIN [PLAN FOR | details] statement."""

    statement: Statement
    details: tuple[str, ...] = ()


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO or OVERWRITE."""

    path: Path
    query: Any
    columns: tuple[str, ...] = ()
    is_overwrite: bool = False
    partition: dict[str, Any] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class StatementSetBlock(Statement):
    """EXECUTE STATEMENT SET BEGIN … END."""

    statements: tuple[Insert, ...]


@dataclass(frozen=True)
class CompilePlan(Statement):
    """COMPILE PLAN, and COMPILE AND EXECUTE PLAN.

    Attributes:
        file: The path or URL of the plan's file.
        text: The text of the insertion or statement set.
        if_not_exists: Whether an existing file is kept, without an error.
        is_executed: Whether the plan is executed as well.
    """

    file: str
    text: str
    if_not_exists: bool = False
    is_executed: bool = False


@dataclass(frozen=True)
class ExecutePlan(Statement):
    """EXECUTE PLAN; ``file`` is the path or URL of the plan."""

    file: str


@dataclass(frozen=True)
class SetOption(Statement):
    """SET ['key' = 'value']."""

    key: str | None = None
    value: str | None = None


@dataclass(frozen=True)
class ResetOption(Statement):
    """RESET ['key']."""

    key: str | None = None


@dataclass(frozen=True)
class LoadModule(Statement):
    """LOAD MODULE."""

    name: str
    options: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class UnloadModule(Statement):
    """UNLOAD MODULE."""

    name: str


@dataclass(frozen=True)
class Execute(Statement):
    """EXECUTE statement, and a statement set that began with BEGIN STATEMENT SET."""

    statement: Statement
