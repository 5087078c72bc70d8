"""The traffic between the hosts of `support.hosts`; as a program, it listens."""

import selectors
import socket
import subprocess
import sys
from pathlib import Path
from typing import Self


class Wire:
    """Records all bytes that pass the switch while it is open."""

    def __init__(self, switch: str, path: Path) -> None:
        self._path = path
        self._command = ("ip", "netns", "exec", switch, sys.executable, __file__, str(path))

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "listens\n"
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()
        assert self._process.returncode == 0

    def carried(self, wanted: bytes) -> bool:
        """Return whether a packet contained these bytes, once the wire is closed."""
        return wanted in self._path.read_bytes()


def listen(path: str) -> None:
    """Write each packet to a file, until standard input ends."""
    every_protocol = socket.htons(3)
    with (
        socket.socket(socket.AF_PACKET, socket.SOCK_RAW, every_protocol) as wire,
        Path(path).open("wb") as file,
        selectors.DefaultSelector() as selector,
    ):
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 26)
        selector.register(wire, selectors.EVENT_READ)
        selector.register(sys.stdin, selectors.EVENT_READ)
        print("listens", flush=True)
        while True:
            ready = {key.fileobj for key, _ in selector.select()}
            if wire in ready:
                file.write(wire.recv(1 << 16))
            elif sys.stdin in ready:
                return


if __name__ == "__main__":
    listen(sys.argv[1])
