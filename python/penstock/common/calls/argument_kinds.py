"""Checks of arguments against their annotations, like those of PyFlink's gateway to Java.

Also the check of a function against the number of arguments that it will receive.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock.errors import WrongArgumentError

if TYPE_CHECKING:
    from collections.abc import Callable

C = TypeVar("C", bound=type)


def accepts(signature: inspect.Signature, count: int) -> bool:
    """Return whether a function takes a number of positional arguments."""
    required = most = 0
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_POSITIONAL:
            most = count
        elif parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            most += 1
            required += parameter.default is parameter.empty
    return required <= count <= most


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and -(1 << 63) <= value < 1 << 63


def _are_texts(value: Any) -> bool:
    is_list = isinstance(value, Sequence) and not isinstance(value, (str, bytes))
    return is_list and all(isinstance(each, str) for each in value)


def _maps_texts(value: Any) -> bool:
    return isinstance(value, Mapping) and _are_texts([*value.keys(), *value.values()])


#: The values that a declaration accepts, and their name in errors.
_SPANS: Final = frozenset({"Duration", "Time"})
_KINDS: Final[dict[str, tuple[Callable[[object], bool], str]]] = {
    "int": (_is_whole, "a whole number of 64 bits"),
    "float": (lambda value: isinstance(value, float) or _is_whole(value), "a number"),
    "bool": (lambda value: isinstance(value, bool), "True or False"),
    "str": (lambda value: isinstance(value, str), "a string"),
    "bytearray": (lambda value: isinstance(value, (bytes, bytearray)), "bytes"),
    "Sequence[str]": (_are_texts, "a list of strings"),
    "Mapping[str, str]": (_maps_texts, "a dictionary of strings"),
    "Duration | Time": (
        lambda value: any(cls.__qualname__ in _SPANS for cls in type(value).__mro__),
        "a Duration or a Time",
    ),
    "dict[str, str]": (_maps_texts, "a dictionary of strings"),
}
#: Classes of the API by name, so that they need not be imported.
_CLASSES: Final = frozenset(
    {
        "BucketAssigner",
        "CheckpointingMode",
        "Configuration",
        "ExternalizedCheckpointRetention",
        "FileEnumeratorProvider",
        "FileSplitAssignerProvider",
        "JdbcConnectionOptions",
        "JdbcExecutionOptions",
        "OutputFileConfig",
        "PartitionCommitTrigger",
        "RollingPolicy",
        "RuntimeExecutionMode",
        "StateTtlConfig.StateVisibility",
        "StateTtlConfig.TtlTimeCharacteristic",
        "StateTtlConfig.UpdateType",
    }
)
_VOWELS: Final = "AEIOU"
_OPTIONAL: Final = " | None"


def checks_arguments(cls: C, called: str | None = None) -> C:
    """Make the public methods of a class reject arguments that do not fit their annotations.

    It checks parameters declared as `int`, `float`, `bool`, `str` or `bytearray`, as a list or
    dictionary of strings, as one of a few classes of the API, or as one of these or None.  It
    checks no others.  The module must postpone the evaluation of annotations.  True is not a number
    here.

    Args:
        cls: The class.
        called: The name of the class in messages; its own if None.
    """
    named = called or cls.__name__
    for name, member in list(vars(cls).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, (staticmethod, classmethod)):
            checked = _checked(member.__func__, named, name)
            if checked is not None:
                setattr(cls, name, type(member)(checked))
        elif inspect.isfunction(member):
            checked = _checked(member, named, name)
            if checked is not None:
                setattr(cls, name, checked)
    return cls


def _checked(function: Any, class_name: str, name: str) -> Any:
    """Return the function with its checks; None when there is nothing to check."""
    where = class_name if name == "__init__" else f"{class_name}.{name}"
    checks: dict[str, Callable[[object], None]] = {}
    by_position: list[Callable[[object], None] | None] = []
    for parameter in inspect.signature(function).parameters.values():
        check = _check_of(parameter, where)
        if check is not None:
            checks[parameter.name] = check
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            by_position.append(check)
    if not checks:
        return None

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        for check, value in zip(by_position, args, strict=False):
            if check is not None:
                check(value)
        for keyword, value in kwargs.items():
            if keyword in checks:
                checks[keyword](value)
        return function(*args, **kwargs)

    return checked


def _check_of(parameter: inspect.Parameter, where: str) -> Callable[[object], None] | None:
    declared = parameter.annotation
    if not isinstance(declared, str) or parameter.kind is parameter.VAR_KEYWORD:
        return None
    may_be_none = declared.endswith(_OPTIONAL)
    name = declared.removesuffix(_OPTIONAL)
    if name in _CLASSES:
        fits, called = _instances_of(name), f"{'an' if name[0] in _VOWELS else 'a'} {name}"
    elif name in _KINDS:
        fits, called = _KINDS[name]
    else:
        return None

    def check(value: object) -> None:
        if not fits(value) and not (may_be_none and value is None):
            raise WrongArgumentError(f"{where}: {parameter.name} must be {called}, got {value!r}")

    return check


def _instances_of(name: str) -> Callable[[object], bool]:
    return lambda value: any(cls.__qualname__ == name for cls in type(value).__mro__)
