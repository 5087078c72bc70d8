# C declarations for python/penstock/taskexecutor/field_sum.py.

cimport cython

from penstock._native.function_operators cimport KeyedReduceOperator


cdef class SumFieldOperator(KeyedReduceOperator):
    cdef Py_ssize_t position

    @cython.locals(fields=tuple, fold=tuple, position=Py_ssize_t)
    cpdef process(self, object value, long long timestamp)
