"""Programs whose functions mutate shared objects: see `test_isolation`."""

from support.changing_programs import handing_on, keeping_state, windows_and_joins
from support.changing_programs.registry import ANY, PROGRAMS, REUSE

__all__ = [
    "ANY",
    "PROGRAMS",
    "REUSE",
    "SAME_WITH_REUSE",
    "handing_on",
    "keeping_state",
    "windows_and_joins",
]

#: The results of these programs do not depend on object reuse.
SAME_WITH_REUSE = {
    "tumbling_windows", "session_windows", "sliding_windows_gathered", "evicting_windows_gathered",
}  # fmt: skip
