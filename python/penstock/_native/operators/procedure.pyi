from collections.abc import Callable
from typing import Any, Self, final

from penstock._native.evaluator.expression import Expression
from penstock.expressions import procedures
from penstock.taskexecutor.compiled import InternalTimerService
from penstock.taskexecutor.state.heap import KeyContext

@final
class Procedure:
    @property
    def expression(self) -> Expression: ...
    def __new__(
        cls,
        function: Callable[..., Any],
        procedure: procedures.Procedure,
        timers: InternalTimerService,
        state: KeyContext,
    ) -> Self: ...
    def run(self, value: Any, timestamp: int) -> int: ...
    def taken(self) -> Any: ...
