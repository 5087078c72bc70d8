"""Memory that other processes of this host can map (docs/formats/same-host.md).

It is a file without a name, sealed against changes of its size and against writers other than its
owner.  A process that has mapped it can read all of it at any time, even after the owner has ended.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os

from penstock.errors import CorruptStreamError
from penstock.network.pure.memory.segment import MemorySegment

_F_SEAL_FUTURE_WRITE = 0x10
"""From ``<linux/fcntl.h>``; the fcntl module has it from Python 3.13 on."""


class SharedMemory:
    """Zeroed memory of this process that others may map; pages become resident on first use.

    It is unmapped with its last view, so ``close`` may be called before segments are returned.
    """

    def __init__(self, size: int) -> None:
        """Allocate at least ``size`` bytes.

        Raises:
            OSError: the system does not provide such memory.
        """
        if not hasattr(os, "memfd_create"):
            raise OSError(errno.ENOSYS, "this system has no files without names")
        pages = max(1, -(-size // mmap.PAGESIZE))
        self.descriptor = os.memfd_create("penstock", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        """Descriptor that ``ForeignMemory`` requires."""
        try:
            os.ftruncate(self.descriptor, pages * mmap.PAGESIZE)
            self.view = memoryview(mmap.mmap(self.descriptor, pages * mmap.PAGESIZE))
            seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
            # After the mapping, so that no other writable one is possible.
            fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, seals | _F_SEAL_FUTURE_WRITE)
        except OSError:
            os.close(self.descriptor)
            raise

    def close(self) -> None:
        """Stop sharing the memory."""
        self.view = memoryview(b"")
        os.close(self.descriptor)


class SharedSegment(MemorySegment):
    """A segment that other processes can read; ``place`` is its offset in their mapping."""

    __slots__ = ("place",)

    def __init__(self, memory: SharedMemory, place: int, size: int) -> None:
        super().__init__(memory.view[place : place + size])
        self.place = place


class ForeignMemory:
    """The ``SharedMemory`` of another process, read-only."""

    def __init__(self, descriptor: int) -> None:
        """Map the memory, if its size can never decrease.

        Raises:
            CorruptStreamError: the file is not sealed shared memory.
            OSError: the system cannot map it.
        """
        try:
            seals = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS)
        except OSError as error:
            raise CorruptStreamError(f"memory without seals: {error}") from error
        if not seals & fcntl.F_SEAL_SHRINK:
            raise CorruptStreamError("memory that may shrink")
        # Only files of pages and of huge pages have seals.  The blocks of huge pages are as large,
        # and the receiver may have no page for them.
        if os.fstatvfs(descriptor).f_bsize != mmap.PAGESIZE:
            raise CorruptStreamError("memory of another kind than pages")
        if os.fstat(descriptor).st_size < mmap.PAGESIZE:
            raise CorruptStreamError("memory smaller than a page")
        self._mapping = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        self.view = memoryview(self._mapping)

    def close(self) -> None:
        """Unmap it."""
        self.view.release()
        self._mapping.close()
