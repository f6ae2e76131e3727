"""dbt's fixtures, on a private database."""

import os
import pathlib

import dbt.tests.adapter
import pytest

pytest_plugins = ["dbt.tests.fixtures.project"]


@pytest.fixture(scope="class")
def dbt_profile_target():
    return {"type": "swingdb", "threads": 4}


@pytest.fixture(scope="class")
def profile_user():
    """Databases have no users."""
    return None


@pytest.fixture(scope="class")
def test_data_dir(request, tmp_path_factory):
    """Files that hooks come with lie in the suite; other tests make this folder."""
    suite = pathlib.Path(dbt.tests.adapter.__path__[0])
    made = tmp_path_factory.mktemp("files") / "data"
    return str(suite / "hooks" / "data" if "hooks" in request.node.name else made)


@pytest.fixture(scope="class")
def logs_dir(tmp_path_factory):
    """dbt's logs: not in the checkout."""
    folder = str(tmp_path_factory.mktemp("logs"))
    os.environ["DBT_LOG_PATH"] = folder
    yield folder
    del os.environ["DBT_LOG_PATH"]
