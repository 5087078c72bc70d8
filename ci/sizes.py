"""Print the sizes of ARCHITECTURE.md's last table: files per folder, circles, `Any`, lines.

Usage: python ci/sizes.py [TREE]; TREE is another checkout, as of an earlier commit.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import grimp
from import_circles import circles

if TYPE_CHECKING:
    from collections.abc import Iterator

ENDINGS = ("py", "pyi", "pyx", "pxd", "pxi", "h", "rs", "js")


def main(tree: Path) -> None:
    """Print a row for each size."""
    os.chdir(tree)
    sources = [
        Path(name)
        for name in subprocess.check_output(["git", "ls-files"], text=True).splitlines()
        if name.rpartition(".")[2] in ENDINGS and Path(name).is_file()
    ]
    lines = {path: len(path.read_text().splitlines()) for path in sources}
    package = Path("python/penstock")
    for room in ("datastream", "jobmaster", "common", "table", "taskexecutor/state"):
        print(f"files in {room} itself:", len(list((package / room).glob("*.py"))))
    datastream = [path for path in sources if package / "datastream" in path.parents]
    print("files in datastream and below:", len(datastream))
    print("lines in datastream and below:", sum(map(lines.__getitem__, datastream)))
    native = Path("native/penstock/_native")
    folders = [path.parent for path in sources if native in path.parents]
    print("files in the largest folder of native:", max(map(folders.count, folders)))
    print("files over 600 lines:", sum(number > 600 for number in lines.values()))
    longest = max(sources, key=lines.__getitem__)
    print("the longest file:", lines[longest], longest)
    print("import circles:", *map(len, _circles(package)))
    print("Any in signatures of taskexecutor and jobmaster:", _any(package))


def _circles(package: Path) -> list[list[str]]:
    sys.path.insert(0, str(package.parent.resolve()))
    graph = grimp.build_graph(package.name, cache_dir=None)
    return circles({m: sorted(graph.find_modules_directly_imported_by(m)) for m in graph.modules})


def _any(package: Path) -> int:
    """Count `Any` in the annotations of parameters and results."""
    return sum(
        isinstance(name, ast.Name) and name.id == "Any"
        for room in ("taskexecutor", "jobmaster")
        for path in (package / room).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for annotation in _annotations(node)
        for name in ast.walk(annotation)
    )


def _annotations(node: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    named = node.args
    for argument in (*named.posonlyargs, *named.args, *named.kwonlyargs, named.vararg, named.kwarg):
        if argument is not None and argument.annotation is not None:
            yield argument.annotation
    if node.returns is not None:
        yield node.returns


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))
