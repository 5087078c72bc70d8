"""The flags of the command line: Flink's names, never split into letters, and their effects."""

import json
from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from penstock import pyflink_alias
from penstock.command_line.main import main
from penstock.rest.run_files import RunFile
from penstock.session.files import SessionAddress, SessionFile, find_session
from support.commands import penstock

#: The help text of Flink 2.3's own command line.
FLINK = json.loads(
    (
        Path(__file__).parents[2] / "pyflink_comparison" / "recorded" / "command_line.json"
    ).read_text()
)
JOB = "0123456789abcdef0123456789abcdef"
SHOW = "import os, sys\nprint(sys.argv[1:], os.environ['PENSTOCK_CONFIGURATION'])\n"


@pytest.fixture(autouse=True)
def own_folder(own_process, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    for variable in ("SPARK_HOME", "SPARK_CONF_DIR", "PENSTOCK_EXECUTION_TARGET"):
        monkeypatch.delenv(variable, raising=False)


def commands(group: click.Group, *names: str):
    """Yield all commands with their names."""
    with click.Context(group) as context:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            yield (*names, name), command
            if isinstance(command, click.Group):
                yield from commands(command, *names, name)


COMMANDS = dict(commands(main))


def options_of(*names: str) -> dict[str, click.Option]:
    return {
        name: parameter
        for parameter in COMMANDS[names].params
        if isinstance(parameter, click.Option)
        for name in parameter.opts
    }


@pytest.mark.parametrize("names", COMMANDS, ids=" ".join)
def test_no_unknown_name_is_cut_into_letters(names):
    for name in [*options_of(*names), "-h"]:
        if len(name) == 2:
            said = penstock(*names, f"{name}zz", code=2)
            assert f"'{name}zz'" in said or name == "-D", said


@pytest.mark.parametrize("action", FLINK)
def test_every_flag_of_flink_is_known(action):
    """Each of Flink's flags has Flink's effect, or is rejected with its replacement."""
    names = ("savepoint", "trigger") if action == "savepoint" else (action,)
    known = options_of(*names)
    for short, flag in FLINK[action].items():
        found = known[flag["long"] or short]
        assert short in known
        assert flag["takes_value"] == (not found.is_flag), short


def test_a_flag_of_flink_deletes_no_folder(tmp_path):
    (tmp_path / "etached").mkdir()
    assert "Missing argument 'JOB'" in penstock("savepoint", "-detached", code=2)
    assert "--dispose PATH" in penstock("savepoint", "-d", "etached", code=2)
    assert "No such option '-detache'" in penstock("savepoint", "-detache", code=2)
    assert (tmp_path / "etached").exists()


def test_a_savepoint_is_deleted_without_the_jar_that_flink_asks_for(tmp_path):
    said = penstock("savepoint", "--dispose", str(tmp_path), "--jarfile", "job.jar", code=1)
    assert "--jarfile job.jar: has no effect" in said
    assert "is not a checkpoint or savepoint" in said


def run_of(tmp_path, *flags: str) -> tuple[list[str], dict[str, str]]:
    """Return the arguments and the options that a program sees."""
    (tmp_path / "p.py").write_text(SHOW)
    (tmp_path / "e.zip").touch()
    (tmp_path / "r.txt").touch()
    shown = penstock("run", *flags).splitlines()[-1]
    arguments, _, options = shown.partition("] ")
    found = json.loads(options)
    found.pop("execution.target", None)
    return eval(arguments + "]"), found


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("-py p.py", {}),
        ("--python p.py", {}),
        ("-python p.py", {}),
        ("-pym p -pyfs .", {"python.files": "."}),
        ("--pyFiles . --pyModule p", {"python.files": "."}),
        ("-pyexec python3 p.py", {"python.executable": "python3"}),
        ("-pyreq r.txt p.py", {"python.requirements": "r.txt"}),
        ("-pyarch e.zip#env p.py", {"python.archives": "e.zip#env"}),
        ("-pypath /opt/lib p.py", {"python.pythonpath": "/opt/lib"}),
        ("-t local -p4 p.py", {"parallelism.default": "4"}),
        ("--target remote p.py", {}),
        ("-m localhost:8081 p.py", {"penstock.session": "localhost:8081"}),
        ("-t remote -m h:1 -d p.py", {"penstock.session": "h:1", "execution.attached": "false"}),
        ("-t local -m p", {}),
        ("--fromSavepoint s p.py", {"execution.state-recovery.path": "s"}),
        ("-fromSavepoint s p.py", {"execution.state-recovery.path": "s"}),
        (
            "-s s --allowNonRestoredState -cm claim p.py",
            {
                "execution.state-recovery.path": "s",
                "execution.state-recovery.ignore-unclaimed-state": "true",
                "execution.state-recovery.claim-mode": "claim",
            },
        ),
        (
            "-s s -n -rm no_claim p.py",
            {
                "execution.state-recovery.path": "s",
                "execution.state-recovery.ignore-unclaimed-state": "true",
                "execution.state-recovery.claim-mode": "no_claim",
            },
        ),
        ("-sae -z name p.py", {"high-availability.cluster-id": "name"}),
        ("-Drest.port=0 -D pipeline.name=x p.py", {"rest.port": "0", "pipeline.name": "x"}),
    ],
)
def test_flags_of_run_set_options(tmp_path, line, options):
    assert run_of(tmp_path, *line.split()) == ([], options)


def test_flags_of_savepoints_without_a_savepoint(tmp_path):
    """As in Flink, they have no effect; a line says so."""
    (tmp_path / "p.py").touch()
    said = penstock("run", "-t", "local", "-n", "-cm", "claim", "p.py").splitlines()
    assert said == [
        f"penstock: {name} has no effect without -s: name a savepoint, or leave it out"
        for name in ("--claim-mode", "--allow-non-restored-state")
    ]
    path = "execution.state-recovery.path=s"
    assert penstock("run", "-t", "local", "-n", "-D", path, "p.py") == ""


@pytest.mark.parametrize("program", ["p.py", "-py p.py", "-pym p", "-m p"])
def test_arguments_after_the_program_are_passed_to_it(tmp_path, program):
    """Even an option unknown to Flink, if a flag has named the program."""
    words = ["-p", "2", *program.split(), "--input", "-D", "x"]
    assert run_of(tmp_path, *words) == (["--input", "-D", "x"], {"parallelism.default": "2"})


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("-c Main p.py", "-c/--class: it names a class of Java"),
        ("-e local p.py", "write -t"),
        ("-t kubernetes-session p.py", "penstock starts no cluster of YARN or Kubernetes"),
        ("-m yarn-cluster p.py", "penstock starts no cluster of YARN"),
        ("-py p.py -pym p", "two programs"),
        ("WordCount.jar --input in", "'WordCount.jar' is for a JVM: name a program in Python"),
        ("-pyfs nowhere p.py", "python.files: there is no file or folder 'nowhere'"),
        ("-pyclientexec nopython p.py", "there is no interpreter 'nopython'"),
        ("-s s -cm legacy p.py", "'legacy': Flink 2 has no claim mode LEGACY any more"),
        ("-pyx p.py", "No such option '-pyx'"),
        ("-saex p.py", "No such option '-saex'"),
        ("", "Missing argument 'PROGRAM'"),
    ],
)
def test_impossible_flags_are_rejected(tmp_path, line, message):
    (tmp_path / "p.py").write_text("raise SystemExit('not reached')")
    said = penstock("run", *line.split(), code=2)
    assert message in said


def test_python_files_are_for_the_program_too(tmp_path):
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "only_there.py").write_text("X = 1\n")
    (tmp_path / "q.py").write_text("import only_there\nprint('found')\n")
    assert "found" in penstock("run", "-t", "local", "-pyfs", "lib", "q.py")


@pytest.mark.parametrize(
    ("line", "address"),
    [
        ("cancel -Drest.port=1 JOB", "http://localhost:1"),
        ("list -t remote -D rest.address=127.0.0.1 -D rest.bind-port=1", "http://127.0.0.1:1"),
        ("stop -Drest.port=1 -m localhost:2 JOB", "http://localhost:2"),
    ],
)
def test_options_name_the_cluster_of_the_other_commands(line, address):
    assert f"{address} does not answer" in penstock(*line.split(), code=3)


def test_a_session_is_known_by_the_address_of_its_rest_interface():
    session = SessionFile(SessionAddress("mine", "127.0.0.1", 9, "t" * 32))
    session.write()
    rest = RunFile("http://127.0.0.1:8", "secret")
    rest.write()
    assert find_session("localhost:8").name == "mine"
    session.remove()
    rest.remove()


@pytest.mark.parametrize("command", ["jobmanager", "cluster start", "history-server"])
def test_a_key_of_a_program_is_none_of_a_cluster(command):
    said = penstock(
        *command.split(), "-D", "no.such=1", code=2 if command == "history-server" else 1
    )
    assert "there is no option 'no.such': docs/options.md lists all options" in said


SPARK_FOLDER = "spark/conf"


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({}, "target local, as no Spark is configured"),
        ({"option": "spark.master=local[1]"}, "target spark, as spark.master configures one"),
        ({"SPARK_HOME": "spark"}, "target spark, as spark/conf/spark-defaults.conf configures"),
        ({"SPARK_HOME": "elsewhere"}, "target local, as no Spark is configured"),
        ({"PYSPARK_GATEWAY_PORT": "1"}, "target spark, as spark-submit configures one"),
        ({"PENSTOCK_EXECUTION_TARGET": "local"}, None),
    ],
)
def test_the_target_is_spark_where_one_is_configured(tmp_path, monkeypatch, setting, said):
    """One line on standard error names the target, unless the user has named one."""
    (tmp_path / SPARK_FOLDER).mkdir(parents=True)
    (tmp_path / SPARK_FOLDER / "spark-defaults.conf").write_text("# mine\nspark.master local[2]\n")
    (tmp_path / "p.py").write_text("import os\nprint(os.environ.get('PENSTOCK_EXECUTION_TARGET'))")
    options = [word for key in ("option",) if key in setting for word in ("-D", setting.pop(key))]
    for variable, value in setting.items():
        monkeypatch.setenv(variable, value)
    result = CliRunner().invoke(main, ["run", *options, "p.py"])
    assert result.exit_code == 0, result.output
    if said is None:
        assert result.stderr == ""
    else:
        assert said in result.stderr
        assert len(result.stderr.splitlines()) == 1
        named = "spark" if said.startswith("target spark") else "None"
        assert result.stdout == f"{named}\n"


def test_a_program_that_imports_pyflink_runs_as_pyflink(tmp_path):
    """The import of PyFlink may be in one of its modules."""
    (tmp_path / "helper.py").write_text("from pyflink.common import Types\n")
    (tmp_path / "q.py").write_text("import helper\nprint(helper.Types.__module__)\n")
    result = CliRunner().invoke(main, ["run", "-t", "local", "q.py"])
    assert result.exit_code == 0, result.output
    assert result.stdout == "penstock.common.typeinfo\n"
    assert result.stderr == "penstock: q.py imports pyflink: it runs --as-pyflink\n"
    assert pyflink_alias.is_installed()
