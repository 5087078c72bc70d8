"""Reads keyed state of a running job, by keys and as a filtered scan."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal

from penstock.common.jobs.job_gateway import StateQuestion
from penstock.common.jobs.live_state import LiveState
from penstock.errors import CheckpointStorageError, StateReadError, WrongArgumentError
from penstock.state_processor.arrow import batches_of, rows_of
from penstock.state_processor.reader import Savepoint
from penstock.taskexecutor.state.plain_values import plain
from penstock.taskexecutor.state.state_filters import FilterFields, condition_of, fits

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

    from penstock.common.jobs.job_gateway import JobGateway, StateAnswer
    from penstock.common.jobs.live_state import Filter
    from penstock.taskexecutor.state.state_filters import Condition

_CHECKPOINT_TRIES: Final = 3


class StateOfTasks(LiveState):
    """Asks the tasks of a job, or reads its last checkpoint.

    Args:
        gateway: The job.
        operator: The uid, id or unique name of the operator.
        name: The name of the state's descriptor.
    """

    def __init__(self, gateway: JobGateway, operator: str, name: str) -> None:
        for what, text in (("operator", operator), ("state", name)):
            if not isinstance(text, str):
                raise WrongArgumentError(f"the name of the {what} is a string, got {text!r:.100}")
        self._gateway = gateway
        self._operator = operator
        self._name = name

    def __repr__(self) -> str:
        return f"<LiveState {self._name!r} of {self._operator!r}>"

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key."""
        return self.get_many([key]).get(key, default)

    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the values of those of the keys that have one.

        Raises:
            WrongArgumentError: A key is a list or dictionary, which no key can be.
            StateReadError: A key has values in several windows, or tasks do not answer.
        """
        try:
            distinct = tuple(dict.fromkeys(keys))
        except TypeError as error:
            raise WrongArgumentError(
                f"keys of a state are values of its key selector, and of several fields a tuple; "
                f"got {error}"
            ) from None
        found: dict[Any, Any] = {}
        for key, namespace, value in rows_of(self._ask(distinct)):
            if namespace is not None and key in found:
                raise StateReadError(
                    f"the key {key!r} has values in several windows: call windows(key)"
                )
            found[key] = value
        return found

    def windows(self, key: Any) -> list[tuple[Any, Any]]:
        """Return pairs of a window and the value of a key in it."""
        return [(namespace, value) for _, namespace, value in rows_of(self._ask((key,)))]

    def scan(
        self,
        filters: Sequence[Filter] = (),
        *,
        consistency: Literal["live", "checkpoint"] = "live",
        batch_rows: int = 5000,
    ) -> Iterator[pa.RecordBatch]:
        """Return the entries in batches."""
        parsed = tuple(condition_of(*one) for one in filters)
        if consistency == "checkpoint":
            return self._scan_checkpoint(parsed, batch_rows)
        if consistency != "live":
            raise WrongArgumentError(f"consistency must be live or checkpoint, got {consistency!r}")
        return self._scan_tasks(parsed, batch_rows)

    def _scan_tasks(
        self, filters: tuple[Condition, ...], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        cursor: str | None = ""
        fields = FilterFields()
        while cursor is not None:
            question = StateQuestion(self._operator, self._name, None, filters, cursor, batch_rows)
            answer = self._gateway.read_state(question)
            yield from batches_of(rows_of(answer), self._name)
            fields.add(answer.fields)
            cursor = answer.cursor
        fields.check()

    def _scan_checkpoint(
        self, filters: tuple[Condition, ...], batch_rows: int
    ) -> Iterator[pa.RecordBatch]:
        found = self._last_checkpoint()
        yield from scan_savepoint(found, self._operator, self._name, filters, batch_rows)

    def _last_checkpoint(self) -> Savepoint:
        for tries_left in range(_CHECKPOINT_TRIES - 1, -1, -1):
            path = self._ask(()).checkpoint
            if path is None:
                break
            try:
                return Savepoint.read(path)
            except CheckpointStorageError:
                # A newer checkpoint may have replaced it meanwhile.
                if tries_left == 0:
                    raise
        raise StateReadError(
            f"the job has no complete checkpoint with the state {self._name!r}: enable "
            "checkpoints, or read it live"
        )

    def _ask(self, keys: tuple[Any, ...]) -> StateAnswer:
        return self._gateway.read_state(StateQuestion(self._operator, self._name, keys))


def scan_savepoint(
    savepoint: Savepoint,
    operator: str,
    state: str,
    filters: Sequence[Condition],
    batch_rows: int,
) -> Iterator[pa.RecordBatch]:
    """Yield the entries of a checkpoint or savepoint that fulfil all conditions, in batches.

    Raises:
        InvalidProgramError: There is no such operator or state; names those that there are.
        WrongArgumentError: No entry has a field that a condition names.
        CheckpointStorageError: A file of the checkpoint cannot be read.
    """
    fields = FilterFields(filters)
    rows: list[list[Any]] = []
    for _, *entry in savepoint.keyed_state_entries(operator, state):
        row = [plain(part) for part in entry]
        fields.look(row)
        if fits(row, filters):
            rows.append(row)
        if len(rows) >= batch_rows:
            yield from batches_of(rows, state)
            rows = []
    fields.check()
    yield from batches_of(rows, state)
