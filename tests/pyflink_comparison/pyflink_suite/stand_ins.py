"""Stand-ins for the modules of PyFlink that its own tests use and penstock lacks.

The tests read results from sinks in Java, and many read Java objects.  The sinks are written in
Python here; the use of any other Java object raises `NeedsJavaError`, which the runner counts as a
verdict, not as a failure.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import pickle
import shutil
import sys
import tempfile
import types
import unittest
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import cloudpickle
import penstock.as_pyflink  # noqa: F401 - from here on `pyflink` means penstock
from penstock.common import Configuration
from penstock.common.watermark_strategy import TimestampAssigner
from penstock.datastream import (
    DataStream,
    RuntimeExecutionMode,
    SinkFunction,
    StreamExecutionEnvironment,
)
from penstock.taskexecutor.sinks import element_text

_SIZE = 4
"""The size in front of a written record, in bytes."""


class NeedsJavaError(Exception):
    """A test uses a Java object."""


class _Java:
    """A name in Java; the tests may pass it around, but neither call nor read it."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> _Java:
        if name.startswith("__"):
            raise AttributeError(name)
        return _Java(f"{self._path}.{name}")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NeedsJavaError(self._path)

    __iter__ = __len__ = __getitem__ = __eq__ = __bool__ = __call__  # type: ignore[assignment]
    __add__ = __radd__ = __call__
    __hash__ = object.__hash__


def _needs_java(name: str) -> Any:
    def refuse(*args: Any, **kwargs: Any) -> NoReturn:
        raise NeedsJavaError(name)

    return refuse


class _JavaConfiguration:
    """The configuration of an environment with the methods of Java's that tests call."""

    def __init__(self, configuration: Configuration) -> None:
        self.configuration = configuration

    def setString(self, key: str, value: str) -> None:
        self.configuration.set_string(key, value)

    def getString(self, key: str, default: str | None = None) -> str | None:
        return self.configuration.get_string(key, default)

    def removeKey(self, key: str) -> bool:
        return self.configuration.remove_config(key)

    def __getattr__(self, name: str) -> NoReturn:
        raise NeedsJavaError(f"Configuration.{name}")


class _JavaEnvironment:
    """The environment whose configuration the tests request from Java."""

    def __init__(self, environment: StreamExecutionEnvironment) -> None:
        self.configuration = environment.get_configuration()

    def __getattr__(self, name: str) -> NoReturn:
        raise NeedsJavaError(f"StreamExecutionEnvironment.{name}")


def _patch_configurations() -> None:
    """Let configurations and environments stand in for those in Java."""
    create = Configuration.__init__

    def initialize(
        self: Configuration,
        other: Configuration | None = None,
        j_configuration: _JavaConfiguration | None = None,
    ) -> None:
        create(self, other)
        if j_configuration is not None:
            self._values = j_configuration.configuration._values

    Configuration.__init__ = initialize  # type: ignore[assignment, method-assign]
    StreamExecutionEnvironment._j_stream_execution_environment = property(  # type: ignore[attr-defined]
        _JavaEnvironment
    )


class DataStreamTestSinkFunction(SinkFunction):
    """A sink whose records the tests read after the job."""

    folder = ""

    def __init__(self) -> None:
        self._path = os.path.join(self.folder, uuid.uuid4().hex)
        self._declared: Any = None

    def invoke(self, value: Any, context: SinkFunction.Context) -> None:
        del context
        written = pickle.dumps(value)
        with open(self._path, "ab", buffering=0) as file:  # whole elements, of several subtasks
            file.write(len(written).to_bytes(_SIZE, "little") + written)

    def get_results(self, is_python_object: bool = False, stringify: bool = True) -> list[Any]:
        """Return the records: in Java's text, in Python's, or unchanged."""
        values = self._elements()
        self.clear()
        if is_python_object:
            return list(map(str, values)) if stringify else values
        context: Any = SimpleNamespace(config=SimpleNamespace(input_types=(self._declared,)))
        return list(map(element_text.text_of_elements(context), values))

    def clear(self) -> None:
        """Forget the records."""
        Path(self._path).unlink(missing_ok=True)

    def _elements(self) -> list[Any]:
        try:
            content = Path(self._path).read_bytes()
        except FileNotFoundError:
            return []
        values, position = [], 0
        while position < len(content):
            size = int.from_bytes(content[position : position + _SIZE], "little")
            position += _SIZE + size
            values.append(pickle.loads(content[position - size : position]))
        return values


def _patch_sinks() -> None:
    """Set the type of the stream in the test's sink, which determines the text in Java."""
    add = DataStream.add_sink

    def add_sink(self: DataStream[Any], sink_func: SinkFunction) -> Any:
        if isinstance(sink_func, DataStreamTestSinkFunction):
            sink_func._declared = self.get_type()
        return add(self, sink_func)

    DataStream.add_sink = add_sink  # type: ignore[method-assign]


class SecondColumnTimestampAssigner(TimestampAssigner):
    """Uses the second field as the timestamp."""

    def extract_timestamp(self, value: Any, record_timestamp: int) -> int:
        del record_timestamp
        return int(value[1])


class PyFlinkTestCase(unittest.TestCase):
    """A case with a temporary folder."""

    tempdir: str

    @classmethod
    def setUpClass(cls) -> None:
        cls.tempdir = DataStreamTestSinkFunction.folder = tempfile.mkdtemp()

    @classmethod
    def tearDownClass(cls) -> None:
        shutil.rmtree(cls.tempdir, ignore_errors=True)


class _JobTestCase(PyFlinkTestCase):
    """A case with an environment of its own."""

    mode = RuntimeExecutionMode.STREAMING

    def setUp(self) -> None:
        self.env = StreamExecutionEnvironment.get_execution_environment()
        self.env.set_parallelism(2)
        self.env.set_runtime_mode(self.mode)


class PyFlinkStreamingTestCase(_JobTestCase):
    """A case whose jobs run in STREAMING mode."""


class PyFlinkBatchTestCase(_JobTestCase):
    """A case whose jobs run in BATCH mode."""

    mode = RuntimeExecutionMode.BATCH


class PythonAPICompletenessTestCase:
    """A case that compares the methods of a class with those of Java's."""

    def test_completeness(self) -> NoReturn:
        raise NeedsJavaError("Class.getMethods")


def _module(name: str, **content: Any) -> types.ModuleType:
    module = types.ModuleType(name)
    vars(module).update(content)
    return module


def _java_utils() -> types.ModuleType:
    from pyflink.util import java_utils

    names = [name for name in vars(java_utils) if not name.startswith("_")]
    content = {name: _needs_java(name) for name in names}
    content["get_j_env_configuration"] = lambda environment: _JavaConfiguration(
        environment.configuration
    )
    return _module(java_utils.__name__, **content)


def _modules() -> dict[str, types.ModuleType]:
    testing = _module("pyflink.testing", __path__=[])
    cases = _module(
        "pyflink.testing.test_case_utils",
        PyFlinkTestCase=PyFlinkTestCase,
        PyFlinkUTTestCase=PyFlinkStreamingTestCase,
        PyFlinkStreamingTestCase=PyFlinkStreamingTestCase,
        PyFlinkBatchTestCase=PyFlinkBatchTestCase,
        PythonAPICompletenessTestCase=PythonAPICompletenessTestCase,
        exec_insert_table=_insert,
        invoke_java_object_method=_needs_java("invoke_java_object_method"),
        to_java_data_structure=_needs_java("to_java_data_structure"),
        _load_specific_flink_module_jars=lambda jars: None,
        run_with_config=_run_with_config,
    )
    sinks = _module(
        "pyflink.datastream.tests.test_util",
        DataStreamTestSinkFunction=DataStreamTestSinkFunction,
        SecondColumnTimestampAssigner=SecondColumnTimestampAssigner,
    )
    gateway = _module("pyflink.java_gateway", get_gateway=lambda: SimpleNamespace(jvm=_Java("jvm")))
    server = _module(
        "pyflink.pyflink_gateway_server",
        on_windows=lambda: False,
        get_log_dir=_needs_java("the log directory of PyFlink's gateway"),
        prepare_environment_variables=_needs_java("the log directory of PyFlink's gateway"),
    )
    home = _module(
        "pyflink.find_flink_home",
        _find_flink_source_root=_needs_java("the source of Flink"),
        _find_flink_home=_needs_java("Flink's distribution"),
    )
    found = [testing, cases, sinks, gateway, server, home, _java_utils()]
    return {module.__name__: module for module in found}


def _insert(table: Any, path: str) -> Any:
    """Insert a table into another one, and return the result of the job."""
    return table.execute_insert(path).get_job_client().get_job_execution_result().result()


def _run_with_config(options: dict[str, str]) -> Any:
    """Return a decorator that sets options of a test's environment."""

    def decorate(test: Any) -> Any:
        def run(self: Any) -> None:
            for key, value in options.items():
                self.env.get_configuration().set_string(key, value)
            test(self)

        return run

    return decorate


class _SuiteFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds the stand-ins, and the tests in the folder of PyFlink's source."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._modules = _modules()

    def find_spec(
        self, fullname: str, path: Any = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        del path, target
        if fullname in self._modules:
            return importlib.machinery.ModuleSpec(fullname, self)
        parts = fullname.split(".")
        if parts[0] != "pyflink" or "tests" not in parts:
            return None
        file = self._folder.joinpath(*parts)
        if file.is_dir():
            return importlib.util.spec_from_file_location(
                fullname, file / "__init__.py", submodule_search_locations=[str(file)]
            )
        return importlib.util.spec_from_file_location(fullname, file.with_suffix(".py"))

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        return self._modules[spec.name]

    def exec_module(self, module: types.ModuleType) -> None:
        """Do nothing: the stand-in exists already."""


def _add_private_names() -> None:
    """Add the conversions from Java that the tests import by their private names."""
    from penstock.common import typeinfo
    from penstock.datastream import state_backend

    typeinfo._from_java_type = _needs_java("_from_java_type")  # type: ignore[attr-defined]
    state_backend._from_j_state_backend = _needs_java("state backend")  # type: ignore[attr-defined]


def install(folder: Path) -> None:
    """Make the imports of the tests below ``folder``, which contains ``pyflink``, work."""
    import pyflink
    from pyflink.table import types as table_types

    table_types._to_java_data_type = _needs_java("_to_java_data_type")
    sys.meta_path.insert(0, _SuiteFinder(folder))
    sys.modules.pop("pyflink.util.java_utils", None)
    # Workers cannot import the tests.
    cloudpickle.register_pickle_by_value(pyflink)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    _add_private_names()
    _patch_configurations()
    _patch_sinks()
