"""Commits the transactions of checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.committer import CommitRequest, Committer
from penstock.connectors.kafka.transactions import TransactionEndedError, Transactions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.connectors.kafka.descriptions import SinkDescription


class KafkaCommitter(Committer[Any]):
    """Commits by transactional id, producer and epoch: the writer's process may have ended."""

    def __init__(self, sink: SinkDescription) -> None:
        """Create a committer, which connects at the first commit."""
        self._transactions = Transactions(sink.settings, sink.max_block_s)

    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        """Commit the transactions one after the other."""
        for request in requests:
            try:
                self._transactions.commit(request.get_committable())
            except TransactionEndedError as error:
                # It can never be committed: failing here would fail every restart of the job.
                request.signal_failed_with_known_reason(error)

    def close(self) -> None:
        """End the connections."""
        self._transactions.close()
