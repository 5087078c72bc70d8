"""Options of what user code finds on the workers."""

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import ListType, TextType

_NOT_SHIPPED: Final = "workers do not get the program's dependencies yet"

CACHED_FILES: Final = Option(
    "pipeline.cached-files",
    ListType(),
    (),
    "files for the workers, as `name:n,path:p;…`; set by `register_cached_file`",
    awaits=_NOT_SHIPPED,
)
FILES: Final = Option(
    "python.files",
    TextType(),
    "",
    "files and folders for the workers' module search path, separated by commas; set by "
    "`add_python_file`",
    awaits=_NOT_SHIPPED,
)
ARCHIVES: Final = Option(
    "python.archives",
    TextType(),
    "",
    "archives for the workers' working directory, separated by commas; set by `add_python_archive`",
    awaits=_NOT_SHIPPED,
)
REQUIREMENTS: Final[Option[str | None]] = Option(
    "python.requirements",
    TextType(),
    None,
    "the packages that the workers need; set by `set_python_requirements`",
    awaits=_NOT_SHIPPED,
)
EXECUTABLE: Final[Option[str | None]] = Option(
    "python.executable",
    TextType(),
    None,
    "the interpreter of the workers; set by `set_python_executable`",
    awaits=_NOT_SHIPPED,
)
