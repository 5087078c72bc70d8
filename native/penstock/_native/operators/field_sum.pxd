# C declarations for python/penstock/taskexecutor/compiled/field_sum.py.

cimport cython

from penstock._native.operators.function_operators cimport KeyedReduceOperator


cdef class SumFieldOperator(KeyedReduceOperator):
    cdef Py_ssize_t position
    cdef bint takes_pairs
    cdef readonly long long sums_in_place

    @cython.locals(pair=tuple, done=bint)
    cpdef process(self, object value, long long timestamp)
    @cython.locals(fields=tuple, fold=tuple, position=Py_ssize_t)
    cpdef object folded(self, object key, object value)
    @cython.locals(fields=tuple)
    cpdef object kept_of(self, object key, object value)
    cpdef object fold_of(self, object key, object kept)


cpdef object added(object one, object other)
