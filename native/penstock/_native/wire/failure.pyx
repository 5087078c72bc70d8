"""The exceptions of the native codecs."""

from penstock.errors import CorruptStreamError, SerializationError

from penstock._native.wire.limits cimport MAX_DEPTH, MAX_RECORD_BYTES


cdef int fail_corrupt(str message) except -1:
    raise CorruptStreamError(message)


cdef int fail_truncated(size_t needed, size_t left) except -1:
    raise CorruptStreamError(f"a value needs {needed} bytes, {left} are left")


cdef int fail_misfit(str type_name) except -1:
    # The codec replaces this message by one that names the value and the field.
    raise SerializationError(f"a value is no {type_name}")


cdef int fail_too_large() except -1:
    raise SerializationError(f"a record of more than {MAX_RECORD_BYTES} bytes")


cdef int fail_too_deep_value() except -1:
    raise SerializationError(f"a value nests deeper than {MAX_DEPTH}; is it recursive?")


cdef int fail_too_deep_bytes() except -1:
    raise CorruptStreamError(f"a value nests deeper than {MAX_DEPTH}")


cdef int fail_memory() except -1:
    raise MemoryError
