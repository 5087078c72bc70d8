"""Workers that at first cannot be started do not end a job that may restart."""

import pytest
from integration.fake_jobs import FakeInvokable, job, vertex
from penstock.errors import NoResourceAvailableError
from penstock.jobmaster.local_driver import LocalDriver
from penstock.jobmaster.per_job_cluster import PerJobCluster
from penstock.jobmaster.resource_manager import WorkerExit
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
