//! How many processes there are: growth, shrinking, limits (mpm-semantics 5).

use crate::conformance::{Bench, Seen, Vector};

pub(super) const VECTORS: &[Vector] = &[Vector {
    id: "growth-doubles",
    says: "the spawn rate doubles with each tick that needs it",
    source: "mpm-semantics 5.2, V1",
    setup: &[
        "StartServers 1",
        "ServerLimit 200",
        "MaxRequestWorkers 200",
        "MinSpareServers 5",
        "MaxSpareServers 100",
    ],
    knobs: &[],
    expect: &[("prefork", "1,2,4,8,16,32,64,96")],
    differs: None,
    run: growth_prefork,
}];

fn growth_prefork(bench: &mut Bench) -> Seen {
    let mut held = bench.dial_many(60)?;
    for client in &mut held {
        client.send("POST /small HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n")?;
    }
    bench.children_per_tick(96)
}
