"""Plans as text, for ``explain``."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from penstock.table.connectors.interfaces import TableSource
from penstock.table.explain_detail import ExplainDetail
from penstock.table.plan import nodes as n
from penstock.table.plan.changelog import (
    Changelog,
    kinds_text,
    shown_with_new_rows_only,
    unread_by_tables,
)
from penstock.table.plan.translation import translate
from penstock.table.planning.job import TableJobs, check_changes
from penstock.table.planning.pruning import pruned
from penstock.table.planning.sharing import consumers

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from penstock.table.plan.nodes import Node
    from penstock.table.plan.operator_building import TranslationContext


def explained(jobs: TableJobs, nodes: Sequence[Node], details: Sequence[Any]) -> str:
    """Format the plans of relations and insertions.

    Raises:
        TableException: A plan cannot be run.
    """
    context = jobs.context(jobs.environment())
    is_streaming = context.is_streaming
    shows_kinds = ExplainDetail.CHANGELOG_MODE in details or "CHANGELOG_MODE" in details
    _check(context, nodes)
    plain = "\n".join(n.explain_tree(node) for node in nodes)
    plans = pruned(nodes, is_streaming=is_streaming, settings=context.settings)
    sinks = [node for node in plans if isinstance(node, n.Sink)]
    short = unread_by_tables((sink, sink.input) for sink in sinks)
    for query in plans:
        if not isinstance(query, n.Sink):
            short += shown_with_new_rows_only(query)
    changelog = Changelog(is_streaming=is_streaming, new_rows_only=short)
    trees = _Trees(changelog if shows_kinds else None)
    physical = "\n".join(trees.text(node) for node in plans)
    parts = [
        ("Abstract Syntax Tree", plain),
        ("Optimized Physical Plan", physical),
        ("Optimized Execution Plan", trees.with_reuse(plans)),
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


class _Trees:
    """Formats plans as trees.

    Args:
        changelog: The changelog from which each line shows the kinds of its rows; None to show no
            kinds.
    """

    def __init__(self, changelog: Changelog | None) -> None:
        self._changelog = changelog

    def text(self, node: Node) -> str:
        """Return the whole tree of a plan."""
        return "\n".join(self._lines(node, 0, {}, set()))

    def with_reuse(self, plans: Sequence[Node]) -> str:
        """Return the trees of plans, in which a shared node appears once and is then referenced.

        As in Flink, a node that several plans share has a tree of its own.
        """
        counts = consumers(plans)
        owners: Counter[int] = Counter()
        found: dict[int, Node] = {}
        for plan in plans:
            below: dict[int, Node] = {}
            _collect(plan, below)
            owners.update(below.keys())
            found |= below
        shared = [key for key in found if counts[key] > 1]
        numbers = {key: number for number, key in enumerate(shared, 1)}
        apart = [found[key] for key in shared if owners[key] > 1]
        shown = set(map(id, apart))
        # The inputs of a node are printed before it.
        roots = [*sorted(apart, key=_height), *plans]
        return "\n".join("\n".join(self._lines(root, 0, numbers, shown)) for root in roots)

    def _lines(
        self, node: Node, depth: int, numbers: Mapping[int, int], shown: set[int]
    ) -> list[str]:
        prefix = "" if depth == 0 else "   " * (depth - 1) + "+- "
        number = numbers.get(id(node))
        if number is not None and depth > 0 and id(node) in shown:
            return [f"{prefix}Reused(reference_id=[{number}])"]
        shown.add(id(node))
        line = f"{prefix}{node.describe()}"
        if self._changelog is not None:
            kinds = self._changelog.kinds(node.input if isinstance(node, n.Sink) else node)
            line = f"{line[:-1]}, changelogMode=[{kinds_text(kinds)}])"
        lines = [line if number is None else f"{line}(reuse_id=[{number}])"]
        for child in node.inputs:
            lines += self._lines(child, depth + 1, numbers, shown)
        return lines


def _collect(node: Node, found: dict[int, Node]) -> None:
    """Collect the nodes of a plan by ``id``, each before its inputs."""
    if id(node) not in found:
        found[id(node)] = node
        for child in node.inputs:
            _collect(child, found)


def _height(node: Node) -> int:
    return 1 + max(map(_height, node.inputs), default=0)


def _check(context: TranslationContext, nodes: Sequence[Node]) -> None:
    """Translate plans into an environment that is never executed, to check that they can run."""
    for node in nodes:
        if isinstance(node, n.Sink):
            check_changes(node.input, node.kinds, node.name, is_streaming=context.is_streaming)
            translate(node.input, context)
        else:
            translate(node, context)
