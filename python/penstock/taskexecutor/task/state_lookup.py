"""A lookup of one key's keyed state, run in the task's thread between two records."""

from __future__ import annotations

import ast
import threading
from typing import TYPE_CHECKING, Any, Final

from penstock.common.exception_deadline import described_in_time
from penstock.errors import PenstockError
from penstock.rpc.inspection_messages import FoundState
from penstock.taskexecutor.state.time_to_live import Aged
from penstock.taskexecutor.task.record_sample import shape_of, text_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from penstock.taskexecutor.state.heap import StateTable
    from penstock.taskexecutor.task.operator_chain import OperatorChain
    from penstock.taskexecutor.task.operator_context import TaskOperatorContext

MAX_FOUND: Final = 100


class StateLookup:
    """A query to one task; the task's thread answers it, another thread reads the answer.

    Attributes:
        done: Set when the task has answered.
        states: The kinds, by name, of the keyed states of the selected operators.
        found: The values of the key.
        problem: Why there is no answer; empty when there is one.
    """

    def __init__(
        self, operators: Sequence[bytes], state: str, keys: Sequence[str], *, redacted: bool
    ) -> None:
        """Create a query.

        Args:
            operators: Ids of the selected operators.
            state: The name of a state; empty for its names only.
            keys: The keys, as texts; see `keys_meant`.
            redacted: Whether types are shown instead of values.
        """
        self.done = threading.Event()
        self.states: dict[str, str] = {}
        self.found: list[FoundState] = []
        self.problem = ""
        self._operators = frozenset(operators)
        self._state = state
        self._keys = keys
        self._describe: Callable[[Any], str] = shape_of if redacted else text_of

    def run(self, chain: OperatorChain) -> None:
        """Run the query in the task's thread."""
        try:
            for context in chain.contexts:
                if context.config.id in self._operators and context.is_keyed:
                    self._look_into(context)
        except BaseException as error:  # raised by a user class that is compared or read
            self.problem = described_in_time(error)
        finally:
            self.done.set()

    def _look_into(self, context: TaskOperatorContext) -> None:
        context.keyed_state.write_back()
        tables = context.keyed_state.tables
        self.states |= {name: table.kind for name, table in tables.items()}
        table = tables.get(self._state)
        if table is None:
            return
        for key in (key for text in self._keys for key in keys_meant(text)):
            for namespace, value in values_of_key(context, table, key):
                if len(self.found) >= MAX_FOUND:
                    return
                window = "" if namespace is None else text_of(namespace)
                text = self._describe(value)
                self.found.append(FoundState(context.name, text_of(key), window, text))


def values_of_key(
    context: TaskOperatorContext, table: StateTable, key: object
) -> Iterator[tuple[object, object]]:
    """Yield the namespaces and values of a key in a table of an operator."""
    try:
        identity = context.identity_of(key)
    except (PenstockError, TypeError, ValueError):
        return  # keys of this operator are of another type
    if not context.has_key(identity):
        return
    for contents in table.namespaces():
        value = contents.get(identity)
        if value is not None:
            yield contents.namespace, without_times(value)


def keys_meant(text: str) -> list[object]:
    """Return the keys that a text may mean: the Python literal it spells, and the text itself."""
    try:
        return [ast.literal_eval(text.strip()), text]
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return [text]


def without_times(value: Any) -> object:
    """Return a value without the expiry times that state stores with it."""
    if isinstance(value, Aged):
        return without_times(value.value)
    if type(value) is list:
        return [without_times(item) for item in value]
    if type(value) is dict:
        return {key: without_times(item) for key, item in value.items()}
    return value
