"""Write docs/benchmarks only from the measured results: python benchmarks/pages.py.

Each file in ``benchmarks/results`` becomes a page with the command, the machine and the commit that
it names, the unchanged rows, and those in which penstock loses.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ROOT / "docs" / "benchmarks"

#: The commands of results that name none.
COMMANDS = {
    "backpressure": "make bench-backpressure",
    "checkpoints": "make bench-checkpoints",
    "connectors": "make bench-connectors",
    "control_plane": "make bench-control-plane",
    "dashboard": "make bench-dashboard",
    "network": "make bench-network",
    "nexmark": "make bench-nexmark",
    "sorting": "python benchmarks/sorting.py",
    "workers": "make bench-workers",
    "workloads": "make bench-workloads",
}
SMALLER_IS_BETTER = {"ns", "us", "µs", "ms", "s", "B", "KiB", "MiB", "MB"}


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    written = {}
    index = [
        "# Benchmarks",
        "",
        "`make bench-pages` writes these pages from `benchmarks/results/*.json` alone.",
        "Each page names the command, and the machine and commit if they were recorded.",
        "[The benchmarks](../../benchmarks/README.md) describes what is measured and how to "
        "compare.",
        "",
        "| results | rows | rows in which penstock loses or misses a goal |",
        "|---|---|---|",
    ]
    for path in sorted(RESULTS.glob("*.json")):
        document = json.loads(path.read_text())
        if isinstance(document, list):
            document = {"rows": document}
        if isinstance(document["rows"], dict):
            document["rows"] = [{"name": name} | row for name, row in document["rows"].items()]
        lost = losses(document["rows"])
        title = path.stem.replace("_", " ").capitalize()
        written[f"{path.stem}.md"] = "\n".join(page(path.stem, title, document, lost))
        index.append(f"| [{title}]({path.stem}.md) | {len(document['rows'])} | {len(lost)} |")
    return {"README.md": "\n".join(index) + "\n", **written}


def page(name: str, title: str, document: dict[str, Any], lost: list[str]) -> Iterator[str]:
    """Yield the lines of a page."""
    yield f"# {title}"
    yield ""
    facts = {"command": document.get("command") or COMMANDS[name]}
    facts |= {key: document.get(key) for key in ("date", "commit")}
    machine = document.get("machine")
    facts["machine"] = machine and ", ".join(f"{key} {value}" for key, value in machine.items())
    for key, value in facts.items():
        yield f"- {key}: {f'`{value}`' if value else 'not recorded'}"
    yield ""
    rows = document["rows"]
    columns = [key for key in rows[0] if any(row.get(key) is not None for row in rows)]
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(cell(row.get(column)) for column in columns) + " |"
    if lost:
        yield ""
        yield "## Where penstock loses or misses a goal"
        yield ""
        yield from (f"- {text}" for text in lost)
    yield ""


def cell(value: Any) -> str:
    """Return a value as the text of a cell, numbers with four digits."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return ", ".join(f"{key} {cell(inner)}" for key, inner in value.items())
    if isinstance(value, int | float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return str(value).replace("|", "\\|")


def losses(rows: list[dict[str, Any]]) -> list[str]:
    """Return the rows whose goal is missed or in which another engine is faster."""
    found = []
    for row in rows:
        if row.get("met") is False:
            found.append(
                f"{row['name']}: {cell(row['value'])} {row['unit']}, not {cell(row['goal'])}"
            )
        elif row.get("flink") is not None and "value" in row:
            best = min if row["unit"] in SMALLER_IS_BETTER else max
            if best(row["flink"], row["value"]) != row["value"]:
                found.append(
                    f"{row['name']}: {cell(row['value'])} {row['unit']}, Flink {cell(row['flink'])}"
                )
    for group in sorted({row[key] for row in rows for key in ("workload", "query") if key in row}):
        rates = [
            (row["rate"], row["engine"])
            for row in rows
            if group in (row.get("workload"), row.get("query")) and row.get("rate")
        ]
        own = [rate for rate, engine in rates if engine.startswith("penstock")]
        found += [
            f"{group}: {engine} handles {cell(rate / max(own))} times as many records a second"
            for rate, engine in rates
            if own and not engine.startswith("penstock") and rate > max(own)
        ]
    return found


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PAGES / name).write_text(text)
