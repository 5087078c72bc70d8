"""Workers that at first cannot be started do not end a job that may restart."""

from pathlib import Path

import pytest
from integration.fake_jobs import FakeInvokable, job, vertex
from penstock.errors import JobExecutionError, NoResourceAvailableError
from penstock.jobmaster.workers.resource_manager import WorkerExit
from penstock.per_job.local_driver import LocalDriver
from penstock.per_job.per_job_cluster import PerJobCluster
from support.patience import PATIENCE_S

FAILING_STARTS = 4


def tell(task: FakeInvokable) -> None:
    task.environment.report_accumulators({"subtasks": 1})


class LateDriver(LocalDriver):
    """Has no place for the first workers."""

    def __init__(self, on_exit):
        super().__init__(on_exit)
        self._report = on_exit
        self.refused = 0

    def start(self, requests):
        for request in requests:
            if self.refused < FAILING_STARTS:
                self.refused += 1
                self._report(WorkerExit(request.executor_id, None, None, "no place"))
            else:
                super().start([request])


@pytest.mark.parametrize("restarts", [True, False])
def test_workers_that_cannot_be_started_at_first(restarts: bool) -> None:
    """The restart strategy decides, and a later request starts workers after a pause."""
    graph = job(vertex(tell))
    if restarts:
        graph.configuration.update(
            {
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": "3",
                "restart-strategy.fixed-delay.delay": "10 ms",
            }
        )
    handle = PerJobCluster({"penstock.runtime": "pure"}, LateDriver).execute(graph)
    if restarts:
        assert handle.result(PATIENCE_S)["subtasks"] == 1
    else:
        with pytest.raises(NoResourceAvailableError, match="asked for 1 slots"):
            handle.result(PATIENCE_S)


class LostPlatform(LocalDriver):
    """Can start no worker, as on a Spark that has ended."""

    def __init__(self, on_exit):
        super().__init__(on_exit)
        self._report = on_exit

    def start(self, requests):
        for request in requests:
            words = "its Spark is stopped"
            end = WorkerExit(request.executor_id, None, None, words, True, platform_lost=True)
            self._report(end)


def test_a_job_whose_platform_is_lost_is_left_to_the_next_driver(tmp_path: Path) -> None:
    """No result is recorded: the next driver would not run the job."""
    graph = job(vertex(tell))
    graph.configuration.update(
        {
            "high-availability.type": "filesystem",
            "high-availability.storageDir": str(tmp_path),
            "high-availability.cluster-id": "lost-platform",
        }
    )

    cluster = PerJobCluster({"penstock.runtime": "pure", **graph.configuration}, LostPlatform)
    with pytest.raises(JobExecutionError, match="suspended: its Spark is stopped"):
        cluster.execute(graph).result(PATIENCE_S)
    assert list(tmp_path.rglob("*-result")) == []


def test_a_job_without_a_next_driver_fails_with_its_platform() -> None:
    handle = PerJobCluster({"penstock.runtime": "pure"}, LostPlatform).execute(job(vertex(tell)))
    with pytest.raises(NoResourceAvailableError, match="asked for 1 slots"):
        handle.result(PATIENCE_S)
