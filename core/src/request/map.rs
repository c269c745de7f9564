//! URL path to file: decoding, the refusal of everything that leaves the document root, and what lies at the place.
//!
//! Nothing above the document root can be *named*: `..` is resolved in the text of the path before the disk is asked, an
//! encoded slash or NUL never reaches it. Symbolic links are followed wherever they lead, as with Apache's
//! `Options FollowSymLinks`: whoever may write below the root decided on them.

use crate::config::knobs::WalkStart;
use crate::sys::{self, FileStat};
use nix::errno::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A file name: the document root and, decoded, the URL's path behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    name: Vec<u8>,
    root: usize,
}

/// What is at a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Found {
    /// A regular file.
    File(FileStat),
    /// A directory.
    Directory,
    /// Nothing. The place is cut off behind the first name that is not there.
    Missing,
    /// A file, and more path behind it. The place is cut off behind the file.
    Beyond,
    /// Neither file nor directory: a FIFO, a socket, a device. Nobody opens it: Apache would hang in a FIFO, and serves a
    /// device as an empty file.
    Special,
    /// Something that may not be seen: no permission, too long a name, a link to nowhere.
    Denied,
}

/// Longest decoded path that is looked up; the kernel takes no longer one either (PATH_MAX).
const LONGEST: usize = 4096;

impl Place {
    /// Decodes a URL's path below a root.
    ///
    /// # Errors
    /// The status to answer with: 400 for a broken escape and for a path that climbs above the root, 404 for an encoded
    /// slash or NUL.
    pub fn new(root: &Path, path: &[u8]) -> Result<Place, u16> {
        let root = root.as_os_str().as_bytes();
        let root = root.strip_suffix(b"/").unwrap_or(root);
        let mut name = Vec::with_capacity(root.len() + path.len() + 16);
        name.extend_from_slice(root);
        let mut place = Place { name, root: root.len() };
        if path.is_empty() {
            place.name.push(b'/');
            return Ok(place);
        }
        if path[0] != b'/' {
            return Err(400);
        }
        if is_plain(path) {
            place.name.extend_from_slice(path);
            return Ok(place);
        }
        place.append(path)?;
        Ok(place)
    }

    /// The general case: escapes, empty segments, `.` and `..`.
    fn append(&mut self, path: &[u8]) -> Result<(), u16> {
        // Where the first encoded slash or NUL stands; a later `..` may still take it away.
        let mut forbidden: Option<usize> = None;
        self.name.push(b'/');
        let mut segments = path[1..].split(|&b| b == b'/').peekable();
        while let Some(segment) = segments.next() {
            let last = segments.peek().is_none();
            let start = self.name.len();
            if decode(segment, &mut self.name)? {
                forbidden.get_or_insert(start);
            }
            match &self.name[start..] {
                b"" => {}
                b"." => self.name.truncate(start),
                b".." => {
                    self.name.truncate(start - 1);
                    if self.name.len() <= self.root {
                        return Err(400);
                    }
                    let slash = self.name.iter().rposition(|&b| b == b'/').unwrap_or(self.root);
                    self.name.truncate(slash.max(self.root) + 1);
                    forbidden = forbidden.filter(|&at| at < self.name.len());
                }
                _ if !last => self.name.push(b'/'),
                _ => {}
            }
        }
        if forbidden.is_some() { Err(404) } else { Ok(()) }
    }

    /// The file's name for the kernel.
    pub fn path(&self) -> &Path {
        Path::new(OsStr::from_bytes(&self.name))
    }

    /// The URL's path, decoded.
    pub fn url_path(&self) -> &[u8] {
        &self.name[self.root..]
    }

    /// The last name of the path; empty behind a slash.
    pub fn name(&self) -> &[u8] {
        let slash = self.name.iter().rposition(|&b| b == b'/').map_or(0, |at| at + 1);
        &self.name[slash.max(self.root)..]
    }

    /// Where the last name starts in the whole one, for [`Place::set_name`].
    pub fn directory_end(&self) -> usize {
        self.name.len() - self.name().len()
    }

    /// Replaces what follows the first `directory` bytes. A name that starts with a slash is one below the root.
    pub fn set_name(&mut self, directory: usize, name: &[u8]) {
        self.name.truncate(if name.first() == Some(&b'/') { self.root } else { directory });
        self.name.extend_from_slice(name);
    }

    /// Asks the disk: one `newfstatat` if something is there, one for each name of the path if not.
    pub fn look_up(&mut self, start: WalkStart) -> Found {
        if self.name.len() >= LONGEST {
            return Found::Denied;
        }
        match sys::stat(self.path()) {
            Ok(stat) if stat.is_file() => Found::File(stat),
            Ok(stat) if stat.is_dir() => Found::Directory,
            Ok(_) => Found::Special,
            Err(Errno::ENOENT | Errno::ENOTDIR) => self.walk(start),
            Err(_) => Found::Denied,
        }
    }

    /// Why there is nothing: looks at each name in turn, as Apache's directory walk does (mpm-semantics 8, "404").
    fn walk(&mut self, start: WalkStart) -> Found {
        let mut at = match start {
            WalkStart::FileSystem => 1,
            WalkStart::DocumentRoot => self.root + 1,
        };
        while at < self.name.len() {
            let end =
                self.name[at..].iter().position(|&b| b == b'/').map_or(self.name.len(), |slash| at + slash);
            let path = Path::new(OsStr::from_bytes(&self.name[..end]));
            let stat = match sys::lstat(path) {
                // A link that leads nowhere is there, and may not be followed.
                Ok(stat) if stat.is_link() => match sys::stat(path) {
                    Ok(stat) => stat,
                    Err(_) => return Found::Denied,
                },
                Ok(stat) => stat,
                Err(Errno::ENOENT | Errno::ENOTDIR) => {
                    // Should the document root itself have gone: nothing below it is there.
                    self.name.truncate(end.max(self.root));
                    return Found::Missing;
                }
                Err(_) => return Found::Denied,
            };
            if !stat.is_dir() {
                self.name.truncate(end.max(self.root));
                return if stat.is_file() { Found::Beyond } else { Found::Denied };
            }
            at = end + 1;
        }
        // All names are there: somebody created the last one between the two looks.
        Found::Missing
    }
}

/// Debian's `<FilesMatch "^\.ht"> Require all denied`: the names under which Apache's own files hide.
pub fn is_hidden(name: &[u8]) -> bool {
    name.starts_with(b".ht")
}

/// Nothing to decode and nothing to resolve: the path of nearly every request.
fn is_plain(path: &[u8]) -> bool {
    let mut before = 0;
    path.iter().all(|&byte| {
        let plain = byte != b'%' && !(before == b'/' && matches!(byte, b'/' | b'.'));
        before = byte;
        plain
    })
}

/// Decodes one segment. `Ok(true)`: it holds an encoded slash or NUL. `Err`: an escape is broken.
fn decode(segment: &[u8], out: &mut Vec<u8>) -> Result<bool, u16> {
    let mut forbidden = false;
    let mut rest = segment;
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            out.push(byte);
            rest = after;
            continue;
        }
        let [high, low, after @ ..] = after else {
            return Err(400);
        };
        let digit = |b: u8| char::from(b).to_digit(16).ok_or(400_u16);
        let value = (digit(*high)? << 4 | digit(*low)?) as u8;
        // A decoded slash must not pass for one of the path's own while `..` is resolved.
        let odd = matches!(value, b'/' | 0);
        forbidden |= odd;
        out.push(if odd { 0 } else { value });
        rest = after;
    }
    Ok(forbidden)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn decoded(path: &str) -> Result<String, u16> {
        Place::new(Path::new("/r"), path.as_bytes())
            .map(|p| String::from_utf8_lossy(p.url_path()).into_owned())
    }

    #[test]
    fn paths_are_resolved_in_their_text() {
        for (path, result) in [
            ("", "/"),
            ("/", "/"),
            ("/a/b.html", "/a/b.html"),
            ("//a///b", "/a/b"),
            ("/./a/./b/.", "/a/b/"),
            ("/a/../b", "/b"),
            ("/a/b/..", "/a/"),
            ("/a/%2e%2E/b", "/b"),
            ("/%252e%252e/b", "/%2e%2e/b"),
            ("/.../b", "/.../b"),
            ("/a%2fb/../c", "/c"),
            ("/%e4%20%3f", "/\u{fffd} ?"),
            ("/.x/..y/z.", "/.x/..y/z."),
        ] {
            assert_eq!(decoded(path).as_deref(), Ok(result), "{path}");
        }
    }

    #[test]
    fn what_leaves_the_root_or_hides_in_escapes_is_refused() {
        for (path, status) in [
            ("/..", 400),
            ("/../x", 400),
            ("/a/../../x", 400),
            ("/%2e%2e/x", 400),
            ("/.%2e", 400),
            ("/a%", 400),
            ("/a%2", 400),
            ("/%zz", 400),
            ("x", 400),
            ("/a%2fb", 404),
            ("/a%2Fb", 404),
            ("/a%00b", 404),
            ("/..%2fx", 404),
            ("/a%2fb%zz", 400),
        ] {
            assert_eq!(decoded(path), Err(status), "{path}");
        }
    }

    #[test]
    fn the_disk_is_asked_once_and_then_name_by_name() {
        let root = tempfile::tempdir().unwrap();
        let at = |name: &str| root.path().join(name);
        std::fs::create_dir(at("dir")).unwrap();
        std::fs::write(at("file.html"), "x").unwrap();
        std::os::unix::fs::symlink("nowhere", at("dangling")).unwrap();
        std::os::unix::fs::symlink("loop", at("loop")).unwrap();
        std::os::unix::fs::symlink("/dev/null", at("device")).unwrap();
        nix::unistd::mkfifo(&at("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        let look_from = |start, path: &str| {
            let mut place = Place::new(root.path(), path.as_bytes()).unwrap();
            (place.look_up(start), String::from_utf8(place.url_path().to_vec()).unwrap())
        };
        let look = |path: &str| {
            let found = look_from(WalkStart::FileSystem, path);
            assert_eq!(
                look_from(WalkStart::DocumentRoot, path),
                found,
                "{path}: where the walk starts shows only in its calls"
            );
            found
        };
        assert!(matches!(look("/file.html").0, Found::File(stat) if stat.size == 1));
        assert_eq!(look("/dir").0, Found::Directory);
        assert_eq!(look("/dir/").0, Found::Directory);
        assert_eq!(look("/none/x"), (Found::Missing, "/none".to_owned()));
        assert_eq!(look("/none/"), (Found::Missing, "/none".to_owned()));
        assert_eq!(look("/file.html/x/y"), (Found::Beyond, "/file.html".to_owned()));
        assert_eq!(look("/file.html/"), (Found::Beyond, "/file.html".to_owned()));
        for denied in ["/dangling", "/loop", "/fifo/x", "/dangling/x"] {
            assert_eq!(look(denied).0, Found::Denied, "{denied}");
        }
        assert_eq!((look("/fifo").0, look("/device").0), (Found::Special, Found::Special));
        assert_eq!(look(&format!("/{}", "a".repeat(255))).0, Found::Missing);
        assert_eq!(look(&format!("/{}", "a".repeat(256))).0, Found::Denied);
        assert_eq!(look(&format!("/{}", "a/".repeat(3000))).0, Found::Denied);
    }

    proptest! {
        #[test]
        fn no_path_leaves_the_root(path in "(/|\\.|%2e|%2f|%00|%|a|\\.\\.|é){0,20}") {
            if let Ok(place) = Place::new(Path::new("/r"), format!("/{path}").as_bytes()) {
                let url_path = place.url_path();
                prop_assert_eq!(url_path[0], b'/');
                prop_assert!(url_path.split(|&b| b == b'/').all(|s| s != b".." && s != b"."));
                prop_assert!(!url_path.contains(&0) && !url_path.windows(2).any(|w| w == b"//"));
            }
        }
    }
}
