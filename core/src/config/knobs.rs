//! The `knobs!` table: each mechanism one row, and the core's own rows.
//!
//! A row says a knob's name, its values, its default, the directive that sets it, what it is and what it should change.
//! From the row come the directive, `--set NAME=VALUE`, and the line of `mpmlab mechanisms`. Other
//! crates declare their rows with the same macro in a type of their own; [`super::load`] takes them as [`KnobSink`]s, so
//! that the core never names a mechanism that it does not know.

use super::nearest::suggestion;

/// One mechanism, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KnobRow {
    /// Name in `--set NAME=VALUE` and in studies.
    pub name: &'static str,
    /// Directive of the configuration file.
    pub directive: &'static str,
    /// Values a study compares. For words they are all there are; for a number, see `range`.
    pub levels: &'static [&'static str],
    /// For a number: least and greatest legal value.
    pub range: Option<(u64, u64)>,
    /// Value when nothing sets it, and the value of the profile `apache` where a model's card says nothing else.
    pub default: &'static str,
    /// Value in the profile `lean`: the fewest calls and hand-offs.
    pub lean: &'static str,
    /// One sentence: what it switches.
    pub doc: &'static str,
    /// What should change when it flips: the count that proves it works.
    pub changes: &'static str,
}

impl KnobRow {
    /// What may be written, for messages: `auto, mmap, sendfile or read`, or `a whole number from 0 to 64`.
    pub fn allowed(&self) -> String {
        match (self.range, self.levels.split_last()) {
            (Some((least, greatest)), _) => format!("a whole number from {least} to {greatest}"),
            // Levels that are lists themselves are examples.
            (None, _) if self.levels.iter().any(|level| level.contains(',')) => {
                format!("a list, for example: {}", self.levels.join("; "))
            }
            (None, Some((last, rest))) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
            (None, _) => self.levels.concat(),
        }
    }
}

/// Why a knob could not be set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// No row has this name.
    #[error("no knob is named '{name}'{suggestion}")]
    Unknown {
        /// As written.
        name: String,
        /// `; did you mean 'X'?`, or empty.
        suggestion: String,
    },
    /// The value is none of the row's.
    #[error("'{value}' is not a value of {name}; it must be {allowed}")]
    Value {
        /// The row's name.
        name: &'static str,
        /// As written.
        value: String,
        /// See [`KnobRow::allowed`].
        allowed: String,
    },
    /// An assignment without `=`.
    #[error("'{0}' sets no knob; write NAME=VALUE")]
    Assignment(String),
}

/// Something with knobs in it: what [`knobs!`](crate::knobs) makes.
pub trait KnobSink {
    /// The rows, in the order they are listed to people.
    fn rows(&self) -> &'static [KnobRow];
    /// Sets the knob with this name.
    ///
    /// # Errors
    /// No such knob, or no such value.
    fn set(&mut self, name: &str, value: &str) -> Result<(), KnobError>;
    /// The value of the knob with this name, as it would be written.
    fn get(&self, name: &str) -> Option<String>;
}

/// A type that a knob may have. The words of an enum come from [`knob_words!`](crate::knob_words).
pub trait KnobValue: Sized {
    /// Reads what [`KnobValue::print`] writes. Letter case does not matter, as in Apache's argument keywords.
    fn parse(text: &str) -> Option<Self>;
    /// As it is written in a configuration.
    fn print(&self) -> String;
}

impl KnobValue for bool {
    fn parse(text: &str) -> Option<bool> {
        let is = |word: &str| text.eq_ignore_ascii_case(word);
        if is("on") { Some(true) } else { is("off").then_some(false) }
    }

    fn print(&self) -> String {
        if *self { "on" } else { "off" }.to_owned()
    }
}

impl KnobValue for u32 {
    fn parse(text: &str) -> Option<u32> {
        // `from_str` also takes a leading plus sign, which nobody means.
        text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok())?
    }

    fn print(&self) -> String {
        self.to_string()
    }
}

/// The two settings of all knobs at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Calls and hand-offs as Apache 2.4 makes them; the default of prefork, worker and event.
    Apache,
    /// The fewest calls and hand-offs.
    Lean,
}

/// Sets every knob of `sink` as `profile` says. `faithful` are the pairs (name, value) of the model's card: they replace
/// the rows' defaults in the profile `apache`, and pairs that name no knob of this sink are left for another.
///
/// # Errors
/// A value of the card that its row does not have.
pub fn apply_profile(
    sink: &mut dyn KnobSink,
    profile: Profile,
    faithful: &[(&str, &str)],
) -> Result<(), KnobError> {
    for row in sink.rows() {
        let value = match profile {
            Profile::Lean => row.lean,
            Profile::Apache => {
                faithful.iter().find(|(name, _)| *name == row.name).map_or(row.default, |(_, value)| value)
            }
        };
        sink.set(row.name, value)?;
    }
    Ok(())
}

/// Sets what `NAME=VALUE` names (`--set`), in whichever of `sinks` has a knob of that name.
///
/// # Errors
/// No `=`, no such knob anywhere, or no such value.
pub fn set_in(sinks: &mut [&mut dyn KnobSink], assignment: &str) -> Result<(), KnobError> {
    let Some((name, value)) = assignment.split_once('=') else {
        return Err(KnobError::Assignment(assignment.to_owned()));
    };
    match sinks.iter_mut().find(|sink| sink.rows().iter().any(|row| row.name == name)) {
        Some(sink) => sink.set(name, value),
        None => Err(unknown(name, sinks.iter().flat_map(|sink| sink.rows()))),
    }
}

/// Sets one knob of a table: the part of `set` that is the same for all. `assign` gets the row's index and says whether
/// it could read the value.
///
/// # Errors
/// No such knob, or no such value.
pub fn set_row(
    rows: &'static [KnobRow],
    name: &str,
    value: &str,
    assign: impl FnOnce(usize) -> bool,
) -> Result<(), KnobError> {
    let Some(index) = rows.iter().position(|row| row.name == name) else {
        return Err(unknown(name, rows));
    };
    let row = &rows[index];
    let in_range = match row.range {
        None => true,
        Some((least, greatest)) => value.parse::<u64>().is_ok_and(|n| (least..=greatest).contains(&n)),
    };
    if in_range && assign(index) {
        return Ok(());
    }
    Err(KnobError::Value { name: row.name, value: value.to_owned(), allowed: row.allowed() })
}

fn unknown(name: &str, rows: impl IntoIterator<Item = &'static KnobRow>) -> KnobError {
    let suggestion = suggestion(name, rows.into_iter().map(|row| row.name));
    KnobError::Unknown { name: name.to_owned(), suggestion }
}

/// An enum whose variants are the words of a knob.
///
/// ```
/// mpmlab_core::knob_words! {
///     /// Who accepts.
///     pub enum Accept {
///         /// One at a time.
///         Mutex = "mutex",
///         /// All of them.
///         Shared = "shared",
///     }
/// }
/// use mpmlab_core::config::knobs::KnobValue;
/// assert_eq!(Accept::parse("Shared"), Some(Accept::Shared));
/// assert_eq!(Accept::WORDS, ["mutex", "shared"]);
/// ```
#[macro_export]
macro_rules! knob_words {
    ($(#[$outer:meta])* pub enum $name:ident { $($(#[$inner:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$inner])* $variant),+ }

        impl $name {
            /// The words, in the order of the variants.
            pub const WORDS: &'static [&'static str] = &[$($word),+];
        }

        impl $crate::config::knobs::KnobValue for $name {
            fn parse(text: &str) -> Option<$name> {
                $(if text.eq_ignore_ascii_case($word) { return Some($name::$variant); })+
                None
            }

            fn print(&self) -> String {
                match self { $($name::$variant => $word),+ }.to_owned()
            }
        }
    };
}

/// A struct of knobs and the table that describes it: fields, defaults, rows, `set` and `get` from one list.
///
/// A row reads `field: Type = "default", "name", directive "LabName", levels [..], [range A..=B,] lean "value", changes "..";`
/// and its doc comment is the sentence that people see.
///
/// ```
/// mpmlab_core::knobs! {
///     /// What this example can switch.
///     pub struct Knobs {
///         /// Wake one waiting process per connection instead of all of them.
///         exclusive: bool = "off", "accept-exclusive", directive "LabAcceptExclusive", levels ["off", "on"],
///             lean "on", changes "accept calls that return EAGAIN";
///     }
/// }
/// let mut knobs = Knobs::default();
/// knobs.set("accept-exclusive", "on")?;
/// assert!(knobs.exclusive);
/// assert_eq!(Knobs::ROWS[0].directive, "LabAcceptExclusive");
/// # Ok::<(), mpmlab_core::config::knobs::KnobError>(())
/// ```
#[macro_export]
macro_rules! knobs {
    ($(#[$outer:meta])* pub struct $name:ident {
        $($(#[doc = $doc:literal])+ $field:ident: $type:ty = $default:literal, $knob:literal,
            directive $directive:literal, levels $levels:expr, $(range $least:literal..=$greatest:literal,)?
            lean $lean:literal, changes $changes:literal;)+
    }) => {
        $(#[$outer])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub struct $name { $($(#[doc = $doc])+ pub $field: $type),+ }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: <$type as $crate::config::knobs::KnobValue>::parse($default)
                    .expect("a test reads every default of this table")),+ }
            }
        }

        impl $name {
            /// The table.
            pub const ROWS: &'static [$crate::config::knobs::KnobRow] = &[$($crate::config::knobs::KnobRow {
                name: $knob,
                directive: $directive,
                levels: &$levels,
                range: $crate::knobs!(@range $($least, $greatest)?),
                default: $default,
                lean: $lean,
                doc: concat!($($doc),+).trim_ascii(),
                changes: $changes,
            }),+];

            /// Sets the knob with this name.
            ///
            /// # Errors
            /// No such knob, or no such value.
            pub fn set(&mut self, name: &str, value: &str) -> Result<(), $crate::config::knobs::KnobError> {
                $crate::config::knobs::set_row(Self::ROWS, name, value, |_| {
                    $(if name == $knob {
                        return match <$type as $crate::config::knobs::KnobValue>::parse(value) {
                            Some(value) => { self.$field = value; true }
                            None => false,
                        };
                    })+
                    false
                })
            }

            /// The value of the knob with this name, as it would be written.
            pub fn get(&self, name: &str) -> Option<String> {
                $(if name == $knob { return Some($crate::config::knobs::KnobValue::print(&self.$field)); })+
                None
            }
        }

        impl $crate::config::knobs::KnobSink for $name {
            fn rows(&self) -> &'static [$crate::config::knobs::KnobRow] { Self::ROWS }
            fn set(&mut self, name: &str, value: &str) -> Result<(), $crate::config::knobs::KnobError> {
                $name::set(self, name, value)
            }
            fn get(&self, name: &str) -> Option<String> { $name::get(self, name) }
        }
    };
    (@range) => { None };
    (@range $least:literal, $greatest:literal) => { Some(($least, $greatest)) };
}

/// What is wrong with a table, one line each; empty when it is sound. For the tests of every crate that has one.
pub fn faults(sink: &mut dyn KnobSink) -> Vec<String> {
    let rows = sink.rows();
    let mut faults = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        let name = row.name;
        let mut check = |holds: bool, fault: &str| {
            if !holds {
                faults.push(format!("{name}: {fault}"));
            }
        };
        check(rows[..index].iter().all(|r| r.name != name), "the name is taken");
        check(rows[..index].iter().all(|r| r.directive != row.directive), "the directive is taken");
        check(row.directive.starts_with("Lab"), "the directive must begin with Lab");
        check(row.levels.len() >= 2, "a study needs two levels to compare");
        check(
            row.doc.ends_with('.') && !row.changes.is_empty(),
            "doc must be a sentence, changes must be said",
        );
        // Read before anything is set: a fresh table shows its defaults.
        check(
            sink.get(name).as_deref() == Some(row.default),
            "the default is not what the table starts with",
        );
        let mut seen = Vec::new();
        for value in row.levels.iter().chain([&row.default, &row.lean]) {
            let set = sink.set(name, value).is_ok() && sink.get(name).as_deref() == Some(value);
            check(set, "a value does not survive being set and printed");
            check(row.range.is_some() || row.levels.contains(value), "a default is not among the levels");
        }
        for level in row.levels {
            check(!seen.contains(level), "a level occurs twice");
            seen.push(*level);
        }
        check(sink.set(name, "no-such-value").is_err(), "nonsense is accepted as a value");
        if let Some((_, greatest)) = row.range {
            check(sink.set(name, &(greatest + 1).to_string()).is_err(), "a value out of range is accepted");
        }
    }
    faults
}

knob_words! {
    /// How file bytes reach the socket (`LabFileSend`, `file-send`).
    pub enum FileSend {
        /// As EnableSendfile and EnableMMAP say.
        Auto = "auto",
        /// Map up to 4 MiB, `writev` it with the header.
        Mmap = "mmap",
        /// `sendfile`, with TCP_CORK around it and the header.
        Sendfile = "sendfile",
        /// Read 8,000 bytes at a time, `writev` per 64 KiB.
        Read = "read",
    }
}

knob_words! {
    /// How a connection lingers (`LabLinger`, `linger`).
    pub enum LingerStyle {
        /// prefork and worker: wait 2 s for input first, read 512 bytes at a time, 30 s in all (mpm-semantics 2.1).
        WaitFirst = "wait-first",
        /// event: read 32,768 bytes at a time until EAGAIN, then wait 30 s (2 s after a keep-alive expiry) (4.2).
        ReadFirst = "read-first",
    }
}

knob_words! {
    /// Which limit a later request's line has (`LabLaterLine`, `later-line`).
    pub enum LaterLine {
        /// prefork and worker: KeepAliveTimeout (mpm-semantics 2, step 4a).
        KeepAlive = "keep-alive",
        /// event: Timeout.
        Timeout = "timeout",
    }
}

knob_words! {
    /// How a connection counts itself (`LabAccounting`, `accounting`); mpm-semantics 9.2.
    pub enum Accounting {
        /// prefork and worker: K until a later request's head is complete, a request's duration counted twice.
        Sync = "sync",
        /// event: R from a later request's first byte on, a request's duration counted once.
        Async = "async",
    }
}

knob_words! {
    /// How log lines are written that are due at the same time (`LabLogLines`, `log-lines`).
    pub enum LogLines {
        /// Each with a call of its own, as Apache without BufferedLogs.
        Each = "each",
        /// All with one call.
        Together = "together",
    }
}

knobs! {
    /// The core's knobs with their settings. The defaults are prefork's and worker's; event's card says what it does otherwise.
    pub struct CoreKnobs {
        /// How file bytes reach the socket; auto does as EnableSendfile and EnableMMAP say.
        file_send: FileSend = "auto", "file-send", directive "LabFileSend",
            levels ["auto", "mmap", "sendfile", "read"],
            // The same few calls and no copy at any file size, where mmap pays page faults and read grows with the size.
            lean "sendfile",
            changes "mmap, sendfile and read calls per response";
        /// How a closing connection is drained: wait up to 2 s for input first, or read first and wait only if there is more.
        linger: LingerStyle = "wait-first", "linger", directive "LabLinger",
            levels ["wait-first", "read-first"],
            lean "read-first",
            changes "poll calls per closed connection";
        /// Small answers to pipelined requests wait for one common write, FlushMaxPipelined of them at most; off writes each at once.
        coalesce: bool = "on", "coalesce", directive "LabCoalesce",
            levels ["off", "on"],
            lean "on",
            changes "writev calls per pipelined request with a small in-memory answer";
        /// Answers that wait for a common write go on waiting while the next request is only half there, as Apache's do.
        withhold: bool = "on", "withhold", directive "LabWithhold",
            levels ["on", "off"],
            lean "off",
            changes "answers that a client gets only after it has sent the rest of its next request, or never";
        /// What the line of a later request on a kept connection may take, wait by wait: KeepAliveTimeout, or Timeout as all else.
        later_line: LaterLine = "keep-alive", "later-line", directive "LabLaterLine",
            levels ["keep-alive", "timeout"],
            lean "keep-alive",
            changes "poll time-outs while a later request's line is incomplete";
        /// A process told to finish after an answer that promised to keep the connection: on serves one more request, whose answer
        /// says close; off closes at once as Apache does, and a request that is on its way goes unanswered.
        keep_promise: bool = "off", "keep-promise", directive "LabKeepPromise",
            levels ["off", "on"],
            lean "on",
            changes "requests that a graceful restart leaves unanswered";
        /// Before waiting for the rest of a request, read again as often as Apache does, although the last read took all there was.
        reread: bool = "on", "reread", directive "LabReread",
            levels ["on", "off"],
            lean "off",
            changes "read calls that return EAGAIN per wait for an incomplete request";
        /// With ExtendedStatus, the process's CPU times are noted in the scoreboard after each request.
        request_times: bool = "on", "request-times", directive "LabRequestTimes",
            levels ["on", "off"],
            lean "off",
            changes "times calls per request";
        /// How a connection counts itself in the scoreboard: as Apache's blocking loop, or as its asynchronous one.
        accounting: Accounting = "sync", "accounting", directive "LabAccounting",
            levels ["sync", "async"],
            lean "async",
            changes "the Total Duration that server-status shows, and the letter of a later request that is being read";
        /// Log lines of answers that went out with one write are written one by one, or together.
        log_lines: LogLines = "each", "log-lines", directive "LabLogLines",
            levels ["each", "together"],
            lean "together",
            changes "write calls to the access log per pipelined request";
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sound() {
        assert_eq!(faults(&mut CoreKnobs::default()), Vec::<String>::new());
    }

    #[test]
    fn faults_of_a_table_are_found() {
        knobs! {
            pub struct Bad {
                /// no full stop
                a: u32 = "7", "a", directive "A", levels ["7"], range 0..=9, lean "7", changes "";
                /// Fine.
                b: u32 = "10", "a", directive "A", levels ["1", "1"], range 0..=9, lean "1", changes "x";
            }
        }
        let all = faults(&mut Bad::default()).join("\n");
        for fault in [
            "begin with Lab",
            "two levels",
            "a sentence",
            "name is taken",
            "directive is taken",
            "occurs twice",
            "survive",
        ] {
            assert!(all.contains(fault), "{fault} is not in:\n{all}");
        }
    }

    #[test]
    fn errors_say_what_is_wrong_and_what_is_allowed() {
        let mut knobs = CoreKnobs::default();
        let said = |result: Result<(), KnobError>| result.expect_err("must be refused").to_string();
        assert_eq!(
            said(knobs.set("file-sned", "mmap")),
            "no knob is named 'file-sned'; did you mean 'file-send'?"
        );
        assert_eq!(
            said(knobs.set("file-send", "splice")),
            "'splice' is not a value of file-send; it must be auto, mmap, sendfile or read"
        );
        assert_eq!(said(knobs.set("coalesce", "4")), "'4' is not a value of coalesce; it must be off or on");
        assert_eq!(said(set_in(&mut [&mut knobs], "coalesce")), "'coalesce' sets no knob; write NAME=VALUE");
        assert_eq!(knobs, CoreKnobs::default(), "a refused value changes nothing");
    }

    #[test]
    fn assignments_find_their_table() {
        knobs! {
            pub struct Other {
                /// Where a connection waits.
                park: bool = "off", "park", directive "LabPark", levels ["off", "on"], lean "on", changes "threads held";
            }
        }
        let (mut core, mut other) = (CoreKnobs::default(), Other::default());
        set_in(&mut [&mut core, &mut other], "park=ON").unwrap();
        set_in(&mut [&mut core, &mut other], "coalesce=off").unwrap();
        assert!(other.park);
        assert!(!core.coalesce);
        let error = set_in(&mut [&mut core, &mut other], "prak=on").unwrap_err().to_string();
        assert_eq!(error, "no knob is named 'prak'; did you mean 'park'?");
    }

    #[test]
    fn profiles_set_every_knob() {
        let mut knobs = CoreKnobs::default();
        apply_profile(&mut knobs, Profile::Lean, &[("linger", "wait-first")]).unwrap();
        assert_eq!(
            knobs,
            CoreKnobs {
                file_send: FileSend::Sendfile,
                linger: LingerStyle::ReadFirst,
                reread: false,
                withhold: false,
                keep_promise: true,
                request_times: false,
                accounting: Accounting::Async,
                log_lines: LogLines::Together,
                ..CoreKnobs::default()
            }
        );
        let event =
            [("linger", "read-first"), ("coalesce", "off"), ("later-line", "timeout"), ("park", "all")];
        apply_profile(&mut knobs, Profile::Apache, &event).unwrap();
        assert_eq!(
            knobs,
            CoreKnobs {
                linger: LingerStyle::ReadFirst,
                coalesce: false,
                later_line: LaterLine::Timeout,
                ..CoreKnobs::default()
            }
        );
        assert!(apply_profile(&mut knobs, Profile::Apache, &[("coalesce", "many")]).is_err());
    }
}
