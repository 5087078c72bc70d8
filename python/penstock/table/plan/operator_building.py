"""Building blocks of translation: operators of one and two inputs, and exchanges."""

from __future__ import annotations

import operator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from penstock.common.options.value_types import DurationType
from penstock.common.typeinfo import Types
from penstock.graph.operators import Relational
from penstock.graph.partitioners import key_group
from penstock.graph.transformations import (
    OneInputTransformation,
    PartitionTransformation,
    TwoInputTransformation,
)
from penstock.table.options.table_options import (
    AGGREGATE_PHASES,
    IDLE_TIMEOUT,
    STATE_TTL,
    UID_GENERATION,
)
from penstock.table.plan.changelog import Changelog
from penstock.table.plan.exchanged_rows import exchanged_by
from penstock.table.plan.operator_ids import OperatorIds

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.graph.transformations import Transformation
    from penstock.table.functions.evaluation import Session
    from penstock.table.plan import nodes as n
    from penstock.table.plan.nodes import Node

#: Key groups of operators whose job does not configure a number.
_MAX_PARALLELISM = 128


@dataclass
class TranslationContext:
    """Context in which a plan is translated to a job.

    Attributes:
        environment: The environment to which operators are added.
        session: Settings on which results depend.
        is_streaming: Whether results are updated as input arrives.
        settings: The options of the table configuration.
        new_rows_only: The nodes that leave out UPDATE_BEFORE; see `Changelog`.
    """

    environment: StreamExecutionEnvironment
    session: Session
    is_streaming: bool = True
    settings: dict[str, str] = field(default_factory=dict)
    new_rows_only: Sequence[Node] = ()

    @property
    def state_ttl_ms(self) -> int:
        """The time after which state that was not written expires; 0 for never."""
        return DurationType().parse(self.settings.get(STATE_TTL) or "0 ms")

    @property
    def idle_timeout_ms(self) -> int:
        """The time without rows after which a source holds back no other one; 0 for never."""
        return DurationType().parse(self.settings.get(IDLE_TIMEOUT) or "0 ms")


class OperatorBuilder:
    """Adds operators of nodes to an environment.

    Attributes:
        ids: The uids of the operators.
    """

    def __init__(self, context: TranslationContext) -> None:
        """Create a builder for a context."""
        self._context = context
        self._environment = context.environment
        self._changelog = Changelog(
            is_streaming=context.is_streaming, new_rows_only=context.new_rows_only
        )
        generation = context.settings.get(UID_GENERATION, "PLAN_ONLY").upper()
        self.ids = OperatorIds(context.environment, is_enabled=generation != "DISABLED")
        #: By operator: the node whose rows it emits.
        self._nodes: dict[Transformation, Node] = {}
        self._exchanges: dict[
            tuple[Transformation, tuple[int, ...], int], PartitionTransformation
        ] = {}

    def _parallelism(self) -> int:
        return int(self._environment.get_parallelism())

    def _add(self, made: Any, node: Node) -> Any:
        made.description = node.describe()
        made.set_max_parallelism(self._max_parallelism())
        self.ids.name(made, node)
        self._environment.add_operator(made)
        return made

    def _max_parallelism(self) -> int:
        own = self._environment.get_max_parallelism()
        return max(own, 1) if own and own > 0 else max(_MAX_PARALLELISM, self._parallelism())

    def _expiring(self, hinted: int | None = None) -> dict[str, Any]:
        """Return the setting of the state's time to live: a hint's, or else the configured one."""
        ttl_ms = self._context.state_ttl_ms if hinted is None else hinted
        return {"state_ttl_ms": ttl_ms} if ttl_ms > 0 and self._context.is_streaming else {}

    def _old_rows(self, node: Node) -> dict[str, Any]:
        """Return the setting of an operator that leaves out UPDATE_BEFORE."""
        return {"emits_old": False} if self._changelog.has_new_rows_only(node) else {}

    def _phases(self) -> dict[str, Any]:
        """Return the setting of aggregates that add rows one by one."""
        strategy = self._context.settings.get(AGGREGATE_PHASES, "AUTO").upper()
        return {"is_one_phase": True} if strategy == "ONE_PHASE" else {}

    def _join_settings(self, node: n.Join) -> dict[str, Any]:
        return {
            "inputs": (node.left.schema, node.right.schema),
            "output": node.schema,
            "has_kinds": (
                self._changelog.is_updating(node.left),
                self._changelog.is_updating(node.right),
            ),
            "kind": node.kind,
            "keys": (node.left_keys, node.right_keys),
            "condition": node.condition,
            "session": self._context.session,
        }

    def _one(
        self, before: Transformation, kind: str, name: str, node: Node, /, **settings: Any
    ) -> Transformation:
        made = OneInputTransformation(
            before, name, Relational(kind, settings), None, before.parallelism
        )
        return self._add(made, node)  # type: ignore[no-any-return]

    def _partitioned(
        self, before: Transformation, keys: tuple[int, ...], parallelism: int, node: Node
    ) -> Transformation:
        """Return the exchange by key to a number of subtasks; operators that need it share it."""
        known = self._exchanges.get((before, keys, parallelism))
        if known is not None:
            return known
        settings = {"keys": keys}
        made = OneInputTransformation(
            before, "Exchange", Relational("partition", settings), None, before.parallelism
        )
        self._add(made, node)
        exchange = PartitionTransformation(made, key_group(operator.itemgetter(0), Types.STRING()))
        self._exchanges[before, keys, parallelism] = exchange
        return exchange

    def _is_exchanged(self, before: Transformation, keys: tuple[int, ...]) -> bool:
        """Return whether an exchange by the keys would send no row to another subtask."""
        node = self._nodes.get(before)
        return node is not None and self._context.is_streaming and keys in exchanged_by(node)

    def _keyed(
        self, before: Transformation, keys: tuple[int, ...], kind: str, name: str, node: Node, /,
        *, parallelism: int | None = None, **settings: Any,
    ) -> Transformation:  # fmt: skip
        if parallelism is None:
            parallelism = self._parallelism() if keys else 1
        if not keys or parallelism != before.parallelism or not self._is_exchanged(before, keys):
            before = self._partitioned(before, keys, parallelism, node)
        made = OneInputTransformation(
            before,
            name,
            Relational(kind, settings, (keys,)),
            None,
            parallelism,
            key_selector=operator.itemgetter(0),
            key_type=Types.STRING(),
        )
        return self._add(made, node)  # type: ignore[no-any-return]

    def _keyed_two(
        self,
        left: Transformation,
        right: Transformation,
        keys: tuple[tuple[int, ...], tuple[int, ...]],
        kind: str,
        name: str,
        node: Node,
        /,
        **settings: Any,
    ) -> Transformation:
        parallelism = self._parallelism() if keys[0] else 1
        made = TwoInputTransformation(
            self._partitioned(left, keys[0], parallelism, node),
            self._partitioned(right, keys[1], parallelism, node),
            name,
            Relational(kind, settings, keys),
            None,
            parallelism,
            key_selector1=operator.itemgetter(0),
            key_selector2=operator.itemgetter(0),
            key_type=Types.STRING(),
        )
        return self._add(made, node)  # type: ignore[no-any-return]
