"""``penstock savepoint``: take, inspect and delete savepoints; also of retained checkpoints.

``penstock savepoint JOB [DIRECTORY]`` is Flink's form of ``penstock savepoint trigger``.
"""

import datetime
from collections.abc import Iterable, Iterator

import click

from penstock.checkpoint_storage.checkpoint_metadata import CheckpointMetadata, OperatorState
from penstock.checkpoint_storage.disposal import discard_checkpoint_state, streams
from penstock.checkpoint_storage.file_systems import FileSystems, absolute
from penstock.checkpoint_storage.handles import FileHandle, StreamHandle
from penstock.checkpoint_storage.storage import discard_location, load_metadata
from penstock.command_line.cluster_client import CONFIGURATION
from penstock.command_line.flags import FlagGroup, configured
from penstock.command_line.job_commands import trigger
from penstock.datastream.process_configuration import process_configuration
from penstock.errors import CheckpointStorageError, ConfigurationError
from penstock.serialization.type_serializer import TypeSerializerSnapshot


class _Savepoint(FlagGroup):
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_own = not args or args[0] in self.commands or args[0] in ctx.help_option_names
        return super().parse_args(ctx, args if is_own else ["trigger", *args])


@click.group(cls=_Savepoint)
def savepoint() -> None:
    """Take, inspect and delete savepoints.

    inspect and dispose also accept checkpoints.
    "penstock savepoint JOB [DIRECTORY]" is short for "penstock savepoint trigger".
    """


savepoint.add_command(trigger, "trigger")


_OPTIONS = click.option(
    "-D", "options", metavar="KEY=VALUE", multiple=True, help="Set an option of the file system."
)


@savepoint.command()
@click.argument("path")
@_OPTIONS
def inspect(path: str, options: tuple[str, ...]) -> None:
    """List the operators and states in PATH, with sizes in bytes."""
    metadata, location, _ = _loaded(path, configured(options))
    for line in _described(metadata, location):
        click.echo(line)


@savepoint.command()
@click.argument("path")
@_OPTIONS
def dispose(path: str, options: tuple[str, ...]) -> None:
    """Delete the savepoint in PATH: its files, then its directory."""
    of_trigger = click.get_current_context().meta.get(CONFIGURATION, {})
    metadata, location, files = _loaded(path, of_trigger | configured(options))
    try:
        discard_checkpoint_state(metadata, files)
        discard_location(location, files)
    except OSError as error:
        raise click.ClickException(f"{location} was not deleted completely: {error}") from None
    click.echo(f"{location} is deleted")


def _loaded(path: str, given: dict[str, str]) -> tuple[CheckpointMetadata, str, FileSystems]:
    try:
        files = FileSystems(process_configuration().to_dict() | given)
        return *load_metadata(absolute(path), files), files
    except (CheckpointStorageError, ConfigurationError) as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{path} cannot be read: {error}") from None


def _described(metadata: CheckpointMetadata, location: str) -> Iterator[str]:
    kind = metadata.properties.get("kind", "CHECKPOINT")
    taken = datetime.datetime.fromtimestamp(metadata.timestamp_ms / 1000, datetime.UTC)
    yield f"{location}"
    yield f"{kind} {metadata.checkpoint_id} of {taken.isoformat(timespec='milliseconds')}"
    if kind.startswith("SAVEPOINT"):
        yield f"format {metadata.properties.get('format', 'CANONICAL')}"
    for operator in metadata.operators.values():
        yield ""
        yield from _described_operator(operator)


def _described_operator(operator: OperatorState) -> Iterator[str]:
    uid = f"uid {operator.uid!r}" if operator.uid else "no uid"
    yield f"{operator.name or 'an operator without a name'} ({uid})"
    yield f"  id               {operator.operator_id.hex()}"
    yield f"  parallelism      {operator.parallelism} of {operator.max_parallelism} at most"
    if operator.finished_subtasks:
        finished = (
            "all"
            if operator.is_fully_finished
            else ", ".join(map(str, sorted(operator.finished_subtasks)))
        )
        yield f"  finished         {finished}"
    if not operator.has_state:
        yield "  no state"
        return
    if operator.coordinator is not None:
        yield f"  coordinator      {len(operator.coordinator)} bytes"
    subtasks = operator.subtasks.values()
    for kind, handles in (
        ("keyed state", [h for s in subtasks for h in s.managed_keyed]),
        ("raw keyed state", [h for s in subtasks for h in s.raw_keyed]),
    ):
        if handles:
            yield f"  {kind:16} {_size(streams(handles))}"
    for name, text in operator.types.items():
        where, _, own = name.partition(":")
        if where == "keyed":
            yield f"  {'keyed':16} {own!r}, {TypeSerializerSnapshot.read(text)}"
        elif where == "key":
            yield f"  {'key':16} {TypeSerializerSnapshot.read(text)}"
    elements: dict[str, int] = {}
    for handle in (h for s in subtasks for h in (*s.managed_operator, *s.raw_operator)):
        for name, state in handle.states.items():
            elements[name] = elements.get(name, 0) + len(state.offsets)
    for name, number in elements.items():
        mode, _, own = name.partition(":")
        kind = {"split": "list", "union": "union list"}.get(mode, mode)
        what = f"{own!r}, " if own else ""
        recorded = operator.types.get(name)
        type_ = "" if recorded is None else f"{TypeSerializerSnapshot.read(recorded)}, "
        yield f"  {kind:16} {what}{type_}{number} element{'' if number == 1 else 's'}"
    operator_handles = [h for s in subtasks for h in (*s.managed_operator, *s.raw_operator)]
    if operator_handles:
        yield f"  operator state   {_size(streams(operator_handles))}"
    channels = [h for s in subtasks for h in (*s.input_channels, *s.result_subpartitions)]
    if channels:
        yield f"  in flight        {sum(channel.size for channel in channels)} bytes"


def _size(found: Iterable[StreamHandle]) -> str:
    distinct = set(found)
    files = sum(isinstance(stream, FileHandle) for stream in distinct)
    where = f" in {files} file{'' if files == 1 else 's'}" if files else ""
    return f"{sum(stream.size for stream in distinct)} bytes{where}"
