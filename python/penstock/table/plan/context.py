"""Context of planning: tables, functions, settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.table.functions.evaluation import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.table.plan.nodes import Node


def _no_function(path: tuple[str, ...]) -> None:
    """Find no user functions."""
    del path


@dataclass
class PlanningContext:
    """Context in which a query is planned.

    Attributes:
        find_table: Returns the node of a table or view by the parts of its name, with the options
            of a hint; None if it does not exist.
        find_function: Returns the wrapper of a user function by the parts of its name, or None.
        full_path: Returns the catalog, the database and the name of a table by the parts of its
            name, which may qualify columns.
        list_tables: Returns the names of tables, for hints in errors.
        is_streaming: Whether the query runs in streaming mode.
        session: Settings on which results depend.
        text: The text of the statement, for errors; empty for the Table API.
        settings: The options of the table configuration.
    """

    find_table: Callable[[tuple[str, ...], Mapping[str, str] | None], Node | None]
    find_function: Callable[[tuple[str, ...]], Any] = _no_function
    full_path: Callable[[tuple[str, ...]], tuple[str, ...]] = tuple
    list_tables: Callable[[], list[str]] = list
    is_streaming: bool = True
    session: Session = field(default_factory=Session)
    text: str = ""
    settings: Mapping[str, str] = field(default_factory=dict)
