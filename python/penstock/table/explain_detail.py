"""ExplainDetail: additional output of ``explain``."""

from __future__ import annotations

__all__ = ["ExplainDetail"]


class ExplainDetail:
    """Details that ``explain`` can add."""

    ESTIMATED_COST = 0
    CHANGELOG_MODE = 1
    JSON_EXECUTION_PLAN = 2
    PLAN_ADVICE = 3
