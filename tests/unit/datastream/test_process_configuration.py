"""Options are read from a file in Flink's format; programs that run as PyFlink read Flink's own."""

import json
import tomllib

import pytest
from penstock import pyflink_alias
from penstock.common import Configuration
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.configuration_file import read_configuration_file
from penstock.errors import ConfigurationError


def options():
    environment = StreamExecutionEnvironment.get_execution_environment()
    return environment.get_configuration().to_dict()


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Create a folder with a config.yaml; an environment variable names the folder."""
    for name in ("FLINK_CONF_DIR", "PENSTOCK_CONF_DIR", "PENSTOCK_CONFIGURATION"):
        monkeypatch.delenv(name, raising=False)

    def make(variable, text):
        path = tmp_path / variable
        path.mkdir()
        (path / "config.yaml").write_text(text)
        monkeypatch.setenv(variable, str(path))

    return make


def test_keys_are_nested_or_flat_and_values_are_as_written(folder):
    """YAML's own reading of "on", 1_000 or 012 is not applied."""
    folder(
        "PENSTOCK_CONF_DIR",
        """
        # Comments, and sections of which everything is commented out, are nothing.
        parallelism:
          default: 4
        taskmanager.numberOfTaskSlots: 012
        restart-strategy:
          type: fixed-delay
          fixed-delay.delay: 10 s
          fixed-delay:
            label: 1_000
        a:
        b: ~
        c: "~"
        d: on
        e: [x, "y;z", 'it''s']
        f:
          - 1
          - 2
        g: {h: i}
        """,
    )
    assert options() == {
        "parallelism.default": "4",
        "taskmanager.numberOfTaskSlots": "012",
        "restart-strategy.type": "fixed-delay",
        "restart-strategy.fixed-delay.delay": "10 s",
        "restart-strategy.fixed-delay.label": "1_000",
        "c": "~",
        "d": "on",
        "e": "x;'y;z';'it''s'",
        "f": "1;2",
        "g.h": "i",
    }
    environment = StreamExecutionEnvironment.get_execution_environment()
    assert environment.get_parallelism() == 4


@pytest.mark.parametrize("as_pyflink", [False, True])
def test_flinks_file_is_for_programs_that_run_as_pyflink(folder, monkeypatch, as_pyflink):
    """Its options that locate Flink's own cluster are ignored; later places win."""
    monkeypatch.setattr(pyflink_alias, "is_installed", lambda: as_pyflink)
    folder(
        "FLINK_CONF_DIR",
        "{jobmanager: {bind-host: localhost}, execution.target: remote, x: flink, y: flink}",
    )
    assert options() == ({"x": "flink", "y": "flink"} if as_pyflink else {})
    folder("PENSTOCK_CONF_DIR", "{y: own, z: own, v: own}")
    monkeypatch.setenv("PENSTOCK_CONFIGURATION", json.dumps({"z": "variable", "v": "variable"}))
    found = StreamExecutionEnvironment.get_execution_environment(
        Configuration.from_dict({"v": "program"})
    )
    assert found.get_configuration().to_dict() == {
        **({"x": "flink"} if as_pyflink else {}),
        "y": "own",
        "z": "variable",
        "v": "program",
    }


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a: [", "config.yaml cannot be read"),
        ("- a", "line 1: expected options as 'key: value'"),
        ("just text", "line 1: expected options as 'key: value'"),
        ("a: 1\nb:\n  - {c: d}", "line 3: b: the items of a list must be strings"),
        ("? [a]\n: b", "line 1: a key must be a string"),
        ("a.b: 1\na:\n  b: 2", "line 3: a.b is set twice"),
        ("a: 1\na: 1", "line 2: a is set twice"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_errors_in_files_are_named(tmp_path, text, message):
    path = tmp_path / "config.yaml"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(ConfigurationError, match=message):
        read_configuration_file(path)


@pytest.mark.parametrize("text", ["", "# nothing\n"])
def test_an_empty_file_sets_nothing(folder, text):
    folder("PENSTOCK_CONF_DIR", text)
    assert options() == {}


def test_a_folder_without_the_file_is_named(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("PENSTOCK_CONF_DIR", str(tmp_path))
    with pytest.raises(ConfigurationError, match=r"PENSTOCK_CONF_DIR is .* which has no config"):
        options()
    (tmp_path / "flink-conf.yaml").touch()
    with pytest.raises(ConfigurationError, match=r"flink-conf.yaml is the form before Flink 2"):
        options()


def test_later_places_win(folder, tmp_path, monkeypatch):
    """penstock.yaml, pyproject.toml, the environment's file, its variable, then the program."""
    monkeypatch.chdir(tmp_path)
    keys = ["a", "b", "c", "d"]
    (tmp_path / "penstock.yaml").write_text("x: {a: 1, b: 1, c: 1, d: 1, e: 1}")
    (tmp_path / "pyproject.toml").write_text(
        '[project]\nname = "p"\n[tool.penstock]\n"x.b" = 2\nx.c = true\nx.f.g = ["h", "i;j"]\n'
    )
    assert options() == {
        "x.a": "1", "x.b": "2", "x.c": "true", "x.d": "1", "x.e": "1", "x.f.g": "h;'i;j'",
    }  # fmt: skip
    folder("PENSTOCK_CONF_DIR", "x: {c: 3, d: 3}")
    monkeypatch.setenv("PENSTOCK_CONFIGURATION", json.dumps({"x.d": "4"}))
    found = options()
    assert [found[f"x.{key}"] for key in keys] == ["1", "2", "3", "4"]
    own = Configuration.from_dict({"x.a": "5"})
    environment = StreamExecutionEnvironment.get_execution_environment(own)
    assert environment.get_configuration().to_dict()["x.a"] == "5"


@pytest.mark.parametrize(
    "text",
    [
        "[tool.penstock",
        "[tool]\npenstock = 3",
        "[tool.penstock]\na = 1979-05-27",
        "[tool.penstock]\na = [1]",
        '[tool.penstock]\n"a.b" = 1\na.b = 2',
    ],
)
def test_a_project_file_that_cannot_be_read_is_named(text, tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=r"pyproject\.toml"):
        options()


def test_a_project_file_is_parsed_once_until_it_changes(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    parses = []
    loads = tomllib.loads
    monkeypatch.setattr(tomllib, "loads", lambda text: parses.append(text) or loads(text))
    for number in (1, 1, 2, 2):
        (tmp_path / "pyproject.toml").write_text(f"[tool.penstock]\nparsed.once = {number}\n")
        assert options() == {"parsed.once": str(number)}
    assert len(parses) == 2


def test_other_projects_files_are_nothing(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("this is no TOML, and none of ours")
    assert options() == {}
