"""Options of the environment of user code on the workers."""

from typing import Final

from penstock.common.options.option import Option
from penstock.common.options.value_types import BooleanType, ListType, TextType

CACHED_FILES: Final = Option(
    "pipeline.cached-files",
    ListType(),
    (),
    "files for the workers, as `name:n,path:p;…`; set by `register_cached_file`",
)
FILES: Final = Option(
    "python.files",
    TextType(),
    "",
    "files and folders for the workers' module search path, separated by commas; set by "
    "`add_python_file`",
)
ARCHIVES: Final = Option(
    "python.archives",
    TextType(),
    "",
    "archives to unpack in the workers' working directory, as `path#folder`, separated by commas; "
    "set by `add_python_archive`",
)
REQUIREMENTS: Final[Option[str | None]] = Option(
    "python.requirements",
    TextType(),
    None,
    "a requirements file, and after a `#` the folder of its packages; set by "
    "`set_python_requirements`",
)
EXECUTABLE: Final[Option[str | None]] = Option(
    "python.executable",
    TextType(),
    None,
    "the interpreter of the workers; set by `set_python_executable`",
)
CLIENT_EXECUTABLE: Final[Option[str | None]] = Option(
    "python.client.executable",
    TextType(),
    None,
    "the interpreter under which `penstock run` runs the program",
    default_text="that of `penstock`",
)
PYTHON_PATH: Final = Option(
    "python.pythonpath",
    TextType(),
    "",
    "folders on the workers' machines for their module search path, separated by colons; they "
    "follow Python files and requirements",
)
JARS: Final = Option(
    "pipeline.jars",
    ListType(),
    (),
    "jars, which no job needs: one line in the log names them; set by `add_jars`",
)
CLASSPATHS: Final = Option(
    "pipeline.classpaths",
    ListType(),
    (),
    "URLs of jars, as above; set by `add_classpaths`",
)
SHIP_PROGRAM: Final = Option(
    "penstock.ship-program-folder",
    BooleanType(),
    default=True,
    meaning="send the modules beside the program to Spark executors on other hosts",
)
OPERATOR_CHAINING: Final = Option(
    "python.operator-chaining.enabled",
    BooleanType(),
    default=True,
    meaning="pass values within a chain as they are; with false, convert them to the declared type",
)
EVALUATE_FUNCTIONS: Final = Option(
    "penstock.evaluate-functions",
    BooleanType(),
    default=True,
    meaning="evaluate functions that only compute, instead of calling them",
)
