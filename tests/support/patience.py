"""The longest wait of a test for what must happen, and the wait for it."""

import threading
import time

#: Seconds.  A failed test waits this long and a passed one never does, so it is far above what a
#: busy machine needs, and below the limit of a test in `pyproject.toml`, whose message says less.
PATIENCE_S = 240


def eventually(condition, what: str, pause_s: float = 0.02) -> None:
    """Wait until a condition holds, by polling: another thread or process makes it true."""
    pause = threading.Event()
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s, f"never: {what}"
        pause.wait(pause_s)
