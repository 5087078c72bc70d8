"""Values of keyed state that functions hold and may change in place.

Twin of ``penstock.taskexecutor.state.lent_values``, which explains the purpose.  The garbage
collector does not see the recorded values: ``clear`` breaks the cycle through the states.
"""

from cpython.object cimport PyObject
from cpython.ref cimport Py_DECREF, Py_INCREF
from cpython.tuple cimport PyTuple_GET_ITEM

from penstock._native.values.held_values cimport STATE, held_by, is_held
from penstock._native.values.value_copies cimport ValueCopier, never_changes

from penstock.taskexecutor.state.lent_values import MOST, PART, VISITED, part_from_oldest

cdef extern from "Python.h":
    Py_ssize_t Py_REFCNT(PyObject *value)

cdef enum:
    VALUE = 4

cdef Py_ssize_t MOST_VISITED = VISITED


cdef inline PyObject *owned(object value) noexcept:
    Py_INCREF(value)
    return <PyObject *>value


cdef class LentValues:
    """The values of one operator's keyed state that functions may change; see the pure twin."""

    def __cinit__(self):
        self.held = {}
        self.limit = FEW

    def __dealloc__(self):
        self.forget()

    cpdef int lend(
        self, object state, object contents, object key, object element, object value
    ) except -1:
        """Record a value that was stored in a state or returned from it; see the pure twin."""
        cdef Lent *last
        if never_changes(value):
            return 0
        if self.count > 0:
            last = &self.lent[self.count - 1]
            if (
                last.value == <PyObject *>value and last.contents == <PyObject *>contents
                and last.key == <PyObject *>key and last.element == <PyObject *>element
            ):
                return 0
            if self.count == FEW:
                self.take_over()
        last = &self.lent[self.count]
        last.state = owned(state)
        last.contents = owned(contents)
        last.key = owned(key)
        last.element = owned(element)
        last.value = owned(value)
        self.count += 1
        return 0

    cpdef int lend_part(self, object state, object contents, object key, object value) except -1:
        """Record a value that an entry may now own; see the pure twin."""
        return self.lend(state, contents, key, PART, value)

    cdef int take_over(self) except -1:
        """Forget those of the last values that certainly no other code can change."""
        cdef Lent *lent
        cdef Py_ssize_t owners, left
        cdef int i, j
        cdef bint is_known
        cdef tuple slot
        try:
            for i in range(self.count):
                lent = &self.lent[i]
                owners = Py_REFCNT(lent.value)
                is_known = False
                for j in range(self.count):
                    if self.lent[j].value == lent.value:
                        owners -= 1
                        # Of identical values, only the first is checked.
                        is_known = is_known or (
                            j < i and self.lent[j].contents == lent.contents
                            and self.lent[j].key == lent.key
                            and self.lent[j].element == lent.element
                        )
                left = MOST_VISITED
                if is_known or held_by(lent.value, owners, &left) == STATE:
                    continue
                slot = (
                    <object>lent.contents,
                    <object>lent.key,
                    id(<object>lent.value) if lent.element == <PyObject *>PART
                    else <object>lent.element,
                )
                self.held[slot] = (
                    <object>lent.state, <object>lent.contents, <object>lent.key,
                    <object>lent.element, <object>lent.value,
                )
        finally:
            self.forget()
        if len(self.held) >= self.limit:
            self.settle()
        return 0

    cdef int forget(self) except -1:
        """Release the last values, which may run code of users."""
        cdef Lent lent
        while self.count > 0:
            self.count -= 1
            lent = self.lent[self.count]
            Py_DECREF(<object>lent.state)
            Py_DECREF(<object>lent.contents)
            Py_DECREF(<object>lent.key)
            Py_DECREF(<object>lent.element)
            Py_DECREF(<object>lent.value)
        return 0

    def settle(self):
        """Forget the values that no other code can change, and the oldest of too many others."""
        cdef Py_ssize_t owned = 0
        cdef tuple holder
        cdef PyObject *value
        self.limit = (<Py_ssize_t>1) << 62  # unlimited until it is known
        self.take_over()
        for slot in list(self.held):
            holder = <tuple>self.held[slot]
            value = <PyObject *>PyTuple_GET_ITEM(holder, VALUE)
            owned += Py_REFCNT(value) > 1
            if not is_held(holder, VALUE):
                del self.held[slot]
        part_from_oldest(self.held, len(self.held) - <Py_ssize_t>MOST, ValueCopier)
        self.limit = FEW + 2 * owned

    def hold(self):
        """Keep the values in memory, whatever is written next."""
        for state, contents, key, *_ in self.held.values():
            state.hold(contents, key)

    def touch(self):
        """Mark the values as changed in the current epoch."""
        for state, contents, key, element, _ in self.held.values():
            state.touch(contents, key, element)

    def clear(self):
        """Forget all values."""
        self.held.clear()
        self.forget()
