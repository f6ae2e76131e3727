//! What a join of tables that lie on several machines costs besides: the bytes that move.
//!
//! A session says by [`Spreads`] where the rows of its tables are. The order of joins then counts
//! what each join moves: nothing where both sides lie by the keys that they are joined by, or one
//! is everywhere; one side to the machines of the other, if that lies by its key; both; or the
//! smaller one to all machines.

use std::any::Any;

use arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{Column, Result, exec_err};
use datafusion::datasource::source_as_provider;
use datafusion::logical_expr::{Expr, LogicalPlan};

use crate::optimize::join_edges::{Edge, Set};

/// Bytes of a text nothing is known about.
const TEXT_BYTES: f64 = 24.0;
/// What it costs to move a byte, in rows that a join gives: it is compressed, sent and copied.
const BYTE_COST: f64 = 0.5;

/// Where the rows of a table are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spread {
    /// How many machines have some.
    pub machines: usize,
    /// Which of them has which.
    pub by: SpreadBy,
}

/// Which machine has which rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpreadBy {
    /// Each has all.
    Everywhere,
    /// The value of a column says it.
    Column {
        /// Its name.
        column: String,
        /// Tables of one kind have the rows with equal values on the same machine.
        kind: String,
    },
    /// Nobody knows.
    Anyhow,
}

/// In the settings of a session: says where the rows of a table are, if it is on several machines.
#[derive(Clone, Debug)]
pub struct Spreads(pub fn(&dyn TableProvider) -> Option<Spread>);

impl ConfigExtension for Spreads {
    const PREFIX: &'static str = "swingdb_spreads";
}

impl ExtensionOptions for Spreads {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _value: &str) -> Result<()> {
        exec_err!("{key} cannot be set")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

impl Spreads {
    /// Where the rows of a plan are, and the column that says it, as the plan names it.
    fn of(&self, plan: &LogicalPlan) -> Option<(Spread, Option<Column>)> {
        match plan {
            LogicalPlan::TableScan(scan) => {
                let spread = (self.0)(source_as_provider(&scan.source).ok()?.as_ref())?;
                let column = match &spread.by {
                    SpreadBy::Column { column, .. } => {
                        let place = scan.projected_schema.index_of_column_by_name(None, column);
                        place.map(|place| scan.projected_schema.columns().swap_remove(place))
                    }
                    _ => None,
                };
                Some((spread, column))
            }
            LogicalPlan::Filter(filter) => self.of(&filter.input),
            LogicalPlan::SubqueryAlias(alias) => {
                let (spread, column) = self.of(&alias.input)?;
                let place = column.and_then(|c| alias.input.schema().maybe_index_of_column(&c));
                Some((spread, place.map(|place| alias.schema.columns().swap_remove(place))))
            }
            LogicalPlan::Projection(projection) => {
                let (spread, column) = self.of(&projection.input)?;
                let column = column.map(Expr::Column);
                let is_it = |expr: &Expr| Some(&expr.clone().unalias()) == column.as_ref();
                let place = projection.expr.iter().position(is_it);
                Some((spread, place.map(|place| projection.schema.columns().swap_remove(place))))
            }
            _ => {
                let inner = plan.inputs().into_iter().filter_map(|input| self.of(input));
                let machines = inner.map(|(spread, _)| spread.machines).max()?;
                Some((Spread { machines, by: SpreadBy::Anyhow }, None))
            }
        }
    }
}

/// Where the rows of some joined relations are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Everywhere,
    /// By any of these columns, a bit each, and the kind.
    By(u64, usize),
    Anyhow,
}

/// The kind of rows that have been dealt out for a join.
const DEALT_OUT: usize = usize::MAX;

/// Relations that lie on several machines.
pub(super) struct Moves {
    machines: f64,
    /// Of each relation.
    places: Vec<Place>,
    widths: Vec<f64>,
    /// Of each equality both sides: the relations, and the bit of the column, zero of what is none.
    edges: Vec<[(Set, u64); 2]>,
}

impl Moves {
    /// Of the relations of a join; `used`: columns that are needed above.
    pub(super) fn new(
        spreads: &Spreads,
        relations: &[LogicalPlan],
        edges: &[Edge],
        used: impl Fn(&Column) -> bool,
    ) -> Option<Self> {
        let mut columns = Vec::new();
        for (_, side) in edges.iter().flat_map(|edge| &edge.sides) {
            if matches!(side, Expr::Column(_)) && !columns.contains(&side) {
                columns.push(side);
            }
        }
        if columns.len() > u64::BITS as usize {
            return None;
        }
        let bit = |side: &Expr| {
            let place = columns.iter().position(|known| *known == side);
            place.map_or(0, |place| 1 << place)
        };
        let (mut machines, mut kinds, mut places) = (1, Vec::new(), Vec::new());
        for relation in relations {
            let (spread, column) = spreads.of(relation)?;
            machines = machines.max(spread.machines);
            let bit = column.map_or(0, |column| bit(&Expr::Column(column)));
            places.push(match spread.by {
                SpreadBy::Everywhere => Place::Everywhere,
                SpreadBy::Column { kind, .. } if bit != 0 => {
                    let known = kinds.iter().position(|known| *known == kind);
                    let number = known.unwrap_or_else(|| {
                        kinds.push(kind);
                        kinds.len() - 1
                    });
                    Place::By(bit, number)
                }
                _ => Place::Anyhow,
            });
        }
        if machines < 2 {
            return None;
        }
        let width = |relation: &LogicalPlan| {
            let fields = relation.schema().iter();
            let needed =
                fields.filter(|(table, field)| used(&Column::new(table.cloned(), field.name())));
            needed.map(|(_, field)| bytes_of(field.data_type())).sum()
        };
        let widths = relations.iter().map(width).collect();
        let both = |edge: &Edge| edge.sides.each_ref().map(|(set, side)| (*set, bit(side)));
        let edges = edges.iter().map(both).collect();
        Some(Self { machines: machines as f64, places, widths, edges })
    }

    pub(super) fn place(&self, relation: usize) -> Place {
        self.places[relation]
    }

    fn bytes(&self, set: Set, rows: f64) -> f64 {
        let widths = self.widths.iter().enumerate().filter(|(nth, _)| set & (1 << nth) != 0);
        rows * widths.map(|(_, width)| width).sum::<f64>()
    }

    /// What it costs to bring the rows of two sides together, and where the rows of the join are.
    pub(super) fn join(&self, sides: [(Set, Place, f64); 2]) -> (f64, Place) {
        let [(a, a_place, a_rows), (b, b_place, b_rows)] = sides;
        match (a_place, b_place) {
            (Place::Everywhere, other) | (other, Place::Everywhere) => return (0.0, other),
            _ => {}
        }
        let (a_bytes, b_bytes) = (self.bytes(a, a_rows), self.bytes(b, b_rows));
        // The smaller side to all machines.
        let mut found = match a_bytes <= b_bytes {
            true => (a_bytes * (self.machines - 1.0), b_place),
            false => (b_bytes * (self.machines - 1.0), a_place),
        };
        let mut consider = |bytes: f64, place: Place| {
            if bytes < found.0 {
                found = (bytes, place);
            }
        };
        for [(l, left), (r, right)] in &self.edges {
            let joins = |one: Set, other: Set| l & one == *l && r & other == *r;
            let (a_bit, b_bit) = if joins(a, b) {
                (left, right)
            } else if joins(b, a) {
                (right, left)
            } else {
                continue;
            };
            let both = a_bit | b_bit;
            let lies_by = |place: Place, bit: &u64| match place {
                Place::By(columns, kind) if columns & bit != 0 => Some((columns, kind)),
                _ => None,
            };
            match (lies_by(a_place, a_bit), lies_by(b_place, b_bit)) {
                (Some((a_columns, a_kind)), Some((b_columns, b_kind))) if a_kind == b_kind => {
                    return (0.0, Place::By(a_columns | b_columns, a_kind));
                }
                (a_lies, b_lies) => {
                    if let Some((columns, kind)) = a_lies {
                        consider(b_bytes, Place::By(columns | both, kind));
                    }
                    if let Some((columns, kind)) = b_lies {
                        consider(a_bytes, Place::By(columns | both, kind));
                    }
                }
            }
            consider(a_bytes + b_bytes, Place::By(both, DEALT_OUT));
        }
        (found.0 * BYTE_COST, found.1)
    }
}

/// About how many bytes a value takes.
fn bytes_of(data_type: &DataType) -> f64 {
    match data_type {
        DataType::Boolean => 0.125,
        other => other.primitive_width().map_or(TEXT_BYTES, |width| width as f64),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three relations of equal width; the first two lie by `a.x` and `b.x`, the third by `c.y`.
    fn moves(edge: [(Set, u64); 2]) -> Moves {
        Moves {
            machines: 8.0,
            places: vec![Place::By(1, 0), Place::By(2, 0), Place::By(8, 0)],
            widths: vec![10.0; 3],
            edges: vec![edge],
        }
    }

    fn moved(edge: [(Set, u64); 2], sides: [(usize, f64); 2]) -> (f64, Place) {
        let moves = moves(edge);
        moves.join(sides.map(|(nth, rows)| (1 << nth, moves.place(nth), rows)))
    }

    #[test]
    fn what_moves_depends_on_where_the_rows_lie() {
        let a_x_is_b_x = [(1, 1), (2, 2)];
        let together = moved(a_x_is_b_x, [(0, 1e6), (1, 1e6)]);
        assert_eq!(together, (0.0, Place::By(3, 0)));
        // The one that lies by another column moves, whichever is larger.
        let b_y_is_c_y = [(2, 4), (4, 8)];
        let one = moved(b_y_is_c_y, [(1, 1000.0), (2, 500.0)]);
        assert_eq!(one, (1000.0 * 10.0 * BYTE_COST, Place::By(12, 0)));
        let other = moved(b_y_is_c_y, [(2, 500.0), (1, 1000.0)]);
        assert_eq!(other, one);
        // Few rows are sent to all machines, and the others stay where they are.
        let few = moved(b_y_is_c_y, [(1, 1000.0), (2, 5.0)]);
        assert_eq!(few, (7.0 * 5.0 * 10.0 * BYTE_COST, Place::By(2, 0)));
        // Both are dealt out where neither lies by its key.
        let of_neither = [(1, 0), (4, 0)];
        let both = moved(of_neither, [(0, 1000.0), (2, 900.0)]);
        assert_eq!(both, (1900.0 * 10.0 * BYTE_COST, Place::By(0, DEALT_OUT)));
    }
}
