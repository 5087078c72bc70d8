"""DataTypes: creates the data types of columns, under PyFlink's names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.table.exceptions import InvalidTypeError
from penstock.table.types import interval_types as intervals
from penstock.table.types import logical_types as types

if TYPE_CHECKING:
    from collections.abc import Sequence


class DataTypes:
    """Creates data types.

    All methods except those of resolutions accept ``nullable``: whether values may be NULL.
    """

    @staticmethod
    def NULL() -> types.NullType:
        """Return NULL, which has no other value."""
        return types.NullType()

    @staticmethod
    def CHAR(length: int, nullable: bool = True) -> types.CharType:
        """Return CHAR: texts of ``length`` characters."""
        return types.CharType(length, nullable)

    @staticmethod
    def VARCHAR(length: int, nullable: bool = True) -> types.VarCharType:
        """Return VARCHAR: texts of at most ``length`` characters."""
        return types.VarCharType(length, nullable)

    @staticmethod
    def STRING(nullable: bool = True) -> types.VarCharType:
        """Return STRING: texts of any length."""
        return types.VarCharType(types.MAX_LENGTH, nullable)

    @staticmethod
    def BOOLEAN(nullable: bool = True) -> types.BooleanType:
        """Return BOOLEAN: true and false."""
        return types.BooleanType(nullable)

    @staticmethod
    def BINARY(length: int, nullable: bool = True) -> types.BinaryType:
        """Return BINARY: ``length`` bytes."""
        return types.BinaryType(length, nullable)

    @staticmethod
    def VARBINARY(length: int, nullable: bool = True) -> types.VarBinaryType:
        """Return VARBINARY: at most ``length`` bytes."""
        return types.VarBinaryType(length, nullable)

    @staticmethod
    def BYTES(nullable: bool = True) -> types.VarBinaryType:
        """Return BYTES: any number of bytes."""
        return types.VarBinaryType(types.MAX_LENGTH, nullable)

    @staticmethod
    def DECIMAL(precision: int, scale: int, nullable: bool = True) -> types.DecimalType:
        """Return DECIMAL: ``precision`` digits, ``scale`` of them after the point."""
        return types.DecimalType(precision, scale, nullable)

    @staticmethod
    def TINYINT(nullable: bool = True) -> types.TinyIntType:
        """Return TINYINT: integers from -128 to 127."""
        return types.TinyIntType(nullable)

    @staticmethod
    def SMALLINT(nullable: bool = True) -> types.SmallIntType:
        """Return SMALLINT: integers from -32,768 to 32,767."""
        return types.SmallIntType(nullable)

    @staticmethod
    def INT(nullable: bool = True) -> types.IntType:
        """Return INT: integers of 4 bytes."""
        return types.IntType(nullable)

    @staticmethod
    def BIGINT(nullable: bool = True) -> types.BigIntType:
        """Return BIGINT: integers of 8 bytes."""
        return types.BigIntType(nullable)

    @staticmethod
    def FLOAT(nullable: bool = True) -> types.FloatType:
        """Return FLOAT: numbers of 4 bytes."""
        return types.FloatType(nullable)

    @staticmethod
    def DOUBLE(nullable: bool = True) -> types.DoubleType:
        """Return DOUBLE: numbers of 8 bytes."""
        return types.DoubleType(nullable)

    @staticmethod
    def DATE(nullable: bool = True) -> types.DateType:
        """Return DATE: year, month and day."""
        return types.DateType(nullable)

    @staticmethod
    def TIME(precision: int = 0, nullable: bool = True) -> types.TimeType:
        """Return TIME: times of day with ``precision`` digits of fractional seconds."""
        return types.TimeType(precision, nullable)

    @staticmethod
    def TIMESTAMP(precision: int = 6, nullable: bool = True) -> types.TimestampType:
        """Return TIMESTAMP: date and time with ``precision`` digits of fractional seconds."""
        return types.TimestampType(precision, nullable)

    @staticmethod
    def TIMESTAMP_WITH_LOCAL_TIME_ZONE(
        precision: int = 6, nullable: bool = True
    ) -> types.LocalZonedTimestampType:
        """Return TIMESTAMP_LTZ: instants with ``precision`` digits of fractional seconds."""
        return types.LocalZonedTimestampType(precision, nullable)

    @staticmethod
    def TIMESTAMP_LTZ(precision: int = 6, nullable: bool = True) -> types.LocalZonedTimestampType:
        """Return TIMESTAMP_LTZ: instants with ``precision`` digits of fractional seconds."""
        return types.LocalZonedTimestampType(precision, nullable)

    @staticmethod
    def ARRAY(element_type: types.DataType, nullable: bool = True) -> types.ArrayType:
        """Return ARRAY<t>: lists of values of one type."""
        return types.ArrayType(element_type, nullable)

    @staticmethod
    def LIST_VIEW(element_type: types.DataType) -> types.ListViewType:
        """Return the type of a ListView, for accumulators of aggregate functions."""
        return types.ListViewType(element_type)

    @staticmethod
    def MAP(
        key_type: types.DataType, value_type: types.DataType, nullable: bool = True
    ) -> types.MapType:
        """Return MAP<k, v>: values by key."""
        return types.MapType(key_type, value_type, nullable)

    @staticmethod
    def MAP_VIEW(key_type: types.DataType, value_type: types.DataType) -> types.MapViewType:
        """Return the type of a MapView, for accumulators of aggregate functions."""
        return types.MapViewType(key_type, value_type)

    @staticmethod
    def MULTISET(element_type: types.DataType, nullable: bool = True) -> types.MultisetType:
        """Return MULTISET<t>: values with the number of their occurrences."""
        return types.MultisetType(element_type, nullable)

    @staticmethod
    def ROW(row_fields: Sequence[types.RowField] = (), nullable: bool = True) -> types.RowType:
        """Return ROW<...>: fields in order; see ``FIELD``."""
        return types.RowType(row_fields, nullable)

    @staticmethod
    def FIELD(
        name: str, data_type: types.DataType, description: str | None = None
    ) -> types.RowField:
        """Return a field of a ROW."""
        return types.RowField(name, data_type, description)

    @staticmethod
    def SECOND(precision: int = 6) -> intervals.Resolution:
        """Return the resolution of seconds with ``precision`` fractional digits."""
        return intervals.Resolution(intervals.Resolution.IntervalUnit.SECOND, precision)

    @staticmethod
    def MINUTE() -> intervals.Resolution:
        """Return the resolution of minutes."""
        return intervals.Resolution(intervals.Resolution.IntervalUnit.MINUTE)

    @staticmethod
    def HOUR() -> intervals.Resolution:
        """Return the resolution of hours."""
        return intervals.Resolution(intervals.Resolution.IntervalUnit.HOUR)

    @staticmethod
    def DAY(precision: int = 2) -> intervals.Resolution:
        """Return the resolution of days with ``precision`` digits."""
        return intervals.Resolution(intervals.Resolution.IntervalUnit.DAY, precision)

    @staticmethod
    def MONTH() -> intervals.Resolution:
        """Return the resolution of months."""
        return intervals.Resolution(intervals.Resolution.IntervalUnit.MONTH)

    @staticmethod
    def YEAR(precision: int = 2) -> intervals.Resolution:
        """Return the resolution of years with ``precision`` digits."""
        return intervals.Resolution(intervals.Resolution.IntervalUnit.YEAR, precision)

    @staticmethod
    def INTERVAL(
        upper_resolution: intervals.Resolution, lower_resolution: intervals.Resolution | None = None
    ) -> intervals.DayTimeIntervalType | intervals.YearMonthIntervalType:
        """Return INTERVAL from the larger unit to the smaller one.

        Raises:
            InvalidTypeError: No interval has these units.
        """
        upper, lower = upper_resolution, lower_resolution
        name = upper.unit.name if lower is None else f"{upper.unit.name}_TO_{lower.unit.name}"
        if name in intervals.YearMonthIntervalType.YearMonthResolution.__members__:
            resolution = intervals.YearMonthIntervalType.YearMonthResolution[name]
            return intervals.YearMonthIntervalType(
                resolution, upper.precision if upper.precision > 0 else 2
            )
        if name in intervals.DayTimeIntervalType.DayTimeResolution.__members__:
            ends = {end.unit.name: end.precision for end in (upper, lower) if end is not None}
            return intervals.DayTimeIntervalType(
                intervals.DayTimeIntervalType.DayTimeResolution[name],
                ends.get("DAY", 2),
                ends.get("SECOND", 6),
            )
        raise InvalidTypeError(f"No interval type has the units {name.replace('_', ' ')}")
