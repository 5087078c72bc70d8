"""ClusterClient: the command line's side of the REST interface."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import os
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from penstock.command_line.flags import TargetChoice, configured, refused_flag
from penstock.common.calls.names import nearest_hint
from penstock.common.options import cluster, rest
from penstock.rest.run_files import RunningCluster, running_clusters

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from email.message import Message

TOKEN_VARIABLE: Final = "PENSTOCK_REST_TOKEN"
TIMEOUT_S: Final = 30.0
POLL_S: Final = 0.1
POSITION_HEADER: Final = "X-Log-Position"
MAX_ANSWER_BYTES: Final = 64 * 1024 * 1024
EXIT_UNREACHABLE: Final = 3
ENDED: Final = ("FINISHED", "CANCELED", "FAILED", "SUSPENDED")
"""The states of jobs that have ended."""
CONFIGURATION: Final = "penstock.configuration"
"""The key of the -D options in a command's context."""


class UnreachableError(click.ClickException):
    """No cluster answers."""

    exit_code = EXIT_UNREACHABLE


class ClusterClient:
    """Client of one cluster's REST interface.

    Attributes:
        url: The address of the REST interface.
    """

    def __init__(self, url: str, token: str | None, certificates: str | None = None) -> None:
        """Create the client; it connects at its first request.

        Args:
            url: The address of the cluster's REST interface.
            token: The cluster's REST token.
            certificates: The certificates that the cluster must present, in PEM; None accepts
                all certificates that this machine trusts.
        """
        self.url = url.rstrip("/")
        self._token = token
        # Its own opener: a proxy of the environment does not apply to a port of this machine, and a
        # redirection would send the token elsewhere.
        context = ssl.create_default_context()
        if certificates is not None:
            # Exactly these certificates are trusted, whatever host they name.
            context = ssl.create_default_context(cadata=certificates)
            context.check_hostname = False
        self._opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}),
            _NoRedirects(),
            urllib.request.HTTPSHandler(context=context),
        )

    def ask(self, path: str, method: str = "GET", body: Mapping[str, Any] | None = None) -> Any:
        """Send a request and return the JSON of the answer.

        Raises:
            ClickException: The cluster rejects the request.
            UnreachableError: The cluster does not answer.
        """
        try:
            return json.loads(self._answer(path, method, body)[0])
        except ValueError as error:
            raise UnreachableError(f"{self.url} did not return JSON: {error}") from None

    def _answer(
        self, path: str, method: str, body: Mapping[str, Any] | None
    ) -> tuple[bytes, Message]:
        with self._opened(path, method, body) as answer:
            try:
                return answer.read(MAX_ANSWER_BYTES), answer.headers
            except OSError as error:
                raise UnreachableError(f"{self.url} stopped answering: {error}") from None

    def _opened(self, path: str, method: str, body: Mapping[str, Any] | None) -> Any:
        headers = {} if self._token is None else {"Authorization": f"Bearer {self._token}"}
        if body is not None:
            headers["Content-Type"] = "application/json"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/v1{path}", data, headers, method=method)
        try:
            return self._opener.open(request, timeout=TIMEOUT_S)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 401 and self._token is not None:
                    raise click.ClickException(
                        f"{self.url} rejects the token: check --token, or {TOKEN_VARIABLE} if the "
                        "command has no --token"
                    ) from None
                raise click.ClickException(_refusal(error)) from None
        except OSError as error:
            reason = getattr(error, "reason", error)
            raise UnreachableError(f"{self.url} does not answer: {reason}") from None

    def ask_text(self, path: str) -> tuple[str, int]:
        """Return the text of a log, and the position at its end.

        Raises:
            ClickException: The cluster rejects the request.
            UnreachableError: The cluster does not answer.
        """
        answer, headers = self._answer(path, "GET", None)
        return answer.decode("utf-8", "replace"), int(headers.get(POSITION_HEADER, 0))

    def pictures(self, job_id: str) -> Generator[dict[str, Any]]:
        """Yield the job's snapshots as they arrive, until its cluster ends.

        Raises:
            ClickException: The cluster rejects the request.
            UnreachableError: The cluster does not answer.
        """
        with self._opened(f"/events?job={job_id}", "GET", None) as answer:
            try:
                for line in answer:
                    if line.startswith(b"event: end"):
                        return
                    if line.startswith(b"data: {"):
                        yield json.loads(line[6:])
            except (OSError, http.client.HTTPException) as error:
                raise UnreachableError(f"{self.url} stopped answering: {error}") from None
        raise UnreachableError(
            f"{self.url} ended without a message: its process was killed, or its host is away"
        )

    def refresh_metrics(self, job: Mapping[str, Any]) -> None:
        """Wait for current metrics of the cluster's workers, unless the job has ended.

        Without a request, workers send them at ``metrics.fetcher.update-interval``.

        Args:
            job: A job of the cluster, as `all_jobs` returns it.

        Raises:
            ClickException: The cluster rejects the request.
            UnreachableError: The cluster does not answer.
        """
        if job["state"] in ENDED:
            return
        # The first snapshot requests the metrics, the second contains them.
        with contextlib.closing(self.pictures(job["jid"])) as pictures:
            for _ in itertools.islice(pictures, 2):
                pass

    def outcome(self, path: str, trigger_id: str) -> Mapping[str, Any]:
        """Wait for the outcome of a triggered operation.

        Raises:
            ClickException: The operation failed; the message has the reason.
        """
        while True:
            found = self.ask(f"{path}/{trigger_id}")
            if found["status"]["id"] == "COMPLETED":
                operation: Mapping[str, Any] = found["operation"]
                if "failure-cause" in operation:
                    raise click.ClickException(str(operation["failure-cause"]["stack-trace"]))
                return operation
            time.sleep(POLL_S)


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: Any) -> None:
        """Reject the redirection."""


def _refusal(error: urllib.error.HTTPError) -> str:
    try:
        errors = json.loads(error.read(MAX_ANSWER_BYTES))["errors"]
        text = "; ".join(map(str, errors))
    except (ValueError, KeyError, TypeError):
        text = f"HTTP status {error.code}"
    if error.code == 401:
        text += f" (give --token, or set {TOKEN_VARIABLE})"
    return text


def clients(jobmanager: str | None, token: str | None) -> list[ClusterClient]:
    """Return clients of the named cluster, or of all clusters of this user on this machine.

    Args:
        jobmanager: The address of a cluster.
        token: The token to present, in place of the one that the cluster has stored; without an
            address, it is for the clusters that have stored it, or for all if none has.

    Raises:
        UnreachableError: There is no cluster.
        UsageError: The address is invalid.
    """
    inherited = os.environ.get(TOKEN_VARIABLE) or None
    known = running_clusters()
    if jobmanager is not None:
        url = _url(jobmanager)
        own = next((one for one in known if _same(one, url)), None)
        if own is None:
            return [ClusterClient(url, token or inherited)]
        known = [own]
    if not known:
        raise UnreachableError(
            "no cluster of this user listens on this machine: start the job with "
            "-D rest.port=0, or name its address with -m"
        )
    if token:
        known = [one for one in known if one.token == token] or known
    return [
        ClusterClient(one.url, token or one.token or inherited, one.certificates) for one in known
    ]


def _url(address: str) -> str:
    url = address if "://" in address else f"http://{address}"
    parts = urllib.parse.urlsplit(url)
    try:
        is_complete = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_complete = False
    if not is_complete or parts.query or parts.fragment:
        raise click.UsageError(f"-m takes host:port or a URL, not {address!r}")
    return url.rstrip("/")


def _same(cluster: RunningCluster, url: str) -> bool:
    return cluster.url.replace("127.0.0.1", "localhost") == url.replace("127.0.0.1", "localhost")


def find_job(found: list[ClusterClient], given: str) -> tuple[ClusterClient, dict[str, Any]]:
    """Return the job with an id, or the beginning of one, or a name, and its cluster.

    A job that has ended is found by its name if no other job has the name.

    Raises:
        ClickException: No job matches, or several do.
        UsageError: The text is empty, as that of an unset variable of a shell.
    """
    if not given:
        raise click.UsageError("JOB is empty: expected an id, the beginning of one, or a name")
    jobs = [(client, job) for client, its_jobs in all_jobs(found) for job in its_jobs]
    named = [match for match in jobs if match[1]["name"] == given]
    going_on = [match for match in named if match[1]["state"] not in ENDED]
    matches = {match[1]["jid"]: match for match in going_on or named}
    matches |= {
        match[1]["jid"]: match for match in jobs if match[1]["jid"].startswith(given.lower())
    }
    if len(matches) == 1:
        return next(iter(matches.values()))
    if not matches:
        hint = nearest_hint(given, [job["name"] for _, job in jobs])
        raise click.ClickException(
            f"there is no job whose id begins with {given!r}, and none of that name{hint}"
        )
    ids = ", ".join(matches)
    raise click.ClickException(
        f"there are {len(matches)} jobs whose id begins with {given!r}, or of that name; give more "
        f"of the id: {ids}"
    )


def all_jobs(found: list[ClusterClient]) -> list[tuple[ClusterClient, list[dict[str, Any]]]]:
    """Return the jobs of clusters; omit a cluster that does not answer if another does.

    Raises:
        UnreachableError: No cluster answers.
    """
    answers: list[tuple[ClusterClient, list[dict[str, Any]]]] = []
    failure: UnreachableError | None = None
    for client in found:
        try:
            answers.append((client, client.ask("/jobs/overview")["jobs"]))
        except UnreachableError as error:
            failure = error
    if not answers and failure is not None:
        raise failure
    return answers


def cluster_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Declare the options that choose the cluster and the form of the output."""

    @wraps(command)
    def asking(*, options: tuple[str, ...], jobmanager: str | None, **given: Any) -> None:
        configuration = click.get_current_context().meta[CONFIGURATION] = configured(options)
        command(jobmanager=jobmanager or _configured_address(configuration), **given)

    for option in (
        click.option("--json", "as_json", is_flag=True, help="Print JSON."),
        click.option(
            "--token",
            metavar="TOKEN",
            help=(
                "The cluster's REST token. Default: the token that a cluster on this machine has "
                f"stored, or {TOKEN_VARIABLE}."
            ),
        ),
        click.option(
            "-m",
            "--jobmanager",
            metavar="HOST:PORT",
            help="The cluster to ask. Default: all clusters of this user on this machine.",
        ),
        click.option(
            "-t",
            "--target",
            type=TargetChoice(),
            expose_value=False,
            help="Accepted as in run; jobs of all targets are found.",
        ),
        click.option(
            "-D",
            "options",
            metavar="KEY=VALUE",
            multiple=True,
            help=(
                f"Set a configuration option; {rest.ADDRESS.key} and {rest.PORT.key} choose the "
                "cluster as -m does."
            ),
        ),
        refused_flag("-e", "--executor", why="write -t"),
        refused_flag("-z", "--zookeeperNamespace", why="name the cluster by -m HOST:PORT"),
        refused_flag("-yid", "--yarnapplicationId", why="name the cluster by -m HOST:PORT"),
    ):
        asking = option(asking)
    return asking


def _configured_address(configuration: Mapping[str, str]) -> str | None:
    """Return host and port of the REST interface from options, or None if they are not set."""
    ports = (rest.PORT.is_set(configuration) and rest.PORT.read(configuration)) or ()
    host = rest.ADDRESS.read(configuration) or cluster.RPC_ADDRESS.read(configuration)
    if not any(ports):
        if host is None:
            return None
        raise click.UsageError(f"{rest.ADDRESS.key} is {host}: give -D {rest.PORT.key} as well")
    return f"{host or 'localhost'}:{ports[0]}"


def print_json(value: Any) -> None:
    """Print JSON for other programs to read."""
    click.echo(json.dumps(value, indent=2))


def fail(message: str) -> NoReturn:
    """End the command with an error.

    Raises:
        ClickException: Always.
    """
    raise click.ClickException(message)
