"""A client of the REST interface for tests, and a job that runs until it is stopped."""

import json
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

from penstock.common import Configuration, Types
from penstock.datastream import MapFunction, SourceFunction, StreamExecutionEnvironment
from penstock.rest.run_files import RunningCluster, running_clusters
from support.patience import PATIENCE_S, attempts


class UntilMarked(SourceFunction):
    """Emits numbers until a file exists."""

    def __init__(self, path: Path, pause_s: float = 0.001) -> None:
        self.path = path
        self.pause_s = pause_s

    def run(self, ctx: Any) -> None:
        number = 0
        while ctx.is_running() and not self.path.exists():
            ctx.collect(number)
            number += 1
            time.sleep(self.pause_s)


class FailsOnce(MapFunction):
    """Raises if a file is missing, after it has created the file."""

    def __init__(self, path: Path, message: str = "once") -> None:
        self.path = path
        self.message = message

    def map(self, value: Any) -> Any:
        if not self.path.exists():
            self.path.touch()
            raise ArithmeticError(self.message)
        return value


def environment(**options: str) -> StreamExecutionEnvironment:
    """Return a program's environment on the local target with the REST interface enabled."""
    defaults = {
        "execution.target": "local",
        "rest.bind-port": "0",
        "metrics.fetcher.update-interval": "100 ms",
    }
    configuration = Configuration.from_dict({**defaults, **options})
    return StreamExecutionEnvironment.get_execution_environment(configuration)


class Client:
    """Sends requests to one cluster."""

    def __init__(self, cluster: RunningCluster) -> None:
        self.url = cluster.url
        self.token = cluster.token

    @staticmethod
    def of_last_cluster() -> "Client":
        """Return a client of the cluster that was started last."""
        return Client(running_clusters()[-1])

    def ask(
        self,
        path: str,
        method: str = "GET",
        body: Any = None,
        headers: dict[str, str] | None = None,
        prefix: str = "/v1",
    ) -> tuple[int, Any]:
        """Return the status and the JSON of an answer."""
        sent = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent["Content-Type"] = "application/json"
        request = urllib.request.Request(
            self.url + prefix + path, data, sent | (headers or {}), method=method
        )
        try:
            with urllib.request.urlopen(request, timeout=PATIENCE_S) as answer:
                return answer.status, _content(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, _content(error)

    def get(self, path: str) -> Any:
        """Return the JSON of an answer, which must be successful."""
        status, found = self.ask(path)
        assert status == 200, (path, status, found)
        return found

    def until(self, path: str, holds: Any) -> Any:
        """Repeat a request until its answer satisfies a condition."""
        found = None
        for _ in attempts():
            found = self.get(path)
            if holds(found):
                return found
        raise AssertionError((path, found))


def _content(answer: Any) -> Any:
    body = answer.read()
    if answer.headers.get("Content-Type", "").startswith("application/json"):
        return json.loads(body)
    return body


def running_job(path: Path, **options: str) -> tuple[Any, Client, str]:
    """Start a job of three vertices and wait until each subtask runs; return client and id too."""
    env = environment(**{"parallelism.default": "2", **options})
    stream = env.add_source(UntilMarked(path), "Numbers", Types.LONG()).rebalance()
    stream = stream.map(lambda n: n + 1, Types.LONG()).name("Add one")
    stream.key_by(lambda n: n % 3, Types.LONG()).reduce(max).name("Largest").print()
    job = env.execute_async("watched")
    client = Client.of_last_cluster()
    job_id = str(job.get_job_id())
    client.until(
        f"/jobs/{job_id}",
        lambda found: all(v["tasks"]["RUNNING"] == v["parallelism"] for v in found["vertices"]),
    )
    return job, client, job_id
