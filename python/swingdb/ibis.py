"""A back end of Ibis: ``ibis.swingdb.connect("taxi")``.

The package registers it when it is installed; ``swingdb.ibis.Backend`` is the class. SQL is what
Ibis writes for DuckDB, but for the operations that :class:`Compiler` has otherwise or refuses.
Tables of Python (``ibis.memtable``) are read where they are.

>>> import ibis
>>> import swingdb.ibis
>>> con = swingdb.ibis.connect()
>>> t = con.create_table("t", schema={"a": "int64", "b": "string"})
>>> con.insert("t", [(1, "x"), (2, "y")])
>>> con.to_pyarrow(t.filter(t.a > 1).select("b")).to_pydict()
{'b': ['y']}
"""

# Ibis and sqlglot have no types that a strict check could go by.
# mypy: ignore-errors

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, ClassVar

import ibis
import ibis.common.exceptions as exc
import ibis.expr.datatypes as dt
import ibis.expr.operations as ops
import ibis.expr.operations.geospatial as geospatial
import ibis.expr.schema as sch
import sqlglot as sg
import sqlglot.expressions as sge
from ibis import util
from ibis.backends import (
    CanCreateDatabase,
    CanListCatalog,
    HasCurrentCatalog,
    HasCurrentDatabase,
    SupportsTempTables,
)
from ibis.backends.sql import SQLBackend, datatypes
from ibis.backends.sql.compilers.duckdb import DuckDBCompiler
from ibis.backends.sql.datatypes import DuckDBType
from ibis.formats.pandas import PandasData
from sqlglot.dialects import DuckDB

import swingdb

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Mapping

    Path = str | os.PathLike[str]
    Paths = Path | list[Path] | tuple[Path, ...]

    import ibis.expr.types as ir
    import pandas
    import pyarrow

__all__ = ["Backend", "Compiler", "connect"]


class SwingDB(DuckDB):
    """The dialect of sqlglot."""


class SwingDBType(DuckDBType):
    """Types of Ibis as those of SQL: DuckDB's."""

    dialect = "swingdb"


# The table was made when Ibis was imported.
datatypes._TYPE_MAPPERS.setdefault("swingdb", SwingDBType)


class Compiler(DuckDBCompiler):
    """From expressions of Ibis to SQL: that of DuckDB, but where it means something else."""

    __slots__ = ()

    dialect = SwingDB
    type_mapper = SwingDBType

    #: Geometry is no type here.
    UNSUPPORTED_OPS = tuple(
        each
        for each in vars(geospatial).values()
        if isinstance(each, type)
        and issubclass(each, ops.Value)
        and each.__module__ == geospatial.__name__
    )

    def visit_Divide(self, op: Any, *, left: Any, right: Any) -> Any:
        """Whole numbers are divided as such by `/`; Ibis wants fractions."""
        del op
        return self.binop(sge.Div, self.cast(left, dt.float64), right)

    def visit_FloorDivide(self, op: Any, *, left: Any, right: Any) -> Any:
        """The next smaller whole number, of negative ones, too."""
        quotient = self.binop(sge.Div, self.cast(left, dt.float64), right)
        return self.cast(self.f.floor(quotient), op.dtype)


class Backend(
    SupportsTempTables,
    SQLBackend,
    CanListCatalog,
    CanCreateDatabase,
    HasCurrentCatalog,
    HasCurrentDatabase,
):
    """A connection of Ibis. Its databases are schemas here, and its catalogs are databases."""

    name = "swingdb"
    compiler: ClassVar[Compiler] = Compiler()
    supports_temporary_tables = True

    con: swingdb.Connection

    # Connections --------------------------------------------------------------------------------

    def do_connect(
        self, name: str | None = None, *, snapshot: bool = False, **options: Any
    ) -> None:
        """Opens the database ``name`` as its writer, or takes a snapshot of it; without a name it
        is private. ``options`` are those of :func:`swingdb.connect` or :func:`swingdb.snapshot`.
        """
        open_it = swingdb.snapshot if snapshot else swingdb.connect
        self.con = open_it(name, **options)  # type: ignore[arg-type]
        self._memtables: set[str] = set()

    @classmethod
    def from_connection(cls, con: swingdb.Connection, /) -> Backend:
        """A back end on a connection that is there."""
        backend = cls()
        backend._can_reconnect = False
        backend.con, backend._memtables = con, set()
        return backend

    def disconnect(self) -> None:
        """Closes the connection."""
        self.con.close()

    @property
    def version(self) -> str:
        """The version of the database."""
        return swingdb.__version__

    @property
    def current_catalog(self) -> str:
        """The name of the database in SQL."""
        return self._one("SELECT current_database()")

    @property
    def current_database(self) -> str:
        """The schema whose tables need no qualification."""
        return self._one("SELECT current_schema()")

    def _one(self, sql: str) -> Any:
        row = self.con.execute(sql).fetchone()
        assert row is not None
        return row[0]

    # SQL ----------------------------------------------------------------------------------------

    def raw_sql(self, query: str | sg.Expression, **kwargs: Any) -> swingdb.Cursor:
        """Runs a statement."""
        text = query if isinstance(query, str) else query.sql(dialect=self.dialect)
        return self.con.execute(text, **kwargs)

    @contextlib.contextmanager
    def _safe_raw_sql(self, query: str | sg.Expression, **kwargs: Any) -> Iterator[swingdb.Cursor]:
        yield self.raw_sql(query, **kwargs)

    def _get_schema_using_query(self, query: str) -> sch.Schema:
        return self._described(f"DESCRIBE {query}")

    def _described(self, sql: str) -> sch.Schema:
        rows = self.con.execute(sql).fetchall()
        of_text = self.compiler.type_mapper.from_string
        return sch.Schema({row[0]: of_text(row[1], nullable=row[2] == "YES") for row in rows})

    def _run(
        self,
        expr: ir.Expr,
        params: Mapping[ir.Scalar, Any] | None,
        limit: int | str | None,
        **kwargs: Any,
    ) -> swingdb.Cursor:
        self._run_pre_execute_hooks(expr)
        return self.con.execute(self.compile(expr.as_table(), params=params, limit=limit, **kwargs))

    def to_pyarrow(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        **kwargs: Any,
    ) -> Any:
        """The rows as a table of PyArrow; a column or value for what is one."""
        return expr.__pyarrow_result__(self._run(expr, params, limit, **kwargs).arrow())

    def to_pyarrow_batches(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        chunk_size: int = 1_000_000,
        **kwargs: Any,
    ) -> pyarrow.RecordBatchReader:
        """The rows as a stream of PyArrow, which are computed while it is read."""
        import pyarrow

        cursor = self._run(expr, params, limit, **kwargs)
        schema = expr.as_table().schema().to_pyarrow()

        def batches() -> Iterator[pyarrow.RecordBatch]:
            for batch in pyarrow.RecordBatchReader.from_stream(cursor):
                table = pyarrow.Table.from_batches([batch]).rename_columns(schema.names)
                yield from table.cast(schema).to_batches(max_chunksize=chunk_size)

        return pyarrow.RecordBatchReader.from_batches(schema, batches())

    def execute(
        self,
        expr: ir.Expr,
        /,
        *,
        params: Mapping[ir.Scalar, Any] | None = None,
        limit: int | str | None = None,
        **kwargs: Any,
    ) -> Any:
        """The rows as a frame of pandas; a series or value for what is one."""
        import pandas
        import pyarrow

        table = self._run(expr, params, limit, **kwargs).arrow()

        def values(column: pyarrow.ChunkedArray) -> Any:
            # pandas has floats where there are NULLs among numbers.
            as_objects = pyarrow.types.is_nested(column.type) or column.null_count
            return column.to_pylist() if as_objects else column.to_pandas()

        columns = dict(zip(table.column_names, map(values, table.columns), strict=True))
        frame: pandas.DataFrame = pandas.DataFrame(columns)
        return expr.__pandas_result__(PandasData.convert_table(frame, expr.as_table().schema()))

    # Tables -------------------------------------------------------------------------------------

    def get_schema(
        self, table_name: str, *, catalog: str | None = None, database: str | None = None
    ) -> sch.Schema:
        """The columns of a table or view."""
        table = self._table(table_name, catalog, database)
        try:
            return self._described(f"DESCRIBE SELECT * FROM {table.sql(self.dialect)}")
        except swingdb.NotFoundError as error:
            raise exc.TableNotFound(table_name) from error

    def _table(self, name: str, catalog: str | None, database: str | None) -> sge.Table:
        return sg.table(name, db=database, catalog=catalog, quoted=self.compiler.quoted)

    def list_tables(
        self, *, like: str | None = None, database: tuple[str, str] | str | None = None
    ) -> list[str]:
        """The names of tables and views, with the temporary ones."""
        place = self._to_sqlglot_table(database)
        rows = self.con.execute(
            "SELECT table_name FROM duckdb_tables() "
            "WHERE (database_name = $catalog AND schema_name = $schema) OR temporary "
            "UNION SELECT view_name FROM duckdb_views() "
            "WHERE database_name = $catalog AND schema_name = $schema ORDER BY 1",
            {
                "catalog": place.catalog or self.current_catalog,
                "schema": place.db or self.current_database,
            },
        )
        names = [name for (name,) in rows.fetchall() if name not in self._memtables]
        return self._filter_with_like(names, like)

    def create_table(
        self,
        name: str,
        /,
        obj: Any = None,
        *,
        schema: sch.IntoSchema | None = None,
        database: tuple[str, str] | str | None = None,
        temp: bool = False,
        overwrite: bool = False,
    ) -> ir.Table:
        """Makes a table of a schema, an expression, or rows of Python, or of both."""
        if obj is None and schema is None:
            raise ValueError("a table is made of an obj, a schema, or both")
        place = self._to_sqlglot_table(database)
        if temp and (place.catalog or place.db):
            raise exc.UnsupportedArgumentError("temporary tables have a database of their own")
        rows = obj if obj is None or isinstance(obj, ibis.Expr) else ibis.memtable(obj)
        wanted = ibis.schema(schema) if schema is not None else rows.schema()
        if wanted.null_fields:
            raise exc.IbisTypeError(f"columns without a type: {', '.join(wanted.null_fields)}")
        catalog, database = place.catalog or None, place.db or None
        properties = [sge.TemporaryProperty()] if temp else []
        table = self._table(name, catalog, database)
        create = sge.Create(
            this=sge.Schema(
                this=table, expressions=wanted.to_sqlglot_column_defs(self.dialect)
            ),
            kind="TABLE",
            replace=overwrite,
            properties=sge.Properties(expressions=properties),
        )
        source = None
        if rows is not None:
            self._run_pre_execute_hooks(rows)
            source = self.compiler.to_sqlglot(rows).sql(self.dialect)
        self._as_one(create.sql(self.dialect), name, table, rows, source, overwrite)
        return self.table(name, database=(catalog, database) if database else None)

    def _as_one(
        self,
        create: str,
        name: str,
        table: sge.Table,
        rows: Any,
        source: str | None,
        overwrite: bool,
    ) -> None:
        """Makes a table and fills it, or does neither."""
        own = not self.con.in_transaction
        if own:
            self.con.begin()
        try:
            if source is not None and overwrite:
                # The rows may come from the table that is replaced.
                kept = util.gen_name("swingdb_ibis")
                self.con.execute(f"CREATE TEMP TABLE {kept} AS {source}")
                self.con.execute(create)
                source = f"SELECT * FROM {kept}"
            else:
                kept = None
                self.con.execute(create)
            if source is not None:
                columns = ", ".join(
                    sg.to_identifier(column, quoted=True).sql(self.dialect)
                    for column in rows.columns
                )
                into = table.sql(self.dialect)
                self.con.execute(f"INSERT INTO {into} ({columns}) {source}")
            if kept:
                self.con.execute(f"DROP TABLE {kept}")
        except BaseException:
            if own:
                self.con.rollback()
            raise
        if own:
            self.con.commit()

    def _in_sql(self, name: str, database: tuple[str, str] | str | None) -> str:
        place = self._to_sqlglot_table(database)
        return self._table(name, place.catalog or None, place.db or None).sql(self.dialect)

    def drop_table(
        self,
        name: str,
        /,
        *,
        database: tuple[str, str] | str | None = None,
        force: bool = False,
    ) -> None:
        """Drops a table; with ``force`` it need not be there."""
        self.con.execute(f"DROP TABLE {_if_exists(force)}{self._in_sql(name, database)}")

    def drop_view(
        self,
        name: str,
        /,
        *,
        database: tuple[str, str] | str | None = None,
        force: bool = False,
    ) -> None:
        """Drops a view; with ``force`` it need not be there."""
        self.con.execute(f"DROP VIEW {_if_exists(force)}{self._in_sql(name, database)}")

    def rename_table(self, old_name: str, new_name: str) -> None:
        """Renames a table."""
        self.con.execute(
            f"ALTER TABLE {self._in_sql(old_name, None)} RENAME TO {self._in_sql(new_name, None)}"
        )

    def _register_in_memory_table(self, op: ops.InMemoryTable) -> None:
        self._memtables.add(op.name)
        self.con.register(op.name, op.data.to_pyarrow(op.schema))

    def _finalize_memtable(self, name: str) -> None:
        self._memtables.discard(name)
        self.con.unregister(name)

    def _register_udfs(self, expr: ir.Expr) -> None:
        kinds = {ops.udf.InputType.PYTHON: "native", ops.udf.InputType.PYARROW: "arrow"}
        to_text = self.compiler.type_mapper.to_string
        for udf in expr.op().find(ops.ScalarUDF):
            if udf.__input_type__ == ops.udf.InputType.BUILTIN:
                continue
            if udf.__input_type__ not in kinds:
                raise exc.UnsupportedOperationError("functions of pandas are not run; use pyarrow")
            parameters = udf.__signature__.parameters.values()
            self.con.create_function(
                type(udf).__name__,
                udf.__func__,
                [to_text(each.annotation.pattern.dtype) for each in parameters],
                to_text(udf.dtype),
                type=kinds[udf.__input_type__],
                **udf.__config__,
            )

    # Schemas ------------------------------------------------------------------------------------

    def list_catalogs(self, *, like: str | None = None) -> list[str]:
        """The databases: this one, and those that are attached."""
        names = self.con.execute("SELECT database_name FROM duckdb_databases() ORDER BY 1")
        return self._filter_with_like([name for (name,) in names.fetchall()], like)

    def list_databases(self, *, like: str | None = None, catalog: str | None = None) -> list[str]:
        """The schemas of a database."""
        rows = self.con.execute(
            "SELECT schema_name FROM information_schema.schemata WHERE catalog_name = ? ORDER BY 1",
            [catalog or self.current_catalog],
        )
        return self._filter_with_like([name for (name,) in rows.fetchall()], like)

    def create_database(
        self, name: str, /, *, catalog: str | None = None, force: bool = False
    ) -> None:
        """Makes a schema."""
        kind = "SCHEMA IF NOT EXISTS" if force else "SCHEMA"
        self.con.execute(f"CREATE {kind} {self._schema(name, catalog)}")

    def drop_database(
        self, name: str, /, *, catalog: str | None = None, force: bool = False
    ) -> None:
        """Drops a schema."""
        self.con.execute(f"DROP SCHEMA {_if_exists(force)}{self._schema(name, catalog)}")

    def _schema(self, name: str, catalog: str | None) -> str:
        parts = [catalog, name] if catalog else [name]
        return ".".join(sg.to_identifier(part, quoted=True).sql(self.dialect) for part in parts)

    # Files --------------------------------------------------------------------------------------

    def _read(
        self, function: str, path: Paths, table_name: str | None, options: dict[str, Any]
    ) -> ir.Table:
        name = table_name or util.gen_name(f"ibis_{function}")
        many = isinstance(path, list | tuple)
        paths = [str(each) for each in path] if many else str(path)
        call = sge.Anonymous(
            this=function,
            expressions=[
                sge.convert(paths),
                *(
                    sge.EQ(this=sg.to_identifier(key), expression=sge.convert(value))
                    for key, value in options.items()
                ),
            ],
        ).sql(self.dialect)
        view = sg.to_identifier(name, quoted=True).sql(self.dialect)
        self.con.execute(f"CREATE OR REPLACE TEMP VIEW {view} AS SELECT * FROM {call}")
        return self.table(name)

    def read_parquet(
        self, path: Paths, /, *, table_name: str | None = None, **options: Any
    ) -> ir.Table:
        """Parquet files as a table of the session; a pattern or list names several."""
        return self._read("read_parquet", path, table_name, options)

    def read_csv(
        self, path: Paths, /, *, table_name: str | None = None, **options: Any
    ) -> ir.Table:
        """CSV files as a table of the session."""
        return self._read("read_csv", path, table_name, options)

    def read_json(
        self, path: Paths, /, *, table_name: str | None = None, **options: Any
    ) -> ir.Table:
        """JSON files as a table of the session."""
        return self._read("read_json", path, table_name, options)


def _if_exists(force: bool) -> str:
    return "IF EXISTS " if force else ""


def connect(name: str | None = None, *, snapshot: bool = False, **options: Any) -> Backend:
    """A back end on a database; see :meth:`Backend.do_connect`."""
    backend = Backend()
    return backend.connect(name, snapshot=snapshot, **options)
