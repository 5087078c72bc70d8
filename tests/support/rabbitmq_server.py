"""A RabbitMQ node for one test, from the system's package."""

import base64
import hashlib
import json
import os
import socket
import subprocess
import time
from pathlib import Path

import pika
import psutil
from support.packages import required
from support.patience import PATIENCE_S
from support.processes import DIES_WITH_ITS_PARENT, living
from support.reserved_ports import reserved_ports

#: Users with their rights to declare, publish and consume.
USERS = {"job": (".*", ".*", ".*"), "reader": ("", "", "open.*"), "nobody": None}
#: A node that gets little of a busy machine ends at one of its own timeouts of 5 s while it boots.
STARTS = 3


class RabbitMQ:
    """A node with its own epmd, on ports that the kernel chose.

    Users have the password "p w".

    Attributes:
        port: Its port.
        tls_port: Its TLS port, if it has a certificate.
    """

    def __init__(self, folder, certificate=None):
        """Start the node.

        Args:
            folder: Its own folder.
            certificate: A PEM file with the certificate of 127.0.0.1 and its key.
        """
        self._folder = folder
        self._program = _program()
        self._has_tls = certificate is not None
        self.port, self.tls_port, epmd_port, node_port = reserved_ports(4)
        (folder / "definitions.json").write_text(json.dumps(_definitions()))
        (folder / "names").write_text('{lookup,[file]}.\n{host,{127,0,0,1},["localhost"]}.\n')
        (folder / "rabbitmq.conf").write_text(
            f"listeners.tcp.default = 127.0.0.1:{self.port}\n"
            f"load_definitions = {folder}/definitions.json\n"
            "log.console.level = warning\n"
            + (
                ""
                if certificate is None
                else f"listeners.ssl.default = 127.0.0.1:{self.tls_port}\n"
                f"ssl_options.cacertfile = {certificate}\n"
                f"ssl_options.certfile = {certificate}\n"
                f"ssl_options.keyfile = {certificate}\n"
                "ssl_options.verify = verify_none\n"
            )
        )
        kept = {name: os.environ[name] for name in ("PATH", "LANG") if name in os.environ}
        environment = {
            **kept,
            "HOME": str(folder),  # for the cookie
            # The node resolves names without a helper program, which would briefly outlive the
            # node.
            "ERL_INETRC": str(folder / "names"),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(epmd_port),
            "RABBITMQ_CONFIG_FILE": f"{folder}/rabbitmq.conf",
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_DIST_PORT": str(node_port),
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_LOGS": "-",
            "RABBITMQ_LOG_BASE": str(folder),
            "RABBITMQ_MNESIA_BASE": f"{folder}/data",
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            # Erlang's threads do not spin, because that would slow down other tests.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none +sbwtdcpu none",
            # The script replaces itself by the node, instead of a shell that waits for the node.
            "RUNNING_UNDER_SYSTEMD": "1",
        }
        self._environment = environment
        epmd = ["epmd", "-address", "127.0.0.1", "-port", str(epmd_port)]
        self._epmd = self._started(epmd)
        assert self._listens(epmd_port, self._epmd), f"{epmd} does not start: {self._said()}"
        self.start()

    def start(self):
        """Start the node; return when it listens."""
        for _ in range(STARTS):
            self._process = self._started([self._program])
            if all(self._listens(port, self._process) for port in self._ports()):
                return
        raise AssertionError(f"{self._program} does not start {STARTS} times: {self._said()}")

    def stop(self):
        """Kill the node; return when its child processes have ended, too."""
        started = psutil.Process(self._process.pid).children(recursive=True)
        self._process.kill()
        self._process.wait()
        _, left = psutil.wait_procs(started, timeout=PATIENCE_S)
        assert not living(left)

    def close(self):
        self.stop()
        self._epmd.kill()
        self._epmd.wait()

    def uri(self, user="job", password="p%20w", port=None, host="/"):
        path = "" if host == "/" else f"/{host}"
        return f"amqp://{user}:{password}@127.0.0.1:{port or self.port}{path}"

    def _started(self, command):
        with (self._folder / "output").open("ab") as output:
            return subprocess.Popen(
                [*DIES_WITH_ITS_PARENT, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=self._environment,
            )

    def _ports(self):
        return (self.port, self.tls_port) if self._has_tls else (self.port,)

    def _said(self):
        output = self._folder / "output"
        return output.read_text()[-2000:] if output.exists() else ""

    def _listens(self, port, process):
        """Wait until something listens; return False if the process has ended instead."""
        deadline = time.monotonic() + PATIENCE_S
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                assert time.monotonic() < deadline, self._said()
                time.sleep(0.05)
            else:
                return True
        return False


class Client:
    """A client for the test itself."""

    def __init__(self, broker):
        self._connection = pika.BlockingConnection(pika.URLParameters(broker.uri()))
        self.channel = self._connection.channel()
        self.channel.tx_select()

    def declare(self, queue, **arguments):
        self.channel.queue_declare(queue, durable=True, arguments=arguments)

    def publish(self, queue, bodies, ids=()):
        for n, body in enumerate(bodies):
            named = pika.BasicProperties(correlation_id=ids[n] if ids else None, delivery_mode=2)
            self.channel.basic_publish("", queue, body, named, mandatory=True)
        self.channel.tx_commit()

    def depth(self, queue):
        """Return the number of messages that are ready."""
        return self.channel.queue_declare(queue, passive=True).method.message_count

    def consumers(self, queue):
        """Return the number of consumers."""
        return self.channel.queue_declare(queue, passive=True).method.consumer_count

    def is_there(self, queue):
        """Return whether the queue exists."""
        channel = self._connection.channel()
        try:
            channel.queue_declare(queue, passive=True)
        except pika.exceptions.ChannelClosedByBroker:
            return False
        channel.close()
        return True

    def take(self, queue, count):
        """Return the next messages of a queue as pairs of body and correlation id."""
        found, channel = [], self._connection.channel()
        for method, properties, body in channel.consume(queue, inactivity_timeout=PATIENCE_S):
            assert method is not None, f"{queue} has {found} alone"
            channel.basic_ack(method.delivery_tag)
            found.append((body.decode(), properties.correlation_id))
            if len(found) == count:
                break
        channel.close()  # which returns the surplus messages
        return found

    def close(self):
        self._connection.close()


def _program():
    """Return the program that the package's script starts after it has changed user and folders."""
    found = sorted(Path("/usr/lib/rabbitmq/lib").glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    return required(found[-1] if found else None, "rabbitmq-server")


def _definitions():
    salt = b"salt"
    digest = base64.b64encode(salt + hashlib.sha256(salt + b"p w").digest()).decode()
    users = [
        {
            "name": name,
            "password_hash": digest,
            "hashing_algorithm": "rabbit_password_hashing_sha256",
            "tags": [],
        }
        for name in USERS
    ]
    rights = [
        {"user": name, "vhost": "/", "configure": given[0], "write": given[1], "read": given[2]}
        for name, given in USERS.items()
        if given is not None
    ]
    return {"vhosts": [{"name": "/"}], "users": users, "permissions": rights}
