# Process functions that compute, set timers and emit; see expressions/procedures.py.

cimport cython

from penstock._native.evaluator.expression cimport Expression
from penstock._native.evaluator.registers cimport PS_MAX_REGISTERS, PsMade
from penstock._native.operators.timers cimport InternalTimerService
from penstock._native.state.heap_states cimport KeyContext


# The outcome for a record.
cdef enum Outcome:
    RAISED = -1
    TO_CALL = 0     # nothing was done: call the function
    DONE
    EMITTED         # one record remains to be taken


@cython.final
cdef class Procedure:
    cdef readonly Expression expression
    cdef InternalTimerService timers
    cdef KeyContext state
    cdef bint uses_key
    cdef signed char actions[PS_MAX_REGISTERS]  # by position in the program's lists
    cdef object emitted
    cdef int since_turn     # runs since other threads had their turn

    cpdef int run(self, object value, long long timestamp) except -1
    cpdef object taken(self)
    cdef int give_turn(self) except -1
    cdef bint can_act(self, const PsMade *made, const signed char *actions) noexcept
    cdef Outcome act(self, const PsMade *made, const signed char *actions) except RAISED
