"""What dbt loads for profiles of ``type: swingdb``."""

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.swingdb.connections import SwingDBConnectionManager
from dbt.adapters.swingdb.credentials import SwingDBCredentials
from dbt.adapters.swingdb.impl import SwingDBAdapter
from dbt.include import swingdb

__all__ = ["Plugin", "SwingDBAdapter", "SwingDBConnectionManager", "SwingDBCredentials"]

Plugin = AdapterPlugin(
    adapter=SwingDBAdapter,  # type: ignore[arg-type]
    credentials=SwingDBCredentials,
    include_path=swingdb.PACKAGE_PATH,
)
