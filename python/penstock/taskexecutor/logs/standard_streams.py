"""Standard output and error of a worker.

Both are pipes to the host, which may have died, or objects that user code has replaced or closed: a
failed write must not stop the writer.
"""

from __future__ import annotations

import sys
from contextlib import suppress


def say(text: str) -> None:
    """Write to standard error, if it can be written."""
    with suppress(OSError, ValueError, AttributeError):
        sys.stderr.write(text)


def flush_streams() -> None:
    """Flush both streams."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError, AttributeError):
            stream.flush()
