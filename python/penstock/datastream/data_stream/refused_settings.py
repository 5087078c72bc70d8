"""Settings of operators, rejected by streams that are not operators."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, NoReturn

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
