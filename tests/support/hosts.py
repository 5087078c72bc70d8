"""Several hosts on this machine: network namespaces connected to a switch of their own.

The machine's own network is not touched, and no packet leaves the namespaces.  A program runs on a
host if `Host.inside` precedes its command; all hosts have the same files.
"""

import os
import shutil
import subprocess

from support.packages import required


def ip(*words: str) -> str:
    """Run the command ``ip`` and return its output."""
    done = subprocess.run(["ip", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(words)}: {done.stderr}"
    return done.stdout


def required_namespaces() -> None:
    """Skip the test, with a reason, if namespaces cannot be created; in CI, fail it."""
    required(shutil.which("ip"), "iproute2")
    name = f"penstock-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode == 0:
        ip("netns", "del", name)
    required(made.returncode == 0 or None, f"iproute2 (as root; it says: {made.stderr.strip()})")


class Host:
    """A host of a network: its address, and its link to the switch."""

    def __init__(self, network: "Network", name: str, number: int) -> None:
        self.namespace = f"{network.prefix}-{name}"
        self.address = f"10.0.0.{number}"
        self._switch = network.switch
        self._port = f"port{number}"
        self.inside = ("ip", "netns", "exec", self.namespace)
        ip("netns", "add", self.namespace)
        ip(
            *("-n", self._switch, "link", "add", self._port, "type", "veth"),
            *("peer", "name", "eth0", "netns", self.namespace),
        )
        ip("-n", self._switch, "link", "set", self._port, "master", "switch", "up")
        ip("-n", self.namespace, "address", "add", f"{self.address}/24", "dev", "eth0")
        for link in ("lo", "eth0"):
            ip("-n", self.namespace, "link", "set", link, "up")

    def cut(self) -> None:
        """Stop the traffic on the link without notifying either end."""
        ip("-n", self._switch, "link", "set", self._port, "down")

    def mend(self) -> None:
        ip("-n", self._switch, "link", "set", self._port, "up")

    def processes(self) -> list[int]:
        return [int(pid) for pid in ip("netns", "pids", self.namespace).split()]


class Network:
    """Hosts and the switch that connects them."""

    def __init__(self, *names: str) -> None:
        """Create the hosts; `close` removes them."""
        self.prefix = f"penstock-{os.getpid()}"
        self.switch = f"{self.prefix}-switch"
        self.hosts: dict[str, Host] = {}
        ip("netns", "add", self.switch)
        try:
            ip("-n", self.switch, "link", "add", "switch", "type", "bridge")
            ip("-n", self.switch, "link", "set", "switch", "up")
            for number, name in enumerate(names, 1):
                self.hosts[name] = Host(self, name, number)
        except BaseException:
            self.close()
            raise

    def __getitem__(self, name: str) -> Host:
        return self.hosts[name]

    def close(self) -> None:
        """Remove the hosts; no process may be left on them."""
        left = {name: host.processes() for name, host in self.hosts.items()}
        for host in self.hosts.values():
            ip("netns", "del", host.namespace)
        ip("netns", "del", self.switch)
        assert not any(left.values()), f"processes are left: {left}"
