"""Decorators that document how stable a function or class is."""

from __future__ import annotations

import inspect
import warnings
from abc import ABCMeta, abstractmethod
from typing import Any, TypeVar

__all__ = ["Deprecated", "Experimental", "Internal", "Public", "PublicEvolving"]

T = TypeVar("T")


class BaseAPIStabilityDecorator(metaclass=ABCMeta):
    """A decorator of functions and classes that appends a Sphinx directive to their docstring."""

    @abstractmethod
    def get_directive(self, func_or_cls: Any) -> str:
        """Return the directive for a function or class."""

    def __call__(self, func_or_cls: T) -> T:
        """Append the directive to the docstring, and to those of a class's public functions."""
        directive = self.get_directive(func_or_cls)
        documented: list[Any] = [func_or_cls]
        if inspect.isclass(func_or_cls):
            documented += [
                member
                for name, member in vars(func_or_cls).items()
                if not name.startswith("_") and isinstance(member, _Documented)
            ]
        for one in documented:
            text = inspect.cleandoc(one.__doc__ or "")
            if directive not in text:
                one.__doc__ = f"{text}\n\n{directive}\n"
        return func_or_cls


class Deprecated(BaseAPIStabilityDecorator):
    """Marks a function or class as deprecated since a version, and warns about it."""

    def __init__(self, since: str, detail: str | None = None) -> None:
        """Set the version, and the replacement."""
        self.since = since
        self.detail = detail

    def get_directive(self, func_or_cls: Any) -> str:  # noqa: ARG002
        """Return the directive."""
        return f".. deprecated:: {self.since}\n   {self.detail or ''}".rstrip()

    def __call__(self, func_or_cls: T) -> T:
        """Warn, and append the directive."""
        name = getattr(func_or_cls, "__qualname__", repr(func_or_cls))
        message = f"{name} has been deprecated since version {self.since}. {self.detail or ''}"
        warnings.warn(message.rstrip(), DeprecationWarning, stacklevel=2)
        return super().__call__(func_or_cls)


class _Marked(BaseAPIStabilityDecorator):
    _directive: str
    _text: str

    def get_directive(self, func_or_cls: Any) -> str:  # noqa: ARG002
        """Return the directive."""
        return f".. {self._directive}:: {self._text}"


class Experimental(_Marked):
    """Marks an API that may change or be removed at any time."""

    _directive, _text = "warning", "This is experimental, and may be changed or removed."


class Internal(_Marked):
    """Marks an API for developers of a library only."""

    _directive, _text = "caution", "This is internal, and may change across versions."


class PublicEvolving(_Marked):
    """Marks a public API whose signatures may change."""

    _directive, _text = "note", "This is public and evolving: its signature may change."


class Public(_Marked):
    """Marks a public API that stays unchanged across minor versions."""

    _directive, _text = "note", "This is public and stable across minor versions."


_Documented = (type(lambda: None), property)
