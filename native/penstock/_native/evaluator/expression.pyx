"""Functions that can be evaluated without the interpreter.

The computation of a function is a ``Program`` of ``penstock.expressions.program``.  If an
evaluation meets a case that it cannot handle, it calls the function itself, so results and errors
are always those of the function.
"""

import datetime
import decimal
from types import WrapperDescriptorType

cimport cython
from cpython.object cimport PyObject, PyTypeObject
from cpython.ref cimport Py_DECREF, Py_INCREF, Py_XDECREF
from libc.stdint cimport INT64_MAX, INT64_MIN, int64_t

from penstock._native.evaluator.integer_run cimport IntegerRun, integer_of
from penstock._native.evaluator.registers cimport (
    PS_MAX_REGISTERS, PsInstruction, PsMade, PsProgram, PsValue, ps_as_number,
)
from penstock._native.values.row cimport RowBase
from penstock._native.values.timestamps cimport timestamp_of

from penstock.common.types import Row
from penstock.expressions import program as programs

cdef extern from "Python.h":
    ctypedef struct PyMethodDef:
        const char *ml_name
        void *ml_meth
        int ml_flags
        const char *ml_doc
    int METH_FASTCALL
    PyObject *PyIter_Next(object iterator) except? NULL
    object PyCFunction_New(PyMethodDef *definition, object self)
    PyObject *PyLong_FromLongLong(long long value) except NULL
    object PyObject_Vectorcall(object function, PyObject **arguments, size_t count, PyObject *names)

cdef extern from "evaluator/evaluator.h":
    enum:
        PS_NOT_HERE
        PS_DONE
        PS_DROPPED
        PS_FIELDS
        PS_MOVE, PS_CELL, PS_GLOBAL, PS_FIELD, PS_ROW_FIELD, PS_NAMED_FIELD
        PS_UNPACK, PS_SUBSCRIPT
        PS_ADD, PS_SUBTRACT, PS_MULTIPLY, PS_FLOOR_DIVIDE, PS_REMAINDER, PS_AND, PS_OR, PS_XOR
        PS_LEFT_SHIFT, PS_RIGHT_SHIFT, PS_TRUE_DIVIDE, PS_POWER
        PS_LESS, PS_LESS_OR_EQUAL, PS_EQUAL, PS_NOT_EQUAL, PS_GREATER, PS_GREATER_OR_EQUAL
        PS_IS, PS_IS_NOT, PS_IN, PS_NOT_IN, PS_NEGATE, PS_INVERT, PS_NOT
        PS_TUPLE, PS_LAST_TUPLE, PS_LIST
        PS_CALL
        PS_JUMP, PS_JUMP_IF_TRUE, PS_JUMP_IF_FALSE, PS_JUMP_IF_NONE, PS_JUMP_IF_NOT_NONE
        PS_DROP_IF_FALSE, PS_RETURN
        PS_MAX_OPERANDS
    PyObject *ps_row_class
    size_t ps_row_values_offset
    size_t ps_row_names_offset
    PyTypeObject *ps_datetime_class
    PyTypeObject *ps_date_class
    PyTypeObject *ps_time_class
    PyTypeObject *ps_timedelta_class
    PyTypeObject *ps_timezone_class
    PyTypeObject *ps_decimal_class
    void ps_rely_on(PsProgram *program, PyObject *function, bint uses_defaults) noexcept
    bint ps_is_given_up(const PsProgram *program) noexcept
    bint ps_is_ready(const PsProgram *program) noexcept
    int ps_evaluate(PsProgram *program, PsValue *result) except -1
    int ps_number_of_fields(PsProgram *program, const PsMade *fields, int64_t *number) except -1
    int ps_begin(PsProgram *program, PsMade *made, PsValue *result, bint leaves_fields) except -1
    object ps_make_tuple(PsMade *made)

# Cython cannot take the address of a field that holds an object, so the offsets come from C; a
# renamed field does not compile.
cdef extern from *:
    """
    typedef struct __pyx_obj_8penstock_7_native_6values_3row_RowBase PsRowBase;
    #define ps_row_offset(field) offsetof(PsRowBase, field)
    #define ps_offset_of_values() ps_row_offset(values)
    #define ps_offset_of_names() ps_row_offset(names)
    """
    size_t ps_offset_of_values() noexcept
    size_t ps_offset_of_names() noexcept

if programs.LIMIT > PS_MAX_REGISTERS:
    raise ImportError(f"programs of {programs.LIMIT} places, room for {PS_MAX_REGISTERS}")
if programs.MAX_OPERANDS > PS_MAX_OPERANDS:
    raise ImportError(f"calls of {programs.MAX_OPERANDS} operands, room for {PS_MAX_OPERANDS}")

cdef dict OPERATIONS = {
    "move": PS_MOVE, "cell": PS_CELL, "global": PS_GLOBAL,
    "field": PS_FIELD, "row field": PS_ROW_FIELD, "named field": PS_NAMED_FIELD,
    "unpack": PS_UNPACK, "subscript": PS_SUBSCRIPT,
    "+": PS_ADD, "-": PS_SUBTRACT, "*": PS_MULTIPLY, "//": PS_FLOOR_DIVIDE, "%": PS_REMAINDER,
    "&": PS_AND, "|": PS_OR, "^": PS_XOR, "<<": PS_LEFT_SHIFT, ">>": PS_RIGHT_SHIFT,
    "/": PS_TRUE_DIVIDE, "**": PS_POWER,
    "<": PS_LESS, "<=": PS_LESS_OR_EQUAL, "==": PS_EQUAL, "!=": PS_NOT_EQUAL,
    ">": PS_GREATER, ">=": PS_GREATER_OR_EQUAL,
    "is": PS_IS, "is not": PS_IS_NOT, "in": PS_IN, "not in": PS_NOT_IN,
    "negate": PS_NEGATE, "invert": PS_INVERT, "not": PS_NOT, "tuple": PS_TUPLE, "list": PS_LIST,
    "call": PS_CALL,
    "jump": PS_JUMP, "jump if true": PS_JUMP_IF_TRUE, "jump if false": PS_JUMP_IF_FALSE,
    "jump if none": PS_JUMP_IF_NONE, "jump if not none": PS_JUMP_IF_NOT_NONE,
    "drop if false": PS_DROP_IF_FALSE, "return": PS_RETURN,
}
if OPERATIONS.keys() != programs.OPERATIONS:
    raise ImportError(f"operations that differ: {OPERATIONS.keys() ^ programs.OPERATIONS}")


# Rows are plain Python objects if the process was started for the pure runtime.
if issubclass(Row, RowBase):
    ps_row_class = <PyObject *>Row  # it lives as long as its module
    ps_row_values_offset = ps_offset_of_values()
    ps_row_names_offset = ps_offset_of_names()

ps_datetime_class = <PyTypeObject *>datetime.datetime
ps_date_class = <PyTypeObject *>datetime.date
ps_time_class = <PyTypeObject *>datetime.time
ps_timedelta_class = <PyTypeObject *>datetime.timedelta
ps_timezone_class = <PyTypeObject *>datetime.timezone
# The Python version, of an interpreter without libmpdec, has its own operators.
if isinstance(decimal.Decimal.__add__, WrapperDescriptorType):
    ps_decimal_class = <PyTypeObject *>decimal.Decimal


@cython.final
cdef class Expression:
    """A function of records, evaluated by its program if possible."""

    def __cinit__(self, function, program, dropped=None, function_of_all=None):
        """Create an expression of a function and its program.

        Args:
            function: The function that the program computes.
            program: A ``Program``.
            dropped: The function's result if the program drops the record.
            function_of_all: Yields the results for many records, without dropped ones; None if
                there is no faster way than a call for each.
        """
        cdef PsProgram *machine = &self.machine
        cdef Py_ssize_t i
        cdef PsValue *place
        self.function = function
        self.program = program
        self.dropped = dropped
        self.function_of_all = function_of_all
        machine.parameters = program.parameters
        for i, (operation, target, left, right, number) in enumerate(program.instructions):
            machine.instructions[i].operation = OPERATIONS[operation]
            machine.instructions[i].number = number
            machine.instructions[i].target = &machine.registers[<Py_ssize_t>target]
            machine.instructions[i].left = &machine.registers[<Py_ssize_t>left]
            if operation in ("tuple", "list", "call"):
                machine.instructions[i].list = &machine.lists[<Py_ssize_t>right]
            else:
                machine.instructions[i].right = &machine.registers[<Py_ssize_t>right]
        note_last_tuples(machine, len(program.instructions))
        self.takes_fields = program.parameters == 2 and program.takes_only_fields
        for i, register in enumerate(program.lists):
            machine.lists[i] = register
        # The program keeps the constants.
        for register, constant in program.constants.items():
            i = register
            place = &machine.registers[i]
            machine.constants[i] = place.object = <PyObject *>constant
            if ps_as_number(place, &place.number):
                place.object = NULL
        for origin, code, defaults in program.origins:
            if origin.__code__ is not code or (
                defaults is not None and origin.__defaults__ is not defaults
            ):
                raise ValueError(f"{origin!r} has changed since its program was made")
            ps_rely_on(machine, <PyObject *>origin, defaults is not None)

    @property
    def evaluated(self):
        """Number of evaluations so far that computed a result."""
        return self.machine.evaluated

    @property
    def given_up(self):
        """Number of evaluations so far that were given up, after which the function was called."""
        return self.machine.given_up

    def callable(self):
        """Return a builtin function of positional arguments with the function's results."""
        return PyCFunction_New(&CALL, self)

    cpdef long long number_of(self, object value, long long number) except? -1:
        """Return the integer that the function returns for a value and a number.

        Raises:
            TypeError: The result is not a number.
            OverflowError: The result exceeds 64 bits.
        """
        cdef PsProgram *program = &self.machine
        cdef PsValue found
        cdef object result
        if program.parameters == 2 and ps_is_ready(program):
            program.registers[0].object = <PyObject *>value
            program.registers[1].object = NULL
            program.registers[1].number = number
            if ps_evaluate(program, &found) == PS_DONE:
                if found.object == NULL:
                    return found.number
                result = <object>found.object
                Py_DECREF(result)
                return timestamp_of(result, self.function)
        result = self.function(value, number)
        return timestamp_of(result, self.function)

    cdef int number_of_fields(self, const PsMade *fields, int64_t *number) except -1:
        """Compute `number_of` of a tuple without its object, replacing the given number.

        Returns:
            Whether the program computed it; else the function must be called with the tuple.
        """
        cdef PsProgram *program = &self.machine
        if not self.takes_fields or not ps_is_ready(program):
            return False
        program.registers[0].object = NULL
        program.registers[1].object = NULL
        program.registers[1].number = number[0]
        return ps_number_of_fields(program, fields, number)

    cdef PsProgram *ready(self) noexcept:
        """Return the machine, whose first registers hold the arguments, or NULL."""
        return &self.machine if ps_is_ready(&self.machine) else NULL

    cdef bint begin(self, PsMade *made) except -1:
        """Evaluate a program that ends with tuples on the arguments in the first registers.

        Returns:
            Whether there is a tuple, left in its fields; else the function must be called.
        """
        cdef PsValue found
        cdef int outcome = ps_begin(&self.machine, made, &found, True)
        if outcome == PS_DONE:
            Py_XDECREF(found.object)
        return outcome == PS_FIELDS

    def over(self, values):
        """Return the function's results for many values, computed on demand, without dropped ones.

        Raises:
            ValueError: The program has several arguments, or none.
        """
        if self.machine.parameters != 1:
            raise ValueError(f"a program of {self.machine.parameters} arguments over single values")
        if self.function_of_all is not None and ps_is_given_up(&self.machine):
            return self.function_of_all(values)
        return ExpressionIterator(self, values)


cdef inline bint are_counted(numbers) except -1:
    """Return whether a range has step 1 and fits into 64 bits."""
    return numbers.step == 1 and numbers.start >= INT64_MIN and numbers.stop <= INT64_MAX


cdef void note_last_tuples(PsProgram *machine, Py_ssize_t count) noexcept:
    """Mark the tuples that are returned at once, for which an object may be unnecessary."""
    cdef PsInstruction *instruction
    cdef Py_ssize_t i
    for i in range(count - 1):
        instruction = &machine.instructions[i]
        if instruction.operation == PS_TUPLE and (instruction + 1).operation == PS_RETURN:
            if (instruction + 1).left == instruction.target:
                instruction.operation = PS_LAST_TUPLE


cdef object _call(object self, PyObject **arguments, Py_ssize_t count):
    cdef Expression expression = <Expression>self
    cdef PsProgram *program = &expression.machine
    cdef PsValue result
    cdef Py_ssize_t i
    cdef int outcome
    if count == program.parameters and ps_is_ready(program):
        for i in range(count):
            program.registers[i].object = arguments[i]
        outcome = ps_evaluate(program, &result)
        if outcome == PS_DONE:
            return boxed(result)
        if outcome == PS_DROPPED:
            return expression.dropped
    return PyObject_Vectorcall(expression.function, arguments, count, NULL)


cdef PyMethodDef CALL
CALL.ml_name = "expression"
CALL.ml_meth = <void *>_call
CALL.ml_flags = METH_FASTCALL
CALL.ml_doc = "Computes what the function would return, or calls it."


@cython.final
cdef class ExpressionIterator:
    """Results of a function for each item of an iterable, without those it drops."""

    def __cinit__(self, Expression expression, values):
        self.expression = expression
        if type(values) is range and are_counted(values):
            values = IntegerRun(values)
        self.values = iter(values)
        self.integers = self.values if type(self.values) is IntegerRun else None

    def __iter__(self):
        return self

    def __next__(self):
        cdef PsProgram *program = &self.expression.machine
        cdef PsValue found
        cdef object made
        cdef int outcome
        if self.integers is not None:
            return self.next_of_integers()
        for value in self.values:
            if ps_is_ready(program):
                program.registers[0].object = <PyObject *>value
                outcome = ps_evaluate(program, &found)
                if outcome == PS_DONE:
                    return boxed(found)
                if outcome == PS_DROPPED:
                    continue
            made = self.called(value)
            if made is not self.expression.dropped:
                return made
        raise StopIteration

    cdef object next_of_integers(self):
        """Return the next item, without an object for a record that is dropped."""
        cdef PsProgram *program = &self.expression.machine
        cdef IntegerRun integers = self.integers
        cdef PsValue found
        cdef object made
        cdef int64_t number
        cdef int outcome
        while integers.position < integers.end:
            number = integer_of(integers)
            if ps_is_ready(program):
                program.registers[0].object = NULL
                program.registers[0].number = number
                outcome = ps_evaluate(program, &found)
                if outcome == PS_DONE:
                    return boxed(found)
                if outcome == PS_DROPPED:
                    continue
            made = self.called(number)
            if made is not self.expression.dropped:
                return made
        raise StopIteration

    cdef Step step(self, PsMade *made, PyObject **result) except FAILED:
        """Return the next record; a tuple at the program's end is left in its fields."""
        cdef PyObject *value
        if self.integers is not None:
            if self.integers.position >= self.integers.end:
                return ENDED
            return self.step_of(NULL, integer_of(self.integers), made, result)
        value = PyIter_Next(self.values)
        if value == NULL:
            return ENDED
        # The fields borrow references from it.
        self.current = <object>value
        Py_DECREF(self.current)
        return self.step_of(value, 0, made, result)

    cdef Step step_of(self, PyObject *value, int64_t number, PsMade *made,
                      PyObject **result) except FAILED:
        """Return `step` of an object, or of a number where there is no object."""
        cdef PsProgram *program = &self.expression.machine
        cdef PsValue found
        cdef object called
        cdef int outcome
        if ps_is_ready(program):
            program.registers[0].object = value
            program.registers[0].number = number
            outcome = ps_begin(program, made, &found, True)
            if outcome == PS_FIELDS:
                return FIELDS
            if outcome == PS_DROPPED:
                return DROPPED
            if outcome == PS_DONE:
                result[0] = found.object
                if found.object == NULL:
                    result[0] = PyLong_FromLongLong(found.number)
                return MADE
        called = self.called(number if value == NULL else <object>value)
        if called is self.expression.dropped:
            return DROPPED
        Py_INCREF(called)
        result[0] = <PyObject *>called
        return MADE

    cdef object made_tuple(self, PsMade *made):
        """Return the tuple that was left in its fields."""
        return ps_make_tuple(made)

    cdef object called(self, object value):
        """Return the result of the function itself, perhaps the mark of a dropped record."""
        try:
            return self.expression.function(value)
        except StopIteration as error:
            # The caller that requests the next record would treat it as the end of all records.
            raise RuntimeError("a function raised StopIteration") from error


cdef inline object boxed(PsValue value):
    """Return the value as an object; it takes the value over."""
    if value.object == NULL:
        value.object = PyLong_FromLongLong(value.number)
    made = <object>value.object
    Py_DECREF(made)
    return made
