"""Silent clients of the REST interface do not block clients that have the token.

Method: a server of a small application, without a cluster, with TLS and without.
"""

import asyncio
import contextlib
import http.client
import socket
import ssl
from urllib.parse import urlsplit

import pytest
import uvicorn
from penstock.rest import http_server
from penstock.rest.http_server import HttpServer
from penstock.rpc.admission import MAX_UNPROVEN
from support.certificates import own_certificate
from support.patience import PATIENCE_S


async def application(scope, receive, send):
    while (await receive())["type"] == "http.request" and scope["path"] == "/waits":
        pass  # until the client has disconnected
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"served"})


@pytest.fixture(autouse=True)
def no_deadline(monkeypatch):
    """Let no deadline end a connection that the bound is to keep, or to end."""
    made = uvicorn.Config

    def config(*arguments, **options):
        return made(*arguments, **{**options, "timeout_keep_alive": 10 * PATIENCE_S})

    monkeypatch.setattr(uvicorn, "Config", config)
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_S", 10 * PATIENCE_S)


@contextlib.contextmanager
def serving(options):
    made = HttpServer(
        options, "127.0.0.1", None, "rest.port", lambda access: access.guarding(application)
    )
    made.start()
    try:
        yield made
    finally:

        async def nothing():
            await asyncio.sleep(0)

        made.close(nothing)


@pytest.fixture
def server():
    with serving({}) as made:
        yield made


@pytest.fixture
def certificate(tmp_path):
    return own_certificate(tmp_path / "key store.pem")


@pytest.fixture
def encrypted(certificate):
    options = {
        "security.ssl.rest.enabled": "true",
        "security.ssl.rest.keystore": str(certificate),
    }
    with serving(options) as made:
        yield made


def client_of(server, certificate=None):
    address = urlsplit(server.url)
    place = address.hostname, address.port
    if certificate is None:
        return http.client.HTTPConnection(*place, timeout=PATIENCE_S)
    context = ssl.create_default_context(cafile=certificate)
    return http.client.HTTPSConnection(*place, timeout=PATIENCE_S, context=context)


def ask(client, token):
    client.request("GET", "/any", headers={"Authorization": f"Bearer {token}"})
    answer = client.getresponse()
    return answer.status, answer.read()


def silent(server):
    address = urlsplit(server.url)
    return socket.create_connection((address.hostname, address.port), PATIENCE_S)


def test_silent_connections_do_not_lock_out_who_has_the_token(server):
    with contextlib.ExitStack() as stack:
        known = stack.enter_context(contextlib.closing(client_of(server)))
        assert ask(known, server.token)[0] == 200
        strangers = [stack.enter_context(silent(server)) for _ in range(MAX_UNPROVEN + 44)]
        # The oldest were closed for new ones, but not the one that has sent the token.
        assert strangers[0].recv(1) == b""
        assert ask(known, server.token) == (200, b"served")
        another = stack.enter_context(contextlib.closing(client_of(server)))
        assert ask(another, server.token) == (200, b"served")


def test_requests_without_the_token_prove_nothing(server):
    with contextlib.ExitStack() as stack:
        stranger = stack.enter_context(contextlib.closing(client_of(server)))
        assert ask(stranger, "wrong")[0] == 401
        for _ in range(MAX_UNPROVEN):
            stack.enter_context(silent(server))
        with pytest.raises((ConnectionError, http.client.BadStatusLine)):
            stranger.sock.settimeout(PATIENCE_S)
            if stranger.sock.recv(1) == b"":
                raise ConnectionResetError


def begun(certificate):
    """Return the first message of a TLS client."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=certificate)
    client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with pytest.raises(ssl.SSLWantReadError):
        client.do_handshake()
    return outgoing.read()


@pytest.mark.parametrize("share", [0, 0.5, 1], ids=["nothing", "half a message", "one message"])
def test_handshakes_that_never_end_do_not_lock_out_who_has_the_token(encrypted, certificate, share):
    hello = begun(certificate)
    with contextlib.ExitStack() as stack:
        known = stack.enter_context(contextlib.closing(client_of(encrypted, certificate)))
        assert ask(known, encrypted.token)[0] == 200
        strangers = []
        for _ in range(MAX_UNPROVEN + 44):
            strangers.append(stack.enter_context(silent(encrypted)))
            strangers[-1].sendall(hello[: int(share * len(hello))])
        # The oldest were closed for new ones, and the remaining ones are within the bound.
        assert ended(strangers[0])
        assert ask(known, encrypted.token) == (200, b"served")
        another = stack.enter_context(contextlib.closing(client_of(encrypted, certificate)))
        assert ask(another, encrypted.token) == (200, b"served")


def ended(client):
    """Return whether the server closes a connection, after all its answers."""
    with contextlib.suppress(ConnectionResetError):
        while client.recv(4096):
            pass
    return True


def test_a_handshake_has_a_deadline(certificate, monkeypatch):
    monkeypatch.setattr(http_server, "REQUEST_TIMEOUT_S", 0.1)
    options = {
        "security.ssl.rest.enabled": "true",
        "security.ssl.rest.keystore": str(certificate),
    }
    with serving(options) as server, silent(server) as client:
        assert ended(client)


def test_a_request_may_come_with_the_end_of_the_handshake(encrypted, certificate):
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.create_default_context(cafile=certificate)
    client = context.wrap_bio(incoming, outgoing, server_hostname="127.0.0.1")
    with silent(encrypted) as connection:
        while True:
            try:
                client.do_handshake()
                break
            except ssl.SSLWantReadError:
                connection.sendall(outgoing.read())
                incoming.write(connection.recv(65536))
        request = (
            "GET /any HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
            f"Authorization: Bearer {encrypted.token}\r\n\r\n"
        )
        client.write(request.encode())
        connection.sendall(outgoing.read())
        answer = b""
        while b"served" not in answer:
            try:
                answer += client.read(65536)
            except ssl.SSLWantReadError:
                received = connection.recv(65536)
                assert received, "the server has closed the connection"
                incoming.write(received)
        assert answer.startswith(b"HTTP/1.1 200 ")
