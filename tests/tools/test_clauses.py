"""Every part of the parser's syntax tree is decided about, or listed here with a reason."""

import shutil
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import clause_grammar  # noqa: E402

CLAUSES = ROOT / "crates" / "swingdb-sql" / "src" / "text" / "clauses"

#: Types that one reader turns into something of ours, or refuses.
LEAVES = {
    "AttachedToken": "where a word stands in the text",
    "Ident": "a name",
    "ObjectName": "a name",
    "ValueWithSpan": "a literal",
    "DataType": "column_type reads all types, and refuses those that it does not know",
    "BinaryOperator": "the planner refuses operators that it does not know",
    "DateTimeField": "the readers of EXTRACT and INTERVAL refuse units that they do not know",
    "IndexType": "how an index is kept changes no answer",
    "OptimizerHint": "a comment",
    "Parens": "a list of expressions",
}

#: Fields that pass on what no pattern of the clause checks takes apart.
EXCEPTIONS = {
    "OutputClause::Output.select_items": "the whole clause is refused",
    "OutputClause::Output.into_table": "the whole clause is refused",
    "ColumnOption::Generated.sequence_options": "ddl/generated.rs refuses identities",
}


@pytest.fixture(scope="module")
def grammar() -> clause_grammar.Grammar:
    if shutil.which("cargo") is None:
        pytest.skip("cargo knows where the parser's source is")
    return clause_grammar.read_grammar(clause_grammar.parser_source(ROOT))


def undecided(grammar, files=None):
    return clause_grammar.undecided(grammar, files or sorted(CLAUSES.glob("*.rs")), set(LEAVES))


def test_every_part_of_the_tree_is_decided_about(grammar):
    found = undecided(grammar)
    assert {key: place for key, place in found.items() if key not in EXCEPTIONS} == {}
    assert set(EXCEPTIONS) <= set(found), "exceptions that are none any more"
    assert set(LEAVES) <= set(grammar.types), "types that the parser does not have"


def test_the_grammar_is_read_whole(grammar):
    fields = grammar.nodes["CreateTable"].fields
    assert len(fields) > 50 and fields["constraints"] == "Vec<TableConstraint>"
    assert grammar.nodes["Insert"].fields["on"] == "Option<OnInsert>"
    assert grammar.nodes["Expr::Between"].fields.keys() == {"expr", "negated", "low", "high"}
    assert grammar.nodes["TableConstraint::ForeignKey"].fields == {"0": "ForeignKeyConstraint"}
    assert len(grammar.types["Statement"]) > 100 and len(grammar.types["Expr"]) > 50


@pytest.mark.parametrize(
    "module, pattern, replacement, key",
    [
        ("define.rs", "ColumnOption::ForeignKey(key) => foreign_key(key)?",
         "ColumnOption::ForeignKey(_) => {}", "ColumnOption::ForeignKey.0"),
        ("query.rs", "GroupByExpr::All(modifiers) | GroupByExpr::Expressions(_, modifiers)",
         "GroupByExpr::All(_) | GroupByExpr::Expressions(_, _)", "GroupByExpr::Expressions.1"),
        ("change.rs", "predicate: _, action }", ".. }", "MergeClause .."),
        ("query.rs", "interpolate } = node", "interpolate: _ } = node", "OrderBy.interpolate"),
    ],
)
def test_a_part_that_is_let_through_is_found(grammar, tmp_path, module, pattern, replacement, key):
    files = []
    for path in CLAUSES.glob("*.rs"):
        text = path.read_text()
        if path.name == module:
            assert text.count(pattern) == 1
            text = text.replace(pattern, replacement)
        files.append(tmp_path / path.name)
        files[-1].write_text(text)
    assert key in undecided(grammar, files)
