"""The adapter for dbt, with a project of its own; skipped where dbt is not installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import swingdb

pytest.importorskip("dbt.cli.main")

ROOT = Path(__file__).parents[2]

FILES = {
    "dbt_project.yml": """
name: shop
profile: shop
version: '1.0'
flags: {send_anonymous_usage_stats: false}
""",
    "profiles.yml": """
shop:
  target: dev
  outputs:
    dev: {type: swingdb, name: shop, schema: main, threads: 3}
    raw: {type: swingdb, name: shop, schema: main, attach: [{name: raw, alias: source}]}
    each: {type: swingdb, name: shop, schema: main, share: sometimes}
""",
    "seeds/prices.csv": "item,price\n1,2.5\n2,4\n3,\n",
    "models/cheap.sql": "select * from {{ ref('prices') }} where price < 3",
    "models/orders.sql": """
{{ config(materialized='incremental', unique_key=['day', 'item']) }}
select date '2026-01-01' + n as day, 1 + n % 2 as item, {{ var('amount', 1) }} as amount
from (select range::int as n from range({{ var('days', 3) }}))
{% if is_incremental() %} where n >= 2 {% endif %}
""",
    "models/total.sql": """
{{ config(materialized='table', contract={'enforced': true}) }}
select o.item, sum(o.amount * p.price) as value
from {{ ref('orders') }} as o join {{ ref('prices') }} as p using (item) group by o.item
""",
    "models/schema.yml": """
models:
  - name: total
    columns:
      - {name: item, data_type: integer, constraints: [{type: primary_key}]}
      - {name: value, data_type: double, data_tests: [not_null]}
""",
    "models/twice.py": """
def model(dbt, session):
    dbt.config(materialized='table')
    return dbt.ref('prices').df().assign(price=lambda rows: rows.price * 2)
""",
}


@pytest.fixture
def dbt(home, tmp_path):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)

    def run(*arguments, ok=True):
        paths = [str(ROOT / "python" / "dbt-swingdb"), str(ROOT / "python")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "DO_NOT_TRACK": "1"}
        command = [sys.executable, "-m", "dbt.cli.main", *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
        )
        assert (done.returncode == 0) == ok, done.stdout + done.stderr
        return done.stdout

    return run


def rows(sql):
    with swingdb.snapshot("shop") as snapshot:
        return snapshot.sql(sql).fetchall()


def test_a_run_is_shared_as_a_whole(dbt):
    pytest.importorskip("pandas")
    dbt("build")
    assert rows("SELECT item FROM cheap") == [(1,)]
    assert rows("SELECT * FROM total ORDER BY item") == [(1, 5.0), (2, 4.0)]
    assert rows("SELECT sum(price) FROM twice") == [(13.0,)]
    assert rows("SELECT column_type FROM (DESCRIBE total)") == [("INTEGER",), ("DOUBLE",)]
    before = swingdb.snapshot("shop")
    dbt("build", "--vars", "{amount: 10, days: 5}")
    # Of the last day on, rows are replaced.
    amounts = "SELECT day(day), amount FROM orders ORDER BY day"
    assert rows(amounts) == [(1, 1), (2, 1), (3, 10), (4, 10), (5, 10)]
    assert before.sql(amounts).fetchall() == [(1, 1), (2, 1), (3, 1)]
    before.close()


def test_failures(dbt, home):
    dbt("seed")
    with swingdb.connect("shop"):
        assert str(os.getpid()) in dbt("run", "--select", "cheap", ok=False)
    dbt("run", "--select", "orders", "total")
    failing = ["--full-refresh", "--vars", "{days: 'nope'}"]
    told = dbt("run", "--select", "total", "orders", *failing, ok=False)
    assert "nope" in told
    # What failed is as it was.
    assert rows("SELECT count(*) FROM orders") == [(3,)]
    assert "share is one of run, commit, never" in dbt("run", "--target", "each", ok=False)


def test_other_databases_are_read(dbt, tmp_path):
    with swingdb.connect("raw") as raw:
        raw.execute("CREATE TABLE events AS SELECT range AS id FROM range(7)")
        raw.share()
    counted = "{{ config(materialized='table') }} select count(*) as n from source.main.events"
    (tmp_path / "models" / "events.sql").write_text(counted)
    dbt("run", "--select", "events", "--target", "raw")
    with swingdb.connect("shop", read_only=True) as con:
        assert con.sql("SELECT n FROM events").fetchall() == [(7,)]
