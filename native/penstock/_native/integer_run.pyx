"""Integers that lie next to each other in memory, as a column has them.

Who knows the class reads the integers themselves; to everybody else it is an iterator over objects,
each made when it is asked for.
"""

cimport cython


@cython.final
cdef class IntegerRun:
    """An iterator over the integers of 64 bits in a buffer."""

    def __cinit__(self, values):
        """Reads a buffer, which is kept and must not change.

        Raises:
            ValueError: It holds something else.
        """
        cdef const int64_t[::1] view = values
        self.buffer = view
        self.position = 0
        self.end = view.shape[0]
        self.values = &view[0] if self.end else NULL

    def __iter__(self):
        return self

    def __next__(self):
        if self.position == self.end:
            raise StopIteration
        self.position += 1
        return self.values[self.position - 1]

    def __length_hint__(self):
        return self.end - self.position

    def take(self, Py_ssize_t limit):
        """An iterator over at most so many of the next integers, which this one leaves out."""
        cdef IntegerRun taken = IntegerRun.__new__(IntegerRun, self.buffer)
        taken.position = self.position
        taken.end = min(self.end, self.position + max(0, limit))
        self.position = taken.end
        return taken
