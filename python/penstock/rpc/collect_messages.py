"""The messages of a collect connection: results on their way from a collect sink to the driver."""

from __future__ import annotations

import functools

from penstock.rpc.message import Message, MessageDecoder


class CollectHello(Message, frozen=True):
    """First frame of a collect connection: whose results follow."""

    job_id: bytes
    collect_id: str
    subtask: int
    attempt_number: int


class CollectBatch(Message, frozen=True):
    """A part of a batch of results; the batch is complete when ``last`` is set."""

    data: bytes
    last: bool


class CollectAccepted(Message, frozen=True):
    """The driver's answer to `CollectHello`: from here on no result is overlooked.

    Also to `CollectResume` and to `CollectSync`.
    """


class CollectResume(Message, frozen=True):
    """Follows `CollectHello` of a sink that takes part in checkpoints.

    Its results are shown when a checkpoint that holds them is complete.
    """

    offset: int
    """The number of the first batch to come: so many were sent before the checkpoint."""


class CollectSync(Message, frozen=True):
    """A checkpoint is taken: asks whether all batches before ``offset`` have come."""

    offset: int


class CollectCommitted(Message, frozen=True):
    """A checkpoint that holds all batches before ``offset`` is complete."""

    offset: int


class CollectFinished(Message, frozen=True):
    """This subtask has no more results."""


FromCollector = (
    CollectHello | CollectBatch | CollectFinished | CollectResume | CollectSync | CollectCommitted
)


@functools.cache
def collect_decoder() -> MessageDecoder[FromCollector]:
    """Decoder of what the driver receives on a collect connection."""
    return MessageDecoder(FromCollector)


@functools.cache
def collector_decoder() -> MessageDecoder[CollectAccepted]:
    """Decoder of what a collect sink receives."""
    return MessageDecoder(CollectAccepted)
