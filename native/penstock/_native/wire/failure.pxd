# Raising, kept out of the inline functions: each returns -1 with the exception set.

cdef int fail_corrupt(str message) except -1
cdef int fail_truncated(size_t needed, size_t left) except -1
cdef int fail_misfit(str type_name) except -1
cdef int fail_too_large() except -1
cdef int fail_too_deep_value() except -1
cdef int fail_too_deep_bytes() except -1
cdef int fail_memory() except -1
