//! Plans of EXPLAIN ANALYZE as trees: rows, time and share of the time of each operator.
//!
//! The engine writes each operator on a line, indented below the one that reads its rows, with its
//! metrics at the end. EXPLAIN ANALYZE VERBOSE shows them all, as they are.

use unicode_width::UnicodeWidthStr;

/// The kind of the rows of EXPLAIN ANALYZE that have operators with metrics.
pub const WITH_METRICS: &str = "Plan with Metrics";
/// The kind of rows that only VERBOSE has.
pub const VERBOSE: &str = "Plan with Full Metrics";

const METRICS: &str = ", metrics=[";
/// Details of an operator are cut to this.
const DETAIL_CHARS: usize = 100;

/// One operator.
pub struct Node {
    /// Columns that it is indented by: more than the operator that reads its rows.
    pub indent: usize,
    pub name: String,
    pub detail: String,
    /// As the engine writes them; empty where it does not say.
    pub rows: String,
    pub time: String,
    /// Its part of the time of all operators, if the engine says both.
    pub share: Option<f64>,
}

/// The lines of a plan as a tree.
pub fn tree(plan: &str) -> Vec<String> {
    let nodes = nodes(plan);
    let mut table = vec![["rows", "time", "share", "operator"].map(str::to_string)];
    for (place, node) in nodes.iter().enumerate() {
        let share = node.share.map(|share| format!("{:.0} %", 100.0 * share)).unwrap_or_default();
        let operator = format!("{}{}{}", branches(&nodes, place), node.name, shown(&node.detail));
        table.push([node.rows.clone(), node.time.clone(), share, operator]);
    }
    let width = |column: usize| table.iter().map(|row| row[column].width()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let line = |row: &[String; 4]| {
        let mut line = String::new();
        for (text, width) in row.iter().zip(widths) {
            line.push_str(&" ".repeat(width - text.width()));
            line.push_str(text);
            line.push_str("  ");
        }
        line + &row[3]
    };
    table.iter().map(line).collect()
}

/// The lines that lead from the operators above to one.
fn branches(nodes: &[Node], place: usize) -> String {
    // Whether a later operator stands below the same one as the last operator of that depth.
    let goes_on = |indent: usize| {
        let later = nodes[place + 1..].iter().find(|node| node.indent <= indent);
        later.is_some_and(|node| node.indent == indent)
    };
    let mut above = Vec::new();
    let mut least = nodes[place].indent;
    for node in nodes[..place].iter().rev() {
        if node.indent < least {
            least = node.indent;
            above.push(node.indent);
        }
    }
    // The topmost has no line of its own.
    above.pop();
    let mut text = String::new();
    for indent in above.iter().rev() {
        text.push_str(if goes_on(*indent) { "│  " } else { "   " });
    }
    if nodes[..place].iter().any(|node| node.indent < nodes[place].indent) {
        text.push_str(if goes_on(nodes[place].indent) { "├─ " } else { "└─ " });
    }
    text
}

fn shown(detail: &str) -> String {
    if detail.is_empty() {
        return String::new();
    }
    match detail.char_indices().nth(DETAIL_CHARS) {
        Some((end, _)) => format!(": {}…", &detail[..end]),
        None => format!(": {detail}"),
    }
}

/// The operators of a plan, from the topmost on, each before those whose rows it reads.
pub fn nodes(plan: &str) -> Vec<Node> {
    let mut nodes: Vec<Node> = Vec::new();
    let mut begun = String::new();
    for part in plan.split('\n') {
        begun.push_str(part);
        // Texts in the query may contain line breaks: the operator goes on.
        if !begun.contains(METRICS) {
            if !begun.is_empty() {
                begun.push(' ');
            }
            continue;
        }
        nodes.push(Node::of(&std::mem::take(&mut begun)));
    }
    let total: f64 = nodes.iter().map(|node| nanoseconds(&node.time)).sum();
    for node in &mut nodes {
        let known = total > 0.0 && !node.time.is_empty();
        node.share = known.then(|| nanoseconds(&node.time) / total);
    }
    nodes
}

impl Node {
    fn of(line: &str) -> Self {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        // From the right: names in the query may contain the word.
        let (text, metrics) = text.rsplit_once(METRICS).unwrap_or((text, ""));
        let (name, detail) = text.split_once(':').unwrap_or((text, ""));
        let metric = |name: &str| {
            let found = metrics.split([',', ']']).find_map(|metric| {
                metric.trim().strip_prefix(name).and_then(|rest| rest.strip_prefix('='))
            });
            found.unwrap_or_default().to_string()
        };
        Node {
            indent,
            name: name.trim().to_string(),
            detail: detail.trim().to_string(),
            rows: metric("output_rows"),
            time: metric("elapsed_compute"),
            share: None,
        }
    }
}

/// `1.5ms` and the like as a number; 0 for what is none.
fn nanoseconds(time: &str) -> f64 {
    let end = time.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(time.len());
    let factor = match time[end..].trim() {
        "ns" => 1.0,
        "µs" | "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "m" => 60e9,
        _ => 0.0,
    };
    time[..end].parse::<f64>().unwrap_or(0.0) * factor
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_trees_with_shares() {
        let plan = "\
UnionExec, metrics=[output_rows=7, elapsed_compute=1.00ms]
  JoinExec: on=[a: b], metrics=[output_rows=5, elapsed_compute=2.00ms]
    ScanExec: t, metrics=[output_rows=1.00 K, elapsed_compute=500.00µs, x=1]
    ScanExec: s = 'a
, metrics=[', metrics=[output_rows=2, elapsed_compute=500000ns]
  EmptyExec, metrics=[]
";
        let expected = [
            "  rows      time  share  operator",
            "     7    1.00ms   25 %  UnionExec",
            "     5    2.00ms   50 %  ├─ JoinExec: on=[a: b]",
            "1.00 K  500.00µs   12 %  │  ├─ ScanExec: t",
            "     2  500000ns   12 %  │  └─ ScanExec: s = 'a , metrics=['",
            "                         └─ EmptyExec",
        ];
        assert_eq!(tree(plan), expected);
    }

    #[test]
    fn what_is_no_plan_is_no_tree() {
        assert_eq!(tree("").len(), 1);
        assert_eq!(tree("nothing\nof this"), tree(""));
        assert!(shown(&"é".repeat(200)).ends_with('…'));
        assert_eq!(nanoseconds("2.5s"), 2.5e9);
        assert_eq!(nanoseconds("soon"), 0.0);
    }
}
