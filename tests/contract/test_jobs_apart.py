"""A worker that serves two jobs keeps them apart.

Credentials of one job open no door of the other job's data plane, and its buffers stay invisible.
Method: a worker's network stacks of two jobs; hand-made peers hold the token, or the token and the
certificate, of the one or the other.
"""

import contextlib
import mmap
import os
import ssl

import pytest
from penstock.errors import AuthenticationError, PartitionConnectionError
from penstock.rpc.job_credentials import DataPlaneSecret
from penstock.rpc.network_buffer_needs import NetworkBufferNeeds
from penstock.taskexecutor.worker.job_networks import JobNetworks
from penstock.taskexecutor.worker.launch import LaunchSpec

from contract.plane import PATIENCE_MS, connect, eventually, partition_id
from contract.raw_peer import RawConsumer, SameHostConsumer

ONE, OTHER = b"1" * 16, b"2" * 16
PID = partition_id()
DOORS = ["tcp", "tls", "same-host"]
NEVER_OPENS = (AuthenticationError, PartitionConnectionError)


class Worker:
    """A worker that serves both jobs; `secret` creates the credentials of each."""

    def __init__(self, plane, door: str, handshake_timeout_ms: int = PATIENCE_MS) -> None:
        self.secret = DataPlaneSecret(tls_enabled=door == "tls")
        jobs = {job_id.hex(): self.secret.credentials(job_id) for job_id in (ONE, OTHER)}
        config = {
            "taskmanager.network.same-host.enabled": str(door == "same-host").lower(),
            "security.ssl.internal.handshake-timeout": f"{handshake_timeout_ms} ms",
            "taskmanager.memory.segment-size": "4 kb",
            "taskmanager.memory.network.segments": "64",
            "taskmanager.network.partition-request-timeout": "200 ms",
        }
        launch = LaunchSpec(("127.0.0.1", 1), "00", "worker", 1, config=config, jobs=jobs)
        self.networks = JobNetworks(launch)
        self.one, self.other = (
            self.networks.open(job_id, NetworkBufferNeeds()) for job_id in (ONE, OTHER)
        )
        plane.environments += [self.one, self.other]


@pytest.fixture(params=DOORS)
def door(request):
    return request.param


@pytest.fixture
def worker(plane, door):
    return Worker(plane, door)


@pytest.fixture
def knock(worker, door, tmp_path):
    """Connect to the stack of one job with the credentials of a job."""

    def connected(environment, job_id, *, certificate_of=None):
        held = worker.secret.credentials(job_id)
        if door == "same-host":
            return SameHostConsumer(environment.address, held.token)
        if door == "tcp":
            return RawConsumer(environment.address, held.token)
        certificate, key = worker.secret.credentials(certificate_of or job_id).tls_identity
        pem = ssl.DER_cert_to_PEM_cert
        file = tmp_path / "identity.pem"
        file.write_text(pem(certificate) + pem(key).replace("CERTIFICATE", "PRIVATE KEY"))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        context.load_cert_chain(file)
        return RawConsumer(environment.address, held.token, wrap=context.wrap_socket)

    return connected


def test_jobs_have_doors_of_their_own(worker):
    """Their credentials differ as well, and are the same at each call."""
    assert worker.one.address != worker.other.address
    one, other = (worker.secret.credentials(job_id) for job_id in (ONE, OTHER))
    assert one == worker.secret.credentials(ONE)
    assert one.token != other.token
    assert len(one.token) == 32
    assert DataPlaneSecret(tls_enabled=False).credentials(ONE).token != one.token
    assert one.tls_identity is None or one.tls_identity != other.tls_identity
    assert one.token.hex() not in repr(one)


def test_the_token_of_another_job_is_rejected(worker, knock, door):
    """At each door, with any other credentials; the job's own token opens it."""
    for environment, own, foreign in ((worker.one, ONE, OTHER), (worker.other, OTHER, ONE)):
        with pytest.raises((EOFError, OSError)):
            knock(environment, foreign)
        if door == "tls":  # a certificate alone does not suffice
            with pytest.raises((EOFError, OSError)):
                knock(environment, foreign, certificate_of=own)
        with knock(environment, own):
            pass


def test_a_producer_of_another_job_is_not_believed(plane, door):
    """A consumer that is directed to the port of another job reads nothing from there.

    It reconnects until its time is over, as it may have been dropped for lack of a place.
    """
    worker = Worker(plane, door, handshake_timeout_ms=500)
    partition = worker.other.create_result_partition(PID, 1, flush_timeout_ms=0)
    plane.writing(partition, "GLOBAL").write(b"a secret of the other job")
    gate = connect(plane, worker.other, worker.one, [(PID, 0)], local=False)
    with pytest.raises(NEVER_OPENS):
        gate.next_buffer(PATIENCE_MS)
    gate.close()
    partition.release()


def test_a_partition_of_another_job_is_not_there(plane, worker, knock):
    """The id alone does not help: a job's stack has only the job's own partitions."""
    partition = worker.other.create_result_partition(PID, 1, flush_timeout_ms=0)
    plane.writing(partition, "GLOBAL").write(b"a secret of the other job")
    with knock(worker.one, ONE) as peer:
        peer.request(PID)
        peer.socket.settimeout(PATIENCE_MS / 1000)
        assert "not registered" in peer.receive().error.message
    partition.release()


@pytest.mark.parametrize("door", ["same-host"], indirect=True)
def test_lent_memory_shows_the_buffers_of_one_job(plane, worker, knock):
    """All of it, from the first byte to the last."""
    written = {}
    with contextlib.ExitStack() as stack:
        for environment, job_id in ((worker.one, ONE), (worker.other, OTHER)):
            partition = environment.create_result_partition(PID, 1, flush_timeout_ms=0)
            stack.callback(partition.release)
            plane.writing(partition, "GLOBAL").write(b"what job %s says" % job_id)
            consumer = stack.enter_context(knock(environment, job_id))
            memory = mmap.mmap(consumer.descriptors[0], 0, access=mmap.ACCESS_READ)
            stack.enter_context(memory)
            written[job_id] = memory
        for own, foreign in ((ONE, OTHER), (OTHER, ONE)):
            assert written[own].find(b"what job %s says" % own) >= 0
            assert written[own].find(b"what job %s says" % foreign) < 0
        inodes = {os.fstat(consumer).st_ino for consumer in consumer.descriptors}
        assert len(inodes) == 2


def test_the_stack_of_a_job_goes_with_its_last_slot(plane, worker, door):
    """Then the worker has its buffers back, and a new stack has another port."""
    assert worker.networks.total_segments == 2 * worker.one.total_segments
    taken = worker.networks.take(ONE)
    assert taken is worker.one
    taken.close()
    assert worker.networks.total_segments == worker.other.total_segments
    assert worker.networks.take(ONE) is None
    again = worker.networks.open(ONE, NetworkBufferNeeds())
    plane.environments.append(again)
    assert again is not taken
    assert worker.networks.of(ONE) is again
    eventually(lambda: again.available_segments == again.total_segments, "buffers are missing")


def test_a_job_that_the_worker_was_started_without(worker):
    """The worker has no metrics of such a job."""
    with pytest.raises(AuthenticationError, match="started before job"):
        worker.networks.open(b"3" * 16, NetworkBufferNeeds())
