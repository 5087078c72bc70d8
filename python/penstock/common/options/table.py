"""The pages of all options: ``python -m penstock.common.options.table docs`` writes them."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from penstock.common.options.registry import SECTIONS, options_of

if TYPE_CHECKING:
    from penstock.common.options.option import Option

_INTRODUCTION: Final = """\
# Options

`python -m penstock.common.options.table docs` writes this page and those below.
`penstock config [WORD ...]` lists options in a terminal, with their current values.
"""

_RULES: Final = """\
## Where options are set

An option is set at one of these places; later ones win:

1. `penstock.yaml` in the working directory.
2. The table `[tool.penstock]` of `pyproject.toml` in the working directory.
3. The environment: `config.yaml` in the folder `PENSTOCK_CONF_DIR` \
(see [Running programs](running.md)), then the variable `PENSTOCK_CONFIGURATION`, a JSON object of \
keys and values.
4. `penstock run -D key=value`, and its other flags.
5. The program: the `Configuration` that it passes to `get_execution_environment` or `configure`, \
or a method such as `set_parallelism`.

In files, keys are nested or flat, or both: `parallelism.default: 4` in YAML, \
`"parallelism.default" = 4` in TOML.

Values are written as in Flink:

| value | example | without a unit |
|---|---|---|
| duration | `10 s`, `500 ms`, `1 min` | milliseconds |
| memory size | `64 mb` | bytes |
| list | `a;b` | |
| map | `a:b,c:d` | |

## How options are checked

penstock checks all options before a job starts:

- A misspelt key is an error that names the nearest option, and so is an invalid value.
- Keys that begin with `spark.` are Spark's.
- An option of Flink that penstock does not have is an error if it would change what a job does; \
the error says what to do instead.
- Flink's other options, such as those of a JVM's memory, have no effect; one warning lists them.
- Other keys belong to the program and stay in its configuration; another warning lists them.

## Options of the cluster and of the job

The options of a cluster are the same for all of its jobs and workers, from their start on.
A job that sets one of them to another value than the running cluster is rejected.
A job that starts its own cluster sets options of both kinds.
A job in a [session](sessions.md) takes its options from its program; options of jobs are rejected \
when a session is started.
"""

_PAGES: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    ("jobs", "Options of jobs", ("Jobs", "Restarts", "Adaptive jobs", "User code")),
    ("state", "Options of state", ("State", "State in RocksDB", "Changelog of state")),
    (
        "checkpoints",
        "Options of checkpoints",
        ("Checkpoints", "Starting from a savepoint", "File systems"),
    ),
    ("cluster", "Options of clusters", ("Cluster", "Network", "High availability", "Security")),
    ("observing", "Options for observing jobs", ("REST interface", "History", "Metrics")),
)
"""The name of each page, its title, and its sections."""

_HEAD: Final = "| option | value and default | meaning |\n|---|---|---|"
_SCOPES: Final = {
    "cluster": "These are options of the cluster.",
    "job": "These are options of the job.",
}


def options_pages() -> dict[str, str]:
    """Return the pages in Markdown, by their paths in the folder of the guide."""
    modules = dict(SECTIONS)
    links = []
    pages = {}
    for name, title, sections in _PAGES:
        path = f"options/{name}.md"
        anchors = (f"[{one}]({path}#{one.lower().replace(' ', '-')})" for one in sections)
        links.append(f"| [{title}]({path}) | {', '.join(anchors)} |\n")
        texts = [f"# {title}\n\n[Options](../options.md) says where options are set.\n"]
        for section in sections:
            options = options_of(modules.pop(section))
            scopes = {option.scope for option in options}
            said = f"{_SCOPES[scopes.pop()]}\n\n" if len(scopes) == 1 else ""
            rows = "\n".join(_row(option, with_scope=not said) for option in options)
            texts.append(f"## {section}\n\n{said}{_HEAD}\n{rows}\n")
        pages[path] = "\n".join(texts)
    assert not modules, f"sections on no page: {', '.join(modules)}"
    index = "| page | sections |\n|---|---|\n" + "".join(links)
    return {"options.md": "\n".join((_INTRODUCTION, index, _RULES)), **pages}


def _row(option: Option[Any], *, with_scope: bool) -> str:
    """Return the row of an option.

    Args:
        option: The option.
        with_scope: Whether the row says if the option is of the cluster or of the job.
    """
    keys = f"`{option.key}`"
    if option.alternate_keys:
        keys += "<br>or " + ", ".join(f"`{key}`" for key in option.alternate_keys)
    if with_scope:
        keys += f"<br>*{option.scope}*"
    value = option.value_type.name
    if option.default_text:
        value += f"<br>default: {option.default_text}"
    meaning = re.sub(r"\]\((?=[\w/]+\.md)", "](../", option.meaning)
    if option.awaits:
        meaning += f" (without effect: {option.awaits})"
    return f"| {keys} | {value} | {meaning} |"


def _write_pages(folder: Path) -> None:
    for name, text in options_pages().items():
        path = folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    _write_pages(Path(sys.argv[1]))
