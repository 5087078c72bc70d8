"""TimeCharacteristic: the notion of time of a Flink 1 program."""

from enum import Enum

__all__ = ["TimeCharacteristic"]


class TimeCharacteristic(Enum):
    """The notion of time; today windows and watermark strategies choose it."""

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2
