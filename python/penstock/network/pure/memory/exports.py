"""Memory that is exported by the buffer protocol, which classes in Python have from 3.12 on."""

from __future__ import annotations

from penstock.serialization.pure.uncopied import Uncopied


class ExportsViews(Uncopied):
    """Memory whose ``__buffer__`` returns views."""

    __slots__ = ()

    def __release_buffer__(self, view: memoryview, /) -> None:
        """Do nothing: Python drops the exported view.

        numpy holds an export only of objects with this method, and otherwise the object alone.
        """
