"""JSON: conversions between objects and rows."""

from __future__ import annotations

import re
from codecs import BOM_UTF8
from decimal import Decimal
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Annotated, Any, Final, Generic, TypeVar, cast

import msgspec

from penstock.common.basic_types import VALUE, BasicType, BasicTypeInfo, TypeInformation
from penstock.common.calls.jvm import requires_jvm
from penstock.common.calls.missing_methods import NoJavaMembers
from penstock.common.composite_types import RowTypeInfo, as_type_information
from penstock.common.record_types import RecordTypeInfo, as_row_type
from penstock.common.serialization import DeserializationSchema, SerializationSchema
from penstock.common.values.decoders import json_decoder
from penstock.errors import FormatError, InvalidProgramError
from penstock.formats.compiled_schema import CompiledSchema
from penstock.formats.json_members import members_struct
from penstock.formats.json_schema import type_of_json_schema
from penstock.formats.json_values import WHOLE_BITS, from_json, named_row, to_json
from penstock.formats.misfit import Misfit, shown_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from penstock.common.types import Row

T = TypeVar("T")
RECORD = TypeVar("RECORD")

__all__ = [
    "JsonRowDeserializationSchema",
    "JsonRowSerializationSchema",
]


class JsonRowDeserializationSchema(CompiledSchema, DeserializationSchema[VALUE]):
    """Deserialises a JSON object, in UTF-8, as a row: each field is the member of the same name.

    Members without a field are left out; ``null`` is skipped.
    As in Flink, the text of a number is accepted as a number, a fraction is truncated for an
    integer field, and a member of another kind is converted to its text for a text field.
    """

    def __init__(self, j_deserialization_schema: None = None) -> None:
        """Create a schema; use `builder`.

        Raises:
            JvmOnlyError: A Java schema was passed.
        """
        if j_deserialization_schema is not None:
            requires_jvm("JsonRowDeserializationSchema(…)", "use its builder()")
        super().__init__()
        self._type_info: RowTypeInfo = RowTypeInfo([])
        self._fails_on_missing = False
        self._ignores_errors = False

    @staticmethod
    def builder() -> JsonRowDeserializationSchema.Builder[Row]:
        """Return a builder."""
        return JsonRowDeserializationSchema.Builder()

    def get_produced_type(self) -> TypeInformation:
        """Return the declared row."""
        return self._type_info

    def deserialize(self, message: bytes) -> VALUE | None:
        """Return the row of a message; None for ``null``, and for an ignored malformed message.

        Raises:
            FormatError: The message is not a JSON object, or a member does not fit its field.
        """
        if message is None:
            return None
        quick = self._quick
        if quick is not None:
            try:
                return quick(message)  # type: ignore[no-any-return]
            except msgspec.MsgspecError:
                pass  # Flink's rules may accept more, and otherwise explain the error.
        try:
            text = message.removeprefix(BOM_UTF8)
            return self._convert(self._decode(text))  # type: ignore[no-any-return]
        except msgspec.DecodeError as error:
            reason: Exception = error
        except UnicodeDecodeError as error:
            reason = error
        except Misfit as misfit:
            reason = misfit
        if self._ignores_errors:
            return None
        raise FormatError(f"{reason}; the JSON is {shown_bytes(message)}") from None

    def why_not_in_columns(self) -> str | None:
        """Return why `columns` reads no message; None if it may."""
        declared = self._type_info
        if isinstance(declared, RecordTypeInfo):
            return "as rows of JSON are instances of a class"
        if not declared.get_field_names():
            return "as rows without fields have no columns"
        for name, kind in zip(declared.get_field_names(), declared.get_field_types(), strict=True):
            if not isinstance(kind, BasicTypeInfo) or kind.basic_type not in _EXACT_KINDS:
                return f"as JSON has no column of the field {name!r}"
        return None

    def columns(self, messages: Iterable[bytes]) -> list[Sequence[Any]] | None:
        """Return the values of each field in the rows of messages, without those of ``null``.

        Returns:
            None if `deserialize` must read the messages, or must say what is wrong with one.
        """
        decode = self._quick_members
        if decode is None:
            return None
        try:
            rows = [row for row in map(decode, messages) if row is not None]
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        width = len(self._type_info.get_field_names())
        return [list(map(attrgetter(f"f{position}"), rows)) for position in range(width)]

    def _decode(self, text: bytes) -> Any:
        try:
            return self._decoder.decode(text)
        except msgspec.DecodeError:
            paired = _without_unpaired_surrogates(text)
            if paired == text:
                raise
        return self._decoder.decode(paired)

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(float_hook=Decimal)

    @cached_property
    def _convert(self) -> Callable[[Any], Any]:
        return from_json(
            self._type_info,
            missing_fails=self._fails_on_missing,
            misfits_are_none=self._ignores_errors,
        )

    @cached_property
    def _quick(self) -> Callable[[bytes], Any] | None:
        """The reader of rows whose fields have simple types; None for other rows."""
        decode = self._quick_members
        if decode is None:
            return None
        names, values = self._type_info.get_field_names(), msgspec.structs.astuple

        def read(message: bytes) -> Row | None:
            members = decode(message)
            return None if members is None else named_row(names, values(members))

        return read

    @cached_property
    def _quick_members(self) -> Callable[[bytes], Any] | None:
        return _member_decoder(self._type_info, missing_fails=self._fails_on_missing)

    class Builder(NoJavaMembers, Generic[RECORD]):
        """Builder of the schema."""

        def __init__(self) -> None:
            """Create a builder without settings."""
            self._type_info: TypeInformation | None = None
            self._fails_on_missing = False
            self._ignores_errors = False

        def type_info(
            self, type_info: TypeInformation[T]
        ) -> JsonRowDeserializationSchema.Builder[T]:
            """Set the row type; fields have the names of members.

            The type of a class, ``Types.of(Click)``, creates instances of it (beyond PyFlink).
            """
            self._type_info = _row_type(type_info, "type_info")
            return cast("JsonRowDeserializationSchema.Builder[T]", self)

        def json_schema(self, json_schema: str) -> JsonRowDeserializationSchema.Builder[RECORD]:
            """Set the row type by a JSON schema.

            Raises:
                InvalidProgramError: The schema is not of an object, or a part of it has no type.
            """
            given: Any = json_schema
            if given is None:
                raise InvalidProgramError("The json_schema must not be None.")
            self._type_info = _row_type(type_of_json_schema(json_schema), "json_schema")
            return self

        def fail_on_missing_field(self) -> JsonRowDeserializationSchema.Builder[RECORD]:
            """Make a missing member an error; otherwise the field is None."""
            self._fails_on_missing = True
            return self

        def ignore_parse_errors(self) -> JsonRowDeserializationSchema.Builder[RECORD]:
            """Read a field that does not fit as None, and skip malformed messages."""
            self._ignores_errors = True
            return self

        def build(self) -> JsonRowDeserializationSchema[RECORD]:
            """Return the schema.

            Raises:
                InvalidProgramError: There is no type, JSON cannot represent it, or both error
                    settings are set.
            """
            if self._type_info is None:
                raise InvalidProgramError("a JSON schema needs type_info or json_schema")
            if self._fails_on_missing and self._ignores_errors:
                raise InvalidProgramError(
                    "fail_on_missing_field and ignore_parse_errors exclude each other"
                )
            schema: JsonRowDeserializationSchema[RECORD] = JsonRowDeserializationSchema()
            schema._type_info = _row_type(self._type_info, "type_info")
            schema._fails_on_missing = self._fails_on_missing
            schema._ignores_errors = self._ignores_errors
            schema.check()
            return schema

    def check(self) -> None:
        """Check that JSON can represent the type."""
        assert self._convert is not None


class JsonRowSerializationSchema(CompiledSchema, SerializationSchema):
    """Serialises a row as a JSON object in UTF-8; dictionaries and tuples are rows too."""

    def __init__(self, j_serialization_schema: None = None) -> None:
        """Create a schema; use `builder`.

        Raises:
            JvmOnlyError: A Java schema was passed.
        """
        if j_serialization_schema is not None:
            requires_jvm("JsonRowSerializationSchema(…)", "use its builder()")
        super().__init__()
        self._type_info: RowTypeInfo = RowTypeInfo([])

    @staticmethod
    def builder() -> JsonRowSerializationSchema.Builder:
        """Return a builder."""
        return JsonRowSerializationSchema.Builder()

    def serialize(self, element: Any) -> bytes:
        """Return the JSON of a row.

        Raises:
            FormatError: A field does not fit.
        """
        try:
            return msgspec.json.encode(self._convert(element))
        except Misfit as misfit:
            raise FormatError(f"{misfit}; the row is {element!r:.200}") from misfit.__cause__
        except UnicodeEncodeError as error:
            raise FormatError(f"{error}; the row is {element!r:.200}") from error

    @cached_property
    def _convert(self) -> Callable[[Any], Any]:
        return to_json(self._type_info)

    class Builder(NoJavaMembers):
        """Builder of the schema."""

        def __init__(self) -> None:
            """Create a builder without settings."""
            self._type_info: RowTypeInfo | None = None

        def with_type_info(self, type_info: TypeInformation) -> JsonRowSerializationSchema.Builder:
            """Set the row type."""
            self._type_info = as_row_type(_row_type(type_info, "with_type_info"))
            return self

        def build(self) -> JsonRowSerializationSchema:
            """Return the schema.

            Raises:
                InvalidProgramError: There is no type, or JSON cannot represent it.
            """
            if self._type_info is None:
                raise InvalidProgramError("Typeinfo should be set: call with_type_info")
            schema = JsonRowSerializationSchema()
            schema._type_info = self._type_info
            assert schema._convert is not None
            return schema


_ESCAPE: Final = re.compile(
    rb"(?P<pair>\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?P<unpaired>\\u[dD][89a-fA-F][0-9a-fA-F]{2})"
    rb"|\\."
)


def _without_unpaired_surrogates(text: bytes) -> bytes:
    """Return JSON with a question mark for each escaped unpaired surrogate.

    A Java text may contain one, and PyFlink replaces it by a question mark in Python.
    """
    return _ESCAPE.sub(lambda found: b"?" if found["unpaired"] else found[0], text)


def _row_type(given: Any, where: str) -> Any:
    declared: Any = as_type_information(given, where)
    if not isinstance(declared, RowTypeInfo | RecordTypeInfo):
        raise InvalidProgramError(f"{where} takes a row, as Types.ROW_NAMED describes: {given!r}")
    return declared


def _exact_kinds() -> dict[BasicType, Any]:
    whole = {
        kind: Annotated[int, msgspec.Meta(ge=-(1 << bits - 1), le=(1 << bits - 1) - 1)]
        for kind, bits in WHOLE_BITS.items()
    }
    return {
        **whole,
        BasicType.STRING: str,
        BasicType.BOOLEAN: bool,
        BasicType.DOUBLE: float,
    }


_EXACT_KINDS: Final = _exact_kinds()


def _member_decoder(declared: RowTypeInfo, *, missing_fails: bool) -> Callable[[bytes], Any] | None:
    if isinstance(declared, RecordTypeInfo):
        return None  # Missing members would have the class's defaults.
    members = []
    types = zip(declared.get_field_names(), declared.get_field_types(), strict=True)
    for position, (name, kind) in enumerate(types):
        exact = _EXACT_KINDS.get(kind.basic_type) if isinstance(kind, BasicTypeInfo) else None
        if exact is None:
            return None
        members.append((position, name, exact))
    struct = members_struct(members, missing_fails=missing_fails)
    return json_decoder(struct | None).decode
