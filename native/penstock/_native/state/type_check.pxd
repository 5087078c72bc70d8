# C declarations for python/penstock/taskexecutor/state/type_check.py, which Cython compiles as
# penstock._native.state.type_check.

cimport cython


cdef class ValueCheck:
    cdef readonly object type_info
    cdef readonly str state_name

    cpdef check(self, object value)


cdef class IntegerCheck(ValueCheck):
    cdef object limit
    cdef long long low
    cdef long long high

    @cython.locals(number=cython.longlong)
    cpdef check(self, object value)


cdef class ClassCheck(ValueCheck):
    cdef tuple classes
    cdef object first


cdef class CodecCheck(ValueCheck):
    cdef object codec
