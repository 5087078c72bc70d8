"""A stand-in for the C function table of ``penstock._core``, so that a test sees every call.

The table consists of ctypes callbacks on :class:`FakePartition` and :class:`FakeGate`.  It follows
the rules of ``capi.h``: the next call for a subpartition finishes the builder of its cursor, a
unicast buffer finishes the broadcast builder and vice versa, an event finishes all.
"""

import ctypes
import sys
import types
from collections import deque

from penstock import errors
from penstock.network.error_codes import code_of
from support.capi_structures import (
    ABI_VERSION,
    APPEND,
    EVENT,
    FLUSH,
    GATE_NEXT,
    GATE_TRY_NEXT,
    GATE_URGENT,
    LAST_ERROR,
    NEXT_BUFFER,
    Table,
)

ALL = -1


ctypes.pythonapi.PyCapsule_New.restype = ctypes.py_object
ctypes.pythonapi.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


def capsule(address, name):
    return ctypes.pythonapi.PyCapsule_New(address, name, None)


class Segment:
    """A buffer that is being written or is finished."""

    def __init__(self, size):
        self.memory = ctypes.create_string_buffer(size)
        self.marker = ctypes.c_int32(0)
        self.dirty = ctypes.c_uint8(0)

    def bytes(self):
        return self.memory.raw[: self.marker.value]


class FakePartition:
    """Segments per subpartition; ``calls`` lists the calls of the table."""

    def __init__(self, core, num_subpartitions, segment_size, flush_timeout_ms=-1):
        self.core = core
        self.num_subpartitions = num_subpartitions
        self.segment_size = segment_size
        self.flush_timeout_ms = flush_timeout_ms
        self.streams = [[] for _ in range(num_subpartitions)]
        self.open = {}
        self.calls = []
        self.none_free = False
        self.error = None
        core.objects[id(self)] = self
        self._handle = capsule(id(self), b"penstock.partition")

    def _attach(self, writer):
        self.writer = writer

    def bytes_of(self, subpartition):
        """Return all committed bytes; an event is returned as itself."""
        return b"".join(
            part.bytes() if isinstance(part, Segment) else part
            for part in self.streams[subpartition]
        )

    def open_next(self, subpartition, cursor):
        if subpartition == ALL:
            self.open.clear()
        else:
            self.open.pop(ALL, None)
        segment = Segment(self.segment_size)
        self.open[subpartition] = segment
        targets = range(self.num_subpartitions) if subpartition == ALL else [subpartition]
        for target in targets:
            self.streams[target].append(segment)
        cursor.data = ctypes.addressof(segment.memory)
        cursor.position = 0
        cursor.capacity = self.segment_size
        cursor.marker = ctypes.pointer(segment.marker)
        cursor.dirty = ctypes.pointer(segment.dirty)

    def append(self, subpartition, cursor, data):
        while data:
            room = cursor.capacity - cursor.position
            if not room:
                self.open_next(subpartition, cursor)
                room = cursor.capacity
            part, data = data[:room], data[room:]
            ctypes.memmove(cursor.data + cursor.position, part, len(part))
            cursor.position += len(part)
            cursor.marker.contents.value = cursor.position

    def fail(self):
        if self.error is None:
            return 0
        self.core.last_error = self.error
        return -1


class FakeGate:
    """Returns the batches that a test queued: (kind, channel, data type, spanning, records)."""

    def __init__(self, core, num_channels, batches=()):
        self.core = core
        self.num_channels = num_channels
        self.batches = deque(batches)
        self.overtaking = deque()
        self.urgent = ctypes.c_uint8(0)
        self.waits = []
        self.held = None
        core.objects[id(self)] = self
        self._handle = capsule(id(self), b"penstock.gate")

    def overtake(self, *batches):
        """Queue events for delivery between two records."""
        self.overtaking.extend(batches)
        self.urgent.value = 1

    def fill_urgent(self, batch):
        held, self.held = self.held, None
        self.batches.appendleft(self.overtaking.popleft())
        result = self.fill(batch)
        # The previous batch stays valid.
        self.held_urgent, self.held = self.held, held
        self.urgent.value = bool(self.overtaking)
        return result

    def fill(self, batch):
        if not self.batches:
            batch.kind = 0
            return 0
        item = self.batches.popleft()
        if isinstance(item, tuple) and isinstance(item[0], str):
            self.core.last_error = item
            return -1
        kind, channel, data_type, spanning, records = item
        self.held = [
            ctypes.create_string_buffer(b, len(b) or 1) for b in (spanning or b"", records)
        ]
        batch.kind, batch.channel, batch.data_type = kind, channel, data_type
        batch.spanning = ctypes.addressof(self.held[0]) if spanning is not None else None
        batch.spanning_len = len(spanning or b"")
        batch.records = ctypes.addressof(self.held[1])
        batch.records_len = len(records)
        return 0


class FakeCore(types.ModuleType):
    """The module, with its table."""

    def __init__(self):
        super().__init__("penstock._core")
        self.objects = {}
        self.last_error = ("NetworkError", "none")
        self.table = Table(
            ABI_VERSION,
            ctypes.sizeof(Table),
            LAST_ERROR(self._last_error),
            NEXT_BUFFER(self._next_buffer),
            NEXT_BUFFER(self._try_next_buffer),
            APPEND(self._append),
            FLUSH(self._flush),
            EVENT(self._event),
            GATE_NEXT(self._gate_next),
            GATE_TRY_NEXT(self._gate_try_next),
            GATE_URGENT(lambda handle: ctypes.addressof(self.objects[handle].urgent)),
            GATE_TRY_NEXT(self._gate_next_urgent),
        )
        self._C_API = capsule(ctypes.addressof(self.table), b"penstock._core._C_API")

    def install(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "penstock._core", self)
        return self

    def _gate_next_urgent(self, handle, batch):
        return self.objects[handle].fill_urgent(batch.contents)

    def _last_error(self, out, capacity):
        kind, message = self.last_error
        code = kind if isinstance(kind, int) else code_of(getattr(errors, kind)())
        text = code.to_bytes(2, "big") + message.encode()
        ctypes.memmove(out, text, min(len(text), capacity))
        return len(text)

    def _next_buffer(self, handle, subpartition, cursor):
        partition = self.objects[handle]
        partition.calls.append(("next", subpartition))
        partition.open_next(subpartition, cursor.contents)
        return partition.fail()

    def _try_next_buffer(self, handle, subpartition, cursor):
        partition = self.objects[handle]
        partition.calls.append(("try_next", subpartition))
        if partition.none_free:
            return 1
        partition.open_next(subpartition, cursor.contents)
        return partition.fail()

    def _append(self, handle, subpartition, cursor, data, size):
        partition = self.objects[handle]
        partition.calls.append(("append", subpartition, size))
        partition.append(subpartition, cursor.contents, ctypes.string_at(data, size))
        return partition.fail()

    def _flush(self, handle, subpartition):
        partition = self.objects[handle]
        partition.calls.append(("flush", subpartition))
        return partition.fail()

    def _event(self, handle, data, size, data_type):
        partition = self.objects[handle]
        event = ctypes.string_at(data, size)
        partition.calls.append(("event", event, data_type))
        partition.open.clear()
        for stream in partition.streams:
            stream.append(event)
        return partition.fail()

    def _gate_next(self, handle, timeout_ms, batch):
        gate = self.objects[handle]
        gate.waits.append(timeout_ms)
        return gate.fill(batch.contents)

    def _gate_try_next(self, handle, batch):
        gate = self.objects[handle]
        return gate.fill(batch.contents)
