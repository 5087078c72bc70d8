"""Standard output and error of a worker.

Both are pipes to its host, which may have died, or what user code has put in their place or closed:
whoever writes to them has more to do than that.
"""

from __future__ import annotations

import sys
from contextlib import suppress


def say(text: str) -> None:
    """Writes to standard error, where somebody can read it."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)


def flush_streams() -> None:
    """Hands on what has been written."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
