"""PlanReference: a place from which a compiled plan is loaded."""

from __future__ import annotations

from pathlib import Path

from penstock.common.calls.missing_methods import MissingMethods

__all__ = ["FilePlanReference", "JsonContentPlanReference", "PlanReference"]


class PlanReference(MissingMethods):
    """A file or a text with a compiled plan, for `TableEnvironment.load_plan`.

    Args:
        source: The path or URL of the file, or the text.
    """

    def __init__(self, source: str) -> None:
        self._source = source

    @staticmethod
    def from_file(path: str | Path) -> FilePlanReference:
        """Return the reference of a file."""
        return FilePlanReference(str(path))

    @staticmethod
    def from_json_string(json_string: str) -> JsonContentPlanReference:
        """Return the reference of a text in JSON."""
        return JsonContentPlanReference(json_string)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and str(other) == str(self)

    def __hash__(self) -> int:
        return hash(self._source)

    def __str__(self) -> str:
        return self._source


class FilePlanReference(PlanReference):
    """A file with a compiled plan."""

    def get_file(self) -> Path:
        """Return the path of the file."""
        return Path(self._source)


class JsonContentPlanReference(PlanReference):
    """A compiled plan as text."""

    def get_content(self) -> str:
        """Return the text."""
        return self._source
