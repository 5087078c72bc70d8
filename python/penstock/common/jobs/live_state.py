"""LiveState: keyed state of a running job, as programs read it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import pyarrow as pa

Filter = tuple[str, str, Any]
"""A condition: a column or a field of one, a comparison, and a value."""


class LiveState(ABC):
    """A keyed state of an operator of a running job, created by `JobClient.state`.

    Values are live: each is the value between two records of its task at the time of the read.
    Values of different keys may be read at different times.  A scan with
    ``consistency="checkpoint"`` reads the last complete checkpoint instead, which is a single point
    in time of the whole job.
    """

    @abstractmethod
    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value of a key; for a window operator, use `windows` instead.

        Args:
            key: The key, as the key selector returns it.
            default: The result if the key has no value.

        Raises:
            StateReadError: The job does not run, has no such state, or does not answer.
        """

    @abstractmethod
    def get_many(self, keys: Iterable[Any]) -> dict[Any, Any]:
        """Return the values of the given keys that have one.

        Args:
            keys: Keys, as the key selector returns them; they must be hashable.

        Raises:
            StateReadError: As for `get`; or a key has values in several windows.
        """

    @abstractmethod
    def windows(self, key: Any) -> list[tuple[Any, Any]]:
        """Return pairs of a window and the value of a key in it.

        Raises:
            StateReadError: As for `get`.
        """

    @abstractmethod
    def scan(
        self,
        filters: Sequence[Filter] = (),
        *,
        consistency: Literal["live", "checkpoint"] = "live",
        batch_rows: int = 5000,
    ) -> Iterator[pa.RecordBatch]:
        """Return the entries in batches of the columns ``key``, ``namespace`` and ``value``.

        Rows, dataclasses and tuples are structs.  A live scan reads one subtask after the other,
        a few hundred entries between two records; entries that are added meanwhile may be missing.

        Args:
            filters: Conditions that all entries fulfil, such as ``("value.price", ">", 3)``; the
                comparisons are ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=`` and ``in``.  Tasks
                evaluate them.  A field that is missing or None fulfils none; a field that no
                entry has is an error.
            consistency: ``live``, or ``checkpoint`` for the last complete checkpoint, which this
                process reads.
            batch_rows: The greatest number of rows of a batch, up to 10,000.

        Raises:
            WrongArgumentError: A filter or the consistency is invalid, or no entry has a field
                that a filter names.
            StateReadError: As for `get`; or there is no complete checkpoint.
            SerializationError: The values of a batch have no common Arrow type.
        """
