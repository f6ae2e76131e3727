"""The benchmarks that compare with other systems, at tiny sizes: answers are equal, results are
well-formed, reports can be made of them. No peer but those of the other tests is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BENCH = ROOT / "bench"
pytest.importorskip("swingdb")


@pytest.fixture(autouse=True)
def importable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules of bench/ as its programs see them."""
    monkeypatch.syspath_prepend(str(BENCH))


@pytest.fixture
def bench(tmp_path: Path):
    """Runs a benchmark; its results."""

    def run(name: str, program: str, *words: str) -> dict:
        environment = os.environ | {"BENCH_RESULTS": str(tmp_path)}
        environment.setdefault("PYTHONPATH", str(ROOT / "python"))
        ended = subprocess.run(
            [sys.executable, BENCH / program, *words], env=environment, capture_output=True,
            text=True, timeout=170, check=False,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        results = json.loads((tmp_path / f"{name}.json").read_text())
        assert results["benchmark"] == name and results["machine"]["cores"] >= 1
        return results

    return run


#: Flags, and the systems beside SwingDB.
PAPER = {
    "fig15": (["--rows", "40000", "--threads", "1,2", "--clusters", "4"], "socket"),
    "fig17": (["--rows", "40000", "--days", "1,7"], "duckdb file"),
    "fig18": (["--rows", "20000", "--percents", "1,100"], "flight"),
}


@pytest.mark.parametrize("figure", PAPER)
def test_all_systems_answer_the_papers_questions_alike(bench, figure):
    flags, others = PAPER[figure]
    more = ["--rounds", "1", "--systems", f"swingdb,{others}"]
    results = bench(figure, "paper.py", figure, *flags, *more)
    import paper_report

    key = paper_report.KEYS[figure]
    assert len(results["points"]) == (3 if figure == "fig15" else 2)
    answers = [[(run[key], run["answer"]) for run in p["runs"]] for p in results["points"]]
    assert all(of == answers[0] and len(of) == 2 for of in answers)
    # What varies changes the answer, but for the number of threads.
    assert len({answer for _, answer in answers[0]}) == (1 if figure == "fig15" else 2)
    for point in results["points"]:
        for run in point["runs"]:
            assert run["query_s"] >= 0 and run["transfer_s"] >= 0
    text = paper_report.show(figure, results)
    assert "| 1 | SwingDB |" in text and "to SwingDB's" in text


def test_points_are_found_and_clustered_as_by_numpy():
    np = pytest.importorskip("numpy")
    import points

    random, work = np.random.default_rng(3), points.Points()
    taxi = np.repeat(np.arange(50, dtype=np.int32), 900)
    rows = (taxi, random.random(45_000), random.random(45_000),
            random.integers(0, 2, 45_000).astype(np.int16))
    expected = np.flatnonzero((np.diff(rows[3]) != 0) & (np.diff(taxi) == 0)) + 1
    cut = [tuple(column[a:b] for column in rows) for a, b in ((0, 1), (1, 900), (900, 45_000))]
    for pieces, threads in (([rows], 1), (cut, 1), (cut, 3)):
        lon, lat = work.changes(pieces, threads)
        assert (lon == rows[1][expected]).all() and (lat == rows[2][expected]).all()
    one, three = (work.cluster(rows[1], rows[2], 5, 1, threads, 8) for threads in (1, 3))
    assert one.tobytes() == three.tobytes()
    chunk = random.random((2, 1_300)).astype(np.float32)
    centres = random.random((5, 2)).astype(np.float32)
    nearest = ((chunk.T[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
    sums = work._sums(chunk, centres)
    for centre in range(5):
        own = chunk.T[nearest == centre].astype(np.float64)
        assert np.allclose(sums[centre], [*own.sum(axis=0), len(own)])


def test_answers_that_differ_end_the_benchmark():
    import paper

    figure = paper.FIGURES["fig18"]
    points = [
        {"system": name, "runs": [{"percent": 1, "answer": answer}]}
        for name, answer in (("SwingDB", "3 0.5"), ("another", "3 0.25"))
    ]
    paper.compare(figure, points[:1])
    with pytest.raises(SystemExit, match="another answers 3 0.25 at percent 1, and SwingDB 3 0.5"):
        paper.compare(figure, points)


def test_each_switch_is_compared_with_all_choices_of_the_same_round():
    import switches

    names = switches.names()
    assert len(names) == len(set(names)) and {"copy-ahead", "affinity"} < set(names)
    turns = [switches.in_turns([switches.ALL, switches.NONE, *names], turn) for turn in range(3)]
    for turn in turns:
        assert set(turn) == {switches.ALL, switches.NONE, *names} and turn[0] == switches.ALL
        assert all(turn.count(name) == 1 for name in names)
    assert turns[0] != turns[1]
    # Twice as slow without it, in three rounds of a machine that gets slower.
    time, rate = "live-small local hook p50", "redis throughput"
    rounds = [
        {"all": {time: [10 * r, 14 * r], rate: [100 / r]},
         "affinity": {time: [24 * r], rate: [50 / r]}} for r in (1, 2, 4)
    ]
    ratios = switches.compared(rounds)
    assert ratios == {"affinity": {time: [2.0] * 3, rate: [2.0] * 3}}
    assert switches.bests(rounds) == {"affinity": {time: [2.4], rate: [2.0]}}
    row = switches.told(ratios).splitlines()[-1].split("|")
    cells = [cell.strip() for cell in row]
    assert [cell for cell in cells if cell not in ("", "-")] == ["affinity", "2.00", "2.00"]


def test_the_rows_are_those_of_the_seed_and_the_paper(monkeypatch):
    import workloads

    monkeypatch.setattr(workloads, "BLOCK_ROWS", 30_000)
    taxi = [list(workloads.taxi(70_000, 7, seed)) for seed in (1, 1, 2)]
    assert [batch.num_rows for batch in taxi[0]] == [30_000, 30_000, 10_000]
    assert taxi[0] == taxi[1] != taxi[2]
    first = taxi[0][0].to_pydict()
    assert max(first["seconds"]) < 7 * workloads.DAY_S and set(first["occupied"]) == {0, 1}
    # 170 million rows of 28 bytes, of which 22 are read: the paper's 4 GB.
    assert workloads.row_bytes("gps") == 28 and 3.5e9 < 170e6 * 22 < 4e9
    bills = next(workloads.bills(30_000, 1)).to_pydict()
    fifth = sum(share < 20 for share in bills["share"])
    assert 5_400 < fifth < 6_600 and workloads.row_bytes("bills") == 20


def test_readers_of_a_writer_see_whole_transactions(bench):
    words = ["--rows", "2000", "--readers", "2", "--seconds", "0.6", "--rounds", "1"]
    stores = ["--modes", "paced", "--stores", "swingdb,kept open,sqlite"]
    results = bench("readers-writer", "readers_writer.py", *words, *stores)
    rows = {row["store"]: row for row in results["rows"]}
    for store in ("SwingDB", "SQLite, WAL"):
        beside = rows[store]["runs"][0]["beside"]
        assert beside["refused"] == 0 and beside["writer"]["per_second"] > 0
        assert beside["read_ms"]["p99"] >= beside["read_ms"]["p50"] > 0
        assert rows[store]["oldest_ms"] > 0 and beside["pss_bytes"] > 0
    refused = rows["DuckDB file, kept open"]["runs"][0]["beside"]
    assert refused["refused"] > 0 and "lock" in refused["refusal"]
    import comparison

    assert "| SwingDB | paced |" in comparison.beside_parts(results)
    assert [case.what for case in comparison.beside(results)][-1] == "a read, paced"


def test_half_a_transaction_is_found(tmp_path):
    import readers_writer

    class Broken(readers_writer.Store):
        """A store that shows a transaction without all of its rows."""

        def read(self):
            while True:
                yield 99, 1, 1

    class Connection:
        """What the reader's process is told, and what it says."""

        orders, said = [("paced", 5.0), None], []

        def recv(self):
            return self.orders.pop(0)

        def send(self, what):
            self.said.append(what)

    readers_writer.read_on(Broken(tmp_path, 1000, 0.1), Connection(), 0.01)
    assert Connection.said == ["ready", {"error": "99 after 1 transactions"}]


def test_all_holders_have_the_same_rows(bench):
    results = bench("footprint", "footprint.py", "--rows", "20000", "--holders",
                    "swingdb,duckdb file")
    assert {row["holder"] for row in results["rows"]} == {"SwingDB", "DuckDB file"}
    assert len({tuple(row["sums"]) for row in results["rows"]}) == 1
    assert all(row["memory_bytes"] > 0 for row in results["rows"])
    import comparison

    assert [case.what for case in comparison.footprint(results)] == ["one process", "two processes"]
    assert "| SwingDB |" in comparison.footprint_parts(results)


def test_private_copies_are_private(bench):
    words = ["--mb", "1", "--rounds", "1", "--ways", "swingdb,fork"]
    results = bench("private-copy", "private_copy.py", *words)
    assert len(results["rows"]) == 4
    for which in ("every hundredth", "a range"):
        sums = {r["runs"][0]["sum"] for r in results["rows"] if r["which"] == which}
        assert len(sums) == 1
    import comparison

    cases = list(comparison.private_copy(results))
    assert [case.what for case in cases] == ["1 MB, every hundredth", "1 MB, a range"]
    assert "| 1 MB, a range | fork, NumPy |" in comparison.copy_memory(results)


def test_a_handover_tells_having_from_summing(bench):
    results = bench("handover", "handover.py", "--max-bytes", str(10 << 20), "--rounds", "1")
    for row in results["rows"]:
        assert 0 < row["had_ms"]["median"] <= row["ms"]["median"]
    import comparison

    had = next(comparison.handover("had_ms")(results))
    assert had.what == "10 MB" and "Arrow file, mapped" in had.peers
    assert "Here, at 10 MB, it is" in comparison.had_aim(results)


def test_suites_of_queries_have_the_same_answers(bench, tmp_path):
    queries = tmp_path / "queries.sql"
    queries.write_text(
        'SELECT "RegionID", count(*) AS c FROM hits WHERE "URL" <> \'\' GROUP BY "RegionID"\n'
        'SELECT count(DISTINCT "UserID") AS u, max("EventDate") AS d FROM hits\n'
    )
    words = ["--suites", "db-benchmark,clickbench", "--rows", "3000", "--hits", "2000"]
    more = ["--runs", "1", "--clickbench", str(queries)]
    results = bench("sql-clickbench", "sql_suites.py", *words, *more)
    assert [row["query"] for row in results["rows"]] == ["q0", "q1"]
    assert results["sizes"] == {"hits": 2000}
    own = json.loads((tmp_path / "sql-db-benchmark.json").read_text())
    for row in own["rows"] + results["rows"]:
        assert {"SwingDB", "DuckDB"} <= set(row["ms"]) and row["different"] == {}, row
    assert len(own["rows"]) == 15
    import comparison

    assert [case.what for case in comparison.suite(results)] == ["q0", "q1"]
    assert "Rows: hits 2,000." in comparison.suite_parts(results)


def test_an_answer_that_differs_is_found():
    pa = pytest.importorskip("pyarrow")
    import sql_suites

    found = [pa.table({"a": a}) for a in ([1, 2], [2, 1], [1, 3], [1])]
    assert sql_suites.differs("q", "SELECT a", found[1], found[0]) is None
    assert "row 1" in sql_suites.differs("q", "SELECT a", found[2], found[0])
    assert "1 rows, DuckDB 2" in sql_suites.differs("q", "SELECT a", found[3], found[0])
    assert sql_suites.differs("q", "SELECT a LIMIT 2", found[2], found[0]) is None


def test_the_page_says_where_a_peer_is_faster_and_why():
    import comparison

    job = next(job for job in comparison.JOBS if job.name == "dml")
    results = {
        "command": "make bench-dml", "measured": "2026-01-01", "duckdb": "2.0.0",
        "machine": {"processor": "P", "cores": 2, "memory_gib": 8, "kernel": "6"},
        "rows": [
            {"statement": "UPDATE, one row", "swingdb_ms": [4.0], "duckdb_ms": [2.0]},
            {"statement": "MERGE", "swingdb_ms": [1.0], "duckdb_ms": [3.0]},
        ],
    }
    cases = list(job.read(results))
    assert "| MERGE | 1.0 | 3.0 (3.00x) |" in comparison.section(job, results, cases)
    lost = comparison.lost([(job, cases)])
    assert "| UPDATE, one row | DuckDB | 2.00x | planning" in lost and "MERGE" not in lost
    names = {job.name for job in comparison.JOBS}
    assert all(name in names and reason for name, _, reason in comparison.WHY)


def test_peers_that_are_missing_are_named(monkeypatch, capsys):
    import paper
    import systems

    monkeypatch.setattr(systems.PostgresCopy, "programs", classmethod(lambda _: None))
    taking, left_out = paper.chosen(paper.FIGURES["fig17"], "copy,redis,file")
    assert [system.name for system in taking] == ["DuckDB file"]
    assert left_out["PostgreSQL, COPY BINARY"] == "PostgreSQL is not installed"
    assert "it answers no queries" in left_out["Redis, Arrow as values"]
    assert "PostgreSQL, COPY BINARY: left out" in capsys.readouterr().out
    assert paper.order(paper.FIGURES["fig17"], Namespace(
        rounds=3, threads="1", days="1,2", percents="1", clusters=2, kmeans_rounds=1, seed=1,
    ), systems.DuckDBFile, "word")["days"] == [1, 2]
