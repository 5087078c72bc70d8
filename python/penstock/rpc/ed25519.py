"""Ed25519 signatures (RFC 8032) over Python's own integers.

For the one certificate of a job: its key is made, signs once and is handed on.  The time that
this takes depends on the key, so nothing may be signed here at a stranger's request; connections
are authenticated by OpenSSL and rustls.
"""

from __future__ import annotations

import hashlib

SEED_BYTES = 32

_P = 2**255 - 19
"""Coordinates are integers modulo this prime."""
_L = 2**252 + 27742317777372353535851937790883648493
"""Order of the base point."""
_D = -121665 * pow(121666, -1, _P) % _P
"""The curve is -x² + y² = 1 + d x² y²."""

_Point = tuple[int, int, int, int]
"""Extended coordinates (X, Y, Z, T): x = X/Z, y = Y/Z, x y = T/Z."""


def _base_point() -> _Point:
    y = 4 * pow(5, -1, _P) % _P
    x_squared = (y * y - 1) * pow(_D * y * y + 1, -1, _P) % _P
    x = pow(x_squared, (_P + 3) // 8, _P)
    if (x * x - x_squared) % _P:
        x = x * pow(2, (_P - 1) // 4, _P) % _P
    if x % 2:
        x = _P - x
    return x, y, 1, x * y % _P


def _add(first: _Point, second: _Point) -> _Point:
    a = (first[1] - first[0]) * (second[1] - second[0]) % _P
    b = (first[1] + first[0]) * (second[1] + second[0]) % _P
    c = 2 * first[3] * second[3] * _D % _P
    d = 2 * first[2] * second[2] % _P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % _P, g * h % _P, f * g % _P, e * h % _P


def _times_base_point(factor: int) -> bytes:
    """The encoded product of a number and the base point."""
    result: _Point = (0, 1, 1, 0)
    double = _base_point()
    while factor:
        if factor & 1:
            result = _add(result, double)
        double = _add(double, double)
        factor >>= 1
    inverse = pow(result[2], -1, _P)
    x, y = result[0] * inverse % _P, result[1] * inverse % _P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def _expand(seed: bytes) -> tuple[int, bytes]:
    """The secret scalar of a seed, and the prefix that makes its signatures unpredictable."""
    digest = hashlib.sha512(seed).digest()
    scalar = int.from_bytes(digest[:32], "little")
    return scalar & ((1 << 254) - 8) | (1 << 254), digest[32:]


def public_key(seed: bytes) -> bytes:
    """The public key, 32 bytes, of a seed of `SEED_BYTES` random bytes."""
    return _times_base_point(_expand(seed)[0])


def sign(seed: bytes, message: bytes) -> bytes:
    """The signature of a message, 64 bytes."""

    def number(*parts: bytes) -> int:
        return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little") % _L

    scalar, prefix = _expand(seed)
    nonce = number(prefix, message)
    commitment = _times_base_point(nonce)
    challenge = number(commitment, public_key(seed), message)
    return commitment + ((nonce + challenge * scalar) % _L).to_bytes(32, "little")
