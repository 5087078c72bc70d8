"""Admission of connections that have not proved the token yet.

Whoever holds the token proves it within milliseconds.  So there is a bound on the others, and
where it is exceeded the oldest connection of the address with the most goes: however many peers
connect and say nothing, somebody with the token finds a place and is done before it is lost.
"""

from __future__ import annotations

import errno
import ipaddress
import itertools
from operator import itemgetter
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    import logging
    from collections.abc import Iterator

MAX_UNPROVEN = 256
"""Connections to one door whose peers have not proved the token."""

ACCEPTS_PER_TURN = 16
"""Connections taken from the kernel before those that are there already are heard again."""

ACCEPT_PAUSE_S = 0.1
"""Pause of a listener when the system has no descriptors left to accept a connection."""

LOG_INTERVAL_S = 1.0

_SCARCE = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))

T = TypeVar("T")


def is_scarcity(error: OSError) -> bool:
    """Return whether accepting failed for want of descriptors or memory, which others give back."""
    return error.errno in _SCARCE


def origin_of(host: str) -> str:
    """Return the unit that counts as one address: for IPv6 the network, which a host controls."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if isinstance(address, ipaddress.IPv4Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Address(int(address) >> 64 << 64))


class Unproven(Generic[T]):
    """The connections of one door that have not proved the token, oldest first by origin."""

    def __init__(self, limit: int = MAX_UNPROVEN) -> None:
        self._limit = limit
        self._numbers = itertools.count()
        self._origins: dict[str, dict[T, int]] = {}
        self._origin_of: dict[T, str] = {}

    def __len__(self) -> int:
        return len(self._origin_of)

    def __iter__(self) -> Iterator[T]:
        return iter(self._origin_of)

    def enter(self, connection: T, origin: str) -> T | None:
        """Take a connection in; return the one that has to go for it."""
        self._origin_of[connection] = origin
        self._origins.setdefault(origin, {})[connection] = next(self._numbers)
        return self.dispensable() if len(self) > self._limit else None

    def leave(self, connection: T) -> None:
        """A connection has proved the token or is gone; idempotent."""
        origin = self._origin_of.pop(connection, None)
        if origin is not None:
            of_origin = self._origins[origin]
            del of_origin[connection]
            if not of_origin:
                del self._origins[origin]

    def dispensable(self) -> T | None:
        """The oldest of the origin with the most; of several such origins the oldest."""
        oldest = (
            (len(of), -next(iter(of.values())), next(iter(of))) for of in self._origins.values()
        )
        return max(oldest, key=itemgetter(0, 1), default=(0, 0, None))[2]


class DropLog:
    """Says what happens to strangers at a door, in one line a second at most.

    The first event is told at once; those that follow within a second are counted, and told
    together.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._silent_until_s = float("-inf")
        self._counted = 0
        self._last = ""

    def note(self, event: str, now_s: float) -> None:
        """Something happened."""
        self.tell(now_s)
        if now_s < self._silent_until_s:
            self._counted += 1
            self._last = event
            return
        self._silent_until_s = now_s + LOG_INTERVAL_S
        self._logger.warning("%s", event)

    def next_line_s(self) -> float | None:
        """When `tell` has something to say; None when there is nothing."""
        return self._silent_until_s if self._counted else None

    def tell(self, now_s: float) -> None:
        """Tells of those that were counted, if it is time."""
        if self._counted and now_s >= self._silent_until_s:
            self._logger.warning("%d times more, at last: %s", self._counted, self._last)
            self._counted = 0
            self._silent_until_s = now_s + LOG_INTERVAL_S
