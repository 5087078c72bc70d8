"""Clients of the REST interface that say nothing keep nobody out who has the token.

Method: a server of a small application, without a cluster.
"""

import asyncio
import contextlib
import http.client
import socket
from urllib.parse import urlsplit

import pytest
from penstock.rest.http_server import HttpServer
from penstock.rpc.admission import MAX_UNPROVEN

PATIENCE_S = 60


async def application(scope, receive, send):
    while (await receive())["type"] == "http.request" and scope["path"] == "/waits":
        pass  # until the client is gone
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"served"})


@pytest.fixture
def server():
    made = HttpServer(
        {}, "127.0.0.1", None, "rest.port", lambda access: access.guarding(application)
    )
    made.start()
    yield made

    async def nothing():
        await asyncio.sleep(0)

    made.close(nothing)


def client_of(server):
    address = urlsplit(server.url)
    return http.client.HTTPConnection(address.hostname, address.port, timeout=PATIENCE_S)


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
        # The oldest went for those that came, but not the one that has shown the token.
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
