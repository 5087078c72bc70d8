"""PyFlink's conversions to Java: importable, so that a program which never calls them runs."""

from penstock.common.calls.jvm import refused_function

_VALUES = "pass the Python value itself"
_CLASSES = "there are no Java classes: write it in Python"
_OPTIONS = "use get_configuration() or configure(…) of the environment, which take effect"
_JARS = "what penstock connects to is built in: leave the call out"

add_jars_to_context_class_loader = refused_function("add_jars_to_context_class_loader", _JARS)
create_url_class_loader = refused_function("create_url_class_loader", _JARS)
from_j_duration = refused_function("from_j_duration", _VALUES)
get_field = refused_function("get_field", _CLASSES)
get_field_value = refused_function("get_field_value", _CLASSES)
get_j_env_configuration = refused_function("get_j_env_configuration", _OPTIONS)
invoke_method = refused_function("invoke_method", _CLASSES)
is_instance_of = refused_function("is_instance_of", _CLASSES)
is_local_deployment = refused_function("is_local_deployment", _OPTIONS)
load_java_class = refused_function("load_java_class", _CLASSES)
to_j_duration = refused_function("to_j_duration", _VALUES)
to_jarray = refused_function("to_jarray", _VALUES)
