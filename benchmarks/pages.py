"""Write docs/benchmarks only from the measured results: python benchmarks/pages.py.

Each file in ``benchmarks/results`` becomes a page with the command, the date, the commit, the
machine and the versions of other engines, the unchanged rows, and those in which penstock loses.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from statistics import geometric_mean
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
RESULTS = ROOT / "benchmarks" / "results"
PAGES = ROOT / "docs" / "benchmarks"

#: What each file of results names.
FACTS = ("command", "date", "commit", "machine")
#: penstock's own forms of a query.
OWN_FORMS = {"plain", "expressions", "sql"}
#: Rows with the same value of one of these compare engines.
GROUPS = ("workload", "query", "moved")
SMALLER_IS_BETTER = {"ns", "us", "µs", "ms", "s", "B", "KiB", "MiB", "MB"}


def pages() -> dict[str, str]:
    """Return the text of each page by its name."""
    written = {}
    index = [
        "# Benchmarks",
        "",
        "`make bench-pages` writes these pages from `benchmarks/results/*.json` alone.",
        "Each page names the command, the date, the commit, the machine and the versions of other "
        "engines.",
        "[The benchmarks](../../benchmarks/README.md) describes what is measured and how to "
        "compare.",
        "",
        "| results | rows | rows in which penstock loses or misses a goal |",
        "|---|---|---|",
    ]
    for path in sorted(RESULTS.glob("*.json")):
        document = json.loads(path.read_text())
        if missing := [fact for fact in FACTS if not document.get(fact)]:
            raise SystemExit(f"{path} does not name {missing}: measure it again")
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
    for fact in FACTS:
        yield f"- {fact}: `{listed(document[fact])}`"
    if document.get("peers"):
        peers = "; ".join(f"{name}: {version}" for name, version in document["peers"].items())
        yield f"- other engines: `{peers}`"
    if document.get("load_average"):
        before, after = document["load_average"]
        yield f"- load average before and after: {before:.1f}, {after:.1f}"
    yield ""
    rows = document["rows"]
    if "query" in rows[0]:
        yield "Million events a second, and the CPU time of an event in ns."
        yield ""
        rows = by_query(rows)
    keys = dict.fromkeys(key for row in rows for key in row)
    columns = [key for key in keys if any(row.get(key) is not None for row in rows)]
    yield "| " + " | ".join(columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(cell(row.get(column)) for column in columns) + " |"
    if compared := list(beside_flink(document["rows"])):
        yield ""
        yield "The forms of penstock beside Flink, over the queries that both have run:"
        yield ""
        yield from compared
    if lost:
        yield ""
        yield "## Where penstock loses or misses a goal"
        yield ""
        if "query" in document["rows"][0]:
            yield "The fastest form of penstock counts."
            yield ""
        yield from (f"- {text}" for text in lost)
    yield ""


def listed(fact: str | dict[str, Any]) -> str:
    """Return a fact as text."""
    if isinstance(fact, str):
        return fact
    return ", ".join(f"{key} {value}" for key, value in fact.items())


def by_query(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return a row for each query, with a column for each engine."""
    engines = list(dict.fromkeys(row["engine"] for row in rows))
    found: dict[str, dict[str, Any]] = {}
    for row in rows:
        columns = found.setdefault(
            row["query"], {"query": row["query"]} | dict.fromkeys(engines, "")
        )
        if row["events_per_s"] is not None:
            cost = row["cpu_ns_per_event"]
            columns[row["engine"]] = f"{row['events_per_s'] / 1e6:.2f}" + (
                "" if cost is None else f", {cost:,.0f}\N{NO-BREAK SPACE}ns"
            )
        else:
            columns[row["engine"]] = "failed" if row["failure"] else "not measured"
    return list(found.values())


def beside_flink(rows: list[dict[str, Any]]) -> Iterator[str]:
    """Yield, for each form of a query, its rates as multiples of Flink's."""
    rates: dict[str, dict[str, float]] = {}
    for row in rows:
        if row.get("events_per_s"):
            rates.setdefault(row["engine"], {})[row["query"]] = row["events_per_s"]
    flink = rates.get("flink", {})
    for form in (form for form in rates if form in OWN_FORMS):
        times = {
            query: rates[form][query] / flink[query] for query in rates[form] if query in flink
        }
        if times:
            least = min(times, key=lambda query: times[query])
            yield (
                f"- {form}: {geometric_mean(times.values()):.2f} times Flink's rate, the geometric "
                f"mean of {len(times)} queries; at least {times[least]:.2f} ({least})"
            )


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
        if is_missed(row):
            found.append(
                f"{row['name']}: {cell(row['value'])} {row['unit']}, not {cell(row['goal'])}"
            )
        elif row.get("flink") is not None and "value" in row:
            best = min if row["unit"] in SMALLER_IS_BETTER else max
            if best(row["flink"], row["value"]) != row["value"]:
                found.append(
                    f"{row['name']}: {cell(row['value'])} {row['unit']}, Flink {cell(row['flink'])}"
                )
    groups = {row[key] for row in rows for key in GROUPS if key in row}
    for group in sorted(
        groups, key=lambda name: [part.zfill(9) for part in re.split(r"(\d+)", name)]
    ):
        rates = [
            (rate, row["engine"])
            for row in rows
            if group in (row.get(key) for key in GROUPS)
            and (rate := row.get("rate") or row.get("events_per_s") or row.get("value"))
        ]
        own = [rate for rate, engine in rates if is_own(engine)]
        found += [
            f"{group}: {engine} handles {cell(rate / max(own))} times as many records a second"
            for rate, engine in rates
            if own and not is_own(engine) and rate > max(own)
        ]
    found += [
        f"{row['query']}: no rate of {row['engine']}, {row['failure'].splitlines()[0]}"
        for row in rows
        if row.get("failure") and is_own(row["engine"])
    ]
    return found


def is_missed(row: dict[str, Any]) -> bool:
    """Return whether a row misses its goal, which is a maximum if the row has no verdict."""
    if row.get("goal") is None or row.get("value") is None:
        return False
    met: bool | None = row.get("met")
    return row["value"] > row["goal"] if met is None else not met


def is_own(engine: str) -> bool:
    """Return whether an engine is penstock."""
    return engine.startswith("penstock") or engine in OWN_FORMS


if __name__ == "__main__":
    PAGES.mkdir(exist_ok=True)
    for name, text in pages().items():
        (PAGES / name).write_text(text)
