//! The parser against Apache's measured behaviour (htaccess-semantics 3), and against arbitrary text.

use super::*;
use proptest::prelude::*;

fn environment() -> Environment {
    Environment {
        defines: vec!["ON".to_owned()],
        variables: [("USER", "www-data"), ("TWO", "a b")].map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        modules: ["core.c", "mpm_event_module"].map(str::to_owned).into(),
    }
}

fn parse(text: impl AsRef<[u8]>) -> Result<(Vec<Entry>, Vec<Warning>), ConfigError> {
    let environment = environment();
    let mut parser = Parser::new(&environment, LIMITS);
    parser.text(&"f".into(), text.as_ref())?;
    parser.finish()
}

/// The tree in one line: `2:Name|arguments`, sections with `{}`.
fn tree(entries: &[Entry]) -> String {
    let one = |entry: &Entry| {
        let head = format!("{}:{}|{}", entry.place.line, entry.name, entry.arguments);
        match &entry.children {
            None => head,
            Some(children) => format!("{head}{{{}}}", tree(children)),
        }
    };
    entries.iter().map(one).collect::<Vec<_>>().join(" ; ")
}

#[track_caller]
fn reads(text: impl AsRef<[u8]>, expected: &str) {
    let (entries, _) = parse(text).expect("must be accepted");
    assert_eq!(tree(&entries), expected);
}

#[track_caller]
fn refuses(text: impl AsRef<[u8]>, expected: &str) {
    assert_eq!(parse(text).expect_err("must be refused").to_string(), expected);
}

#[test]
fn lines_comments_and_white_space() {
    reads("", "");
    reads("  A  1 \r\n\n# A 2\n\t#\n\x0bB\x0c", "1:A|1 ; 5:B|");
    // `#` later on a line is an argument (3.1), and a lone CR is white space.
    reads("A 1 # no\rcomment", "1:A|1 # no\rcomment");
    reads("\"A\" 1", "1:A|1");
}

#[test]
fn continuation_lines_are_joined_and_counted_as_apache_counts() {
    reads("A a\\\n\\\nb c\nB", "3:A|ab c ; 4:B|");
    reads("A a\\\r\nb\nB", "2:A|ab ; 3:B|");
    reads("# a \\\nA 1\nB", "3:B|");
    // There is no escape: two backslashes continue too, and leave one.
    reads("A a\\\\\nb", "2:A|a\\b");
    reads("A a\\", "1:A|a\\");
    reads("A a\\\n", "1:A|a");
    // A NUL hides the rest of its line, a backslash too.
    reads(b"A a\0b\\\nB", "1:A|a ; 2:B|");
}

#[test]
fn words_are_quoted_as_in_apache() {
    for (text, expected) in [
        (r#"a  b"#, vec!["a", "b"]),
        (r#""a b" 'c "d"'"#, vec!["a b", r#"c "d""#]),
        (r#""a \" b\\ \n""#, vec![r#"a " b\ \n"#]),
        (r#"'it\'s'"#, vec!["it's"]),
        (r#"a\\b a\b a"b""#, vec![r"a\b", r"a\b", r#"a"b""#]),
        (r#""open to the end"#, vec!["open to the end"]),
        (r#""glued"word"#, vec!["glued", "word"]),
        (r#"a "" b"#, vec!["a"]),
        (r#"a\"#, vec![r"a\"]),
        (r#""a\"#, vec![r"a\"]),
        ("\u{a0}x", vec!["\u{a0}x"]),
    ] {
        assert_eq!(words(text), expected, "{text}");
    }
}

#[test]
fn parse_time_sections() {
    reads("<IfModule core.c>\nA\n</IfModule>\nB", "2:A| ; 4:B|");
    reads("<IfModule no.c>\nA\n</IfModule>\nB", "4:B|");
    reads("<ifmodule !no.c>\nA\n</IFMODULE>", "2:A|");
    reads("<IfModule ! \"mpm_event_module\">\nA\n</IfModule> # x\nB", "4:B|");
    reads("<IfDefine ON>\nA\n</IfDefine>\n<IfDefine !ON>\nB\n</IfDefine>", "2:A|");
    // Exact case, whole name, first word (3.4).
    reads("<IfModule CORE.C>\nA\n</IfModule>\n<IfModule core>\nB\n</IfModule>", "");
    reads("<IfModule core.c b> c\nA\n</IfModule>", "2:A|");
    // Inside a false section only tags count, whatever the bytes are.
    reads(b"<IfModule no.c>\n<Foo a>\n\xff\n</Foo>\n<IfDefine ON>\n</IfDefine>\n</IfModule>\nB", "8:B|");
    reads(
        "<Files a>\n<IfDefine ON>\nA\n<IfDefine NO>\nB\n</IfDefine>\n</IfDefine>\nC\n</Files>",
        "1:Files|a>{3:A| ; 8:C|}",
    );
}

#[test]
fn sections_make_a_tree() {
    reads(
        "<Directory />\nA 1\n<Files \"x\">\n</Files>\nB\n</directory> x\nC",
        "1:Directory|/>{2:A|1 ; 3:Files|\"x\">{} ; 5:B|} ; 7:C|",
    );
    reads("<Foo>\n</Foo>", "1:Foo|{}");
}

#[test]
fn errors_of_sections_have_apaches_words() {
    refuses("A\n<IfModule no.c>\n</IfDefine>", "f:3: Expected </IfModule> but saw </IfDefine>");
    refuses("<IfModule core.c>\n</IfDefine>", "f:2: Expected </IfModule> but saw </IfDefine>");
    refuses("<Directory />\n</Files>", "f:2: Expected </Directory> but saw </Files>");
    refuses(
        "<Directory />\n<IfModule core.c>\n</Directory>",
        "f:3: Expected </IfModule> but saw </Directory>",
    );
    refuses("A\n</IfModule>", "f:2: </IfModule> without matching <IfModule> section");
    refuses("<IfModule core.c>\n</IfModule> # x", "f:2: </IfModule> without matching <IfModule> section");
    refuses("A\n<Directory />\nB", "f:2: <Directory> was not closed.");
    // Apache accepts this one silently.
    refuses("<IfModule core.c>\nA", "f:1: <IfModule> was not closed.");
    refuses("<IfModule no.c>\nB", "f:1: Expected </IfModule> before end of configuration");
    refuses("<IfModule>", "f:1: <IfModule> directive requires additional arguments");
    refuses("<IfModule !>", "f:1: <IfModule> directive requires additional arguments");
    refuses("<IfDefine\n", "f:1: <IfDefine> directive requires additional arguments");
    refuses("<IfModule a", "f:1: <IfModule> directive missing closing '>'");
    refuses("<Files a>\n</Files >", "f:2: </Files> directive missing closing '>'");
    refuses("</", "f:1: </ without matching < section");
    refuses("<>", "f:1: <> was not closed.");
}

#[test]
fn variables_are_replaced_before_words_are_told_apart() {
    reads("User ${USER}", "1:User|www-data");
    reads("Define X 5\nA ${X}${X} ${USER}", "2:A|55 www-data");
    reads("A ${TWO}", "1:A|a b");
    assert_eq!(words("a b"), ["a", "b"]);
    // A Define wins over the environment, UnDefine gives the environment's back, names without a value have none.
    reads("Define USER me\nA ${USER}\nUnDefine USER\nB ${USER}", "2:A|me ; 4:B|www-data");
    reads("Define Y\n<IfDefine Y>\nA ${Y}\n</IfDefine>", "3:A|${Y}");
    reads("A $USER ${ ${US ER", "1:A|$USER ${ ${US ER");
    // Not again within what was put in.
    reads("Define X \"$\"\nDefine Z ${X}{USER}\nA ${Z}", "3:A|${USER}");
    let (_, warnings) = parse("A ${NONE} ${with:colon} ${ON}\n# ${COMMENT}").unwrap();
    let said: Vec<String> = warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        said,
        [
            "f:1: AH00111: Config variable ${NONE} is not defined",
            "f:1: AH00111: Config variable ${ON} is not defined"
        ]
    );
    refuses(
        "Define",
        "f:1: Define takes 1-2 arguments, Define a variable, optionally to a value.  Same as passing -D to the command line.",
    );
    refuses(
        "Define a b c",
        "f:1: Define takes 1-2 arguments, Define a variable, optionally to a value.  Same as passing -D to the command line.",
    );
    refuses("Define a:b", "f:1: Variable name must not contain ':'");
    refuses(
        "UnDefine",
        "f:1: UnDefine takes one argument, Undefine the existence of a variable. Undo a Define.",
    );
}

#[test]
fn everything_is_limited() {
    // 8,191 bytes without the line end are the most that Apache takes in .htaccess (3.1).
    let longest = format!("A {}", "x".repeat(8189));
    assert!(parse(&longest).is_ok());
    assert!(parse(format!("{longest}\r\n")).is_ok());
    refuses(format!("B\n{longest}x\n"), "f:2: Line too long");
    refuses(format!("# {}", "x".repeat(8190)), "f:1: Line too long");
    refuses("x\\\n".repeat(10_000), "f:8192: Line too long");
    // Each Define doubles: stopped when one line's worth is passed.
    let mut bomb = "Define X xxxxxxxxxxxxxxxx\n".to_owned();
    (0..60).for_each(|_| bomb.push_str("Define X ${X}${X}\n"));
    refuses(&bomb, "f:10: Line too long");
    refuses("<A>\n".repeat(65), "f:65: <A> is nested more than 64 sections deep");
    refuses("<IfModule no.c>\n".repeat(65), "f:65: <IfModule> is nested more than 64 sections deep");
    refuses(vec![b'\n'; LIMITS.file + 1], "f: the file is larger than 4194304 bytes");
    refuses(b"A \xff", "f:1: the line is not UTF-8; save the file as UTF-8");
    reads(b"# \xff", "");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_in_one_line(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
        if let Err(error) = parse(&bytes) {
            prop_assert!(!error.to_string().contains('\n'));
        }
    }

    // Made of the pieces that mean something, so that deep states are reached.
    #[test]
    fn any_mixture_of_pieces_is_read_or_refused(pieces in proptest::collection::vec(prop_oneof![
        Just("<IfModule core.c>"), Just("<IfModule !core.c>"), Just("</IfModule>"), Just("<IfDefine ON>"), Just("</IfDefine>"),
        Just("<Files x>"), Just("</Files>"), Just("\\\n"), Just("\n"), Just("\r\n"), Just("\0"), Just("${"), Just("}"), Just("USER"),
        Just("Define X ${X}"), Just("\""), Just("'"), Just("\\"), Just("#"), Just(" "), Just("A b"), Just(">"), Just("</"), Just("ü"),
    ], 0..60)) {
        let text = pieces.concat();
        if let Ok((entries, _)) = parse(&text) {
            let newlines = text.matches('\n').count() as u32 + 1;
            prop_assert!(entries.iter().all(|entry| (1..=newlines).contains(&entry.place.line)));
        }
    }

    #[test]
    fn a_quoted_word_reads_back(word in "[^\0\r\n]{1,40}", other in "[^\0\r\n]{1,40}") {
        prop_assert_eq!(words(&format!("{} {}", quote(&word), quote(&other))), vec![word, other]);
    }
}
