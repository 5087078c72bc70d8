"""Messages between a session's jobmanager and the taskexecutor processes that host its workers."""

from __future__ import annotations

import functools
import sys

import msgspec

from penstock import __version__
from penstock.rpc.message import Message, MessageDecoder

ROLE_HOST = "host"
ROLE_HOST_HEARTBEAT = "host heartbeat"


class Versions(msgspec.Struct, frozen=True):
    """Versions that both ends of a session must share: job code is pickled."""

    penstock: str
    python: str

    def __str__(self) -> str:
        return f"penstock {self.penstock} on Python {self.python}"


def own_versions() -> Versions:
    """Return the versions of this process."""
    return Versions(__version__, f"{sys.version_info[0]}.{sys.version_info[1]}")


def difference(own: Versions, other: Versions, who: str) -> str | None:
    """Return why a peer is rejected; None if it is not.

    Args:
        own: The jobmanager's versions.
        other: The peer's versions.
        who: The kind of peer.
    """
    if own == other:
        return None
    return (
        f"the session runs {own}, and this {who} {other}: both must be the same, as job code "
        "is pickled"
    )


# ---- taskexecutor → jobmanager ---------------------------------------------------------------


class RegisterHost(Message, frozen=True):
    """First message of a host: a new id for each registration."""

    host_id: str
    pid: int
    slots: int
    versions: Versions


class WorkerEnded(Message, frozen=True):
    """A worker's process has ended, or could not be started when ``pid`` is None."""

    executor_id: str
    pid: int | None
    exit_code: int | None
    log_tail: str
    hopeless: bool


# ---- jobmanager → taskexecutor ---------------------------------------------------------------


class HostAccepted(Message, frozen=True):
    """The host may get workers; both ends send heartbeats on a connection of their own."""

    heartbeat_interval_ms: int
    heartbeat_timeout_ms: int


class HostRefused(Message, frozen=True):
    """The host is rejected, and would be again."""

    reason: str


class StartWorker(Message, frozen=True):
    """Starts a worker; ``launch`` is its launch specification as JSON."""

    executor_id: str
    job_id: bytes
    launch: bytes


class KillWorkers(Message, frozen=True):
    """Kills the workers of a job that have not ended."""

    job_id: bytes


class ForgetJob(Message, frozen=True):
    """A job has ended: its files are deleted after the last of its workers."""

    job_id: bytes


class EndHost(Message, frozen=True):
    """The session is stopped, and its hosts with it."""

    reason: str


FromHost = RegisterHost | WorkerEnded
ToHost = HostAccepted | HostRefused | StartWorker | KillWorkers | ForgetJob | EndHost


@functools.cache
def from_host_decoder() -> MessageDecoder[FromHost]:
    """Return the decoder of messages that the jobmanager receives."""
    return MessageDecoder(FromHost)


@functools.cache
def to_host_decoder() -> MessageDecoder[ToHost]:
    """Return the decoder of messages that a host receives."""
    return MessageDecoder(ToHost)
