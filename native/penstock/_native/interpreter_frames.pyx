"""Location of the interpreter's frames of its threads."""

CODE_INSTRUCTIONS = PS_CODE_INSTRUCTIONS


def layout():
    """The offsets of fields as ``penstock._core.StackSampler`` takes them, or None."""
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
    """The address of the state of a thread, 0 when there is none."""
    return ps_thread_state(ident)
