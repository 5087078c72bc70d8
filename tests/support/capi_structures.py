"""The structures of ``capi.h``, declared with ctypes."""

import ctypes


class Cursor(ctypes.Structure):
    """PsCursor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("position", ctypes.c_uint32),
        ("capacity", ctypes.c_uint32),
        ("marker", ctypes.POINTER(ctypes.c_int32)),
        ("dirty", ctypes.POINTER(ctypes.c_uint8)),
    ]


class Batch(ctypes.Structure):
    """PsBatch."""

    _fields_ = [
        ("kind", ctypes.c_int32),
        ("channel", ctypes.c_int32),
        ("data_type", ctypes.c_int32),
        ("spanning", ctypes.c_void_p),
        ("spanning_len", ctypes.c_size_t),
        ("records", ctypes.c_void_p),
        ("records_len", ctypes.c_size_t),
    ]


INDEX, HANDLE, SIZE, BYTES = ctypes.c_int32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p
CURSOR, BATCH = ctypes.POINTER(Cursor), ctypes.POINTER(Batch)
LAST_ERROR = ctypes.CFUNCTYPE(SIZE, ctypes.c_void_p, SIZE)
NEXT_BUFFER = ctypes.CFUNCTYPE(INDEX, HANDLE, INDEX, CURSOR)
APPEND = ctypes.CFUNCTYPE(INDEX, HANDLE, INDEX, CURSOR, BYTES, SIZE)
FLUSH = ctypes.CFUNCTYPE(INDEX, HANDLE, INDEX)
EVENT = ctypes.CFUNCTYPE(INDEX, HANDLE, BYTES, SIZE, INDEX)
GATE_NEXT = ctypes.CFUNCTYPE(INDEX, HANDLE, ctypes.c_int64, BATCH)
GATE_URGENT = ctypes.CFUNCTYPE(BYTES, HANDLE)
GATE_TRY_NEXT = ctypes.CFUNCTYPE(INDEX, HANDLE, BATCH)


#: PS_CAPI_ABI_VERSION of capi.h.
ABI_VERSION = 2


class Table(ctypes.Structure):
    """CApi."""

    _fields_ = [
        ("abi_version", ctypes.c_uint32),
        ("struct_size", ctypes.c_uint32),
        ("last_error", LAST_ERROR),
        ("partition_next_buffer", NEXT_BUFFER),
        ("partition_try_next_buffer", NEXT_BUFFER),
        ("partition_append", APPEND),
        ("partition_flush", FLUSH),
        ("partition_event", EVENT),
        ("gate_next", GATE_NEXT),
        ("gate_try_next", GATE_TRY_NEXT),
        ("gate_urgent", GATE_URGENT),
        ("gate_next_urgent", GATE_TRY_NEXT),
    ]
