"""Types of option values, and parsing of their texts like Flink's."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar

from penstock.common.options.quoting import join_map, split_list, split_map
from penstock.common.time import Duration
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

T_co = TypeVar("T_co", covariant=True)

INFINITE: Final = (1 << 31) - 1
"""The number that stands for "infinite"."""

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_SIZE: Final = re.compile(r"([0-9]+)\s*([a-z]*)", re.IGNORECASE)
_SIZE_SHIFTS: Final = {
    **dict.fromkeys(("", "b", "bytes"), 0),
    **dict.fromkeys(("k", "kb", "kibibytes"), 10),
    **dict.fromkeys(("m", "mb", "mebibytes"), 20),
    **dict.fromkeys(("g", "gb", "gibibytes"), 30),
    **dict.fromkeys(("t", "tb", "tebibytes"), 40),
}
_PORTS: Final = re.compile(r"([0-9]{1,5})(?:-([0-9]{1,5}))?")
_GREATEST_PORT: Final = 65535
_FOLDERS: Final = re.compile(r"[,:|]")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_LOCAL_FOLDERS: Final = re.compile(r"(?:\s*[A-Za-z][A-Za-z0-9+.-]*:(?=/))?[^,:|]*")


class ValueType(Generic[T_co]):
    """Reader and writer of an option's value.

    Attributes:
        name: The name of the type, with its range, in the table of options and in errors.
    """

    name: str

    def parse(self, text: str) -> T_co:
        """Read a value.

        Raises:
            ValueError: The text is invalid; the message says what is expected.
        """
        raise NotImplementedError

    def text(self, value: Any) -> str:
        """Return the text of a value."""
        return str(value)


class TextType(ValueType[str]):
    """Any text."""

    name = "text"

    def parse(self, text: str) -> str:
        """Return the text itself."""
        return text


class FolderType(ValueType[str]):
    """One folder."""

    name = "path or URL of a folder"

    def parse(self, text: str) -> str:
        """Return the text itself."""
        if not text.strip():
            raise ValueError(f"must be a {self.name}")
        return text


class BooleanType(ValueType[bool]):
    """True or false, in letters of any case."""

    name = "true or false"

    def parse(self, text: str) -> bool:
        """Read true or false."""
        lower = text.lower()
        if lower not in ("true", "false"):
            raise ValueError("must be true or false")
        return lower == "true"

    def text(self, value: Any) -> str:
        """Return the word in lower case."""
        return "true" if value else "false"


class IntegerType(ValueType[int]):
    """A whole number.

    Args:
        least: The smallest one.
        greatest: The largest one.
        infinite: Whether "infinite" stands for `INFINITE`.
    """

    def __init__(
        self, least: int = -INFINITE - 1, greatest: int = INFINITE, *, infinite: bool = False
    ) -> None:
        self._least, self._greatest, self._infinite = least, greatest, infinite
        self.name = _range("whole number", least, greatest if greatest < INFINITE else None)
        if infinite:
            self.name += ", or infinite"

    def parse(self, text: str) -> int:
        """Read a whole number within the range."""
        if self._infinite and text.strip().lower() == "infinite":
            return INFINITE
        if _INTEGER.fullmatch(text) and self._least <= int(text) <= self._greatest:
            return int(text)
        raise ValueError(f"must be a {self.name}")

    def text(self, value: Any) -> str:
        """Return the number, or "infinite"."""
        return "infinite" if self._infinite and value == INFINITE else str(value)


class NumberType(ValueType[float]):
    """A number, with a fraction or without."""

    def __init__(self, least: float, greatest: float | None = None) -> None:
        self._least, self._greatest = least, greatest
        self.name = _range("number", least, greatest)

    def parse(self, text: str) -> float:
        """Read a number within the range."""
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        greatest = float("inf") if self._greatest is None else self._greatest
        if self._least <= value <= greatest and value != float("inf"):
            return value
        raise ValueError(f"must be a {self.name}")


class DurationType(ValueType[int]):
    """A span of time, read as whole milliseconds."""

    def __init__(self, least_ms: int = 0) -> None:
        self._least_ms = least_ms
        self.name = "duration" + (f", at least {least_ms} ms" if least_ms else "")

    def parse(self, text: str) -> int:
        """Read a number and a unit, or an ISO 8601 duration."""
        try:
            nanos = Duration.parse(text).to_nanos()
        except ConfigurationError:
            nanos = -1
        millis = nanos // 10**6
        if millis < self._least_ms:
            raise ValueError(
                f"must be a {self.name}: a number and a unit (ms, s, min, h, d), as in '10 s'"
            )
        if nanos and not millis:
            raise ValueError("must be 0, or at least 1 ms")
        return millis

    def text(self, value: Any) -> str:
        """Return the number in the largest unit that shows it without a fraction."""
        for unit, millis in (("h", 3_600_000), ("min", 60_000), ("s", 1_000)):
            if value and value % millis == 0:
                return f"{value // millis} {unit}"
        return f"{value} ms"


class MemorySizeType(ValueType[int]):
    """An amount of memory, read as bytes."""

    def __init__(
        self,
        least_bytes: int = 0,
        greatest_bytes: int = (1 << 63) - 1,
        *,
        may_be_zero: bool = False,
    ) -> None:
        self._least, self._greatest = least_bytes, greatest_bytes
        self._may_be_zero = may_be_zero
        greatest = None if greatest_bytes == (1 << 63) - 1 else self.text(greatest_bytes)
        least = "1 byte" if least_bytes == 1 else self.text(least_bytes)
        self.name = _range("memory size", least if least_bytes else None, greatest)
        if may_be_zero:
            self.name += ", or 0"

    def parse(self, text: str) -> int:
        """Read a number and a unit; bytes without one."""
        size = parse_memory_bytes(text)
        fits = size is not None and (
            self._least <= size <= self._greatest or (self._may_be_zero and size == 0)
        )
        if size is None or not fits:
            raise ValueError(
                f"must be a {self.name}: a number and a unit (b, kb, mb, gb, tb), as in '64 mb'"
            )
        return size

    def text(self, value: Any) -> str:
        """Return the number in the largest unit that shows it without a fraction."""
        for unit, shift in (("gb", 30), ("mb", 20), ("kb", 10)):
            if value and value % (1 << shift) == 0:
                return f"{value >> shift} {unit}"
        return f"{value} bytes"


class ChoiceType(ValueType[str]):
    """One of some names; case, "-" and "_" make no difference.

    Args:
        names: The names.
        aliases: Other names for them.
        absent: Names that Flink has and penstock does not have, with replacements.
    """

    def __init__(
        self,
        *names: str,
        aliases: Mapping[str, str] | None = None,
        absent: Mapping[str, str] | None = None,
    ) -> None:
        self.name = " or ".join(names) if len(names) < 3 else f"one of {', '.join(names)}"
        self._names = {_folded(name): name for name in names}
        self._names |= {_folded(alias): name for alias, name in (aliases or {}).items()}
        self._absent = {_folded(name): instead for name, instead in (absent or {}).items()}

    def parse(self, text: str) -> str:
        """Read one of the names, and return it as declared."""
        folded = _folded(text)
        if folded in self._names:
            return self._names[folded]
        if folded in self._absent:
            raise ValueError(self._absent[folded])
        raise ValueError(f"must be {self.name}")


class LevelType(ChoiceType):
    """A level of logging, also by Flink's names."""

    def __init__(self) -> None:
        super().__init__(
            "DEBUG",
            "INFO",
            "WARNING",
            "ERROR",
            "CRITICAL",
            "OFF",
            aliases={"TRACE": "DEBUG", "ALL": "DEBUG", "WARN": "WARNING", "FATAL": "CRITICAL"},
        )


class ListType(ValueType[tuple[str, ...]]):
    """Texts."""

    name = "list, as in `a;b` or `[a, b]`"

    def parse(self, text: str) -> tuple[str, ...]:
        """Read texts in either form."""
        return tuple(split_list(text))

    def text(self, value: Any) -> str:
        """Return the texts, separated by semicolons."""
        return ";".join(value)


class MapType(ValueType[dict[str, str]]):
    """Keys with values."""

    name = "map, as in `a:b,c:d`"

    def parse(self, text: str) -> dict[str, str]:
        """Read keys and values in either form."""
        try:
            return split_map(text)
        except ValueError as error:
            raise ValueError(f"must be a {self.name}: {error}") from None

    def text(self, value: Any) -> str:
        """Return the keys and values, quoted if necessary."""
        return join_map(value)


class ParallelismsType(ValueType[dict[str, int]]):
    """Ids of vertices with their parallelism."""

    name = "map of ids of vertices to their parallelism, as in `a:2,b:4`"

    def parse(self, text: str) -> dict[str, int]:
        """Read ids and numbers."""
        number = IntegerType(1)
        return {key: number.parse(value) for key, value in MapType().parse(text).items()}

    def text(self, value: Any) -> str:
        """Return the ids and numbers."""
        return join_map({key: str(one) for key, one in value.items()})


class LevelsType(MapType):
    """Names of loggers with their levels."""

    name = "map of loggers to levels, as in `a:DEBUG,b.c:WARN`"

    def parse(self, text: str) -> dict[str, str]:
        """Read loggers and levels."""
        return {name: LevelType().parse(level) for name, level in super().parse(text).items()}


class FoldersType(ValueType[tuple[str, ...]]):
    """Folders."""

    name = "folders, separated by a comma, colon or bar"

    def parse(self, text: str) -> tuple[str, ...]:
        """Read the folders, at least one."""
        folders = tuple(filter(None, (part.strip() for part in _FOLDERS.split(text))))
        if not folders:
            raise ValueError(f"must be {self.name}")
        return folders

    def text(self, value: Any) -> str:
        """Return the folders, separated by commas."""
        return ",".join(value)


class LocalFoldersType(FoldersType):
    """Folders of the machine, by absolute paths or as ``file:`` URLs."""

    name = "folders, absolute paths or `file:` URLs, separated by a comma, colon or bar"

    def parse(self, text: str) -> tuple[str, ...]:
        """Read the paths of the folders, at least one."""
        # The colon after a scheme is not a separator.
        found = tuple(match[0].strip() for match in _LOCAL_FOLDERS.finditer(text))
        folders = tuple(local_folder(folder) for folder in found if folder)
        if not folders:
            raise ValueError(f"must be {self.name}")
        return folders


def local_folder(text: str) -> str:
    """Return the path of a folder, from a path or a ``file:`` URL.

    Raises:
        ValueError: The path is relative, or belongs to another file system.
    """
    scheme, colon, rest = text.partition(":")
    path = text
    if colon and _SCHEME.fullmatch(scheme):
        if scheme.lower() != "file":
            raise ValueError(f"{text!r} has the scheme {scheme!r}: only local folders can be used")
        # As in Flink: a host is ignored, and nothing is decoded.
        path = rest if not rest.startswith("//") else "/" + rest[2:].partition("/")[2]
    if not path.startswith("/"):
        raise ValueError(f"{text!r} is relative: write an absolute path or a file: URL")
    return path.rstrip("/") or "/"


class PortRangeType(ValueType[tuple[int, ...]]):
    """Ports, in the order in which they are tried."""

    name = "port, range of ports or list of both, as in `50100-50200,0`"

    def parse(self, text: str) -> tuple[int, ...]:
        """Read ports; 0 stands for any free port."""
        ports: list[int] = []
        for part in text.split(","):
            match = _PORTS.fullmatch(part.strip())
            first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
            if not 0 <= first <= last <= _GREATEST_PORT:
                raise ValueError(f"must be a {self.name}, from 0 to {_GREATEST_PORT}")
            ports += range(first, last + 1)
        return tuple(ports)

    def text(self, value: Any) -> str:
        """Return the ports, one by one, or the original text."""
        return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def parse_memory_bytes(text: str) -> int | None:
    """Return the bytes of a text such as "64 mb"; None if it is not an amount of memory."""
    match = _SIZE.fullmatch(text.strip())
    shift = _SIZE_SHIFTS.get(match[2].lower()) if match else None
    return None if match is None or shift is None else int(match[1]) << shift


def _range(what: str, least: object, greatest: object) -> str:
    if greatest is None:
        return what if least is None or least == -INFINITE - 1 else f"{what} from {least}"
    return f"{what} from {0 if least is None else least} to {greatest}"


def _folded(text: str) -> str:
    return text.strip().lower().replace("_", "-")
