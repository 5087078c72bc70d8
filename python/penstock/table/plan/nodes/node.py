"""Node: a relation, with the shapes of nodes that have one input or two."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.table.plan.schema import Schema


@dataclass(frozen=True)
class Node:
    """A relation.

    Attributes:
        schema: The columns of the relation.
    """

    schema: Schema

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The nodes that this one reads."""
        return ()

    def describe(self) -> str:
        """Return the node's line in ``explain()``, without its inputs."""
        return type(self).__name__


@dataclass(frozen=True)
class OneInput(Node):
    """A node with one input."""

    input: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The single input."""
        return (self.input,)


@dataclass(frozen=True)
class TwoInputs(Node):
    """A node with two inputs."""

    left: Node
    right: Node

    @property
    def inputs(self) -> tuple[Node, ...]:
        """The left and the right input."""
        return (self.left, self.right)


def explain_tree(node: Node, depth: int = 0) -> str:
    """Format a node and its inputs as lines; inputs are indented."""
    prefix = "" if depth == 0 else "   " * (depth - 1) + "+- "
    lines = [f"{prefix}{node.describe()}"]
    lines.extend(explain_tree(child, depth + 1) for child in node.inputs)
    return "\n".join(lines)
