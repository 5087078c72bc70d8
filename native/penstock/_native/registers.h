/* The registers of a program, for evaluator.h and for those who read what it computed. */
#ifndef PENSTOCK_REGISTERS_H
#define PENSTOCK_REGISTERS_H

#include <Python.h>
#include <stdint.h>

#include "integers.h"

enum {
    PS_MAX_REGISTERS = 96, /* and instructions, and fields: every operand is below it */
    PS_MAX_OPERANDS = 8,   /* of a call */
    PS_MAX_FAILURES = 64,  /* after so many in succession a program is not tried any more */
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
    /* Of PS_GLOBAL: what was found last, and the dict's version then, or 0. */
    PyObject *found;
    union {
        uint64_t version;
        Py_ssize_t place; /* of a field of a row: where its name was found last */
    };
} PsInstruction;

struct PsMade;

/* What a function has to have for the program to be what it computes. */
typedef struct {
    PyObject **place;
    PyObject *expected;
} PsOrigin;

typedef struct {
    int parameters; /* arguments are in the first registers */
    int failures;   /* evaluations one after the other that were given up */
    int busy;
    int origin_count;
    int64_t evaluated;          /* evaluations so far that came to an end by themselves */
    int64_t given_up;           /* and those that were given up, after which a function is called */
    const struct PsMade *fields; /* of the first argument, where that is a tuple not made; else NULL */
    PsOrigin origins[2 * PS_MAX_REGISTERS]; /* code and defaults, of a function for each register */
    PsInstruction instructions[PS_MAX_REGISTERS];
    int16_t lists[PS_MAX_REGISTERS];
    PsValue registers[PS_MAX_REGISTERS];     /* those of constants are set already */
    PyObject *constants[PS_MAX_REGISTERS];   /* as objects, by register; else NULL */
} PsProgram;

/* What an evaluation made: one object for each register at most, and one for each that is boxed. */
typedef struct PsMade {
    PsProgram *program;
    PyObject *objects[2 * PS_MAX_REGISTERS];
    int count;
    int leaves_fields;           /* whether a tuple that is returned at once need not be made */
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

/* Of a tuple that has not been made. */
static inline int ps_field_count(const PsMade *made) { return made->fields->number; }

static inline const PsValue *ps_field(const PsMade *made, Py_ssize_t index) {
    return &made->program->registers[made->fields->list[index]];
}

/* Lets go of what an evaluation made, and lets another one begin. */
static inline void ps_end(PsMade *made) {
    while (made->count > 0) {
        Py_DECREF(made->objects[--made->count]);
    }
    made->program->busy = 0;
}

#endif
