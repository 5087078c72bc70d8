"""CsvSchema: the columns of a CSV file, and their format in a line."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final, NoReturn

from penstock.common.basic_types import BasicType, BasicTypeInfo
from penstock.common.calls.argument_kinds import checks_arguments
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.composite_types import RowTypeInfo, as_type_information
from penstock.common.typeinfo import TypeInformation, Types
from penstock.errors import InvalidProgramError, WrongArgumentError
from penstock.formats.csv_rows import CsvDialect

_NUMBERS: Final = (
    BasicType.BYTE,
    BasicType.SHORT,
    BasicType.INT,
    BasicType.LONG,
    BasicType.FLOAT,
    BasicType.DOUBLE,
    BasicType.BIG_INT,
    BasicType.BIG_DEC,
)


@dataclass(frozen=True)
class CsvSettings:
    """Settings of a schema other than its columns.

    Attributes:
        dialect: The syntax of fields in a line.
        skips_first: Whether the first line of a file, or the one after its header, is skipped.
        has_header: Whether the first row is a header.
        is_header_strict: Whether its names must equal those of the schema.
        reorders_columns: Whether columns are found by its names.
    """

    dialect: CsvDialect = field(default_factory=CsvDialect)
    skips_first: bool = False
    has_header: bool = False
    is_header_strict: bool = False
    reorders_columns: bool = False


class CsvSchema(NoJavaMembers):
    """The columns of a CSV file; created by `builder`."""

    def __init__(self, row_type: RowTypeInfo, settings: CsvSettings) -> None:
        """Store the columns and settings of a builder."""
        self.row_type = row_type
        self.settings = settings

    @staticmethod
    def builder() -> CsvSchemaBuilder:
        """Return a builder."""
        return CsvSchemaBuilder()

    def size(self) -> int:
        """Return the number of columns."""
        return len(self.row_type.get_field_names())

    def __len__(self) -> int:
        return self.size()

    def __str__(self) -> str:
        return f"CsvSchema({self.row_type!r}, {self.settings!r})"

    __repr__ = __str__


@checks_arguments
class CsvSchemaBuilder(NoJavaMembers):
    """Builder of a CsvSchema."""

    def __init__(self) -> None:
        """Create a builder without columns, with commas and double quotes."""
        self._columns: dict[str, TypeInformation] = {}
        self._array_separators: dict[str, str] = {}
        self._dialect = CsvDialect()
        self._settings = CsvSettings()

    def build(self) -> CsvSchema:
        """Return the schema.

        Raises:
            InvalidProgramError: It has no columns, or its header settings are contradictory.
        """
        if not self._columns:
            raise InvalidProgramError(
                "a CsvSchema needs at least one column, as from add_string_column"
            )
        if self._settings.is_header_strict and not self._settings.has_header:
            raise InvalidProgramError("set_strict_headers needs a header: also call set_use_header")
        if self._settings.reorders_columns and not self._settings.has_header:
            raise InvalidProgramError(
                "set_reorder_columns finds columns by the names of a header: call set_use_header, "
                "too"
            )
        if self._settings.reorders_columns and self._settings.is_header_strict:
            raise InvalidProgramError(
                "set_strict_headers and set_reorder_columns exclude each other"
            )
        dialect = replace(self._dialect, array_separators=dict(self._array_separators))
        row_type = Types.ROW_NAMED(list(self._columns), list(self._columns.values()))
        return CsvSchema(row_type, replace(self._settings, dialect=dialect))

    def add_array_column(
        self, name: str, separator: str = ";", element_type: Any = None
    ) -> CsvSchemaBuilder:
        """Add a column of arrays, whose elements are texts by default.

        Args:
            name: The name of the column.
            separator: The separator of the elements; if it is empty, the one of
                `set_array_element_separator` is used.
            element_type: The type of the elements.
        """
        element = Types.STRING() if element_type is None else element_type
        declared = as_type_information(element, "add_array_column")
        self._add(name, Types.BASIC_ARRAY(declared))
        self._array_separators[name] = separator
        return self

    def add_boolean_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of booleans: ``true``, or any other text."""
        return self._add(name, Types.BOOLEAN())

    def add_number_column(self, name: str, number_type: Any = None) -> CsvSchemaBuilder:
        """Add a column of numbers, LONG by default."""
        declared = Types.LONG() if number_type is None else number_type
        kind = as_type_information(declared, "add_number_column")
        if not isinstance(kind, BasicTypeInfo) or kind.basic_type not in _NUMBERS:
            raise WrongArgumentError(
                f"add_number_column takes a type of numbers, as Types.LONG(), got {kind!r}"
            )
        return self._add(name, kind)

    def add_string_column(self, name: str) -> CsvSchemaBuilder:
        """Add a column of texts."""
        return self._add(name, Types.STRING())

    def add_column(self, name: str, type_info: TypeInformation) -> CsvSchemaBuilder:
        """Add a column of any type that CSV can represent (beyond PyFlink)."""
        return self._add(name, as_type_information(type_info, "add_column"))

    def add_columns_from(self, schema: CsvSchema) -> CsvSchemaBuilder:
        """Add the columns of another schema."""
        given: Any = schema
        if not isinstance(given, CsvSchema):
            raise WrongArgumentError(f"add_columns_from takes a CsvSchema, got {schema!r}")
        declared = schema.row_type
        for name, kind in zip(declared.get_field_names(), declared.get_field_types(), strict=True):
            self._add(name, kind)
        self._array_separators.update(schema.settings.dialect.array_separators or {})
        return self

    def clear_columns(self) -> CsvSchemaBuilder:
        """Remove all columns."""
        self._columns.clear()
        self._array_separators.clear()
        return self

    def set_allow_comments(self, allow: bool = True) -> CsvSchemaBuilder:
        """Set whether lines that begin with ``#`` are skipped."""
        self._dialect.allows_comments = allow
        return self

    def set_any_property_name(self, name: str) -> NoReturn:
        """Reject the call: a row has no field for columns that the schema does not name.

        Raises:
            InvalidProgramError: Always.
        """
        raise InvalidProgramError(
            f"set_any_property_name({name!r}): rows only have the columns of the schema; add "
            "others by add_string_column"
        )

    def disable_array_element_separator(self) -> CsvSchemaBuilder:
        """Read an array as a single element, in columns without their own separator."""
        self._dialect.array_separator = ""
        return self

    def remove_array_element_separator(self, index: int) -> CsvSchemaBuilder:
        """Remove the separator of the column at this position, so that the common one applies."""
        names = list(self._columns)
        if not 0 <= index < len(names):
            raise InvalidProgramError(f"there is no column {index}, only {names}")
        self._array_separators.pop(names[index], None)
        return self

    def set_array_element_separator(self, separator: str) -> CsvSchemaBuilder:
        """Set the separator of elements in columns without their own one; ``;`` by default."""
        self._dialect.array_separator = not_empty("set_array_element_separator", separator)
        return self

    def set_column_separator(self, char: str) -> CsvSchemaBuilder:
        """Set the separator of columns; ``,`` by default."""
        self._dialect.separator = _character("Column separator", char)
        return self

    def disable_escape_char(self) -> CsvSchemaBuilder:
        """Disable escapes; the default."""
        self._dialect.escape = None
        return self

    def set_escape_char(self, char: str) -> CsvSchemaBuilder:
        """Set the escape before literal characters."""
        self._dialect.escape = _character("Escape char", char)
        return self

    def set_line_separator(self, separator: str) -> CsvSchemaBuilder:
        r"""Set the end of written lines; ``\n``, ``\r\n`` and ``\r`` are read."""
        self._dialect.line_end = not_empty("set_line_separator", separator)
        return self

    def set_null_value(self, null_value: str) -> CsvSchemaBuilder:
        """Set the text that represents None; unset by default."""
        self._dialect.null = null_value
        return self

    def disable_quote_char(self) -> CsvSchemaBuilder:
        """Disable quotes; several subtasks may then read a large file."""
        self._dialect.quote = None
        return self

    def set_quote_char(self, char: str) -> CsvSchemaBuilder:
        """Set the quote of texts with separators in them; a double quote by default."""
        self._dialect.quote = _character("Quote char", char)
        return self

    def set_skip_first_data_row(self, skip: bool = True) -> CsvSchemaBuilder:
        """Set whether the first line after the header is skipped."""
        self._settings = replace(self._settings, skips_first=skip)
        return self

    def set_strict_headers(self, strict: bool = True) -> CsvSchemaBuilder:
        """Set whether the names in the header must equal those of the schema, in order."""
        self._settings = replace(self._settings, is_header_strict=strict)
        return self

    def set_reorder_columns(self, reorder: bool = True) -> CsvSchemaBuilder:
        """Set whether columns are found by the names in the header (beyond PyFlink).

        They may be in any order; others are left out.
        """
        self._settings = replace(self._settings, reorders_columns=reorder)
        return self

    def set_use_header(self, use: bool = True) -> CsvSchemaBuilder:
        """Set whether the first row of a file is a header, which is left out.

        Columns are read by position, as in Flink; with `set_strict_headers` the names of the header
        are checked, with `set_reorder_columns` columns are found by them.
        """
        self._settings = replace(self._settings, has_header=use)
        return self

    def size(self) -> int:
        """Return the number of columns."""
        return len(self._columns)

    def __len__(self) -> int:
        return self.size()

    def _add(self, name: str, declared: TypeInformation) -> CsvSchemaBuilder:
        if not name:
            raise InvalidProgramError("a column of a CsvSchema needs a name, got ''")
        if name in self._columns:
            raise InvalidProgramError(f"the column {name!r} was added before")
        self._columns[name] = declared
        return self


def _character(what: str, given: str) -> str:
    if len(given) != 1:
        raise InvalidProgramError(f"{what} must be a single char, got {given!r}")
    return given


def not_empty(method: str, given: str) -> str:
    """Check that a method's text is not empty.

    Raises:
        InvalidProgramError: The text is empty.
    """
    if not given:
        raise InvalidProgramError(f"{method} takes a text that is not empty")
    return given
