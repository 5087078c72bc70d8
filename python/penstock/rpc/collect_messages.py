"""The messages of a collect connection, which sends results from a collect sink to the driver."""

from __future__ import annotations

import functools

from penstock.rpc.message import Message, MessageDecoder


class CollectHello(Message, frozen=True):
    """First frame of a collect connection: identifies the sink."""

    job_id: bytes
    collect_id: str
    subtask: int
    attempt_number: int


class CollectBatch(Message, frozen=True):
    """A part of a batch of results; the batch is complete if ``last`` is set."""

    data: bytes
    last: bool


class CollectAccepted(Message, frozen=True):
    """The driver's answer to `CollectHello`: from now on it receives every result.

    It also answers `CollectResume` and `CollectSync`.
    """


class CollectResume(Message, frozen=True):
    """Follows `CollectHello` of a sink that takes part in checkpoints.

    Its results are shown when a checkpoint that includes them is complete.
    """

    offset: int
    """The number of the next batch, equal to the number sent before the checkpoint."""


class CollectSync(Message, frozen=True):
    """Asks during a checkpoint whether all batches before ``offset`` have arrived."""

    offset: int


class CollectCommitted(Message, frozen=True):
    """A checkpoint that includes all batches before ``offset`` is complete."""

    offset: int


class CollectFinished(Message, frozen=True):
    """This subtask has no more results."""


FromCollector = (
    CollectHello | CollectBatch | CollectFinished | CollectResume | CollectSync | CollectCommitted
)


@functools.cache
def collect_decoder() -> MessageDecoder[FromCollector]:
    """Return the decoder of messages that the driver receives on a collect connection."""
    return MessageDecoder(FromCollector)


@functools.cache
def collector_decoder() -> MessageDecoder[CollectAccepted]:
    """Return the decoder of messages that a collect sink receives."""
    return MessageDecoder(CollectAccepted)
