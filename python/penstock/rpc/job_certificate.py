"""Certificates that authenticate the processes of one job, or of one control plane.

The driver creates a job's certificate if TLS is enabled and sends it to its workers together with
the token.  That of the control plane is derived from the cluster's token, so that every holder of
the token has it.  A certificate is self-signed: every process presents it, and trusts no other, on
either end of a connection (so a certificate of another authority is rejected).  It has no end date
of its own; it ends with the job or the token, since its key is not stored.
"""

from __future__ import annotations

import datetime
import functools
import hmac
import os
import secrets
from typing import NamedTuple

from penstock.errors import ConfigurationError

_CONTROL_PLANE = b"penstock control plane certificate\x01"
_SEED_BYTES = 32
_SERIAL_BITS = 150
"""RFC 5280 (4.1.2.2): positive, and no more than 20 bytes."""

SERVER_NAME = "executor.penstock.internal"
"""The name in every certificate, which connecting ends check; both runtimes use the same."""

_NOT_BEFORE = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
"""A date in the distant past, so that the clocks of hosts need not agree."""
_NOT_AFTER = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
"""Date that RFC 5280 (4.1.2.5) uses for "no date"."""


class JobCertificate(NamedTuple):
    """A certificate (X.509) and its key (PKCS #8), both in DER."""

    certificate: bytes
    private_key: bytes


def new_job_certificate() -> JobCertificate:
    """Create a certificate with a fresh key.

    Raises:
        ConfigurationError: the package that creates certificates is not installed.
    """
    return _certificate(os.urandom(_SEED_BYTES), secrets.randbits(_SERIAL_BITS) + 1)


@functools.lru_cache(maxsize=16)
def control_certificate(token: bytes) -> JobCertificate:
    """Return the certificate of a cluster's control plane, the same for every holder of the token.

    Its key is the first block of HKDF-Expand (RFC 5869, 2.3) of the token with HMAC-SHA256.

    Raises:
        ConfigurationError: the package that creates certificates is not installed.
    """
    return _certificate(hmac.digest(token, _CONTROL_PLANE, "sha256"), 1)


def _certificate(seed: bytes, serial_number: int) -> JobCertificate:
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise ConfigurationError(
            "security.ssl.internal.enabled needs the package cryptography where jobs are "
            "submitted, and at the jobmanager and the taskexecutors of a session: "
            f"pip install 'penstock-engine[tls]' ({error})"
        ) from error
    key = Ed25519PrivateKey.from_private_bytes(seed)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, SERVER_NAME)])
    alternative_name = x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(serial_number)
        .not_valid_before(_NOT_BEFORE)
        .not_valid_after(_NOT_AFTER)
        .add_extension(alternative_name, critical=False)
        .sign(key, None)
    )
    der = serialization.Encoding.DER
    return JobCertificate(
        certificate.public_bytes(der),
        key.private_bytes(der, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()),
    )
