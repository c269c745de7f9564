//! The models' own mechanisms.
