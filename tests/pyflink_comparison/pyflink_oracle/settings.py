"""Flink's options and command-line flags.

    python settings.py record    with PyFlink's interpreter: writes ``recorded/options.json``
    and
                                 ``recorded/command_line.json``

Options are the ConfigOption constants of the classes in Flink's jars.
"""

import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path

RECORDED = Path(__file__).resolve().parents[1] / "recorded"
OPTIONS = RECORDED / "options.json"
COMMAND_LINE = RECORDED / "command_line.json"

#: Classes whose options do not belong to Flink's configuration: options of tables and their
#: formats, and of a single task.
_OTHERS = re.compile(
    r"\.shaded\.|\.flink\.formats\.|\.flink\.connector\..*\.table\.|\.flink\.connector\.file\.src\.reader\."
    r"|\.flink\.table\.(?!api\.config\.|client\.config\.)|\.StreamConfig$"
)
#: Options of a named reporter, provider or resource; they follow the name.
_BEHIND_A_NAME = re.compile(r"[^.]*|<.*|.*<.*>.*|(factory|filter|scope)\.[a-z.]+")
#: Keys without a dot that still belong to the configuration.
_WITHOUT_A_DOT = ("scheduler-mode", "external-resources")
_FLAG = re.compile(r"     (-\w+)(?:,(--\w+))?( +<[^>]+>)?")


def options():
    """Return key, default and older keys of all options; mark deprecated keys."""
    from py4j.protocol import Py4JJavaError
    from pyflink.java_gateway import get_gateway

    jvm = get_gateway().jvm
    kind = "org.apache.flink.configuration.ConfigOption"
    found = {}
    for jar in jars():
        for name in classes_with(jar, kind):
            try:
                fields = jvm.java.lang.Class.forName(name).getDeclaredFields()
            except Py4JJavaError:
                continue  # of an optional library
            for field in fields:
                if field.getType().getName() != kind:
                    continue
                if not jvm.java.lang.reflect.Modifier.isStatic(field.getModifiers()):
                    continue
                field.setAccessible(True)
                option = field.get(None)
                key = str(option.key())
                if _BEHIND_A_NAME.fullmatch(key) and key not in _WITHOUT_A_DOT:
                    continue
                older = [str(one.getKey()) for one in option.fallbackKeys()]
                default = option.defaultValue()
                known = found.setdefault(key, {"older": older})
                known["default"] = None if default is None else str(default)
                if option_is_of_this_machine(known["default"]):
                    known["default"] = None
    return dict(sorted(found.items()))


def option_is_of_this_machine(default):
    """Return whether a default is a path below the recording interpreter."""
    return default is not None and default.startswith(sys.prefix)


def classes_with(jar, kind):
    """Yield the classes in a jar that have fields of a kind."""
    sign = f"L{kind.replace('.', '/')};".encode()
    with zipfile.ZipFile(jar) as content:
        for entry in content.namelist():
            name = entry.removesuffix(".class").replace("/", ".")
            if not entry.endswith(".class") or _OTHERS.search(name):
                continue
            if name.startswith("org.apache.flink.") and sign in content.read(entry):
                yield name


def jars():
    """Return the jars of PyFlink."""
    import pyflink

    folder = Path(pyflink.__file__).parent
    return sorted([*folder.glob("lib/*.jar"), *folder.glob("opt/*.jar")])


def command_line():
    """Return the help of Flink's client for the flags of each action."""
    import pyflink

    environment = os.environ | {"FLINK_CONF_DIR": str(Path(pyflink.__file__).parent / "conf")}
    path = os.pathsep.join(map(str, jars()))
    help_text = subprocess.run(
        ["java", "-cp", path, "org.apache.flink.client.cli.CliFrontend", "-h"],
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    found, flags = {}, {}
    for line in help_text.splitlines():
        if action := re.match(r'Action "(\w+)"', line):
            flags = found.setdefault(action[1], {})
        elif flag := _FLAG.match(line):
            flags[flag[1]] = {"long": flag[2], "takes_value": bool(flag[3])}
    return found


def record():
    """Record Flink's options and flags."""
    entries = [f"{json.dumps(key)}: {json.dumps(one)}" for key, one in options().items()]
    OPTIONS.write_text("{\n" + ",\n".join(entries) + "\n}\n")
    actions = [
        f"{json.dumps(action)}: {{\n"
        + ",\n".join(
            f" {json.dumps(flag)}: {json.dumps(one)}" for flag, one in sorted(flags.items())
        )
        + "\n}"
        for action, flags in command_line().items()
    ]
    COMMAND_LINE.write_text("{\n" + ",\n".join(actions) + "\n}\n")


if __name__ == "__main__":
    if sys.argv[1:] != ["record"]:
        sys.exit(__doc__)
    record()
