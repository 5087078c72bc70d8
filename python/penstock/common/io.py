"""InputFormat: PyFlink's wrapper of Java input formats."""

from typing import NoReturn

from penstock.common.calls.jvm import requires_jvm
from penstock.common.utils import JavaObjectWrapper as JavaObjectWrapper

__all__ = [
    "InputFormat",
]


class InputFormat:
    """A Java input format."""

    def __init__(self, j_input_format: object) -> None:  # noqa: ARG002
        """Reject the call.

        Raises:
            JvmOnlyError: Always.
        """
        requires_jvm("InputFormat", "use FileSource or write a Source in Python")

    def get_java_object(self) -> NoReturn:
        """Reject the call, as the constructor does."""
        requires_jvm("InputFormat.get_java_object", "there is no Java object behind it")
