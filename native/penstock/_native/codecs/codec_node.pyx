"""The base of the native codec nodes."""

cdef dict EXACT_CLASSES = {
    "STRING": str,
    "BOOLEAN": bool,
    "BYTE": int,
    "SHORT": int,
    "INT": int,
    "LONG": int,
    "BIG_INT": int,
    "DOUBLE": float,
    "BYTES": bytes,
}


cdef class CodecNode:
    """Writes and reads values of one declared type."""

    def __cinit__(self, schema, *args):
        self.schema = schema
        self.name = schema.name
        self.exact = EXACT_CLASSES.get(schema.kind)

    cdef int encode_into(self, Writer *writer, object value) except -1:
        raise NotImplementedError(f"{type(self).__name__}.encode_into")

    cdef object decode_from(self, Reader *reader):
        raise NotImplementedError(f"{type(self).__name__}.decode_from")

    cdef bint keeps(self, object value) except -1:
        return type(value) is self.exact
