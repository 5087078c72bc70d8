"""TableKeyedStateBackend: keyed states that are tables, in memory or in front of a database."""

from __future__ import annotations

from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.datastream.state import (
    AggregatingStateDescriptor,
    ListStateDescriptor,
    MapStateDescriptor,
    ReducingStateDescriptor,
    ValueStateDescriptor,
)
from penstock.errors import InvalidProgramError, SerializationError
from penstock.expressions.evaluation import Evaluation
from penstock.expressions.functions import bound_function
from penstock.taskexecutor.state.backends.declared_types import DeclaredTypes, migrate_table
from penstock.taskexecutor.state.backends.keyed_state_access import KeyedStateAccess
from penstock.taskexecutor.state.backends.keyed_state_backend import KeyedStateBackend, LogBase
from penstock.taskexecutor.state.heap import (
    HeapAggregatingState,
    HeapListState,
    HeapMapState,
    HeapReducingState,
    HeapState,
    HeapValueState,
    KeyContext,
    StateTable,
    ValueCheck,
    value_check,
)
from penstock.taskexecutor.state.naming import name_state
from penstock.taskexecutor.state.snapshots.changelog import replay
from penstock.taskexecutor.state.time_to_live import IncrementalCleanup, TimeToLive
from penstock.taskexecutor.state.ttl_states import (
    TtlAggregatingState,
    TtlListState,
    TtlMapState,
    TtlReducingState,
    TtlState,
    TtlValueState,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from penstock.datastream.state import StateDescriptor
    from penstock.serialization.pure.keys import KeyReader
    from penstock.taskexecutor.state.backends.keyed_state_backend import (
        KeyedBase,
        KeyedSnapshot,
        KeyGrouping,
    )
    from penstock.taskexecutor.state.snapshots.snapshot_contents import (
        KeyedStates,
        LogSegment,
    )


_Ttl = TypeVar("_Ttl", bound=TtlState)


class TableKeyedStateBackend(KeyContext, KeyedStateAccess, KeyedStateBackend):
    """All keyed states of one operator as tables, and their current key.

    States are identified by the name of their descriptor: two descriptors of one name denote the
    same state.  Key groups matter only for snapshots and restores.
    """

    def __init__(self, clock_ms: Callable[[], int], evaluation: Evaluation | None) -> None:
        """Create a backend without states.

        Args:
            clock_ms: The clock for times to live, in ms.
            evaluation: Decides which folding functions are evaluated; None calls them all.
        """
        super().__init__()
        self._evaluation = Evaluation(enabled=False) if evaluation is None else evaluation
        self._clock_ms = clock_ms
        self._tables: dict[str, StateTable] = {}
        self._timers: dict[str, StateTable] = {}
        self.types = DeclaredTypes(clock_ms)
        self.write_backs = []
        self._cleanups: dict[str, IncrementalCleanup] = {}

    @property
    def states(self) -> TableKeyedStateBackend:
        """This backend."""
        return self

    @property
    def tables(self) -> Mapping[str, StateTable]:
        """The tables of opened and restored states, by name."""
        return self._tables

    def timer_table(self, name: str) -> StateTable:
        """Return the timers of one service and time domain, created when missing."""
        table = self._timers.get(name)
        if table is None:
            table = self._timers[name] = StateTable(name, "timer")
        return table

    def table(self, name: str, kind: str) -> StateTable:
        """Return the table of a state, created when missing.

        Raises:
            InvalidProgramError: The name belongs to a state of another kind.
        """
        table = self._tables.get(name)
        if table is None:
            table = self._tables[name] = self._new_table(name, kind)
        elif table.kind != kind:
            msg = (
                f"state {name!r} is a {table.kind} state of this operator; a {kind} state needs "
                "another name"
            )
            raise InvalidProgramError(msg)
        return table

    @abstractmethod
    def _new_table(self, name: str, kind: str) -> StateTable:
        """Create the table of a state that is opened or restored for the first time."""

    def value_state(self, descriptor: ValueStateDescriptor) -> HeapState:
        """Return the state of a ``ValueStateDescriptor``."""
        table, ttl, check = self._open(descriptor, "value", "type_info")
        if ttl is not None:
            return self._cleaned(TtlValueState(self, table, ttl, check))
        return HeapValueState(self, table, check)

    def list_state(self, descriptor: ListStateDescriptor) -> HeapState:
        """Return the state of a ``ListStateDescriptor``."""
        table, ttl, check = self._open(descriptor, "list", "element_type")
        if ttl is not None:
            return self._cleaned(TtlListState(self, table, ttl, check))
        return HeapListState(self, table, check)

    def own_list_state(self, name: str) -> HeapListState:
        """Return a list state of the operator itself, without a declared type."""
        return HeapListState(self, self.table(name, "list"))

    def map_state(self, descriptor: MapStateDescriptor) -> HeapState:
        """Return the state of a ``MapStateDescriptor``."""
        table, ttl, check = self._open(descriptor, "map", "value_type")
        state: TtlMapState | HeapMapState = (
            HeapMapState(self, table, check)
            if ttl is None
            else self._cleaned(TtlMapState(self, table, ttl, check))
        )
        state.check_keys(value_check(descriptor.key_type, descriptor.get_name()))
        return state

    def reducing_state(self, descriptor: ReducingStateDescriptor) -> HeapState:
        """Return the state of a ``ReducingStateDescriptor``."""
        table, ttl, check = self._open(descriptor, "reducing", "type_info")
        function = bound_function(descriptor.get_reduce_function(), "reduce")
        reduce = self._evaluation.without_call(function, 2)
        if ttl is not None:
            return self._cleaned(TtlReducingState(self, table, ttl, reduce, check))
        return HeapReducingState(self, table, reduce, check)

    def aggregating_state(self, descriptor: AggregatingStateDescriptor) -> HeapState:
        """Return the state of an ``AggregatingStateDescriptor``."""
        table, ttl, _ = self._open(descriptor, "aggregating", "type_info")
        function = descriptor.get_agg_function()
        if ttl is not None:
            return self._cleaned(TtlAggregatingState(self, table, ttl, function))
        add = self._evaluation.without_call(function.add, 2)
        return HeapAggregatingState(self, table, function, add)

    def state(self, descriptor: StateDescriptor) -> HeapState:
        """Return the state of any descriptor.

        Raises:
            InvalidProgramError: It is not a descriptor, or its name belongs to a state of another
                kind.
        """
        return self._opener_of(descriptor)[1](descriptor)

    def table_of(self, descriptor: StateDescriptor) -> StateTable:
        """Return the table of any descriptor's state; raises as ``state`` does."""
        kind = self._opener_of(descriptor)[0]
        return self.typed_table(descriptor.get_name(), kind, descriptor.type_info)

    def typed_table(
        self, name: str, kind: str, type_info: object, *, ttl: bool = False
    ) -> StateTable:
        """Return the table of a state whose values have a declared type.

        Raises:
            InvalidProgramError: The name belongs to a state of another kind, or the restored values
                have another type.
        """
        table = self.table(name, kind)
        migrate = self.types.declare("keyed", name, type_info, ttl=ttl)
        if migrate is not None:
            migrate_table(table, migrate)
        return table

    def expiring_table(
        self, descriptor: ValueStateDescriptor
    ) -> tuple[StateTable, TimeToLive | None, IncrementalCleanup | None]:
        """Return the table of a value state, its time to live, and its cleanup.

        Raises:
            InvalidProgramError: The name belongs to a state of another kind or type.
        """
        table, ttl, _ = self._open(descriptor, "value", "type_info")
        return table, ttl, None if ttl is None else self._cleanups.get(table.name)

    def _opener_of(self, descriptor: StateDescriptor) -> tuple[str, Callable[[Any], HeapState]]:
        for descriptor_class, kind, opener in (
            (ValueStateDescriptor, "value", self.value_state),
            (ListStateDescriptor, "list", self.list_state),
            (MapStateDescriptor, "map", self.map_state),
            (ReducingStateDescriptor, "reducing", self.reducing_state),
            (AggregatingStateDescriptor, "aggregating", self.aggregating_state),
        ):
            if isinstance(descriptor, descriptor_class):
                return kind, opener
        msg = f"{type(descriptor).__name__} is not a state descriptor"
        raise InvalidProgramError(msg)

    def release_namespace(self, namespace: object) -> None:
        """Drop a namespace from every state that has no key in it."""
        for table in self._tables.values():
            table.drop_if_empty(namespace)

    @property
    def num_entries(self) -> int:
        """Number of entries of all states."""
        return sum(map(len, self._tables.values()))

    @property
    def is_unused(self) -> bool:
        """Return whether a snapshot would be empty: no state or timers were opened."""
        return not self._tables and not self._timers

    def open_snapshot(
        self, grouping: KeyGrouping, checkpoint_id: int, base: KeyedBase | LogBase | None = None
    ) -> KeyedSnapshot:
        """Open a snapshot of all states and timers, to be serialised while they change.

        Args:
            grouping: The assignment of keys to key groups.
            checkpoint_id: The checkpoint, which later ones may be based on.
            base: The part of an earlier checkpoint that need not be serialised again, or None.
        """
        assert not isinstance(base, LogBase), "only ChangelogKeyedStateBackend continues a log"
        self.lent.settle()
        snapshot = self._open_snapshot(grouping, checkpoint_id, base)
        # Functions may change the values they still hold from now on.
        self.lent.touch()
        return snapshot

    @abstractmethod
    def _open_snapshot(
        self, grouping: KeyGrouping, checkpoint_id: int, base: KeyedBase | None
    ) -> KeyedSnapshot:
        """Open the snapshot; lent values are settled before and touched after."""

    @property
    @abstractmethod
    def logged_tables(self) -> tuple[StateTable, ...]:
        """The tables of which a log contains entries that changed or were removed."""

    def open_log(
        self,
        grouping: KeyGrouping,
        checkpoint_id: int,
        base: LogBase,
        since: Mapping[StateTable, int],
    ) -> KeyedSnapshot | None:
        """Open a log of the changes since an earlier snapshot; see `open_snapshot`.

        Args:
            grouping: The assignment of keys to key groups.
            checkpoint_id: The checkpoint, from which later logs may continue.
            base: The earlier snapshot.
            since: The epochs of the logged tables when that was opened.

        Returns:
            The log; None if the changes are no longer known.
        """
        self.lent.settle()
        log = self._open_log(grouping, checkpoint_id, base, since)
        self.lent.touch()
        return log

    @abstractmethod
    def _open_log(
        self,
        grouping: KeyGrouping,
        checkpoint_id: int,
        base: LogBase,
        since: Mapping[StateTable, int],
    ) -> KeyedSnapshot | None:
        """Open the log; lent values are settled before and touched after."""

    def restore_tables(
        self,
        keyed: KeyedStates,
        timers: KeyedStates,
        key_groups: range,
        keys: KeyReader,
        log: tuple[LogSegment, ...],
    ) -> None:
        """Restore the entries of this subtask's key groups, then apply the log.

        Args:
            keyed: Keyed states of a snapshot.
            timers: Timers of a snapshot, by the names of `timer_table`.
            key_groups: The key groups of this subtask.
            keys: Maps a key to its identity in state.
            log: Later changes, in order.

        Raises:
            CorruptStreamError: The entries are malformed.
            InvalidProgramError: Their type differs from the declared one.
        """
        tables = [(self.table(name, state[0]), state[1]) for name, state in keyed.items()]
        tables += [(self.timer_table(name), state[1]) for name, state in timers.items()]
        for name, (table, groups) in zip([*keyed, *timers], tables, strict=True):
            try:
                for group, entries in groups.items():
                    if group in key_groups:
                        table.load(entries, keys)
            except SerializationError as error:
                name_state(error, name)
                raise
        for segment in log:
            replay(segment, self.table, self._timers_of, key_groups, keys)
        for _, name, migrate in self.types.pending():
            migrate_table(self._tables[name], migrate)

    def _timers_of(self, name: str, kind: str) -> StateTable:
        del kind
        return self.timer_table(name)

    def dispose(self) -> None:
        """Release all state, even if other code still refers to its tables.

        Operators, their states and a traceback form reference cycles, which the garbage collector
        finds late: until then the next attempt would hold its state beside this one's.
        """
        self.lent.clear()
        for tables in (self._tables, self._timers):
            for table in tables.values():
                table.dispose()
            tables.clear()

    def _open(
        self, descriptor: StateDescriptor, kind: str, type_attribute: str
    ) -> tuple[StateTable, TimeToLive | None, ValueCheck | None]:
        name = descriptor.get_name()
        ttl = TimeToLive.of(getattr(descriptor, "_ttl_config", None), self._clock_ms)
        type_info = descriptor.type_info
        if kind in ("list", "map"):
            type_info = getattr(type_info, type_attribute)
        table = self.typed_table(name, kind, descriptor.type_info, ttl=ttl is not None)
        if ttl is not None:
            self._clean_up(table, ttl)
        return table, ttl, value_check(type_info, name)

    def _clean_up(self, table: StateTable, ttl: TimeToLive) -> None:
        """Set the cleanup of a state's expired entries, as its last descriptor says."""
        table.snapshot_filter = ttl.unexpired if ttl.in_snapshots else None
        self._cleanups.pop(table.name, None)
        if ttl.cleanup_size > 0:
            self._cleanups[table.name] = IncrementalCleanup(table, ttl, self)
        each = [cleanup.run for cleanup in self._cleanups.values() if cleanup.runs_at_every_record]
        self.on_key = None if not each else each[0] if len(each) == 1 else partial(_run, each)

    def _cleaned(self, state: _Ttl) -> _Ttl:
        """Make a state clean up expired entries at each access."""
        cleanup = self._cleanups.get(state.name)
        if cleanup is not None:
            state.run_at_access(cleanup.run_beside_access)
        return state


def _run(actions: list[Callable[[], None]]) -> None:
    for action in actions:
        action()
