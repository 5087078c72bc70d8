"""The history server: shows the archives of jobs whose clusters are gone."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import time
from collections import OrderedDict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from starlette.applications import Starlette
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from penstock.checkpoint_storage.file_systems import FileSystems, LocalFileSystem
from penstock.common.options import history
from penstock.errors import ConfigurationError
from penstock.rest.access import EVENTS
from penstock.rest.answers import (
    EXCEPTION_HANDLERS,
    HEADERS,
    error_answer,
    json_answer,
    page_routes,
)
from penstock.rest.cluster_views import interface
from penstock.rest.http_server import HttpServer
from penstock.rest.job_archive import OVERVIEW, PICTURE

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    from starlette.requests import Request
    from starlette.types import ASGIApp

    from penstock.rest.access import Access

logger = logging.getLogger(__name__)

MAX_OPEN_ARCHIVES: Final = 16
MAX_ARCHIVE_BYTES: Final = 256 * 1024 * 1024
MAX_WATCHERS: Final = 200
_JOB_ID: Final = re.compile(r"[0-9a-f]{32}")
_STATES: Final = {"FINISHED": "finished", "CANCELED": "cancelled", "FAILED": "failed"}


class Archives:
    """The archives in some directories; only the last requested ones are kept open."""

    def __init__(self, folders: Sequence[str], files: FileSystems, retained: int = -1) -> None:
        """Create the archives without reading anything.

        Args:
            folders: Paths or URLs.
            files: Accesses them.
            retained: Number of archives to keep in each; the others are deleted; -1 for all.
        """
        self._folders = tuple(folders)
        self._files = files
        self._retained = retained
        self._overviews: dict[str, Any] = {}
        self._broken: set[str] = set()
        self._found: dict[str, str] = {}
        self._troubles: dict[str, str] = {}
        self._open: OrderedDict[str, dict[str, str]] = OrderedDict()

    @property
    def overviews(self) -> list[Any]:
        """Return the overview of each job for ``/jobs/overview``, the latest first."""
        return sorted(self._overviews.values(), key=lambda job: -job["start-time"])

    def check(self) -> None:
        """Check the directories, and log those that cannot be read or do not exist yet.

        Raises:
            ConfigurationError: One is not a directory, or has an unknown scheme.
        """
        for folder in self._folders:
            try:
                self._archives_in(folder)
            except NotADirectoryError:
                raise ConfigurationError(
                    f"{history.SERVED_FOLDERS.key}: {folder} is not a directory: name those that "
                    f"jobs have as {history.ARCHIVE_FOLDER.key}"
                ) from None

    def refresh(self) -> None:
        """Find new archives, and forget deleted ones.

        Archives in an unreachable directory are kept.
        """
        found: dict[str, str] = {}
        for folder in self._folders:
            names = self._archives_in(folder)
            if names is None:
                names = [job_id for job_id, place in self._found.items() if place == folder]
            found |= dict.fromkeys(names, folder)
        self._found = found
        for job_id in self._overviews.keys() - found.keys():
            del self._overviews[job_id]
            self._open.pop(job_id, None)
        for job_id in found.keys() - self._overviews.keys() - self._broken:
            entries = self._read(job_id)
            if entries is not None:
                self._overviews[job_id] = json.loads(entries[OVERVIEW])["jobs"][0]
        if self._retained >= 0:
            self._delete_oldest(found)

    def _archives_in(self, folder: str) -> list[str] | None:
        """Return the names of archives; None if the directory cannot be read, which is logged once.

        Raises:
            NotADirectoryError: It is not a directory, and has not been since the start.
        """
        names: list[str] | None = None
        trouble = ""
        try:
            files = self._files.of(folder)
            names = [name for name in files.names(folder) if _JOB_ID.fullmatch(name)]
        except OSError as error:
            if isinstance(error, NotADirectoryError) and folder not in self._troubles:
                raise
            trouble = f"cannot be read: {error}"
        else:
            if isinstance(files, LocalFileSystem) and not Path(files.local_path(folder)).is_dir():
                trouble = (
                    "does not exist yet: it is checked at each refresh, and a job with "
                    f"{history.ARCHIVE_FOLDER.key}={folder} creates it when it ends"
                )
        if trouble and trouble != self._troubles.get(folder):
            logger.warning("the directory of archives %s %s", folder, trouble)
        self._troubles[folder] = trouble
        return names

    def _delete_oldest(self, found: Mapping[str, str]) -> None:
        """Delete the oldest archives beyond the retained number in each directory.

        Args:
            found: The directory of each archive.
        """
        for folder in self._folders:
            own = [job_id for job_id in self._overviews if found[job_id] == folder]
            own.sort(key=lambda job_id: -self._overviews[job_id]["end-time"])
            for job_id in own[self._retained :]:
                path = f"{folder.rstrip('/')}/{job_id}"
                try:
                    self._files.of(folder).delete_file(path)
                except OSError as error:
                    logger.warning("%s could not be deleted: %s", path, error)
                    continue
                logger.info("deleted %s: there are %d newer archives", path, self._retained)
                del self._overviews[job_id]
                self._open.pop(job_id, None)

    def job(self, job_id: str) -> Mapping[str, str] | None:
        """Return the JSON of a job by path; None if there is no such archive."""
        if job_id not in self._overviews:
            return None
        entries = self._open.get(job_id) or self._read(job_id)
        if entries is not None:
            self._open[job_id] = entries
            self._open.move_to_end(job_id)
            if len(self._open) > MAX_OPEN_ARCHIVES:
                self._open.popitem(last=False)
        return entries

    def _read(self, job_id: str) -> dict[str, str] | None:
        for folder in self._folders:
            path = f"{folder.rstrip('/')}/{job_id}"
            try:
                data = self._files.of(folder).read_at(path, 0, MAX_ARCHIVE_BYTES + 1)
                if len(data) > MAX_ARCHIVE_BYTES:
                    raise ValueError(f"it has more than {MAX_ARCHIVE_BYTES} bytes")
                entries = {one["path"]: str(one["json"]) for one in json.loads(data)["archive"]}
                json.loads(entries[OVERVIEW])["jobs"][0]["end-time"]
            except FileNotFoundError:
                continue
            except (OSError, ValueError, KeyError, IndexError, TypeError) as error:
                self._broken.add(job_id)
                logger.warning("%s is not an archive of a job: %r", path, error)
                continue
            return entries
        return None


class HistoryServer:
    """Serves archives with the paths and the page of the REST interface.

    Attributes:
        link: The URL to open in a browser.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        """Open the port.

        Args:
            options: The configuration.

        Raises:
            ConfigurationError: No directory of archives is named, or one is not a directory, or no
                port is available.
        """
        folders = history.SERVED_FOLDERS.read(options) or history.ARCHIVE_FOLDER.read(options)
        if not folders:
            raise ConfigurationError(
                f"{history.SERVED_FOLDERS.key} is not set: name the directories into which jobs "
                f"with {history.ARCHIVE_FOLDER.key} write their archives"
            )
        chosen = [folder.strip() for folder in folders.split(",") if folder.strip()]
        self._options = options
        retained = history.RETAINED_JOBS.read(options)
        if retained == 0:
            raise ConfigurationError(
                f"{history.RETAINED_JOBS.key} is 0, which would delete every archive; -1 keeps all"
            )
        self._archives = Archives(chosen, FileSystems(options), retained)
        self._archives.check()
        self._every_s = history.REFRESH_INTERVAL.read(options) / 1000
        self._page_every_s = history.PAGE_REFRESH_INTERVAL.read(options) / 1000
        self._looked_s = -self._every_s
        self._lock = asyncio.Lock()
        self._watchers = 0
        self._closing = asyncio.Event()
        self._http = HttpServer(
            options,
            history.ADDRESS.read(options),
            history.PORT.read(options),
            history.PORT.key,
            self._application,
        )
        self.link = self._http.link

    def start(self) -> None:
        """Start to serve."""
        self._http.start()

    def close(self) -> None:
        """End the thread and close the port."""

        async def tell() -> None:
            self._closing.set()

        self._http.close(tell)

    def _application(self, access: Access) -> ASGIApp:
        routes = page_routes()
        routes += [Route(path, self._events, methods=["GET"]) for path in EVENTS]
        for prefix in ("/v1", ""):
            routes += [
                Route(f"{prefix}/config", self._config, methods=["GET"]),
                Route(f"{prefix}/overview", self._overview, methods=["GET"]),
                Route(f"{prefix}/jobs", self._jobs, methods=["GET"]),
                Route(f"{prefix}/jobs/overview", self._jobs_overview, methods=["GET"]),
                Route(f"{prefix}/taskmanagers", self._workers, methods=["GET"]),
                Route(f"{prefix}/jobs/{{jobid}}", self._of_job, methods=["GET"]),
                Route(f"{prefix}/jobs/{{jobid}}/{{rest:path}}", self._of_job, methods=["GET"]),
            ]
        return access.guarding(Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS))

    # ---- answers -----------------------------------------------------------------------------

    async def _found(self) -> Archives:
        """Return the archives as of one refresh interval ago at most."""
        async with self._lock:
            if time.monotonic() - self._looked_s >= self._every_s:
                await asyncio.to_thread(self._archives.refresh)
                self._looked_s = time.monotonic()
        return self._archives

    async def _config(self, request: Request) -> Response:  # noqa: ARG002
        interval_ms = round(self._page_every_s * 1000)
        return json_answer(
            200, interface(interval_ms, can_cancel=False, can_rescale=False, is_history=True)
        )

    async def _overview(self, request: Request) -> Response:  # noqa: ARG002
        return json_answer(200, _figures((await self._found()).overviews))

    async def _jobs(self, request: Request) -> Response:  # noqa: ARG002
        jobs = (await self._found()).overviews
        found = [{"id": job["jid"], "status": job["state"]} for job in jobs]
        return json_answer(200, {"jobs": found})

    async def _jobs_overview(self, request: Request) -> Response:  # noqa: ARG002
        return json_answer(200, {"jobs": (await self._found()).overviews})

    async def _workers(self, request: Request) -> Response:  # noqa: ARG002
        return json_answer(200, {"taskmanagers": []})

    async def _of_job(self, request: Request) -> Response:
        job_id = request.path_params["jobid"]
        archives = await self._found()
        async with self._lock:
            entries = await asyncio.to_thread(archives.job, job_id)
        if entries is None:
            return error_answer(404, f"Job {job_id[:64]} not found")
        path = request.url.path.removeprefix("/v1")
        found = entries.get(path)
        if found is None:
            return error_answer(
                404, f"{path[:200]} is not in the archive of the job, which has ended"
            )
        return Response(found, 200, headers=HEADERS, media_type="application/json")

    async def _events(self, request: Request) -> Response:
        if self._watchers >= MAX_WATCHERS:
            return error_answer(503, "too many clients follow the events; try again later")
        events = self._pictures(request.query_params.get("job", "")[:64])
        return StreamingResponse(events, headers=HEADERS, media_type="text/event-stream")

    async def _pictures(self, job_id: str) -> AsyncIterator[str]:
        self._watchers += 1
        try:
            while not self._closing.is_set():
                archives = await self._found()
                async with self._lock:
                    entries = await asyncio.to_thread(archives.job, job_id)
                jobs = archives.overviews
                picture: dict[str, Any] = {
                    "now": time.time_ns() // 1_000_000,
                    "cluster": _figures(jobs),
                    "jobs": jobs,
                }
                if entries is not None and PICTURE in entries:
                    last = json.loads(entries[PICTURE])
                    picture |= {"job": last["job"], "now": last["now"]}
                yield f"data: {json.dumps(picture, separators=(',', ':'))}\n\n"
                try:
                    await asyncio.wait_for(self._closing.wait(), self._page_every_s)
                except TimeoutError:
                    continue
        finally:
            self._watchers -= 1


def _figures(jobs: Sequence[Any]) -> dict[str, Any]:
    states = [_STATES.get(job["state"]) for job in jobs]
    return {
        "taskmanagers": 0,
        "slots-total": 0,
        "slots-available": 0,
        "jobs-running": 0,
        **{f"jobs-{name}": states.count(name) for name in _STATES.values()},
    }
