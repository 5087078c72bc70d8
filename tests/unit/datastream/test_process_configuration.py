"""Options come from Flink's kind of file, and who runs as PyFlink gets Flink's own."""

import json

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
    """Makes a folder with a config.yaml, named by a variable."""
    for name in ("FLINK_CONF_DIR", "PENSTOCK_CONF_DIR", "PENSTOCK_CONFIGURATION"):
        monkeypatch.delenv(name, raising=False)

    def make(variable, text):
        path = tmp_path / variable
        path.mkdir()
        (path / "config.yaml").write_text(text)
        monkeypatch.setenv(variable, str(path))

    return make


def test_keys_are_nested_or_flat_and_values_are_as_written(folder):
    """YAML's own reading of "on", 1_000 or 012 does not get in between."""
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
            attempts: 1_000
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
        "restart-strategy.fixed-delay.attempts": "1_000",
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
    """Without what says where Flink's own cluster is; the later wins."""
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
        ("- a", "line 1: options are keys with values"),
        ("just text", "line 1: options are keys with values"),
        ("a: 1\nb:\n  - {c: d}", "line 3: b: the parts of a list are texts"),
        ("? [a]\n: b", "line 1: a key is a text"),
        ("a.b: 1\na:\n  b: 2", "line 3: a.b is set twice"),
        ("a: 1\na: 1", "line 2: a is set twice"),
        (b"\xff\xfe\x00", "cannot be read"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(tmp_path, text, message):
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
    with pytest.raises(ConfigurationError, match=r"PENSTOCK_CONF_DIR is .* there is no config"):
        options()
    (tmp_path / "flink-conf.yaml").touch()
    with pytest.raises(ConfigurationError, match=r"flink-conf.yaml is the form before Flink 2"):
        options()
