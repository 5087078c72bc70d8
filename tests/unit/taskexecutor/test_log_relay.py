"""The log of a child process is read to its end, whatever becomes of this process's own."""

import errno
import io
import os
import sys

from penstock.taskexecutor.worker.log_relay import LogRelay
from support.patience import PATIENCE_S


class FullDisk(io.StringIO):
    def write(self, text):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_log_that_cannot_be_written_is_read_on(monkeypatch):
    """Otherwise the child would block once its pipe is full."""
    monkeypatch.setattr(sys, "stderr", FullDisk())
    reading, writing = os.pipe()
    log = LogRelay(os.fdopen(reading, "rb"))
    with os.fdopen(writing, "wb") as child:
        child.write(b"one\ntwo\n")
    log._thread.join(PATIENCE_S)
    log.close()
    assert log.tail == "one\ntwo\n"
