"""EnvironmentSettings: the settings of a table environment."""

from __future__ import annotations

from dataclasses import dataclass, field

from penstock.common.calls.missing_methods import MissingMethods
from penstock.common.configuration import Configuration
from penstock.common.options import pipeline

__all__ = ["EnvironmentSettings"]

_RUNTIME_MODE = pipeline.RUNTIME_MODE.key


@dataclass(frozen=True)
class EnvironmentSettings:
    """The mode of a table environment, the names of its built-in catalog, and options.

    Attributes:
        streaming: Whether results are updated as rows arrive; otherwise queries run on bounded
            tables and return their final rows.
        catalog_name: The name of the built-in catalog.
        database_name: The name of its database.
        configuration: The other options.
    """

    streaming: bool = True
    catalog_name: str = "default_catalog"
    database_name: str = "default_database"
    configuration: Configuration = field(default_factory=Configuration)

    def get_built_in_catalog_name(self) -> str:
        """Return the name of the built-in catalog."""
        return self.catalog_name

    def get_built_in_database_name(self) -> str:
        """Return the name of the built-in database."""
        return self.database_name

    def is_streaming_mode(self) -> bool:
        """Return whether results are updated as rows arrive."""
        return self.streaming

    def get_configuration(self) -> Configuration:
        """Return the options, including the mode."""
        configuration = Configuration(self.configuration)
        configuration.set_string(_RUNTIME_MODE, "STREAMING" if self.streaming else "BATCH")
        return configuration

    @staticmethod
    def new_instance() -> EnvironmentSettings.Builder:
        """Return a builder of settings."""
        return EnvironmentSettings.Builder()

    @staticmethod
    def in_streaming_mode() -> EnvironmentSettings:
        """Return the settings of streaming mode."""
        return EnvironmentSettings.new_instance().in_streaming_mode().build()

    @staticmethod
    def in_batch_mode() -> EnvironmentSettings:
        """Return the settings of batch mode."""
        return EnvironmentSettings.new_instance().in_batch_mode().build()

    class Builder(MissingMethods):
        """Builder of settings."""

        def __init__(self) -> None:
            self._streaming: bool | None = None
            self._catalog = "default_catalog"
            self._database = "default_database"
            self._configuration = Configuration()

        def with_configuration(self, config: Configuration) -> EnvironmentSettings.Builder:
            """Add options."""
            self._configuration.add_all(config)
            return self

        def in_batch_mode(self) -> EnvironmentSettings.Builder:
            """Select batch mode: queries run on bounded tables and return their final rows."""
            self._streaming = False
            return self

        def in_streaming_mode(self) -> EnvironmentSettings.Builder:
            """Select streaming mode: results are updated as rows arrive."""
            self._streaming = True
            return self

        def with_built_in_catalog_name(
            self, built_in_catalog_name: str
        ) -> EnvironmentSettings.Builder:
            """Set the name of the built-in catalog."""
            self._catalog = built_in_catalog_name
            return self

        def with_built_in_database_name(
            self, built_in_database_name: str
        ) -> EnvironmentSettings.Builder:
            """Set the name of the built-in database."""
            self._database = built_in_database_name
            return self

        def build(self) -> EnvironmentSettings:
            """Return the settings; without a chosen mode, the options' mode applies."""
            streaming = self._streaming
            if streaming is None:
                mode = self._configuration.get_string(_RUNTIME_MODE, "STREAMING")
                streaming = (mode or "STREAMING").upper() != "BATCH"
            return EnvironmentSettings(
                streaming, self._catalog, self._database, self._configuration
            )
