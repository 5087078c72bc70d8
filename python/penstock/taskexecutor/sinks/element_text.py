"""The text of elements in sinks that write lines, as Flink has it for declared types."""

from __future__ import annotations

from types import AsyncGeneratorType, CoroutineType
from typing import TYPE_CHECKING, Any

from penstock.common.number_text import double_text
from penstock.common.typeinfo import PickledBytesTypeInfo, Types
from penstock.common.types import Row

if TYPE_CHECKING:
    from collections.abc import Callable

    from penstock.taskexecutor.task.operator_context import OperatorContext


def text_of_elements(context: OperatorContext) -> Callable[[Any], str]:
    """What turns the elements of a sink into text.

    Elements without a declared type are any Python values: they look as Python shows them.
    """
    input_types = context.config.input_types
    declared = input_types[0] if input_types else None
    if declared is None or isinstance(declared, PickledBytesTypeInfo) or declared == Types.STRING():
        return python_text
    return flink_text


def python_text(value: Any) -> str:
    """A value as Python shows it.

    Raises:
        TypeError: It is a coroutine, of which nobody would ever see the result.
    """
    if type(value) is CoroutineType or type(value) is AsyncGeneratorType:
        if type(value) is CoroutineType:
            value.close()
        raise TypeError(
            f"an element to write is the coroutine {value.__qualname__}, which nobody awaits; "
            "only functions of AsyncDataStream may be written with async def"
        )
    return str(value)


def flink_text(value: Any) -> str:
    """A value of a declared type as Flink shows it."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return double_text(value)
    if isinstance(value, Row):
        return f"{value.get_row_kind()}[{', '.join(map(flink_text, value))}]"
    if isinstance(value, tuple):
        return f"({','.join(map(flink_text, value))})"
    if isinstance(value, list):
        return f"[{', '.join(map(flink_text, value))}]"
    if isinstance(value, dict):
        pairs = (f"{flink_text(k)}={flink_text(v)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    return python_text(value)
