"""The certificate by which the TaskExecutors of one job know each other.

The driver makes it when TLS is asked for and hands it to its workers together with the token.  It
vouches for itself: it is the identity of every worker and the only certificate that any of them
trusts, on either end of a connection (so nothing that another authority has signed counts).  It
has no end date of its own; it ends with the job, for nobody keeps its key.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from penstock.rpc import ed25519

SERVER_NAME = "executor.penstock.internal"
"""The name in every certificate, which connecting ends ask for; both runtimes use the same."""

# ASN.1 tags (X.690).
_INTEGER = 0x02
_BIT_STRING = 0x03
_OCTET_STRING = 0x04
_OBJECT_ID = 0x06
_UTF8_STRING = 0x0C
_UTC_TIME = 0x17
_GENERALIZED_TIME = 0x18
_SEQUENCE = 0x30
_SET = 0x31
_DNS_NAME = 0x82
_VERSION = 0xA0
_EXTENSIONS = 0xA3

_ED25519 = bytes((0x2B, 0x65, 0x70))
_COMMON_NAME = bytes((0x55, 0x04, 0x03))
_SUBJECT_ALTERNATIVE_NAME = bytes((0x55, 0x1D, 0x11))
_VERSION_3 = 2

_NOT_BEFORE = b"000101000000Z"
"""Long ago, so that the clocks of hosts need not agree."""
_NOT_AFTER = b"99991231235959Z"
"""What RFC 5280 (4.1.2.5) has for "no date"."""


class JobCertificate(NamedTuple):
    """A certificate (X.509) and its key (PKCS #8), both in DER."""

    certificate: bytes
    private_key: bytes


def new_job_certificate() -> JobCertificate:
    """Makes a certificate with a fresh key."""
    seed = os.urandom(ed25519.SEED_BYTES)
    algorithm = _tagged(_SEQUENCE, _tagged(_OBJECT_ID, _ED25519))
    name = _name(SERVER_NAME)
    alternative_name = _tagged(_SEQUENCE, _tagged(_DNS_NAME, SERVER_NAME.encode()))
    body = _tagged(
        _SEQUENCE,
        _tagged(_VERSION, _integer(_VERSION_3)),
        _integer(int.from_bytes(os.urandom(8), "big")),
        algorithm,
        name,
        _tagged(_SEQUENCE, _tagged(_UTC_TIME, _NOT_BEFORE), _tagged(_GENERALIZED_TIME, _NOT_AFTER)),
        name,
        _tagged(_SEQUENCE, algorithm, _bits(ed25519.public_key(seed))),
        _tagged(
            _EXTENSIONS,
            _tagged(
                _SEQUENCE,
                _tagged(
                    _SEQUENCE,
                    _tagged(_OBJECT_ID, _SUBJECT_ALTERNATIVE_NAME),
                    _tagged(_OCTET_STRING, alternative_name),
                ),
            ),
        ),
    )
    certificate = _tagged(_SEQUENCE, body, algorithm, _bits(ed25519.sign(seed, body)))
    key = _tagged(_OCTET_STRING, _tagged(_OCTET_STRING, seed))
    return JobCertificate(certificate, _tagged(_SEQUENCE, _integer(0), algorithm, key))


def _name(common_name: str) -> bytes:
    text = _tagged(_UTF8_STRING, common_name.encode())
    attribute = _tagged(_SEQUENCE, _tagged(_OBJECT_ID, _COMMON_NAME), text)
    return _tagged(_SEQUENCE, _tagged(_SET, attribute))


def _integer(value: int) -> bytes:
    """A number from 0; its first bit is the sign, hence the room for one more."""
    return _tagged(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1, "big"))


def _bits(content: bytes) -> bytes:
    """A bit string of whole bytes."""
    return _tagged(_BIT_STRING, b"\0", content)


def _tagged(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        length = bytes((size,))
    else:
        digits = size.to_bytes((size.bit_length() + 7) // 8, "big")
        length = bytes((0x80 | len(digits),)) + digits
    return bytes((tag,)) + length + content
