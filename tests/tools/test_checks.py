"""The style and layer checks themselves: what they must find, and what they must leave alone."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_english  # noqa: E402
import check_layers  # noqa: E402
import check_style  # noqa: E402
import rust_modules  # noqa: E402
import rust_source  # noqa: E402

DOCS = "//! What it is for.\n"


def breaches(text, path="crates/swing/src/a.rs"):
    return check_style.rust_breaches(path, text)


def test_comments_and_literals_are_not_code():
    text = 'let a = "unsafe { }"; // unsafe {\nlet b = r#"x.unwrap()"#; /* /* fn */ { */ '
    text += "let c = '{';"
    code = rust_source.blank(text)
    assert len(code) == len(text) and code.count("\n") == text.count("\n")
    assert "unsafe" not in code and "unwrap" not in code and "{" not in code
    assert "let a" in code and "let c" in code


def test_a_lifetime_is_not_a_character():
    assert rust_source.blank("fn f<'a>(x: &'a str) { g('x') }").count("'a") == 2


def test_clean_file_has_no_breach():
    assert breaches(DOCS + "fn f() -> u8 {\n    1\n}\n") == []


def test_missing_module_docs():
    assert any("module documentation" in b for b in breaches("fn f() {}\n"))


def test_unsafe_needs_its_comment():
    bare = DOCS + "fn f() {\n    unsafe { g() }\n}\n"
    commented = DOCS + "fn f() {\n    // SAFETY: INV-X holds.\n    unsafe { g() }\n}\n"
    assert any("SAFETY" in b for b in breaches(bare))
    assert breaches(commented) == []


def test_unsafe_only_in_the_memory_layers():
    text = DOCS + "fn f() {\n    // SAFETY: never.\n    unsafe { g() }\n}\n"
    assert any("outside" in b for b in breaches(text, "crates/swingdb-sql/src/scan/source.rs"))
    assert breaches(text, "crates/swingdb-store/src/memory/raw.rs") == []


def test_unwrap_in_production_but_not_in_tests():
    production = DOCS + "fn f() {\n    g().unwrap();\n}\n"
    inside = DOCS + "#[cfg(test)]\nmod tests {\n    fn f() {\n        g().unwrap();\n    }\n}\n"
    assert any("unwrap" in b for b in breaches(production))
    assert breaches(inside) == []
    assert breaches(production, "crates/swing/tests/a.rs") == []


def test_expect_needs_a_proof():
    bare = DOCS + 'fn f() {\n    g().expect("x");\n}\n'
    proved = DOCS + 'fn f() {\n    // The lock is held, so it is there.\n    g().expect("x");\n}\n'
    assert any("expect" in b for b in breaches(bare))
    assert breaches(proved) == []


def test_long_functions_and_long_lines():
    long_function = DOCS + "fn f() {\n" + "    g();\n" * 70 + "}\n"
    assert any("72 lines" in b for b in breaches(long_function))
    assert any("101 columns" in b for b in breaches(DOCS + "//" + "x" * 99 + "\n"))


def test_c_has_the_same_limits():
    about = "/* What it is for. */\n"
    fits = "int main(int argc, char **argv) {\n" + "    g();\n" * 68 + "}\n"
    longer = fits.replace("{\n", "{\n    g();\n")
    table = "static const int numbers[] = {\n" + "    1,\n" * 100 + "};\n"
    assert check_style.c_breaches("include/a.h", about + table + fits) == []
    assert any("71 lines" in b for b in check_style.c_breaches("include/a.c", about + longer))
    assert check_style.c_breaches("tests/a.c", about + longer) == []
    assert any("no comment" in b for b in check_style.c_breaches("a.c", fits))
    assert any("101" in b for b in check_style.c_breaches("a.c", about + "//" + "x" * 99 + "\n"))


def test_function_with_an_array_type_in_its_signature():
    functions = rust_source.functions("fn f(a: [u8; 4]) -> u8 {\n    1\n}\nfn g(a: u8);\n")
    assert [(f.name, f.line, f.lines) for f in functions] == [("f", 1, 3)]


def metadata(edges):
    names = {name for edge in edges for name in edge}
    nodes = []
    for name in names:
        deps = [{"pkg": b, "dep_kinds": [{"kind": None}]} for a, b in edges if a == name]
        nodes.append({"id": name, "deps": deps})
    members = [n for n in names if n in check_layers.ALLOWED]
    packages = [{"id": n, "name": n} for n in names]
    return {"packages": packages, "workspace_members": members, "resolve": {"nodes": nodes}}


def test_dependency_pointing_up_is_found():
    assert check_layers.breaches(metadata([("swing-malloc", "swing")])) == []
    assert check_layers.breaches(metadata([("swing", "swing-malloc")])) != []


def test_engine_reached_through_somebody_else_is_found():
    found = check_layers.breaches(metadata([("swing", "helper"), ("helper", "tokio")]))
    assert found == ["swing -> tokio: the memory layers must not know it"]


def crate(folder, files):
    """A crate with these files below `src`, and what each of its modules uses."""
    for name, text in files.items():
        path = folder / "src" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    modules = rust_modules.read(folder)
    graph = rust_modules.uses(modules)
    uses = {str(modules[a]): sorted(str(modules[b]) for b in used) for a, used in graph.items()}
    return modules, graph, uses


def test_uses_are_found_in_all_their_forms(tmp_path):
    files = {
        "lib.rs": "mod a;\nmod b;\nmod low;\npub use low::names::Name;\n",
        "a.rs": "use std::fs;\nuse crate::{Name, low::{self, sums::add as plus}};\n",
        "b.rs": "// use crate::a;\nfn f() -> &str { crate::low::names::NAME; \"crate::a::x\" }\n"
        "#[cfg(test)]\nmod tests {\n    use crate::a::g;\n}\n",
        "low/mod.rs": "//! Folder.\nmod names;\npub(crate) mod sums;\n",
        "low/names.rs": "pub struct Name;\nconst NAME: &str = super::sums::TEXT;\n",
        "low/sums.rs": "use std::io::{self, Write};\nfn f() { io::stdout(); }\n",
    }
    _, _, uses = crate(tmp_path, files)
    assert uses == {
        "crate": [],
        "a": ["low", "low::names", "low::sums"],
        "b": ["low::names"],
        "low": [],
        "low::names": ["low::sums"],
        "low::sums": [],
    }


def test_a_method_that_another_file_adds_to_a_type_is_a_use_of_that_file(tmp_path):
    files = {
        "lib.rs": "mod core;\nmod extra;\nmod user;\nmod private;\n",
        "core.rs": "pub struct Core<T>(T);\nimpl<T> Core<T> {\n    fn own(&self) {}\n}\n",
        "extra.rs": "use crate::core::Core;\n"
        "impl<T> Core<T> {\n    pub const fn more(&self) {}\n    pub fn len(&self) {}\n"
        "    fn inner(&self) {}\n}\n"
        "impl<T> Drop for Core<T> {\n    fn drop(&mut self) {}\n}\n",
        "user.rs": "struct Other;\nimpl Other {\n    fn len(&self) {}\n}\n"
        "fn f(core: &C) { core.own(); core\n    .more(); core.len(); core.drop(); }\n",
        "private.rs": "fn f(core: &C) { core.inner(); }\n",
    }
    _, _, uses = crate(tmp_path, files)
    assert uses["user"] == ["extra"] and uses["extra"] == ["core"] and uses["core"] == []
    # Only modules below can call a method without `pub`.
    assert uses["private"] == []


CYCLE = {
    "lib.rs": "mod low;\nmod high;\n",
    "low/mod.rs": "//! Low.\nmod a;\nmod b;\n",
    "low/a.rs": "//! A.\nuse super::b::f;\n",
    "low/b.rs": "//! B.\nuse super::a::g;\n",
    "high/mod.rs": "//! High.\nmod c;\n",
    "high/c.rs": "//! C.\nuse crate::low::a::g;\n",
}


def test_files_that_use_each_other_are_counted_and_may_only_become_fewer(tmp_path):
    modules, graph, _ = crate(tmp_path, CYCLE)
    found = [check_layers.cycle_breaches(modules, graph, known, "x") for known in (0, 2, 3)]
    assert found == [
        ["x: 2 files in cycles, at most 0: low::a low::b"],
        [],
        ["x: 2 files in cycles, not 3: write that into CYCLES"],
    ]
    reason = "//!\n//! **Cycle.** They are one.\n"
    for given, most in ((["a"], 2), (["a", "b"], 0)):
        for name in given:
            path = tmp_path / "src" / "low" / f"{name}.rs"
            path.write_text("//! It.\n" + reason + CYCLE[f"low/{name}.rs"].split("\n", 1)[1])
        assert check_layers.cycle_breaches(modules, graph, most, "x") == []


def test_a_use_that_points_up_is_found_and_so_is_a_folder_without_a_place(tmp_path):
    modules, graph, _ = crate(tmp_path, CYCLE)
    check = check_layers.folder_breaches
    assert check(modules, graph, ("low", "high"), tmp_path) == []
    (up,) = check(modules, graph, ("high", "low"), tmp_path)
    assert up.endswith("src/high/c.rs:2: high::c -> low::a points up")
    (missing,) = check(modules, graph, ("low",), tmp_path)
    assert "src/high: not in the table" in missing


def test_folders_that_use_each_other_are_counted_and_may_only_become_fewer(tmp_path):
    files = {
        "lib.rs": "mod low;\nmod high;\nmod beside;\nuse high::c;\n",
        "beside.rs": "//! Beside.\nuse crate::high::c::f;\n",
        "low/mod.rs": "//! Low.\nmod a;\nmod b;\n",
        "low/a.rs": "//! A.\nuse crate::high::c::f;\n",
        "low/b.rs": "//! B.\n",
        "high/mod.rs": "//! High.\nmod c;\n",
        "high/c.rs": "//! C.\nuse crate::low::b::g;\n",
    }
    modules, graph, _ = crate(tmp_path, files)
    found = [check_layers.folder_cycle_breaches(modules, graph, known, "x") for known in (0, 2, 3)]
    assert found == [
        ["x: 2 folders in cycles, at most 0: high low"],
        [],
        ["x: 2 folders in cycles, not 3: write that into FOLDER_CYCLES"],
    ]


def test_a_folder_of_a_folder_has_a_place_of_its_own(tmp_path):
    files = {
        "lib.rs": "mod stages;\n",
        "stages/mod.rs": "mod one;\nmod two;\nmod all;\n",
        "stages/one.rs": "use crate::stages::two::f;\n",
        "stages/two/mod.rs": "//! Two.\nmod inner;\n",
        "stages/two/inner.rs": "//! In two.\n",
        "stages/all.rs": "use crate::stages::one::g;\nuse crate::stages::two::inner::h;\n",
    }
    modules, graph, _ = crate(tmp_path, files)
    check = check_layers.folder_breaches
    assert check(modules, graph, ("stages/two", "stages/one", "stages"), tmp_path) == []
    (up,) = check(modules, graph, ("stages/one", "stages/two", "stages"), tmp_path)
    assert up.endswith("stages::one -> stages::two points up")
    missing = check(modules, graph, ("stages/one", "stages"), tmp_path)
    assert any("src/stages/two: not in the table" in line for line in missing)
    assert any("stages::one -> stages::two points up" in line for line in missing)


def test_the_tables_are_those_of_this_repository():
    assert check_layers.source_breaches(ROOT) == []


def test_hints_at_english():
    long = "A " + "very " * 40 + "long sentence."
    assert any("words in a sentence" in hint for hint in check_english.hints(long))
    assert any("relative" in hint for hint in check_english.hints("It waits for whoever asks."))
    assert any("nobody" in hint for hint in check_english.hints("There is nobody."))
    assert check_english.hints("Publish stores the first word last; that store commits it.") == []


def test_only_prose_is_looked_at():
    comment = "//! | whoever | x |\nlet whoever = 1;\n/// It waits.\n/// And waits.\n"
    assert check_english.rust_prose(comment) == [(3, "It waits. And waits.")]
    document = "# Whoever\n\n```text\nwhoever\n```\n\nPlain.\n"
    assert check_english.markdown_prose(document) == [(7, "Plain.")]


def test_each_folder_has_a_ratchet():
    """A new crate gets its number with its first commit."""
    rates, _ = check_english.counted(check_english.files(ROOT / "crates"))
    assert set(rates) <= set(check_english.json.loads(check_english.RATCHET.read_text()))
