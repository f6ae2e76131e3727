//! What an ASOF JOIN joins by.

use datafusion::logical_expr::Operator;

/// Equal keys and the nearest time, each on the left and on the right side; of expressions, or of
/// what they have been planned to.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) struct Condition<T> {
    pub keys: Vec<[T; 2]>,
    pub time: [T; 2],
    pub nearest: Nearest,
}

impl<T> Condition<T> {
    /// The expressions of the left (0) or the right (1) side, keys first.
    pub fn side(&self, side: usize) -> impl Iterator<Item = &T> {
        self.keys.iter().chain([&self.time]).map(move |both| &both[side])
    }

    /// The same with other expressions.
    pub fn try_map<U, E>(
        &self,
        mut each: impl FnMut(usize, &T) -> Result<U, E>,
    ) -> Result<Condition<U>, E> {
        let mut both = |[left, right]: &[T; 2]| Ok([each(0, left)?, each(1, right)?]);
        Ok(Condition {
            keys: self.keys.iter().map(&mut both).collect::<Result<_, E>>()?,
            time: both(&self.time)?,
            nearest: self.nearest,
        })
    }
}

/// Which row of the right side it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Hash)]
pub(crate) enum Nearest {
    /// `left >= right`: the last one at or before.
    AtOrBefore,
    /// `left > right`
    Before,
    /// `left <= right`: the first one at or after.
    AtOrAfter,
    /// `left < right`
    After,
}

impl Nearest {
    pub fn of(operator: Operator) -> Option<Self> {
        match operator {
            Operator::GtEq => Some(Self::AtOrBefore),
            Operator::Gt => Some(Self::Before),
            Operator::LtEq => Some(Self::AtOrAfter),
            Operator::Lt => Some(Self::After),
            _ => None,
        }
    }

    pub fn operator(self) -> Operator {
        match self {
            Self::AtOrBefore => Operator::GtEq,
            Self::Before => Operator::Gt,
            Self::AtOrAfter => Operator::LtEq,
            Self::After => Operator::Lt,
        }
    }
}
