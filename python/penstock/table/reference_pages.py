"""Pages of the guide about SQL that are generated from tables in the code.

``python -m penstock.table.reference_pages docs`` writes them.
"""

from __future__ import annotations

import sys
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.common.options.value_types import DurationType, MemorySizeType
from penstock.table import types
from penstock.table.connectors.registry import connector_names, connector_of
from penstock.table.formats.registry import row_format_class, row_format_names
from penstock.table.functions.aggregates import AGGREGATES
from penstock.table.functions.missing import MISSING
from penstock.table.functions.registry import table
from penstock.table.options.connector_options import (
    Choice,
    OptionSpec,
    boolean,
    character,
    duration_ms,
    integer,
    memory_bytes,
    natural,
    positive,
)
from penstock.table.sql.statement_parsing import REFUSED_STATEMENTS
from penstock.table.sql.syntax import SYNTAX
from penstock.table.types.arrow_types import arrow_type

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.table.connectors.interfaces import ConnectorFactory

_WRITTEN: Final = (
    "`python -m penstock.table.reference_pages docs` writes this page; [SQL](../sql.md) is the "
    "guide.\n"
)

_OF_FILES: Final = ("blackhole", "datagen", "delta", "filesystem", "iceberg", "print")
"""The connectors that only use storage."""

_FAMILIES: Final = {
    "any": "any type",
    "text": "text",
    "bytes": "bytes",
    "textual": "text or bytes",
    "bool": "boolean",
    "int": "integer",
    "num": "number",
    "double": "number",
    "exact": "integer or decimal",
    "date": "date",
    "time": "date or time",
    "timestamp": "timestamp",
    "array": "array",
    "map": "map",
    "collection": "array or map",
}

_VALUES: Final[Mapping[Callable[[str], Any], str]] = {
    boolean: "`true` or `false`",
    character: "a character",
    duration_ms: "duration",
    float: "number",
    integer: "integer",
    memory_bytes: "memory size",
    natural: "integer from 0",
    positive: "integer from 1",
}
"""Descriptions of the values that parsers accept; others accept a text."""

_TYPES: Final = (
    ("BOOLEAN", types.DataTypes.BOOLEAN(), "bool"),
    ("TINYINT", types.DataTypes.TINYINT(), "int"),
    ("SMALLINT", types.DataTypes.SMALLINT(), "int"),
    ("INT, INTEGER", types.DataTypes.INT(), "int"),
    ("BIGINT", types.DataTypes.BIGINT(), "int"),
    ("FLOAT", types.DataTypes.FLOAT(), "float"),
    ("DOUBLE, DOUBLE PRECISION", types.DataTypes.DOUBLE(), "float"),
    ("DECIMAL(10, 2), DEC, NUMERIC", types.DataTypes.DECIMAL(10, 2), "Decimal"),
    ("CHAR(n)", types.DataTypes.CHAR(3), "str"),
    ("VARCHAR(n), STRING", types.DataTypes.STRING(), "str"),
    ("BINARY(n)", types.DataTypes.BINARY(3), "bytes"),
    ("VARBINARY(n), BYTES", types.DataTypes.BYTES(), "bytes"),
    ("DATE", types.DataTypes.DATE(), "date"),
    ("TIME(0)", types.DataTypes.TIME(0), "time"),
    ("TIMESTAMP(3)", types.DataTypes.TIMESTAMP(3), "datetime without a zone"),
    ("TIMESTAMP(6)", types.DataTypes.TIMESTAMP(6), "datetime without a zone"),
    ("TIMESTAMP(9)", types.DataTypes.TIMESTAMP(9), "datetime without a zone, in microseconds"),
    ("TIMESTAMP_LTZ(3)", types.DataTypes.TIMESTAMP_LTZ(3), "datetime in UTC"),
    ("ARRAY&lt;INT&gt;", types.DataTypes.ARRAY(types.DataTypes.INT()), "list"),
    (
        "MAP&lt;STRING, INT&gt;",
        types.DataTypes.MAP(types.DataTypes.STRING(), types.DataTypes.INT()),
        "dict",
    ),
    (
        "MULTISET&lt;STRING&gt;",
        types.DataTypes.MULTISET(types.DataTypes.STRING()),
        "dict with counts",
    ),
    (
        "ROW&lt;x INT, y STRING&gt;",
        types.DataTypes.ROW(
            [
                types.DataTypes.FIELD("x", types.DataTypes.INT()),
                types.DataTypes.FIELD("y", types.DataTypes.STRING()),
            ]
        ),
        "Row",
    ),
)


def _statements() -> str:
    parts = ["# Statements of SQL\n", _WRITTEN]
    for title, statements in SYNTAX.items():
        body = "\n".join(f"{statement};" for statement in statements)
        parts.append(f"## {title}\n\n```sql\n{body}\n```\n")
    rows = [f"| `{' '.join(words)}` | {why} |" for words, why in sorted(REFUSED_STATEMENTS.items())]
    parts.append("\n".join(["## Rejected", "", "| statement | reason |", "|---|---|", *rows, ""]))
    return "\n".join(parts)


def _functions(title: str, *, are_words: bool) -> str:
    rows = [
        f"| `{name.replace('|', chr(92) + '|')}` | {_arguments(function.signature)} |"
        for name, function in sorted(table().items())
        # Names with a dollar sign stand for parts of other functions.
        if name.replace("_", "").isalnum() is are_words and not name.startswith("$")
    ]
    head = "| name | arguments |\n|---|---|"
    page = "\n".join([f"# {title}\n", _WRITTEN, head, *rows, ""])
    return page + _missing() if are_words else page


def _missing() -> str:
    named: dict[str, list[str]] = {}
    for name, why in MISSING.items():
        named.setdefault(why, []).append(f"`{name}`")
    rows = [f"| {', '.join(names)} | {why} |" for why, names in named.items()]
    return "\n".join(["", "## Missing", "", "| name | reason |", "|---|---|", *rows, ""])


def _aggregates() -> str:
    parts = ["# Aggregates of SQL\n", _WRITTEN, "| name | arguments | |\n|---|---|---|"]
    for name, aggregate in sorted(AGGREGATES.items()):
        if name.startswith("$"):
            continue
        number = str(aggregate.least)
        if aggregate.most != aggregate.least:
            number += f" to {aggregate.most}"
        over = "only with OVER" if aggregate.is_over_only else ""
        parts.append(f"| `{name}` | {number} | {over} |")
    return "\n".join([*parts, ""])


def _arguments(signature: str) -> str:
    texts = []
    for word in signature.split():
        name = word.rstrip("?*")
        text = _FAMILIES.get(name, name)
        if word.endswith("?"):
            text = f"[{text}]"
        elif word.endswith("*"):
            text += " …"
        texts.append(text)
    return ", ".join(texts) or "none"


def _types() -> str:
    rows = [f"| {name} | `{arrow_type(kind)}` | {python} |" for name, kind, python in _TYPES]
    head = "| SQL | Arrow | Python |\n|---|---|---|"
    return "\n".join(["# Types of SQL\n", _WRITTEN, head, *rows, ""])


def _connectors(title: str, *, are_services: bool) -> str:
    parts = [f"# {title}\n", _WRITTEN]
    described: dict[int, list[str]] = {}
    for name in connector_names():
        if (name not in _OF_FILES) is not are_services:
            continue
        # Connectors for several versions of a product share their options.
        factory = connector_of({"connector": name}, "t")
        described.setdefault(id(factory.options), []).append(name)
    for names in described.values():
        factory = connector_of({"connector": names[0]}, "t")
        parts.append(f"## {', '.join(names)}\n")
        parts.append(_options(factory.options, factory.prefixes))
        metadata = _metadata(factory)
        if metadata:
            parts.append(f"Metadata columns: {metadata}.\n")
    return "\n".join(parts)


def _formats() -> str:
    parts = ["# Formats of tables\n", _WRITTEN]
    for name in row_format_names():
        parts.append(f"## {name}\n")
        options = {
            f"{name}.{key}": spec for key, spec in row_format_class(name, "").options.items()
        }
        parts.append(_options(options, ()))
    return "\n".join(parts)


def _metadata(factory: ConnectorFactory) -> str:
    """Return the metadata columns of a connector's module with their types."""
    found: Mapping[str, Any] = getattr(import_module(type(factory).__module__), "METADATA", {})
    return ", ".join(f"`{key}` {kind}" for key, kind in found.items())


def _options(options: Mapping[str, OptionSpec], prefixes: tuple[str, ...]) -> str:
    if not options and not prefixes:
        return "No options.\n"
    rows = []
    for key, spec in sorted(options.items()):
        default = "required" if spec.is_required else f"default: {_default(spec)}"
        rows.append(f"| `{key}` | {_value(spec.parse)}<br>{default} |")
    if prefixes:
        rows.append(f"| {', '.join(f'`{prefix}*`' for prefix in prefixes)} | passed on |")
    return "\n".join(["| option | value and default |", "|---|---|", *rows, ""])


def _value(parse: Callable[[str], Any]) -> str:
    """Describe the values that a parser accepts."""
    if isinstance(parse, Choice):
        return " or ".join(f"`{value}`" for value in parse.values)
    return _VALUES.get(parse, "text")


def _default(spec: OptionSpec) -> str:
    value = spec.default
    if value is None:
        return "none"
    if spec.parse is duration_ms:
        return f"`{DurationType().text(value)}`"
    if spec.parse is memory_bytes:
        return f"`{MemorySizeType().text(value)}`"
    if isinstance(value, bool):
        return f"`{str(value).lower()}`"
    shown = str(value).replace("|", "\\|")
    return f"`{shown}`" if value != "" else "empty"


#: The functions that generate the pages, by path in the folder of the guide.
PAGES: Final[dict[str, Callable[[], str]]] = {
    "sql/statements.md": _statements,
    "sql/operators.md": partial(_functions, "Operators of SQL", are_words=False),
    "sql/functions.md": partial(_functions, "Functions of SQL", are_words=True),
    "sql/aggregates.md": _aggregates,
    "sql/types.md": _types,
    "sql/connectors.md": partial(
        _connectors, "Connectors of tables in services", are_services=True
    ),
    "sql/file_connectors.md": partial(
        _connectors, "Connectors of tables in files and tests", are_services=False
    ),
    "sql/formats.md": _formats,
}


if __name__ == "__main__":
    for path, text_of in PAGES.items():
        page = Path(sys.argv[1], path)
        page.parent.mkdir(exist_ok=True)
        page.write_text(text_of(), encoding="utf-8")
