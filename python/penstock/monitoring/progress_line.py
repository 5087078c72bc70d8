"""ProgressLine: shows the progress of a job in the last line of a terminal.

Workers and user code write to the terminal themselves, so the line must not be mixed with their
output: the terminal scrolls all rows but the last (DECSTBM), and the line is written there with the
cursor restored afterwards.  Each step is one write.
"""

from __future__ import annotations

import contextlib
import logging
import os
import sys
import threading
from typing import TYPE_CHECKING, Final

from penstock.jobmaster.progress import ProgressReader

if TYPE_CHECKING:
    from penstock.jobmaster.cluster_gateway import ClusterGateway

logger = logging.getLogger(__name__)

DELAY_S: Final = 2.0
INTERVAL_S: Final = 1.0
CLOSE_TIMEOUT_S: Final = 2.0
_LEAST_ROWS: Final = 4
_LEAST_COLUMNS: Final = 20

_SAVE: Final = "\x1b7"
_RESTORE: Final = "\x1b8"

_holding = threading.Lock()
"""Held by the cluster whose line is shown: there is only one last row."""


def terminal() -> int | None:
    """Return the terminal of standard error; None without one, or at an interactive prompt."""
    if hasattr(sys, "ps1") or os.environ.get("TERM", "dumb") == "dumb":
        return None
    try:
        descriptor = sys.stderr.fileno()
    except (AttributeError, OSError, ValueError):
        return None  # there is none, it is closed, or the program has replaced it
    return descriptor if os.isatty(descriptor) else None


class ProgressLine:
    """Shows the latest running job of one cluster, until it is closed."""

    def __init__(self, gateway: ClusterGateway, descriptor: int) -> None:
        """Create a line; nothing is shown before `DELAY_S` have passed.

        Args:
            gateway: The cluster.
            descriptor: The terminal.
        """
        self._gateway = gateway
        self._terminal = descriptor
        self._readers: dict[bytes, ProgressReader] = {}
        self._rows = 0
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def close(self) -> None:
        """Release the row and end the thread."""
        self._closed.set()
        self._thread.join(CLOSE_TIMEOUT_S)

    def _run(self) -> None:
        pause_s = DELAY_S
        is_holding = False
        try:
            while not self._closed.wait(pause_s):
                pause_s = INTERVAL_S
                is_holding = is_holding or _holding.acquire(blocking=False)
                if is_holding and self._is_in_foreground():
                    self._show()
        except OSError as error:
            logger.debug("the terminal shows no progress: %s", error)
        finally:
            if is_holding:
                with contextlib.suppress(OSError):
                    self._give_row_back()
                _holding.release()

    def _is_in_foreground(self) -> bool:
        try:
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        except OSError:
            return True  # it is not a controlling terminal, so no other process group owns it

    def _show(self) -> None:
        text = self._text()
        size = os.get_terminal_size(self._terminal)
        if text is None or size.lines < _LEAST_ROWS or size.columns < _LEAST_COLUMNS:
            return
        steps = []
        if size.lines != self._rows:
            if self._rows:
                steps.append(self._row_given_back())
            self._rows = size.lines
            # Down and up again: the text in the last row scrolls, and the cursor with it.
            steps += ["\x1bD\x1b[A", _SAVE, f"\x1b[1;{size.lines - 1}r", _RESTORE]
        shown = "".join(c if c.isprintable() else "?" for c in text)[: size.columns - 1]
        steps += [_SAVE, f"\x1b[{size.lines};1H\x1b[0m{shown}\x1b[K", _RESTORE]
        self._write("".join(steps))

    def _text(self) -> str | None:
        try:
            cluster = self._gateway.snapshot().result(INTERVAL_S)
            running = [job for job in cluster.jobs if not job.status.is_terminal]
            if not running:
                return None
            job_id = running[-1].id
            reader = self._readers.get(job_id)
            if reader is None:
                reader = self._readers[job_id] = ProgressReader(self._gateway, job_id)
            progress = reader.read()
        except TimeoutError:
            return None  # the driver is busy; the line stays as it is
        return None if progress is None else progress.text()

    def _give_row_back(self) -> None:
        if self._rows and self._is_in_foreground():
            self._write(self._row_given_back())

    def _row_given_back(self) -> str:
        return f"{_SAVE}\x1b[r\x1b[{self._rows};1H\x1b[2K{_RESTORE}"

    def _write(self, text: str) -> None:
        left = text.encode(errors="replace")
        while left:
            left = left[os.write(self._terminal, left) :]
