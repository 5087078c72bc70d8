"""Integers that lie next to each other in memory, as a column has them, or that are counted.

Who knows the class reads the integers themselves; to everybody else it is an iterator over objects,
each made when it is asked for.
"""

cimport cython


@cython.final
cdef class IntegerRun:
    """An iterator over the integers of 64 bits in a buffer."""

    def __cinit__(self, values):
        """Reads a buffer, which is kept and must not change, or counts through a range.

        Raises:
            ValueError: The buffer holds something else, the range has another step than 1.
            OverflowError: The range goes beyond integers of 64 bits.
        """
        cdef const int64_t[::1] view
        if type(values) is range:
            self.count(values)
            return
        view = values
        self.buffer = view
        self.position = 0
        self.end = view.shape[0]
        self.values = &view[0] if self.end else NULL

    def __iter__(self):
        return self

    def __next__(self):
        if self.position == self.end:
            raise StopIteration
        return integer_of(self)

    cdef int count(self, numbers) except -1:
        """Takes the numbers of a range."""
        if numbers.step != 1:
            raise ValueError(f"integers next to each other, not {numbers}")
        self.position = numbers.start
        self.end = max(self.position, <Py_ssize_t>numbers.stop)
        return 0

    def __length_hint__(self):
        return self.end - self.position

    def take(self, Py_ssize_t limit):
        """An iterator over at most so many of the next integers, which this one leaves out."""
        cdef IntegerRun taken = IntegerRun.__new__(IntegerRun, range(0))
        taken.buffer = self.buffer
        taken.values = self.values
        taken.position = self.position
        taken.end = min(self.end, self.position + max(0, limit))
        self.position = taken.end
        return taken
