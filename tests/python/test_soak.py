"""Seconds of the soak that `make test-soak` runs for as long as one likes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).parents[1] / "soak" / "soak.py"


def test_seconds_of_the_soak():
    command = [sys.executable, SOAK, "--seconds", "8"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "nothing broken" in done.stdout
