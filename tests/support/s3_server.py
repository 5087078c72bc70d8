"""An S3 server on loopback: moto's, which can be closed, locked or held."""

import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from moto.server import DomainDispatcherApplication, create_backend_app
from support.processes import DIES_WITH_ITS_PARENT
from support.reserved_ports import reserved_ports
from werkzeug.serving import WSGIRequestHandler, make_server

ACCESS_KEY = "AKIDPENSTOCK"
SECRET_KEY = "hush-hush-nobody-may-see-this"
BUCKET = "bucket"

_DENIED = b"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"""


class Quiet(WSGIRequestHandler):
    """A request handler that logs nothing."""

    def log_request(self, *_):
        pass


class S3Server:
    """An S3 server on loopback: moto's, which can be closed, locked or held.

    It runs in threads of this process; its content survives while the port is closed.

    Attributes:
        hosts: The hosts in the requests.
        delay: Called before each answer; it may wait.
    """

    def __init__(self):
        self._app = DomainDispatcherApplication(create_backend_app)
        self._is_locked = False
        (self._port,) = reserved_ports()  # it is bound again after `gone`
        self.hosts = set()
        self.delay = None
        self._start()

    @property
    def endpoint(self):
        return f"http://127.0.0.1:{self._port}"

    @property
    def options(self):
        return {
            "s3.endpoint": self.endpoint,
            "s3.access-key": ACCESS_KEY,
            "s3.secret-key": SECRET_KEY,
        }

    @cached_property
    def client(self):
        """Return a client of boto3, which accesses the server from outside."""
        import boto3

        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=ACCESS_KEY,
            aws_secret_access_key=SECRET_KEY,
            region_name="us-east-1",
        )

    def objects(self, prefix=""):
        """Return the size of each object by key, without directory markers."""
        found = {}
        for page in self.client.get_paginator("list_objects_v2").paginate(
            Bucket=BUCKET, Prefix=prefix
        ):
            for entry in page.get("Contents", []):
                if not entry["Key"].endswith("/"):
                    found[entry["Key"]] = entry["Size"]
        return found

    @contextmanager
    def gone(self):
        """Refuse connections during the block."""
        self.close()
        try:
            yield
        finally:
            self._start()

    @contextmanager
    def locked(self):
        """Reject all requests during the block."""
        self._is_locked = True
        try:
            yield
        finally:
            self._is_locked = False

    @contextmanager
    def held(self):
        """Delay all answers until the end of the block."""
        goes_on = threading.Event()
        self.delay = goes_on.wait
        try:
            yield
        finally:
            self.delay = None
            goes_on.set()

    def close(self):
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _start(self):
        self._server = make_server(
            "127.0.0.1", self._port, self._answer, threaded=True, request_handler=Quiet
        )
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,))
        self._thread.start()

    def _answer(self, environ, start_response):
        self.hosts.add(environ["HTTP_HOST"].partition(":")[0])
        delay = self.delay
        if delay is not None:
            delay()
        who = environ.get("HTTP_AUTHORIZATION", "")
        if self._is_locked or f"Credential={ACCESS_KEY}/" not in who:
            start_response("403 Forbidden", [("Content-Type", "application/xml")])
            return [_DENIED]
        return self._app(environ, start_response)


@contextmanager
def s3_server():
    """Yield a server with an empty bucket."""
    from moto.backends import get_backend

    server = S3Server()
    try:
        server.client.create_bucket(Bucket=BUCKET)
        yield server
    finally:
        server.close()
        for backends in get_backend("s3").values():
            for backend in backends.values():
                backend.reset()


@contextmanager
def s3_process():
    """Yield the endpoint of a server in its own process, for clients that hold the GIL."""
    server = subprocess.Popen(
        [*DIES_WITH_ITS_PARENT, sys.executable, "-m", "support.s3_server"],
        cwd=Path(__file__).parents[1],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        yield server.stdout.readline().strip()
    finally:
        server.communicate()


if __name__ == "__main__":
    with s3_server() as own:
        print(own.endpoint, flush=True)
        sys.stdin.read()
