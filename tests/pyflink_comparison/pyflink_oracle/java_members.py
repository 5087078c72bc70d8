"""The private members, such as ``_j_data_stream``, by which PyFlink's classes hold Java objects.

python pyflink_oracle/java_members.py record    with PyFlink's interpreter

Writes ``recorded/java_members.json``: for each module, the members of each class, in source order.
"""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

RECORDED = Path(__file__).resolve().parents[1] / "recorded" / "java_members.json"


def record() -> None:
    """Record the members from the source of PyFlink."""
    import pyflink

    folder = Path(pyflink.__file__).parent
    found = {}
    for room in ("common", "datastream", "metrics"):
        for file in sorted((folder / room).rglob("*.py")):
            classes = _members(ast.parse(file.read_text()))
            if classes and "tests" not in file.parts:
                found[".".join(file.relative_to(folder).with_suffix("").parts)] = classes
    lines = [f"{json.dumps(name)}: {json.dumps(classes)}" for name, classes in found.items()]
    RECORDED.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def _members(tree: ast.AST, outer: str = "") -> dict[str, list[str]]:
    """Return the private members of each class, by its qualified name."""
    found: dict[str, list[str]] = {}
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.ClassDef):
            continue
        name = f"{outer}{node.name}"
        members = {
            one.attr
            for one in ast.walk(node)
            if isinstance(one, ast.Attribute)
            and one.attr.startswith("_j_")
            and isinstance(one.value, ast.Name)
            and one.value.id == "self"
        }
        inner = _members(node, f"{name}.")
        own = members - {member for others in inner.values() for member in others}
        found |= {name: sorted(own)} if own else {}
        found |= inner
    return found


if __name__ == "__main__":
    if sys.argv[1:] != ["record"]:
        sys.exit(__doc__)
    record()
