/* Programs of the register machine in evaluator.h, and the steps that make objects. */
#ifndef PENSTOCK_PROGRAM_H
#define PENSTOCK_PROGRAM_H

#include <Python.h>
#include <datetime.h>
#include <stdint.h>

#include "evaluator/registers.h"

/* Only the layouts in the header are used. */
static PyDateTime_CAPI *PyDateTimeAPI __attribute__((unused));

typedef enum {
    PS_MOVE,             /* target = left */
    PS_CELL,             /* target = the content of the cell `left` */
    PS_GLOBAL,           /* target = the value of the dict `right` for the name `left` */
    PS_FIELD,            /* target = field `number` of the tuple, list or row `left` */
    PS_ROW_FIELD,        /* target = the field `right`, by its type at `number`, of the row `left` */
    PS_NAMED_FIELD,      /* target = the field `right` of the row `left`, which must have names */
    PS_UNPACK,           /* check that `left` is a tuple or a row of `number` fields */
    PS_SUBSCRIPT,        /* target = left[right] */
    PS_ADD,              /* from here: target = left and right, combined */
    PS_SUBTRACT,
    PS_MULTIPLY,
    PS_FLOOR_DIVIDE,
    PS_REMAINDER,
    PS_AND,
    PS_OR,
    PS_XOR,
    PS_LEFT_SHIFT,
    PS_RIGHT_SHIFT,
    PS_TRUE_DIVIDE,
    PS_POWER,
    PS_LESS,             /* the comparisons in the order of Py_LT to Py_GE */
    PS_LESS_OR_EQUAL,
    PS_EQUAL,
    PS_NOT_EQUAL,
    PS_GREATER,
    PS_GREATER_OR_EQUAL,
    PS_IS,
    PS_IS_NOT,
    PS_IN,
    PS_NOT_IN,
    PS_NEGATE,           /* from here: target = left, changed */
    PS_INVERT,
    PS_NOT,
    PS_TUPLE,            /* target = the `number` registers of `list` */
    PS_LAST_TUPLE,       /* as PS_TUPLE, and the next instruction returns it */
    PS_LIST,
    PS_CALL,             /* target = the function of `left`, given the `number` registers of `list` */
    PS_JUMP,             /* go on at instruction `number` */
    PS_JUMP_IF_TRUE,     /* ... if `left` is true */
    PS_JUMP_IF_FALSE,
    PS_JUMP_IF_NONE,
    PS_JUMP_IF_NOT_NONE,
    PS_DROP_IF_FALSE,    /* there is no result if `left` is false */
    PS_RETURN,           /* `left` is the result */
} PsOperation;

/* The outcome of an evaluation or of one of its steps. */
enum {
    PS_RAISED = -1,
    PS_NOT_HERE = 0,
    PS_DONE = 1,
    PS_DROPPED = 2, /* a filter returned false */
    PS_FIELDS = 3,  /* the result is a tuple without an object */
};

/* Make the program depend on a function's current code and, if used, its defaults. */
static inline void ps_rely_on(PsProgram *program, PyObject *function, int uses_defaults) {
    PyFunctionObject *origin = (PyFunctionObject *)function;
    PsOrigin *next = &program->origins[program->origin_count];
    next->place = &origin->func_code;
    next->expected = origin->func_code;
    if (uses_defaults) {
        next++;
        next->place = &origin->func_defaults;
        next->expected = origin->func_defaults;
    }
    program->origin_count = (int)(next + 1 - program->origins);
}

static inline PsValue ps_of_object(PyObject *object) {
    PsValue value = {object, 0};
    return value;
}

/* Store field by field: a single load of both fields would wait for two stores. */
static inline void ps_put_number(PsValue *target, int64_t number) {
    target->object = NULL;
    target->number = number;
}

static inline void ps_move(PsValue *target, const PsValue *source) {
    PyObject *const object = source->object;
    const int64_t number = source->number;
    target->object = object;
    target->number = number;
}

/* Put a new reference into a register. */
static inline void ps_put(PsMade *made, PsValue *target, PyObject *object) {
    made->objects[made->count++] = object;
    target->object = object;
}

static inline void ps_put_truth(PsValue *target, int truth) {
    target->object = truth ? Py_True : Py_False; /* never released */
}

/* Replace the value in a register by an object. */
static inline int ps_box(PsMade *made, PsValue *value) {
    PyObject *boxed;
    if (value->object != NULL) {
        return 1;
    }
    boxed = made->program->constants[value - made->program->registers];
    if (boxed != NULL) {
        value->object = boxed; /* never released */
        return 1;
    }
    boxed = PyLong_FromLongLong(value->number);
    if (boxed == NULL) {
        return 0;
    }
    ps_put(made, value, boxed);
    return 1;
}

/* The C classes of dates, times and decimals; set once.  Flags that a decimal sets in its context
 * are set again when the function is called. */
static PyTypeObject *ps_datetime_class, *ps_date_class, *ps_time_class, *ps_timedelta_class;
static PyTypeObject *ps_timezone_class, *ps_decimal_class;

/* Return whether the zone has no user-defined class. */
static inline int ps_is_known_zone(PyObject *zone) {
    return zone == Py_None || Py_TYPE(zone) == ps_timezone_class;
}

static inline int ps_is_time_or_decimal(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (type == ps_datetime_class) {
        return ps_is_known_zone(PyDateTime_DATE_GET_TZINFO(object));
    }
    if (type == ps_time_class) {
        return ps_is_known_zone(PyDateTime_TIME_GET_TZINFO(object));
    }
    return type == ps_decimal_class || type == ps_timedelta_class || type == ps_date_class;
}

/* Objects of these types are in no cycle, and their operators run no user code. */
static inline int ps_is_scalar(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    return type == &PyLong_Type || type == &PyUnicode_Type || type == &PyFloat_Type ||
           type == &PyBool_Type || type == &PyBytes_Type || object == Py_None ||
           ps_is_time_or_decimal(object);
}

/* The version of a dict, which every change increments; 0 if the interpreter has none. */
static inline uint64_t ps_version_of(PyObject *dict) {
#if PY_VERSION_HEX < 0x030C0000
    return ((PyDictObject *)dict)->ma_version_tag;
#else
    (void)dict;
    return 0;
#endif
}

/* After a failed operator, the function is called and fails in the same way, with the user's line
 * in its traceback; an exception that is not the operator's, an interrupt, is raised at once. */
static inline int ps_after_error(void) {
    if (PyErr_ExceptionMatches(PyExc_ArithmeticError) || PyErr_ExceptionMatches(PyExc_TypeError) ||
        PyErr_ExceptionMatches(PyExc_ValueError) || PyErr_ExceptionMatches(PyExc_LookupError) ||
        PyErr_ExceptionMatches(PyExc_MemoryError)) {
        PyErr_Clear();
        return PS_NOT_HERE;
    }
    return PS_RAISED;
}

/* left = left <operation> right for integers; 0 if objects must do it. */
static inline int ps_compute(PsOperation operation, int64_t *left, int64_t right) {
    int64_t value = *left;
    switch (operation) {
    case PS_ADD:
        return !__builtin_add_overflow(value, right, left);
    case PS_SUBTRACT:
        return !__builtin_sub_overflow(value, right, left);
    case PS_MULTIPLY:
        return !__builtin_mul_overflow(value, right, left);
    case PS_FLOOR_DIVIDE:
        if (right == 0 || right == -1) {
            return 0;
        }
        *left = value / right - (value % right != 0 && (value < 0) != (right < 0));
        return 1;
    case PS_REMAINDER:
        if (right == 0 || right == -1) {
            return 0;
        }
        value %= right;
        *left = value != 0 && (value < 0) != (right < 0) ? value + right : value;
        return 1;
    case PS_AND:
        *left = value & right;
        return 1;
    case PS_OR:
        *left = value | right;
        return 1;
    case PS_XOR:
        *left = value ^ right;
        return 1;
    case PS_RIGHT_SHIFT:
        if (right < 0) {
            return 0;
        }
        *left = value >> (right < 63 ? right : 63);
        return 1;
    default:
        return 0;
    }
}

static PyObject *ps_operate(PsOperation operation, PyObject *left, PyObject *right) {
    switch (operation) {
    case PS_ADD:
        return PyNumber_Add(left, right);
    case PS_SUBTRACT:
        return PyNumber_Subtract(left, right);
    case PS_MULTIPLY:
        return PyNumber_Multiply(left, right);
    case PS_FLOOR_DIVIDE:
        return PyNumber_FloorDivide(left, right);
    case PS_REMAINDER:
        return PyNumber_Remainder(left, right);
    case PS_AND:
        return PyNumber_And(left, right);
    case PS_OR:
        return PyNumber_Or(left, right);
    case PS_XOR:
        return PyNumber_Xor(left, right);
    case PS_LEFT_SHIFT:
        return PyNumber_Lshift(left, right);
    case PS_RIGHT_SHIFT:
        return PyNumber_Rshift(left, right);
    case PS_TRUE_DIVIDE:
        return PyNumber_TrueDivide(left, right);
    case PS_POWER:
        return PyNumber_Power(left, right, Py_None);
    default:
        return PyObject_RichCompare(left, right, Py_LT + (int)operation - PS_LESS);
    }
}

/* target = the value of the dict `right` for the name `left`; it is looked up again only after the
 * dict has changed. */
static inline int ps_global(PsMade *made, PsInstruction *instruction) {
    PyObject *const dict = instruction->right->object;
    const uint64_t version = ps_version_of(dict);
    PyObject *object = instruction->found;
    if (version == 0 || version != instruction->version) {
        object = PyDict_GetItemWithError(dict, instruction->left->object);
        if (object == NULL) {
            return PyErr_Occurred() ? PS_RAISED : PS_NOT_HERE;
        }
        instruction->found = object;
        instruction->version = version;
    }
    ps_put(made, instruction->target, Py_NewRef(object));
    return PS_DONE;
}

/* target = left <operation> right for operands other than two short integers. */
static int ps_binary(PsMade *made, PsOperation operation, PsValue *target, PsValue *left,
                     PsValue *right) {
    PyObject *result;
    if (!ps_box(made, left) || !ps_box(made, right)) {
        return PS_RAISED;
    }
    if (!ps_is_scalar(left->object) || !ps_is_scalar(right->object)) {
        return PS_NOT_HERE;
    }
    result = ps_operate(operation, left->object, right->object);
    if (result == NULL) {
        return ps_after_error();
    }
    ps_put(made, target, result);
    return PS_DONE;
}

/* The class of rows, and the offsets of their lists of values and of names; set once. */
static PyObject *ps_row_class;
static size_t ps_row_values_offset, ps_row_names_offset;

static inline int ps_is_row(const PyObject *object) {
    return (PyObject *)Py_TYPE(object) == ps_row_class;
}

/* The values of a row, borrowed. */
static inline PyObject *ps_values_of_row(PyObject *row) {
    return *(PyObject **)((char *)row + ps_row_values_offset);
}

/* The names of a row, borrowed; NULL if its fields have none. */
static inline PyObject *ps_names_of_row(PyObject *row) {
    PyObject *names = *(PyObject **)((char *)row + ps_row_names_offset);
    return names == Py_None ? NULL : names;
}

/* Return the position of `name` in the list `names`, or -1.  `*expected` is the position at which
 * the last search found it: rows of one stream share their names, so it is nearly always right. */
static inline Py_ssize_t ps_place_in_row(PyObject *names, PyObject *name, Py_ssize_t *expected) {
    const Py_ssize_t count = PyList_GET_SIZE(names);
    if (*expected < count && PyList_GET_ITEM(names, *expected) == name) {
        return *expected;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyList_GET_ITEM(names, i) == name) {
            return *expected = i;
        }
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *other = PyList_GET_ITEM(names, i);
        if (PyUnicode_CheckExact(other) && PyUnicode_CheckExact(name) &&
            PyUnicode_Compare(other, name) == 0) {
            return *expected = i;
        }
    }
    return -1;
}

/* target = values[index] of a list; PS_NOT_HERE if the index is invalid. */
static inline int ps_put_item(PsMade *made, PsValue *target, PyObject *values, int64_t index) {
    if (index < 0 || index >= PyList_GET_SIZE(values)) {
        return PS_NOT_HERE;
    }
    ps_put(made, target, Py_NewRef(PyList_GET_ITEM(values, index)));
    return PS_DONE;
}

/* target = field `number` of a tuple without an object, if the first register stands for one. */
static int ps_unmade_field(PsMade *made, PsValue *target, const PsValue *left, int32_t number) {
    const PsMade *fields = made->program->fields;
    if (fields == NULL || left != made->program->registers || number >= ps_field_count(fields)) {
        return PS_NOT_HERE;
    }
    ps_move(target, ps_field(fields, number));
    return PS_DONE;
}

/* target = left[number] for anything but an existing tuple. */
static int ps_item(PsMade *made, PsValue *target, const PsValue *left, int32_t number) {
    PyObject *container = left->object;
    if (container == NULL) {
        return ps_unmade_field(made, target, left, number);
    }
    if (ps_is_row(container)) {
        container = ps_values_of_row(container);
    } else if (!PyList_CheckExact(container)) {
        return PS_NOT_HERE;
    }
    return ps_put_item(made, target, container, number);
}

/* target = the field `right` of the row `left`; for a row without names the field `number`, or
 * PS_NOT_HERE if that is negative. */
static inline int ps_row_field(PsMade *made, PsInstruction *instruction, int64_t number) {
    PyObject *row = instruction->left->object, *names;
    if (row == NULL || !ps_is_row(row)) {
        return PS_NOT_HERE;
    }
    names = ps_names_of_row(row);
    if (names != NULL) {
        number = ps_place_in_row(names, instruction->right->object, &instruction->place);
    }
    return ps_put_item(made, instruction->target, ps_values_of_row(row), number);
}

/* Return whether `left` is a tuple or a row of `number` fields. */
static inline int ps_unpacks(const PsValue *left, Py_ssize_t number) {
    PyObject *object = left->object;
    if (object == NULL) {
        return 0;
    }
    if (PyTuple_CheckExact(object)) {
        return PyTuple_GET_SIZE(object) == number;
    }
    return ps_is_row(object) && PyList_GET_SIZE(ps_values_of_row(object)) == number;
}

/* target = left[right]. */
static int ps_subscript(PsMade *made, PsInstruction *instruction) {
    PsValue *target = instruction->target, *left = instruction->left, *right = instruction->right;
    PyObject *container = left->object, *found;
    int64_t index;
    if (container == NULL) {
        return PS_NOT_HERE;
    }
    if (ps_is_row(container)) {
        if (right->object != NULL && PyUnicode_CheckExact(right->object)) {
            return ps_row_field(made, instruction, -1);
        }
        container = ps_values_of_row(container);
    }
    if (PyDict_CheckExact(container)) {
        if (!ps_box(made, right)) {
            return PS_RAISED;
        }
        if (!PyUnicode_CheckExact(right->object) && !PyLong_CheckExact(right->object)) {
            return PS_NOT_HERE;
        }
        found = PyDict_GetItemWithError(container, right->object);
        if (found == NULL) {
            return PyErr_Occurred() ? ps_after_error() : PS_NOT_HERE;
        }
    } else {
        if (!ps_as_number(right, &index)) {
            return PS_NOT_HERE;
        }
        if (PyTuple_CheckExact(container)) {
            index += index < 0 ? PyTuple_GET_SIZE(container) : 0;
            if (index < 0 || index >= PyTuple_GET_SIZE(container)) {
                return PS_NOT_HERE;
            }
            found = PyTuple_GET_ITEM(container, index);
        } else if (PyList_CheckExact(container)) {
            index += index < 0 ? PyList_GET_SIZE(container) : 0;
            if (index < 0 || index >= PyList_GET_SIZE(container)) {
                return PS_NOT_HERE;
            }
            found = PyList_GET_ITEM(container, index);
        } else {
            return PS_NOT_HERE;
        }
    }
    ps_put(made, target, Py_NewRef(found));
    return PS_DONE;
}

/* target = function(operands...), where `called` holds the function and the allowed classes of the
 * first operand; the other operands are scalars, or constants of the program. */
static int ps_call(PsMade *made, PsValue *target, PyObject *called, const int16_t *list,
                   Py_ssize_t count) {
    PsProgram *program = made->program;
    PyObject *const classes = PyTuple_GET_ITEM(called, 1);
    PyObject *operands[PS_MAX_OPERANDS], *result;
    int fits = PyTuple_GET_SIZE(classes) == 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        PsValue *value = &program->registers[list[i]];
        if (!ps_box(made, value)) {
            return PS_RAISED;
        }
        operands[i] = value->object;
        if ((i > 0 || fits) && !ps_is_scalar(operands[i]) && program->constants[list[i]] == NULL) {
            return PS_NOT_HERE;
        }
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(classes) && !fits; i++) {
        fits = (PyObject *)Py_TYPE(operands[0]) == PyTuple_GET_ITEM(classes, i);
    }
    if (!fits) {
        return PS_NOT_HERE;
    }
    result = PyObject_Vectorcall(PyTuple_GET_ITEM(called, 0), operands, (size_t)count, NULL);
    if (result == NULL) {
        return ps_after_error();
    }
    ps_put(made, target, result);
    return PS_DONE;
}

/* target = left in right. */
static int ps_contains(PsMade *made, PsValue *target, PsValue *left, PsValue *right, int negated) {
    PyObject *container = right->object;
    int truth;
    if (!ps_box(made, left)) {
        return PS_RAISED;
    }
    if (container == NULL || !ps_is_scalar(left->object)) {
        return PS_NOT_HERE;
    }
    if (PyTuple_CheckExact(container)) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(container); i++) {
            if (!ps_is_scalar(PyTuple_GET_ITEM(container, i))) {
                return PS_NOT_HERE;
            }
        }
    } else if (!PyUnicode_CheckExact(container)) {
        return PS_NOT_HERE;
    }
    truth = PySequence_Contains(container, left->object);
    if (truth < 0) {
        return ps_after_error();
    }
    ps_put_truth(target, truth != negated);
    return PS_DONE;
}

/* target = left is right.  Two integers may or may not be identical: the function decides. */
static int ps_is(PsValue *target, const PsValue *left, const PsValue *right, int negated) {
    if ((left->object == NULL || PyLong_CheckExact(left->object)) &&
        (right->object == NULL || PyLong_CheckExact(right->object))) {
        return PS_NOT_HERE;
    }
    ps_put_truth(target, (left->object == right->object) != negated);
    return PS_DONE;
}

static inline int ps_truth(const PsValue *value, int *truth) {
    PyObject *object = value->object;
    if (object == NULL) {
        *truth = value->number != 0;
    } else if (object == Py_True) {
        *truth = 1;
    } else if (object == Py_False || object == Py_None) {
        *truth = 0;
    } else if (ps_is_scalar(object) || PyTuple_CheckExact(object) || PyList_CheckExact(object) ||
               PyDict_CheckExact(object)) {
        *truth = PyObject_IsTrue(object);
    } else {
        return PS_NOT_HERE;
    }
    return PS_DONE;
}

static int ps_unary(PsMade *made, PsOperation operation, PsValue *target, PsValue *value) {
    int64_t number;
    PyObject *result;
    if (ps_as_number(value, &number) && number != INT64_MIN) {
        ps_put_number(target, operation == PS_NEGATE ? -number : ~number);
        return PS_DONE;
    }
    if (!ps_box(made, value)) {
        return PS_RAISED;
    }
    if (!ps_is_scalar(value->object) || (operation == PS_INVERT && PyBool_Check(value->object))) {
        return PS_NOT_HERE; /* ~True warns, and the warning names the caller's line */
    }
    result =
        operation == PS_NEGATE ? PyNumber_Negative(value->object) : PyNumber_Invert(value->object);
    if (result == NULL) {
        return ps_after_error();
    }
    ps_put(made, target, result);
    return PS_DONE;
}

/* target = a tuple or list of the registers. */
static int ps_gather(PsMade *made, PsOperation operation, PsValue *target,
                     const int16_t *list, Py_ssize_t count) {
    const PsProgram *program = made->program;
    PyObject *gathered = operation == PS_TUPLE ? PyTuple_New(count) : PyList_New(count);
    int scalars = 1;
    if (gathered == NULL) {
        return PS_RAISED;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        const PsValue *value = &program->registers[list[i]];
        PyObject *item = value->object != NULL ? value->object : program->constants[list[i]];
        if (item != NULL) {
            Py_INCREF(item);
            scalars &= ps_is_scalar(item);
        } else {
            item = PyLong_FromLongLong(value->number);
            if (item == NULL) {
                Py_DECREF(gathered);
                return PS_RAISED;
            }
        }
        if (operation == PS_TUPLE) {
            PyTuple_SET_ITEM(gathered, i, item);
        } else {
            PyList_SET_ITEM(gathered, i, item);
        }
    }
    if (scalars && operation == PS_TUPLE && count > 0) {
        /* It can be in no cycle; the collector would only find that later, at a higher cost. */
        PyObject_GC_UnTrack(gathered);
    }
    ps_put(made, target, gathered);
    return PS_DONE;
}

#endif
