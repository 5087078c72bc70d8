"""Credentials that the TaskExecutors of one job present to each other: each job has its own.

A worker that serves several jobs has a network stack for each of them, with its own port and its
own memory, so that the credentials of one job open no port of another.  The secret from which the
tokens are derived never leaves the driver, and the token of one job does not reveal another.
"""

from __future__ import annotations

import hmac
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.rpc.authentication import new_token
from penstock.rpc.job_certificate import new_job_certificate

if TYPE_CHECKING:
    from penstock.rpc.job_certificate import JobCertificate

_PURPOSE: Final = b"penstock data plane "


class JobCredentials(msgspec.Struct, frozen=True):
    """Token of a job's data plane, and if it is encrypted a certificate and its key (DER)."""

    token: bytes
    tls_identity: tuple[bytes, bytes] | None = None

    def __repr__(self) -> str:
        return "JobCredentials(...)"


class DataPlaneSecret:
    """Creates the credentials of a cluster's jobs.

    Args:
        tls_enabled: Whether connections between TaskExecutors are encrypted.
    """

    def __init__(self, *, tls_enabled: bool) -> None:
        self._secret = new_token()
        self._tls_enabled = tls_enabled
        self._certificates: dict[bytes, JobCertificate] = {}

    def credentials(self, job_id: bytes) -> JobCredentials:
        """Return a job's credentials: the same each time, until it is forgotten.

        Raises:
            ConfigurationError: The package that creates certificates is not installed.
        """
        identity = None
        if self._tls_enabled:
            if job_id not in self._certificates:
                self._certificates[job_id] = new_job_certificate()
            certificate, private_key = self._certificates[job_id]
            identity = (certificate, private_key)
        return JobCredentials(derived_token(self._secret, job_id), identity)

    def forget(self, job_id: bytes) -> None:
        """Forget a job that has ended."""
        self._certificates.pop(job_id, None)


def derived_token(secret: bytes, job_id: bytes) -> bytes:
    """Return the token of a job: the first block of HKDF-Expand (RFC 5869, 2.3) with HMAC-SHA256.

    The secret is random and as long as a hash, so no extraction step is needed.
    """
    return hmac.digest(secret, _PURPOSE + job_id + b"\x01", "sha256")
