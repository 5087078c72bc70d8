"""The contents of a catalog: databases, tables, views, functions, partitions and their paths."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

from penstock.table.exceptions import ValidationException
from penstock.table.quoting import dotted
from penstock.table.schema.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.table.schema.resolved_schema import ResolvedSchema
    from penstock.table.table_schema import TableSchema

__all__ = [
    "CatalogBaseTable",
    "CatalogDatabase",
    "CatalogDescriptor",
    "CatalogFunction",
    "CatalogPartition",
    "CatalogPartitionSpec",
    "ObjectIdentifier",
    "ObjectPath",
]


@dataclass(frozen=True, order=True)
class ObjectPath:
    """The name of an object within a catalog.

    Attributes:
        database_name: The database.
        object_name: The table, view or function.
    """

    database_name: str
    object_name: str

    @staticmethod
    def from_string(full_name: str) -> ObjectPath:
        """Parse a path of the form ``database.object``.

        Raises:
            ValidationException: The text does not have exactly one dot.
        """
        parts = full_name.split(".")
        if len(parts) != 2 or not all(parts):
            raise ValidationException(f"Expected 'database.object', got {full_name!r}")
        return ObjectPath(*parts)

    def get_database_name(self) -> str:
        """Return the name of the database."""
        return self.database_name

    def get_object_name(self) -> str:
        """Return the name of the object."""
        return self.object_name

    def get_full_name(self) -> str:
        """Return ``database.object``."""
        return f"{self.database_name}.{self.object_name}"

    def compare_to(self, other: ObjectPath) -> int:
        """Return a number below, at or above 0 if this path sorts before, with or after another."""
        return (self > other) - (self < other)

    def __str__(self) -> str:
        return self.get_full_name()


@dataclass(frozen=True, order=True)
class ObjectIdentifier:
    """The full name of an object.

    Attributes:
        catalog_name: The catalog.
        database_name: The database.
        object_name: The table, view or function.
    """

    catalog_name: str
    database_name: str
    object_name: str

    @staticmethod
    def of(catalog_name: str, database_name: str, object_name: str) -> ObjectIdentifier:
        """Return a full name."""
        return ObjectIdentifier(catalog_name, database_name, object_name)

    def get_catalog_name(self) -> str:
        """Return the name of the catalog."""
        return self.catalog_name

    def get_database_name(self) -> str:
        """Return the name of the database."""
        return self.database_name

    def get_object_name(self) -> str:
        """Return the name of the object."""
        return self.object_name

    def to_object_path(self) -> ObjectPath:
        """Return the name within the catalog."""
        return ObjectPath(self.database_name, self.object_name)

    def to_list(self) -> list[str]:
        """Return the three parts."""
        return [self.catalog_name, self.database_name, self.object_name]

    def as_serializable_string(self) -> str:
        """Return the name in quotes, in SQL syntax."""
        return dotted(self.to_list())

    def as_summary_string(self) -> str:
        """Return the name without quotes."""
        return ".".join(self.to_list())

    def __str__(self) -> str:
        return self.as_serializable_string()


@dataclass(frozen=True)
class _Described:
    """An object of a catalog that has options and a comment.

    Attributes:
        properties: The options.
        comment: The comment.
    """

    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    @classmethod
    def create_instance(cls, properties: Mapping[str, str], comment: str | None = None) -> Self:
        """Return an object with a copy of the options."""
        return cls(dict(properties), comment)

    def get_properties(self) -> dict[str, str]:
        """Return the options."""
        return dict(self.properties)

    def get_comment(self) -> str | None:
        """Return the comment."""
        return self.comment

    def copy(self) -> Self:
        """Return an equal object."""
        return replace(self)


class CatalogDatabase(_Described):
    """A database."""

    def get_description(self) -> str | None:
        """Return the comment."""
        return self.comment

    def get_detailed_description(self) -> str | None:
        """Return the comment."""
        return self.comment


@dataclass(frozen=True)
class CatalogBaseTable:
    """A table or a view.

    Attributes:
        schema: The declared columns.
        options: The options of a table.
        partition_keys: The partition columns of a table.
        comment: The comment.
        query: The text of a view's query; None for a table.
        expanded_query: The query with all names qualified; None for a table, and for a view with a
            part that stays as written.
        distribution: The clause by which a table is distributed into buckets; None without one.
        namespace: The catalog and database to which short names in the query are relative; None
            for the current ones.
        plan: The plan of a view that the program created; None for others.
        source: The source of a table that the program created; None for others.
        resolved: The resolved schema, if it was created with the table.
    """

    schema: Schema
    options: Mapping[str, str] = field(default_factory=dict)
    partition_keys: tuple[str, ...] = ()
    comment: str | None = None
    query: str | None = None
    plan: Any = None
    source: Any = None
    resolved: ResolvedSchema | None = None
    expanded_query: str | None = None
    namespace: tuple[str, str] | None = None
    distribution: str | None = None

    @staticmethod
    def create_table(
        schema: Schema | TableSchema,
        partition_keys: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> CatalogBaseTable:
        """Return a table."""
        return CatalogBaseTable(
            _declared(schema), dict(properties or {}), tuple(partition_keys), comment
        )

    @staticmethod
    def create_view(
        original_query: str,
        expanded_query: str,
        schema: Schema | TableSchema,
        properties: Mapping[str, str] | None = None,
        comment: str | None = None,
    ) -> CatalogBaseTable:
        """Return a view."""
        del original_query
        declared = _declared(schema)
        return CatalogBaseTable(
            declared, dict(properties or {}), comment=comment, query=expanded_query
        )

    @property
    def is_view(self) -> bool:
        """True if the table is a view."""
        return self.query is not None or self.plan is not None

    @property
    def is_inline(self) -> bool:
        """True if only the program defines the table, which has no SQL form."""
        return self.source is not None or (self.plan is not None and self.query is None)

    def get_options(self) -> dict[str, str]:
        """Return the options."""
        return dict(self.options)

    def get_unresolved_schema(self) -> Schema:
        """Return the declared columns."""
        return self.schema

    def get_partition_keys(self) -> list[str]:
        """Return the partition columns."""
        return list(self.partition_keys)

    def get_comment(self) -> str | None:
        """Return the comment."""
        return self.comment

    def copy(self) -> CatalogBaseTable:
        """Return an equal table."""
        return replace(self)

    def get_description(self) -> str | None:
        """Return the comment."""
        return self.comment

    def get_detailed_description(self) -> str | None:
        """Return the comment."""
        return self.comment


def _declared(schema: Schema | TableSchema) -> Schema:
    if isinstance(schema, Schema):
        return schema
    names, data_types = schema.get_field_names(), schema.get_field_data_types()
    return Schema.new_builder().from_fields(names, data_types).build()


@dataclass(frozen=True)
class CatalogFunction:
    """A function in a catalog.

    Attributes:
        class_name: The path of its class or object: ``module.name``.
        language: ``PYTHON``.
        function: The wrapper of a Python function from the program; None for others.
    """

    class_name: str
    language: str = "PYTHON"
    function: Any = None

    @staticmethod
    def create_instance(class_name: str, function_language: str = "PYTHON") -> CatalogFunction:
        """Return a function."""
        return CatalogFunction(class_name, function_language.upper())

    def get_class_name(self) -> str:
        """Return the path of the function's class or object."""
        return self.class_name

    def get_function_language(self) -> str:
        """Return the language."""
        return self.language

    def copy(self) -> CatalogFunction:
        """Return an equal function."""
        return replace(self)

    def get_description(self) -> str | None:
        """Return a short description of the function."""
        return "This is a user-defined function"

    def get_detailed_description(self) -> str | None:
        """Return the short description."""
        return self.get_description()

    def get_options(self) -> dict[str, str]:
        """Return the options, which a function in Python lacks."""
        return {}

    def is_generic(self) -> bool:
        """Return True: the function is not specific to another system."""
        return True


@dataclass(frozen=True)
class CatalogPartitionSpec:
    """Values of a partition's columns.

    Attributes:
        partition_spec: The values, by column.
    """

    partition_spec: Mapping[str, str]

    def get_partition_spec(self) -> dict[str, str]:
        """Return the values, by column."""
        return dict(self.partition_spec)

    def __hash__(self) -> int:
        return hash(tuple(sorted(self.partition_spec.items())))

    def __str__(self) -> str:
        values = ", ".join(f"{key}={value}" for key, value in self.partition_spec.items())
        return f"CatalogPartitionSpec{{{{{values}}}}}"


class CatalogPartition(_Described):
    """A partition of a table."""

    def get_description(self) -> None:
        """Return None: as in Flink, only the comment describes a partition."""

    def get_detailed_description(self) -> None:
        """Return None: as in Flink, only the comment describes a partition."""


@dataclass(frozen=True)
class CatalogDescriptor:
    """Description of a catalog to create.

    Attributes:
        catalog_name: The name of the catalog.
        configuration: The options.
        comment: The comment.
    """

    catalog_name: str
    configuration: Any
    comment: str | None = None

    @staticmethod
    def of(catalog_name: str, configuration: Any, comment: str | None = None) -> CatalogDescriptor:
        """Return a descriptor of a catalog."""
        return CatalogDescriptor(catalog_name, configuration, comment)
