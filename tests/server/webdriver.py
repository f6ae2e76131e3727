"""A browser for tests: Chromium, told what to do by the W3C WebDriver protocol of chromedriver."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

DRIVER = shutil.which("chromedriver")
BROWSER = (
    shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
)
MISSING = None if DRIVER and BROWSER else "needs a browser: apt install chromium chromium-driver"
ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
CONTROL, ENTER = "\ue009", "\ue007"


class Browser:
    """A window of a browser without a screen, with an empty profile."""

    def __init__(self, profile: Path, *, dark: bool = False) -> None:
        self.downloads = profile / "downloads"
        self.downloads.mkdir(parents=True)
        log = (profile / "driver.log").open("wb")
        command = [DRIVER, "--port=0"]
        self.driver = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, text=True)
        self.session = ""
        for line in self.driver.stdout:
            if found := re.search(r"started successfully on port (\d+)", line):
                self.base = f"http://127.0.0.1:{found[1]}/session"
                break
        arguments = ["--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"]
        arguments += [f"--user-data-dir={profile / 'profile'}", "--window-size=1280,1140"]
        arguments += ["--disable-background-networking", "--no-first-run"]
        arguments += (
            ["--force-dark-mode", "--blink-settings=preferredColorScheme=0"] if dark else []
        )
        options = {
            "binary": BROWSER,
            "args": arguments,
            "prefs": {"download.default_directory": str(self.downloads)},
        }
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        answer = self._call("POST", "", {"capabilities": {"alwaysMatch": wanted}})
        self.session = "/" + answer["sessionId"]

    def _call(self, method: str, path: str, body: dict | None = None) -> Any:
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.base + self.session + path, data, method=method)
        try:
            with urllib.request.urlopen(request, timeout=60) as response:
                return json.load(response)["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error)["value"]["message"]) from None

    def open(self, url: str) -> None:
        """Goes to an address."""
        self._call("POST", "/url", {"url": url})

    def url(self) -> str:
        """Where it is."""
        return self._call("GET", "/url")

    def js(self, script: str, *arguments: Any) -> Any:
        """Runs JavaScript in the page: `return ...`."""
        return self._call("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def wait(self, script: str, *arguments: Any, seconds: float = 20) -> Any:
        """Waits until an expression of JavaScript is true, and returns it."""
        until = time.monotonic() + seconds
        while True:
            if value := self.js(f"return {script}", *arguments):
                return value
            if time.monotonic() > until:
                text = self.js("return document.body.innerText")
                raise AssertionError(f"not within {seconds} s: {script}\n{text}")
            time.sleep(0.05)

    def find(self, css: str) -> str:
        """The element of a selector of CSS."""
        return self._call("POST", "/element", {"using": "css selector", "value": css})[ELEMENT]

    def click(self, css: str) -> None:
        """Clicks, as a person does: what is covered or hidden cannot be clicked."""
        self._call("POST", f"/element/{self.find(css)}/click")

    def press(self, text: str, within: str = "") -> None:
        """Clicks the button that has a text."""
        script = (
            "const [root, text] = arguments;"
            "return [...document.querySelectorAll(`${root} button`)]"
            ".find((b) => b.textContent === text && b.offsetParent)"
        )
        found = self.js(script, within, text)
        assert found, f"no button {text!r}"
        self._call("POST", f"/element/{found[ELEMENT]}/click")

    def type(self, css: str, text: str) -> None:
        """Types into an element."""
        self._call("POST", f"/element/{self.find(css)}/value", {"text": text})

    def screenshot(self, path: Path) -> None:
        """Saves what the window shows, as PNG."""
        path.write_bytes(base64.b64decode(self._call("GET", "/screenshot")))

    def complaints(self) -> list[str]:
        """What the browser complained about since the last time: errors, broken policies."""
        entries = self._call("POST", "/se/log", {"type": "browser"})
        return [entry["message"] for entry in entries if entry["level"] in ("SEVERE", "WARNING")]

    def close(self) -> None:
        """Ends it."""
        try:
            if self.session:
                self._call("DELETE", "")
        finally:
            self.driver.terminate()
            self.driver.wait(20)
            self.driver.stdout.close()


def until(what: Callable[[], Any], seconds: float = 20) -> Any:
    """Waits until something is true, and returns it."""
    end = time.monotonic() + seconds
    while not (value := what()):
        assert time.monotonic() < end, f"not within {seconds} s"
        time.sleep(0.02)
    return value
