"""A physical slot shared by several subtasks: a tree of shared slots with simple slots as leaves.

The root represents the physical slot.  A leaf holds one subtask; an inner shared slot holds the
subtasks of one co-location group.  Within one shared slot a group id (a vertex, or a co-location
group) occurs once.  A shared slot without children releases itself, up to the root, whose release
frees the physical slot.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.jobmaster.slots.slots import SlotOffer


class SimpleSlot:
    """A leaf: the place of one subtask.

    Attributes:
        parent: The shared slot it is part of.
        group_id: Its group in the parent.
        payload: Its user; set once.
    """

    def __init__(self, parent: SharedSlot, group_id: object) -> None:
        self.parent = parent
        self.group_id = group_id
        self.payload: object | None = None
        self.released = False

    def set_payload(self, payload: object) -> bool:
        """Assign a user to the slot; return False if it already has one or is released."""
        if self.payload is not None or self.released:
            return False
        self.payload = payload
        return True

    def release(self) -> bool:
        """Release the leaf; return True if that emptied and released the whole tree."""
        if self.released:
            return False
        self.released = True
        return self.parent._child_released(self.group_id)


class SharedSlot:
    """A slot that several subtasks share.

    Attributes:
        slot: The physical slot.
        parent: The shared slot it is part of; None for the root.
        group_id: Its group in the parent; None for the root.
        children: By group id.
    """

    def __init__(
        self, slot: SlotOffer, parent: SharedSlot | None = None, group_id: object | None = None
    ) -> None:
        self.slot = slot
        self.parent = parent
        self.group_id = group_id
        self.children: dict[object, SimpleSlot | SharedSlot] = {}
        self.released = False

    @property
    def root(self) -> SharedSlot:
        """Return the shared slot that represents the physical slot."""
        node = self
        while node.parent is not None:
            node = node.parent
        return node

    def allocate_simple(self, group_id: object) -> SimpleSlot | None:
        """Add a leaf; return None if the group id exists already or the slot is released."""
        if self.released or group_id in self.children:
            return None
        leaf = SimpleSlot(self, group_id)
        self.children[group_id] = leaf
        return leaf

    def allocate_shared(self, group_id: object) -> SharedSlot | None:
        """Add an inner shared slot; return None if the id exists or the slot is released."""
        if self.released or group_id in self.children:
            return None
        inner = SharedSlot(self.slot, self, group_id)
        self.children[group_id] = inner
        return inner

    def release(self) -> list[object]:
        """Release the slot with all its children; return the payloads of the leaves."""
        if self.released:
            return []
        self.released = True
        payloads: list[object] = []
        for child in list(self.children.values()):
            if isinstance(child, SharedSlot):
                payloads.extend(child.release())
            elif not child.released:
                child.released = True
                if child.payload is not None:
                    payloads.append(child.payload)
        self.children.clear()
        if self.parent is not None and not self.parent.released:
            self.parent._child_released(self.group_id)
        return payloads

    def leaves(self) -> list[SimpleSlot]:
        """Return all leaves below this slot, depth first."""
        found: list[SimpleSlot] = []
        for child in self.children.values():
            if isinstance(child, SharedSlot):
                found.extend(child.leaves())
            else:
                found.append(child)
        return found

    def _child_released(self, group_id: object) -> bool:
        self.children.pop(group_id, None)
        if self.children or self.released:
            return False
        self.released = True
        return True if self.parent is None else self.parent._child_released(self.group_id)
