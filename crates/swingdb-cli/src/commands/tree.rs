//! `swingdb tree`: who came from whom.
//!
//! A database may have several parents (fan-in); it is then drawn under each of them, with its own
//! children under the first only.

use crate::args::ListArgs;
use crate::failure::Outcome;
use crate::home::Home;
use crate::listing::{display_name, json_of};
use crate::units;
use std::collections::HashSet;
use std::io::{BufWriter, Write};
use swingdb::LineageNode;

pub fn run(home: &Home, args: &ListArgs) -> Outcome {
    if !args.json {
        return print(home);
    }
    let nodes = home.lineage()?;
    let mut sink = BufWriter::new(std::io::stdout());
    let values: Vec<_> = nodes.iter().map(json_of).collect();
    serde_json::to_writer_pretty(&mut sink, &values).map_err(std::io::Error::from)?;
    writeln!(sink)?;
    sink.flush()?;
    Ok(())
}

/// Draws the forest.
pub fn print(home: &Home) -> Outcome {
    let mut sink = BufWriter::new(std::io::stdout());
    let labelled: Vec<_> = home.lineage()?.iter().map(labelled).collect();
    for line in draw(&labelled) {
        writeln!(sink, "{line}")?;
    }
    sink.flush()?;
    Ok(())
}

/// What the drawing needs of a database.
struct Labelled {
    name: String,
    label: String,
    parents: Vec<String>,
}

fn labelled(node: &LineageNode) -> Labelled {
    let info = &node.info;
    let shown = display_name(info);
    // Parents are told by their own names, without labels.
    let name = info.name.as_ref().map_or_else(|| shown.clone(), |name| name.as_str().to_string());
    let own = units::bytes(info.own.0);
    let epoch = info.shared_epoch.map(|epoch| format!(", epoch {epoch}")).unwrap_or_default();
    let owner = info.owner.as_ref().map(|o| format!(", written by {}", o.pid)).unwrap_or_default();
    let label = format!("{shown} ({own}{epoch}{owner})");
    Labelled { name, label, parents: node.parents.clone() }
}

/// The forest as lines. Parents that are gone are roots of their own.
fn draw(nodes: &[Labelled]) -> Vec<String> {
    let known: HashSet<_> = nodes.iter().map(|node| node.name.as_str()).collect();
    let mut gone: Vec<&str> = Vec::new();
    for parent in nodes.iter().flat_map(|node| &node.parents) {
        if !known.contains(parent.as_str()) && !gone.contains(&parent.as_str()) {
            gone.push(parent);
        }
    }
    let mut drawing = Drawing { nodes, drawn: HashSet::new(), lines: Vec::new() };
    for node in nodes.iter().filter(|node| node.parents.is_empty()) {
        drawing.node(&node.name, &node.label, "", "");
    }
    for name in gone {
        drawing.node(name, &format!("{name} (dropped)"), "", "");
    }
    // A circle of names (given again after a drop) has no root: whatever is left becomes one.
    for node in nodes {
        if !drawing.drawn.contains(node.name.as_str()) {
            drawing.node(&node.name, &node.label, "", "");
        }
    }
    drawing.lines
}

struct Drawing<'a> {
    nodes: &'a [Labelled],
    drawn: HashSet<&'a str>,
    lines: Vec<String>,
}

impl<'a> Drawing<'a> {
    fn node(&mut self, name: &'a str, label: &str, lead: &str, below: &str) {
        let nodes = self.nodes;
        let children: Vec<_> =
            nodes.iter().filter(|node| node.parents.iter().any(|p| p == name)).collect();
        if !self.drawn.insert(name) {
            let more = if children.is_empty() { "" } else { " ..." };
            self.lines.push(format!("{lead}{label}{more}"));
            return;
        }
        self.lines.push(format!("{lead}{label}"));
        for (i, child) in children.iter().enumerate() {
            let last = i + 1 == children.len();
            let (branch, rest) =
                if last { ("└── ", "    ") } else { ("├── ", "│   ") };
            let (lead, below) = (format!("{below}{branch}"), format!("{below}{rest}"));
            self.node(&child.name, &child.label, &lead, &below);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forest(nodes: &[(&str, &[&str])]) -> Vec<String> {
        let node = |(name, parents): &(&str, &[&str])| Labelled {
            name: name.to_string(),
            label: name.to_uppercase(),
            parents: parents.iter().map(|parent| parent.to_string()).collect(),
        };
        draw(&nodes.iter().map(node).collect::<Vec<_>>())
    }

    #[test]
    fn fan_in_is_drawn_under_each_parent_and_continued_under_the_first() {
        let nodes: [(&str, &[&str]); 5] =
            [("a", &[]), ("b", &[]), ("c", &["a", "b"]), ("d", &["c"]), ("e", &["c"])];
        let expected = ["A", "└── C", "    ├── D", "    └── E", "B", "└── C ..."];
        assert_eq!(forest(&nodes), expected);
    }

    #[test]
    fn dropped_parents_and_circles_are_drawn() {
        let nodes: [(&str, &[&str]); 1] = [("x", &["was"])];
        assert_eq!(forest(&nodes), ["was (dropped)", "└── X"]);
        let circle: [(&str, &[&str]); 2] = [("p", &["q"]), ("q", &["p"])];
        assert_eq!(forest(&circle), ["P", "└── Q", "    └── P ..."]);
        assert!(forest(&[]).is_empty());
    }
}
