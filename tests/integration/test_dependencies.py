"""Code and files of a program reach its workers complete, and are removed with the job.

Goal: `add_python_file` and related calls work on worker processes and, where possible, in the
program's own process; unavailable files are errors that name them.  Method: real jobs on the local
targets; functions report what they can import and read.
"""

import os
import stat
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest
from e2e.running import run_program
from penstock.common import Configuration, Encoder, Types, WatermarkStrategy
from penstock.datastream import MapFunction, StreamExecutionEnvironment
from penstock.datastream.connectors.file_system import FileSink, FileSource, StreamFormat
from penstock.errors import ConfigurationError, InvalidProgramError, NoResourceAvailableError


@pytest.fixture
def scratch(tmp_path, monkeypatch):
    """Yield the folder of blobs and job folders; it must be empty after the test."""
    folder = tmp_path / "scratch"
    folder.mkdir()
    yield folder
    assert sorted(folder.iterdir()) == []


@pytest.fixture
def environment(scratch):
    def make(target="local", parallelism=1, **options):
        configuration = Configuration()
        configuration.set_string("execution.target", target)
        configuration.set_string("io.tmp.dirs", str(scratch))
        for key, value in options.items():
            configuration.set_string(key.replace("_", "."), value)
        made = StreamExecutionEnvironment.get_execution_environment(configuration)
        made.set_parallelism(parallelism)
        return made

    return make


def results(env, function, values=("x",)):
    stream = env.from_collection(list(values)).rebalance().map(function)
    with stream.execute_and_collect() as found:
        return list(found)


def module(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return str(path)


def zipped(path, members, mode=0o644):
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in members.items():
            info = zipfile.ZipInfo(name)
            info.external_attr = (stat.S_IFREG | mode) << 16
            archive.writestr(info, text)
    return str(path)


def package_index(folder):
    """Return a folder with one wheel, `penstock-sample` 1.0, as `pip download` leaves it."""
    folder.mkdir()
    info = "penstock_sample-1.0.dist-info"
    with zipfile.ZipFile(folder / "penstock_sample-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("penstock_sample.py", "VALUE = 'from the wheel'\n")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: penstock-sample\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(
            f"{info}/RECORD", f"penstock_sample.py,,\n{info}/METADATA,,\n{info}/WHEEL,,\n"
        )
    return folder


def sees_modules(_):
    import alone_module
    import from_zip.inner
    import in_folder
    import on_the_worker
    import whole_package.part

    assert on_the_worker.VALUE == "there"
    return [
        alone_module.VALUE,
        from_zip.inner.VALUE,
        in_folder.VALUE,
        whole_package.part.VALUE,
        *(text.read_text() for path in sys.path for text in Path(path).glob("words.txt")),
    ]


sees_modules.__module__ = "__main__"  # pickled by value, like a program's own functions


@pytest.mark.parametrize("by", ["calls", "option"])
def test_python_files_are_importable(environment, tmp_path, by):
    """A module, a zip, a folder of modules, a package by name, a text, a folder on workers."""
    paths = [
        module(tmp_path / "code" / "alone_module.py", "VALUE = 'module'\n"),
        zipped(tmp_path / "packed.zip", {"from_zip/inner.py": "VALUE = 'zip'\n"}),
        str(Path(module(tmp_path / "modules" / "in_folder.py", "VALUE = 'folder'\n")).parent),
        str(Path(module(tmp_path / "whole_package" / "__init__.py", "")).parent),
        module(tmp_path / "texts" / "words.txt", "text"),
    ]
    module(tmp_path / "whole_package" / "part.py", "from . import __name__ as VALUE\n")
    module(tmp_path / "lib" / "on_the_worker.py", "VALUE = 'there'\n")
    env = environment(parallelism=2, python_pythonpath=f"/nowhere:{tmp_path / 'lib'}")
    if by == "calls":
        for path in paths:
            env.add_python_file(path)
    else:
        env.get_configuration().set_string("python.files", ",".join(paths))
    found = results(env, sees_modules, range(4))
    assert found == [["module", "zip", "folder", "whole_package", "text"]] * 4


def test_the_file_that_was_added_last_is_found_first(environment, tmp_path):
    """As in PyFlink; the other slots of the worker have the same files."""

    def which(_):
        import twice_there

        return twice_there.VALUE, os.getpid()

    env = environment(parallelism=3, taskmanager_numberOfTaskSlots="3")
    for name in ("one", "two"):
        env.add_python_file(module(tmp_path / name / "twice_there.py", f"VALUE = {name!r}\n"))
    found = results(env, which, range(9))
    assert {value for value, _ in found} == {"two"}
    assert len({pid for _, pid in found}) == 1


def test_workers_get_what_the_file_was_when_the_job_began(environment, tmp_path):
    """A later worker gets the snapshot, and creates the job's folder again from it."""
    path = Path(module(tmp_path / "changing_module.py", "VALUE = 'first'\n"))

    def fails_once(_):
        import changing_module

        marker = path.with_name("failed")
        if not marker.exists():
            marker.touch()
            path.write_text("VALUE = 'second'\n")
            os.kill(os.getpid(), 9)
        return changing_module.VALUE

    env = environment(
        **{"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "1 ms"}
    )
    env.add_python_file(str(path))
    assert results(env, fails_once) == ["first"]


def test_a_file_that_went_away_before_the_job_began(environment, tmp_path):
    path = Path(module(tmp_path / "gone.py", ""))
    env = environment()
    env.add_python_file(str(path))
    path.unlink()
    with pytest.raises(ConfigurationError, match=r"python.files: there is no file .*gone.py"):
        results(env, str)


@pytest.mark.parametrize("kind", ["zip", "tar.gz", "tar"])
def test_archives_are_unpacked_into_the_working_directory(environment, tmp_path, kind):
    """Under the given name, or the archive's own; scripts in them remain executable."""
    archive = tmp_path / f"data.{kind}"
    if kind == "zip":
        zipped(archive, {"inner/text.txt": "hello"}, 0o755)
    else:
        (tmp_path / "text.txt").write_text("hello")
        (tmp_path / "text.txt").chmod(0o755)
        with tarfile.open(archive, "w:gz" if kind == "tar.gz" else "w") as tar:
            tar.add(tmp_path / "text.txt", "inner/text.txt")

    def reads(_):
        return [
            (Path(name, "inner/text.txt").read_text(), os.access(f"{name}/inner/text.txt", os.X_OK))
            for name in ("named", f"data.{kind}")
        ]

    env = environment(parallelism=2)
    env.add_python_archive(str(archive), "named")
    env.add_python_archive(str(archive))
    assert results(env, reads, range(2)) == [[("hello", True)] * 2] * 2


def test_relative_files_are_those_of_the_program(environment, tmp_path, monkeypatch):
    """Even if archives give the workers a working directory of their own."""
    monkeypatch.chdir(tmp_path)
    Path("input.txt").write_text("a line\n")
    env = environment()
    env.add_python_archive(zipped(tmp_path / "data.zip", {"text": "x"}))
    lines = FileSource.for_record_stream_format(StreamFormat.text_line_format(), "input.txt")
    stream = env.from_source(lines.build(), WatermarkStrategy.no_watermarks(), "lines")
    stream.sink_to(FileSink.for_row_format("output", Encoder.simple_string_encoder()).build())
    env.execute()
    [part] = [path for path in (tmp_path / "output").rglob("*") if path.is_file()]
    assert part.read_text() == "a line\n"


class ReadsCached(MapFunction):
    def open(self, context):
        self.cache = context.get_distributed_cache()

    def map(self, name):
        path = self.cache.get_file(name)
        if path.is_dir():
            return sorted(entry.name for entry in path.iterdir())
        return path.read_text(), os.access(path, os.X_OK)


def test_cached_files(environment, tmp_path):
    """Files and folders under names; two names of the same content keep their own permissions."""
    plain = tmp_path / "it's, plain; text"
    plain.write_text("same")
    tool = tmp_path / "tool"
    tool.write_text("same")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a").touch()
    (folder / "b.zip").touch()
    env = environment()
    env.register_cached_file(plain.as_uri(), "plain")
    env.register_cached_file(str(tool), "tool", True)
    env.register_cached_file(str(folder), "folder")
    found = results(env, ReadsCached(), ["plain", "tool", "folder"])
    assert found == [("same", False), ("same", True), ["a", "b.zip"]]


def test_a_cached_file_that_nobody_registered(environment, tmp_path):
    env = environment()
    env.register_cached_file(__file__, "this")
    with pytest.raises(InvalidProgramError, match=r"no cached file 'that' .*: 'this'"):
        results(env, ReadsCached(), ["that"])


def test_requirements_from_a_folder_of_packages(environment, tmp_path):
    """Installed without an index, once for both workers, before the first record."""
    packages = package_index(tmp_path / "packages")
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("penstock-sample==1.0\n")

    def uses(_):
        import penstock_sample

        return penstock_sample.VALUE, penstock_sample.__file__

    env = environment(parallelism=2)
    env.set_python_requirements(str(requirements), str(packages))
    found = results(env, uses, range(4))
    assert {value for value, _ in found} == {"from the wheel"}
    assert len(set(found)) == 1


def test_requirements_that_cannot_be_installed(environment, tmp_path):
    packages = package_index(tmp_path / "packages")
    requirements = tmp_path / "requirements.txt"
    requirements.write_text("penstock-sample==2.0\n")
    env = environment()
    env.set_python_requirements(str(requirements), str(packages))
    with pytest.raises(NoResourceAvailableError, match=r"pip could not(.|\n)*penstock-sample==2.0"):
        results(env, str)


@pytest.fixture(scope="module")
def interpreter(tmp_path_factory):
    """Return a virtual environment that contains penstock and its dependencies."""
    folder = tmp_path_factory.mktemp("interpreter") / "env"
    venv.create(folder, symlinks=True)
    site = sysconfig.get_path("purelib", "venv", {"base": str(folder), "platbase": str(folder)})
    import penstock

    own = [sysconfig.get_path("purelib"), str(Path(penstock.__file__).parent.parent)]
    Path(site, "penstock.pth").write_text("\n".join(own))
    return folder


def test_workers_run_under_the_interpreter_that_is_set(environment, interpreter):
    env = environment()
    env.set_python_executable(str(interpreter / "bin" / "python"))
    assert results(env, lambda _: (sys.prefix, Types.INT().__class__.__module__)) == [
        (str(interpreter), "penstock.common.basic_types")
    ]


def test_the_interpreter_may_come_out_of_an_archive(environment, interpreter, tmp_path):
    with tarfile.open(tmp_path / "env.tar", "w") as tar:
        tar.add(interpreter, "inner")
    env = environment()
    env.add_python_archive(str(tmp_path / "env.tar"), "shipped")
    env.set_python_executable("shipped/inner/bin/python")
    [prefix] = results(env, lambda _: sys.prefix)
    assert prefix.endswith("/python-archives/shipped/inner")


def test_an_interpreter_without_penstock_is_named(environment, tmp_path):
    venv.create(tmp_path / "bare", symlinks=True)
    python = str(tmp_path / "bare" / "bin" / "python")
    env = environment()
    env.set_python_executable(python)
    with pytest.raises(
        NoResourceAvailableError, match=r"has no penstock .* install penstock-engine=="
    ):
        results(env, str)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("/nowhere/python", "is not a file that this worker can execute"),
        ("env/bin/python", "is relative, and there is no archive"),
        ("no-such-python", "is not on the PATH"),
        ("/bin/true", "is not a working Python"),
    ],
)
def test_an_interpreter_that_cannot_be_used_is_named(environment, name, message):
    env = environment()
    env.set_python_executable(name)
    with pytest.raises(NoResourceAvailableError, match=message):
        results(env, str)


def test_in_the_programs_own_process(tmp_path, scratch):
    """Python files are on the path while the job runs, and cached files are found."""
    module(tmp_path / "code" / "in_process_module.py", "VALUE = 'module'\n")
    program = module(
        tmp_path / "program" / "main.py",
        """
import sys
from penstock.datastream import MapFunction, StreamExecutionEnvironment

class Reads(MapFunction):
    def open(self, context):
        self.text = context.get_distributed_cache().get_file("name").read_text()

    def map(self, value):
        import in_process_module
        return self.text + in_process_module.VALUE

before = list(sys.path)
for _ in range(2):
    env = StreamExecutionEnvironment.get_execution_environment()
    env.add_python_file(sys.argv[1])
    env.register_cached_file(sys.argv[1], "name")
    with env.from_collection([1]).map(Reads()).execute_and_collect() as found:
        print(list(found))
print(sys.path == before)
""",
    )
    code = str(tmp_path / "code" / "in_process_module.py")
    options = ["--target", "in-process", "-D", f"io.tmp.dirs={scratch}"]
    outcome = run_program(["-m", "penstock", "run", *options, program, code])
    assert outcome.code == 0, outcome.err
    assert outcome.out.splitlines() == ["[\"VALUE = 'module'\\nmodule\"]"] * 2 + ["True"]


@pytest.mark.parametrize("option", ["python.archives", "python.requirements", "python.executable"])
def test_options_of_other_processes_are_rejected_in_process(environment, tmp_path, option):
    """Its working directory, packages and interpreter are the program's own."""
    path = zipped(tmp_path / "a.zip", {"b": "c"})
    env = environment("in-process")
    env.get_configuration().set_string(option, path)
    with pytest.raises(ConfigurationError, match=f"{option} .* is not available on target"):
        results(env, str)


def test_an_archive_that_is_damaged_fails_the_job(environment, tmp_path):
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(b"PK\x03\x04 nothing")
    env = environment()
    env.add_python_archive(str(damaged))
    with pytest.raises(NoResourceAvailableError, match=r"damaged.zip.*cannot be unpacked"):
        results(env, str)


@pytest.mark.parametrize("by", ["option", "variable"])
def test_one_process_has_one_runtime(environment, monkeypatch, by):
    """Its operators are those of the runtime with which it started."""
    env = environment("in-process")
    assert results(env, str) == ["x"]
    other = "native" if os.environ.get("PENSTOCK_RUNTIME") == "pure" else "pure"
    env = environment("in-process")
    if by == "option":
        env.get_configuration().set_string("penstock.runtime", other)
    else:
        monkeypatch.setenv("PENSTOCK_RUNTIME", other)
    with pytest.raises(ConfigurationError, match=f"one runtime.*asks for '{other}'"):
        results(env, str)
