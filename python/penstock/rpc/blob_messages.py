"""The messages of a blob connection, which transfers files of a program to a worker's host."""

from __future__ import annotations

import functools

from penstock.rpc.message import Message, MessageDecoder


class GetBlob(Message, frozen=True):
    """Requests the bytes with a SHA-256 digest, in hexadecimal."""

    digest: str


class BlobChunk(Message, frozen=True):
    """A piece of the requested blob; pieces arrive in order, the last one is marked."""

    data: bytes
    last: bool


class BlobRefused(Message, frozen=True):
    """The blob is not available; ``reason`` says why."""

    reason: str


FromBlobServer = BlobChunk | BlobRefused


@functools.cache
def blob_server_decoder() -> MessageDecoder[GetBlob]:
    """Return the decoder of messages that the driver receives on a blob connection."""
    return MessageDecoder(GetBlob)


@functools.cache
def blob_client_decoder() -> MessageDecoder[FromBlobServer]:
    """Return the decoder of messages that a worker's host receives on a blob connection."""
    return MessageDecoder(FromBlobServer)
