"""Sink functions that write in transactions of an external system (beyond PyFlink).

They are Flink's older interface; prefer a `PythonSink` with `SupportsCommitter` for new sinks.
"""

from __future__ import annotations

import logging
import time
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.common.typeinfo import Types
from penstock.datastream.functions.checkpointed import CheckpointedFunction, CheckpointListener
from penstock.datastream.functions.source_sink import SinkFunction
from penstock.datastream.state import ListStateDescriptor
from penstock.errors import InvalidProgramError, SinkError
from penstock.serialization.versioned_form import VersionedForm

if TYPE_CHECKING:
    from collections.abc import Iterable

    from penstock.datastream.functions.checkpointed import (
        StateInitializationContext,
        StateSnapshotContext,
    )

__all__ = ["CommittingSinkFunction", "TwoPhaseCommitSinkFunction"]

logger = logging.getLogger(__name__)

TxnT = TypeVar("TxnT")

_FORM: Final = VersionedForm(
    "the state of a TwoPhaseCommitSinkFunction", ("current", "pending", "user_context")
)

#: A transaction and its start time, in ms of the wall clock.
_Holder = tuple[Any, int]


class CommittingSinkFunction(SinkFunction, CheckpointedFunction, CheckpointListener):
    """A sink function that publishes records only when a checkpoint is complete."""

    @abstractmethod
    def finish(self) -> None:
        """Handle the end of the input; a last checkpoint may follow."""

    @abstractmethod
    def commit_rest(self) -> None:
        """Commit all pending records: no checkpoint follows the end of the input."""


class TwoPhaseCommitSinkFunction(CommittingSinkFunction, Generic[TxnT]):
    """A sink function that writes the records between two checkpoints in one transaction.

    A transaction is any serialisable value, such as a name by which the external system finds it.
    `begin_transaction` starts it, `invoke` writes records into it, `pre_commit` makes it durable at
    the barrier, and `commit` makes it visible when the checkpoint is complete.  After a failure
    the durable transactions of the restored checkpoint are committed, perhaps a second time, and
    the open one is aborted.  `commit` must therefore be harmless for a committed transaction.

    The first transaction begins before `open` is called.  An override of `close` must call the
    method of the base class.
    """

    _current: _Holder | None = None
    _timeout_ms: int | None = None
    _warning_ratio: float | None = None
    _ignores_failures_after_timeout = False

    # ---- methods that a sink implements ----------------------------------------------------

    @abstractmethod
    def begin_transaction(self) -> TxnT:
        """Begin a transaction."""

    @abstractmethod
    def invoke(self, transaction: TxnT, value: Any, context: SinkFunction.Context) -> None:  # type: ignore[override]
        """Write a record in a transaction."""

    @abstractmethod
    def pre_commit(self, transaction: TxnT) -> None:
        """Make a transaction durable; no record is written into it afterwards.

        Raises:
            Exception: This failed; the checkpoint fails, and the job with it.
        """

    @abstractmethod
    def commit(self, transaction: TxnT) -> None:
        """Make a durable transaction visible; a failure fails the job, which retries the commit."""

    @abstractmethod
    def abort(self, transaction: TxnT) -> None:
        """Abort a transaction."""

    def recover_and_commit(self, transaction: TxnT) -> None:
        """Commit a transaction of an earlier attempt, which may have been committed before."""
        self.commit(transaction)

    def recover_and_abort(self, transaction: TxnT) -> None:
        """Abort a transaction of an earlier attempt, which may no longer exist."""
        self.abort(transaction)

    def finish_processing(self, transaction: TxnT | None) -> None:
        """Handle the end of the input: the last chance to write into a transaction."""

    def initialize_user_context(self) -> Any:
        """Return a value to store in the sink's state, such as a pool of names, or None."""
        return None

    def finish_recovering_context(self, handled_transactions: Iterable[TxnT]) -> None:
        """Handle a restored user context, after its transactions were committed or aborted."""

    # ---- methods that a sink may call ------------------------------------------------------

    def current_transaction(self) -> TxnT | None:
        """Return the transaction that receives records; None after the end of the input."""
        return None if self._current is None else self._current[0]

    def pending_transactions(self) -> list[tuple[int, TxnT]]:
        """Return the transactions that wait for their checkpoint, with the checkpoint's id."""
        return [(number, holder[0]) for number, holder in self._pending]

    def get_user_context(self) -> Any:
        """Return the result of `initialize_user_context`, perhaps from an earlier attempt."""
        return self._user_context

    def set_transaction_timeout(
        self, transaction_timeout_ms: int
    ) -> TwoPhaseCommitSinkFunction[TxnT]:
        """Set the time after which the external system aborts a transaction by itself, in ms."""
        if transaction_timeout_ms <= 0:
            raise InvalidProgramError(
                f"a transaction timeout must be positive, got {transaction_timeout_ms} ms"
            )
        self._timeout_ms = transaction_timeout_ms
        return self

    def enable_transaction_timeout_warnings(
        self, warning_ratio: float
    ) -> TwoPhaseCommitSinkFunction[TxnT]:
        """Log commits of transactions that are older than this share of their timeout."""
        if not 0 <= warning_ratio <= 1:
            raise InvalidProgramError(f"warning_ratio must be between 0 and 1, got {warning_ratio}")
        self._warning_ratio = warning_ratio
        return self

    def ignore_failures_after_transaction_timeout(self) -> TwoPhaseCommitSinkFunction[TxnT]:
        """Drop transactions beyond their timeout whose commit fails after a restart.

        Otherwise the job would fail at each restart.  The loss of their records is logged.
        """
        self._ignores_failures_after_timeout = True
        return self

    # ---- checkpoints -----------------------------------------------------------------------

    def initialize_state(self, context: StateInitializationContext) -> None:
        """Commit and abort the transactions of a checkpoint, and begin the first one."""
        self._check_timeouts()
        self._pending: list[tuple[int, _Holder]] = []
        self._user_context: Any = None
        self._is_finished = False
        descriptor = ListStateDescriptor("state", Types.PICKLED_BYTE_ARRAY())
        self._state = context.get_operator_state_store().get_list_state(descriptor)
        for current, pending, user_context in map(_FORM.read, self._state.get() or ()):
            handled = [self._recover_and_commit(holder) for holder in pending]
            if current is not None:
                self.recover_and_abort(current[0])
                handled.append(current[0])
            if user_context is not None:
                self._user_context = user_context
                self.finish_recovering_context(handled)
        if self._user_context is None:
            self._user_context = self.initialize_user_context()
        self._begin()

    def snapshot_state(self, context: StateSnapshotContext) -> None:
        """Make the transaction durable, and begin the next one."""
        self._pre_commit(context.get_checkpoint_id())
        if not self._is_finished:
            self._begin()
        pending = [holder for _, holder in self._pending]
        self._state.update([_FORM.write(self._current, pending, self._user_context)])

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """Commit the transactions of the checkpoint and of earlier ones, in order.

        Raises:
            SinkError: Some commits failed; all were tried, and the first error is the cause.
        """
        due = [(number, holder) for number, holder in self._pending if number <= checkpoint_id]
        self._pending = self._pending[len(due) :]
        first_error: Exception | None = None
        for _, (transaction, begun_ms) in due:
            self._warn_of_timeout(transaction, begun_ms)
            try:
                self.commit(transaction)
            except Exception as error:
                first_error = first_error or error
        if first_error is not None:
            raise SinkError(
                f"{type(self).__name__} could not commit: {first_error}"
            ) from first_error

    def finish(self) -> None:
        """Handle the end of the input: no further transaction begins."""
        self._is_finished = True
        self.finish_processing(self.current_transaction())

    def commit_rest(self) -> None:
        """Commit all transactions: no checkpoint follows."""
        last = self._pending[-1][0] + 1 if self._pending else 0
        self._pre_commit(last)
        self.notify_checkpoint_complete(last)

    def close(self) -> None:
        """Abort the open transaction."""
        current, self._current = self._current, None
        if current is not None:
            self.abort(current[0])

    def _begin(self) -> None:
        self._current = (self.begin_transaction(), _wall_ms())

    def _pre_commit(self, number: int) -> None:
        if self._current is not None:
            self.pre_commit(self._current[0])
            self._pending.append((number, self._current))
            self._current = None

    def _recover_and_commit(self, holder: _Holder) -> Any:
        transaction, begun_ms = holder
        self._warn_of_timeout(transaction, begun_ms)
        try:
            self.recover_and_commit(transaction)
        except Exception:
            age_ms = _wall_ms() - begun_ms
            if not self._ignores_failures_after_timeout or age_ms <= (self._timeout_ms or 0):
                raise
            logger.exception(
                "transaction %r is %d ms old, beyond its timeout of %s ms, and cannot be "
                "committed; it is dropped, and its records may be lost",
                *(transaction, age_ms, self._timeout_ms),
            )
        return transaction

    def _warn_of_timeout(self, transaction: Any, begun_ms: int) -> None:
        if self._warning_ratio is None or self._timeout_ms is None:
            return
        age_ms = _wall_ms() - begun_ms
        if age_ms > self._warning_ratio * self._timeout_ms:
            logger.warning(
                "transaction %r has been open for %d ms, which is close to its timeout of %d ms "
                "or beyond it",
                *(transaction, age_ms, self._timeout_ms),
            )

    def _check_timeouts(self) -> None:
        asks = self._warning_ratio is not None or self._ignores_failures_after_timeout
        if self._timeout_ms is None and asks:
            raise InvalidProgramError(
                f"{type(self).__name__} needs the timeout of transactions: call "
                "set_transaction_timeout(milliseconds)"
            )


def _wall_ms() -> int:
    return time.time_ns() // 1_000_000
