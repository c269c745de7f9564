//! What `/server-status?auto` says (mpm-semantics 9.4).

use super::connection::FOUR;
use crate::conformance::{APACHES, Bench, Seen, Trouble, Vector};
use nix::sys::signal::Signal;

const STATUS: &str = "/server-status?auto";

/// The keys of every model: before what ExtendedStatus adds, that, and after it.
macro_rules! keys {
    (first) => {
        "ServerVersion ServerMPM Server_Built CurrentTime RestartTime ParentServerConfigGeneration \
         ParentServerMPMGeneration ServerUptimeSeconds ServerUptime Load1 Load5 Load15"
    };
    (extended) => {
        " Total_Accesses Total_kBytes Total_Duration CPUUser CPUSystem CPUChildrenUser CPUChildrenSystem CPULoad Uptime \
         ReqPerSec BytesPerSec BytesPerReq DurationPerReq"
    };
    (workers) => {
        " BusyWorkers GracefulWorkers IdleWorkers"
    };
    (connections) => {
        " Processes Stopping ConnsTotal ConnsAsyncWaitIO ConnsAsyncWriting ConnsAsyncKeepAlive ConnsAsyncClosing"
    };
}

pub(super) const VECTORS: &[Vector] = &[
    Vector {
        id: "status-keys",
        says: "server-status?auto has Apache's keys in Apache's order",
        source: "mpm-semantics 9.4",
        setup: &[],
        knobs: &[],
        expect: &[
            (
                "prefork worker",
                concat!("localhost ", keys!(first), keys!(extended), keys!(workers), " Scoreboard"),
            ),
            (
                "event",
                concat!(
                    "localhost ",
                    keys!(first),
                    keys!(extended),
                    keys!(workers),
                    keys!(connections),
                    " Scoreboard"
                ),
            ),
        ],
        differs: None,
        run: extended_keys,
    },
    Vector {
        id: "status-keys-without-extended-status",
        says: "without ExtendedStatus the keys that need counting are missing",
        source: "mpm-semantics 9.3, 9.4",
        setup: &["ExtendedStatus Off"],
        knobs: &[],
        expect: &[
            ("prefork worker", concat!("localhost ", keys!(first), keys!(workers), " Scoreboard")),
            ("event", concat!("localhost ", keys!(first), keys!(workers), keys!(connections), " Scoreboard")),
        ],
        differs: None,
        run: plain_keys,
    },
    Vector {
        id: "status-forms",
        says: "the values have Apache's forms",
        source: "mpm-semantics 9.4",
        setup: &[],
        knobs: &[],
        expect: &[
            (
                "prefork",
                "text/plain; charset=ISO-8859-1; ServerMPM prefork; CurrentTime Weekday, 00-Mon-0000 00:00:00 Zone; Load1 0.00",
            ),
            (
                "worker",
                "text/plain; charset=ISO-8859-1; ServerMPM worker; CurrentTime Weekday, 00-Mon-0000 00:00:00 Zone; Load1 0.00",
            ),
            (
                "event",
                "text/plain; charset=ISO-8859-1; ServerMPM event; CurrentTime Weekday, 00-Mon-0000 00:00:00 Zone; Load1 0.00",
            ),
        ],
        differs: None,
        run: forms,
    },
    Vector {
        id: "status-counts-its-own-worker",
        says: "the worker that answers the status request is a busy one",
        source: "mpm-semantics 9.4",
        setup: FOUR,
        knobs: &[],
        expect: &[(APACHES, "idle: busy 1, graceful 0, idle 3; two held: busy 3, graceful 0, idle 1")],
        differs: None,
        run: busy,
    },
    Vector {
        id: "status-counts-requests",
        says: "Total Accesses counts finished requests, not connections, and not itself",
        source: "mpm-semantics 9.4",
        setup: FOUR,
        knobs: &[],
        expect: &[(APACHES, "6 accesses of 2 connections, 7 after asking")],
        differs: None,
        run: accesses,
    },
    Vector {
        id: "status-counts-nothing-without-extended-status",
        says: "without ExtendedStatus no slot counts its requests",
        source: "mpm-semantics 9.3",
        setup: &["ExtendedStatus Off"],
        knobs: &[],
        expect: &[(APACHES, "0 accesses after 5 requests")],
        differs: None,
        run: not_counted,
    },
    Vector {
        id: "status-scoreboard-string",
        says: "the scoreboard string has a letter for every worker that may be, dead ones included",
        source: "mpm-semantics 9.4",
        setup: &[
            "MaxRequestWorkers 12",
            "prefork: StartServers 4",
            "prefork: MinSpareServers 1",
            "worker event: StartServers 1",
            "worker event: ThreadsPerChild 4",
            "worker event: MinSpareThreads 1",
        ],
        knobs: &[],
        expect: &[(APACHES, "12 letters: 8 . 1 W 3 _")],
        differs: None,
        run: string,
    },
    Vector {
        id: "status-generations",
        says: "every restart begins a generation; the configuration's count begins with 1, the model's with 0",
        source: "mpm-semantics 6, 9.4",
        setup: FOUR,
        knobs: &[],
        expect: &[(APACHES, "1/0, after USR1 2/1, after HUP 3/2")],
        differs: None,
        run: generations,
    },
    Vector {
        id: "status-over-restarts",
        says: "accesses survive a graceful restart and are reset by a hard one",
        source: "mpm-semantics 6, 9.4",
        setup: FOUR,
        knobs: &[],
        expect: &[(APACHES, "5, after USR1 5, after HUP 0")],
        differs: None,
        run: over_restarts,
    },
    Vector {
        id: "status-stopping-processes",
        says: "event tells processes that wait for their last connections apart, and leaves their workers out",
        source: "mpm-semantics 9.4",
        setup: FOUR,
        knobs: &[],
        expect: &[("event", "processes 2, stopping 1, busy 1, idle 3")],
        differs: None,
        run: stopping,
    },
];

/// A status page.
fn page(bench: &Bench) -> Seen {
    Ok(bench.get(STATUS)?.text())
}

/// A value on it.
fn value(page: &str, key: &str) -> String {
    let mut lines = page.lines().filter_map(|line| line.split_once(": "));
    lines.find(|(name, _)| *name == key).map_or("missing".to_owned(), |(_, value)| value.to_owned())
}

fn values(page: &str, keys: &[&str]) -> Vec<String> {
    keys.iter().map(|key| value(page, key)).collect()
}

/// What stands before the colons; spaces inside a key are underscores here.
fn keys(page: &str) -> String {
    let key = |line: &str| line.split(':').next().unwrap_or_default().trim_end().replace(' ', "_");
    page.lines().map(key).collect::<Vec<_>>().join(" ")
}

fn extended_keys(bench: &mut Bench) -> Seen {
    // CPULoad is there from the first hundredth of a second of processor time on, the rates from the first second of uptime on.
    let page = bench.wait("processor time on the status page", || {
        page(bench).ok().filter(|page| page.contains("CPULoad") && page.contains("ReqPerSec"))
    })?;
    Ok(keys(&page))
}

fn plain_keys(bench: &mut Bench) -> Seen {
    Ok(keys(&page(bench)?))
}

fn forms(bench: &mut Bench) -> Seen {
    let answer = bench.get(STATUS)?;
    let page = answer.text();
    // The words and numbers of the day are not the point.
    let time = value(&page, "CurrentTime");
    let mut words = time.split(' ').map(|word| {
        word.split('-')
            .map(|part| match part {
                _ if part.ends_with("day,") => "Weekday,".to_owned(),
                _ if part.len() == 3 && part.chars().all(char::is_alphabetic) && word.contains('-') => {
                    "Mon".to_owned()
                }
                _ if part.chars().all(char::is_alphabetic) => "Zone".to_owned(),
                _ => part.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect(),
            })
            .collect::<Vec<_>>()
            .join("-")
    });
    let time = words.by_ref().collect::<Vec<_>>().join(" ");
    let load = value(&page, "Load1");
    let load = load
        .split_once('.')
        .map_or("without a point", |(_, digits)| if digits.len() == 2 { "0.00" } else { "other" });
    Ok(format!(
        "{}; ServerMPM {}; CurrentTime {time}; Load1 {load}",
        answer.field("Content-Type").unwrap_or("missing"),
        value(&page, "ServerMPM")
    ))
}

fn busy(bench: &mut Bench) -> Seen {
    let say = |page: &str| {
        let values = values(page, &["BusyWorkers", "GracefulWorkers", "IdleWorkers"]);
        format!("busy {}, graceful {}, idle {}", values[0], values[1], values[2])
    };
    let idle = say(&page(bench)?);
    bench.wait_for_letters("____")?;
    let _held = bench.hold_many(2)?;
    Ok(format!("idle: {idle}; two held: {}", say(&page(bench)?)))
}

fn total(bench: &Bench) -> Seen {
    Ok(value(&page(bench)?, "Total Accesses"))
}

fn accesses(bench: &mut Bench) -> Seen {
    let mut client = bench.dial()?;
    for _ in 0..5 {
        client.get("/small")?;
    }
    bench.get("/missing")?;
    // A request is counted after it was answered.
    bench.wait("six requests are counted", || (bench.board().ok()?.accesses() == 6).then_some(()))?;
    let first = total(bench)?;
    bench.wait("a seventh is counted", || (bench.board().ok()?.accesses() == 7).then_some(()))?;
    Ok(format!("{first} accesses of 2 connections, {} after asking", total(bench)?))
}

fn not_counted(bench: &mut Bench) -> Seen {
    for _ in 0..5 {
        bench.get("/small")?;
    }
    bench.wait("all workers are idle again", || {
        bench.board().ok()?.living().chars().all(|c| c == '_').then_some(())
    })?;
    Ok(format!("{} accesses after 5 requests", bench.board()?.accesses()))
}

fn string(bench: &mut Bench) -> Seen {
    let string = value(&page(bench)?, "Scoreboard");
    let mut counts: Vec<(char, usize)> = Vec::new();
    for letter in string.chars() {
        match counts.iter_mut().find(|(known, _)| *known == letter) {
            Some((_, count)) => *count += 1,
            None => counts.push((letter, 1)),
        }
    }
    counts.sort_unstable();
    let counts: Vec<_> = counts.iter().map(|(letter, count)| format!("{count} {letter}")).collect();
    Ok(format!("{} letters: {}", string.len(), counts.join(" ")))
}

fn generations(bench: &mut Bench) -> Seen {
    let say = |bench: &Bench| -> Seen {
        let page = page(bench)?;
        Ok(values(&page, &["ParentServerConfigGeneration", "ParentServerMPMGeneration"]).join("/"))
    };
    let first = say(bench)?;
    bench.restart(Signal::SIGUSR1)?;
    let second = say(bench)?;
    bench.restart(Signal::SIGHUP)?;
    Ok(format!("{first}, after USR1 {second}, after HUP {}", say(bench)?))
}

fn over_restarts(bench: &mut Bench) -> Seen {
    for _ in 0..5 {
        bench.get("/small")?;
    }
    let count = |bench: &Bench| bench.board().map(|board| board.accesses());
    bench.wait("five requests are counted", || (count(bench).ok()? == 5).then_some(()))?;
    bench.restart(Signal::SIGUSR1)?;
    let graceful = count(bench)?;
    bench.restart(Signal::SIGHUP)?;
    Ok(format!("5, after USR1 {graceful}, after HUP {}", count(bench)?))
}

fn stopping(bench: &mut Bench) -> Seen {
    let _held = bench.hold()?;
    bench.restart(Signal::SIGUSR1)?;
    bench.wait("a process of the new generation is ready", || {
        let board = bench.board().ok()?;
        let idle = |worker: &&crate::conformance::board::Worker| worker.letter == '_';
        let mut young = board.present().filter(|process| process.generation == 1 && !process.quiescing);
        (young.next()?.workers.iter().filter(idle).count() == 4).then_some(())
    })?;
    let values = values(&page(bench)?, &["Processes", "Stopping", "BusyWorkers", "IdleWorkers"]);
    let [processes, stopping, busy, idle] = values.try_into().map_err(|_| Trouble::failed("four values"))?;
    Ok(format!("processes {processes}, stopping {stopping}, busy {busy}, idle {idle}"))
}
