"""Commands about this installation and machine: its options, and whether it can run jobs."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from penstock import __version__
from penstock.command_line.flags import FlagCommand
from penstock.common.options.rest import is_sensitive
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from penstock.common.options.option import Option

JAVA_TIMEOUT_S: Final = 30
LEAST_PYTHON: Final = (3, 11)


@click.command(cls=FlagCommand)
@click.argument("words", nargs=-1)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def config(words: tuple[str, ...], as_json: bool) -> None:
    """List options, or those that match all WORDS.

    A word matches a key or a meaning. Each option is listed with its type, its default, its
    meaning and the places that set it.
    """
    from penstock.common.options.registry import SECTIONS, nearest_key, options_of
    from penstock.datastream.process_configuration import configured_layers

    try:
        layers = configured_layers()
    except ConfigurationError as error:
        raise click.ClickException(str(error)) from None
    found: list[dict[str, Any]] = [
        {
            "section": title,
            "scope": option.scope,
            "key": option.key,
            "alternate_keys": list(option.alternate_keys),
            "value": option.value_type.name,
            "default": option.default_text,
            "meaning": option.meaning,
            "without_effect": option.awaits,
            "set": _where_set(option, layers),
        }
        for title, module in SECTIONS
        for option in options_of(module)
    ]
    chosen = [
        one for one in found if all(word.lower() in json.dumps(one).lower() for word in words)
    ]
    if as_json:
        click.echo(json.dumps(chosen, indent=2))
        return
    if not chosen:
        nearest = nearest_key(words[0]) if len(words) == 1 else None
        hint = f": did you mean {nearest}?" if nearest else ""
        raise click.ClickException(f"no option matches {' '.join(words)!r}{hint}")
    for one in chosen:
        click.echo(str(one["key"]))
        if one["alternate_keys"]:
            click.echo(f"    also: {', '.join(one['alternate_keys'])}")
        click.echo(
            f"    value: {one['value']}; default: {one['default'] or 'none'}; of the {one['scope']}"
        )
        click.echo(f"    {_without_links(one['meaning'])}")
        for place in one["set"]:
            click.echo(f"    set: {place['value']} in {place['where']}")
        if one["without_effect"]:
            click.echo(f"    without effect: {one['without_effect']}")


def _without_links(markdown: str) -> str:
    """Return a text of one line without the targets of its links."""
    return re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1 in the guide", markdown)


def _where_set(
    option: Option[Any], layers: Sequence[tuple[str, Mapping[str, Any]]]
) -> list[dict[str, str]]:
    """Return the places that set an option for programs of this process; the last one wins."""
    return [
        {"where": where, "value": "******" if is_sensitive(key) else str(options[key])}
        for where, options in layers
        for key in option.keys
        if key in options
    ]


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes:
        what: The subject of the check.
        level: ``ok``, ``note`` if something optional is missing, or ``problem``.
        detail: The result, and a remedy.
    """

    what: str
    level: str
    detail: str


@click.command(cls=FlagCommand)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> None:
    """Check that this machine can run jobs.

    Exits with 1 if something is missing.
    """
    findings = [
        _python(),
        _other_penstock(),
        _native(),
        _java(),
        _package("pyspark", "the target spark", "spark"),
        _package("uvicorn", "the REST interface", "rest"),
        _package("cryptography", "encryption between hosts", "tls"),
        _ports(),
        _unix_sockets(),
        _shared_memory(),
        _native_stacks(),
        _temporary_folder(),
        _environment(),
    ]
    if as_json:
        click.echo(json.dumps([asdict(finding) for finding in findings], indent=2))
    else:
        for finding in findings:
            click.echo(f"{finding.level:8} {finding.what}: {finding.detail}")
    if any(finding.level == "problem" for finding in findings):
        raise SystemExit(1)


def _python() -> Finding:
    found = f"penstock {__version__}, Python {platform.python_version()}, {platform.platform()}"
    if sys.version_info < LEAST_PYTHON:
        return Finding("Python", "problem", f"{found}; 3.11 is needed")
    if sys.platform != "linux":
        return Finding("Python", "problem", f"{found}; Linux is needed")
    return Finding("Python", "ok", found)


def _native() -> Finding:
    try:
        for module in ("penstock._core", "penstock._native.operators.operator_loop"):
            importlib.import_module(module)
    except ImportError as error:
        return Finding(
            "native data plane",
            "problem",
            f"{error}; build it with make develop, or set PENSTOCK_RUNTIME=pure",
        )
    return Finding("native data plane", "ok", "it can be loaded")


def _other_penstock() -> Finding:
    """Detect the other project called ``penstock`` on PyPI, whose package has the same name."""
    try:
        other = importlib.metadata.distribution("penstock")
    except importlib.metadata.PackageNotFoundError:
        return Finding("package", "ok", "no other project's package named penstock is installed")
    detail = (
        f"the distribution penstock {other.version} is installed, which is another project's and "
        "overwrites files of this one: pip uninstall penstock penstock-engine, then pip install "
        "penstock-engine"
    )
    return Finding("package", "problem", detail)


def _java() -> Finding:
    home = os.environ.get("JAVA_HOME")
    java = shutil.which("java", path=f"{home}/bin" if home else None)
    if java is None:
        return Finding("Java", "note", "none was found; the target spark needs 17 or later")
    try:
        done = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=JAVA_TIMEOUT_S, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Finding("Java", "note", f"{java} does not run: {error}")
    lines = (done.stderr or done.stdout).strip().splitlines()
    return Finding("Java", "ok", f"{lines[0] if lines else 'of an unknown version'}, {java}")


def _package(name: str, purpose: str, extra: str) -> Finding:
    if importlib.util.find_spec(name) is None:
        detail = f"not installed; {purpose} needs it: pip install 'penstock-engine[{extra}]'"
        return Finding(name, "note", detail)
    try:
        version = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        version = "of an unknown version"  # found on the path, not installed
    return Finding(name, "ok", f"{version}, for {purpose}")


def _ports() -> Finding:
    try:
        with socket.create_server(("127.0.0.1", 0)) as server:
            port = server.getsockname()[1]
            with socket.create_connection(("127.0.0.1", port), timeout=10):
                pass
    except OSError as error:
        return Finding("ports", "problem", f"127.0.0.1 cannot be listened on and reached: {error}")
    name = socket.gethostname()
    try:
        address = socket.gethostbyname(name)
    except OSError as error:
        detail = f"127.0.0.1 works, but this host's name {name!r} has no address: {error}"
        return Finding("ports", "note", detail)
    return Finding("ports", "ok", f"127.0.0.1 works; this host is {name}, {address}")


def _unix_sockets() -> Finding:
    with tempfile.TemporaryDirectory() as folder:
        try:
            with socket.socket(socket.AF_UNIX) as sock:
                sock.bind(str(Path(folder) / "s"))
        except OSError as error:
            return Finding("Unix sockets", "note", f"{error}; workers of one host use TCP")
    return Finding("Unix sockets", "ok", "they can be bound")


def _shared_memory() -> Finding:
    try:
        descriptor = os.memfd_create("penstock-doctor")
        os.ftruncate(descriptor, 1)
        os.close(descriptor)
    except OSError as error:
        return Finding("shared memory", "note", f"memfd: {error}; workers copy through sockets")
    return Finding("shared memory", "ok", "memfd works")


def _native_stacks() -> Finding:
    from penstock.taskexecutor.worker.native_stacks import NativeStacks, UnavailableError

    try:
        NativeStacks()
    except (ImportError, UnavailableError) as error:
        return Finding("flame graphs", "note", str(error))
    return Finding("flame graphs", "ok", "functions of Python and native ones")


def _temporary_folder() -> Finding:
    folder = tempfile.gettempdir()
    free = shutil.disk_usage(folder).free
    detail = f"{folder}, {free >> 20} MiB free"
    return Finding("temporary files", "ok" if free >> 30 else "note", detail)


def _environment() -> Finding:
    names = sorted(name for name in os.environ if name.startswith("PENSTOCK_"))
    shown = ", ".join(f"{name}={_harmless(name)}" for name in names)
    return Finding("environment", "ok", shown or "no variable of penstock is set")


def _harmless(name: str) -> str:
    """Return the value of a variable, or stars if it may hold secrets."""
    may_be_secret = name.endswith(("TOKEN", "CONFIGURATION"))
    return "******" if may_be_secret else os.environ[name]
