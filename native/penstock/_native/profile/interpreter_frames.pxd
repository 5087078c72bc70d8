from libc.stdint cimport uintptr_t

cdef extern from "profile/interpreter_frames.h":
    ctypedef struct ps_frame_layout:
        Py_ssize_t thread_frame
        Py_ssize_t holder_frame
        Py_ssize_t previous
        Py_ssize_t code
        Py_ssize_t instruction
        Py_ssize_t entry
        Py_ssize_t shim
        int shim_value

    bint ps_layout_of_frames(ps_frame_layout *layout) noexcept
    uintptr_t ps_thread_state(unsigned long ident) noexcept
    const Py_ssize_t PS_CODE_INSTRUCTIONS
