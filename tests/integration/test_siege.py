"""Hundreds of unauthenticated connections do not block a job's workers."""

from contextlib import ExitStack

from contract.doors import Siege
from integration.fake_jobs import FakeInvokable, job, vertex
from penstock.per_job.local_driver import LocalDriver
from penstock.per_job.per_job_cluster import PerJobCluster
from support.patience import PATIENCE_S

CONNECTIONS = 400


def tell(task: FakeInvokable) -> None:
    task.environment.report_accumulators({"subtasks": 1})


def test_workers_get_in_through_a_siege() -> None:
    """From the workers' address, before they start and as long as they run."""
    with ExitStack() as sieges:

        class BesiegedDriver(LocalDriver):
            def start(self, requests):
                for request in requests[:1]:
                    sieges.enter_context(Siege(tuple(request.launch["driver"]), CONNECTIONS))
                super().start(requests)

        cluster = PerJobCluster({"penstock.runtime": "pure"}, BesiegedDriver)
        handle = cluster.execute(job(vertex(tell, parallelism=6)))
        assert handle.result(PATIENCE_S)["subtasks"] == 6
