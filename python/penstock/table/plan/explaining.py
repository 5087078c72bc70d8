"""Plans as text, for ``explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.plan.changelog import Changelog, kinds_text
from penstock.table.plan.rules import check, optimized

if TYPE_CHECKING:
    from penstock.table.plan.nodes import Node


def explained(node: Node, *, is_streaming: bool, with_changelog: bool = False) -> str:
    """Format the tree of a plan as it runs, with a line for each node.

    Args:
        node: The plan.
        is_streaming: Whether results are updated as input arrives.
        with_changelog: Whether each line includes the row kinds that the node emits.

    Raises:
        TableException: The plan cannot run in this mode.
    """
    node = optimized(node, is_streaming=is_streaming)
    check(node, is_streaming=is_streaming)
    changelog = Changelog(is_streaming=is_streaming) if with_changelog else None
    return "\n".join(_lines(node, 0, changelog))


def _lines(node: Node, depth: int, changelog: Changelog | None) -> list[str]:
    prefix = "" if depth == 0 else "   " * (depth - 1) + "+- "
    line = node.describe()
    if changelog is not None and line.endswith(")"):
        line = f"{line[:-1]}, changelogMode=[{kinds_text(changelog.kinds(node))}])"
    lines = [prefix + line]
    for child in node.inputs:
        lines.extend(_lines(child, depth + 1, changelog))
    return lines
