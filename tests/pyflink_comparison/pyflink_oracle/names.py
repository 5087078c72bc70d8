"""The public names of PyFlink's modules.

python pyflink_oracle/names.py record    with PyFlink's interpreter: writes ``recorded/names.json``
python pyflink_oracle/names.py missing   with penstock's: prints the missing names
"""

import importlib
import json
import os
import pkgutil
import re
import sys
from pathlib import Path

RECORDED = Path(__file__).resolve().parents[1] / "recorded" / "names.json"

#: Packages without a counterpart in penstock, and scripts.
_OUTSIDE = [
    "examples",
    "fn_execution",
    "gen_protos",
    "ml",
    "pyflink_callback_server",
    "pyflink_gateway_server",
    "shell",
    "testing",
]

#: Names without a meaning in penstock: the reason, and a pattern of module and name.
MEANINGLESS = {
    "PyFlink's bridge to Java; `pyflink.java_gateway` and `pyflink.util.java_utils` can be "
    "imported": (
        r"java_gateway\..*|util\.java_utils\..*|util\.exceptions"
        r"|util\.exceptions\.(JavaException|capture_java_exception|exception_mapping"
        r"|install_exception_handler|install_py4j_hooks|py4j)"
        r"|.*\.(JavaClass|JavaObject|Py4JJavaError|add_jars_to_context_class_loader"
        r"|convert_py4j_exception|from_j_duration|get_field|get_field_value|get_gateway"
        r"|get_j_env_configuration|get_java_class|invoke_method|is_instance_of"
        r"|is_local_deployment|java_import|load_java_class|to_j_duration|to_jarray)"
        r"|table\.(\w+\.)?(create_url_class_loader|get_method|java_utils|to_expression_jarray"
        r"|to_j_explain_detail_arr|utils(\.\w+)?)"
    ),
    "SQL models, which penstock lacks": (
        r"util\.exceptions\.Model\w+|table\.(\w+\.)?(CatalogModel|ModelDescriptor)"
        r"|table\.model_descriptor(\.\w+)?"
    ),
    "internal classes of PyFlink's operators": (
        r".*\.(Internal\w+|PassThrough\w+|FunctionWrapper|ReduceFunctionWrapper"
        r"|FlinkKafka(Consumer|Producer)Base)|table\.functions\.\w+"
        r"|table\.\w+\.(Delegat\w+|\w+FunctionWrapper)"
    ),
    "PyFlink's serialisation of values for its workers": (
        r"serializers|.*\.(ExternalTypeInfo|PickleSerializer|void)|table\.serializers(\.\w+)?"
        r"|table\.\w+\.(ArrowSerializer|BatchedSerializer|\w+_arrow_(schema|type)|to_arrow_type"
        r"|pickled_bytes_to_python_converter|tz_convert_from_internal)"
    ),
    "classes of the Table API without a counterpart": (
        r"table\.(\w+\.)?(BytesContentPlanReference|Catalog(Column|Table)Statistics|HiveModule"
        r"|ObjectIdentifier|Procedure|ResolvedExpression|UserDefinedType"
        r"|OverWindowPartitioned\w*|(Session|Slide|Tumble)With\w+|resolved_expression(\.\w+)?)"
    ),
    "names that only PyFlink's own code and its launcher use": (
        r"find_flink_home|add_version_doc|keyword|sys|wraps|util\.api_stability_decorators\..*"
        r"|datastream\.stream_execution_environment\.Public"
        r"|table\.descriptors(\.\w+)?|table\.(\w+\.)?(absolute_import|add_version_doc|array"
        r"|atexit|copy|ctypes|decimal|dt|long|os|reduce|size|sys|Deprecated|Experimental|Internal"
        r"|Path|PublicEvolving|RLock)"
    ),
}


def missing():
    """Return the recorded names that penstock lacks, without irrelevant ones."""
    pattern = re.compile("|".join(f"(?:{one})" for one in MEANINGLESS.values()))
    absent = set()
    for name, attributes in json.loads(RECORDED.read_text()).items():
        try:
            module = importlib.import_module(f"pyflink.{name}".rstrip("."))
        except ModuleNotFoundError:
            absent.add(name)
            continue
        absent |= {
            f"{name}.{one}".lstrip(".") for one in attributes.split() if not has(module, one)
        }
    return sorted(one for one in absent if not pattern.fullmatch(one))


def has(module, attribute):
    """Return whether a module has an attribute."""
    try:
        return hasattr(module, attribute)
    except ModuleNotFoundError:  # errors name features of PyFlink that penstock lacks
        return False


def record():
    """Record PyFlink's names."""
    found = {"": importlib.import_module("pyflink")}
    for module in pkgutil.walk_packages(found[""].__path__, "pyflink."):
        name = module.name.removeprefix("pyflink.")
        if name.split(".")[0] not in _OUTSIDE and ".tests" not in name:
            found[name] = importlib.import_module(module.name)
    lines = [
        f"{json.dumps(name)}: {json.dumps(' '.join(_public(name, module)))}"
        for name, module in found.items()
    ]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _public(name, module):
    public = [one for one in dir(module) if not one.startswith("_")]
    return public if name else [one for one in public if one not in _OUTSIDE]


if __name__ == "__main__":
    if sys.argv[1:] == ["record"]:
        record()
        os._exit(0)  # PyFlink's threads would keep the process alive
    if sys.argv[1:] != ["missing"]:
        sys.exit(__doc__)
    import penstock.as_pyflink  # noqa: F401

    print("\n".join(missing()))
