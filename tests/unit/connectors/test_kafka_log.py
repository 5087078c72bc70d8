"""Lines of the client library in the log, which it would otherwise write to the terminal."""

import logging

import pytest
from penstock.connectors.kafka.admin import Admin
from penstock.errors import SourceError

pytest.importorskip("confluent_kafka")

NOBODY = {"bootstrap.servers": "127.0.0.1:1"}


def test_brokers_that_are_down_are_one_warning(caplog, capfd):
    caplog.set_level(logging.INFO)
    admin = Admin(NOBODY, "test", "KafkaSource", SourceError)
    with pytest.raises(SourceError, match=r"brokers at 127\.0\.0\.1:1.*Connection refused"):
        admin.topics(0.3, lambda: False)
    admin.close()
    assert capfd.readouterr().err == ""
    [warning] = [one.getMessage() for one in caplog.records if one.levelno >= logging.WARNING]
    assert "KafkaSource: " in warning
    assert warning.endswith("Connection refused; trying again")
    assert sum("FAIL" in one.getMessage() for one in caplog.records) > 1
