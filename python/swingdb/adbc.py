"""The ADBC driver, for `adbc_driver_manager` and what reads databases by it.

The driver is in the package's extension module, so that nothing else has to be installed but the
driver manager: ``pip install adbc_driver_manager``.

>>> import swingdb.adbc
>>> with swingdb.adbc.connect() as con, con.cursor() as cursor:
...     _ = cursor.execute("SELECT 1 AS a")
...     cursor.fetch_arrow_table().to_pydict()
{'a': [1]}
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from . import _convert, _internal

if TYPE_CHECKING:
    import os

__all__ = ["ENTRY_POINT", "connect", "driver"]

#: The function of the driver that a driver manager calls first.
ENTRY_POINT = "AdbcDriverSwingdbInit"


def driver() -> str:
    """The path of the library that holds the driver."""
    assert _internal.__file__ is not None
    return _internal.__file__


def connect(
    name: str | None = None,
    *,
    snapshot: bool = False,
    home: str | os.PathLike[str] | None = None,
    autocommit: bool = False,
) -> Any:
    """A connection of ``adbc_driver_manager.dbapi`` (PEP 249, and Arrow).

    ``name`` names a database, which is opened as its writer, or of which the newest shared state is
    taken as a ``snapshot``; without a name it is private.
    """
    dbapi = _convert.import_optional("adbc_driver_manager.dbapi", "swingdb.adbc")
    options = {"uri": name or "", "swingdb.snapshot": "true" if snapshot else "false"}
    if home is not None:
        options["swingdb.home"] = str(home)
    return dbapi.connect(
        driver=driver(), entrypoint=ENTRY_POINT, db_kwargs=options, autocommit=autocommit
    )
