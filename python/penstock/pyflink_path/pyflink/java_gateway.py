"""PyFlink's way to its JVM: importable, so that a program which never calls it runs."""

from penstock.common.calls.jvm import refused_function

__all__ = ["get_gateway", "launch_gateway"]

_INSTEAD = (
    "use the methods of StreamExecutionEnvironment and DataStream: socket_text_stream, "
    "read_text_file and from_source for sources, get_configuration for options, and sources, sinks "
    "and functions that are written in Python"
)

get_gateway = refused_function("get_gateway", _INSTEAD)
launch_gateway = refused_function("launch_gateway", _INSTEAD)
