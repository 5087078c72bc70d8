/* The registers of a program, for evaluator.h and for readers of its results. */
#ifndef PENSTOCK_REGISTERS_H
#define PENSTOCK_REGISTERS_H

#include <Python.h>
#include <stdint.h>

#include "values/integers.h"

enum {
    PS_MAX_REGISTERS = 96, /* also of instructions and fields: every operand is below it */
    PS_MAX_OPERANDS = 8,   /* of a call */
    PS_MAX_FAILURES = 64,  /* after so many in succession a program is not tried again */
};

/* An integer (`object` is NULL), or an object. */
typedef struct {
    PyObject *object;
    int64_t number;
} PsValue;

typedef struct {
    int32_t operation;
    int32_t number;
    PsValue *target;
    PsValue *left;
    union {
        PsValue *right;
        const int16_t *list;
    };
    /* For PS_GLOBAL: the value found last, and the dict's version then, or 0. */
    PyObject *found;
    union {
        uint64_t version;
        Py_ssize_t place; /* position of a row's field: where its name was found last */
    };
} PsInstruction;

struct PsMade;

/* The state of a function on which the validity of the program depends. */
typedef struct {
    PyObject **place;
    PyObject *expected;
} PsOrigin;

typedef struct {
    int parameters; /* arguments are in the first registers */
    int failures;   /* consecutive evaluations that were given up */
    int busy;
    int origin_count;
    int64_t evaluated;          /* evaluations so far that completed */
    int64_t given_up;           /* and those that were given up, after which a function is called */
    const struct PsMade *fields; /* of the first argument, where that is a tuple not made; else NULL */
    PsOrigin origins[2 * PS_MAX_REGISTERS]; /* code and defaults, of a function for each register */
    PsInstruction instructions[PS_MAX_REGISTERS];
    int16_t lists[PS_MAX_REGISTERS];
    PsValue registers[PS_MAX_REGISTERS];     /* those of constants are set already */
    PyObject *constants[PS_MAX_REGISTERS];   /* as objects, by register; else NULL */
} PsProgram;

/* Objects created by an evaluation: at most one for each register, and one for each boxed value. */
typedef struct PsMade {
    PsProgram *program;
    PyObject *objects[2 * PS_MAX_REGISTERS];
    int count;
    int leaves_fields;           /* whether a tuple that is returned at once needs no object */
    const PsInstruction *fields; /* of such a tuple: `number` registers, of `list` */
} PsMade;

__attribute__((always_inline)) static inline int ps_as_number(const PsValue *value,
                                                              int64_t *number) {
    if (value->object == NULL) {
        *number = value->number;
        return 1;
    }
    return PyLong_CheckExact(value->object) && ps_short_int(value->object, number);
}

/* Return the number of fields of a tuple without an object. */
static inline int ps_field_count(const PsMade *made) { return made->fields->number; }

static inline const PsValue *ps_field(const PsMade *made, Py_ssize_t index) {
    return &made->program->registers[made->fields->list[index]];
}

/* Release the objects of an evaluation, and allow the next one. */
static inline void ps_end(PsMade *made) {
    while (made->count > 0) {
        Py_DECREF(made->objects[--made->count]);
    }
    made->program->busy = 0;
}

#endif
