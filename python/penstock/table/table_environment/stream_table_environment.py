"""StreamTableEnvironment: tables on top of a stream environment."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.common.options import pipeline
from penstock.errors import WrongArgumentError
from penstock.table.environment_settings import EnvironmentSettings
from penstock.table.table.table import Table
from penstock.table.table_config import TableConfig
from penstock.table.table_environment.table_environment import TableEnvironment

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penstock.common.typeinfo import TypeInformation
    from penstock.common.types import Row
    from penstock.datastream.data_stream import DataStream
    from penstock.datastream.stream_execution_environment import StreamExecutionEnvironment
    from penstock.table.plan.nodes import Sink
    from penstock.table.schema.schema import Schema

__all__ = ["StreamTableEnvironment"]

T = TypeVar("T")


class StreamTableEnvironment(TableEnvironment):
    """A table environment on top of a stream environment, with conversions to and from streams.

    Args:
        settings: The mode and the built-in catalog.
        environment: The stream environment.
    """

    def __init__(
        self, settings: EnvironmentSettings, environment: StreamExecutionEnvironment
    ) -> None:
        super().__init__(settings, environment.get_configuration())
        self._stream_environment = environment

    @staticmethod
    def create(  # type: ignore[override]
        stream_execution_environment: StreamExecutionEnvironment | None = None,
        environment_settings: EnvironmentSettings | None = None,
    ) -> StreamTableEnvironment:
        """Return an environment.

        Args:
            stream_execution_environment: The stream environment.
            environment_settings: The settings; by default the mode of the stream environment.

        Raises:
            WrongArgumentError: The settings are of another class.
        """
        options = None
        given: Any = environment_settings
        if isinstance(given, TableConfig):
            import_module("penstock.flink_1").say_once(
                "a TableConfig in StreamTableEnvironment.create", "set options of get_config()"
            )
            options, environment_settings = given.get_configuration(), None
        elif given is not None and not isinstance(given, EnvironmentSettings):
            raise WrongArgumentError(
                f"environment_settings is EnvironmentSettings, got {given!r} of type "
                f"{type(given).__name__}"
            )
        if stream_execution_environment is None:
            from penstock.datastream.stream_execution_environment import (
                StreamExecutionEnvironment,
            )

            stream_execution_environment = StreamExecutionEnvironment.get_execution_environment()
        settings = environment_settings
        if settings is None:
            configuration = stream_execution_environment.get_configuration()
            mode = configuration.get_string(pipeline.RUNTIME_MODE.key, "STREAMING") or ""
            settings = EnvironmentSettings(streaming=mode.upper() != "BATCH")
        made = StreamTableEnvironment(settings, stream_execution_environment)
        made._config.add_configuration(settings.configuration)
        if options is not None:
            made._config.add_configuration(options)
        return made

    @property
    def stream_environment(self) -> StreamExecutionEnvironment:
        """The underlying stream environment (beyond PyFlink)."""
        return self._stream_environment

    def create_temporary_view(
        self,
        view_path: str,
        table_or_data_stream: Any,
        *fields_or_schema: Any,
        ignore_if_exists: bool = False,
    ) -> None:
        """Register a table or a stream under a name, so that SQL can read it.

        Args:
            view_path: The name.
            table_or_data_stream: The table, or a stream.
            fields_or_schema: The columns of a stream; see `from_data_stream`.
            ignore_if_exists: Whether an existing name is accepted.

        Raises:
            ValidationException: The name is taken.
        """
        table = table_or_data_stream
        if not isinstance(table, Table):
            table = self.from_data_stream(table, *fields_or_schema)
        self._create_view(view_path, table, True, ignore_if_exists)

    def from_data_stream(self, data_stream: Any, *fields_or_schema: Any) -> Table:
        """Return a table of the records of a stream.

        Args:
            data_stream: The stream.
            fields_or_schema: A `Schema`, whose physical columns are fields by name; or columns
                as expressions, by position or by name.
        """
        from penstock.table.table_environment.stream_conversion import table_of_stream

        return table_of_stream(self, data_stream, fields_or_schema)

    def from_changelog_stream(
        self, data_stream: Any, schema: Schema | None = None, changelog_mode: Any = None
    ) -> Table:
        """Return a table from rows whose kinds describe its changes.

        Args:
            data_stream: The stream of Rows.
            schema: The columns; by default those of the stream's type.
            changelog_mode: The possible row kinds; all by default.
        """
        from penstock.table.table_environment.stream_conversion import table_of_changes

        return table_of_changes(self, data_stream, schema, changelog_mode)

    def to_data_stream(self, table: Table) -> DataStream[Row]:
        """Return the rows of an append-only table as a stream of Rows.

        Raises:
            TableException: The table updates.
        """
        from penstock.table.table_environment.stream_conversion import stream_of_table

        return stream_of_table(self, table)

    def to_changelog_stream(
        self, table: Table, target_schema: Schema | None = None, changelog_mode: Any = None
    ) -> DataStream[Row]:
        """Return the changes of a table as a stream of Rows with their kinds.

        Raises:
            TableException: The mode does not include all row kinds of the table.
        """
        from penstock.table.table_environment.stream_conversion import changes_of_table

        return changes_of_table(self, table, target_schema, changelog_mode)

    def to_append_stream(self, table: Table, type_info: TypeInformation[T]) -> DataStream[T]:
        """Return the rows of an append-only table as a stream of a type.

        Raises:
            TableException: The table updates.
        """
        from penstock.table.table_environment.stream_conversion import appended_stream

        return appended_stream(self, table, type_info)

    def to_retract_stream(
        self, table: Table, type_info: TypeInformation[T]
    ) -> DataStream[tuple[bool, T]]:
        """Return the changes of a table as pairs: True and a new row, or False and an old one."""
        from penstock.table.table_environment.stream_conversion import retracted_stream

        return retracted_stream(self, table, type_info)

    def attach(self, sinks: Sequence[Sink]) -> None:
        """Add insertions to the stream environment's next job (beyond PyFlink)."""
        self.jobs.add_sinks(sinks, self._stream_environment)
