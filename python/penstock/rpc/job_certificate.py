"""The certificate by which the TaskExecutors of one job know each other.

The driver makes it when TLS is asked for and hands it to its workers together with the token.  It
vouches for itself: it is the identity of every worker and the only certificate that any of them
trusts, on either end of a connection (so nothing that another authority has signed counts).  It
has no end date of its own; it ends with the job, for nobody keeps its key.
"""

from __future__ import annotations

import datetime
from typing import NamedTuple

from penstock.errors import ConfigurationError

SERVER_NAME = "executor.penstock.internal"
"""The name in every certificate, which connecting ends ask for; both runtimes use the same."""

_NOT_BEFORE = datetime.datetime(2000, 1, 1, tzinfo=datetime.UTC)
"""Long ago, so that the clocks of hosts need not agree."""
_NOT_AFTER = datetime.datetime(9999, 12, 31, 23, 59, 59, tzinfo=datetime.UTC)
"""What RFC 5280 (4.1.2.5) has for "no date"."""


class JobCertificate(NamedTuple):
    """A certificate (X.509) and its key (PKCS #8), both in DER."""

    certificate: bytes
    private_key: bytes


def new_job_certificate() -> JobCertificate:
    """Makes a certificate with a fresh key.

    Raises:
        ConfigurationError: the package that makes certificates is not installed.
    """
    try:
        from cryptography import x509
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    except ImportError as error:
        raise ConfigurationError(
            "security.ssl.internal.enabled needs the package cryptography where the job is "
            f"submitted: pip install 'penstock[tls]' ({error})"
        ) from error
    key = Ed25519PrivateKey.generate()
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, SERVER_NAME)])
    alternative_name = x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
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
