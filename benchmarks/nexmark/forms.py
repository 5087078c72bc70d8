"""The queries of penstock by their form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nexmark import expressions, plain, plain_joins
from nexmark.results import QUERIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from nexmark.tables import Tables
    from penstock.datastream.data_stream import DataStream

FORMS: dict[str, dict[str, Callable[[Tables], DataStream[Any]]]] = {
    "plain": {
        name: getattr(plain if hasattr(plain, name) else plain_joins, name) for name in QUERIES
    },
    "expressions": {
        name: getattr(expressions, name) for name in QUERIES if hasattr(expressions, name)
    },
}
