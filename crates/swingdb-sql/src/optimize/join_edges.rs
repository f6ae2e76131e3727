//! Equalities between the relations of a join, and those that follow from them: [`Edges`].
//!
//! `a.x = b.y AND b.y = c.z` says `a.x = c.z` too: `a` and `c` can be joined before `b`. Columns
//! that are all equal to each other are a class. Each pair of a class gets an edge; between two
//! parts of a join one edge of a class is enough, since within each part its columns are equal
//! already.

use std::cmp::Reverse;
use std::collections::HashMap;

use datafusion::logical_expr::Expr;

/// A set of relations, a bit each.
pub(super) type Set = u64;

/// An equality between two relations, or two groups of them.
pub(super) struct Edge {
    pub(super) sides: [(Set, Expr); 2],
    /// Different values on either side.
    pub(super) distinct: [f64; 2],
    /// The class of both sides. Without one, nothing follows from the equality.
    pub(super) class: Option<usize>,
}

impl Edge {
    pub(super) fn new(sides: [(Set, Expr); 2], distinct: [f64; 2]) -> Self {
        Self { sides, distinct, class: None }
    }

    /// The relations of both sides.
    pub(super) fn relations(&self) -> Set {
        self.sides[0].0 | self.sides[1].0
    }

    fn most_distinct(&self) -> f64 {
        self.distinct[0].max(self.distinct[1])
    }

    /// Whether something may follow from it: both sides are of one relation, and stay the same.
    fn is_plain(&self) -> bool {
        self.sides.iter().all(|(set, side)| set.count_ones() == 1 && !side.is_volatile())
    }
}

/// All equalities. Keys of several columns come first, then those that let most pairs through, then
/// those that were written before those that follow.
pub(super) struct Edges(Vec<Edge>);

impl std::ops::Deref for Edges {
    type Target = [Edge];

    fn deref(&self) -> &[Edge] {
        &self.0
    }
}

impl Edges {
    pub(super) fn new(mut edges: Vec<Edge>) -> Self {
        for (number, class) in classes(&edges).into_iter().enumerate() {
            for edge in &mut edges {
                if class.contains(&edge.sides[0]) && edge.is_plain() {
                    edge.class = Some(number);
                }
            }
            let follow = following(&edges, &class, number);
            edges.extend(follow);
        }
        let mut keys: HashMap<Set, usize> = HashMap::new();
        edges.iter().for_each(|edge| *keys.entry(edge.relations()).or_default() += 1);
        edges.sort_by(|one, other| {
            let columns = |edge: &Edge| Reverse(keys[&edge.relations()]);
            let values = one.most_distinct().total_cmp(&other.most_distinct());
            columns(one).cmp(&columns(other)).then(values)
        });
        Self(edges)
    }

    /// The equalities within a set of relations none of which follows from the others.
    pub(super) fn independent(&self, set: Set) -> impl Iterator<Item = &Edge> {
        let mut connected = Connected::default();
        let inside = self.iter().filter(move |edge| edge.relations() & set == edge.relations());
        inside.filter(move |edge| match edge.class {
            Some(class) => connected.connects(class, edge.relations()),
            None => true,
        })
    }
}

type Side = (Set, Expr);

/// The classes of sides that are equal to each other, of three or more: nothing follows from one
/// equality. None has two columns of one relation: these may differ in rows that are not joined
/// yet.
fn classes(edges: &[Edge]) -> Vec<Vec<Side>> {
    let mut classes: Vec<Vec<Side>> = Vec::new();
    for edge in edges.iter().filter(|edge| edge.is_plain()) {
        let [left, right] = &edge.sides;
        let (touched, mut rest): (Vec<_>, Vec<_>) =
            classes.into_iter().partition(|class| class.contains(left) || class.contains(right));
        let mut class = touched.concat();
        for side in [left, right] {
            if !class.contains(side) {
                class.push(side.clone());
            }
        }
        rest.push(class);
        classes = rest;
    }
    classes.retain(|class| {
        let relations = class.iter().fold(0, |all, (set, _)| all | set);
        class.len() > 2 && relations.count_ones() as usize == class.len()
    });
    classes
}

/// The equalities that follow from those of a class.
fn following(edges: &[Edge], class: &[Side], number: usize) -> Vec<Edge> {
    let distinct = |side: &Side| {
        let all = edges.iter().flat_map(|edge| edge.sides.iter().zip(edge.distinct));
        all.filter(|(known, _)| *known == side).map(|(_, distinct)| distinct).next()
    };
    let mut follow = Vec::new();
    for (at, left) in class.iter().enumerate() {
        for right in &class[at + 1..] {
            let relations = left.0 | right.0;
            let is_known = edges
                .iter()
                .any(|edge| edge.class == Some(number) && edge.relations() == relations);
            if let (false, Some(l), Some(r)) = (is_known, distinct(left), distinct(right)) {
                let sides = [left.clone(), right.clone()];
                follow.push(Edge { sides, distinct: [l, r], class: Some(number) });
            }
        }
    }
    follow
}

/// Which relations the equalities of each class connect, of those seen so far.
#[derive(Default)]
struct Connected(Vec<(usize, Set)>);

impl Connected {
    /// Whether an equality connects relations that others do not.
    fn connects(&mut self, class: usize, relations: Set) -> bool {
        let (touched, mut rest): (Vec<_>, Vec<_>) =
            self.0.drain(..).partition(|(of, set)| *of == class && set & relations != 0);
        let is_new = !touched.iter().any(|(_, set)| set & relations == relations);
        rest.push((class, touched.iter().fold(relations, |all, (_, set)| all | set)));
        self.0 = rest;
        is_new
    }
}

#[cfg(test)]
mod tests {
    use datafusion::prelude::col;

    use super::*;

    fn edge(left: (u32, &str), right: (u32, &str), distinct: [f64; 2]) -> Edge {
        let side = |(relation, name): (u32, &str)| (1 << relation, col(name));
        Edge::new([side(left), side(right)], distinct)
    }

    #[test]
    fn equalities_follow_from_others() {
        let edges = Edges::new(vec![
            edge((0, "a"), (1, "b"), [10.0, 20.0]),
            edge((1, "b"), (2, "c"), [20.0, 30.0]),
            edge((1, "d"), (2, "e"), [5.0, 5.0]),
        ]);
        assert_eq!(edges.len(), 4);
        let found = |set: Set| {
            let found = edges.independent(set).map(|edge| (edge.relations(), edge.most_distinct()));
            found.collect::<Vec<_>>()
        };
        assert_eq!(found(0b101), [(0b101, 30.0)]);
        assert_eq!(found(0b011), [(0b011, 20.0)]);
        // The key of two columns between b and c, and one of the two equalities with a.
        assert_eq!(found(0b111), [(0b110, 5.0), (0b110, 30.0), (0b011, 20.0)]);
    }

    #[test]
    fn two_columns_of_one_relation_are_no_class() {
        let edges = Edges::new(vec![
            edge((0, "a"), (1, "b"), [1.0, 1.0]),
            edge((0, "x"), (1, "b"), [1.0, 1.0]),
        ]);
        assert_eq!(edges.len(), 2);
        assert!(edges.iter().all(|edge| edge.class.is_none()));
        assert_eq!(edges.independent(0b11).count(), 2);
    }
}
