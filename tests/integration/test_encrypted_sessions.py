"""Sessions whose processes encrypt their connections (docs/sessions.md).

Method: a relay between the jobmanager and the others records the traffic.
"""

import contextlib
import os
import signal

import pytest
from penstock.common import Configuration, Types
from penstock.datastream import RemoteStreamEnvironment
from penstock.errors import ConfigurationError
from support.relay import Relay
from support.sessions import TOKEN, Role, Session

ENCRYPTED = ("-D", "security.ssl.internal.enabled=true")
WORD = "a word that nobody else is to read"


@pytest.fixture
def session(tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    monkeypatch.delenv("PENSTOCK_SESSION_TOKEN", raising=False)
    made = Session()
    with contextlib.ExitStack() as stack:
        stack.callback(made.close)
        made.relays = stack
        yield made


def relay_to(session):
    relay = Relay(("127.0.0.1", session.port))
    session.relays.callback(relay.close)
    return relay


def environment(port, **options):
    configuration = Configuration()
    for key, value in options.items():
        configuration.set_string(key, value)
    env = RemoteStreamEnvironment("127.0.0.1", port, token=TOKEN, configuration=configuration)
    env.set_parallelism(1)
    return env


def collected(env):
    stream = env.from_collection([WORD], Types.STRING()).map(lambda text: text + "!")
    with stream.execute_and_collect() as results:
        return list(results)


def taskexecutor(session, port, *arguments, **variables):
    role = Role(
        *("taskexecutor", "--jobmanager", f"127.0.0.1:{port}", "--slots", "1", *arguments),
        **variables,
    )
    session.roles.append(role)
    return role


@pytest.mark.parametrize("runtime", ["native", "pure"])
def test_nobody_between_the_processes_of_a_session_reads_anything(session, runtime):
    """Programs and taskexecutors follow the jobmanager; job code, results, messages, files."""
    session.jobmanager(*ENCRYPTED, "-D", f"penstock.runtime={runtime}", PENSTOCK_RUNTIME=runtime)
    relay = relay_to(session)
    worker = taskexecutor(session, relay.address[1], PENSTOCK_RUNTIME=runtime)
    worker.says("is registered")
    assert collected(environment(relay.address[1])) == [WORD + "!"]
    assert len(relay.seen) > 10_000
    for plain in (WORD, TOKEN, TOKEN.encode().hex(), "sys_path", "execution.target"):
        assert plain.encode() not in relay.seen, plain


def test_without_encryption_the_relay_reads_it(session):
    """A check of the method: the same searches find the texts."""
    session.jobmanager()
    relay = relay_to(session)
    taskexecutor(session, relay.address[1]).says("is registered")
    assert collected(environment(relay.address[1])) == [WORD + "!"]
    for plain in (WORD, TOKEN.encode().hex(), "sys_path", "execution.target"):
        assert plain.encode() in relay.seen, plain


def test_a_client_that_requires_encryption_sends_nothing_in_clear(session):
    session.jobmanager(slots=1)
    relay = relay_to(session)
    insisting = taskexecutor(session, relay.address[1], *ENCRYPTED)
    insisting.says("does not encrypt its connections")
    assert insisting.end() == 1
    env = environment(relay.address[1], **{"security.ssl.internal.enabled": "true"})
    with pytest.raises(ConfigurationError, match="does not encrypt its connections"):
        collected(env)
    assert WORD.encode() not in relay.seen


def test_a_taskexecutor_of_an_encrypted_session_survives_the_jobmanager(session):
    """The TaskExecutor finds the next jobmanager, which has the same certificate and token."""
    first = session.jobmanager(*ENCRYPTED)
    served = session.taskexecutor(1)
    first.signal(signal.SIGKILL)
    session.jobmanager(*ENCRYPTED)
    served.says("is registered", times=2)
    assert collected(session.environment()) == [WORD + "!"]
    assert "PENSTOCK_SESSION_TOKEN" not in os.environ
