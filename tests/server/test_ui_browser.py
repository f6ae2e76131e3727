"""`swingdb ui` in a real browser: what a person sees and clicks."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import swingdb
from page import Page
from webdriver import CONTROL, ENTER, MISSING, Browser, until

pytestmark = pytest.mark.skipif(MISSING is not None, reason=MISSING or "")

SLOW = "SELECT count(*) FROM range(100000000) a(i), range(1000) b(j) WHERE i * j % 7 = 3"
EVIL = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
#: Texts whose contrast is less than the 4.5 of WCAG AA, with their contrast.
FAINT = """
const light = (text) => text.match(/[\\d.]+/g).slice(0, 3).map((c) => c / 255)
    .map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
const behind = (e) => { for (; e; e = e.parentElement) {
    const color = getComputedStyle(e).backgroundColor;
    if (!/, 0\\)$/.test(color)) return color; } return 'rgb(255, 255, 255)'; };
return [...document.querySelectorAll('body *')].filter((e) => e.offsetParent && !e.disabled
    && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).map((e) => {
    const both = [light(getComputedStyle(e).color), light(behind(e))];
    const [a, b] = both.sort((x, y) => y - x);
    return [(a + 0.05) / (b + 0.05), e.tagName + ' ' + e.textContent.slice(0, 30)]; })
    .filter(([ratio]) => ratio < 4.5)
"""
#: Where screenshots go, for people to look at.
PICTURES = os.environ.get("SWINGDB_PICTURES")


@pytest.fixture
def page(writer: swingdb.Connection) -> Iterator[Page]:
    """A page of the database `served`."""
    page = Page("served")
    yield page
    if page.process.poll() is None:
        assert page.stop()[0] == 0


@pytest.fixture
def browser(page: Page, tmp_path: Path) -> Iterator[Browser]:
    """A browser that shows the notebook."""
    browser = Browser(tmp_path / "browser")
    try:
        browser.open(page.url)
        browser.wait("document.querySelector('#epoch').textContent.includes('snapshot of epoch')")
        yield browser
        assert browser.js("return window.hacked") is None
        assert browser.complaints() == []
    finally:
        browser.close()


def run(browser: Browser, sql: str, cell: int = 1) -> None:
    """Replaces a cell's SQL and runs it to its end."""
    area = f".cell:nth-child({cell}) textarea"
    browser.js("document.querySelector(arguments[0]).select()", area)
    browser.type(area, sql + CONTROL + ENTER)
    ended(browser, cell)


def ended(browser: Browser, cell: int = 1) -> str:
    """Waits for the end of a cell; how it ended."""
    state = f"document.querySelector('.cell:nth-child({cell}) .state').dataset.state"
    return browser.wait(f"['done', 'failed', 'cancelled'].includes({state}) && {state}")


def texts(browser: Browser, css: str) -> list[str]:
    """The texts of the elements of a selector."""
    return browser.js(
        "return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", css
    )


def picture(browser: Browser, name: str) -> None:
    """A screenshot for people, where they want it."""
    if PICTURES:
        browser.screenshot(Path(PICTURES) / f"{name}.png")


def test_the_token_leaves_the_address_bar(browser, page):
    assert page.token not in browser.url() and browser.url() == page.url.split("#")[0]
    browser.open(browser.url())
    browser.wait("document.querySelector('#epoch').textContent.includes('snapshot of epoch')")
    assert browser.js("return document.querySelector('#database').value") == "served"


def test_without_the_token_nothing_is_shown(page, tmp_path):
    browser = Browser(tmp_path / "other")
    try:
        browser.open(page.url.split("#")[0])
        said = browser.wait("document.querySelector('#notice').textContent")
        assert "the token is missing or wrong" in said
        assert browser.js("return document.querySelector('#database').options.length") == 0
    finally:
        browser.close()


def test_a_cell_shows_its_rows_in_pages(browser):
    run(browser, "SELECT id, name, CASE WHEN id > 0 THEN id END AS maybe FROM t ORDER BY id")
    assert texts(browser, "th")[:2] == ["idBIGINT", "nameVARCHAR"]
    assert texts(browser, "tbody tr:first-child td") == ["0", "n0", "NULL"]
    assert "rows 1 to 100 of 1\u202f000" in texts(browser, ".result .bar")[0]
    browser.click("button[aria-label='Next page']")
    browser.wait("document.querySelector('tbody td').textContent === '100'")
    browser.click("button[aria-label='Previous page']")
    browser.wait("document.querySelector('tbody td').textContent === '0'")
    assert texts(browser, ".result > .quiet")[0].startswith("SELECT: 1\u202f000 rows, ")


def test_markup_is_text(browser, writer, page):
    name = EVIL.replace('"', '""')
    quoted = EVIL.replace("'", "''")
    writer.execute(f'CREATE TABLE "{name}" AS SELECT \'{quoted}\' AS "<b>bold</b>"')
    writer.share()
    with swingdb.get_snapshot("served", "a-derived_one"):
        browser.press("Refresh")
        run(browser, f'SELECT * FROM "{name}"')
        assert texts(browser, "tbody td") == [EVIL]
        assert texts(browser, "th") == ["<b>bold</b>VARCHAR"]
        run(browser, f'SELECT "{name}" FROM t')
        assert "<script>" in texts(browser, "pre.error")[0]
        browser.press("Tables")
        browser.wait("document.querySelectorAll('.list button').length === 2")
        assert texts(browser, ".list button span:first-child") == [EVIL, "t"]
        browser.click(".list button")
        browser.wait("document.querySelectorAll('#tables table').length === 2")
        assert EVIL in texts(browser, "#tables td")
        browser.press("Databases")
        browser.wait("document.querySelector('.lineage text')")
        assert "a-derived_one" in texts(browser, ".lineage text.name")
    assert browser.js("return document.querySelectorAll('main script, main img').length") == 0


def test_errors_show_a_caret_and_the_cursor_is_there(browser):
    run(browser, "SELECT id,\n  nosuch FROM t")
    assert texts(browser, "pre.error")[0].endswith("\n    nosuch FROM t\n    ^")
    area = "document.activeElement"
    assert browser.js(f"return [{area}.tagName, {area}.selectionStart]") == ["TEXTAREA", 13]
    run(browser, "DELETE FROM t")
    assert "scratch" in texts(browser, "pre.error")[0]
    browser.click("#scratch")
    browser.wait("document.querySelector('#epoch').textContent")
    run(browser, "DELETE FROM t WHERE id < 100")
    assert texts(browser, ".result")[0].startswith("DELETE: 100 rows changed")


def test_a_slow_cell_is_cancelled_while_others_run(browser):
    browser.press("Add cell")
    browser.type(".cell:nth-child(1) textarea", SLOW + CONTROL + ENTER)
    browser.wait("document.querySelector('.cell .state').textContent.startsWith('running, ')")
    run(browser, "SELECT 42 AS answer", 2)
    assert texts(browser, ".cell:nth-child(2) td") == ["42"]
    browser.press("Cancel", ".cell:nth-child(1)")
    assert ended(browser) == "cancelled"


def test_a_plan_is_a_tree(browser):
    browser.type(".cell textarea", "SELECT name, count(*) FROM t WHERE id > 5 GROUP BY name")
    browser.press("Plan")
    assert ended(browser) == "done"
    assert browser.js("return document.querySelectorAll('.plan ul ul li').length") > 0
    assert any("Aggregate" in name for name in texts(browser, ".plan strong"))
    assert any("994 rows" in facts for facts in texts(browser, ".plan .quiet"))


def test_the_snapshot_is_refreshed_by_a_click(browser, writer):
    count = "SELECT count(*) FROM t"
    run(browser, count)
    writer.execute("INSERT INTO t VALUES (1000, 'new')")
    writer.share()
    run(browser, count)
    assert texts(browser, "tbody td") == ["1000"]
    browser.wait("document.querySelector('#epoch').textContent.includes('there is a newer state')")
    browser.press("Refresh")
    browser.wait("!document.querySelector('#epoch').textContent.includes('newer')")
    run(browser, count)
    assert texts(browser, "tbody td") == ["1001"]


def test_notebooks_are_kept_exported_and_imported(browser):
    run(browser, "SELECT 'one' AS first")
    browser.press("Add cell")
    run(browser, "SELECT ';' AS second; -- %", 2)
    browser.open(browser.url())
    browser.wait("document.querySelectorAll('.cell').length === 2")
    values = "[...document.querySelectorAll('.cell textarea')].map((e) => e.value)"
    cells = ["SELECT 'one' AS first", "SELECT ';' AS second; -- %"]
    assert browser.js(f"return {values}") == cells
    browser.press("Export")
    file = until(lambda: next(browser.downloads.glob("*.sql"), None))
    assert file.read_text() == (
        f"-- notebook: Notebook\n-- database: served\n-- %%\n{cells[0]}\n-- %%\n{cells[1]}\n"
    )
    file.write_text(file.read_text().replace("notebook: Notebook", "notebook: Other <b>"))
    browser.js("document.querySelector('input[type=file]').hidden = false")
    browser.type("input[type=file]", str(file))
    browser.wait("document.querySelectorAll('main select option').length === 2")
    assert texts(browser, "main select option") == ["Notebook", "Other <b>"]
    assert browser.js(f"return {values}") == cells
    browser.press("Run all")
    browser.wait("document.querySelectorAll('.state[data-state=done]').length === 2")
    browser.press("History")
    assert set(texts(browser, ".history code")) == set(cells)
    browser.click(".history button")
    browser.wait("document.querySelectorAll('.cell').length === 3")


def test_databases_lineage_and_memory(browser, writer, page):
    with swingdb.get_snapshot("served", "clean") as clean:
        clean.execute("CREATE TABLE extra AS SELECT 1 AS x")
        clean.share()
        with swingdb.get_snapshot("clean", "report"):
            browser.press("Databases")
            browser.wait("document.querySelectorAll('.lineage .node').length === 3")
            assert sorted(texts(browser, ".lineage text.name")) == ["clean", "report", "served"]
            assert browser.js("return document.querySelectorAll('.lineage .edge').length") == 2
            holds = texts(browser, "#processes tr")
            assert any(str(os.getpid()) in row and "writer" in row for row in holds)
            assert any(str(page.process.pid) in row and "this page" in row for row in holds)
            browser.press("Look for what costs speed or capacity")
            browser.wait("!document.querySelector('.findings button')")
            browser.js(
                "[...document.querySelectorAll('.lineage .node')]"
                ".find((n) => n.textContent.startsWith('clean'))"
                ".dispatchEvent(new MouseEvent('click', {bubbles: true}))"
            )
            browser.wait("document.querySelectorAll('.list button').length === 2")
            assert browser.js("return document.querySelector('#database').value") == "clean"


def test_leaving_the_page_ends_its_session(browser, page):
    run(browser, "SELECT 1")

    def mine() -> list[dict]:
        return [one for one in page.call("GET", "overview")["processes"] if one["is_this"]]

    assert mine()
    browser.open("about:blank")
    until(lambda: not mine())


def test_the_end_of_the_program_is_said(browser, page):
    assert page.stop()[0] == 0
    browser.js("document.querySelector('.cell textarea').value = 'SELECT 1'")
    browser.press("Run")
    assert ended(browser) == "failed"
    assert "does not answer" in texts(browser, "pre.error")[0]
    # The browser complains of the connection, too.
    assert all("ERR_" in message for message in browser.complaints())


@pytest.mark.parametrize("dark", [False, True])
def test_it_can_be_read_in_light_and_dark(page, tmp_path, dark, writer):
    writer.execute(
        "CREATE TABLE trips AS SELECT i AS id, DATE '2024-01-01' + (i // 24)::INTEGER AS day, "
        "round(5 + i % 97 * 0.75, 2) AS fare, i % 5 = 0 AS card, 'zone ' || i % 12 AS zone "
        "FROM range(200000) r(i)"
    )
    writer.share()
    with swingdb.get_snapshot("served", "clean") as clean:
        clean.execute("DELETE FROM trips WHERE fare < 10")
        clean.share()
        with swingdb.get_snapshot("clean", "report"), swingdb.get_snapshot("served", "features"):
            browser = Browser(tmp_path / "browser", dark=dark)
            try:
                look(browser, page, "dark" if dark else "light")
            finally:
                browser.close()


def look(browser: Browser, page: Page, name: str) -> None:
    """Goes through the views; texts stand out from what is behind them."""
    cells = [
        "SELECT zone, count(*) AS trips, avg(fare) AS fare\nFROM trips WHERE card\n"
        "GROUP BY zone ORDER BY trips DESC, zone LIMIT 5;",
        "SELECT day, max(fare) FROM trips GROUP BY day ORDER BY day;",
        "SELECT zone,\n       fair\nFROM trips;",
    ]
    browser.open(page.url)
    browser.wait("document.querySelector('#epoch').textContent.includes('snapshot of epoch')")
    book = json.dumps(
        {"current": 0, "books": [{"name": "Taxi", "database": "served", "cells": cells}]}
    )
    browser.js("localStorage.setItem('swingdb.notebooks', arguments[0])", book)
    # Leaving keeps nothing that was not typed.
    browser.open(browser.url())
    browser.wait("document.querySelectorAll('.cell').length === 3")
    browser.press("Run", ".cell:nth-child(1)")
    browser.press("Plan", ".cell:nth-child(2)")
    browser.press("Run", ".cell:nth-child(3)")
    assert [ended(browser, cell) for cell in (1, 2, 3)] == ["done", "done", "failed"]
    browser.js("window.scrollTo(0, 0)")
    picture(browser, f"ui-notebook-{name}")
    assert browser.js(FAINT) == []
    ground = browser.js("return getComputedStyle(document.body).backgroundColor")
    assert (ground == "rgb(255, 255, 255)") == (name == "light")
    browser.press("Tables")
    browser.wait("document.querySelectorAll('.list button').length === 2")
    browser.click(".list li:last-child button")
    browser.wait("document.querySelectorAll('#tables table').length === 2")
    assert browser.js(FAINT) == []
    picture(browser, f"ui-tables-{name}")
    browser.press("Databases")
    browser.wait("document.querySelectorAll('.lineage .node').length === 4")
    assert browser.js(FAINT) == []
    picture(browser, f"ui-databases-{name}")
