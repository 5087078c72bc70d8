# Containers that the garbage collector need not traverse; see the pure twin.

cpdef int untrack(object container) except -1
