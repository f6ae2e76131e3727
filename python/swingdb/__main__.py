"""``python -m swingdb``: the command line, if it is installed beside the package."""

from __future__ import annotations

import os
import shutil
import sys


def main() -> int:
    """Becomes the ``swingdb`` program with the same arguments."""
    program = os.environ.get("SWINGDB_BIN") or shutil.which("swingdb")
    if program is None:
        print(
            "The command line `swingdb` is not on the PATH. It is a program of its own: "
            "build it with `make install`, or name it in $SWINGDB_BIN.",
            file=sys.stderr,
        )
        return 127
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
