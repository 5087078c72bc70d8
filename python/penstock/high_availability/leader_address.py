"""Where the leader of a cluster id is, for those who look for it: a file of its epoch."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.errors import CheckpointStorageError
from penstock.high_availability.leadership import current_epoch

if TYPE_CHECKING:
    from penstock.high_availability.leadership import Leadership

_NAME: Final = "address"


class LeaderAddress(msgspec.Struct, frozen=True):
    """Where a leader listens.

    Attributes:
        epoch: Of the leader.
        host: Where others reach it.
        port: The same.
    """

    epoch: int
    host: str
    port: int


def publish_address(leadership: Leadership, host: str, port: int) -> None:
    """A leader says where it is.

    Raises:
        LeadershipLostError: Another one leads.
        OSError: The storage fails.
    """
    address = LeaderAddress(leadership.epoch, host, port)
    leadership.publish(_NAME, msgspec.json.encode(address))


def leader_address(storage_folder: str, cluster_id: str) -> LeaderAddress | None:
    """Where the leader is; None while there is none, or it has not said yet.

    Raises:
        CheckpointStorageError: What it has said cannot be read.
        OSError: The storage fails.
    """
    root = Path(storage_folder, cluster_id)
    if not root.exists():
        return None
    epoch, directory = current_epoch(root)
    try:
        address = msgspec.json.decode((directory / _NAME).read_bytes(), type=LeaderAddress)
    except FileNotFoundError:
        return None  # nobody has said, or the next epoch has begun meanwhile
    except msgspec.MsgspecError as error:
        raise CheckpointStorageError(f"{directory / _NAME} is damaged: {error}") from error
    return address if address.epoch == epoch else None
