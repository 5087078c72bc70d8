"""Records that a program computes, timestamped and written without creating Python objects.

Between the function that creates a tuple and the exchange, an operator may extract the timestamp
from one of its fields: both read the registers of the machine.
"""

cimport cython
from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF
from libc.stdint cimport INT64_MIN, int64_t

from penstock._native.evaluator.expression cimport DROPPED, ENDED, FIELDS, Step
from penstock._native.evaluator.registers cimport PsMade, ps_end


@cython.final
cdef class StampedRecords:
    """Writes as many records of an iterator as possible, and yields the others.

    Attributes:
        count: Number of records written since `rest_of`.
        latest: The latest timestamp among them.
    """

    def __cinit__(self, RecordWriter writer not None, Expression stamps not None):
        """Create a writer with an expression of timestamps, `stamps(element, timestamp)`."""
        self.writer = writer
        self.stamps = stamps

    def rest_of(self, values, long long timestamp):
        """Return an iterator over the records that cannot be written directly, in order.

        Args:
            values: The records, each requested after the one before has been written.
            timestamp: Their timestamp so far, in ms.
        """
        self.count = 0
        self.latest = INT64_MIN
        if type(values) is not ExpressionIterator:
            return values
        self.values = values
        self.timestamp = timestamp
        return self

    def __iter__(self):
        return self

    def __next__(self):
        cdef PsMade made
        cdef PyObject *result
        cdef Step step
        cdef int64_t timestamp
        cdef object value
        while True:
            step = self.values.step(&made, &result)
            if step == ENDED:
                self.values = None
                raise StopIteration
            if step == DROPPED:
                continue
            if step != FIELDS:
                value = <object>result
                Py_DECREF(value)
                return value
            try:
                timestamp = self.timestamp
                if not self.stamps.number_of_fields(&made, &timestamp):
                    return self.values.made_tuple(&made)
                if not self.writer.write_computed(&made, timestamp):
                    return self.values.made_tuple(&made)
            finally:
                ps_end(&made)
            self.count += 1
            if timestamp > self.latest:
                self.latest = timestamp


def stamped_records(output, stamps):
    """Return a writer of records whose timestamps an expression computes.

    Returns:
        None if no record can be written there without an object.
    """
    if type(output) is not RecordWriter or (<RecordWriter>output).computed is None:
        return None
    if not (<Expression?>stamps).takes_fields:
        return None
    return StampedRecords(output, stamps)
