"""The longest wait of a test for what must happen, and the wait for it."""

import threading
import time
from collections.abc import Iterator

#: Seconds.  A failed test waits this long and a passed one never does, so it is far above what a
#: busy machine needs, and below the limit of a test in `pyproject.toml`, whose message says less.
PATIENCE_S = 240
#: The longest pause between two attempts.
LONGEST_PAUSE_S = 1.0


def attempts(pause_s: float = 0.02) -> Iterator[None]:
    """Yield for each attempt, at least once, until patience ends.

    The pause after an attempt lasts three times as long as the attempt did, so that a wait takes
    little time from the processes that it waits for.

    Args:
        pause_s: The shortest pause.
    """
    pause = threading.Event()
    deadline_s = time.monotonic() + PATIENCE_S
    while True:
        began_s = time.monotonic()
        yield
        ended_s = time.monotonic()
        if ended_s >= deadline_s:
            return
        pause.wait(max(pause_s, min(3 * (ended_s - began_s), LONGEST_PAUSE_S)))


def eventually(condition, what: str, pause_s: float = 0.02) -> None:
    """Wait until a condition holds, by polling: another thread or process makes it true."""
    for _ in attempts(pause_s):
        if condition():
            return
    raise AssertionError(f"never: {what}")
