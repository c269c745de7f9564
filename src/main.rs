//! The `mpmlab` command: picks the subcommand, prints errors, sets the exit status.
fn main() {}
