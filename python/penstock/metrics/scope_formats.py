"""Names of metrics for reporters without variables: Flink's scope formats.

A format is text with variables in brackets, such as ``<host>.taskmanager.<tm_id>``; one that begins
with ``*`` extends that of the enclosing scope.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from penstock.common.options import metrics as options
from penstock.errors import ConfigurationError

if TYPE_CHECKING:
    from collections.abc import Mapping

_VARIABLE: Final = re.compile(r"<([^<>]*)>")
_DRIVER: Final = frozenset({"host"})
_JOB: Final = frozenset({"job_id", "job_name"})
_WORKER: Final = frozenset({"host", "tm_id"})
_TASK: Final = _WORKER | _JOB | {"task_id", "task_name", "subtask_index", "task_attempt_num"}

KINDS: Final = {
    ("jobmanager",): (options.SCOPE_DRIVER, None, _DRIVER),
    ("jobmanager", "job"): (options.SCOPE_DRIVER_JOB, ("jobmanager",), _DRIVER | _JOB),
    ("taskmanager",): (options.SCOPE_WORKER, None, _WORKER),
    ("taskmanager", "job", "task"): (options.SCOPE_TASK, ("taskmanager",), _TASK),
    ("taskmanager", "job", "task", "operator"): (
        options.SCOPE_OPERATOR,
        ("taskmanager", "job", "task"),
        _TASK | {"operator_name"},
    ),
}
"""By logical scope: the option, the enclosing scope, and the available variables."""


class ScopeFormats:
    """The configured formats.

    Attributes:
        delimiter: The separator of the parts of a name.
    """

    def __init__(self, configuration: Mapping[str, str]) -> None:
        """Read the options.

        Raises:
            ConfigurationError: A format has an unknown variable; names the key.
        """
        self.delimiter = options.SCOPE_DELIMITER.read(configuration)
        self._formats: dict[tuple[str, ...], tuple[str, ...]] = {}
        texts = (
            options.SCOPE_DRIVER.read(configuration),
            options.SCOPE_DRIVER_JOB.read(configuration),
            options.SCOPE_WORKER.read(configuration),
            options.SCOPE_TASK.read(configuration),
            options.SCOPE_OPERATOR.read(configuration),
        )
        for text, (logical, (option, parent, variables)) in zip(texts, KINDS.items(), strict=True):
            parts = tuple(text.split("."))
            if parts[0] == "*":
                parts = ((*self._formats[parent],) if parent is not None else ()) + parts[1:]
            for name in _VARIABLE.findall(".".join(parts)):
                if name not in variables:
                    raise ConfigurationError(
                        f"{option.key}: there is no variable <{name}> here, but "
                        + ", ".join(f"<{one}>" for one in sorted(variables))
                    )
            self._formats[logical] = parts

    def identifier(self, logical: tuple[str, ...], variables: Mapping[str, str]) -> tuple[str, ...]:
        """Return the parts of a scope's name, outermost first."""
        return tuple(
            _VARIABLE.sub(lambda found: variables[found[1]], part)
            for part in self._formats[logical]
        )
