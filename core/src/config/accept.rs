//! What the directives about listening sockets and accept serialisation say: typed, and read as Apache reads them.

use super::draft::Draft;
use std::path::PathBuf;

/// How processes that share several listeners take turns in accepting (`Mutex`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mechanism {
    /// A robust process-shared pthread mutex; what `default` means on Linux. Calls the system only when contended.
    #[default]
    Pthread,
    /// Record locks: `fcntl(F_SETLKW)` twice per accept. `file` is another name.
    Fcntl,
    /// `flock` twice per accept.
    Flock,
    /// A System V semaphore with SEM_UNDO: `semop` twice per accept.
    Sysvsem,
    /// A POSIX semaphore. A holder that is killed keeps it for ever.
    Posixsem,
}

impl Mechanism {
    /// Its name in Apache's log.
    pub fn name(self) -> &'static str {
        match self {
            Mechanism::Pthread => "pthread",
            Mechanism::Fcntl => "fcntl",
            Mechanism::Flock => "flock",
            Mechanism::Sysvsem => "sysvsem",
            Mechanism::Posixsem => "posixsem",
        }
    }
}

/// One `Mutex` directive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MutexSetting {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// Where lock files are made; `None`: the run chooses.
    pub directory: Option<PathBuf>,
    /// Leave the process id out of the lock file's name.
    pub omit_pid: bool,
}

/// Everything about listening sockets that is not an address. `Default` is Apache's compiled-in default.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accepting {
    /// `SendBufferSize`, bytes; 0 leaves it to the kernel. Set on the listener, inherited by connections.
    pub send_buffer: usize,
    /// `ReceiveBufferSize`, bytes; 0 leaves it to the kernel.
    pub receive_buffer: usize,
    /// `ListenTCPDeferAccept`, seconds (mpm-semantics 1.4).
    pub defer_accept: i32,
    /// `AcceptFilter http`: any filter but `none`.
    pub filter_http: bool,
    /// `AcceptFilter https`.
    pub filter_https: bool,
    /// `ListenCoresBucketsRatio`: cores per set of listeners; 0 is off.
    pub cores_per_bucket: i64,
    /// `Mutex ... default`.
    mutex_default: Option<MutexSetting>,
    /// `Mutex ... mpm-accept`, which wins.
    mutex_accept: Option<MutexSetting>,
}

impl Default for Accepting {
    fn default() -> Accepting {
        Accepting {
            send_buffer: 0,
            receive_buffer: 0,
            defer_accept: 30,
            filter_http: true,
            filter_https: true,
            cores_per_bucket: 0,
            mutex_default: None,
            mutex_accept: None,
        }
    }
}

impl Accepting {
    /// The accept mutex: what is said of `mpm-accept`, or else of `default`, in whichever order they stand.
    pub fn mutex(&self) -> MutexSetting {
        self.mutex_accept.as_ref().or(self.mutex_default.as_ref()).cloned().unwrap_or_default()
    }

    /// TCP_DEFER_ACCEPT for a listener on `port`, seconds; `None` leaves it off. Apache takes port 443 for https.
    pub fn defer_on(&self, port: u16) -> Option<i32> {
        let filtered = if port == 443 { self.filter_https } else { self.filter_http };
        filtered.then_some(self.defer_accept)
    }

    /// Sets of listeners on a machine with this many cores: cores / ratio, if that is more than one (mpm-semantics 1.3).
    pub fn buckets(&self, cores: i64) -> i64 {
        if self.cores_per_bucket > 0 { (cores / self.cores_per_bucket).max(1) } else { 1 }
    }
}

/// Apache's list of what it was built with on Linux.
const MECHANISMS: &str = "(Mutex mechanisms are: 'none', 'default', 'flock:/path/to/file', 'fcntl:/path/to/file', \
                          'file:/path/to/file', 'pthread', 'sysvsem', 'posixsem', 'sem')";

/// Mutexes of Apache's modules that have none here.
const OF_OTHER_MODULES: [&str; 11] = [
    "authdigest-client",
    "authdigest-opaque",
    "cache-socache",
    "ldap-cache",
    "proxy",
    "proxy-balancer-shm",
    "rewrite-map",
    "ssl-cache",
    "ssl-stapling",
    "ssl-stapling-refresh",
    "watchdog-callback",
];

/// `Mutex mechanism[:directory] [default|name] ... [OmitPID]`.
pub(super) fn mutex(draft: &mut Draft, words: &[String]) -> Result<(), String> {
    let Some(given) = words.first() else {
        return Err(format!("Mutex requires at least a mechanism argument {MECHANISMS}"));
    };
    let (method, directory) = given.split_once(':').unwrap_or((given.as_str(), ""));
    let mechanism = match method.to_ascii_lowercase().as_str() {
        "none" => None,
        "default" | "yes" | "pthread" => Some(Mechanism::Pthread),
        "fcntl" | "file" => Some(Mechanism::Fcntl),
        "flock" => Some(Mechanism::Flock),
        "sysvsem" => Some(Mechanism::Sysvsem),
        "posixsem" | "sem" => Some(Mechanism::Posixsem),
        _ => return Err(format!("Invalid Mutex argument {given} {MECHANISMS}")),
    };
    let directory = (!directory.is_empty()).then(|| draft.absolute(directory));
    if directory.as_ref().is_some_and(|directory| !directory.is_dir()) {
        return Err(format!("Invalid Mutex directory in argument {given}"));
    }
    let is_option = |word: &&String| word.eq_ignore_ascii_case("omitpid");
    let omit_pid = words[1..].iter().any(|word| is_option(&word));
    let mut names: Vec<&str> =
        words[1..].iter().filter(|word| !is_option(word)).map(String::as_str).collect();
    if names.is_empty() {
        names.push("default");
    }
    // From the last to the first, so the last wrong one is reported, as in Apache.
    for name in names.into_iter().rev() {
        let is_ours = ["default", "mpm-accept"].contains(&name);
        if !is_ours && !OF_OTHER_MODULES.contains(&name) {
            return Err(format!("Mutex type {name} is not valid"));
        }
        let Some(mechanism) = mechanism else {
            return Err(format!("None is not allowed for mutex type {name}"));
        };
        let setting = Some(MutexSetting { mechanism, directory: directory.clone(), omit_pid });
        match name {
            "default" => draft.config.accepting.mutex_default = setting,
            "mpm-accept" => draft.config.accepting.mutex_accept = setting,
            other => draft.warn(format!("Mutex: there is no mutex {other} here, this has no effect")),
        }
    }
    Ok(())
}

/// `AcceptFilter protocol filter`.
pub(super) fn filter(draft: &mut Draft, words: &[String]) -> Result<(), String> {
    let on = !words[1].eq_ignore_ascii_case("none");
    let accepting = &mut draft.config.accepting;
    match words[0].to_ascii_lowercase().as_str() {
        "http" => accepting.filter_http = on,
        "https" => accepting.filter_https = on,
        other => {
            let message = format!("AcceptFilter: nothing listens for protocol {other}, this has no effect");
            draft.warn(message);
        }
    }
    Ok(())
}

/// `SendBufferSize` and `ReceiveBufferSize`.
pub(super) fn buffer(name: &str, words: &[String]) -> Result<usize, String> {
    match words[0].parse() {
        Ok(size) if size == 0 || size >= 512 => Ok(size),
        _ => Err(format!("{name} must be >= 512 bytes, or 0 for system default.")),
    }
}

/// A number that Apache wants to be positive, in its words.
pub(super) fn positive<T: TryFrom<i64>>(name: &str, words: &[String]) -> Result<T, String> {
    let wrong = || format!("{name} must be > 0");
    let number = super::value::integer(&words[0], 1, i32::MAX.into()).map_err(|_| wrong())?;
    T::try_from(number).map_err(|_| wrong())
}

/// A number of bytes or kilobytes that Apache calls invalid when it is negative.
pub(super) fn unsigned(name: &str, words: &[String]) -> Result<usize, String> {
    words[0].parse().map_err(|_| format!("Invalid {name} value: {}", words[0]))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Environment, Source, load};

    fn accepting(text: &str) -> Accepting {
        let source = Source::Text { origin: "test".to_owned(), text: text.into() };
        load(&[source], &Environment::for_model("prefork")).expect(text).0.accepting
    }

    #[test]
    fn what_is_said_of_mpm_accept_wins_over_default_in_either_order() {
        for text in
            ["Mutex flock mpm-accept\nMutex fcntl default\n", "Mutex fcntl\nMutex flock mpm-accept OmitPID\n"]
        {
            assert_eq!(accepting(text).mutex().mechanism, Mechanism::Flock, "{text}");
        }
        assert_eq!(accepting("").mutex(), MutexSetting::default());
        let setting = accepting("Mutex file:/tmp omitpid").mutex();
        let expected =
            MutexSetting { mechanism: Mechanism::Fcntl, directory: Some("/tmp".into()), omit_pid: true };
        assert_eq!(setting, expected);
    }

    #[test]
    fn any_filter_but_none_defers() {
        for (text, port, seconds) in [
            ("", 80, Some(30)),
            ("AcceptFilter HTTP None", 80, None),
            ("AcceptFilter http none", 443, Some(30)),
            ("AcceptFilter http connect\nListenTCPDeferAccept 7", 8080, Some(7)),
            ("AcceptFilter https none", 443, None),
        ] {
            assert_eq!(accepting(text).defer_on(port), seconds, "{text}");
        }
    }

    // mpm-semantics 1.3: online cores / ratio, a whole number, if that is more than 1.
    #[test]
    fn buckets_are_cores_by_ratio() {
        for (ratio, cores, buckets) in [(0, 64, 1), (1, 2, 2), (2, 2, 1), (8, 64, 8), (3, 8, 2), (9, 8, 1)] {
            let accepting = Accepting { cores_per_bucket: ratio, ..Accepting::default() };
            assert_eq!(accepting.buckets(cores), buckets, "{cores} / {ratio}");
        }
    }
}
