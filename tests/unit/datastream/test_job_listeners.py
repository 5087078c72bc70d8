"""Listeners are notified of submissions and ends; a gateway stands in for the target."""

import socket

import pytest
from penstock.common import Configuration, JobListener, Types
from penstock.common.job_client import JobClient
from penstock.datastream import StreamExecutionEnvironment
from penstock.errors import ConfigurationError


class Recorder(JobListener):
    """Records its calls."""

    def __init__(self):
        self.heard = []

    def on_job_submitted(self, job_client, error):
        self.heard.append(("submitted", job_client, error))

    def on_job_executed(self, job_execution_result, error):
        self.heard.append(("executed", job_execution_result, error))


class Client(JobClient):
    """A client of a job that has ended."""

    def __init__(self, outcome):
        self.outcome = outcome

    def wait_for_result(self):
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@pytest.fixture
def program(monkeypatch):
    """Return an environment with a program, its listener, and a function that ends the job."""
    env = StreamExecutionEnvironment.create_local_environment(1)
    recorder = Recorder()
    env.register_job_listener(recorder)

    def ends(outcome):
        env.from_collection([1], Types.INT()).print()
        started = Client(outcome)
        monkeypatch.setattr(
            "penstock.datastream.environment_execution.execute_job",
            lambda *arguments: started,
        )
        return started

    return env, recorder, ends


def test_a_listener_hears_of_the_submission_and_the_result(program):
    env, recorder, ends = program
    started = ends("result")
    assert env.execute() == "result"
    assert recorder.heard == [("submitted", started, None), ("executed", "result", None)]


def test_a_listener_hears_of_a_failed_job(program):
    env, recorder, ends = program
    error = RuntimeError("failed")
    started = ends(error)
    with pytest.raises(RuntimeError):
        env.execute()
    assert recorder.heard == [("submitted", started, None), ("executed", None, error)]


def test_a_job_in_the_background_is_only_submitted(program):
    env, recorder, ends = program
    started = ends("result")
    assert env.execute_async() is started
    assert recorder.heard == [("submitted", started, None)]


def test_a_listener_hears_of_a_failed_submission(program, monkeypatch):
    env, recorder, ends = program
    ends("result")
    error = RuntimeError("no slots")

    def refuse(*arguments):
        raise error

    monkeypatch.setattr("penstock.datastream.environment_execution.execute_job", refuse)
    with pytest.raises(RuntimeError):
        env.execute()
    assert recorder.heard == [("submitted", None, error)]


def test_listeners_are_registered_in_order_and_removed_together(program):
    env, recorder, _ = program
    second = Recorder()
    env.register_job_listener(second)
    assert env.get_job_listeners() == [recorder, second]
    env.clear_job_listeners()
    assert env.get_job_listeners() == []
    with pytest.raises(TypeError, match="register_job_listener takes a JobListener"):
        env.register_job_listener(print)


def test_local_and_remote_environments_have_their_targets():
    settings = Configuration()
    settings.set_string("pipeline.name", "words")
    local = StreamExecutionEnvironment.create_local_environment(3, settings)
    assert local.get_parallelism() == 3
    assert local.get_configuration().get_string("execution.target", "") == "local"
    assert local.get_configuration().get_string("pipeline.name", "") == "words"
    remote = StreamExecutionEnvironment.create_remote_environment("::1", 8081, 2, settings)
    assert remote.get_parallelism() == 2
    assert remote.get_configuration().get_string("execution.target", "") == "session"
    assert "[::1]:8081" in remote.get_configuration().to_dict().values()
    with pytest.raises(ConfigurationError):
        StreamExecutionEnvironment.create_local_environment(0)


def test_a_remote_environment_says_that_no_session_answers(monkeypatch):
    monkeypatch.delenv("PENSTOCK_SESSION_TOKEN", raising=False)
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    env = StreamExecutionEnvironment.create_remote_environment("127.0.0.1", port, token="t" * 32)
    env.from_collection([1], Types.INT()).print()
    message = rf"the session does not answer at 127\.0\.0\.1:{port}: .* refused; check that"
    with pytest.raises(ConfigurationError, match=message):
        env.execute()
    unknown = StreamExecutionEnvironment.create_remote_environment("nowhere.invalid", 6123)
    unknown.from_collection([1], Types.INT()).print()
    with pytest.raises(ConfigurationError, match="asks for its token: set PENSTOCK_SESSION_TOKEN"):
        unknown.execute()
