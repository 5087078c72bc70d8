"""Contiguous integers in memory, as in a column, or the integers of a range.

Code that knows the class reads the integers directly; for all other code it is an iterator over
objects, created on demand.
"""

cimport cython


@cython.final
cdef class IntegerRun:
    """An iterator over the 64-bit integers in a buffer."""

    def __cinit__(self, values):
        """Create a run of a buffer, which is kept and must not change, or of a range.

        Raises:
            ValueError: The buffer holds other values, or the range has a step other than 1.
            OverflowError: The range exceeds 64-bit integers.
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
        """Set the numbers of a range."""
        if numbers.step != 1:
            raise ValueError(f"integers next to each other, not {numbers}")
        self.position = numbers.start
        self.end = max(self.position, <Py_ssize_t>numbers.stop)
        return 0

    def __length_hint__(self):
        return self.end - self.position

    def take(self, Py_ssize_t limit):
        """Return an iterator over at most so many of the next integers, which this one skips."""
        cdef IntegerRun taken = IntegerRun.__new__(IntegerRun, range(0))
        taken.buffer = self.buffer
        taken.values = self.values
        taken.position = self.position
        taken.end = min(self.end, self.position + max(0, limit))
        self.position = taken.end
        return taken
