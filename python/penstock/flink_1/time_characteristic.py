"""TimeCharacteristic: which time a program of Flink 1 counts by."""

from enum import Enum


class TimeCharacteristic(Enum):
    """Which time counts; today windows and watermark strategies say so."""

    ProcessingTime = 0
    IngestionTime = 1
    EventTime = 2
