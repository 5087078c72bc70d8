"""Threads that wait for servers, and their end."""

import threading

from penstock.external import background
from penstock.external.background import ServerThreads
from support.patience import PATIENCE_S


def test_a_call_that_was_about_to_connect_is_cut_short_too(monkeypatch):
    """The first close finds no connection; the call waits for its server afterwards."""
    monkeypatch.setattr(background, "_CLOSE_S", PATIENCE_S)
    begun, connects, waits, is_cut = (threading.Event() for _ in range(4))

    def call():
        begun.set()
        assert connects.wait(PATIENCE_S)
        waits.set()
        assert is_cut.wait(PATIENCE_S)

    def cut_short():
        (is_cut if waits.is_set() else connects).set()

    threads = ServerThreads("a server")
    ended = threads.submit(call)
    assert begun.wait(PATIENCE_S)
    threads.close(cut_short=cut_short)
    assert ended.result(0) is None
