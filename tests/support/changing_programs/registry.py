"""The programs by their names, and their common parts."""

from penstock.common import Time, Types
from penstock.datastream import OutputTag
from penstock.datastream.window import TumblingEventTimeWindows

ANY = Types.PICKLED_BYTE_ARRAY()
LATER = OutputTag("later")
TEN = TumblingEventTimeWindows.of(Time.milliseconds(10))
REUSE = {"pipeline.object-reuse": "true"}

PROGRAMS = {}


def program(build):
    """Register ``build(harness, copied)``; ``copied`` is called wherever a copy is needed."""
    PROGRAMS[build.__name__] = build
    return build


def key(value):
    return value[0]


def changing(copied, mark):
    """Return a function that visibly mutates its argument."""

    def change(value):
        value = copied(value)
        value.append(mark)
        return copied(value)

    return change
