"""The name ``pyflink`` means penstock wherever code of the program runs, and only there.

Goal: modules of a program that import pyflink work in workers, in workers that are started after a
failure and in processes that these start, however the program was started; errors name the parts of
PyFlink that penstock lacks.  Method: programs of several files in processes of their own.
"""

import json
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from e2e.running import run_program

MODULES = (Path(__file__).parents[1] / "data" / "pyflink_modules.txt").read_text().split()


def files(folder, **texts):
    for name, text in texts.items():
        path = folder / (name.replace("__in__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
    return folder


def python(*arguments, **environment):
    """Return the JSON that a line of Python prints."""
    return json.loads(
        subprocess.run(
            [sys.executable, *arguments],
            env={**os.environ, **environment},
            check=True,
            stdout=subprocess.PIPE,
        ).stdout
    )


def test_each_module_of_pyflink_is_there_or_says_that_it_is_not():
    """Modules that a DataStream program imports exist; the others say why they are absent."""
    found = python(
        "-c",
        "import importlib, json, sys, penstock.as_pyflink\n"
        "found = {}\n"
        "for name in sys.argv[1:]:\n"
        "    try:\n"
        "        importlib.import_module('pyflink.' + name)\n"
        "        found[name] = ''\n"
        "    except ModuleNotFoundError as error:\n"
        "        found[name] = str(error)\n"
        "print(json.dumps(found))",
        *MODULES,
        "table",
        "table.expressions",
        "table.types",
        "util.exceptions",
        "shell.more",
        "never.existed",
    )
    absent = {name: text for name, text in found.items() if text}
    assert {name.partition(".")[0] for name in absent} == {
        "find_flink_home",
        "fn_execution",
        "never",
        "pyflink_callback_server",
        "pyflink_gateway_server",
        "serializers",
        "shell",
    }
    for name, text in absent.items():
        # An import from an absent package fails at the package.
        parents = (name.rsplit(".", depth)[0] for depth in range(name.count(".") + 1))
        starts = tuple(f"pyflink.{parent} is not part of penstock" for parent in parents)
        assert text.startswith(starts), text
    assert "notebook" in absent["shell.more"]


def test_names_that_programs_import():
    """Even from where older programs import them; classes are the same under both names."""
    found = python(
        "-c",
        "import penstock.as_pyflink, json, pyflink\n"
        "from pyflink.version import __version__\n"
        "from pyflink.common import JsonRowSerializationSchema, Types\n"
        "from pyflink.common.utils import JavaObjectWrapper\n"
        "from pyflink.datastream.connectors import DeliveryGuarantee, FileSink, KafkaSource\n"
        "from pyflink.datastream.functions import ValueStateDescriptor, MapFunction\n"
        "from pyflink.datastream.window import Time, TumblingEventTimeWindows\n"
        "from pyflink.metrics import Counter, Distribution, Meter, Metric, MetricGroup\n"
        "import penstock.datastream, penstock.common\n"
        "assert MapFunction is penstock.datastream.MapFunction\n"
        "assert Types is penstock.common.Types is pyflink.common.typeinfo.Types\n"
        "import logging; logging.basicConfig(level=logging.INFO)\n"
        "assert not logging.getLogger('penstock.jobmaster').isEnabledFor(logging.INFO)\n"
        "try:\n"
        "    JavaObjectWrapper(None)\n"
        "except NotImplementedError as error:\n"
        "    print(json.dumps([pyflink.__version__, __version__, str(error)]))",
    )
    assert found[:2] == ["2.3.0", "2.3.0"]
    assert "needs a JVM" in found[2]


@pytest.mark.parametrize("line", ["from pyflink import shell", "import pyflink; pyflink.shell"])
def test_each_form_of_import_names_an_absent_module(line):
    message = python(
        "-c",
        "import json, penstock.as_pyflink\n"
        f"try:\n    {line}\n"
        "except ImportError as error:\n    print(json.dumps(str(error)))",
    )
    assert message.startswith("pyflink.shell is not part of penstock")


def test_metrics_are_of_the_kinds_that_pyflink_names(tmp_path):
    from penstock.metrics import Counter, Distribution, Meter, Metric, MetricGroup
    from penstock.taskexecutor.task.metric_group import OperatorMetricGroup

    group = OperatorMetricGroup({}, ())
    assert isinstance(group, MetricGroup)
    for metric, kind in (
        (group.counter("a"), Counter),
        (group.meter("b"), Meter),
        (group.distribution("c"), Distribution),
    ):
        assert isinstance(metric, kind)
        assert isinstance(metric, Metric)


BESIDE = """
    from multiprocessing import get_context

    from pyflink.common import Row
    from pyflink.datastream import MapFunction

    class Doubled(MapFunction):
        def map(self, value):
            from pyflink.metrics import Counter
            return 2 * value

    def in_another_process(value):
        return Row(value=value)

    def asks_another_process(value):
        with get_context("spawn").Pool(1) as pool:
            return pool.apply(in_another_process, (value,)).value
"""


def test_it_reaches_restarted_workers_and_what_workers_start(tmp_path):
    """The program is unmodified; one of its workers is killed, and one starts a process."""
    program = files(
        tmp_path / "program",
        beside=BESIDE,
        main="""
            import os
            import sys
            from pathlib import Path

            import pyflink
            from pyflink.common import Types
            from pyflink.datastream import StreamExecutionEnvironment

            import beside

            marker = Path(sys.argv[1])

            def killed_once(value):
                if not marker.exists():
                    marker.touch()
                    os.kill(os.getpid(), 9)
                return pyflink.common.Row(value)[0]

            if __name__ == "__main__":
                env = StreamExecutionEnvironment.get_execution_environment()
                stream = env.from_collection([1, 2]).map(killed_once).map(beside.Doubled())
                with stream.map(beside.asks_another_process).execute_and_collect() as found:
                    print(list(found))
        """,
    )
    outcome = run_program(
        [
            *("-m", "penstock", "run", "--target", "local", "--as-pyflink"),
            *("-D", "restart-strategy.type=fixed-delay"),
            *("-D", "restart-strategy.fixed-delay.delay=1 ms"),
            *(str(program / "main.py"), str(tmp_path / "marker")),
        ]
    )
    assert outcome.code == 0, outcome.err
    assert outcome.out == "[2, 4]\n"


PACKAGE = {
    "prog__in____init__": "",
    "prog__in__steps": """
        def added(value):
            from .deep.down import ONE
            return value + ONE
    """,
    "prog__in__deep__in____init__": "",
    "prog__in__deep__in__down": "from pyflink.version import __version__\nONE = 1",
}


def package(folder, *, first_line):
    return files(
        folder,
        **PACKAGE,
        prog__in__main=f"""
            {first_line}
            from pyflink.datastream import StreamExecutionEnvironment

            from . import steps

            def doubled(value):
                from .deep import down
                return 2 * value * down.ONE

            class Here:
                def __call__(self, value):
                    return value

            if __name__ == "__main__":
                env = StreamExecutionEnvironment.get_execution_environment()
                stream = env.from_collection([1, 2]).map(doubled).map(steps.added).map(Here())
                with stream.execute_and_collect() as found:
                    print(list(found))
        """,
    )


@pytest.mark.parametrize("how", ["the library", "the module search path", "penstock run -m"])
def test_packages_are_run_as_modules(tmp_path, monkeypatch, how):
    """Relative imports work in the program, inside functions, and in subpackages."""
    first_line = "import penstock.as_pyflink" if how == "the library" else ""
    monkeypatch.chdir(package(tmp_path / "place", first_line=first_line))
    environment = {}
    arguments = ["-m", "prog.main"]
    if how == "the module search path":
        path = subprocess.run(
            [sys.executable, "-m", "penstock.as_pyflink"], check=True, stdout=subprocess.PIPE
        ).stdout.decode()
        own = os.environ.get("PYTHONPATH")
        environment["PYTHONPATH"] = os.pathsep.join(filter(None, [path.strip(), own]))
    elif how == "penstock run -m":
        options = ["--target", "local", "--as-pyflink"]
        arguments = ["-m", "penstock", "run", *options, "-m", "prog.main"]
    outcome = run_program(arguments, **environment)
    assert outcome.code == 0, outcome.err
    assert outcome.out == "[3, 5]\n"


def test_a_module_beside_the_program_wins_over_an_installed_one(tmp_path):
    """As `python program.py` finds it; the driver and the workers agree."""
    program = files(
        tmp_path,
        pluggy="VALUE = 'the program has it'",
        main="""
            from penstock.datastream import StreamExecutionEnvironment
            import pluggy

            def there(_):
                import pluggy
                return pluggy.VALUE

            env = StreamExecutionEnvironment.get_execution_environment()
            with env.from_collection([1]).map(there).execute_and_collect() as found:
                print(pluggy.VALUE, *found, sep=", ")
        """,
    )
    outcome = run_program([str(program / "main.py")])
    assert outcome.code == 0, outcome.err
    assert outcome.out == "the program has it, the program has it\n"


def test_no_file_outlives_a_driver_that_is_killed(tmp_path):
    """Its workers remove the shipped files; the driver's own copy had no name."""
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    program = files(
        tmp_path,
        shipped="VALUE = 1",
        main="""
            import os
            import sys
            from pathlib import Path

            from penstock.common import WatermarkStrategy
            from penstock.datastream import StreamExecutionEnvironment
            from penstock.datastream.connectors.number_seq import NumberSequenceSource

            env = StreamExecutionEnvironment.get_execution_environment()
            env.add_python_file(str(Path(__file__).with_name("shipped.py")))
            numbers = NumberSequenceSource(0, 2**62)
            stream = env.from_source(numbers, WatermarkStrategy.no_watermarks(), "numbers")

            def kills_the_driver(value, scratch=Path(sys.argv[1]), driver=os.getpid()):
                if value == 100:
                    assert list(scratch.glob("penstock-job-*"))
                    os.kill(driver, 9)
                return value

            stream.map(kills_the_driver).filter(lambda value: False).print()
            env.execute()
        """,
    )
    options = ["--target", "local", "-D", f"io.tmp.dirs={scratch}"]
    outcome = run_program(
        ["-m", "penstock", "run", *options, str(program / "main.py"), str(scratch)]
    )
    assert outcome.code == -9, outcome.err
    assert list(scratch.iterdir()) == []
