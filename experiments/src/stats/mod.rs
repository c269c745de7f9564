//! Statistics of a study: ratios of interleaved rounds with honest intervals, and nothing the reports do not use.
//!
//! A single number from a shared machine means little: clocks change, neighbours steal time. What survives is the
//! ratio of two rounds that ran back to back, so everything here starts from pairs. Each method is checked by
//! simulation in its own tests: does the nominal 95 % interval hold the truth about 95 times in 100?

pub mod bootstrap;
pub mod quantile;
pub mod ratio;
pub mod student;

/// The confidence level of every interval the laboratory prints.
pub const CONFIDENCE: f64 = 0.95;
