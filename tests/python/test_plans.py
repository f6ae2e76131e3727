"""EXPLAIN ANALYZE as a picture: a tree of text, and nested boxes for notebooks."""

from __future__ import annotations

import json
from html.parser import HTMLParser

import pytest

from swingdb import _plans

PLAN = """\
UnionExec, metrics=[output_rows=7, elapsed_compute=1.00ms]
  JoinExec: on=[a: b], metrics=[output_rows=5, elapsed_compute=2.00ms]
    ScanExec: t, metrics=[output_rows=1.00 K, elapsed_compute=500.00µs, x=1]
    ScanExec: s = '<a>
, metrics=[', metrics=[output_rows=2, elapsed_compute=500000ns]
  EmptyExec, metrics=[]
"""


class Boxes(HTMLParser):
    """The operators of the boxes, and how deep each stands."""

    def __init__(self) -> None:
        super().__init__()
        self.depth, self.found, self.bold = 0, [], False

    def handle_starttag(self, tag, attrs):
        self.depth += tag == "div"
        self.bold = tag == "b"
        assert tag in {"div", "b", "small", "pre"}, tag

    def handle_endtag(self, tag):
        self.depth -= tag == "div"
        self.bold = False

    def handle_data(self, data):
        if self.bold:
            self.found.append((self.depth, data))


def boxes(html: str) -> list[tuple[int, str]]:
    parser = Boxes()
    parser.feed(html)
    parser.close()
    assert parser.depth == 0
    return parser.found


def test_a_tree_of_text():
    assert _plans.text_tree(PLAN) == [
        "  rows      time  share  operator",
        "     7    1.00ms   25 %  UnionExec",
        "     5    2.00ms   50 %  ├─ JoinExec: on=[a: b]",
        "1.00 K  500.00µs   12 %  │  ├─ ScanExec: t",
        "     2  500000ns   12 %  │  └─ ScanExec: s = '<a> , metrics=['",
        "                         └─ EmptyExec",
    ]


def test_boxes_are_nested_and_escaped():
    html = _plans.html_tree(PLAN)
    found = boxes(html)
    names = [name for _, name in found]
    assert names == ["UnionExec", "JoinExec", "ScanExec", "ScanExec", "EmptyExec"]
    depths = [depth for depth, _ in found]
    assert depths[0] < depths[1] == depths[4] < depths[2] == depths[3]
    assert "&lt;a&gt;" in html and "<a>" not in html
    assert "5 rows · 2.00ms · 50 %" in html


@pytest.fixture
def rows(con):
    con.execute("CREATE TABLE t AS SELECT range AS i, range % 10 AS g FROM range(1000)")
    return con


def test_queries_and_changes_are_pictures(rows):
    query = "SELECT g, count(*) FROM t JOIN t AS u USING (i, g) WHERE i <> 7 GROUP BY g"
    plan = rows.sql(f"EXPLAIN ANALYZE {query}")
    names = [name for _, name in boxes(plan._repr_html_())]
    assert "HashJoinExec" in names and names.count("DataSourceExec") == 2
    assert "└─ " in repr(plan) and "metrics=" not in repr(plan)
    # Each operator of the engine's text is in the picture.
    text = str(rows.execute(f"EXPLAIN ANALYZE {query}").fetchall()[0][1])
    assert len(names) == text.count(", metrics=[")
    change = rows.sql("EXPLAIN ANALYZE DELETE FROM t WHERE i = 7")
    assert boxes(change._repr_html_()) and "DELETE: 1 row" in change._repr_html_()


def test_verbose_and_plain_plans_stay_as_they_are(rows):
    verbose = rows.sql("EXPLAIN ANALYZE VERBOSE SELECT count(*) FROM t WHERE g = 3")
    assert "output_bytes" in repr(verbose) and boxes(verbose._repr_html_()) == []
    plain = rows.sql("EXPLAIN SELECT count(*) FROM t WHERE g = 3")
    assert plain._repr_html_().startswith("<pre") and "rows  " not in repr(plain)


def test_a_plan_for_programs(con):
    ((kind, plan), *_) = con.execute("EXPLAIN (FORMAT json) SELECT 1 AS a").fetchall()
    (top,) = json.loads(plan)
    assert (kind, top["Plan"]["Node Type"]) == ("logical_plan", "Projection")
