"""TO_CHANGELOG and FROM_CHANGELOG: the kinds of changes as a column of codes, and back."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.table import types
from penstock.table.exceptions import ValidationException
from penstock.table.functions import type_rules as rules
from penstock.table.functions.registry import literal_value
from penstock.table.plan import expressions as e
from penstock.table.plan import nodes as n
from penstock.table.plan.schema import Field, Schema

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from penstock.table.plan.nodes import Node

CHANGELOG_FUNCTIONS: Final = ("TO_CHANGELOG", "FROM_CHANGELOG")
"""The names of the functions."""
ARGUMENTS: Final = ("INPUT", "OP", "OP_MAPPING")
"""The names of their arguments."""

_CODE: Final = "op"
_KINDS: Final = {
    "INSERT": n.INSERT,
    "UPDATE_BEFORE": n.UPDATE_BEFORE,
    "UPDATE_AFTER": n.UPDATE_AFTER,
    "DELETE": n.DELETE,
}


def changelog_function(name: str, node: Node, columns: Sequence[str] | None, mapping: Any) -> Node:
    """Return the rows of TO_CHANGELOG or FROM_CHANGELOG.

    Args:
        name: The name of the function.
        node: The rows of its input.
        columns: The descriptor of the column of codes; None for ``op``.
        mapping: The resolved map between codes and kinds of changes; None for the kinds' names.

    Raises:
        ValidationException: An argument does not suit the function.
    """
    if columns is not None and len(columns) != 1:
        raise ValidationException(
            f"Invalid descriptor of {name}. The descriptor for argument 'op' must contain exactly "
            "one column name."
        )
    code = _CODE if columns is None else columns[0]
    pairs = dict.fromkeys(_KINDS) if mapping is None else _constant_map(mapping)
    return (
        _with_codes(node, code, pairs) if name == "TO_CHANGELOG" else _of_codes(node, code, pairs)
    )


def changelog_arguments(trees: Iterable[Any]) -> tuple[Sequence[str] | None, Any]:
    """Return the descriptor and the unresolved map among the arguments of a method call.

    Raises:
        ValidationException: The functions have no such argument.
    """
    columns, mapping = None, None
    for tree in trees:
        is_named = isinstance(tree, e.UnresolvedCall) and tree.function == "ARGUMENT"
        name = tree.options[0] if is_named else None
        value = tree.arguments[0] if is_named else None
        if name == "op" and isinstance(value, e.UnresolvedCall) and value.function == "DESCRIPTOR":
            columns = value.options
        elif name == "op_mapping":
            mapping = value
        else:
            raise ValidationException(
                "The arguments are descriptor('name').as_argument('op') and map_('INSERT', 'I', …)"
                f".as_argument('op_mapping'), got {tree}"
            )
    return columns, mapping


def _constant_map(mapping: Any) -> dict[str, str | None]:
    """Return the texts of a constant map.

    Raises:
        ValidationException: It is not a constant map of texts.
    """
    while isinstance(mapping, e.Cast) and mapping.is_implicit:
        mapping = mapping.argument
    values = []
    if isinstance(mapping, e.Call) and mapping.function == "MAP":
        values = [literal_value(argument) for argument in mapping.arguments]
    if not values or not all(isinstance(value, str) for value in values):
        raise ValidationException("The 'op_mapping' argument must be a constant MAP literal.")
    return dict(zip(values[::2], values[1::2], strict=True))


def _kind(word: str) -> int:
    kind = _KINDS.get(word)
    if kind is None:
        raise ValidationException(
            "Invalid target mapping for argument 'op_mapping'. Unknown change operation: "
            f"'{word}'. Valid values are: {', '.join(_KINDS)}."
        )
    return kind


def _with_codes(node: Node, code: str, pairs: Mapping[str, str | None]) -> Node:
    """Return the changes of a node as insertions with a column of codes before the others."""
    codes: dict[int, str] = {}
    for words, text in pairs.items():
        for word in (part.strip() for part in words.split(",")):
            if _kind(word) in codes:
                raise ValidationException(
                    "Invalid target mapping for argument 'op_mapping'. Duplicate change "
                    f"operation: '{word}'."
                )
            codes[_kind(word)] = word if text is None else text
    fields = (Field(code, rules.string()), *(field.plain() for field in node.schema))
    ordered = tuple(codes.get(kind) for kind in sorted(_KINDS.values()))
    return n.ToChangelog(Schema(fields), node, ordered)


def _of_codes(node: Node, code: str, pairs: Mapping[str, str | None]) -> Node:
    """Return the changes that a column of codes describes."""
    place = node.schema.index(code)
    if place is None:
        raise ValidationException(f"The op column '{code}' does not exist in the input schema.")
    kind = node.schema.fields[place].type
    if not isinstance(kind, types.CharType | types.VarCharType):
        raise ValidationException(
            f"The op column '{code}' must be of STRING type, but was '{kind}'."
        )
    codes: dict[str, int] = {}
    for words, word in pairs.items():
        for text in words.split(","):
            codes[text.strip()] = _kind(text.strip() if word is None else word.strip())
    found = set(codes.values())
    if n.UPDATE_AFTER in found and n.UPDATE_BEFORE not in found:
        raise ValidationException(
            "The 'op_mapping' must include UPDATE_BEFORE for retract mode. Upsert mode (without "
            "UPDATE_BEFORE) is not supported in this version."
        )
    fields = tuple(f.plain() for i, f in enumerate(node.schema) if i != place)
    return n.FromChangelog(Schema(fields), node, place, tuple(codes.items()))
