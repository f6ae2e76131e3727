"""What a profile says about its database."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.contracts.connection import Credentials

#: What SQL calls the database of a session, whatever its name.
OWN = "swingdb"

_SHARES = ("run", "commit", "never")


@dataclass
class SwingDBCredentials(Credentials):
    """A profile of ``type: swingdb``; see docs/dbt.md for what each entry means."""

    database: str = OWN
    schema: str = "main"
    #: The database; a private one that ends with the process if not given.
    name: str | None = None
    home: str | None = None
    store: str | None = None
    durability: str | None = None
    #: When other processes get to see what was built: after a run, after each commit, or never.
    share: str = "run"
    settings: dict[str, Any] = field(default_factory=dict)
    #: Snapshots of other databases: their ``name``, and the ``alias`` that SQL knows them by.
    attach: list[dict[str, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        if self.share not in _SHARES:
            raise DbtRuntimeError(f"share is one of {', '.join(_SHARES)}, not {self.share!r}")
        for other in self.attach:
            if "name" not in other or set(other) - {"name", "alias"}:
                raise DbtRuntimeError(f"attach lists databases as {{name, alias}}, not {other}")
        others = [other.get("alias", other["name"]) for other in self.attach]
        if self.database not in (OWN, *others):
            raise DbtRuntimeError(
                f"database is {OWN!r}, as SQL calls the session's database, not {self.database!r}; "
                f"which database that is, `name` says"
            )

    @property
    def type(self) -> str:
        """The type of profiles that this adapter is for."""
        return "swingdb"

    @property
    def unique_field(self) -> str:
        """What tells one database from another."""
        return f"{self.home or ''}/{self.name or ':memory:'}"

    def _connection_keys(self) -> tuple[str, ...]:
        return ("database", "schema", "name", "home", "store", "durability", "share")
