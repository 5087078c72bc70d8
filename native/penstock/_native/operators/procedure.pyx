"""Process functions that compute, set timers and emit, run without the interpreter.

The program computes all values first; only then are timers set and records emitted.
"""

cimport cython
from cpython.object cimport PyObject
from libc.stdint cimport int64_t

from penstock._native.evaluator.registers cimport (
    PsProgram, PsValue, ps_as_number, ps_end, ps_field, ps_field_count,
)

from penstock.expressions import procedures

cdef enum:
    VALUE = 0
    KEY = 1
    TIMESTAMP = 2
    WATERMARK = 3

if (procedures.VALUE, procedures.KEY, procedures.TIMESTAMP, procedures.WATERMARK) != (
    VALUE, KEY, TIMESTAMP, WATERMARK
):
    raise ImportError("procedures are given their arguments in another order")

cdef enum:
    EMIT = 0
    REGISTER_EVENT_TIME = 1
    REGISTER_PROCESSING_TIME = 2
    DELETE_EVENT_TIME = 3
    DELETE_PROCESSING_TIME = 4

if procedures.ACTIONS != (
    "emit",
    "register_event_time_timer",
    "register_processing_time_timer",
    "delete_event_time_timer",
    "delete_processing_time_timer",
):
    raise ImportError(f"actions that differ: {procedures.ACTIONS}")

# After this many runs other threads get their turn: timers that fire in a row, and register the
# next ones, run nothing else that would release the GIL or check for signals.
cdef enum:
    RUNS_OF_A_TURN = 1024


@cython.final
cdef class Procedure:
    """A process function of keyed records or of their timers."""

    def __cinit__(self, function, procedure, InternalTimerService timers not None,
                  KeyContext state not None):
        """Create a procedure for a function.

        Args:
            function: The function that the procedure replaces.
            procedure: A ``Procedure`` of ``penstock.expressions.procedures``.
            timers: The timers that it sets.
            state: Provides the current key.
        """
        cdef Py_ssize_t i
        self.expression = Expression(function, procedure.program)
        self.timers = timers
        self.state = state
        self.uses_key = procedure.uses_key
        for i, action in enumerate(procedure.actions):
            self.actions[i] = action

    cpdef int run(self, object value, long long timestamp) except -1:
        """Process a record of the current key, or a timer's time, as the function does.

        Args:
            value: The record, or the time as an object.
            timestamp: Timestamp of the record or timer, in ms.

        Returns:
            0 if nothing was done and the function must be called, 1 if all is done, 2 if one record
            is left for `taken`.
        """
        cdef PsProgram *program
        cdef PsMade made
        cdef object key = None
        cdef Outcome outcome = TO_CALL
        cdef const signed char *actions
        self.since_turn += 1
        if self.since_turn >= RUNS_OF_A_TURN:
            self.give_turn()
        program = self.expression.ready()
        if program == NULL:
            return TO_CALL
        if self.uses_key:
            key = self.state.current_key
            if type(key) is not int and type(key) is not str:
                key = self.state.visible_key()
                # That may have run code of the key's class.
                if self.expression.ready() == NULL:
                    return TO_CALL
        program.registers[VALUE].object = <PyObject *>value
        program.registers[KEY].object = <PyObject *>key
        program.registers[TIMESTAMP].object = NULL
        program.registers[TIMESTAMP].number = timestamp
        program.registers[WATERMARK].object = NULL
        program.registers[WATERMARK].number = self.timers.current_watermark
        if not self.expression.begin(&made):
            return TO_CALL
        try:
            actions = &self.actions[made.fields.list - &program.lists[0]]
            if self.can_act(&made, actions):
                outcome = self.act(&made, actions)
        finally:
            ps_end(&made)
        return outcome

    cpdef object taken(self):
        """Return the record emitted last, and forget it."""
        cdef object emitted = self.emitted
        self.emitted = None
        return emitted

    cdef int give_turn(self) except -1:
        self.since_turn = 0
        procedures.give_turn()
        return 0

    cdef bint can_act(self, const PsMade *made, const signed char *actions) noexcept:
        """Return whether all times of timers are 64-bit integers."""
        cdef int64_t number
        cdef Py_ssize_t i
        for i in range(ps_field_count(made)):
            if actions[i] != EMIT and not ps_as_number(ps_field(made, i), &number):
                return False
        return True

    cdef Outcome act(self, const PsMade *made, const signed char *actions) except RAISED:
        """Set the timers, and create the object to emit."""
        cdef const PsValue *field
        cdef int64_t number = 0
        cdef Py_ssize_t i
        cdef Outcome outcome = DONE
        for i in range(ps_field_count(made)):
            field = ps_field(made, i)
            if actions[i] == EMIT:
                self.emitted = field.number if field.object == NULL else <object>field.object
                outcome = EMITTED
                continue
            ps_as_number(field, &number)
            if actions[i] == REGISTER_EVENT_TIME:
                self.timers.register_event_time_timer(None, number)
            elif actions[i] == REGISTER_PROCESSING_TIME:
                self.timers.register_processing_time_timer(None, number)
            elif actions[i] == DELETE_EVENT_TIME:
                self.timers.delete_event_time_timer(None, number)
            else:
                self.timers.delete_processing_time_timer(None, number)
        return outcome
