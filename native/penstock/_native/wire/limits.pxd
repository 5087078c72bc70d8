# Limits that both runtimes keep; penstock.serialization.pure.value_bytes has the same.

cdef enum:
    MAX_DEPTH = 200
    MAX_RECORD_BYTES = 0x7FFFFFFF
    MAX_VARINT_BYTES = 5
