"""The messages of a blob connection: files of a program on their way to a worker's host."""

from __future__ import annotations

import functools

from penstock.rpc.message import Message, MessageDecoder


class GetBlob(Message, frozen=True):
    """Asks for the bytes with a SHA-256 digest, in hexadecimal."""

    digest: str


class BlobChunk(Message, frozen=True):
    """A piece of the blob asked for; pieces arrive in order, the last one is marked."""

    data: bytes
    last: bool


class BlobRefused(Message, frozen=True):
    """The blob cannot be had; ``reason`` says why."""

    reason: str


FromBlobServer = BlobChunk | BlobRefused


@functools.cache
def blob_server_decoder() -> MessageDecoder[GetBlob]:
    """Decoder of what the driver receives on a blob connection."""
    return MessageDecoder(GetBlob)


@functools.cache
def blob_client_decoder() -> MessageDecoder[FromBlobServer]:
    """Decoder of what a worker's host receives on a blob connection."""
    return MessageDecoder(FromBlobServer)
