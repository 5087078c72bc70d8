"""A contract for import-linter: a bound on the size of import circles.

Modules that import each other, directly or indirectly, can only be read together.  All imports
count, including those within functions and for annotations.  Usage, in `pyproject.toml`:

    [tool.importlinter]
    contract_types = ["bounded_circles: ci.import_circles.BoundedCirclesContract"]

    [[tool.importlinter.contracts]]
    name = "no circle of more than five files"
    type = "bounded_circles"
    most = 5
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from importlinter import Contract, ContractCheck, fields, output

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from grimp import ImportGraph


class BoundedCirclesContract(Contract):
    """No circle has more than ``most`` modules."""

    type_name = "bounded_circles"

    most = fields.IntegerField(minimum=1)

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:
        """Look for larger circles."""
        del verbose
        imports = {
            module: sorted(graph.find_modules_directly_imported_by(module))
            for module in sorted(graph.modules)
        }
        large = [circle for circle in circles(imports) if len(circle) > self.most]
        return ContractCheck(kept=not large, metadata={"circles": large})

    def render_broken_contract(self, check: ContractCheck) -> None:
        """Name the modules of each circle."""
        for circle in check.metadata["circles"]:
            output.print_error(f"{len(circle)} modules import each other:", bold=True)
            for module in circle:
                output.print_error(f"    {module}")


def circles(imports: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Return the sets of modules that import each other, the largest first.

    Tarjan's algorithm for strongly connected components, with a stack of its own.
    """
    index: dict[str, int] = {}
    lowest: dict[str, int] = {}
    path: list[str] = []
    on_path: set[str] = set()
    found: list[list[str]] = []
    for start in imports:
        if start in index:
            continue
        work = [(start, iter(imports[start]))]
        index[start] = lowest[start] = len(index)
        path.append(start)
        on_path.add(start)
        while work:
            module, left = work[-1]
            following = next(left, None)
            if following is not None:
                if following not in index and following in imports:
                    index[following] = lowest[following] = len(index)
                    path.append(following)
                    on_path.add(following)
                    work.append((following, iter(imports[following])))
                elif following in on_path:
                    lowest[module] = min(lowest[module], index[following])
                continue
            work.pop()
            if work:
                caller = work[-1][0]
                lowest[caller] = min(lowest[caller], lowest[module])
            if lowest[module] == index[module]:
                at = path.index(module)
                component = sorted(path[at:])
                on_path.difference_update(component)
                del path[at:]
                if len(component) > 1:
                    found.append(component)
    return sorted(found, key=lambda circle: (-len(circle), circle))
