"""The adapter: what dbt asks of a database, beside SQL."""

from __future__ import annotations

import os
import traceback
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import swingdb
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.dataclass_schema import ValidationError, dbtClassMixin
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.utils import encoding

from dbt.adapters.base.impl import AdapterConfig, ConstraintSupport
from dbt.adapters.base.meta import available
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.exceptions import IndexConfigError, IndexConfigNotDictError
from dbt.adapters.sql import SQLAdapter
from dbt.adapters.swingdb.column import SwingDBColumn
from dbt.adapters.swingdb.connections import SwingDBConnectionManager
from dbt.adapters.swingdb.relation import SwingDBRelation

if TYPE_CHECKING:
    import agate

    from dbt.adapters.base import BaseRelation

__all__ = ["SwingDBAdapter"]


@dataclass
class SwingDBIndexConfig(dbtClassMixin):
    """An index of a model."""

    columns: list[str]
    unique: bool = False

    def render(self, relation: BaseRelation) -> str:
        """Its name: another one for each build, since old and new table live beside each other."""
        stamp = os.urandom(8).hex()
        parts = [*self.columns, relation.render(), str(self.unique), stamp]
        return "index_" + str(encoding.md5("_".join(parts)))

    @classmethod
    def parse(cls, raw: Any) -> SwingDBIndexConfig | None:
        """An entry of ``indexes`` in a model's configuration."""
        if raw is None:
            return None
        try:
            cls.validate(raw)
            return cls.from_dict(raw)
        except ValidationError as error:
            raise IndexConfigError(error) from error
        except TypeError as error:
            raise IndexConfigNotDictError(raw) from error


@dataclass
class SwingDBConfig(AdapterConfig):
    """What models may say beside what all adapters know."""

    indexes: list[SwingDBIndexConfig] | None = None


class SwingDBAdapter(SQLAdapter):
    """SwingDB for dbt."""

    ConnectionManager = SwingDBConnectionManager
    Relation = SwingDBRelation
    Column = SwingDBColumn
    AdapterSpecificConfigs = SwingDBConfig

    CONSTRAINT_SUPPORT = {
        ConstraintType.check: ConstraintSupport.ENFORCED,
        ConstraintType.not_null: ConstraintSupport.ENFORCED,
        ConstraintType.unique: ConstraintSupport.ENFORCED,
        ConstraintType.primary_key: ConstraintSupport.ENFORCED,
        ConstraintType.foreign_key: ConstraintSupport.ENFORCED,
    }

    _capabilities = CapabilityDict(
        {
            Capability.SchemaMetadataByRelations: CapabilitySupport(support=Support.Full),
            Capability.GetCatalogForSingleRelation: CapabilitySupport(support=Support.Full),
            Capability.MicrobatchConcurrency: CapabilitySupport(support=Support.Full),
        }
    )

    @classmethod
    def date_function(cls) -> str:
        """The time of now, as SQL."""
        return "now()"

    @classmethod
    def convert_number_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        """The type of a seed's column of numbers."""
        import agate

        if agate_table.aggregate(agate.MaxPrecision(col_idx)):
            return "double"
        return cls.convert_integer_type(agate_table, col_idx)

    @classmethod
    def convert_integer_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        """The type of a seed's column of whole numbers, of the size that its values need."""
        values = [value for value in agate_table.columns[col_idx] if value is not None]
        fits = all(-(2**31) <= value < 2**31 for value in values)
        return "integer" if fits else "bigint"

    @classmethod
    def convert_datetime_type(cls, agate_table: agate.Table, col_idx: int) -> str:
        """The type of a seed's column of times."""
        return "timestamp"

    def expand_column_types(self, goal: BaseRelation, current: BaseRelation) -> None:
        """Does nothing: no type has a length."""

    def get_columns_in_relation(self, relation: BaseRelation) -> list[Any]:
        """The columns of a table or view; none if it is not there, as dbt has it."""
        try:
            return list(super().get_columns_in_relation(relation))
        except DbtRuntimeError as error:
            if isinstance(error.__cause__, swingdb.NotFoundError):
                return []
            raise

    def valid_incremental_strategies(self) -> list[str]:
        """The strategies of incremental models."""
        return ["append", "delete+insert", "merge", "microbatch"]

    @available
    def parse_index(self, raw_index: Any) -> SwingDBIndexConfig | None:
        """An entry of ``indexes`` in a model's configuration."""
        return SwingDBIndexConfig.parse(raw_index)

    @available
    def commit_if_open(self) -> None:
        """Commits, if a transaction is open."""
        if self.connections.get_thread_connection().transaction_open:
            self.connections.commit()

    @available
    def insert_seed(self, sql: str, table: agate.Table) -> None:
        """Inserts a seed's rows as one statement."""
        handle = self.connections.get_thread_connection().handle
        with self.connections.exception_handler(sql):
            handle.cursor().executemany(sql, [tuple(row) for row in table.rows])

    @available.parse(lambda *a, **k: [])
    def get_column_schema_from_query(self, sql: str) -> list[SwingDBColumn]:
        """Columns of a query: their names, and types as DESCRIBE writes them.

        The query may have statements before it, from a model's `sql_header`.
        """
        _, cursor = self.connections.add_select_query(sql)
        columns = cursor.description or []
        return [SwingDBColumn(column=column[0], dtype=str(column[1])) for column in columns]

    def submit_python_job(
        self, parsed_model: dict[str, Any], compiled_code: str
    ) -> AdapterResponse:
        """Runs a model written in Python in this process."""
        name = parsed_model["alias"]
        connection = self.connections.get_thread_connection()
        if not connection.transaction_open:
            self.connections.begin()
        handle = connection.handle
        module: dict[str, Any] = {"__name__": f"dbt_model_{name}"}
        try:
            exec(compile(compiled_code.lstrip(), f"<model {name}>", "exec"), module)  # noqa: S102
            # As SQL models see them: through the transaction of this model.
            load = lambda table: handle.connection.sql(f"select * from {table}")  # noqa: E731
            made = module["model"](module["dbtObj"](load), handle.connection)
            module["materialize"](made, handle)
        except Exception as error:
            told = "".join(traceback.format_exception(error))
            raise DbtRuntimeError(f"the Python model {name!r} failed:\n{told}") from error
        return AdapterResponse(_message="OK")
