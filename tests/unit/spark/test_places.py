"""The number of TaskExecutors that a Spark cluster can run at the same time."""

import pytest
from penstock.errors import ConfigurationError
from penstock.spark.places import check_master, task_places


@pytest.mark.parametrize(
    ("master", "places"),
    [
        ("local", 1),
        ("local[2]", 2),
        ("local[3,4]", 3),
        ("local[*]", 8),
        ("local[*, 2]", 8),
        ("local-cluster[2,3,1024]", 6),
        ("spark://host:7077", None),
    ],
)
def test_master(master: str, places: int | None) -> None:
    assert task_places({"spark.master": master}, processors=8) == places


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[*, 2]",
        "local-cluster[2,1,1024]",
        "spark://[::1]:7077,a.host:7077",
        "yarn",
        "k8s://https://host:443",
        "armada://a.host:50051",
    ],
)
def test_masters_that_spark_knows(master: str) -> None:
    check_master(master)


@pytest.mark.parametrize(
    "master", ["", "nonsense", "local[x]", "local-cluster[1,1]", "spark://host", "sc://host:1"]
)
def test_names_of_no_master(master: str) -> None:
    with pytest.raises(
        ConfigurationError, match=r"^spark.master: '.*' is not a master of Spark: na"
    ):
        check_master(master)


def test_hosts_that_nobody_knows() -> None:
    """Names under .invalid are never assigned (RFC 6761)."""
    with pytest.raises(ConfigurationError, match=r"no address of a\.invalid or b\.invalid: corr"):
        check_master("spark://a.invalid:7077,b.invalid:7077")


def test_cores_of_a_task() -> None:
    """Cores of an executor that are too few for a task are no place; there is at least one."""
    cluster = {"spark.master": "local-cluster[2,3,1024]", "spark.task.cpus": "2"}
    assert task_places(cluster, processors=8) == 2
    assert task_places({"spark.master": "local[2]", "spark.task.cpus": "4"}, processors=8) == 1


def test_executors_that_are_configured() -> None:
    fixed = {
        "spark.master": "yarn",
        "spark.executor.instances": "3",
        "spark.executor.cores": "2",
    }
    assert task_places(fixed, processors=8) == 6
    assert task_places(fixed | {"spark.dynamicAllocation.enabled": "true"}, processors=8) is None
