/* A register machine for functions that can be evaluated: it runs the programs of
 * `expressions/program.py`.
 *
 * Every step works only on builtin types, dates, times and decimals, whose operators have no side
 * effects.  If a step cannot be done (another type, a failing operator, an integer of more than 63
 * bits), the evaluation ends without a trace, and the function itself is called. Integers stay C
 * integers until an object is needed.
 *
 * An evaluation writes each register once, since jumps only lead forward.  Registers borrow
 * references: `made` owns the objects that an evaluation creates until it ends.
 */
#ifndef PENSTOCK_EVALUATOR_H
#define PENSTOCK_EVALUATOR_H

#include "evaluator/program.h"

/* Jump to the code of the instruction, directly from the end of the previous one, so that the
 * processor can learn the sequence.  Behind a switch in a loop, GCC chains three jumps. */
#define PS_CARRY_OUT                                                                              \
    do {                                                                                          \
        target = instruction->target;                                                             \
        left = instruction->left;                                                                 \
        right = instruction->right;                                                               \
        goto *places[instruction->operation];                                                     \
    } while (0)

#define PS_NEXT                                                                                   \
    do {                                                                                          \
        instruction++;                                                                            \
        PS_CARRY_OUT;                                                                             \
    } while (0)

#define PS_NEXT_IF_DONE(STEP)                                                                     \
    do {                                                                                          \
        outcome = STEP;                                                                           \
        if (outcome != PS_DONE) {                                                                 \
            return outcome;                                                                       \
        }                                                                                         \
        PS_NEXT;                                                                                  \
    } while (0)

#define PS_ARITHMETIC(OPERATION)                                                                  \
    at_##OPERATION:                                                                               \
    if (ps_as_number(left, &one) && ps_as_number(right, &other) &&                                \
        ps_compute(OPERATION, &one, other)) {                                                     \
        ps_put_number(target, one);                                                               \
        PS_NEXT;                                                                                  \
    }                                                                                             \
    PS_NEXT_IF_DONE(ps_binary(made, OPERATION, target, left, right))

#define PS_COMPARISON(OPERATION, OPERATOR)                                                        \
    at_##OPERATION:                                                                               \
    if (ps_as_number(left, &one) && ps_as_number(right, &other)) {                                \
        ps_put_truth(target, one OPERATOR other);                                                 \
        PS_NEXT;                                                                                  \
    }                                                                                             \
    PS_NEXT_IF_DONE(ps_binary(made, OPERATION, target, left, right))

/* Run the program on the arguments in its first registers; the result is borrowed from them. */
__attribute__((hot)) static int ps_run(PsMade *made, PsValue *result) {
#define PS_PLACE(OPERATION) [OPERATION] = &&at_##OPERATION
    static const void *const places[] = {
        PS_PLACE(PS_MOVE), PS_PLACE(PS_CELL), PS_PLACE(PS_GLOBAL), PS_PLACE(PS_FIELD),
        PS_PLACE(PS_ROW_FIELD), PS_PLACE(PS_NAMED_FIELD), PS_PLACE(PS_UNPACK),
        PS_PLACE(PS_SUBSCRIPT), PS_PLACE(PS_ADD),
        PS_PLACE(PS_SUBTRACT), PS_PLACE(PS_MULTIPLY), PS_PLACE(PS_FLOOR_DIVIDE),
        PS_PLACE(PS_REMAINDER), PS_PLACE(PS_AND), PS_PLACE(PS_OR), PS_PLACE(PS_XOR),
        PS_PLACE(PS_LEFT_SHIFT), PS_PLACE(PS_RIGHT_SHIFT), PS_PLACE(PS_TRUE_DIVIDE),
        PS_PLACE(PS_POWER), PS_PLACE(PS_LESS), PS_PLACE(PS_LESS_OR_EQUAL), PS_PLACE(PS_EQUAL),
        PS_PLACE(PS_NOT_EQUAL), PS_PLACE(PS_GREATER), PS_PLACE(PS_GREATER_OR_EQUAL),
        PS_PLACE(PS_IS), PS_PLACE(PS_IS_NOT), PS_PLACE(PS_IN), PS_PLACE(PS_NOT_IN),
        PS_PLACE(PS_NEGATE), PS_PLACE(PS_INVERT), PS_PLACE(PS_NOT), PS_PLACE(PS_TUPLE),
        PS_PLACE(PS_LAST_TUPLE), PS_PLACE(PS_LIST), PS_PLACE(PS_CALL), PS_PLACE(PS_JUMP),
        PS_PLACE(PS_JUMP_IF_TRUE), PS_PLACE(PS_JUMP_IF_FALSE), PS_PLACE(PS_JUMP_IF_NONE),
        PS_PLACE(PS_JUMP_IF_NOT_NONE), PS_PLACE(PS_DROP_IF_FALSE), PS_PLACE(PS_RETURN),
    };
#undef PS_PLACE
    PsInstruction *const first = made->program->instructions;
    PsInstruction *instruction = first;
    PsValue *target, *left, *right;
    PyObject *object;
    int64_t one, other;
    int outcome, truth = 0;
    PS_CARRY_OUT;

at_PS_MOVE:
    ps_move(target, left);
    PS_NEXT;
at_PS_CELL:
    object = PyCell_GET(left->object);
    if (object == NULL) {
        return PS_NOT_HERE;
    }
    ps_put(made, target, Py_NewRef(object));
    PS_NEXT;
at_PS_GLOBAL:
    PS_NEXT_IF_DONE(ps_global(made, instruction));
at_PS_FIELD:
    object = left->object;
    if (object != NULL && PyTuple_CheckExact(object) &&
        instruction->number < PyTuple_GET_SIZE(object)) {
        target->object = PyTuple_GET_ITEM(object, instruction->number);
        PS_NEXT;
    }
    PS_NEXT_IF_DONE(ps_item(made, target, left, instruction->number));
at_PS_ROW_FIELD:
    PS_NEXT_IF_DONE(ps_row_field(made, instruction, instruction->number));
at_PS_NAMED_FIELD:
    PS_NEXT_IF_DONE(ps_row_field(made, instruction, -1));
at_PS_UNPACK:
    if (!ps_unpacks(left, instruction->number)) {
        return PS_NOT_HERE;
    }
    PS_NEXT;
    PS_ARITHMETIC(PS_ADD);
    PS_ARITHMETIC(PS_SUBTRACT);
    PS_ARITHMETIC(PS_MULTIPLY);
    PS_ARITHMETIC(PS_FLOOR_DIVIDE);
    PS_ARITHMETIC(PS_REMAINDER);
    PS_ARITHMETIC(PS_AND);
    PS_ARITHMETIC(PS_OR);
    PS_ARITHMETIC(PS_XOR);
    PS_ARITHMETIC(PS_RIGHT_SHIFT);
at_PS_LEFT_SHIFT:
at_PS_TRUE_DIVIDE:
at_PS_POWER:
    PS_NEXT_IF_DONE(ps_binary(made, (PsOperation)instruction->operation, target, left, right));
    PS_COMPARISON(PS_LESS, <);
    PS_COMPARISON(PS_LESS_OR_EQUAL, <=);
    PS_COMPARISON(PS_EQUAL, ==);
    PS_COMPARISON(PS_NOT_EQUAL, !=);
    PS_COMPARISON(PS_GREATER, >);
    PS_COMPARISON(PS_GREATER_OR_EQUAL, >=);
at_PS_SUBSCRIPT:
    PS_NEXT_IF_DONE(ps_subscript(made, instruction));
at_PS_IS:
at_PS_IS_NOT:
    PS_NEXT_IF_DONE(ps_is(target, left, right, instruction->operation == PS_IS_NOT));
at_PS_IN:
at_PS_NOT_IN:
    PS_NEXT_IF_DONE(
        ps_contains(made, target, left, right, instruction->operation == PS_NOT_IN));
at_PS_NEGATE:
at_PS_INVERT:
    PS_NEXT_IF_DONE(ps_unary(made, (PsOperation)instruction->operation, target, left));
at_PS_NOT:
    outcome = ps_truth(left, &truth);
    ps_put_truth(target, !truth);
    PS_NEXT_IF_DONE(outcome);
at_PS_LAST_TUPLE:
    if (made->leaves_fields) {
        made->fields = instruction;
        return PS_FIELDS;
    }
    PS_NEXT_IF_DONE(ps_gather(made, PS_TUPLE, target, instruction->list, instruction->number));
at_PS_TUPLE:
at_PS_LIST:
    PS_NEXT_IF_DONE(ps_gather(made, (PsOperation)instruction->operation, target,
                              instruction->list, instruction->number));
at_PS_CALL:
    PS_NEXT_IF_DONE(
        ps_call(made, target, left->object, instruction->list, instruction->number));
at_PS_JUMP:
    instruction = first + instruction->number;
    PS_CARRY_OUT;
at_PS_JUMP_IF_TRUE:
at_PS_JUMP_IF_FALSE:
    outcome = ps_truth(left, &truth);
    if (truth == (instruction->operation == PS_JUMP_IF_TRUE)) {
        instruction = first + instruction->number - 1;
    }
    PS_NEXT_IF_DONE(outcome);
at_PS_JUMP_IF_NONE:
at_PS_JUMP_IF_NOT_NONE:
    if ((left->object == Py_None) == (instruction->operation == PS_JUMP_IF_NONE)) {
        instruction = first + instruction->number - 1;
    }
    PS_NEXT;
at_PS_DROP_IF_FALSE:
    outcome = ps_truth(left, &truth);
    if (outcome == PS_DONE && !truth) {
        return PS_DROPPED;
    }
    PS_NEXT_IF_DONE(outcome);
at_PS_RETURN:
    ps_move(result, left);
    return PS_DONE;
}

/* Return whether the program has failed too often to be tried again. */
static inline int ps_is_given_up(const PsProgram *program) {
    return program->failures >= PS_MAX_FAILURES;
}

/* Return whether arguments may be put into the first registers for an evaluation: not while
 * another one is running, in another thread or around a finalizer that an allocation called, nor
 * after a function's code or defaults have been replaced. */
static inline int ps_is_ready(const PsProgram *program) {
    const PsOrigin *origin = program->origins;
    const PsOrigin *const end = origin + program->origin_count;
    if (program->busy || ps_is_given_up(program)) {
        return 0;
    }
    for (; origin < end; origin++) {
        if (*origin->place != origin->expected) {
            return 0;
        }
    }
    return 1;
}

/* Run the program on the arguments in its first registers.
 *
 * Return PS_DONE and the result, whose object is a new reference; PS_DROPPED; PS_NOT_HERE; or
 * PS_RAISED with an exception.  With `leaves_fields` also PS_FIELDS: then `ps_field` returns the
 * fields of the result, and the caller must call `ps_end` afterwards. */
static inline int ps_begin(PsProgram *program, PsMade *made, PsValue *result, int leaves_fields) {
    int outcome;
    program->busy = 1;
    made->program = program;
    made->count = 0;
    made->leaves_fields = leaves_fields;
    outcome = ps_run(made, result);
    if (outcome == PS_NOT_HERE) {
        program->failures++;
        program->given_up++;
    } else {
        program->failures = 0;
        program->evaluated++;
    }
    if (outcome == PS_FIELDS) {
        return outcome;
    }
    if (outcome == PS_DONE) {
        Py_XINCREF(result->object);
    }
    ps_end(made);
    return outcome;
}

static inline __attribute__((always_inline)) int ps_evaluate(PsProgram *program, PsValue *result) {
    PsMade made;
    return ps_begin(program, &made, result, 0);
}

/* Compute the program's integer for a tuple without an object, whose fields are all it uses of its
 * first argument: return 1; 0 if there is none, without a trace; -1 with an exception. */
static inline int ps_number_of_fields(PsProgram *program, const PsMade *fields, int64_t *number) {
    PsMade made;
    PsValue result;
    int outcome;
    program->fields = fields;
    outcome = ps_begin(program, &made, &result, 0);
    program->fields = NULL;
    if (outcome != PS_DONE) {
        return outcome == PS_RAISED ? -1 : 0;
    }
    outcome = ps_as_number(&result, number);
    Py_XDECREF(result.object);
    return outcome;
}

/* Create the tuple, a new reference; NULL with an exception. */
static inline PyObject *ps_make_tuple(PsMade *made) {
    const PsInstruction *fields = made->fields;
    PsValue gathered;
    if (ps_gather(made, PS_TUPLE, &gathered, fields->list, fields->number) != PS_DONE) {
        return NULL;
    }
    return Py_NewRef(gathered.object);
}

#endif
