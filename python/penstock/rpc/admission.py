"""Admission of connections that have not authenticated yet.

A peer with the token authenticates within milliseconds.  So the number of unauthenticated
connections is limited; beyond the limit, the oldest connection of the address with the most is
dropped.  However many silent peers connect, a peer with the token gets a place and is done before
it loses it.
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
"""Limit of unauthenticated connections at one port."""

ACCEPTS_PER_TURN = 16
"""Number of connections accepted before existing ones are served again."""

ACCEPT_PAUSE_S = 0.1
"""Pause of a listener when the system has no descriptors left to accept a connection."""

LOG_INTERVAL_S = 1.0

_SCARCE = frozenset((errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM))

T = TypeVar("T")


def is_scarcity(error: OSError) -> bool:
    """Return whether accepting failed for lack of descriptors or memory, which may become free."""
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
    """The unauthenticated connections of one port, oldest first by origin."""

    def __init__(self) -> None:
        self._numbers = itertools.count()
        self._origins: dict[str, dict[T, int]] = {}
        self._origin_of: dict[T, str] = {}

    def __len__(self) -> int:
        return len(self._origin_of)

    def __iter__(self) -> Iterator[T]:
        return iter(self._origin_of)

    def enter(self, connection: T, origin: str) -> T | None:
        """Add a connection; return the one to drop for it."""
        self._origin_of[connection] = origin
        self._origins.setdefault(origin, {})[connection] = next(self._numbers)
        return self.dispensable() if len(self) > MAX_UNPROVEN else None

    def leave(self, connection: T) -> None:
        """Remove a connection that has authenticated or is closed; idempotent."""
        origin = self._origin_of.pop(connection, None)
        if origin is not None:
            of_origin = self._origins[origin]
            del of_origin[connection]
            if not of_origin:
                del self._origins[origin]

    def dispensable(self) -> T | None:
        """Return the oldest of the origin with the most; of several such origins the oldest."""
        oldest = (
            (len(of), -next(iter(of.values())), next(iter(of))) for of in self._origins.values()
        )
        return max(oldest, key=itemgetter(0, 1), default=(0, 0, None))[2]


class DropLog:
    """Logs events of unauthenticated peers at a port, at most one line a second.

    The first event is logged at once; those that follow within a second are counted, and logged
    together.
    """

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger
        self._silent_until_s = float("-inf")
        self._counted = 0
        self._last = ""

    def note(self, event: str, now_s: float) -> None:
        """Log or count an event."""
        self.tell(now_s)
        if now_s < self._silent_until_s:
            self._counted += 1
            self._last = event
            return
        self._silent_until_s = now_s + LOG_INTERVAL_S
        self._logger.warning("%s", event)

    def next_line_s(self) -> float | None:
        """Return when `tell` has something to log; None if there is nothing."""
        return self._silent_until_s if self._counted else None

    def tell(self, now_s: float) -> None:
        """Log the counted events, if the interval has passed."""
        if self._counted and now_s >= self._silent_until_s:
            self._logger.warning("%d times more, at last: %s", self._counted, self._last)
            self._counted = 0
            self._silent_until_s = now_s + LOG_INTERVAL_S
