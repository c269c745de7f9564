//! x
use crate::conformance::Vector;
pub(super) const VECTORS: &[Vector] = &[];
