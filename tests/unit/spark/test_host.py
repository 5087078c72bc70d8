"""The code inside the Spark task before a worker starts, and the explanation if it cannot start."""

from types import SimpleNamespace

import pytest
from penstock.spark.driver import SparkDriver
from penstock.spark.host import host_task_executor


def test_a_folder_that_a_worker_does_not_have_is_named():
    """On Spark the workers may run elsewhere: they check the folder themselves."""
    launch = {"driver": ("127.0.0.1", 1), "executor_id": "worker", "temp_dirs": ["/no/such"]}
    rows = list(host_task_executor(launch))
    assert [row["state"] for row in rows] == ["refused"]
    assert rows[0]["log_tail"] == "io.tmp.dirs: there is no folder '/no/such'"


@pytest.mark.parametrize("module", ["penstock", "penstock.spark"])
def test_executors_without_this_distribution_are_told_its_name(module):
    """The other project called penstock has a package of that name, and none of its modules."""
    driver = SparkDriver(SimpleNamespace(pythonExec="/usr/bin/python"), print)
    text = driver._explanation(f"ModuleNotFoundError: No module named '{module}'")
    assert f"cannot import {module}: install penstock-engine there" in text
