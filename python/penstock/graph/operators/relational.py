"""Operators of SQL and the Table API, whose records are batches of columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penstock.graph.operators.descriptor import OperatorDescriptor


@dataclass(frozen=True)
class Relational(OperatorDescriptor):
    """An operator of a relational plan.

    Attributes:
        kind: The name of the operator in ``penstock.taskexecutor.operators.relational``.
        settings: What it does, by the names that it knows.
    """

    kind: str
    settings: dict[str, Any]
