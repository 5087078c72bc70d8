"""An invalid value is rejected wherever it is set, even if a later place overrides it."""

import json

import click
import pytest
from penstock.command_line.flags import parse_option
from penstock.common import Configuration
from penstock.common.options.registry import options_by_key
from penstock.common.options.value_types import FoldersType, TextType
from penstock.datastream import StreamExecutionEnvironment
from penstock.datastream.execution import execution_target
from penstock.errors import ConfigurationError

#: Only the types of texts and folders accept all of these.
TEXTS = ("no value", "-7", "", "'open", "99999999999999999999", "a:b:c")


def _is_taken(option, text):
    try:
        option.parse(text)
    except ConfigurationError:
        return False
    return True


WRONG = {
    key: [text for text in TEXTS if not _is_taken(option, text)]
    for key, option in options_by_key().items()
}
ONE_WRONG = {key: wrong[0] for key, wrong in WRONG.items() if wrong}


@pytest.fixture(autouse=True)
def no_settings(monkeypatch, tmp_path):
    for name in ("FLINK_CONF_DIR", "PENSTOCK_CONF_DIR", "PENSTOCK_CONFIGURATION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("PENSTOCK_EXECUTION_TARGET", raising=False)
    monkeypatch.chdir(tmp_path)


def test_only_texts_and_folders_may_be_anything():
    any_text = WRONG.keys() - ONE_WRONG.keys()
    assert {type(options_by_key()[key].value_type) for key in any_text} <= {TextType, FoldersType}


def environment(configuration=None):
    return StreamExecutionEnvironment.get_execution_environment(configuration)


def by_configuration(key, text):
    environment(Configuration.from_dict({key: text}))


def by_configure(key, text):
    environment().configure(Configuration.from_dict({key: text}))


def by_configure_option(key, text):
    environment().configure_option(key, text)


def by_command_line(key, text):
    parse_option(f"{key}={text}")


@pytest.mark.parametrize(
    "set_option", [by_configuration, by_configure, by_configure_option, by_command_line]
)
def test_programs_and_the_command_line_refuse_it(set_option):
    for key, texts in WRONG.items():
        for text in texts:
            with pytest.raises((ConfigurationError, click.BadParameter)) as refused:
                set_option(key, text)
            assert f"{key}: {text!r}: " in str(refused.value)


def test_the_variable_refuses_it_where_the_program_overrides_it(monkeypatch):
    for key, text in ONE_WRONG.items():
        monkeypatch.setenv("PENSTOCK_CONFIGURATION", json.dumps({key: text}))
        default = options_by_key()[key].default_text
        with pytest.raises(ConfigurationError, match=r"^PENSTOCK_CONFIGURATION: ") as refused:
            environment(Configuration.from_dict({key: default}))
        assert f"{key}: {text!r}: " in str(refused.value)


@pytest.mark.parametrize("file", ["penstock.yaml", "pyproject.toml", "config.yaml"])
def test_files_refuse_it_where_the_variable_overrides_it(file, monkeypatch, tmp_path):
    monkeypatch.setenv("PENSTOCK_CONF_DIR", str(tmp_path))
    (tmp_path / "config.yaml").write_text("")
    for key, text in ONE_WRONG.items():
        line = f"{json.dumps(key)}: {json.dumps(text)}\n"
        if file == "pyproject.toml":
            line = f"[tool.penstock]\n{json.dumps(key)} = {json.dumps(text)}\n"
        (tmp_path / file).write_text(line)
        option = options_by_key()[key]
        override = {key: option.default_text} if option.default is not None else {}
        monkeypatch.setenv("PENSTOCK_CONFIGURATION", json.dumps(override))
        with pytest.raises(ConfigurationError, match=f"^{file}") as refused:
            environment()
        assert f"{key}: {text!r}: " in str(refused.value)


def test_values_set_by_the_program_do_not_hide_it():
    with pytest.raises(ConfigurationError, match=r"parallelism\.default: 'x'"):
        environment(Configuration.from_dict({"parallelism.default": "x"})).set_parallelism(2)


def test_the_targets_variable_is_checked_beside_the_option(monkeypatch):
    monkeypatch.setenv("PENSTOCK_EXECUTION_TARGET", "nowhere")
    with pytest.raises(ConfigurationError, match="PENSTOCK_EXECUTION_TARGET: 'nowhere'"):
        execution_target(Configuration.from_dict({"execution.target": "local"}))
