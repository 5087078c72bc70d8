"""Classes of PyFlink that penstock rejects by name, with a clear message."""

from __future__ import annotations

from typing import Any, NoReturn

from penstock.common.calls.jvm import requires_jvm


class _Refused(type):
    """The metaclass of classes whose members cannot be used."""

    _instead: str

    def __call__(cls, *args: Any, **kwargs: Any) -> NoReturn:  # noqa: ARG002
        requires_jvm(cls.__name__, cls._instead)

    def __getattr__(cls, name: str) -> NoReturn:
        if name.startswith("_"):
            raise AttributeError(name)
        requires_jvm(f"{cls.__name__}.{name}", cls._instead)


def refused_class(name: str, instead: str) -> type[Any]:
    """Return a class that rejects every use.

    Args:
        name: PyFlink's name.
        instead: The replacement in penstock, as a clause.
    """
    return _Refused(name, (), {"_instead": instead, "__doc__": f"Refused: {instead}."})
