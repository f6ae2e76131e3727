"""The macros of the adapter, as a package of dbt."""

import os

PACKAGE_PATH = os.path.dirname(__file__)
