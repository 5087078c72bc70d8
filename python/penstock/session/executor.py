"""The target "session": submits jobs to a running cluster."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from penstock import pyflink_alias
from penstock.common.options.cluster import ATTACHED, REGISTRATION_TIMEOUT
from penstock.common.options.user_code import SHIP_PROGRAM
from penstock.dependencies.declarations import Dependencies
from penstock.dependencies.program_folder import program_files, program_folder
from penstock.dependencies.staging import stage
from penstock.errors import ConfigurationError
from penstock.graph.job_graph_serializer import serialize_job_graph
from penstock.per_job.per_job_cluster import module_search_path
from penstock.rpc import session_messages as messages
from penstock.runtime import runtime
from penstock.session.finding import find_by_options
from penstock.session.following import JobFollower
from penstock.session.remote_job import RemoteJobGateway
from penstock.session.session_client import SessionClient

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from penstock.graph.job_graph import JobGraph


class SessionExecutor:
    """Submits jobs, with their code and files, to a session."""

    def execute(
        self,
        job_graph: JobGraph,
        configuration: Mapping[str, str],
        collect_ids: Iterable[str] = (),
    ) -> RemoteJobGateway:
        """Start a job and return at once.

        Raises:
            ConfigurationError: There is no such session, it rejects this program, or an option can
                be set only for the session.
            InvalidProgramError: The job cannot be started.
            DependencyError: A file cannot be sent.
        """
        runtime()  # the program decodes the job's result: detect a wrong runtime now
        collect_ids = tuple(collect_ids)
        attached = ATTACHED.read(configuration)
        if collect_ids and not attached:
            raise ConfigurationError(
                f"{ATTACHED.key} is false (run -d), and results are collected: they go to the "
                "program, which would not wait for them; use a sink"
            )
        dependencies = Dependencies.from_configuration(configuration)
        program = program_folder()
        shipped = None
        if program is not None and SHIP_PROGRAM.read(configuration):
            shipped = (program, program_files(program))
        find = partial(find_by_options, configuration)
        client = SessionClient(find())
        try:
            manifest = stage(dependencies, client.put, shipped)
            graph = serialize_job_graph(job_graph)
            submission = messages.SubmitJob(
                client.put(lambda sink: sink.write(graph)),
                collect_ids,
                manifest,
                {
                    "sys_path": module_search_path(own=dependencies.executable is None),
                    "program_path": None if program is None else str(program),
                    "as_pyflink": pyflink_alias.is_installed(),
                },
                attached,
            )
            client.ask(submission, messages.JobAccepted)
        except BaseException:
            client.close()
            raise
        follower = JobFollower(find, job_graph.job_id, REGISTRATION_TIMEOUT.read(configuration))
        return RemoteJobGateway(
            client, job_graph.job_id, job_graph.name, collect_ids, follower if attached else None
        )
