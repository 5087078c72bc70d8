"""The running sum of a field, twin of ``penstock.taskexecutor.field_sum``.

The fold of a key is changed in place while the table alone holds it: nobody can tell, and a sum
costs neither a tuple nor a second look into the table.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF

from penstock._native.function_operators cimport KeyedReduceOperator

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(object value)
    bint PyObject_IS_GC(object value)
    PyObject *PyTuple_GET_ITEM(tuple values, Py_ssize_t index)
    # Takes over the reference to the value and forgets the one that was there.
    void PyTuple_SET_ITEM(tuple values, Py_ssize_t index, PyObject *value)

cdef enum:
    # The table's reference and the one of the variable.
    OURS_ALONE = 2


cdef class SumFieldOperator(KeyedReduceOperator):
    """The running sum of one field; the other fields are the first element's.

    Tuples are handled here; ``function`` folds everything else.
    """

    cdef Py_ssize_t position

    def __init__(self, position, function, key_selector, key_position, table):
        """Keeps the field's position; the other arguments are those of the base."""
        KeyedReduceOperator.__init__(self, None, function, key_selector, key_position, table)
        self.position = position

    cpdef process(self, object value, long long timestamp):
        """Takes one element."""
        cdef tuple fields, fold
        cdef object key, total
        cdef PyObject *last
        try:
            if type(value) is not tuple:
                KeyedReduceOperator.process(self, value, timestamp)
                return
            fields = <tuple>value
            if 0 <= self.key_position < len(fields):
                key = <object>PyTuple_GET_ITEM(fields, self.key_position)
            else:
                key = self.key_selector(value)
            fold = self.table.get(key)
            if fold is None:
                self.table[key] = fold = fields
            else:
                if self.position >= len(fold) or self.position >= len(fields):
                    raise IndexError("tuple index out of range")
                total = (
                    <object>PyTuple_GET_ITEM(fold, self.position)
                    + <object>PyTuple_GET_ITEM(fields, self.position)
                )
                # A tuple that the collector does not track must not come to hold what it should.
                if Py_REFCNT(fold) == OURS_ALONE and not PyObject_IS_GC(total):
                    last = PyTuple_GET_ITEM(fold, self.position)
                    Py_INCREF(total)
                    PyTuple_SET_ITEM(fold, self.position, <PyObject *>total)
                    Py_DECREF(<object>last)
                else:
                    fold = (*fold[:self.position], total, *fold[self.position + 1:])
                    self.table[key] = fold
            self.output.collect(fold, timestamp)
        except BaseException as error:
            self.failed_with = error
            raise
