"""Connections of dbt: sessions on the database of the profile."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import swingdb
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.sql import SQLConnectionManager
from dbt.adapters.swingdb import database

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["SwingDBConnectionManager"]

logger = AdapterLogger("SwingDB")


class SwingDBConnectionManager(SQLConnectionManager):
    """Opens, commits and closes sessions for dbt."""

    TYPE = "swingdb"

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Opens a session, and the database before it if this is the first one."""
        if connection.state == ConnectionState.OPEN:
            return connection
        credentials: Any = connection.credentials
        try:
            opened = database.open_database(credentials)
            connection.handle = opened.session(credentials.settings)
        except swingdb.Error as error:
            connection.handle = None
            connection.state = ConnectionState.FAIL
            raise FailedToConnectError(str(error)) from error
        connection.state = ConnectionState.OPEN
        return connection

    def cancel(self, connection: Connection) -> None:
        """Ends the statement that a connection runs."""
        connection.handle.interrupt()

    def cleanup_all(self) -> None:
        """At the end of a command: closes all connections, and shares what was built."""
        super().cleanup_all()
        database.close_all()

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Turns errors of the database into dbt's."""
        try:
            yield
        except swingdb.Error as error:
            logger.debug(f"SwingDB error: {error}")
            self.rollback_if_open()
            raise DbtDatabaseError(str(error).strip()) from error
        except DbtRuntimeError:
            self.rollback_if_open()
            raise

    @classmethod
    def get_response(cls, cursor: Any) -> AdapterResponse:
        """How many rows a statement has changed."""
        changed = cursor.rowcount
        if changed is None or changed < 0:
            return AdapterResponse(_message="OK")
        return AdapterResponse(_message=f"OK {changed}", rows_affected=changed)

    @classmethod
    def data_type_code_to_name(cls, type_code: Any) -> str:
        """The name of a type in a cursor's description."""
        return str(type_code)
