"""Location of the interpreter's frames of its threads."""

CODE_INSTRUCTIONS = PS_CODE_INSTRUCTIONS


def layout():
    """Return the offsets of fields for ``penstock._core.StackSampler``, or None."""
    cdef ps_frame_layout found
    if not ps_layout_of_frames(&found):
        return None
    return (
        found.thread_frame,
        None if found.holder_frame < 0 else found.holder_frame,
        found.previous,
        found.code,
        found.instruction,
        None if found.entry < 0 else found.entry,
        None if found.shim < 0 else (found.shim, found.shim_value),
    )


def thread_state(unsigned long ident):
    """Return the address of a thread's state, 0 if there is none."""
    return ps_thread_state(ident)
