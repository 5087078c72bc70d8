"""StoredPlan: the content of a compiled plan, and its form in JSON."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any, Final

from penstock import __version__
from penstock.table.exceptions import TableException

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT: Final = 1
"""The version of the form that this version of penstock writes."""

_KINDS: Final[dict[str, type]] = {"str": str, "tuple": list, "Mapping": dict}


@dataclass(frozen=True)
class StoredPlan:
    """A statement with everything that decides its operators.

    Attributes:
        statement: The INSERT or the statement set.
        mode: ``STREAMING`` or ``BATCH``.
        catalog: The current catalog.
        database: The current database.
        options: The table options that were set, by key.
        tables: The tables: their names, and for those of a catalog the statement that creates them.
        views: The views: their names, queries and columns, and the catalog and database of each.
        functions: The functions of catalogs: their names, classes and languages.
        operators: The ids of the operators with state, sources and sinks among them.
        version: The version of penstock that compiled the plan.
    """

    statement: str
    mode: str
    catalog: str
    database: str
    options: Mapping[str, str]
    tables: tuple[Mapping[str, Any], ...]
    views: tuple[Mapping[str, Any], ...]
    functions: tuple[Mapping[str, Any], ...]
    operators: tuple[str, ...]
    version: str = __version__

    def to_json(self) -> str:
        """Return the plan as text in JSON."""
        content = {"format": FORMAT, "version": self.version, **asdict(self)}
        return json.dumps(content, indent=2, ensure_ascii=False)

    @staticmethod
    def from_json(text: str, origin: str) -> StoredPlan:
        """Return the plan of a text.

        Args:
            text: The text.
            origin: The name of the text, for messages.

        Raises:
            TableException: The text is not a plan that this version of penstock reads.
        """
        try:
            content = json.loads(text)
        except ValueError as error:
            raise TableException(
                f"{origin} is not a compiled plan: invalid JSON: {error}"
            ) from None
        if not isinstance(content, dict):
            raise TableException(f"{origin} is not a compiled plan: expected an object in JSON")
        if "flinkVersion" in content:
            raise TableException(
                f"{origin} is a plan of Flink {content['flinkVersion']}, which has Flink's "
                "operators: compile the statement again, with COMPILE PLAN or compile_plan_sql"
            )
        if content.pop("format", None) != FORMAT:
            raise TableException(
                f"{origin} is not a compiled plan of format {FORMAT}, which penstock "
                f"{__version__} reads: it was compiled by penstock "
                f"{content.get('version', 'of an unknown version')}; compile the statement again"
            )
        found: dict[str, Any] = {}
        for field in fields(StoredPlan):
            kind = _KINDS[str(field.type).partition("[")[0]]
            value = content.pop(field.name, None)
            if not isinstance(value, kind):
                raise TableException(
                    f"{origin} is not a complete plan: {field.name!r} is {value!r}; compile the "
                    "statement again"
                )
            found[field.name] = tuple(value) if isinstance(value, list) else value
        if content:
            raise TableException(f"{origin} has unknown parts: {', '.join(sorted(content))}")
        return StoredPlan(**found)
