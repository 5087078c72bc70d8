"""Each option of Flink 2.3 is honoured, meaningless here, or rejected where it has a meaning.

The list is recorded from Flink's jars, by `pyflink_oracle/settings.py`.
"""

import json
from pathlib import Path

import pytest
from penstock.common.options.check import check_options
from penstock.common.options.flink_keys import meaningless_keys
from penstock.common.options.refused import REFUSALS, refusal_of, refused_keys
from penstock.common.options.registry import options_by_key
from penstock.errors import ConfigurationError

RECORDED = json.loads(
    (Path(__file__).parents[2] / "pyflink_comparison" / "recorded" / "options.json").read_text()
)
HONOURED = options_by_key().keys()
#: Without effect on a job that runs here, whatever the value.
MEANINGLESS = meaningless_keys()

#: Values that change what a job of Flink does.
REFUSED = {
    "scheduler-mode": "reactive",
    "jobmanager.scheduler-mode": "reactive",
    "pipeline.generic-types": "false",
    "execution.batch.speculative.enabled": "true",
    "jobmanager.adaptive-batch-scheduler.speculative.enabled": "true",
    "execution.state-recovery.without-channel-state.checkpoint-id": "3",
    "execution.checkpointing.recover-without-channel-state.checkpoint-id": "3",
    "execution.checkpointing.create-subdir": "false",
    "execution.sorted-inputs.enabled": "false",
    "execution.job-status-changed-listeners": "com.example.Listener",
    "jobmanager.failure-enrichers": "com.example.Enricher",
    "security.kerberos.login.keytab": "/nowhere",
    "security.keytab": "/nowhere",
    "security.ssl.internal.keystore": "/nowhere",
    "taskmanager.system-out.mode": "IGNORE",
    "python.systemenv.enabled": "false",
    "containerized.taskmanager.env.SHOP": "x",
    "security.delegation.token.provider.s3.access-key": "x",
}


def test_every_option_is_of_one_class():
    """No option is missing, and every listed option is one of Flink's."""
    known = set(RECORDED).union(*(one["older"] for one in RECORDED.values()))
    honoured, refused = known & HONOURED, known & refused_keys()
    assert known == honoured | refused | MEANINGLESS
    assert len(known) == len(honoured) + len(refused) + len(MEANINGLESS)
    assert refused_keys() - known == {"jobmanager.scheduler-mode"}


@pytest.mark.parametrize("key", sorted(RECORDED))
def test_older_keys_are_of_the_same_class(key):
    """Older keys of honoured options are honoured, in Flink's order."""
    older = RECORDED[key]["older"]
    option = options_by_key().get(key)
    if option is not None and option.key == key:
        own = [one for one in older if one in option.keys]
        assert own == [one for one in option.alternate_keys if one in older]
        # A key that is an option of its own is read as the older key of this one.
        assert all(one in option.keys or one in HONOURED for one in older)
    elif key in refused_keys():
        assert set(older) <= refused_keys()


@pytest.mark.parametrize("refusal", REFUSALS, ids=lambda refusal: refusal.keys[0])
def test_flinks_default_is_never_refused(refusal):
    default = RECORDED[refusal.keys[0]]["default"] if refusal.keys[0] in RECORDED else None
    if default is not None:
        assert [refusal_of(key, default) for key in refusal.keys] == [None] * len(refusal.keys)
    for key in refusal.keys:
        assert refusal_of(key, "something else") == refusal.why


@pytest.mark.parametrize("key", REFUSED)
def test_an_option_that_would_change_a_job_is_refused(key):
    with pytest.raises(ConfigurationError, match=rf"^{key}: '{REFUSED[key]}': ."):
        check_options({key: REFUSED[key]})


def test_the_options_of_flinks_own_folder_are_taken():
    """The files of a distribution set these options."""
    check_options(
        {
            "env.java.opts.all": "--add-exports=java.rmi/sun.rmi.registry=ALL-UNNAMED",
            "jobmanager.bind-host": "localhost",
            "jobmanager.rpc.address": "localhost",
            "jobmanager.rpc.port": "6123",
            "jobmanager.memory.process.size": "1600m",
            "jobmanager.execution.failover-strategy": "region",
            "taskmanager.bind-host": "localhost",
            "taskmanager.host": "localhost",
            "taskmanager.numberOfTaskSlots": "1",
            "taskmanager.memory.process.size": "1728m",
            "parallelism.default": "1",
            "rest.address": "localhost",
            "rest.bind-address": "localhost",
        }
    )
