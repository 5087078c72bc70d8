"""The certificate of a job."""

import sys

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import load_der_private_key
from penstock.errors import ConfigurationError
from penstock.rpc.job_certificate import SERVER_NAME, new_job_certificate


def test_certificate_vouches_for_itself() -> None:
    """The certificate names the host, is signed by its own key, and never expires."""
    made = new_job_certificate()
    certificate = x509.load_der_x509_certificate(made.certificate)
    certificate.verify_directly_issued_by(certificate)
    assert certificate.public_key() == load_der_private_key(made.private_key, None).public_key()
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == [SERVER_NAME]
    assert certificate.not_valid_after_utc.year == 9999


def test_every_job_has_its_own() -> None:
    """No two keys are equal."""
    first, second = new_job_certificate(), new_job_certificate()
    assert first.private_key != second.private_key
    assert first.certificate != second.certificate


def test_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encryption that is configured but unavailable is an error that names the package."""
    monkeypatch.setitem(sys.modules, "cryptography", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'penstock-engine\[tls\]'"):
        new_job_certificate()
