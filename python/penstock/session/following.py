"""Reconnects a program to its job when the session has another jobmanager."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Final

from penstock.errors import JobExecutionError, LeadershipLostError, PenstockError
from penstock.rpc import session_messages as messages
from penstock.session.session_client import SessionClient

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable

    from penstock.session.files import SessionAddress

logger = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 0.1
LONGEST_PAUSE_S: Final = 2.0


class JobFollower:
    """Finds the jobmanager that has resumed a job."""

    def __init__(self, find: Callable[[], SessionAddress], job_id: bytes, timeout_ms: int) -> None:
        """Create a follower; `follow` searches.

        Args:
            find: Returns the session's present address, or raises a `ConfigurationError`.
            job_id: The job's id.
            timeout_ms: The time limit of the search.
        """
        self._find = find
        self._job_id = job_id
        self._timeout_s = timeout_ms / 1000

    def follow(self, reason: str, given_up: threading.Event) -> SessionClient:
        """Return a connection on which the job's end will be reported.

        Args:
            reason: Why the former connection was lost.
            given_up: Ends the search.

        Raises:
            PenstockError: No jobmanager has resumed the job in time, or the leader does not know
                it.
        """
        logger.warning("%s; looking for the jobmanager that resumes the job", reason)
        deadline_s, pause_s = time.monotonic() + self._timeout_s, FIRST_PAUSE_S
        while not given_up.wait(pause_s):
            client: SessionClient | None = None
            try:
                client = SessionClient(self._find())
                client.ask(messages.FollowJob(self._job_id, True), messages.JobAccepted)
            except PenstockError as error:
                is_known = client is not None and not client.is_lost
                if client is not None:
                    client.close()
                if is_known and not isinstance(error, LeadershipLostError):
                    raise
                if time.monotonic() >= deadline_s:
                    raise JobExecutionError(
                        f"{reason}, and no jobmanager has resumed the job for "
                        f"{self._timeout_s:g} s: {error}"
                    ) from error
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
                continue
            return client
        raise JobExecutionError(reason)
