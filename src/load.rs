//! `mpmlab load`: arguments in, a run, figures out.
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use mpmlab_experiments::duration::parse_duration;
use mpmlab_experiments::interrupt::on_interrupt;
use mpmlab_experiments::load::{self, Plan, Url, text};

/// Generate HTTP load in a closed loop and report what happened.
///
/// Each connection sends a request, reads the whole answer, and sends the next. The flags mean what they mean in
/// wrk. Failed requests are reported by cause; a close that HTTP permits is not a failure. A run whose figures
/// cannot be trusted (the client was the limit, a count does not add up) is marked INVALID.
///
/// Exit status: 0 done, 1 the run is invalid or no request was answered, 2 wrong usage.
#[derive(Debug, Args)]
pub struct LoadArgs {
    /// What to request: http://HOST[:PORT]/PATH
    url: Url,
    /// Client threads, each with its share of the connections
    #[arg(short, long, value_name = "N", default_value_t = 2)]
    threads: usize,
    /// Connections in all, every one of them opened; at least one per thread
    #[arg(short, long, value_name = "N", default_value_t = 10)]
    connections: usize,
    /// Length of the measurement: 500ms, 10s, 2m; a plain number is seconds
    #[arg(short, long, value_name = "TIME", default_value = "10s", value_parser = parse_duration)]
    duration: Duration,
    /// Load before the measurement, not counted
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = parse_duration)]
    warmup: Duration,
    /// Give a request up after this long; it counts as a time-out and stays in the latencies
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = parse_duration)]
    timeout: Duration,
    /// Print the latency distribution
    #[arg(long)]
    latency: bool,
    /// Send `Connection: close`: a new connection for each request, the latency includes connecting
    #[arg(long)]
    no_keepalive: bool,
    /// Add a header to the request; may be repeated
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", value_parser = parse_header)]
    headers: Vec<(String, String)>,
    /// Pin the client's threads to these cores, one each in turn (numbers as in taskset -c: 1,2)
    #[arg(long, value_name = "CORES", value_delimiter = ',')]
    cpus: Option<Vec<usize>>,
    /// Print one JSON object instead of text: times in seconds, latencies in microseconds
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub fn run(args: LoadArgs) -> Result<ExitCode> {
    let plan = Plan {
        url: args.url,
        threads: args.threads,
        connections: args.connections,
        warmup: args.warmup,
        duration: args.duration,
        timeout: args.timeout,
        keepalive: !args.no_keepalive,
        headers: args.headers,
        cpus: args.cpus,
    };
    // Before the heading: what is refused is not announced.
    load::check(&plan)?;
    if !args.json {
        print!("{}", text::heading(&plan));
    }
    let outcome = load::run(&plan, on_interrupt())?;
    if args.json {
        println!("{}", serde_json::to_string(&outcome)?);
    } else {
        print!("{}", text::summary(&outcome, args.latency));
    }
    Ok(if outcome.valid { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn parse_header(text: &str) -> Result<(String, String), String> {
    match text.split_once(':') {
        Some((name, value)) => Ok((name.trim().to_owned(), value.trim().to_owned())),
        None => Err(format!("`{text}`: write a header as 'Name: value'")),
    }
}
