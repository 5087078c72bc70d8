"""The code inside the Spark task before a worker starts."""

from penstock.spark.host import host_task_executor


def test_a_folder_that_a_worker_does_not_have_is_named():
    """On Spark the workers may run elsewhere: they check the folder themselves."""
    launch = {"driver": ("127.0.0.1", 1), "executor_id": "worker", "temp_dirs": ["/no/such"]}
    rows = list(host_task_executor(launch))
    assert [row["state"] for row in rows] == ["refused"]
    assert rows[0]["log_tail"] == "io.tmp.dirs: there is no folder '/no/such'"
