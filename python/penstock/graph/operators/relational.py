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
        settings: The arguments of the operator, by name.
        exchanged: By input, the positions of the columns by which batches were partitioned; empty
            if no input was.
    """

    kind: str
    settings: dict[str, Any]
    exchanged: tuple[tuple[int, ...], ...] = ()
