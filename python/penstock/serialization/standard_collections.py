"""``deque``, ``OrderedDict``, ``Counter`` and ``defaultdict`` of the standard library, as values.

A collection is decomposed into the arguments of its unpickling, if these describe it completely:
its contents have no shared references, and the factory of a ``defaultdict`` is a class with a name.
Any other collection is pickled.

The native twin is ``penstock._native.codecs.standard_collections``.
"""

from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any, Final

from penstock.serialization.class_reference import reference_of, resolve

DEQUE: Final = 0x24
ORDERED_DICT: Final = 0x25
COUNTER: Final = 0x26
DEFAULT_DICT: Final = 0x27

TAGS: Final[dict[type, int]] = {
    deque: DEQUE,
    OrderedDict: ORDERED_DICT,
    Counter: COUNTER,
    defaultdict: DEFAULT_DICT,
}


def content_of(value: Any) -> list[Any] | dict[Any, Any] | None:
    """Return a collection's items in order; None if it has further state.

    Attributes of a ``Counter`` are ignored, as in pickling.
    """
    if type(value) is deque:
        return list(value)
    if type(value) is OrderedDict and value.__dict__:
        return None
    if type(value) is defaultdict:
        factory = value.default_factory
        if factory is not None and (not isinstance(factory, type) or reference_of(factory) is None):
            return None
    return dict(value)


def parts_of(value: Any, content: Any) -> Any:
    """Return the parts of a collection's extended value."""
    if type(value) is deque:
        return value.maxlen, content
    if type(value) is defaultdict:
        factory: Any = value.default_factory
        return None if factory is None else reference_of(factory), content
    return content


def _deque_from(parts: Any) -> Any:
    limit, content = parts
    if type(content) is not list:
        raise TypeError(f"a deque of {type(content).__name__}")
    return deque(content, limit)


def _default_dict_from(parts: Any) -> Any:
    reference, content = parts
    factory: Any = None if reference is None else resolve(reference)
    return defaultdict(factory, _checked(content))


def _checked(content: Any) -> dict[Any, Any]:
    if type(content) is not dict:
        raise TypeError(f"the content of a dict as {type(content).__name__}")
    return content


def _counter_from(content: Any) -> Any:
    made: Any = Counter.__new__(Counter)  # its __init__ would only count its arguments
    dict.update(made, _checked(content))
    return made


REBUILDERS: Final[dict[int, Callable[[Any], Any]]] = {
    DEQUE: _deque_from,
    ORDERED_DICT: lambda content: OrderedDict(_checked(content)),
    COUNTER: _counter_from,
    DEFAULT_DICT: _default_dict_from,
}
