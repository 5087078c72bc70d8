"""The fields of a row, in plain Python; ``penstock._native.values.row`` is the twin."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from penstock.common.row_kind import RowKind

if TYPE_CHECKING:
    from collections.abc import Iterator

_ATTRIBUTES = frozenset({"_fields", "_values", "_row_kind"})


class RowBase:
    """Operations of a row, except those that create others."""

    _fields: list[str]
    _values: list[Any]
    _row_kind: RowKind

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Create a row from positional or named fields.

        Raises:
            ValueError: Positional and named fields were mixed.
        """
        if args and kwargs:
            raise ValueError("A Row takes positional or named fields, not both at once")
        if kwargs:
            self.__dict__["_fields"] = list(kwargs)
            self.__dict__["_values"] = list(kwargs.values())
        else:
            self.__dict__["_values"] = list(args)
        self.__dict__["_row_kind"] = RowKind.INSERT

    def get_row_kind(self) -> RowKind:
        """Return the kind of change; INSERT unless it was set."""
        return self._row_kind

    def set_row_kind(self, row_kind: RowKind) -> None:
        """Set the kind of change."""
        self.__dict__["_row_kind"] = row_kind

    def set_field_names(self, field_names: list[str]) -> None:
        """Set the names of the fields."""
        self.__dict__["_fields"] = list(field_names)

    def get_fields_by_names(self, names: list[str]) -> list[Any]:
        """Return the values of the named fields; all values in order if the row has no names.

        Raises:
            ValueError: A name is not one of the row's.
        """
        fields = self.__dict__.get("_fields")
        if fields is None or names == fields:
            return self._values
        unknown = [name for name in names if name not in fields]
        if unknown:
            raise ValueError(f"Row has no fields {unknown}, it has {fields}")
        return [self._values[fields.index(name)] for name in names]

    def as_dict(self, recursive: bool = False) -> dict[str, Any]:
        """Return the fields as a dictionary.

        Args:
            recursive: Whether rows within values become dictionaries too.

        Raises:
            TypeError: The row has no field names.
        """
        fields = self.__dict__.get("_fields")
        if fields is None:
            raise TypeError("A Row without field names cannot become a dictionary")
        values = map(_rows_to_dicts, self._values) if recursive else iter(self._values)
        return dict(zip(fields, values, strict=False))

    def __contains__(self, item: object) -> bool:
        """Return whether a field has that name, or, without names, that value."""
        return item in self.__dict__.get("_fields", self._values)

    def __getitem__(self, item: Any) -> Any:
        """Return a field by position, by slice or by name.

        Raises:
            ValueError: No field has that name.
        """
        if isinstance(item, (int, slice)):
            return self._values[item]
        return self._values[self._place_of(item)]

    def __setitem__(self, key: Any, value: Any) -> None:
        """Set a field by position or by name.

        Raises:
            ValueError: No field has that name.
        """
        if isinstance(key, (int, slice)):
            self._values[key] = value
        else:
            self._values[self._place_of(key)] = value

    def _place_of(self, name: Any) -> int:
        fields: list[str] | None = self.__dict__.get("_fields")
        if fields is None:
            raise AttributeError(self._without(name))
        if name not in fields:
            raise ValueError(self._without(name))
        return fields.index(name)

    def _without(self, name: Any) -> str:
        """Return the message for a missing field."""
        fields = self.__dict__.get("_fields")
        known = "its fields have no names" if fields is None else f"it has {fields}"
        return f"Row has no field {name!r}, {known}"

    def __getattr__(self, item: str) -> Any:
        """Return a field by name.

        Raises:
            AttributeError: No field has that name.
        """
        if item.startswith("__"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {item!r}")
        fields = self.__dict__.get("_fields", ())
        if item not in fields[: len(self._values)]:
            raise AttributeError(self._without(item), name=item, obj=self)
        return self._values[fields.index(item)]

    def __setattr__(self, key: str, value: Any) -> None:
        """Reject assignment to fields: a row is changed by index, so that typos are detected.

        Raises:
            AttributeError: Always, except for the row's own attributes.
        """
        if key not in _ATTRIBUTES:
            raise AttributeError(f"set Row fields by index or name: row[{key!r}] = …")
        self.__dict__[key] = value

    def __iter__(self) -> Iterator[Any]:
        """Iterate over the values."""
        return iter(self._values)

    def __len__(self) -> int:
        """Return the number of fields."""
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        """Return whether kind and values are equal; named rows may differ in field order."""
        if not isinstance(other, RowBase) or self._row_kind is not other._row_kind:
            return False
        mine, theirs = self.__dict__.get("_fields"), other.__dict__.get("_fields")
        if mine is None or theirs is None or mine == theirs:
            return mine == theirs and self._values == other._values
        if sorted(mine) != sorted(theirs):
            return False
        return all(self[name] == other[name] for name in mine)

    def __hash__(self) -> int:
        """Return a hash that agrees with equality; the values must be hashable."""
        fields = self.__dict__.get("_fields")
        if fields is None:
            return hash(tuple(self._values))
        order = sorted(range(len(fields)), key=fields.__getitem__)
        return hash(tuple((fields[i], self._values[i]) for i in order if i < len(self._values)))

    def __repr__(self) -> str:
        """Return ``Row(a=1)`` with names, ``<Row(1)>`` without."""
        fields = self.__dict__.get("_fields")
        if fields is None:
            return f"<Row({', '.join(map(repr, self._values))})>"
        pairs = zip(fields, self._values, strict=False)
        return f"Row({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def _field_names(self) -> list[str] | None:
        """Return the names of the fields; None without."""
        return self.__dict__.get("_fields")


def _rows_to_dicts(value: Any) -> Any:
    if isinstance(value, RowBase):
        return value.as_dict(True)
    if isinstance(value, list):
        return [_rows_to_dicts(item) for item in value]
    if isinstance(value, dict):
        return {key: _rows_to_dicts(item) for key, item in value.items()}
    return value
