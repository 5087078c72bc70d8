"""Options of tables, set in their configuration or in that of the stream environment."""

import pytest
from penstock.common import Configuration
from penstock.common.options.flink_keys import is_of_tables, meaningless_keys
from penstock.common.options.refused import refused_keys
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import ConfigurationError
from penstock.table import EnvironmentSettings, StreamTableEnvironment, TableEnvironment
from penstock.table.options.table_options import _EFFECTIVE, _IDLE

#: Values that change the results of a job of Flink.
REFUSED = {
    "table.sql-dialect": "hive",
    "table.column-expansion-strategy": "EXCLUDE_DEFAULT_VIRTUAL_METADATA_COLUMNS",
    "table.exec.sort.default-limit": "10",
    "table.exec.sink.type-length-enforcer": "TRIM_PAD",
    "table.exec.source.cdc-events-duplicate": "true",
    "table.local-time-zone": "Nowhere/X",
}


def of_streams(key, value):
    options = Configuration.from_dict({"execution.target": "in-process", key: value})
    return StreamTableEnvironment.create(
        StreamExecutionEnvironment.get_execution_environment(options)
    )


def in_settings(key, value):
    options = Configuration.from_dict({"execution.target": "in-process", key: value})
    settings = EnvironmentSettings.new_instance().with_configuration(options).build()
    return TableEnvironment.create(settings)


def set_later(key, value):
    tables = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    tables.get_config().set(key, value)


@pytest.mark.parametrize("way", [of_streams, in_settings, set_later])
@pytest.mark.parametrize("key", REFUSED)
def test_an_option_that_would_change_results_is_refused(key, way):
    with pytest.raises(ConfigurationError, match=key):
        way(key, REFUSED[key])


def test_an_option_of_tables_is_effective_or_idle_or_refused():
    effective = {key for key in _EFFECTIVE if is_of_tables(key)}
    assert effective == set(_EFFECTIVE)
    assert effective < meaningless_keys(), "to streams"
    assert not (effective | _IDLE) & refused_keys()


def rows_of(tables, caplog):
    tables.execute_sql("SELECT COUNT(*) FROM (VALUES (1), (2)) AS t (x)").collect().close()
    return caplog.text


def test_an_option_with_an_effect_on_tables_is_not_called_idle(caplog):
    assert "no effect" not in rows_of(of_streams("table.exec.state.ttl", "1 h"), caplog)
    assert "no effect in penstock: table.exec.mini-batch.size" in rows_of(
        of_streams("table.exec.mini-batch.size", "5"), caplog
    )


def test_a_misspelt_option_of_tables_is_an_error_in_any_job(caplog):
    with pytest.raises(ConfigurationError, match=r"did you mean table\.exec\.state\.ttl\?"):
        rows_of(of_streams("table.exec.sate.ttl", "1 h"), caplog)
