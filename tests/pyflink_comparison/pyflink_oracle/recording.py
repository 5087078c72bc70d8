"""The recorded outcomes as files: cases by outcome, since most cases share theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent / "recorded"


def save(name: str, content: dict[str, Any]) -> None:
    """Write a file, one line for an outcome."""
    lines = [f"{json.dumps(key)}: {json.dumps(value)}" for key, value in content.items()]
    (FOLDER / name).write_text("{\n" + ",\n".join(lines) + "\n}\n")


def load(name: str) -> dict[str, Any]:
    """Read a file."""
    content: dict[str, Any] = json.loads((FOLDER / name).read_text())
    return content


def by_outcome(outcomes: dict[str, str]) -> dict[str, list[str]]:
    """Return the cases of each outcome."""
    cases: dict[str, list[str]] = {}
    for case, outcome in outcomes.items():
        cases.setdefault(outcome, []).append(case)
    return cases


def by_case(cases: dict[str, list[str]]) -> dict[str, str]:
    """Return the inverse of `by_outcome`."""
    return {case: outcome for outcome, names in cases.items() for case in names}
