"""Parsing of types in SQL texts."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any, Final

from sqlglot.tokenizer_core import TokenType

from penstock.table import types
from penstock.table.types.interval_types import DayTimeIntervalType, YearMonthIntervalType

if TYPE_CHECKING:
    from penstock.table.types import DataType

_PLAIN: dict[str, type[Any]] = {
    "BOOLEAN": types.BooleanType,
    "TINYINT": types.TinyIntType,
    "SMALLINT": types.SmallIntType,
    "INT": types.IntType,
    "INTEGER": types.IntType,
    "BIGINT": types.BigIntType,
    "FLOAT": types.FloatType,
    "DATE": types.DateType,
    "NULL": types.NullType,
}
_LENGTHS: dict[str, type[Any]] = {
    "CHAR": types.CharType,
    "CHARACTER": types.CharType,
    # sqlglot reads these two words as one token, and DOUBLE PRECISION.
    "CHAR VARYING": types.VarCharType,
    "CHARACTER VARYING": types.VarCharType,
    "VARCHAR": types.VarCharType,
    "BINARY": types.BinaryType,
    "VARBINARY": types.VarBinaryType,
}
_LONGEST = 0x7FFFFFFF
_DECIMALS = ("DECIMAL", "DEC", "NUMERIC")
_TIMES = ("TIME", "TIMESTAMP", "TIMESTAMP_LTZ")
_COMPOSITES = ("ARRAY", "MULTISET", "MAP", "ROW", "RAW")
_NAMES = (
    *("STRING", "BYTES", "DOUBLE", "INTERVAL"),
    *(*_PLAIN, *_LENGTHS, *_DECIMALS, *_TIMES, *_COMPOSITES),
)

_SIGNS: Final = {
    TokenType.COMMA: "','",
    TokenType.EQ: "'='",
    TokenType.FROM: "FROM",
    TokenType.GT: "'>'",
    TokenType.LT: "'<'",
    TokenType.L_PAREN: "'('",
    TokenType.NUMBER: "a number",
    TokenType.R_PAREN: "')'",
}
"""The names of tokens in messages."""


class TypeParsing:
    """The part of the parser for types; a base of the dialect's parser."""

    def parse_data_type(self: Any) -> DataType:
        """Read a type, which is nullable unless the text says NOT NULL.

        Raises:
            ParseError: The text is not a type.
        """
        kind = self._parse_type_name()
        while self._curr and self._curr.text.upper() in ("ARRAY", "MULTISET"):
            name = self._curr.text.upper()
            self._advance()
            kind = types.ArrayType(kind) if name == "ARRAY" else types.MultisetType(kind)
        if self._match_text_seq("NOT", "NULL"):
            return kind.not_null()
        self._match_text_seq("NULL")
        return kind

    def _parse_type_name(self: Any) -> DataType:
        token = self._curr
        name = self._any_word("a type")
        if name in _PLAIN:
            return _PLAIN[name]()
        if name in _LENGTHS:
            cls = _LENGTHS[name]
            if name == "BINARY" and self._match_text_seq("VARYING"):
                cls = types.VarBinaryType
            numbers = self._type_numbers()
            default = _LONGEST if cls in (types.VarCharType, types.VarBinaryType) else 1
            return cls(numbers[0] if numbers else default)
        if name == "STRING":
            return types.VarCharType(_LONGEST)
        if name == "BYTES":
            return types.VarBinaryType(_LONGEST)
        if name in _DECIMALS:
            return types.DecimalType(*(self._type_numbers() or (10, 0)))
        if name in ("DOUBLE", "DOUBLE PRECISION"):
            return types.DoubleType()
        if name == "INTERVAL":
            return self._interval_type()
        if name in _TIMES:
            return self._time_type(name)
        if name in _COMPOSITES:
            return self._composite_type(name)
        near = difflib.get_close_matches(name, _NAMES, 1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        self.raise_error(f'Unknown data type "{token.text}"{hint}', token)
        raise AssertionError

    def _type_numbers(self: Any) -> tuple[int, ...]:
        if not self._match(TokenType.L_PAREN):
            return ()
        numbers = [self._type_number()]
        while self._match(TokenType.COMMA):
            numbers.append(self._type_number())
        self._expect(TokenType.R_PAREN)
        return tuple(numbers)

    def _type_number(self: Any) -> int:
        token = self._curr
        if not self._match(TokenType.NUMBER):
            self.raise_error("a number was expected")
        return int(token.text)

    def _time_type(self: Any, name: str) -> DataType:
        numbers = self._type_numbers()
        if name == "TIME":
            self._match_text_seq("WITHOUT", "TIME", "ZONE")
            return types.TimeType(*(numbers or (0,)))
        precision = min(numbers[0], 9) if numbers else 6
        if name == "TIMESTAMP_LTZ" or self._match_text_seq("WITH", "LOCAL", "TIME", "ZONE"):
            return types.LocalZonedTimestampType(precision)
        if self._match_text_seq("WITH", "TIME", "ZONE"):
            self.raise_error("TIMESTAMP WITH TIME ZONE is not supported, use TIMESTAMP_LTZ")
        self._match_text_seq("WITHOUT", "TIME", "ZONE")
        return types.TimestampType(precision)

    def _interval_type(self: Any) -> DataType:
        first = self._any_word("a unit of time")
        self._type_numbers()
        name = first
        if self._match_text_seq("TO"):
            name = f"{first}_TO_{self._any_word('a unit of time')}"
            self._type_numbers()
        months = YearMonthIntervalType.YearMonthResolution.__members__
        if name in months:
            return YearMonthIntervalType(months[name])
        times = DayTimeIntervalType.DayTimeResolution.__members__
        if name not in times:
            self.raise_error(f"an interval has no unit {name}")
        return DayTimeIntervalType(times[name])

    def _composite_type(self: Any, name: str) -> DataType:
        if name == "ROW":
            return self._row_type()
        self._expect(TokenType.LT)
        first = self.parse_data_type()
        if name == "MAP":
            self._expect(TokenType.COMMA)
            second = self.parse_data_type()
            self._expect_gt()
            return types.MapType(first, second)
        self._expect_gt()
        return types.ArrayType(first) if name == "ARRAY" else types.MultisetType(first)

    def _row_type(self: Any) -> DataType:
        is_wrapped = self._match(TokenType.L_PAREN)
        if not is_wrapped:
            if self._curr and self._curr.token_type == TokenType.NEQ:  # ROW<>
                self._advance()
                return types.RowType([])
            self._expect(TokenType.LT)
        fields = []
        while True:
            name = self.parse_name()
            kind = self.parse_data_type()
            if self._match(TokenType.STRING):
                pass  # a comment
            fields.append(types.RowField(name, kind))
            if not self._match(TokenType.COMMA):
                break
        if is_wrapped:
            self._expect(TokenType.R_PAREN)
        else:
            self._expect_gt()
        return types.RowType(fields)

    def _any_word(self: Any, what: str) -> str:
        """Read a token, and return its text in upper case."""
        if not self._curr:
            self.raise_error(f"{what} was expected")
        text = str(self._curr.text).upper()
        self._advance()
        return text

    def _expect(self: Any, token_type: TokenType) -> None:
        if not self._match(token_type):
            self.raise_error(f"{_SIGNS[token_type]} was expected")

    def _expect_gt(self: Any) -> None:
        self._expect(TokenType.GT)
