"""A worker's heartbeats, sent by the data plane's own thread if there is one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.rpc.client import dial, dial_unencrypted
from penstock.rpc.frames import framed
from penstock.rpc.heartbeat import HeartbeatSender
from penstock.rpc.message import encode_message
from penstock.rpc.messages import ROLE_HEARTBEAT, HeartbeatHello
from penstock.runtime import runtime

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.rpc.messages import RegistrationAccepted
    from penstock.rpc.native_heartbeat import NativeHeartbeatSender
    from penstock.taskexecutor.worker.launch import LaunchSpec


def heartbeat_sender(
    launch: LaunchSpec, accepted: RegistrationAccepted, on_lost: Callable[[str], None]
) -> HeartbeatSender | NativeHeartbeatSender:
    """Connect to the driver; return a sender that is not yet started.

    Args:
        launch: The driver's address and this worker's identity.
        accepted: The driver's answer, with the interval and timeout.
        on_lost: Called once with the reason when the driver falls silent.

    Raises:
        AuthenticationError, OSError: The driver could not be reached.
    """
    times_ms = (accepted.heartbeat_interval_ms, accepted.heartbeat_timeout_ms)
    hello = framed(encode_message(HeartbeatHello(launch.executor_id, launch.epoch)))
    if runtime() == "native":
        from penstock.rpc.native_heartbeat import NativeHeartbeatSender

        # Its thread encrypts by itself, for it needs no interpreter lock.
        sock, identity = dial_unencrypted(launch.driver, launch.credentials, ROLE_HEARTBEAT)
        return NativeHeartbeatSender(sock, *times_ms, on_lost, hello, identity)
    sock = dial(launch.driver, launch.credentials, ROLE_HEARTBEAT)
    sock.sendall(hello)
    return HeartbeatSender(sock, *times_ms, on_lost)
