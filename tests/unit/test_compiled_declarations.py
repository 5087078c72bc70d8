"""Python modules that Cython compiles assign only attributes that their declarations name.

An extension type has no other attributes: an undeclared name compiles, and fails when it is used.
The packages of Cython modules cimport each other in one direction.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NATIVE = ROOT / "native/penstock/_native"
#: A package cimports only those before it.
PACKAGES = [
    "wire",
    "values",
    "codecs",
    "evaluator",
    "keys",
    "state",
    "operators",
    "records",
    "profile",
]
DECLARATIONS = {
    declarations: ROOT / found.group(1)
    for declarations in sorted(NATIVE.glob("*/*.pxd"))
    if (found := re.match(r"# C declarations for (\S+\.py)", declarations.read_text()))
}


def declared(text):
    """Return the members of each extension type, and its base."""
    members, bases = {}, {}
    for begin in re.finditer(r"^cdef class (\w+)(?:\((\w+)\))?:\n((?:[ \t]+.*\n|\n)*)", text, re.M):
        name, bases[name], body = begin.group(1), begin.group(2), begin.group(3)
        members[name] = set()
        for line in body.splitlines():
            names = line.partition("#")[0].strip()
            if names.startswith(("cdef", "cpdef")) and "(" not in names:
                members[name] |= {part.split()[-1].strip("*") for part in names.split(",")}
    return members, bases


def assigned(node):
    """Return the attributes of ``self`` that a class assigns."""
    return {
        inner.attr
        for inner in ast.walk(node)
        if isinstance(inner, ast.Attribute)
        and isinstance(inner.ctx, ast.Store)
        and isinstance(inner.value, ast.Name)
        and inner.value.id == "self"
    }


@pytest.mark.parametrize("declarations", DECLARATIONS, ids=lambda path: path.stem)
def test_assigned_attributes_are_declared(declarations):
    members, bases = declared(declarations.read_text())
    assert members or "cdef class" not in declarations.read_text()
    for node in ast.parse(DECLARATIONS[declarations].read_text()).body:
        if not isinstance(node, ast.ClassDef) or node.name not in members:
            continue
        known, base = set(members[node.name]), bases[node.name]
        while base in members:
            known |= members[base]
            base = bases[base]
        if base is None:
            assert assigned(node) <= known, f"{node.name} in {declarations.name}"


@pytest.mark.parametrize("declarations", DECLARATIONS, ids=lambda path: path.stem)
def test_bases_are_declared(declarations):
    """Cython refuses a base of an extension type that is a Python class."""
    _, bases = declared(declarations.read_text())
    for node in ast.parse(DECLARATIONS[declarations].read_text()).body:
        if isinstance(node, ast.ClassDef) and node.name in bases:
            written = [base.id for base in node.bases if isinstance(base, ast.Name)]
            base = bases[node.name]
            assert written == ([base] if base else []), f"{node.name} in {declarations.name}"


def test_there_are_declarations():
    assert len(DECLARATIONS) > 10


def test_packages_cimport_in_one_direction():
    assert {path.name for path in NATIVE.iterdir() if path.is_dir()} == set(PACKAGES)
    for place, package in enumerate(PACKAGES):
        for path in sorted((NATIVE / package).iterdir()):
            text = path.read_text()
            used = re.findall(r"^from penstock\._native\.(\w+)", text, re.M)
            used += re.findall(r'(?:extern from|#include) "(\w+)/', text)
            assert set(used) <= set(PACKAGES[: place + 1]), path
