"""Common fixtures of the tests of the native record writer and input processor."""

import struct

import pytest

from contract.codecs import NATIVE_IS_BUILT, codec_of
from contract.fake_core import FakeCore

native_only = pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._native is not built")


@pytest.fixture
def core(monkeypatch):
    return FakeCore().install(monkeypatch)


def framed(*values, type_info=None):
    """Return records without timestamp, as in the stream."""
    codec = codec_of("pure", type_info)
    payloads = [b"\x01" + codec.encode(value) for value in values]
    return b"".join(struct.pack(">i", len(p)) + p for p in payloads)
