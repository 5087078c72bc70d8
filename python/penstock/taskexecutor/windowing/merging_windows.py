"""The open windows of a key, for assigners whose windows merge."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

from penstock.datastream.window import MergingWindowAssigner

if TYPE_CHECKING:
    from penstock.datastream.window.windows import TimeWindow, Window

#: The state that maps windows to state windows, for each key.
MERGING_STATE: Final = "merging-window-set"

#: ``merge(result, merged, state_window, merged_state_windows)``: windows ``merged`` became
#: ``result``; the state of ``merged_state_windows`` goes into that of ``state_window``.
MergeFunction = Callable[[Any, list[Any], Any, list[Any]], None]


class _Collector(MergingWindowAssigner.MergeCallback[Any]):
    def __init__(self) -> None:
        self.merges: list[tuple[Any, list[Any]]] = []

    def merge(self, to_be_merged: Iterable[object], merge_result: object) -> None:
        """Record a merge."""
        self.merges.append((merge_result, list(dict.fromkeys(to_be_merged))))


class MergingWindowSet:
    """The open windows of one key, each with the window whose namespace holds its contents.

    A merged window keeps the state window of one of its members, so that merging only moves the
    contents of the others.
    """

    def __init__(
        self,
        assigner: MergingWindowAssigner[object, Any],
        mapping: dict[Any, Any],
        *,
        joins_touching: bool,
    ) -> None:
        """Create a view.

        Args:
            assigner: Decides which windows merge.
            mapping: Window to state window; the caller owns it, and it is changed in place.
            joins_touching: Whether windows that overlap or touch merge.
        """
        self._assigner = assigner
        self._joins_touching = joins_touching
        self.mapping = mapping

    def state_window(self, window: Window) -> Any:
        """Return the window whose namespace holds the contents of ``window``; None if not open."""
        return self.mapping.get(window)

    def retire(self, window: Window) -> None:
        """Close a window."""
        self.mapping.pop(window, None)

    def add(self, window: Any, merge: MergeFunction) -> Any:
        """Open a window, merging it with those that the assigner selects.

        Args:
            window: The window of a record.
            merge: Called for each merge, except of a window that an open one covers.

        Returns:
            The open window that the record now belongs to.
        """
        mapping = self.mapping
        if window in mapping:
            return window
        if self._joins_touching:
            # Usually a session grows: no need to sort all open windows.
            touched = [o for o in mapping if o.start <= window.end and window.start <= o.end]
            if not touched:
                mapping[window] = window
                return window
            if len(touched) == 1:
                return self._grown(touched[0], window, merge)
        collector = _Collector()
        self._assigner.merge_windows([*mapping, window], collector)
        result, is_merged = window, False
        for merge_result, members in collector.merges:
            if window in members:
                members.remove(window)
                result, is_merged = merge_result, True
            if not members:
                continue
            state_windows = [mapping.pop(member) for member in members]
            mapping[merge_result] = state_windows[0]
            if members != [merge_result]:
                merge(merge_result, members, state_windows[0], state_windows[1:])
        if not is_merged:
            mapping[window] = window
        return result

    def _grown(
        self, open_window: TimeWindow, window: TimeWindow, merge: MergeFunction
    ) -> TimeWindow:
        """Return an open window, grown to cover another one."""
        if open_window.start <= window.start and window.end <= open_window.end:
            return open_window
        result = open_window.cover(window)
        state_window = self.mapping[result] = self.mapping.pop(open_window)
        merge(result, [open_window], state_window, [])
        return result
