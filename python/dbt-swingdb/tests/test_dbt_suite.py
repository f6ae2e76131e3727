"""dbt's own tests of adapters, from the package dbt-tests-adapter.

All classes ``Test...`` of the suite run, which are for PostgreSQL, and those of ``BASES``, which
only other adapters run. ``CHANGED`` says what is expected in place of PostgreSQL's answers, and
``LEFT_OUT`` which tests do not apply, and why. docs/dbt.md has the same as a table.
"""

import importlib
import os
import pathlib
import shutil

import dbt.tests.adapter
import pytest
from dbt.tests.adapter.basic.expected_catalog import (
    base_expected_catalog,
    expected_references_catalog,
    no_stats,
)
from dbt.tests.adapter.hooks.test_model_hooks import BaseTestPrePost
from dbt.tests.adapter.incremental import test_incremental_microbatch as microbatch
from dbt.tests.adapter.python_model import test_python_model as python_models
from dbt.tests.adapter.sample_mode import fixtures as sample_mode
from dbt.tests.adapter.simple_seed import seeds

FOLDER = pathlib.Path(dbt.tests.adapter.__path__[0])

#: Tests that are left out, by class or by class and method, with the reason.
LEFT_OUT = {
    "TestModelGrants": "no grants: files of the namespace belong to one user",
    "TestIncrementalGrants": "no grants",
    "TestSeedGrants": "no grants",
    "TestSnapshotGrants": "no grants",
    "TestInvalidGrants": "no grants",
    "TestPersistDocs": "no comments on columns of views",
    "TestSimpleCopyBase.test_simple_copy_with_materialized_views": "no materialized views",
    "TestDebugPostgres": "profiles of PostgreSQL",
    "TestDebugInvalidProjectPostgres": "profiles of PostgreSQL",
    "TestSimpleCopyUppercase": "profiles of PostgreSQL",
    "TestGetIntervalsBetween": "PostgreSQL's order of day and month in dates",
    "TestDateSpine": "compares dates with texts, unless the adapter is PostgreSQL's",
    "TestEphemeralMulti": "compares SQL with the name of PostgreSQL's database",
    "TestEphemeralNested": "compares SQL with the name of PostgreSQL's database",
    "TestSeedWithWrongDelimiter": "PostgreSQL's words of an error",
    "TestCachingUppercaseModel": "names are compared with case only when they are quoted",
    "TestSimpleSeedColumnOverride": "PostgreSQL's names of types",
}

#: Classes that the suite has for other adapters than PostgreSQL's.
BASES = {
    "dbt_clone.test_dbt_clone.BaseClonePossible",
    "dbt_clone.test_dbt_clone.BaseCloneSameSourceAndTarget",
    "empty.test_empty.BaseTestEmptyInlineSourceRef",
    "ephemeral.test_ephemeral.BaseEphemeralErrorHandling",
    "incremental.test_incremental_merge_exclude_columns.BaseMergeExcludeColumns",
    "incremental.test_incremental_microbatch.BaseMicrobatch",
    "incremental.test_incremental_predicates.BaseIncrementalPredicates",
    "python_model.test_python_model.BasePythonEmptyTests",
    "python_model.test_python_model.BasePythonIncrementalTests",
    "python_model.test_python_model.BasePythonModelTests",
    "python_model.test_python_model.BasePythonSampleTests",
    "sample_mode.test_sample_mode.BaseSampleModeTest",
    "unit_testing.test_quoted_reserved_word_column_names.BaseUnitTestQuotedReservedWordColumnNames",
    "unit_testing.test_types.BaseUnitTestingTypes",
    "unit_testing.test_types.BaseUnitTestingVarcharFixtureNoTruncation",
    "utils.test_current_timestamp.BaseCurrentTimestampAware",
}

CONTRACT_TYPES = [
    # A value, its type in a contract, and in an error.
    ["1", "INTEGER", "BIGINT"],
    ["'1'", "VARCHAR", "VARCHAR"],
    ["true", "bool", "BOOLEAN"],
    ["'2013-11-03 00:00:00-07'::timestamptz", "timestamptz", "TIMESTAMP WITH TIME ZONE"],
    ["'2013-11-03 00:00:00'::timestamp", "timestamp", "TIMESTAMP"],
    ["ARRAY['a', 'b', 'c']", "VARCHAR[]", "VARCHAR[]"],
    ["ARRAY[1, 2, 3]", "BIGINT[]", "BIGINT[]"],
    ["'1'::numeric", "numeric", "DECIMAL"],
]


def fixture(value):
    """A fixture of a class, that gives a value."""
    return pytest.fixture(scope="class")(lambda self: value)


def contract():
    return {
        "string_type": fixture("VARCHAR"),
        "int_type": fixture("INTEGER"),
        "data_types": fixture(CONTRACT_TYPES),
    }


def not_null():
    return {"expected_error_messages": fixture(["NOT NULL"])}


def catalog(self, project):
    return base_expected_catalog(
        project, role=None, id_type="INTEGER", text_type="VARCHAR", time_type="TIMESTAMP",
        view_type="VIEW", table_type="BASE TABLE", model_stats=no_stats(),
    )  # fmt: skip


def references(self, project):
    return expected_references_catalog(
        project, role=None, id_type="INTEGER", text_type="VARCHAR", time_type="TIMESTAMP",
        bigint_type="BIGINT", view_type="VIEW", table_type="BASE TABLE", model_stats=no_stats(),
    )  # fmt: skip


def refreshed(name):
    """Dropping a table leaves the views that read it."""

    def test(self, project):
        from dbt.tests.util import run_dbt

        self._build_relations_for_test(project)
        arguments = ["seed", "--full-refresh"] if name.endswith("flag") else ["seed"]
        self._check_relation_end_state(
            run_result=run_dbt(arguments), project=project, exists=True
        )

    return {name: test}


def two_rows(self, project):
    """The suite's, whose times have offsets of one digit."""
    return (
        f"insert into {project.test_schema}.input_model (id, event_time) values "
        "(4, TIMESTAMP '2020-01-04 00:00:00'), (5, TIMESTAMP '2020-01-05 00:00:00')"
    )


def with_bom(self, project):
    """The file lies in the suite."""
    project.run_sql(seeds.seeds__expected_sql)
    place = pathlib.Path(project.project_root) / "seeds" / "seed_bom.csv"
    shutil.copy(FOLDER / "simple_seed" / "seed_bom.csv", place)


def check_hooks(self, state, project, host, count=1):
    """As the suite's, for a profile without server and user."""
    counted = {"count": count} if isinstance(self, BaseTestPrePost) else {}
    contexts = self.get_ctx_vars(state, project=project, **counted)
    for context in contexts if isinstance(contexts, list) else [contexts]:
        assert context["test_state"] == state
        assert context["target_name"] == "default"
        assert context["target_schema"] == project.test_schema
        assert context["target_threads"] == 4
        assert context["target_type"] == "swingdb"
        assert context["run_started_at"]
        assert context["invocation_id"]
        assert context["thread_id"].startswith(("Thread-", "MainThread"))


HOOKS = (
    "TestPrePostModelHooks",
    "TestPrePostModelHooksUnderscores",
    "TestHookRefs",
    "TestPrePostModelHooksInConfig",
    "TestPrePostModelHooksInConfigWithCount",
    "TestPrePostModelHooksInConfigKwargs",
    "TestPrePostRunHooks",
)

#: The suite's times end with an offset of one digit, which is none here.
PYTHON_MODELS = {
    "models": fixture({
        "input_model.sql": python_models._input_model_sql.replace("00-0'", "00'"),
        "model_that_refs_input.py": python_models._model_that_refs_input_py,
    })
}

#: Filters of relations are SQL.
INCREMENTAL_PYTHON = {
    "models": fixture({
        "m_1.sql": python_models.m_1,
        "incremental.py": python_models.incremental_python.replace("df.id > 5", "'id > 5'"),
    })
}

TIMESTAMPS = {
    "current_timestamp": "TIMESTAMP WITH TIME ZONE",
    "current_timestamp_in_utc_backcompat": "TIMESTAMP",
    "current_timestamp_backcompat": "TIMESTAMP",
}

#: What is expected here in place of PostgreSQL's answers, by class.
CHANGED = {
    "TestTableConstraintsColumnsEqual": contract(),
    "TestIncrementalConstraintsColumnsEqual": contract(),
    "TestViewConstraintsColumnsEqual": contract(),
    "TestTableConstraintsRollback": not_null(),
    "TestIncrementalConstraintsRollback": not_null(),
    "TestDocsGenerate": {"expected_catalog": pytest.fixture(scope="class")(catalog)},
    "TestDocsGenReferences": {"expected_catalog": pytest.fixture(scope="class")(references)},
    "TestBasicSeedTests": refreshed("test_simple_seed_full_refresh_flag"),
    "TestSeedConfigFullRefreshOn": refreshed("test_simple_seed_full_refresh_config"),
    "TestShowDoesNotHandleDoubleLimit": {
        "DATABASE_ERROR_MESSAGE": "expected the end of the statement"
    },
    "TestCurrentTimestamps": {
        "expected_schema": fixture(TIMESTAMPS),
        "expected_sql": fixture(None),
    },
    "TestSimpleSeedWithBOM": {"setUp": pytest.fixture(scope="class", autouse=True)(with_bom)},
    "BaseMicrobatch": {
        "input_model_sql": fixture(microbatch._input_model_sql.replace("00-0'", "00'")),
        "insert_two_rows_sql": pytest.fixture(scope="class")(two_rows),
    },
    "BaseSampleModeTest": {
        "input_model_sql": fixture(sample_mode.input_model_sql.replace("00-0'", "00'"))
    },
    "BasePythonEmptyTests": PYTHON_MODELS,
    "BasePythonSampleTests": PYTHON_MODELS,
    "BasePythonIncrementalTests": INCREMENTAL_PYTHON,
    **dict.fromkeys(HOOKS, {"check_hooks": check_hooks}),
    "BaseUnitTestingTypes": {
        "data_types": fixture([
            ["1", "1"],
            ["'1'", "1"],
            ["true", "true"],
            ["DATE '2020-01-02'", "2020-01-02"],
            ["TIMESTAMP '2013-11-03 00:00:00'", "2013-11-03 00:00:00"],
            ["1.5::decimal(3, 1)", "1.5"],
        ])
    },
}


def collect():
    for path in sorted(FOLDER.rglob("*.py")):
        dotted = ".".join(path.relative_to(FOLDER).with_suffix("").parts)
        if path.stem == "__init__" or "spark" in dotted:
            continue
        module = importlib.import_module(f"dbt.tests.adapter.{dotted}")
        for name, value in vars(module).items():
            own = isinstance(value, type) and value.__module__ == module.__name__
            if own and (name.startswith("Test") or f"{dotted}.{name}" in BASES):
                yield dotted, name, value


for dotted, name, value in collect():
    made = type(f"Test_{dotted.replace('.', '_')}_{name}", (value,), dict(CHANGED.get(name, {})))
    if name in LEFT_OUT:
        made = pytest.mark.skip(reason=LEFT_OUT[name])(made)
    for entry, reason in LEFT_OUT.items():
        of, _, method = entry.partition(".")
        if of == name and method:
            setattr(made, method, pytest.mark.skip(reason=reason)(getattr(value, method)))
    globals()[made.__name__] = made


def test_nothing_else_is_left_out():
    """Entries of the lists are names of the suite."""
    known = {name for _, name, _ in collect()}
    assert {entry.partition(".")[0] for entry in LEFT_OUT} <= known
    assert set(CHANGED) <= known
    assert {base.rpartition(".")[2] for base in BASES} <= known
    assert os.environ.get("SWINGDB_HOME"), "tests have a namespace of their own"
