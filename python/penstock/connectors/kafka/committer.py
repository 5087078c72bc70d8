"""Commits the transactions of checkpoints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.connectors.committer import CommitRequest, Committer
from penstock.connectors.kafka.transactions import TransactionEndedError, Transactions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.connectors.kafka.descriptions import SinkDescription


class KafkaCommitter(Committer[Any]):
    """Commits by name, producer and epoch: who wrote may be gone."""

    def __init__(self, sink: SinkDescription) -> None:
        """Connects at the first commit."""
        self._transactions = Transactions(sink.settings, sink.max_block_s)

    def commit(self, requests: Sequence[CommitRequest[Any]]) -> None:
        """Commits one transaction after the other."""
        for request in requests:
            try:
                self._transactions.commit(request.get_committable())
            except TransactionEndedError as error:
                # It can never be committed, so that failing would end the job for good.
                request.signal_failed_with_known_reason(error)

    def close(self) -> None:
        """Ends the connections."""
        self._transactions.close()
