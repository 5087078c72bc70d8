"""Credentials that a peer of the control plane presents to the driver, and requires from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.errors import AuthenticationError
from penstock.rpc.job_certificate import control_certificate

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(frozen=True, repr=False)
class ControlCredentials:
    """The token, and the rules of encryption.

    Attributes:
        token: The token of the driver's port.
        tls_identity: The certificate of the control plane and its key (DER), if the driver
            provided them; such a peer accepts only an encrypting driver.
        follows: Whether it creates the certificate itself if the driver encrypts.
        insists: Whether it accepts only an encrypting driver.
    """

    token: bytes
    tls_identity: tuple[bytes, bytes] | None = None
    follows: bool = False
    insists: bool = False

    @staticmethod
    def of_session(token: bytes, *, insists: bool = False) -> ControlCredentials:
        """Return the credentials of a process that knows a session's token.

        Args:
            token: The session's token.
            insists: Whether ``security.ssl.internal.enabled`` is set for this process.
        """
        return ControlCredentials(token, follows=True, insists=insists)

    @staticmethod
    def of_launch(specification: Mapping[str, Any]) -> ControlCredentials:
        """Return the credentials of a worker (`penstock.taskexecutor.worker.launch`)."""
        token = bytes.fromhex(specification["token"])
        given = specification.get("control_certificate")
        if given is None:
            return ControlCredentials(token)
        certificate, private_key = given
        return ControlCredentials(
            token, (bytes.fromhex(certificate), bytes.fromhex(private_key)), insists=True
        )

    def identity(self, *, server_encrypts: bool) -> tuple[bytes, bytes] | None:
        """Return the identity to encrypt with; None for a plain connection.

        Args:
            server_encrypts: Whether the server has proved that it encrypts.

        Raises:
            AuthenticationError: The two sides do not fit together.
            ConfigurationError: The package that creates certificates is not installed.
        """
        if not server_encrypts:
            if self.insists:
                raise AuthenticationError(
                    "the server does not encrypt its connections, and security.ssl.internal."
                    "enabled is set here: set it there too"
                )
            return None
        if self.tls_identity is not None:
            return self.tls_identity
        if self.follows:
            certificate, private_key = control_certificate(self.token)
            return certificate, private_key
        raise AuthenticationError(
            "the server encrypts its connections (security.ssl.internal.enabled), and this process "
            "was started without a certificate"
        )
