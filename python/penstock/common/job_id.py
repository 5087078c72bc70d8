"""JobID: the name of one submission of a job."""

from __future__ import annotations

import secrets

from penstock.common.calls.missing_methods import NoJavaMembers

__all__ = [
    "JobID",
]


class JobID(NoJavaMembers):
    """16 bytes, printed as 32 hex digits."""

    def __init__(self, value: bytes | None = None) -> None:
        """Create an id from 16 bytes, or a random one if None.

        Raises:
            ValueError: There are not 16 bytes.
        """
        self._value = secrets.token_bytes(16) if value is None else value
        if len(self._value) != 16:
            raise ValueError(f"a JobID must have 16 bytes, got {len(self._value)}")

    def to_bytes(self) -> bytes:
        """Return the 16 bytes."""
        return self._value

    def __str__(self) -> str:
        return self._value.hex()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JobID) and self._value == other._value

    def __hash__(self) -> int:
        return hash(self._value)
