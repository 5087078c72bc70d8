"""Values of change rows in Redis: texts that any client reads."""

import datetime
from dataclasses import dataclass
from decimal import Decimal

import pytest
from penstock.common import Instant, Row, Types
from penstock.connectors.redis.hashes import RedisHashes


@dataclass
class Place:
    town: str
    at: Instant | None = None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (Decimal("4.50"), "4.50"),
        (Instant(1_710_055_800, 5_000_000), "2024-03-10T07:30:00.005Z"),
        (datetime.datetime(2024, 3, 10, 2, 30), "2024-03-10T02:30:00"),
        (["a", 1, None], '["a",1,null]'),
        (("a", Decimal("1.50")), '["a","1.50"]'),
        ({"a": datetime.date(2024, 3, 10)}, '{"a":"2024-03-10"}'),
        (Row(a=1, b=Row(c=None)), '{"a":1,"b":{"c":null}}'),
        (Row(1, "b"), '[1,"b"]'),
        (Place("Rome", Instant(0, 0)), '{"town":"Rome","at":"1970-01-01T00:00:00Z"}'),
    ],
)
def test_values_are_texts(value, text):
    kind = Types.ROW_NAMED(["id", "value"], [Types.LONG(), Types.PICKLED_BYTE_ARRAY()])
    (command,) = RedisHashes(kind, ["id"], "").commands((7,), Row(id=7, value=value))
    assert command == ("HSET", "7", "id", 7, "value", text)


def test_different_keys_have_different_names():
    kind = Types.ROW_NAMED(["a", "b"], [Types.STRING(), Types.STRING()])
    hashes = RedisHashes(kind, ["a", "b"], "p:")
    keys = [("x", "y"), ("x:y", "z"), ("x", "y:z"), ("x%3Ay", "z"), ("", ":")]
    names = [next(hashes.commands(key, Row(a=key[0], b=key[1])))[1] for key in keys]
    assert names == ["p:x:y", "p:x%3Ay:z", "p:x:y:z", "p:x%253Ay:z", "p:::"]
