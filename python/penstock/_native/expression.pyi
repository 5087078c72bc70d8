from collections.abc import Callable, Iterable, Iterator
from typing import Any, Self, final

from penstock.expressions.program import Program

@final
class Expression:
    def __new__(
        cls,
        function: Callable[..., Any],
        program: Program,
        dropped: object = None,
        function_of_all: Callable[[Iterable[Any]], Iterator[Any]] | None = None,
    ) -> Self: ...
    def callable(self) -> Callable[..., Any]: ...
    def over(self, values: Iterable[Any]) -> Iterator[Any]: ...

@final
class ExpressionIterator:
    def __new__(cls, expression: Expression, values: Iterable[Any]) -> Self: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Any: ...
