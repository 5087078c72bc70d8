"""The page of all options: ``python -m penstock.common.options.table > docs/options.md``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from penstock.common.options.registry import SECTIONS, options_of

if TYPE_CHECKING:
    from penstock.common.options.option import Option

_INTRODUCTION: Final = """\
# Options

This page is written by `python -m penstock.common.options.table`.

An option is set at one of these places; later ones win:

1. `penstock.yaml` in the working directory.
2. The table `[tool.penstock]` of `pyproject.toml` in the working directory.
3. The environment: `config.yaml` in the folder `PENSTOCK_CONF_DIR` \
(see [Running programs](running.md)), then the variable `PENSTOCK_CONFIGURATION`, a JSON object of \
keys and values.
4. `penstock run -D key=value`, and its other options.
5. The program: the `Configuration` that it gives `get_execution_environment` or `configure`, or \
a method such as `set_parallelism`.

In files keys are nested or flat, or both: `parallelism.default: 4` in YAML, \
`"parallelism.default" = 4` in TOML.

All options are checked before a job starts: a key that misspells an option is an error that \
names it, and so is a value that the option does not take.
Keys that begin with `spark.` are Spark's.
An option of Flink that penstock does not have is an error if a job would do something else under \
it, and says what to do instead.
The other options of Flink have no effect on what a job does, such as those of a JVM's memory: \
they are listed in one warning.
Keys that are options of neither are the program's own: they stay in its configuration, and \
another warning lists them.

An option is of the cluster or of the job.
Those of the cluster are the same for all of its jobs and for all of its workers, from their start \
on; a job that sets one of them otherwise than the running cluster that it comes to is refused.
A job that starts a cluster of its own gives it the options of both kinds; one in a \
[session](sessions.md) has its options from its program, and those of jobs are refused where a \
session is started.

Values are written as in Flink: durations as `10 s`, `500 ms`, `1 min` (milliseconds without a \
unit), memory sizes as `64 mb` (bytes without a unit), lists as `a;b`, maps as `a:b,c:d`.
"""


_HEAD: Final = "| option | of | value | default | meaning |\n|---|---|---|---|---|"


def options_page() -> str:
    """The page in Markdown."""
    sections = [_INTRODUCTION]
    for title, module in SECTIONS:
        rows = "\n".join(_row(option) for option in options_of(module))
        sections.append(f"## {title}\n\n{_HEAD}\n{rows}\n")
    return "\n".join(sections)


def _row(option: Option[Any]) -> str:
    keys = f"`{option.key}`"
    if option.alternate_keys:
        keys += " (or " + ", ".join(f"`{key}`" for key in option.alternate_keys) + ")"
    meaning = option.meaning
    if option.awaits:
        meaning += f" (without effect: {option.awaits})"
    cells = (keys, option.scope, option.value_type.name, option.default_text, meaning)
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    print(options_page(), end="")
