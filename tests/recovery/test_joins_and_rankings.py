"""Every join and ranking has the results of a model after kills and another parallelism.

Method: one job with all of them on the local target, which is rescaled in the middle; a worker is
killed before and after.
"""

from concurrent.futures import ThreadPoolExecutor

import pytest
from support.rest_client import Client

from recovery.joining_programs import added_up, job
from recovery.sink_programs import Fate, fates
from recovery.test_rescaling_running_jobs import rescale


def is_beyond_the_restored(checkpoints):
    latest = checkpoints["latest"]
    return latest["restored"] and latest["completed"]["id"] > latest["restored"]["id"]


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["hashmap", "rocksdb"])
def test_results_equal_a_model_after_kills_and_rescaling(tmp_path, monkeypatch, backend):
    monkeypatch.setenv("PENSTOCK_RUN_DIR", str(tmp_path / "run"))
    folder = tmp_path / "fates"
    fates(folder, ["on the way"])
    options = {
        "execution.target": "local",
        "rest.bind-port": "0",
        "state.backend.type": backend,
        "execution.checkpointing.dir": str(tmp_path / "checkpoints"),
    }
    stream, expected = job(Fate(folder, "kill"), tmp_path / "gate", options)
    with ThreadPoolExecutor(1) as reader, stream.execute_and_collect("joins") as results:
        # A checkpoint waits for unread results.
        found = reader.submit(added_up, results)
        client = Client.of_last_cluster()
        job_id = str(results.get_job_client().get_job_id())
        client.until(f"/jobs/{job_id}/checkpoints", is_beyond_the_restored)
        rescale(client, job_id, 3)
        (folder / "told before the sink").touch()
        (tmp_path / "gate").touch()
        counts = found.result()
    assert not list(folder.iterdir()), "the job ended before it failed"
    assert counts == expected
