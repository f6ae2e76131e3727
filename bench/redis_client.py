"""A client of Redis with as much of the protocol as SET and GET need, and a server for it."""

from __future__ import annotations

import os
import socket
import subprocess
import time

#: A value of Redis has at most 512 MB; larger data are stored in pieces of this size.
VALUE_BYTES = 256 << 20
PATIENCE_S = 30.0


class Redis:
    """A client with as much of the protocol as SET and GET need."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.reader = self.socket.makefile("rb", buffering=1 << 20)

    def call(self, *words: bytes | memoryview) -> bytes:
        """Sends a command; its answer."""
        self.socket.sendall(b"*%d\r\n" % len(words))
        for word in words:
            self.socket.sendall(b"$%d\r\n" % len(word))
            self.socket.sendall(word)
            self.socket.sendall(b"\r\n")
        kind = self.reader.readline()
        if kind.startswith(b"-"):
            raise SystemExit(f"Redis: {kind.decode()}")
        if not kind.startswith(b"$"):
            return kind
        return self.reader.read(int(kind[1:]) + 2)[:-2]

    def close(self) -> None:
        """Ends the connection."""
        self.reader.close()
        self.socket.close()


def start_server(path: str) -> subprocess.Popen:
    """A server on a Unix socket that writes no files."""
    words = ["redis-server", "--port", "0", "--unixsocket", path, "--save", ""]
    server = subprocess.Popen([*words, "--appendonly", "no"], stdout=subprocess.DEVNULL)
    end = time.monotonic() + PATIENCE_S
    while not os.path.exists(path):
        if server.poll() is not None or time.monotonic() > end:
            raise SystemExit("redis-server does not start")
        time.sleep(0.01)
    return server
