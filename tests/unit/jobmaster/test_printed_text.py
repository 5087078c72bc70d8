"""Workers' output appears on the driver's streams, in order, and no faster than they accept it."""

import sys
import threading
from types import SimpleNamespace

import pytest
from penstock.jobmaster.workers.printed_text import PrintedTextWriter
from penstock.rpc.messages import PrintedTextWritten
from penstock.taskexecutor.logs.printed_text import (
    MAX_CHARACTERS,
    MAX_UNWRITTEN,
    ForwardedStream,
    PrintedTextSender,
)


class Wire:
    """A connection that stores sent messages, and passes them on if it has a peer."""

    def __init__(self, handle=None):
        self.sent = []
        self.handle = handle
        self.is_open = True

    def send(self, message):
        self.sent.append(message)
        if self.handle is not None:
            self.handle(message)
        return self.is_open


@pytest.fixture
def writer():
    made = PrintedTextWriter()
    yield made
    made.close()


def connected(writer):
    """Return a worker's end of a connection to a driver."""
    wire = Wire()
    sender = PrintedTextSender("worker", wire)
    answers = Wire(sender.written)
    wire.handle = lambda message: writer.received(message, answers)
    return wire, sender


def test_lines_are_written_when_flush_returns(writer, capsys):
    wire, sender = connected(writer)
    out, error = (ForwardedStream(sender, is_error=one) for one in (False, True))
    long = "x" * MAX_CHARACTERS
    for text in ("a\n", "half \ud83d\n", long):
        out.write(text)
    error.write("e\n")
    assert len(wire.sent) == 1  # enough output
    out.flush()
    error.flush()
    assert capsys.readouterr() == (f"a\nhalf \\ud83d\n{long}", "e\n")
    out.flush()
    assert len(wire.sent) == 2


def test_a_worker_waits_for_a_driver_that_does_not_write():
    wire = Wire()
    sender = PrintedTextSender("worker", wire)
    for number in range(MAX_UNWRITTEN):
        sender.send(str(number), is_error=False)
    one_more = threading.Thread(target=lambda: sender.send("more", is_error=False))
    one_more.start()
    assert len(wire.sent) == MAX_UNWRITTEN
    assert one_more.is_alive()
    sender.written(PrintedTextWritten(1))
    one_more.join()
    assert wire.sent[-1].text == "more"


def test_a_driver_without_its_stream_fails_the_sink(writer, monkeypatch):
    _, sender = connected(writer)
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(write=_no_reader))
    stream = ForwardedStream(sender, is_error=False)
    stream.write("a\n")
    with pytest.raises(
        OSError, match="the driver cannot write the printed text: BrokenPipeError: nobody"
    ):
        stream.flush()


@pytest.mark.parametrize("how", ["the connection is closed", "the worker ends"])
def test_a_lost_driver_ends_the_wait(how):
    wire = Wire()
    sender = PrintedTextSender("worker", wire)
    wire.is_open = how == "the worker ends"
    stream = ForwardedStream(sender, is_error=False)
    stream.write("a\n")
    if wire.is_open:
        wire.handle = lambda message: sender.close()
    with pytest.raises(OSError, match="the driver cannot write the printed text"):
        stream.flush()


def _no_reader(text):
    raise BrokenPipeError("nobody reads")
