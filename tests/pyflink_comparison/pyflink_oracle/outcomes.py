"""Outcomes as text: a value with its Python type, or the class of an error.

A text of the real PyFlink is compared with one of penstock.  The text of an error starts with ``!``
and names the class; penstock's names all its base classes, one of which must match.
"""

from __future__ import annotations

import datetime
import decimal
import enum
import re
from typing import Any

#: Errors that only a gateway to a JVM raises: any error matches them.
FOREIGN_ERRORS = frozenset({"Py4JJavaError", "Py4JError", "Py4JNetworkError"})

_PLAIN = (bool, int, float, complex, str, bytes, bytearray, decimal.Decimal, datetime.timedelta)
_MOMENTS = (datetime.datetime, datetime.date, datetime.time)
_ADDRESS = re.compile(r" at 0x[0-9a-f]+|[a-z_.]*(?=Library\._functions)")
#: Zero-argument methods with these names, whose results describe an object of the API.
_GETTER = re.compile(r"(get|is|to)_[a-z_]+$")
#: The getters of each class, as recorded: penstock has more.
getters: dict[str, list[str]] = {}
_LONG_CALLS = re.compile(
    r"java|_j_|execution_environment|execution_config|config_object|stream_graph"
)


def text_of(value: Any, depth: int = 0) -> str:
    """Return the text of a value."""
    if depth > 20:
        raise ValueError("a value contains itself")
    kind = type(value)
    if value is None or kind in _PLAIN:
        return repr(value)
    if kind in _MOMENTS:
        return f"{kind.__name__}({value.isoformat()})"
    if kind is tuple:
        return f"({''.join(text_of(item, depth + 1) + ',' for item in value)})"
    if kind is list:
        return f"[{','.join(text_of(item, depth + 1) for item in value)}]"
    if kind in (set, frozenset):
        return f"{kind.__name__}{sorted(text_of(item, depth + 1) for item in value)}"
    if isinstance(value, dict):
        items = [f"{text_of(k, depth + 1)}:{text_of(v, depth + 1)}" for k, v in value.items()]
        return "{" + ",".join(sorted(items)) + "}"
    if isinstance(value, enum.Enum):
        return f"{kind.__name__}.{value.name}"
    if hasattr(value, "get_row_kind"):
        fields = field_names(value)
        return f"Row({fields}{[text_of(v, depth + 1) for v in value]}{value.get_row_kind()})"
    if kind.__name__ == "Instant":
        return f"Instant({value.seconds},{value.nanos})"
    if hasattr(value, "from_internal_type"):
        return f"type {value}"
    if isinstance(value, type):
        return f"class {value.__name__}"
    if kind.__module__.split(".")[0] in ("pyflink", "penstock"):
        return f"<{kind.__name__}{said_by(value) if depth < 2 else ''}>"
    return f"<{kind.__name__}>"


def field_names(row: Any) -> Any:
    """Return the names of a row's fields; None if it has none."""
    try:
        return row.__dict__.get("_fields")
    except AttributeError:  # PyFlink's rows have a dictionary, and recurse without one
        return getattr(row, "_fields", None)


def said_by(value: Any) -> str:
    """Return the texts of the getters of an API object."""
    kind = type(value).__name__
    return "".join(
        f" {name}={outcome_of(getattr(value, name, None), depth=1).split(',')[0]}"
        for name in getters.setdefault(kind, _getters_of(type(value)))
    )


def _getters_of(kind: type) -> list[str]:
    if kind.__name__.endswith(("Stream", "Streams", "DataStreamSink")):
        return [name for name in ("get_type", "get_name") if hasattr(kind, name)]
    if kind.__name__ in ("StreamExecutionEnvironment", "JavaObject"):
        return []
    return [
        name
        for name in dir(kind)
        if _GETTER.match(name) and not _LONG_CALLS.search(name) and callable(getattr(kind, name))
    ]


def outcome_of(action: Any, depth: int = 0) -> str:
    """Return the text of a call's result, or of its error."""
    try:
        return _ADDRESS.sub("", text_of(action(), depth))
    except Exception as error:
        return error_text(error)


def error_text(error: BaseException) -> str:
    """Return the text of an error: its classes, the most specific first."""
    if type(error).__name__ in FOREIGN_ERRORS:
        return "!" + type(error).__name__
    names = [kind.__name__ for kind in type(error).__mro__]
    return "!" + ",".join(names[: names.index("Exception") + 1] if "Exception" in names else names)


def agree(recorded: Any, found: Any) -> bool:
    """Return whether an outcome matches the recorded one: errors by class, lists by items."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        return recorded.keys() == found.keys() and all(agree(recorded[k], found[k]) for k in found)
    if isinstance(recorded, list) and isinstance(found, list):
        return len(recorded) == len(found) and all(map(agree, recorded, found))
    if not isinstance(recorded, str) or not isinstance(found, str):
        return bool(recorded == found)
    if recorded.startswith("!LostElements"):
        # The job failed, and PyFlink's iterator ended as if it had not.
        return found.startswith("!")
    if recorded.startswith("!"):
        expected = recorded[1:].split(",")[0]
        return found.startswith("!") and (
            expected in FOREIGN_ERRORS or expected in found[1:].split(",")
        )
    return recorded == found
