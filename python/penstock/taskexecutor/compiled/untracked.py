"""Containers that the garbage collector need not traverse.

``penstock._native.operators.untracked`` is the native twin.
"""

from __future__ import annotations


def untrack(container: object) -> None:
    """Hide a list, tuple or dictionary of an operator's state from the garbage collector.

    The state of many keys is many containers that live for long, and each collection would
    traverse them in vain: only the operator refers to them, so that they are in no cycle.  Values
    that users made may be parts of cycles, and stay tracked.

    A dictionary is tracked again when a container is added to it.  In plain Python, the collector
    sees all containers.
    """
