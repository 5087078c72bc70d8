"""CREATE TABLE … LIKE: adopts parts of another table."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from penstock.table.exceptions import ValidationException
from penstock.table.schema.schema import Schema
from penstock.table.statements.alteration import with_key_not_null

if TYPE_CHECKING:
    from penstock.table.catalog.objects import CatalogBaseTable
    from penstock.table.sql.statements import LikeClause

_DEFAULTS: Final = {
    "CONSTRAINTS": "INCLUDING",
    "DISTRIBUTION": "INCLUDING",
    "GENERATED": "INCLUDING",
    "METADATA": "INCLUDING",
    "OPTIONS": "OVERWRITING",
    "PARTITIONS": "INCLUDING",
    "WATERMARKS": "INCLUDING",
}
"""The default rule of each part."""

_OVERWRITABLE: Final = ("GENERATED", "METADATA", "OPTIONS", "WATERMARKS")


def liked_table(
    table: CatalogBaseTable, source: CatalogBaseTable, base: Schema, like: LikeClause
) -> CatalogBaseTable:
    """Return a table with the parts of another one that its LIKE clause includes.

    Args:
        table: The table, with its own parts.
        source: The other table.
        base: The columns of the other table.
        like: The clause.

    Raises:
        ValidationException: Both tables have a part, and the clause does not resolve the conflict;
            or the clause has an unknown option.
    """
    rules = like_rules(like)
    schema = Schema(
        _columns(table, base, rules),
        _one_of(
            "a watermark", "WATERMARKS", rules, base.watermark_specs, table.schema.watermark_specs
        ),
        _one_of("a primary key", "CONSTRAINTS", rules, base.primary_key, table.schema.primary_key),
    )
    options = {} if rules["OPTIONS"] == "EXCLUDING" else dict(source.options)
    twice = sorted(set(options) & set(table.options))
    if twice and rules["OPTIONS"] == "INCLUDING":
        raise ValidationException(
            f"There already exists an option ['{twice[0]}'] in the base table. You might want to "
            "specify EXCLUDING OPTIONS or OVERWRITING OPTIONS"
        )
    keys = _one_of("partitions", "PARTITIONS", rules, source.partition_keys, table.partition_keys)
    # As in Flink, EXCLUDING permits other partitions; it does not remove those of the source.
    keys = keys or source.partition_keys
    return replace(
        table,
        schema=with_key_not_null(schema),
        options=options | dict(table.options),
        partition_keys=keys,
        distribution=_one_of(
            "a distribution", "DISTRIBUTION", rules, source.distribution, table.distribution
        ),
    )


def like_rules(like: LikeClause) -> dict[str, str]:
    """Return the rule of each part: INCLUDING, EXCLUDING or OVERWRITING.

    Raises:
        ValidationException: The clause has an unknown or duplicate option, or one that does not
            apply to its part.
    """
    rules: dict[str, str] = {}
    for verb, part in like.options:
        known = part == "ALL" or part in _DEFAULTS
        if not known or verb not in ("INCLUDING", "EXCLUDING", "OVERWRITING"):
            raise ValidationException(
                f"Unknown option {verb} {part} of LIKE: expected INCLUDING, EXCLUDING or "
                f"OVERWRITING with ALL, {', '.join(_DEFAULTS)}"
            )
        if part in rules:
            raise ValidationException(f"Each like option feature can be declared only once: {part}")
        if verb == "OVERWRITING" and part not in _OVERWRITABLE:
            raise ValidationException(
                f"Illegal merging strategy '{verb}' for '{part}': OVERWRITING goes with "
                f"{', '.join(_OVERWRITABLE)}"
            )
        rules[part] = verb
    everything = rules.pop("ALL", None)
    defaults = _DEFAULTS if everything is None else dict.fromkeys(_DEFAULTS, everything)
    return {**defaults, **rules}


def _columns(table: CatalogBaseTable, base: Schema, rules: dict[str, str]) -> list[Any]:
    own = {column.name: column for column in table.schema.columns}
    columns = []
    for column in base.columns:
        part = "GENERATED" if column.is_computed else "METADATA"
        if not column.is_physical and rules[part] == "EXCLUDING":
            continue
        if column.name in own:
            if column.is_physical or rules[part] == "INCLUDING":
                raise ValidationException(
                    f"A column named '{column.name}' already exists in the base table"
                )
            columns.append(own.pop(column.name))
            continue
        columns.append(column)
    return [*columns, *own.values()]


def _one_of(what: str, part: str, rules: dict[str, str], base: Any, own: Any) -> Any:
    """Return the part of one of the two tables."""
    if rules[part] == "EXCLUDING" or not base:
        return own
    if own and rules[part] == "INCLUDING":
        overwriting = f" or OVERWRITING {part}" if part in _OVERWRITABLE else ""
        raise ValidationException(
            f"The base table already has {what}. You might want to specify EXCLUDING {part}"
            f"{overwriting}"
        )
    return own or base
