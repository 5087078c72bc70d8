cdef extern from "records/gil_turn.h" nogil:
    void ps_begin_gil_turn() noexcept
    void ps_end_gil_turn() noexcept
