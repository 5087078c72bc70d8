"""The REST interface with TLS: who can connect, and options rejected before anything starts."""

import datetime
import ssl
import urllib.request

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from penstock.errors import ConfigurationError
from penstock.rest.run_files import running_clusters
from penstock.rest.tls import tls_context
from support.commands import penstock
from support.patience import PATIENCE_S
from support.rest_client import UntilMarked, environment


@pytest.fixture(autouse=True)
def run_directory(own_process, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))


def pem(password=None):
    """Return a key and its self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "shop.example")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    encryption = (
        serialization.NoEncryption()
        if password is None
        else serialization.BestAvailableEncryption(password)
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, encryption
    )
    return private + certificate.public_bytes(serialization.Encoding.PEM)


def running(tmp_path, **options):
    env = environment(**options)
    env.add_source(UntilMarked(tmp_path / "stop")).filter(lambda n: n < 0).print()
    return env.execute_async("encrypted")


def test_the_interface_speaks_tls_and_the_command_line_trusts_it(tmp_path):
    path = tmp_path / "key store.pem"
    path.write_bytes(pem(b"hush"))
    job = running(
        tmp_path,
        **{
            "security.ssl.rest.enabled": "true",
            "security.ssl.rest.keystore": str(path),
            "security.ssl.rest.key-password": "hush",
        },
    )
    (cluster,) = running_clusters()
    assert cluster.url.startswith("https://127.0.0.1:")
    assert "PRIVATE" not in cluster.certificates
    assert "encrypted (RUNNING)" in penstock("list")
    # Other certificates are not trusted, and nothing is sent unencrypted.
    with pytest.raises(OSError, match="CERTIFICATE_VERIFY_FAILED"):
        urllib.request.urlopen(
            cluster.url, timeout=PATIENCE_S, context=ssl.create_default_context()
        )
    with pytest.raises(OSError):
        urllib.request.urlopen(cluster.url.replace("https", "http"), timeout=PATIENCE_S)
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_clients_may_have_to_show_a_certificate(tmp_path):
    path, others = tmp_path / "key.pem", tmp_path / "client.pem"
    path.write_bytes(pem())
    others.write_bytes(pem())
    job = running(
        tmp_path,
        **{
            "security.ssl.rest.enabled": "true",
            "security.ssl.rest.keystore": str(path),
            "security.ssl.rest.authentication-enabled": "true",
            "security.ssl.rest.truststore": str(others),
        },
    )
    (cluster,) = running_clusters()
    context = ssl.create_default_context(cadata=cluster.certificates)
    context.check_hostname = False
    with pytest.raises(OSError):
        urllib.request.urlopen(cluster.url, timeout=PATIENCE_S, context=context).read()
    context.load_cert_chain(others)
    with urllib.request.urlopen(cluster.url, timeout=PATIENCE_S, context=context) as answer:
        assert answer.status == 200
    (tmp_path / "stop").touch()
    job.get_job_execution_result().result()


def test_the_error_names_an_unusable_file(tmp_path):
    enabled = {"security.ssl.rest.enabled": "true"}
    with pytest.raises(ConfigurationError, match=r"rest\.keystore is not set: name a PEM file"):
        tls_context(enabled)
    with pytest.raises(ConfigurationError, match="there is no file"):
        tls_context({**enabled, "security.ssl.rest.keystore": str(tmp_path / "none")})
    path = tmp_path / "store.jks"
    path.write_bytes(b"a store of Java's")
    with pytest.raises(ConfigurationError, match="is not a PEM file with a private key"):
        tls_context({**enabled, "security.ssl.rest.keystore": str(path)})
    path.write_bytes(pem(b"hush"))
    for password in ({}, {"security.ssl.rest.key-password": "wrong"}):
        with pytest.raises(ConfigurationError, match=r"rest\.keystore"):
            tls_context({**enabled, "security.ssl.rest.keystore": str(path), **password})
    path.write_bytes(pem())
    mutual = {
        **enabled,
        "security.ssl.rest.keystore": str(path),
        "security.ssl.rest.authentication-enabled": "true",
    }
    with pytest.raises(ConfigurationError, match=r"rest\.truststore is not set"):
        tls_context(mutual)
    assert tls_context({}) is None
