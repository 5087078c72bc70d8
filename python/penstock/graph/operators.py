"""What an operator does, as data: a kind, the user's function and its arguments.

The graph never runs an operator.  The API describes one with an `OperatorDescriptor`, and the
TaskExecutor builds the operator of that kind when the chain that holds it is deployed.

Sources: `collection_source`, `number_sequence_source`, `socket_text_source`, `file_source`,
`hybrid_source`, `source_function`, `split_source`, `iteration_head`.

One input: `map`, `flat_map`, `filter`, `process`, `keyed_process`, `reduce`, `aggregate_field`,
`window`, `watermarks`, `async_wait`, `project`, `key_extract`.

Sinks: `sink_function`, `print_sink`, `file_sink`, `collect_sink`, `sink_writer`,
`discarding_sink`, `iteration_tail`; behind those that commit, `sink_committer`, `file_committer`.

Two inputs: `co_map`, `co_flat_map`, `co_process`, `keyed_co_process`, `broadcast_process`,
`keyed_broadcast_process`, `interval_join`.

Any number of inputs: `multiple_input_process`, `keyed_multiple_input_process`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Kinds whose operator hands control back to the mailbox while it waits; they must not share a
#: thread with a source that never returns to the mailbox.
YIELDING_KINDS: Final = frozenset({"async_wait"})


@dataclass(frozen=True)
class OperatorDescriptor:
    """One operator as data.

    Attributes:
        kind: What to build; a connector may bring kinds beyond those listed above, as long as
            its TaskExecutor side knows them.
        function: The user's function or Function object, or None when the kind needs none.
        arguments: Everything else the kind needs (positions, assigners, addresses, …).
    """

    kind: str
    function: object | None = None
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_coordinated(self) -> bool:
        """Whether a part of the operator runs once per job, beside the JobMaster."""
        strategy = self.arguments.get("watermark_strategy")
        return self.kind == "split_source" or getattr(strategy, "alignment", None) is not None

    @property
    def is_yielding(self) -> bool:
        """Whether the operator yields to the mailbox while it waits for its own results."""
        return self.kind in YIELDING_KINDS
