"""The environment that one process creates for a job's workers."""

import pytest
from penstock.dependencies import worker_environment
from penstock.dependencies.job_folder import JobFolder
from penstock.dependencies.worker_environment import SharedEnvironment, WorkerEnvironment
from penstock.errors import DependencyError


@pytest.fixture
def path(tmp_path, monkeypatch):
    def made(_):
        return WorkerEnvironment(folder=JobFolder(tmp_path / "job"))

    monkeypatch.setattr(worker_environment, "worker_environment", made)
    return tmp_path / "job"


def test_a_taskexecutor_that_leaves_a_job_takes_no_files_of_another_one_of_its_host(path):
    first, second = SharedEnvironment(), SharedEnvironment()
    first.of({})
    (path / "program").write_text("of both")
    second.of({})
    first.leave()
    assert (path / "program").read_text() == "of both"
    with pytest.raises(DependencyError, match="shutting down"):
        first.of({})
    second.leave()
    assert not path.exists()


def test_a_driver_whose_workers_are_dead_leaves_nothing(path):
    """Even if a process still uses the folder, such as a child of a killed worker."""
    made, orphan = SharedEnvironment(), JobFolder(path)
    made.of({})
    made.close()
    assert not path.exists()
    orphan.leave()
