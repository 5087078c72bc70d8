"""The classes of penstock's commands: option names with one dash are read whole.

Flink's command line has names of several letters with one dash (``-py``, ``-sae``, ``-detached``),
and its parser reads every long name with one dash as well (``-fromSavepoint``).
click would cut an unknown name into letters, so that ``-detached`` would be ``-d etached``.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from penstock.common.options.check import check_values
from penstock.common.options.cluster import TARGET
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

F = TypeVar("F", bound=Callable[..., Any])

_TARGETS: Final = ("spark", "local", "in-process", "session")


class FlagCommand(click.Command):
    """A command that rejects unknown names with one dash instead of cutting them into letters."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line.

        Raises:
            NoSuchOption: A word with a dash names no option; the error suggests the nearest one.
        """
        return super().parse_args(ctx, list(self._whole_names(ctx, args)))

    def meant_name(self, name: str, following: str | None) -> str:
        """Return the option that an ambiguous name stands for.

        Args:
            name: The name on the command line.
            following: The next word.
        """
        del following
        return name

    def ends_with_unknown_name(self, seen: set[str | None]) -> bool:
        """Return whether an unknown name with a dash starts the arguments of the program.

        Args:
            seen: The parameters of the options before it.
        """
        del seen
        return False

    def _whole_names(self, ctx: click.Context, args: list[str]) -> Iterator[str]:
        """Yield the words, with two dashes before long names that had one."""
        options = {
            name: option
            for option in self.get_params(ctx)
            if isinstance(option, click.Option)
            for name in (*option.opts, *option.secondary_opts)
        }
        seen: set[str | None] = set()
        position = 0
        while position < len(args):
            word, following = args[position], args[position + 1 : position + 2]
            if word == "--" or not (_is_name(word) or ctx.allow_interspersed_args):
                yield from args[position:]
                return
            name, equals, attached = word.partition("=")
            if name not in options and f"-{name}" in options:
                name = f"-{name}"
            name = self.meant_name(name, following[0] if following else None)
            option = options.get(name)
            if option is None and _is_name(word):
                option = _with_attached_value(word, options)
                if option is None and self.ends_with_unknown_name(seen):
                    yield from ("--", *args[position:])
                    return
                if option is None and not (word.startswith("--") or ctx.resilient_parsing):
                    nearest = difflib.get_close_matches(word, options, 3)
                    raise click.NoSuchOption(word, possibilities=nearest, ctx=ctx)
                yield word
            else:
                yield f"{name}{equals}{attached}"
                if option is not None and not equals and _needs_value(option):
                    yield from following
                    position += 1
            if option is not None:
                seen.add(option.name)
            position += 1


class FlagGroup(FlagCommand, click.Group):
    """A group of such commands."""

    command_class = FlagCommand
    group_class = type


class TargetChoice(click.Choice[str]):
    """A target, by penstock's name or Flink's."""

    def __init__(self) -> None:
        """Offer the targets of penstock."""
        super().__init__(_TARGETS)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return penstock's name of the target."""
        try:
            return str(TARGET.parse(str(value)))
        except ConfigurationError as error:
            self.fail(str(error), param, ctx)


def parse_option(text: str) -> tuple[str, str]:
    """Return key and value of a ``-D`` option.

    Raises:
        BadParameter: The text is not of the form ``key=value``, or the value is invalid.
    """
    key, separator, value = text.partition("=")
    if not separator or not key.strip():
        raise click.BadParameter(f"'{text}' is not of the form key=value", param_hint="-D")
    try:
        check_values({key.strip(): value})
    except ConfigurationError as error:
        raise click.BadParameter(str(error), param_hint="-D") from None
    return key.strip(), value


def configured(options: Iterable[str]) -> dict[str, str]:
    """Return the configuration that ``-D`` options set.

    Raises:
        BadParameter: An option is malformed.
    """
    return dict(map(parse_option, options))


def refused_flag(*names: str, why: str) -> Callable[[F], F]:
    """Return a decorator that declares a flag of Flink that penstock rejects.

    Args:
        names: The names of the flag, which takes a value.
        why: The replacement.
    """

    def refuse(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value:
            raise click.UsageError(f"{'/'.join(param.opts)}: {why}", ctx)

    return click.option(*names, callback=refuse, expose_value=False, hidden=True)


def _is_name(word: str) -> bool:
    return word.startswith("-") and word != "-"


def _needs_value(option: click.Option) -> bool:
    return not option.is_flag and not option.count and not isinstance(option.flag_value, str)


def _with_attached_value(word: str, options: Mapping[str, click.Option]) -> click.Option | None:
    """Return the one-letter option whose value is attached to it, as in -Dkey=value and -p4.

    A word that could be a name is never cut: except after -D, the value must not begin with a
    letter.
    """
    option = options.get(word[:2])
    if option is None or option.is_flag or word.startswith("--"):
        return None
    return option if word.startswith("-D") or not word[2:3].isalpha() else None
