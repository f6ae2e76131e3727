"""`swingdb ui` in a process of its own, and calls of it."""

from __future__ import annotations

import http.client
import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
SWINGDB = Path(os.environ.get("SWINGDB_BIN", TARGET / "release" / "swingdb"))


class Page:
    """A served page."""

    def __init__(self, *arguments: object, **env: str) -> None:
        command = [str(SWINGDB), "ui", *map(str, arguments)]
        if "--listen" not in arguments:
            command += ["--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **env},
        )
        self.url = self.process.stdout.readline().strip()
        if not self.url:
            self.process.wait(10)
            raise RuntimeError(self.process.stderr.read())
        address, self.token = self.url.removeprefix("http://").split("/#token=")
        host, port = address.rsplit(":", 1)
        self.host, self.port = host.strip("[]"), int(port)

    def raw(self, method: str, path: str, body: bytes | None = None, **headers: str):
        """One request with these headers: status, headers, body."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=30)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        try:
            connection.request(method, path, body, named)
            response = connection.getresponse()
            return response.status, response.headers, response.read()
        finally:
            connection.close()

    def call(self, method: str, path: str, body: Any = None, status: int = 200) -> Any:
        """A call with the token; the answer must have this status."""
        data = None if body is None else json.dumps(body).encode()
        bearer = f"Bearer {self.token}"
        got, _, answer = self.raw(method, f"/api/{path}", data, Authorization=bearer)
        assert got == status, answer
        return json.loads(answer)

    def session(self, database: str | None = "served", **more: Any) -> str:
        """Opens a session; the path of its calls."""
        about = self.call("POST", "sessions", {"database": database, **more})
        return f"sessions/{about['session']}"

    def run(self, session: str, sql: str, **more: Any) -> tuple[str, dict]:
        """Runs a cell to its end: the path of its calls, and its state."""
        run = self.begin(session, sql, **more)
        while (about := self.call("GET", f"{run}?wait=1000"))["state"] == "running":
            pass
        return run, about

    def begin(self, session: str, sql: str, **more: Any) -> str:
        """Starts a cell; the path of its calls."""
        answer = self.call("POST", f"{session}/runs", {"sql": sql, **more}, status=202)
        return f"runs/{answer['run']}"

    def rows(self, session: str, sql: str) -> list[list[str | None]]:
        """The first rows of a query."""
        run, about = self.run(session, sql)
        assert about["state"] == "done", about
        return self.call("GET", f"{run}/rows?result={len(about['results']) - 1}")["rows"]

    def stop(self, how: int = signal.SIGINT) -> tuple[int, float, str]:
        """Ends it: its status, the seconds it took, and what it wrote on the standard error."""
        begun = time.monotonic()
        self.process.send_signal(how)
        _, errors = self.process.communicate(timeout=30)
        return self.process.returncode, time.monotonic() - begun, errors
