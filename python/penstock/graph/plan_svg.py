"""A picture of a job as SVG: a box per vertex with its chained operators, an arrow per edge.

Vertices stand in columns by their distance from the sources, so that data flows from left to right.
Text is measured by a fixed width per character, which is exact for the monospaced font that the
picture requests.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from penstock.graph.job_graph import JobGraph, JobVertex

_CHARACTER: Final = 7.3
_LINE: Final = 16
_PADDING: Final = 10
_COLUMN_GAP: Final = 110
_ROW_GAP: Final = 24
_MARGIN: Final = 12
_MAX_CHARACTERS: Final = 40

# Every rule names the picture, because a notebook has one style for all its outputs.
_STYLE: Final = " ".join(
    f".penstock-plan {rule}"
    for rule in (
        "text{font:12px monospace;fill:#222}",
        ".box{fill:#f5f7fa;stroke:#5b6b7f;rx:4}",
        ".edge{fill:none;stroke:#5b6b7f;marker-end:url(#penstock-arrow)}",
        ".facts{fill:#5b6b7f}",
        ".ship{fill:#5b6b7f;text-anchor:middle;font-size:10px}",
    )
)


@dataclass
class _Box:
    vertex: JobVertex
    lines: list[str]
    facts: str
    x: float = 0
    y: float = 0

    @property
    def width(self) -> float:
        longest = max(len(text) for text in (*self.lines, self.facts))
        return longest * _CHARACTER + 2 * _PADDING

    @property
    def height(self) -> float:
        return (len(self.lines) + 1) * _LINE + 2 * _PADDING


def plan_svg(job: JobGraph) -> str:
    """Return the picture of a job, whose vertices are in topological order."""
    boxes = {id_: _box(vertex) for id_, vertex in job.vertices.items()}
    width, height = _place(job, boxes)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" role="img" class="penstock-plan">',
        f"<title>{escape(job.name)}</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="penstock-arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" '
        'markerHeight="8" orient="auto"><path d="M0 0L8 4L0 8z" fill="#5b6b7f"/></marker></defs>',
    ]
    producers = {d.id: boxes[v.id] for v in job.vertices.values() for d in v.produced}
    for box in boxes.values():
        parts.extend(
            _arrow(producers[edge.dataset_id], box, edge.ship_strategy, number)
            for number, edge in enumerate(box.vertex.inputs)
        )
    for box in boxes.values():
        parts.extend(_draw(box))
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def _box(vertex: JobVertex) -> _Box:
    names = [operator.name for operator in vertex.operators] or [vertex.name]
    return _Box(vertex, [_shorten(name) for name in names], f"parallelism {vertex.parallelism}")


def _shorten(text: str) -> str:
    return text if len(text) <= _MAX_CHARACTERS else text[: _MAX_CHARACTERS - 1] + "…"


def _place(job: JobGraph, boxes: dict[bytes, _Box]) -> tuple[float, float]:
    """Set the position of each box and return the size of the picture."""
    producer_of = {d.id: v.id for v in job.vertices.values() for d in v.produced}
    column: dict[bytes, int] = {}
    columns: list[list[_Box]] = []
    for id_, vertex in job.vertices.items():
        before = (column[producer_of[edge.dataset_id]] for edge in vertex.inputs)
        column[id_] = max(before, default=-1) + 1
        if column[id_] == len(columns):
            columns.append([])
        columns[column[id_]].append(boxes[id_])
    x, height = float(_MARGIN), 0.0
    for members in columns:
        y = float(_MARGIN)
        for box in members:
            box.x, box.y = x, y
            y += box.height + _ROW_GAP
        x += max(box.width for box in members) + _COLUMN_GAP
        height = max(height, y - _ROW_GAP + _MARGIN)
    return x - _COLUMN_GAP + _MARGIN, height


def _draw(box: _Box) -> list[str]:
    parts = [
        f"<g><title>{escape(box.vertex.name)}</title>",
        f'<rect class="box" x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" '
        f'height="{box.height:.1f}"/>',
    ]
    for number, text in enumerate((*box.lines, box.facts)):
        kind = "facts" if number == len(box.lines) else "name"
        y = box.y + _PADDING + (number + 0.75) * _LINE
        parts.append(
            f'<text class="{kind}" x="{box.x + _PADDING:.1f}" y="{y:.1f}">{escape(text)}</text>'
        )
    parts.append("</g>")
    return parts


def _arrow(source: _Box, target: _Box, label: str, number: int) -> str:
    x1, y1 = source.x + source.width, source.y + source.height / 2
    # The arrows into one box end one below another, in the order of its inputs.
    x2 = target.x
    y2 = target.y + target.height * (number + 1) / (len(target.vertex.inputs) + 1)
    bend = (x1 + x2) / 2
    return (
        f'<path class="edge" d="M{x1:.1f} {y1:.1f}C{bend:.1f} {y1:.1f} {bend:.1f} {y2:.1f} '
        f'{x2:.1f} {y2:.1f}"/>'
        f'<text class="ship" x="{bend:.1f}" y="{(y1 + y2) / 2 - 4:.1f}">{escape(label)}</text>'
    )
