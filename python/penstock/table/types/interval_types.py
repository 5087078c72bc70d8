"""INTERVAL: the types of durations, and their resolutions."""

from __future__ import annotations

from enum import Enum
from typing import Any

from penstock.table.types.logical_types import AtomicType, check_range


class Resolution:
    """One end of the unit range of an interval.

    Args:
        unit: The unit.
        precision: The digits of years, days or fractional seconds; -1 for the other units.
    """

    class IntervalUnit(Enum):
        """The unit of one end."""

        SECOND = 0
        MINUTE = 1
        HOUR = 2
        DAY = 3
        MONTH = 4
        YEAR = 5

    def __init__(self, unit: Resolution.IntervalUnit, precision: int = -1) -> None:
        self._unit = unit
        self._precision = precision

    @property
    def unit(self) -> Resolution.IntervalUnit:
        """The unit."""
        return self._unit

    @property
    def precision(self) -> int:
        """The digits of years, days or fractional seconds; -1 for the other units."""
        return self._precision

    def __str__(self) -> str:
        return f"{self._unit}({self._precision})"


class YearMonthIntervalType(AtomicType):
    """INTERVAL of years and months; its values are numbers of months.

    Args:
        resolution: The units.
        precision: The digits of years, 1 to 4.
        nullable: Whether values may be NULL.
    """

    class YearMonthResolution(Enum):
        """The units of an interval of years and months."""

        YEAR = 1
        MONTH = 2
        YEAR_TO_MONTH = 3

    def __init__(
        self,
        resolution: YearMonthIntervalType.YearMonthResolution = YearMonthResolution.MONTH,
        precision: int = 2,
        nullable: bool = True,
    ) -> None:
        super().__init__(nullable)
        check_range("The precision of years", precision, 1, 4)
        self.resolution = resolution
        self.precision = precision

    def summary(self) -> str:
        """Return INTERVAL with its units."""
        match self.resolution.name:
            case "MONTH":
                return "INTERVAL MONTH"
            case "YEAR":
                return f"INTERVAL YEAR({self.precision})"
        return f"INTERVAL YEAR({self.precision}) TO MONTH"

    def _identity(self) -> tuple[Any, ...]:
        return self.resolution, self.precision, self._nullable


class DayTimeIntervalType(AtomicType):
    """INTERVAL of days to fractional seconds; its values are numbers of milliseconds.

    Args:
        resolution: The units.
        day_precision: The digits of days, 1 to 6.
        fractional_precision: The digits of fractional seconds, 0 to 9.
        nullable: Whether values may be NULL.
    """

    class DayTimeResolution(Enum):
        """The units of an interval of days to seconds."""

        DAY = 1
        DAY_TO_HOUR = 2
        DAY_TO_MINUTE = 3
        DAY_TO_SECOND = 4
        HOUR = 5
        HOUR_TO_MINUTE = 6
        HOUR_TO_SECOND = 7
        MINUTE = 8
        MINUTE_TO_SECOND = 9
        SECOND = 10

    def __init__(
        self,
        resolution: DayTimeIntervalType.DayTimeResolution = DayTimeResolution.SECOND,
        day_precision: int = 2,
        fractional_precision: int = 6,
        nullable: bool = True,
    ) -> None:
        super().__init__(nullable)
        check_range("The precision of days", day_precision, 1, 6)
        check_range("The precision of fractional seconds", fractional_precision, 0, 9)
        self.resolution = resolution
        self.day_precision = day_precision
        self.fractional_precision = fractional_precision

    def summary(self) -> str:
        """Return INTERVAL with its units."""
        first, _, last = self.resolution.name.partition("_TO_")
        text = f"INTERVAL {first}"
        if first == "DAY":
            text += f"({self.day_precision})"
        elif first == "SECOND":
            text += f"({self.fractional_precision})"
        if last:
            text += f" TO {last}"
        return f"{text}({self.fractional_precision})" if last == "SECOND" else text

    def _identity(self) -> tuple[Any, ...]:
        precisions = self.day_precision, self.fractional_precision
        return self.resolution, *precisions, self._nullable
