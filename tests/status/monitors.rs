//! How existing monitoring reads `?auto`: the rules of munin's plugins, of collectd's, and of the Prometheus exporter, written
//! down again.

use std::collections::BTreeMap;

/// munin apache_accesses, apache_volume, apache_processes: one figure behind a name at the beginning of a line.
pub fn munin(text: &str) -> [u64; 4] {
    let figure = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        let digits = line.unwrap_or_else(|| panic!("no line begins with {name:?}:\n{text}")).trim();
        digits.parse().unwrap_or_else(|_| panic!("{name} {digits:?} is not a whole number"))
    };
    [figure("Total Accesses: "), figure("Total kBytes: "), figure("BusyWorkers: "), figure("IdleWorkers: ")]
}

/// collectd's apache plugin: words of a line, told apart by the first two; and the scoreboard, letter by letter.
pub fn collectd(text: &str) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    for line in text.lines() {
        match line.split_whitespace().collect::<Vec<_>>().as_slice() {
            ["Total", what @ ("Accesses:" | "kBytes:"), number] => {
                found.insert((*what).to_owned(), number.parse().unwrap());
            }
            ["Scoreboard:", letters] => {
                for letter in letters.chars() {
                    *found.entry(letter.to_string()).or_insert(0) += 1;
                }
            }
            [what @ ("BusyWorkers:" | "BusyServers:" | "IdleWorkers:" | "IdleServers:"), number] => {
                found.insert((*what).to_owned(), number.parse().unwrap());
            }
            _ => {}
        }
    }
    found
}

/// apache_exporter: every line with a known key has a number behind ": "; the version is what stands behind the slash.
pub fn exporter(text: &str) -> BTreeMap<String, f64> {
    const NUMBERS: [&str; 22] = [
        "Total Accesses",
        "Total kBytes",
        "Total Duration",
        "CPUUser",
        "CPUSystem",
        "CPUChildrenUser",
        "CPUChildrenSystem",
        "CPULoad",
        "Load1",
        "Uptime",
        "ServerUptimeSeconds",
        "ParentServerConfigGeneration",
        "ParentServerMPMGeneration",
        "BusyWorkers",
        "IdleWorkers",
        "Processes",
        "Stopping",
        "ConnsTotal",
        "ConnsAsyncWriting",
        "ConnsAsyncKeepAlive",
        "ConnsAsyncClosing",
        "ConnsAsyncWaitIO",
    ];
    let mut found = BTreeMap::new();
    for (key, value) in text.lines().filter_map(|line| line.split_once(": ")) {
        if NUMBERS.contains(&key) {
            found.insert(key.to_owned(), value.parse().unwrap_or_else(|_| panic!("{key} is {value:?}")));
        }
        if key == "ServerVersion" {
            let version = value.split_once('/').expect("a name and a version").1;
            let mut parts = version.split([' ', '.']);
            let (major, minor) = (parts.next().unwrap(), parts.next().unwrap());
            found.insert(key.to_owned(), format!("{major}.{minor}").parse().unwrap());
        }
    }
    found
}
