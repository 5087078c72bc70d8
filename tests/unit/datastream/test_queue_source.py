"""The enumerator and the reader of a queue, driven by hand: how long records are kept."""

import queue
from copy import copy
from types import SimpleNamespace

from penstock.common import Configuration
from penstock.connectors.queues import QueueSource


class Driven:
    """A source whose messages are delivered immediately, and which polls when the test says so."""

    def __init__(self):
        self.elements = queue.SimpleQueue()
        self.source = QueueSource.of_queue(self.elements)
        self.reader = None
        self.look = None
        self.enumerator = self.source.create_enumerator(self)

    def begin(self, splits=()):
        """Start an attempt of the reader with splits, or with the first one, and let it request."""
        configuration = Configuration.from_dict({"execution.checkpointing.interval": "1 s"})
        self.reader = self.source.create_reader(
            SimpleNamespace(
                get_configuration=lambda: configuration,
                send_split_request=lambda: self.enumerator.handle_split_request(0, "localhost"),
                send_source_event_to_coordinator=lambda event: self.enumerator.handle_source_event(
                    0, event
                ),
            )
        )
        self.reader.add_splits(list(splits))
        self.reader.start()

    def ask(self):
        """Let the reader request a batch if it has none."""
        self.reader.poll_next(SimpleNamespace())

    def read(self):
        """Return the records that the reader emits of the requested batch, and request the next."""
        call, handler = self.look
        handler(call(), None)
        found = []
        self.reader.poll_next(SimpleNamespace(collect=found.append))
        return found

    def checkpoint(self, checkpoint_id):
        """Return the splits of the reader, after a snapshot of the enumerator."""
        self.enumerator.snapshot_state(checkpoint_id)
        return self.reader.snapshot_state(checkpoint_id)

    def complete(self, checkpoint_id):
        self.enumerator.notify_checkpoint_complete(checkpoint_id)
        self.reader.notify_checkpoint_complete(checkpoint_id)

    # The context of the enumerator.

    def assign_split(self, split, subtask_id):
        self.reader.add_splits([copy(split)])

    def signal_no_more_splits(self, subtask_id):
        self.reader.notify_no_more_splits()

    def registered_readers(self):
        return {0: None}

    def send_event_to_source_reader(self, subtask_id, event):
        self.reader.handle_source_events(event)

    def call_async(self, call, handler):
        self.look = call, handler


def test_records_of_a_failed_reader_are_kept_for_the_next_one():
    """Neither its last, failed checkpoint nor its requests tell which records are obsolete."""
    driven = Driven()
    driven.begin()
    driven.ask()
    begun = driven.checkpoint(1)
    driven.complete(1)
    for element in ["first", "second"]:
        driven.elements.put(element)
        assert driven.read() == [element]
    driven.checkpoint(2)
    driven.begin(begun)
    driven.checkpoint(3)
    driven.complete(3)
    driven.ask()
    assert [driven.read(), driven.read()] == [["first"], ["second"]]


def test_records_of_a_complete_checkpoint_are_not_kept():
    driven = Driven()
    begun = driven.enumerator.snapshot_state(0)
    driven.begin()
    driven.ask()
    driven.elements.put("first")
    assert driven.read() == ["first"]
    driven.elements.put("second")
    driven.checkpoint(1)
    assert driven.read() == ["second"]
    driven.complete(1)
    driven.begin(begun)
    driven.ask()
    assert driven.read() == ["second"]
