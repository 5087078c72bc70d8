"""Answers to inspections of a worker."""

import queue

from penstock.errors import MessageTooLargeError
from penstock.rpc.inspection_messages import DumpThreads, Inspected
from penstock.taskexecutor.worker.inspection import Inspector
from support.patience import PATIENCE_S


def test_an_answer_that_is_too_large_becomes_an_error():
    """Otherwise its client would wait until its time is over."""
    sent = queue.Queue()

    def send(message):
        if message.threads:
            raise MessageTooLargeError("a message Inspected of 11000000 bytes")
        sent.put(message)

    inspector = Inspector(list, send)
    inspector.inspect(DumpThreads(7))
    answer = sent.get(timeout=PATIENCE_S)
    assert answer == Inspected(7, error="a message Inspected of 11000000 bytes")
    inspector.close()
