"""A program of several files, as PyFlink's, with everything that it ships to its workers.

Goal: it has the same results on worker processes of this machine and on Spark executors that do not
know the program's folder.  Method: one program that uses all of it, run by ``penstock run``.
"""

import json
import sysconfig
import textwrap
import venv
import zipfile
from pathlib import Path

import penstock
import pytest
from e2e.running import run_program
from e2e.spark_jobs import LIGHT_JVMS

PROGRAM = """
    import json
    import os
    import sys
    from pathlib import Path

    import pyflink
    from pyflink.common import Types
    from pyflink.datastream import MapFunction, StreamExecutionEnvironment

    from beside import Doubled, where_from
    from parts import top

    folder = Path(sys.argv[1])

    class Sees(MapFunction):
        def open(self, context):
            self.cached = context.get_distributed_cache().get_file("greeting").read_text()

        def map(self, value):
            import late
            import shipped
            import penstock_sample
            from pyflink.metrics import Counter

            return json.dumps({
                "late": late.VALUE,
                "shipped": shipped.VALUE,
                "sample": penstock_sample.VALUE,
                "archive": Path("data/text.txt").read_text(),
                "cached": self.cached,
                "parts": top.deep(value),
                "metrics": Counter.__module__,
                "prefix": sys.prefix,
                "beside": where_from(),
                "main": Path(sys.modules["__main__"].__file__).name,
            })

    if __name__ == "__main__":
        env = StreamExecutionEnvironment.get_execution_environment()
        env.set_parallelism(2)
        env.add_python_file(str(folder / "shipped.py"))
        env.add_python_archive(str(folder / "data.zip"), "data")
        env.register_cached_file(str(folder / "greeting"), "greeting")
        env.set_python_requirements(str(folder / "requirements.txt"), str(folder / "packages"))
        env.set_python_executable(sys.argv[2])
        stream = env.from_collection([1, 2, 3, 4], Types.INT()).rebalance()
        with stream.map(Doubled(), Types.INT()).map(Sees()).execute_and_collect() as found:
            for line in found:
                print(line)
"""
FILES = {
    "beside.py": """
        from pyflink.datastream import MapFunction

        class Doubled(MapFunction):
            def map(self, value):
                return 2 * value

        def where_from():
            return __file__
    """,
    "late.py": "VALUE = 'late'",
    "parts/__init__.py": "",
    "parts/top.py": """
        def deep(value):
            from .below.bottom import add
            return add(value)
    """,
    "parts/below/__init__.py": "",
    "parts/below/bottom.py": "def add(value):\n    return value + 1",
}


@pytest.fixture
def shipment(tmp_path):
    """Return the modules that the program ships, beside a virtual environment with penstock."""
    folder = tmp_path / "shipment"
    (folder / "packages").mkdir(parents=True)
    (folder / "shipped.py").write_text("VALUE = 'shipped'\n")
    (folder / "greeting").write_text("hello")
    (folder / "requirements.txt").write_text("penstock-sample\n")
    with zipfile.ZipFile(folder / "data.zip", "w") as archive:
        archive.writestr("text.txt", "unpacked")
    info = "penstock_sample-1.0.dist-info"
    with zipfile.ZipFile(folder / "packages/penstock_sample-1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr("penstock_sample.py", "VALUE = 'sample'\n")
        wheel.writestr(
            f"{info}/METADATA", "Metadata-Version: 2.1\nName: penstock-sample\nVersion: 1.0\n"
        )
        wheel.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr(f"{info}/RECORD", "")
    venv.create(folder / "env", symlinks=True)
    site = sysconfig.get_path("purelib", "venv", {"base": str(folder / "env")})
    own = [sysconfig.get_path("purelib"), str(Path(penstock.__file__).parent.parent)]
    Path(site, "penstock.pth").write_text("\n".join(own))
    return folder


@pytest.fixture
def program(tmp_path):
    folder = tmp_path / "program"
    for name, text in {"main.py": PROGRAM, **FILES}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


@pytest.mark.parametrize(
    "target",
    [
        "local",
        pytest.param("local-cluster[2,1,1024]", marks=pytest.mark.spark),
    ],
)
def test_everything_reaches_the_workers(program, shipment, tmp_path, target):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    chosen = ["--target", target, "-D", f"io.tmp.dirs={scratch}"]
    if target != "local":
        chosen[:2] = ["--target", "spark", "--master", target]
        chosen += [word for option in LIGHT_JVMS.items() for word in ("-D", "=".join(option))]
    python = str(shipment / "env/bin/python")
    outcome = run_program(
        [
            *("-m", "penstock", "run", *chosen, "--as-pyflink"),
            *(str(program / "main.py"), str(shipment), python),
        ]
    )
    assert outcome.code == 0, outcome.err
    found = [json.loads(line) for line in outcome.out.splitlines()]
    beside = {Path(row.pop("beside")) for row in found}
    assert sorted(row.pop("parts") for row in found) == [3, 5, 7, 9]
    assert (
        found
        == [
            {
                "late": "late",
                "shipped": "shipped",
                "sample": "sample",
                "archive": "unpacked",
                "cached": "hello",
                "metrics": "penstock.metrics.metricbase",
                "prefix": str(shipment / "env"),
                "main": "__main__.py",
            }
        ]
        * 4
    )
    # On Spark the modules beside the program were sent, and each executor has its own copy.
    here = program / "beside.py"
    assert all((path == here) == (target == "local") for path in beside)
    assert list(scratch.iterdir()) == []


@pytest.mark.slow
@pytest.mark.spark
def test_on_spark_too_what_cannot_be_had_is_named(tmp_path):
    """At once: another worker would fail in the same way.  The session continues."""
    path = tmp_path / "program.py"
    (tmp_path / "requirements.txt").write_text("penstock-absent\n")
    (tmp_path / "packages").mkdir()
    path.write_text(
        textwrap.dedent("""
        import sys
        from pathlib import Path
        from penstock.datastream import StreamExecutionEnvironment
        from penstock.errors import NoResourceAvailableError

        folder = Path(sys.argv[1])
        files = [str(folder / "requirements.txt"), str(folder / "packages")]

        def run(**calls):
            env = StreamExecutionEnvironment.get_execution_environment()
            for call, arguments in calls.items():
                getattr(env, call)(*arguments)
            with env.from_collection([1]).map(str).execute_and_collect() as found:
                print(list(found))

        for calls in (
            {"set_python_executable": ["/nowhere/python"]},
            {"set_python_requirements": files},
        ):
            try:
                run(**calls)
            except NoResourceAvailableError as error:
                print(str(error).replace(chr(10), " "))
        run()
        """)
    )
    outcome = run_program(
        ["-m", "penstock", "run", "--master", "local[1]", str(path), str(tmp_path)]
    )
    assert outcome.code == 0, outcome.err
    lines = outcome.out.splitlines()
    assert "python.executable '/nowhere/python' is not a file that this worker can" in lines[0]
    assert "pip could not install the requirements from the folder of packages" in lines[1]
    assert lines[2:] == ["['1']"]
