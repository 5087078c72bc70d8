"""Connections between hosts are encrypted and mutually authenticated if configured.

internals M20: wrong or absent certificates end their owner's connection, and no other.
"""

import contextlib
import random
import socket
import ssl
import struct

import pytest
from penstock.errors import AuthenticationError, PartitionConnectionError
from penstock.rpc.job_certificate import SERVER_NAME, new_job_certificate

from contract.plane import (
    NATIVE_IS_BUILT,
    PATIENCE_MS,
    Background,
    Plane,
    assert_all_returned,
    connect,
    partition_id,
)
from contract.raw_peer import RawConsumer, RawPeer, RawProducer

IDENTITY = new_job_certificate()
STRANGER = new_job_certificate()
PID = partition_id()
RUNTIMES = ["native", "pure"]


@pytest.fixture
def tcp_plane(plane):
    plane.same_host_path = False
    return plane


@pytest.fixture
def context_of(tmp_path):
    """Create the ssl context of one end, with an identity or without."""

    def make(protocol, identity):
        context = ssl.SSLContext(protocol)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        if identity is not None:
            pem = tmp_path / "identity.pem"
            key = ssl.DER_cert_to_PEM_cert(identity.private_key).replace(
                "CERTIFICATE", "PRIVATE KEY"
            )
            pem.write_text(ssl.DER_cert_to_PEM_cert(identity.certificate) + key)
            context.load_cert_chain(pem)
        return context

    return make


def exchange(producing, consuming, producer, consumer, pid=PID):
    """Check that records of all sizes arrive, and every buffer returns."""
    partition = producer.create_result_partition(pid, 2, flush_timeout_ms=5)
    gate = connect(consuming, producer, consumer, [(pid, 0), (pid, 1)], local=False)
    source = random.Random(17)
    values = [
        bytes([n % 2]) + source.randbytes(source.choice((0, 3, 900, 1024, 40_000)))
        for n in range(200)
    ]

    def produce():
        producing.writing(partition).write(*values)
        partition.finish()
        return partition.wait_consumed(PATIENCE_MS)

    background = Background(produce)
    seen = consuming.reading(gate).to_end()
    assert [seen.values[n] for n in (0, 1)] == [values[0::2], values[1::2]]
    assert background.result()
    gate.close()
    partition.release()
    assert_all_returned(producer, consumer)


@pytest.mark.skipif(not NATIVE_IS_BUILT, reason="penstock._core is not built")
@pytest.mark.parametrize("consumer_kind", RUNTIMES)
@pytest.mark.parametrize("producer_kind", RUNTIMES)
def test_every_pair_of_runtimes(producer_kind, consumer_kind, monkeypatch):
    """Executors of one job can connect, whichever runtime they have."""
    monkeypatch.setenv("PENSTOCK_RUNTIME", "pure")
    planes = [Plane(producer_kind), Plane(consumer_kind)]
    try:
        environments = [
            plane.environment(same_host_path=False, tls_identity=IDENTITY) for plane in planes
        ]
        exchange(*planes, *environments)
    finally:
        for plane in planes:
            plane.close()


@pytest.mark.parametrize("certificate", ["a stranger's", "none", "the job's"])
def test_clients_without_the_certificate(tcp_plane, context_of, certificate):
    """A consumer without the job's certificate does not pass the handshake."""
    environment = tcp_plane.environment(tls_identity=IDENTITY)
    identity = {"a stranger's": STRANGER, "none": None, "the job's": IDENTITY}[certificate]
    context = context_of(ssl.PROTOCOL_TLS_CLIENT, identity)
    raw = socket.create_connection(environment.address)
    raw.settimeout(PATIENCE_MS / 1000)
    with raw, context.wrap_socket(raw, server_hostname=SERVER_NAME) as client:
        assert client.version() == "TLSv1.3"
        assert client.getpeercert(binary_form=True) == IDENTITY.certificate
        if identity is IDENTITY:
            assert len(client.recv(32)) == 32
        else:
            # In TLS 1.3 a client learns of the server's rejection after its own handshake.
            with pytest.raises((ssl.SSLError, ConnectionResetError), match=r"(?i)alert|reset"):
                client.recv(1)
    exchange(tcp_plane, tcp_plane, environment, tcp_plane.environment(tls_identity=IDENTITY))


@pytest.mark.parametrize("certificate", ["a stranger's", "none"])
def test_producers_without_the_certificate(tcp_plane, context_of, certificate):
    """A producer without the job's certificate fails its channels; the other channels continue."""
    consumer = tcp_plane.environment(tls_identity=IDENTITY)
    identity = STRANGER if certificate == "a stranger's" else None
    context = context_of(ssl.PROTOCOL_TLS_SERVER, identity)
    with RawProducer() as producer:

        def serve():
            peer = producer.accept_silently()
            with peer, contextlib.suppress(ssl.SSLError, ConnectionError):
                context.wrap_socket(peer.socket, server_side=True).close()

        background = Background(serve)
        gate = consumer.create_input_gate([(PID, 0, producer.address)])
        gate.request_partitions()
        with pytest.raises(PartitionConnectionError, match="TLS"):
            gate.next_buffer(PATIENCE_MS)
        background.result()
        gate.close()
    exchange(tcp_plane, tcp_plane, tcp_plane.environment(tls_identity=IDENTITY), consumer)


@pytest.mark.parametrize("encrypted", ["producer", "consumer"])
def test_one_side_in_the_clear(tcp_plane, encrypted):
    """Executors with different TLS settings cannot connect; nothing hangs."""
    identity = {encrypted: IDENTITY}
    settings = {"handshake_timeout_ms": 200}
    producer = tcp_plane.environment(tls_identity=identity.get("producer"), **settings)
    consumer = tcp_plane.environment(tls_identity=identity.get("consumer"), **settings)
    gate = connect(tcp_plane, producer, consumer, [(PID, 0)], local=False)
    with pytest.raises(PartitionConnectionError, match=str(producer.address[1])):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    assert_all_returned(consumer)


def test_jobs_of_their_own(tcp_plane):
    """Executors of two jobs cannot connect, though both use TLS and hold the same token."""
    producer = tcp_plane.environment(tls_identity=IDENTITY)
    consumer = tcp_plane.environment(tls_identity=STRANGER)
    gate = connect(tcp_plane, producer, consumer, [(PID, 0)], local=False)
    with pytest.raises(PartitionConnectionError, match="TLS"):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    assert_all_returned(consumer)


def test_token_inside(tcp_plane):
    """The certificate alone does not suffice: the token is required as well."""
    producer = tcp_plane.environment(tls_identity=IDENTITY)
    consumer = tcp_plane.environment(
        tls_identity=IDENTITY, token=b"another token", handshake_timeout_ms=300
    )
    gate = connect(tcp_plane, producer, consumer, [(PID, 0)], local=False)
    with pytest.raises(PartitionConnectionError):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    assert_all_returned(consumer)


@pytest.mark.parametrize("said", ["garbage", "an answer to the token", "half a hello", "nothing"])
def test_plaintext(tcp_plane, said, capfd, caplog):
    """A peer that does not speak TLS is dropped and logged, at the latest after a timeout."""
    timeout_ms = 200 if said in ("half a hello", "nothing") else 10_000
    environment = tcp_plane.environment(tls_identity=IDENTITY, handshake_timeout_ms=timeout_ms)
    with RawPeer(socket.create_connection(environment.address)) as stranger:
        port = stranger.socket.getsockname()[1]
        stranger.socket.sendall(
            {
                "garbage": struct.pack(">iIB", 9, 0xBADC0FFE, 5) * 100,
                "an answer to the token": bytes(64),
                "half a hello": bytes.fromhex("160301020001"),
                "nothing": b"",
            }[said]
        )
        assert stranger.is_closed_by_peer()
    tcp_plane.environments.pop(0).close()
    log = capfd.readouterr().err + caplog.text
    assert any(str(port) in line for line in log.splitlines())
    environments = [tcp_plane.environment(tls_identity=IDENTITY) for _ in range(2)]
    exchange(tcp_plane, tcp_plane, *environments)


def test_broken_ciphertext(tcp_plane, context_of):
    """A manipulated record ends its connection, and no other."""
    environment = tcp_plane.environment(tls_identity=IDENTITY)
    partition = environment.create_result_partition(PID, 1, flush_timeout_ms=0)
    context = context_of(ssl.PROTOCOL_TLS_CLIENT, IDENTITY)
    with RawConsumer(environment.address, wrap=context.wrap_socket) as peer:
        peer.request(PID)
        tcp_plane.writing(partition, "GLOBAL").write(b"seen")
        header, payload = peer.receive()
        assert header.size == len(payload) == tcp_plane.framed_size(b"seen")
        with socket.socket(fileno=peer.socket.detach()) as below:
            below.sendall(bytes.fromhex("1703030020") + bytes(32))
            below.settimeout(PATIENCE_MS / 1000)
            assert RawPeer(below).is_closed_by_peer()
    partition.release()
    exchange(tcp_plane, tcp_plane, environment, tcp_plane.environment(tls_identity=IDENTITY))


@pytest.mark.parametrize("broken", ["certificate", "key", "pair"])
def test_useless_identity(plane, broken):
    """An invalid identity is rejected when the environment is created."""
    identity = {
        "certificate": (b"no certificate", IDENTITY.private_key),
        "key": (IDENTITY.certificate, b"no key"),
        "pair": (IDENTITY.certificate, STRANGER.private_key),
    }[broken]
    with pytest.raises(AuthenticationError, match="certificate"):
        plane.environment(tls_identity=identity)


def test_same_host_in_the_clear(plane):
    """Executors of one host use their Unix socket, where nothing is encrypted."""
    environments = [plane.environment(tls_identity=IDENTITY) for _ in range(2)]
    exchange(plane, plane, *environments)
