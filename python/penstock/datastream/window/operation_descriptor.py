"""WindowOperationDescriptor: everything that defines a window operator."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.common.serializer import TypeSerializer
    from penstock.datastream.output_tag import OutputTag
    from penstock.datastream.state import StateDescriptor
    from penstock.datastream.window.assigners import WindowAssigner
    from penstock.datastream.window.triggers import Trigger


class WindowOperationDescriptor:
    """A window operator as data.

    Attributes:
        assigner: The assigner of records to windows.
        trigger: The trigger, which decides when a window is evaluated.
        allowed_lateness: The time for which a window is kept after its end, in ms.
        late_data_output_tag: The side output of late records; None drops them.
        window_state_descriptor: The state of a window.
        window_serializer: The serializer of windows.
        internal_window_function: The function that is called.
    """

    def __init__(
        self,
        assigner: WindowAssigner[Any, Any],
        trigger: Trigger[Any, Any],
        allowed_lateness: int,
        late_data_output_tag: OutputTag | None,
        window_state_descriptor: StateDescriptor,
        window_serializer: TypeSerializer[Any],
        internal_window_function: Any,
    ) -> None:
        self.assigner = assigner
        self.trigger = trigger
        self.allowed_lateness = allowed_lateness
        self.late_data_output_tag = late_data_output_tag
        self.window_state_descriptor = window_state_descriptor
        self.window_serializer = window_serializer
        self.internal_window_function = internal_window_function

    def generate_op_name(self) -> str:
        """Return the operator's default name."""
        return type(self.assigner).__name__

    def generate_op_desc(self, windowed_stream_type: str, func_desc: str) -> str:
        """Return the operator's default description.

        Args:
            windowed_stream_type: Such as "Window" or "WindowAll".
            func_desc: The function that is called.
        """
        return (
            f"{windowed_stream_type}({self.assigner!r}, {type(self.trigger).__name__}, {func_desc})"
        )
