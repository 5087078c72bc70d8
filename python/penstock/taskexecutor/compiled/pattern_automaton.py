# cython: annotation_typing=False, boundscheck=True, binding=False
# The C types come from pattern_automaton.pxd; the annotations below are for readers and mypy.
"""The automaton of a pattern: states, edges and the conditions of edges.

One source with two uses; see ``operator_loop``.
"""

from __future__ import annotations

from typing import Any

#: Actions of edges.
TAKE = 0
IGNORE = 1
PROCEED = 2

#: Kinds of conditions.
CALL = 0
NOT = 1
AND = 2
OR = 3
NEVER = 4


class MatchCondition:
    """A condition of an edge: a call, or a combination of conditions."""

    def __init__(self, kind: int, index: int, left: Any, right: Any) -> None:
        """Create the condition.

        Args:
            kind: ``CALL``, ``NOT``, ``AND``, ``OR`` or ``NEVER``.
            index: Of a call, the index of the function.
            left: The first condition of a combination.
            right: The second one of ``AND`` and ``OR``.
        """
        self.kind = kind
        self.index = index
        self.left: MatchCondition = left
        self.right: MatchCondition = right


class MatchState:
    """A state of the automaton."""

    def __init__(self, index: int, name: str, label: str, kind: str, window_ms: int) -> None:
        """Create the state without edges.

        Args:
            index: Its position among the states.
            name: A unique name.
            label: The key of its records in matches.
            kind: "normal", "final", "stop" or "pending".
            window_ms: The longest time since the previous record; 0 for no limit.
        """
        self.index = index
        self.name = name
        self.label = label
        self.is_final = kind == "final"
        self.is_stop = kind == "stop"
        self.is_pending = kind == "pending"
        self.window_ms = window_ms
        self.edges: list[MatchEdge] = []
        #: Whether the final state may be reached without another record.
        self.may_end = False


class MatchEdge:
    """An edge of the automaton; the condition None is always true."""

    def __init__(self, action: int, target: MatchState, condition: MatchCondition | None) -> None:
        """Create the edge.

        Args:
            action: ``TAKE``, ``IGNORE`` or ``PROCEED``.
            target: The next state.
            condition: A MatchCondition or None.
        """
        self.action = action
        self.target = target
        self.condition: MatchCondition | None = condition
