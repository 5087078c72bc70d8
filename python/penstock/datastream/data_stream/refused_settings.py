"""Settings and partitionings that some streams reject."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, NoReturn

from penstock.errors import InvalidProgramError

if TYPE_CHECKING:
    from penstock.datastream.slot_sharing_group import SlotSharingGroup


class RefusedSettings:
    """Methods of `DataStream` that name or place its operator."""

    @abstractmethod
    def _refuse(self, what: str) -> NoReturn:
        """Raise an error that says where to call a method instead.

        Raises:
            InvalidProgramError: Always.
        """

    def get_name(self) -> NoReturn:
        """Reject the call: this stream is not an operator."""
        self._refuse("get_name")

    def name(self, name: str) -> NoReturn:  # noqa: ARG002
        """Reject the call: this stream is not an operator."""
        self._refuse("name")

    def uid(self, uid: str) -> NoReturn:  # noqa: ARG002
        """Reject the call: this stream is not an operator."""
        self._refuse("uid")

    def set_uid_hash(self, uid_hash: str) -> NoReturn:  # noqa: ARG002
        """Reject the call: this stream is not an operator."""
        self._refuse("set_uid_hash")

    def set_parallelism(self, parallelism: int) -> NoReturn:  # noqa: ARG002
        """Reject the call: this stream is not an operator."""
        self._refuse("set_parallelism")

    def set_max_parallelism(self, max_parallelism: int) -> NoReturn:  # noqa: ARG002
        """Reject the call: this stream is not an operator."""
        self._refuse("set_max_parallelism")

    def force_non_parallel(self) -> NoReturn:
        """Reject the call: this stream is not an operator."""
        self._refuse("force_non_parallel")

    def set_buffer_timeout(self, timeout_millis: int) -> NoReturn:  # noqa: ARG002
        """Reject the call: this stream is not an operator."""
        self._refuse("set_buffer_timeout")

    def start_new_chain(self) -> NoReturn:
        """Reject the call: this stream is not an operator."""
        self._refuse("start_new_chain")

    def set_co_location_group_key(self, key: str) -> NoReturn:  # noqa: ARG002
        """Reject the call: this stream is not an operator."""
        self._refuse("set_co_location_group_key")

    def disable_chaining(self) -> NoReturn:
        """Reject the call: this stream is not an operator."""
        self._refuse("disable_chaining")

    def slot_sharing_group(self, slot_sharing_group: str | SlotSharingGroup) -> NoReturn:  # noqa: ARG002
        """Reject the call: this stream is not an operator."""
        self._refuse("slot_sharing_group")


class RefusedPartitioning:
    """Methods of `DataStream` that choose a subtask, which the key of a `KeyedStream` does."""

    def shuffle(self) -> NoReturn:
        """Reject the call: the keys select the subtask."""
        self._refuse_partitioning("shuffle")

    def rebalance(self) -> NoReturn:
        """Reject the call: the keys select the subtask."""
        self._refuse_partitioning("rebalance")

    def rescale(self) -> NoReturn:
        """Reject the call: the keys select the subtask."""
        self._refuse_partitioning("rescale")

    def forward(self) -> NoReturn:
        """Reject the call: the keys select the subtask."""
        self._refuse_partitioning("forward")

    def global_(self) -> NoReturn:
        """Reject the call: the keys select the subtask."""
        self._refuse_partitioning("global_")

    def broadcast(self, *args: Any) -> NoReturn:  # noqa: ARG002
        """Reject the call: the keys select the subtask."""
        self._refuse_partitioning("broadcast")

    def _refuse_partitioning(self, what: str) -> NoReturn:
        raise InvalidProgramError(
            f"{what}() cannot override the partitioning of a KeyedStream: call it on the stream "
            "before key_by"
        )
