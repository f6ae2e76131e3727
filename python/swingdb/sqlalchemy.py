"""A dialect of SQLAlchemy: ``create_engine("swingdb:///name")``.

The URL names the database; ``swingdb://`` is a private one that ends with the engine. Its options
are those of :func:`swingdb.connect` (``store``, ``durability``, ``home``, ``read_only``), settings
of the session, and ``foreign_keys=ignore``. The package registers the dialect when it is installed;
importing this module does, too.

A transaction of SQLAlchemy is one of the database. Names in a statement are tables alone, never
variables of a program that happens to be around.

>>> import sqlalchemy as sa
>>> import swingdb.sqlalchemy
>>> engine = sa.create_engine("swingdb://")
>>> with engine.begin() as con:
...     _ = con.execute(sa.text("CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR)"))
...     _ = con.execute(sa.text("INSERT INTO t VALUES (:id, :name)"), {"id": 1, "name": "Ada"})
>>> sa.inspect(engine).get_pk_constraint("t")["constrained_columns"]
['id']
"""

from __future__ import annotations

import os
import re
import threading
import weakref
from typing import Any

import sqlalchemy as sa
from sqlalchemy import exc, util
from sqlalchemy.dialects import registry
from sqlalchemy.dialects.postgresql.base import PGCompiler
from sqlalchemy.engine import default
from sqlalchemy.sql import compiler, elements, sqltypes

import swingdb

from . import _text

__all__ = ["Dialect", "Other"]

registry.register("swingdb", "swingdb.sqlalchemy", "Dialect")

#: What :func:`swingdb.connect` takes; all else in a URL are settings of the session.
_OPENING = ("home", "store", "durability", "read_only")
_NUMERIC = re.compile(r"(?:DECIMAL|NUMERIC)\((\d+), ?(\d+)\)")
#: The types of columns, by the names that the database has for them.
_TYPES: dict[str, type[sqltypes.TypeEngine[Any]]] = {
    "BOOLEAN": sqltypes.BOOLEAN,
    "TINYINT": sqltypes.SMALLINT,
    "SMALLINT": sqltypes.SMALLINT,
    "INTEGER": sqltypes.INTEGER,
    "BIGINT": sqltypes.BIGINT,
    "UTINYINT": sqltypes.SMALLINT,
    "USMALLINT": sqltypes.INTEGER,
    "UINTEGER": sqltypes.BIGINT,
    "REAL": sqltypes.REAL,
    "FLOAT": sqltypes.REAL,
    "DOUBLE": sqltypes.DOUBLE,
    "VARCHAR": sqltypes.VARCHAR,
    "JSON": sqltypes.JSON,
    "BLOB": sqltypes.BLOB,
    "BYTEA": sqltypes.BLOB,
    "DATE": sqltypes.DATE,
    "TIME": sqltypes.TIME,
    "UUID": sqltypes.UUID,
}


class Other(sa.types.UserDefinedType[Any]):
    """A type of a column that SQLAlchemy has no name for: a struct, a map, an interval."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **_: Any) -> str:
        """The type as SQL."""
        return self.name


class _Uuid(sqltypes.Uuid[Any]):
    """The database gives UUIDs as text."""

    def bind_processor(self, dialect: Any) -> Any:
        return lambda value: None if value is None else str(value)

    def result_processor(self, dialect: Any, coltype: object) -> Any:
        import uuid

        if not self.as_uuid:
            return None
        return lambda value: None if value is None else uuid.UUID(str(value))


class _Compiler(PGCompiler):
    """Statements: PostgreSQL's forms, which the database takes."""

    def visit_truediv_binary(self, binary: Any, operator: Any, **kw: Any) -> str:
        # A whole number divided by one is a whole number there.
        right = binary.right
        if right.type._type_affinity in (sqltypes.Integer, sqltypes.NullType):
            right = elements.Cast(right, sqltypes.Double())
        return f"{self.process(binary.left, **kw)} / {self.process(right, **kw)}"

    def for_update_clause(self, select: Any, **kw: Any) -> str:
        raise exc.CompileError(
            "SwingDB has no SELECT ... FOR UPDATE: no statement waits for a reader"
        )


class _DDLCompiler(compiler.DDLCompiler):
    """Tables and what belongs to them."""

    dialect: Dialect

    def _sequence(self, table: Any) -> str | None:
        """The sequence that numbers the rows of a table whose key numbers itself."""
        column = table._autoincrement_column
        if column is None or column.default is not None or column.server_default is not None:
            return None
        if column.autoincrement not in (True, "auto") or column.foreign_keys:
            return None
        sequence = sa.Sequence(f"{table.name}_{column.name}_seq", schema=table.schema)
        return str(self.preparer.format_sequence(sequence))

    def get_column_specification(self, column: Any, **kw: Any) -> str:
        spec = super().get_column_specification(column, **kw)
        table = column.table
        name = None if table is None else self._sequence(table)
        if name is not None and column is table._autoincrement_column:
            spec += f" DEFAULT nextval({_text.literal(name)})"
        return spec

    def visit_create_table(self, create: Any, **kw: Any) -> str:
        text: str = super().visit_create_table(create, **kw)  # type: ignore[no-untyped-call]
        name = self._sequence(create.element)
        return text if name is None else f"CREATE SEQUENCE IF NOT EXISTS {name};{text}"

    def visit_drop_table(self, drop: Any, **kw: Any) -> str:
        text: str = super().visit_drop_table(drop, **kw)  # type: ignore[no-untyped-call]
        name = self._sequence(drop.element)
        return text if name is None else f"{text};\nDROP SEQUENCE IF EXISTS {name}"

    def visit_foreign_key_constraint(self, constraint: Any, **kw: Any) -> str:
        if self.dialect.ignores_foreign_keys:
            return ""
        return super().visit_foreign_key_constraint(constraint, **kw)

    def visit_create_index(self, create: Any, *_: Any, **kw: Any) -> str:
        index = create.element
        self._verify_index_table(index)
        if not index.unique:
            # Scans skip what cannot match by themselves; an index would change no answer.
            return "SELECT 1 WHERE FALSE"
        columns = (
            self.sql_compiler.process(part, include_table=False, literal_binds=True)
            for part in index.expressions
        )
        table = self.preparer.format_table(index.table)
        return f"ALTER TABLE {table} ADD UNIQUE ({', '.join(columns)})"

    def visit_drop_index(self, drop: Any, **kw: Any) -> str:
        if drop.element.unique:
            raise exc.CompileError("a unique index is a constraint here, and goes with its table")
        return "SELECT 1 WHERE FALSE"


class _TypeCompiler(compiler.GenericTypeCompiler):
    """Types whose usual names would lose digits or zones."""

    def visit_FLOAT(self, type_: Any, **kw: Any) -> str:
        return "DOUBLE" if type_.precision is None or type_.precision > 24 else "REAL"

    def visit_NUMERIC(self, type_: Any, **kw: Any) -> str:
        if type_.precision is None:
            # As many digits behind the point as SQLAlchemy gives back.
            return "DECIMAL(38, 10)"
        return f"DECIMAL({type_.precision}, {type_.scale or 0})"

    visit_DECIMAL = visit_NUMERIC

    def visit_DATETIME(self, type_: Any, **kw: Any) -> str:
        return "TIMESTAMP WITH TIME ZONE" if type_.timezone else "TIMESTAMP"

    visit_TIMESTAMP = visit_DATETIME

    def visit_JSON(self, type_: Any, **kw: Any) -> str:
        return "JSON"

    def visit_ARRAY(self, type_: Any, **kw: Any) -> str:
        return self.process(type_.item_type, **kw) + "[]" * (type_.dimensions or 1)


class _Preparer(compiler.IdentifierPreparer):
    """Names are always quoted: a column may be called ``index``, and case makes no difference."""

    def _requires_quotes(self, value: str) -> bool:
        return True


class Dialect(default.DefaultDialect):
    """What SQLAlchemy has to know about SwingDB."""

    name = "swingdb"
    driver = "swingdb"
    default_paramstyle = "qmark"
    statement_compiler = _Compiler
    ddl_compiler = _DDLCompiler
    type_compiler_cls = _TypeCompiler
    preparer = _Preparer
    colspecs = {sqltypes.Uuid: _Uuid}  # noqa: RUF012 - as the class above declares it

    supports_statement_cache = True
    supports_alter = True
    supports_comments = False
    supports_default_values = True
    supports_default_metavalue = True
    supports_empty_insert = False
    supports_multivalues_insert = True
    supports_native_boolean = True
    supports_native_decimal = True
    supports_native_enum = False
    supports_native_uuid = True
    supports_sane_multi_rowcount = False
    supports_schemas = True
    supports_sequences = True
    supports_views = True
    sequences_optional = False
    preexecute_autoincrement_sequences = False
    postfetch_lastrowid = False
    insert_returning = True
    update_returning = True
    delete_returning = True
    use_insertmanyvalues = True
    div_is_floordiv = True
    _json_serializer = None
    _json_deserializer = None
    _backslash_escapes = False
    _supports_jsonb_subscripting = False

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.ignores_foreign_keys = False
        self._lock = threading.Lock()
        #: The private database of this engine, of which each connection is a session; by process.
        self._private: dict[int, swingdb.Connection] = {}
        self._autocommit: weakref.WeakSet[Any] = weakref.WeakSet()

    @classmethod
    def import_dbapi(cls) -> Any:
        """The package itself follows PEP 249."""
        return swingdb

    # Connecting ---------------------------------------------------------------------------------

    def create_connect_args(self, url: Any) -> Any:
        """The arguments of :meth:`connect` for a URL."""
        if url.host or url.username or url.port:
            raise exc.ArgumentError(
                "a URL has three slashes before a name, swingdb:///name; no host is asked"
            )
        options: dict[str, Any] = dict(url.query)
        foreign_keys = options.pop("foreign_keys", None)
        if foreign_keys not in (None, "ignore"):
            raise exc.ArgumentError("foreign_keys can be ignore, or left out")
        self.ignores_foreign_keys = foreign_keys is not None
        given = {name: options.pop(name) for name in _OPENING if name in options}
        if "read_only" in given:
            given["read_only"] = util.asbool(given["read_only"])
        if "durability" in given:
            given["durability"] = _number(given["durability"])
        if options:
            given["config"] = options
        return [url.database], given

    def connect(self, *cargs: Any, **cparams: Any) -> Any:
        """A session: on the named database, or on the private one of this engine."""
        if cargs[0] not in (None, "", ":memory:"):
            return swingdb.connect(*cargs, **cparams)
        config = cparams.pop("config", None)
        with self._lock:
            pid = os.getpid()
            private = self._private.get(pid)
            if private is None or private.closed:
                private = self._private[pid] = swingdb.connect(None, **cparams)
            session = private.duplicate()
        return session.configure(config or {})

    def on_connect(self) -> None:
        """Nothing is to be set up."""

    def is_disconnect(self, e: Any, connection: Any, cursor: Any) -> bool:
        """Whether a connection is of no use any more."""
        return isinstance(e, (swingdb.ClosedError, swingdb.ForkedError))

    # Running ------------------------------------------------------------------------------------

    def do_execute(
        self, cursor: Any, statement: str, parameters: Any, context: Any = None
    ) -> None:
        cursor._execute(statement, parameters, None)

    def do_executemany(
        self, cursor: Any, statement: str, parameters: Any, context: Any = None
    ) -> None:
        cursor._execute_many(statement, list(parameters), None)

    def do_execute_no_params(self, cursor: Any, statement: str, context: Any = None) -> None:
        cursor._execute(statement, None, None)

    def do_begin(self, dbapi_connection: Any) -> None:
        # The pool hands out a proxy of the connection.
        connection = getattr(dbapi_connection, "dbapi_connection", dbapi_connection)
        if connection not in self._autocommit:
            connection.begin()

    def get_isolation_level_values(self, dbapi_conn: Any) -> Any:
        """A transaction sees the state at its beginning; or each statement is one."""
        return ["SNAPSHOT", "AUTOCOMMIT"]

    def get_isolation_level(self, dbapi_connection: Any) -> Any:
        return "AUTOCOMMIT" if dbapi_connection in self._autocommit else "SNAPSHOT"

    def set_isolation_level(self, dbapi_connection: Any, level: Any) -> None:
        if level == "AUTOCOMMIT":
            self._autocommit.add(dbapi_connection)
        else:
            self._autocommit.discard(dbapi_connection)

    def _get_server_version_info(self, connection: Any) -> tuple[int, ...]:
        return tuple(int(part) for part in swingdb.__version__.split(".") if part.isdigit())

    def _get_default_schema_name(self, connection: Any) -> str:
        return "main"

    # Reflection ---------------------------------------------------------------------------------

    def get_schema_names(self, connection: Any, **kw: Any) -> list[str]:
        sql = "SELECT schema_name FROM information_schema.schemata ORDER BY schema_name"
        names = connection.exec_driver_sql(sql).scalars()
        return [name for name in names if name != "information_schema"]

    def _shown(self, connection: Any, schema: str | None) -> list[Any]:
        """(name, schema, database, kind, rows) of the tables and views of a schema."""
        schema = schema or self.default_schema_name
        rows = connection.exec_driver_sql("SHOW TABLES").all()
        return [row for row in rows if row[1] == schema]

    def get_table_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        return [
            row[0]
            for row in self._shown(connection, schema)
            if row[3] == "table" and row[2] != "temp"
        ]

    def get_temp_table_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        return [row[0] for row in self._shown(connection, schema) if row[2] == "temp"]

    def get_view_names(self, connection: Any, schema: str | None = None, **kw: Any) -> list[str]:
        return [row[0] for row in self._shown(connection, schema) if row[3] == "view"]

    def get_sequence_names(
        self, connection: Any, schema: str | None = None, **kw: Any
    ) -> list[str]:
        schema = schema or self.default_schema_name
        rows = connection.exec_driver_sql("SHOW SEQUENCES").all()
        return [row[0] for row in rows if row[1] == schema]

    def has_sequence(
        self, connection: Any, sequence_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        names = self.get_sequence_names(connection, schema)
        return sequence_name.lower() in (name.lower() for name in names)

    def has_table(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> bool:
        names = (row[0].lower() for row in self._shown(connection, schema))
        return table_name.lower() in names

    def _quoted(self, connection: Any, table_name: str, schema: str | None) -> str:
        if not self.has_table(connection, table_name, schema):
            raise exc.NoSuchTableError(f"{schema}.{table_name}" if schema else table_name)
        parts = [table_name] if schema is None else [schema, table_name]
        return ".".join(map(_text.identifier, parts))

    def get_columns(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        name = self._quoted(connection, table_name, schema)
        return [
            {
                "name": column,
                "type": _type(kind),
                "nullable": null == "YES",
                "default": initial,
                "autoincrement": bool(initial and initial.lower().startswith("nextval(")),
                "comment": None,
            }
            for column, kind, null, _, initial in connection.exec_driver_sql(f"DESCRIBE {name}")
        ]

    def _constraints(
        self, connection: Any, table_name: str, schema: str | None
    ) -> list[tuple[str | None, str, str]]:
        """(name, kind, what is in parentheses) of each constraint of a table."""
        quoted = self._quoted(connection, table_name, schema)
        if table_name.lower() in map(str.lower, self.get_view_names(connection, schema)):
            return []
        shown = connection.exec_driver_sql(f"SHOW CREATE TABLE {quoted}").scalar_one()
        return list(filter(None, map(_constraint, _elements(shown))))

    def get_pk_constraint(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        for name, kind, inside in self._constraints(connection, table_name, schema):
            if kind == "PRIMARY KEY":
                return {"name": name, "constrained_columns": _names(inside)}
        return {"name": None, "constrained_columns": []}

    def get_unique_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        return [
            {"name": name, "column_names": _names(inside)}
            for name, kind, inside in self._constraints(connection, table_name, schema)
            if kind == "UNIQUE"
        ]

    def get_check_constraints(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        return [
            {"name": name, "sqltext": inside}
            for name, kind, inside in self._constraints(connection, table_name, schema)
            if kind == "CHECK"
        ]

    def get_foreign_keys(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        self._quoted(connection, table_name, schema)
        keys = connection.exec_driver_sql(
            "SELECT constraint_column_names, referenced_table, referenced_column_names"
            " FROM duckdb_constraints() WHERE constraint_type = 'FOREIGN KEY'"
            " AND database_name = 'swingdb' AND lower(table_name) = lower(?)"
            " AND lower(schema_name) = lower(?)",
            (table_name, schema or "main"),
        )
        return [
            {
                "name": None,
                "constrained_columns": list(own),
                "referred_schema": schema,
                "referred_table": parent,
                "referred_columns": list(columns),
                "options": {},
            }
            for own, parent, columns in keys
        ]

    def get_indexes(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> list[Any]:
        self._quoted(connection, table_name, schema)
        return []

    def get_table_comment(
        self, connection: Any, table_name: str, schema: str | None = None, **kw: Any
    ) -> Any:
        self._quoted(connection, table_name, schema)
        return {"text": None}

    def get_view_definition(
        self, connection: Any, view_name: str, schema: str | None = None, **kw: Any
    ) -> str:
        found = connection.exec_driver_sql(
            "SELECT definition FROM information_schema.views "
            "WHERE lower(table_name) = lower(?) AND table_schema = ?",
            (view_name, schema or self.default_schema_name),
        ).scalar()
        if found is None:
            raise exc.NoSuchTableError(view_name)
        return str(found)


def _number(text: str) -> str | float:
    try:
        return float(text)
    except ValueError:
        return text


def _type(name: str) -> sqltypes.TypeEngine[Any]:
    """The type of a column by the name that the database has for it."""
    numeric = _NUMERIC.fullmatch(name)
    if numeric is not None:
        return sqltypes.DECIMAL(int(numeric[1]), int(numeric[2]))
    if name.endswith("[]"):
        return sqltypes.ARRAY(_type(name[:-2]))
    if name.startswith("TIMESTAMP"):
        return sqltypes.TIMESTAMP(timezone="ZONE" in name)
    known = _TYPES.get(name)
    return Other(name) if known is None else known()


def _elements(create: str) -> list[list[tuple[str, str]]]:
    """The elements of CREATE TABLE, each as its tokens."""
    found: list[list[tuple[str, str]]] = [[]]
    depth = 0
    for kind, text in _text.tokens(create):
        depth -= kind == "close"
        if depth == 1 and text == ",":
            found.append([])
        elif depth >= 1:
            found[-1].append((kind, text))
        depth += kind == "open"
    return found


def _constraint(tokens: list[tuple[str, str]]) -> tuple[str | None, str, str] | None:
    """(name, kind, what is in parentheses), if an element is a constraint and no column."""
    name: str | None = None
    words = [text for kind, text in tokens if kind != "space"]
    if words and words[0].upper() == "CONSTRAINT":
        name, words = _text.unquoted(words[1]), words[2:]
    kind = " ".join(words[: 2 if words[:1] == ["PRIMARY"] else 1]).upper()
    if kind not in ("PRIMARY KEY", "UNIQUE", "CHECK"):
        return None
    text = "".join(text for _, text in tokens)
    return name, kind, text[text.index("(") + 1 : text.rindex(")")]


def _names(columns: str) -> list[str]:
    """The columns of a list of names."""
    kinds = ("word", "quoted")
    return [_text.unquoted(text) for kind, text in _text.tokens(columns) if kind in kinds]
