/* Where this version of CPython stores its frames, for samplers outside of the interpreter. */
#ifndef PENSTOCK_INTERPRETER_FRAMES_H
#define PENSTOCK_INTERPRETER_FRAMES_H

#include <Python.h>
#include <stddef.h>
#include <stdint.h>

#ifndef Py_BUILD_CORE
#define Py_BUILD_CORE 1
#define PS_UNDEFINE_BUILD_CORE
#endif
#if PY_VERSION_HEX < 0x030E0000
#include <internal/pycore_frame.h>
#endif
#ifdef PS_UNDEFINE_BUILD_CORE
#undef Py_BUILD_CORE
#endif

/* Offsets in bytes; -1 stands for a missing field. */
typedef struct {
    Py_ssize_t thread_frame;
    Py_ssize_t holder_frame;
    Py_ssize_t previous;
    Py_ssize_t code;
    Py_ssize_t instruction;
    Py_ssize_t entry;
    Py_ssize_t shim;
    int shim_value;
} ps_frame_layout;

/* Fill in the layout; return false for an unknown version. */
static inline int ps_layout_of_frames(ps_frame_layout *layout) {
#if PY_VERSION_HEX < 0x030C0000
    *layout = (ps_frame_layout){
        .thread_frame = offsetof(PyThreadState, cframe),
        .holder_frame = offsetof(_PyCFrame, current_frame),
        .previous = offsetof(_PyInterpreterFrame, previous),
        .code = offsetof(_PyInterpreterFrame, f_code),
        .instruction = offsetof(_PyInterpreterFrame, prev_instr),
        .entry = offsetof(_PyInterpreterFrame, is_entry),
        .shim = -1,
    };
    return 1;
#elif PY_VERSION_HEX < 0x030D0000
    *layout = (ps_frame_layout){
        .thread_frame = offsetof(PyThreadState, cframe),
        .holder_frame = offsetof(_PyCFrame, current_frame),
        .previous = offsetof(_PyInterpreterFrame, previous),
        .code = offsetof(_PyInterpreterFrame, f_code),
        .instruction = offsetof(_PyInterpreterFrame, prev_instr),
        .entry = -1,
        .shim = offsetof(_PyInterpreterFrame, owner),
        .shim_value = FRAME_OWNED_BY_CSTACK,
    };
    return 1;
#elif PY_VERSION_HEX < 0x030E0000
    *layout = (ps_frame_layout){
        .thread_frame = offsetof(PyThreadState, current_frame),
        .holder_frame = -1,
        .previous = offsetof(_PyInterpreterFrame, previous),
        .code = offsetof(_PyInterpreterFrame, f_executable),
        .instruction = offsetof(_PyInterpreterFrame, instr_ptr),
        .entry = -1,
        .shim = offsetof(_PyInterpreterFrame, owner),
        .shim_value = FRAME_OWNED_BY_CSTACK,
    };
    return 1;
#else
    (void)layout;
    return 0;
#endif
}

/* Offset of the instructions in a code object. */
#define PS_CODE_INSTRUCTIONS offsetof(PyCodeObject, co_code_adaptive)

/* Return the state of a thread by its ident, 0 if there is none; needs the GIL. */
static inline uintptr_t ps_thread_state(unsigned long ident) {
    PyThreadState *state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    while (state != NULL && state->thread_id != ident) state = PyThreadState_Next(state);
    return (uintptr_t)state;
}

#endif
