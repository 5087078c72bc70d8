"""Log lines of HttpSource about requests that it repeats."""

from types import SimpleNamespace

import pytest
from penstock.connectors.http.source import _HttpReader
from penstock.errors import SourceError


def test_a_retry_is_announced_before_the_pause(caplog):
    """A task that is cancelled in the pause has told why it paused."""

    def refuse(*_):
        raise ConnectionRefusedError("nobody")

    reader = object.__new__(_HttpReader)
    reader._source = SimpleNamespace(retry_delay_ms=5, max_retries=3, headers={})
    reader._connection = SimpleNamespace(ask=refuse)
    reader._asking = SimpleNamespace(pause=lambda delay_s: False)
    with pytest.raises(SourceError, match="ConnectionRefusedError"):
        reader._body_of("http://h")
    assert [record.getMessage() for record in caplog.records] == [
        "http://h: ConnectionRefusedError: nobody; retrying in 5 ms"
    ]
