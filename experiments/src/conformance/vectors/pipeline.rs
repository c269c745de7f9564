//! Several requests in one go, and bodies that nobody reads (mpm-semantics 2, 4.2, 8 B).

use crate::conformance::{Bench, EVERY, Seen, Vector};
use std::fs;

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "pipeline-in-order",
        says: "requests that come in one go are answered in their order",
        source: "mpm-semantics 8 B",
        setup: &[],
        knobs: &[],
        expect: &[(EVERY, "1 2 3 4 5 6 7 8 9 10 11 12; kept")],
        differs: None,
        run: in_order,
    },
    Vector {
        id: "pipeline-of-bodyless-answers",
        says: "answers without a body, and errors, keep the connection and the order",
        source: "mpm-semantics 2",
        setup: &[],
        knobs: &[],
        expect: &[(EVERY, "HEAD 200, 304, 404, 200; kept")],
        differs: None,
        run: bodyless,
    },
    Vector {
        id: "pipeline-of-many-errors",
        says: "a run of small answers made in memory arrives complete, however it is written",
        source: "mpm-semantics 8",
        setup: &[],
        knobs: &[],
        expect: &[(EVERY, "12 x 404; kept")],
        differs: None,
        run: errors,
    },
    Vector {
        id: "pipeline-behind-a-body",
        says: "a request's body that nobody wants is read and forgotten, and the next request answered",
        source: "mpm-semantics 9.2",
        setup: &[],
        knobs: &[],
        expect: &[(EVERY, "GET with a length 200, GET in chunks 200, POST 200, GET 200; kept")],
        differs: None,
        run: behind_a_body,
    },
    Vector {
        id: "body-over-the-limit",
        says: "a body longer than LimitRequestBody is refused and the connection closed without reading it",
        source: "mpm-semantics 11",
        setup: &["LimitRequestBody 50"],
        knobs: &[],
        expect: &[(EVERY, "413 Connection close, closed")],
        differs: None,
        run: over_the_limit,
    },
    Vector {
        id: "expected-body-is-asked-for",
        says: "a body that waits for 100 is asked for even where it is only thrown away, and the connection kept",
        source: "mpm-semantics 2 (expecting-100); RFC 9110 10.1.1",
        setup: &[],
        knobs: &[],
        expect: &[(EVERY, "small: 100, 200 kept; missing: 100, 404 kept")],
        differs: None,
        run: expectation,
    },
];

const HOST: &str = "Host: localhost\r\n";

fn in_order(bench: &mut Bench) -> Seen {
    let names: Vec<_> = (1..=12).map(|number| number.to_string()).collect();
    for name in &names {
        fs::write(bench.root().join(name), name)?;
    }
    let mut client = bench.dial()?;
    let requests: String = names.iter().map(|name| format!("GET /{name} HTTP/1.1\r\n{HOST}\r\n")).collect();
    client.send(&requests)?;
    let bodies: Vec<_> =
        names.iter().map(|_| client.answer().map(|answer| answer.text())).collect::<Result<_, _>>()?;
    client.get("/small")?;
    Ok(format!("{}; kept", bodies.join(" ")))
}

fn bodyless(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    client.send(&format!(
        "HEAD /small HTTP/1.1\r\n{HOST}\r\n\
         GET /small HTTP/1.1\r\n{HOST}If-None-Match: *\r\n\r\n\
         GET /missing HTTP/1.1\r\n{HOST}\r\n\
         GET /small HTTP/1.1\r\n{HOST}\r\n"
    ))?;
    let head = client.answer_to_head()?.status;
    let others = [client.answer()?.status, client.answer()?.status, client.answer()?.status];
    client.get("/small")?;
    Ok(format!("HEAD {head}, {}; kept", others.map(|status| status.to_string()).join(", ")))
}

fn errors(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    client.send(&format!("GET /missing HTTP/1.1\r\n{HOST}\r\n").repeat(12))?;
    let mut count = 0;
    while count < 12 && client.answer()?.status == 404 {
        count += 1;
    }
    client.get("/small")?;
    Ok(format!("{count} x 404; kept"))
}

fn behind_a_body(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    client.send(&format!(
        "GET /small HTTP/1.1\r\n{HOST}Content-Length: 10\r\n\r\n0123456789\
         GET /small HTTP/1.1\r\n{HOST}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n\
         POST /small HTTP/1.1\r\n{HOST}Content-Length: 10\r\n\r\n0123456789\
         GET /small HTTP/1.1\r\n{HOST}\r\n"
    ))?;
    let mut seen = Vec::new();
    for what in ["GET with a length", "GET in chunks", "POST", "GET"] {
        seen.push(format!("{what} {}", client.answer()?.status));
    }
    client.get("/small")?;
    Ok(format!("{}; kept", seen.join(", ")))
}

fn over_the_limit(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    client.send(&format!("POST /small HTTP/1.1\r\n{HOST}Content-Length: 100\r\n\r\n"))?;
    let answer = client.answer()?;
    let connection = answer.field("Connection").unwrap_or("missing");
    Ok(format!("{} Connection {connection}, {}", answer.status, client.end()))
}

fn expectation(bench: &mut Bench) -> Seen {
    let mut seen = Vec::new();
    for path in ["small", "missing"] {
        let mut client = bench.dial()?;
        client.send(&format!(
            "POST /{path} HTTP/1.1\r\n{HOST}Content-Length: 100\r\nExpect: 100-continue\r\n\r\n"
        ))?;
        let mut answers = vec![client.answer()?];
        if answers[0].status == 100 {
            client.release()?;
            answers.push(client.answer()?);
        }
        let statuses: Vec<_> = answers.iter().map(|answer| answer.status.to_string()).collect();
        let last = answers.last().is_some_and(|answer| answer.closes());
        seen.push(format!("{path}: {} {}", statuses.join(", "), if last { "close" } else { "kept" }));
    }
    Ok(seen.join("; "))
}
