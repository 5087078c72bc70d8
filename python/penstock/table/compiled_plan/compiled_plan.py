"""CompiledPlan: a statement with its tables and operator ids, which can be stored and executed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.checkpoint_storage.file_systems import FileSystems
from penstock.common.calls.missing_methods import MissingMethods
from penstock.table.compiled_plan.compilation import compiled, planned
from penstock.table.compiled_plan.stored_plan import StoredPlan
from penstock.table.exceptions import TableException
from penstock.table.options.table_options import PLAN_RECOMPILE
from penstock.table.plan_reference import FilePlanReference

if TYPE_CHECKING:
    from pathlib import Path

    from penstock.checkpoint_storage.file_systems import FileSystem
    from penstock.table.plan_reference import PlanReference
    from penstock.table.table_context import TableContext
    from penstock.table.table_result.table_result import TableResult


class CompiledPlan(MissingMethods):
    """A compiled statement; created by `TableEnvironment.compile_plan_sql` and `load_plan`.

    The statement is planned again when it is executed. If that yields other operators than those of
    the plan, so that state of a savepoint would not be found, the plan is rejected.

    Args:
        plan: The content.
        environment: The environment.
    """

    def __init__(self, plan: StoredPlan, environment: TableContext) -> None:
        self._plan = plan
        self._environment = environment

    @staticmethod
    def of(statement: str, environment: TableContext) -> CompiledPlan:
        """Return the plan of a statement (beyond PyFlink).

        Raises:
            TableException: The statement is invalid, or the plan cannot be stored.
        """
        return CompiledPlan(compiled(environment, statement), environment)

    @staticmethod
    def loaded(reference: PlanReference, environment: TableContext) -> CompiledPlan:
        """Return the plan of a reference, after a check that it fits (beyond PyFlink).

        Raises:
            TableException: The plan cannot be read, or does not fit.
        """
        text, origin = str(reference), "The text"
        if isinstance(reference, FilePlanReference):
            origin = f"The file {text}"
            try:
                text = _files(text, environment).read(text).decode()
            except (OSError, UnicodeDecodeError) as error:
                raise TableException(f"The plan {text} cannot be read: {error}") from error
        made = CompiledPlan(StoredPlan.from_json(text, origin), environment)
        planned(environment, made._plan)
        return made

    def as_json_string(self) -> str:
        """Return the plan as text in JSON."""
        return self._plan.to_json()

    def print_json_string(self) -> None:
        """Write the plan to standard output, in JSON."""
        print(self.as_json_string(), flush=True)

    def write_to_file(self, file: str | Path, ignore_if_exists: bool = False) -> None:
        """Write the plan to a file.

        Args:
            file: The path or URL.
            ignore_if_exists: Whether an existing file is kept, without an error.

        Raises:
            TableException: The file exists, or cannot be written.
        """
        path = str(file)
        files = _files(path, self._environment)
        try:
            if files.exists(path) and not is_recompiled(self._environment):
                if ignore_if_exists:
                    return
                raise TableException(
                    f"Cannot overwrite the plan file '{path}'. Either manually remove the file or, "
                    f"if you're debugging your job, set the option '{PLAN_RECOMPILE}' to true."
                )
            folder, _, name = path.rpartition("/")
            if folder and name:
                files.make_directory(folder)
            files.publish(path, self.as_json_string().encode())
        except OSError as error:
            raise TableException(f"The plan file '{path}' cannot be written: {error}") from error

    def get_flink_version(self) -> str:
        """Return the version of penstock that compiled the plan."""
        return self._plan.version

    def execute(self) -> TableResult:
        """Start the job.

        Raises:
            TableException: The plan does not fit the environment.
        """
        scope, sinks = planned(self._environment, self._plan)
        return scope.jobs.insert(sinks)

    def explain(self, *extra_details: int) -> str:
        """Return the plan as text, as ``explain`` of a table does."""
        scope, sinks = planned(self._environment, self._plan)
        return scope.explain_nodes(sinks, extra_details)

    def print_explain(self, *extra_details: int) -> None:
        """Write the plan to standard output, as ``explain`` shows it."""
        print(self.explain(*extra_details), flush=True)

    def __str__(self) -> str:
        return self.as_json_string()


def is_recompiled(environment: TableContext) -> bool:
    """Return whether existing plan files are overwritten."""
    return (environment.get_config().get(PLAN_RECOMPILE, "false") or "").lower() == "true"


def plan_exists(path: str, environment: TableContext) -> bool:
    """Return whether there is a plan file that is not to be overwritten.

    Raises:
        TableException: The path cannot be looked up.
    """
    try:
        return _files(path, environment).exists(path) and not is_recompiled(environment)
    except OSError as error:
        raise TableException(f"The plan {path} cannot be read: {error}") from error


def _files(path: str, environment: TableContext) -> FileSystem:
    # Options of tables may contain passwords.
    return FileSystems(environment.get_config().to_map(), is_private=True).of(path)
