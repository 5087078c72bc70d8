"""Plans as text, for ``explain``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.table.connectors.interfaces import TableSource
from penstock.table.explain_detail import ExplainDetail
from penstock.table.job import TableJobs, check_changes
from penstock.table.plan import nodes as n
from penstock.table.plan.changelog import Changelog, kinds_text
from penstock.table.plan.translation import translate
from penstock.table.pruning import pruned

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from penstock.table.plan.nodes import Node
    from penstock.table.plan.operator_building import TranslationContext


def explained(jobs: TableJobs, nodes: Sequence[Node], details: Sequence[Any]) -> str:
    """Format the plans of relations and insertions.

    Raises:
        TableException: A plan cannot be run.
    """
    context = jobs.context(jobs.environment())
    is_streaming = context.is_streaming
    changelog = Changelog(is_streaming=is_streaming)
    shows_kinds = ExplainDetail.CHANGELOG_MODE in details or "CHANGELOG_MODE" in details
    _check(context, nodes)
    plain = "\n".join(n.explain_tree(node) for node in nodes)
    plans = pruned(nodes, is_streaming=is_streaming)
    physical = "\n".join(_tree(node, changelog, shows_kinds=shows_kinds, depth=0) for node in plans)
    parts = [
        ("Abstract Syntax Tree", plain),
        ("Optimized Physical Plan", physical),
        ("Optimized Execution Plan", plain),
    ]
    sources = sorted({text for node in plans for text in _sources(node)})
    if sources:
        parts.append(("Sources", "\n".join(sources)))
    return "\n".join(f"== {title} ==\n{text}\n" for title, text in parts)


def _sources(node: Node) -> Iterator[str]:
    """Yield a line for each scan whose source has several ways to read."""
    if isinstance(node, n.Scan):
        text = node.source.explanation() if isinstance(node.source, TableSource) else None
        if text is not None:
            yield f"{node.name}: {text}"
    for child in node.inputs:
        yield from _sources(child)


def _tree(node: Node, changelog: Changelog, *, shows_kinds: bool, depth: int) -> str:
    prefix = "" if depth == 0 else "   " * (depth - 1) + "+- "
    line = f"{prefix}{node.describe()}"
    if shows_kinds:
        kinds = changelog.kinds(node.input if isinstance(node, n.Sink) else node)
        line = f"{line[:-1]}, changelogMode=[{kinds_text(kinds)}])"
    children = [
        _tree(child, changelog, shows_kinds=shows_kinds, depth=depth + 1) for child in node.inputs
    ]
    return "\n".join([line, *children])


def _check(context: TranslationContext, nodes: Sequence[Node]) -> None:
    """Translate plans into an environment that is never executed, to check that they can run."""
    for node in nodes:
        if isinstance(node, n.Sink):
            check_changes(node.input, node.kinds, node.name, is_streaming=context.is_streaming)
            translate(node.input, context)
        else:
            translate(node, context)
