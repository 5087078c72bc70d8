"""The limit of time within which PostgresCdcSource connects is libpq's."""

import socket
from types import SimpleNamespace

import pytest
from penstock.common import Types
from penstock.connectors.postgres_cdc import server
from penstock.datastream.connectors.postgres_cdc import PostgresCdcSource
from penstock.errors import InvalidProgramError

pytest.importorskip("psycopg")


class Closed:
    """An event that is set when it is asked for the third time."""

    asked = 0

    def is_set(self):
        self.asked += 1
        return self.asked > 2


@pytest.mark.parametrize(("timeout_s", "waits"), [(0, 3), (-1, 3), (1e-9, 1)])
def test_without_a_positive_timeout_there_is_no_limit(monkeypatch, timeout_s, waits):
    monkeypatch.setattr(server, "_STEP_S", 0)
    silent, peer = socket.socketpair()
    connection = object.__new__(server.Connection)
    connection.shown, connection._closed = "h/d", Closed()
    connection._pq = server.postgres_library().pq
    reading = connection._pq.PollingStatus.READING
    connection._connection = SimpleNamespace(
        connect_poll=lambda: reading, socket=silent, finish=lambda: None
    )
    with silent, peer, pytest.raises(server.UnreachableError, match="cannot connect to h/d"):
        connection._finish_connecting(timeout_s)
    assert connection._closed.asked == waits


def test_a_timeout_that_is_not_a_number_is_rejected():
    row = Types.ROW_NAMED(["id"], [Types.LONG()])
    with pytest.raises(InvalidProgramError, match="whole number of seconds, got 'soon'"):
        PostgresCdcSource("postgresql://h/d?connect_timeout=soon", "t", row, slot="s")
