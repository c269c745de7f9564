//! The document root that the golden answers are about: every kind of thing a path can lead to, with fixed times.

use nix::sys::stat::{Mode, UtimensatFlags, utimensat};
use nix::sys::time::TimeSpec;
use nix::unistd::mkfifo;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// 2024-01-02 03:04:05.678901 UTC: what `60dedc0582f35` in the recorded tags stands for.
const MTIME: (i64, i64) = (1_704_164_645, 678_901_000);

/// A temporary directory with the document root in it.
pub struct Fixture {
    directory: tempfile::TempDir,
}

impl Fixture {
    /// Makes everything. Readable for a server that gives up root's rights, except what must not be.
    pub fn new() -> Fixture {
        let directory = tempfile::tempdir().unwrap();
        fs::set_permissions(directory.path(), Permissions::from_mode(0o755)).unwrap();
        let fixture = Fixture { directory };
        let root = fixture.root();
        for path in
            ["dir", "noindex", "dirindex/index.html", "d\u{ef}r &<\"x\">", "locked", ".htdir", "../outside"]
        {
            fs::create_dir_all(root.join(path)).unwrap();
        }
        let large: Vec<u8> = (0..100_000_u32).map(|at| b'a' + (at / 1000 % 26) as u8).collect();
        let files: [(&str, &[u8]); 28] = [
            ("index.html", b"<!doctype html><title>golden</title><p>index\n"),
            ("hello.html", b"hello, world\n"),
            ("1k.txt", &[b'k'; 1024]),
            ("empty.txt", b""),
            ("large.bin", &large),
            ("na\u{ef}ve.txt", b"utf-8\n"),
            ("two words.html", b"two words\n"),
            ("noext", b"no type\n"),
            ("data.zzz", b"zzz\n"),
            ("page.html.gz", b"gz\n"),
            ("page.html.zzz", b"zzz\n"),
            ("PHOTO.JPG", b"jpg\n"),
            ("dotted.", b"dot\n"),
            (".hidden.txt", b"hidden\n"),
            (".html", b"only dot\n"),
            ("style.css", b"a{}\n"),
            ("app.js", b"1\n"),
            ("old.txt", b"old\n"),
            ("future.txt", b"future\n"),
            ("secret.txt", b"secret\n"),
            ("dir/index.html", b"sub index\n"),
            ("dir/.htaccess", b"# nothing\n"),
            ("noindex/file.txt", b"x\n"),
            ("d\u{ef}r &<\"x\">/index.html", b"odd\n"),
            ("locked/index.html", b"locked\n"),
            (".htaccess", b"# nothing\n"),
            (".htdir/file.txt", b"ht\n"),
            (".htdir/index.html", b"ht\n"),
        ];
        for (name, content) in files {
            write(&root.join(name), content, MTIME);
        }
        write(&root.join("../outside/outside.txt"), b"outside\n", MTIME);
        set_mtime(&root.join("old.txt"), (-86_400, 0));
        set_mtime(&root.join("future.txt"), (4_102_444_800, 0));
        let links = [
            ("1k.txt", "link.txt"),
            ("../outside/outside.txt", "outside.txt"),
            ("dir", "linked"),
            ("nowhere", "dangling"),
            ("loop", "loop"),
            ("/dev/null", "device"),
        ];
        for (target, name) in links {
            symlink(target, root.join(name)).unwrap();
        }
        mkfifo(&root.join("fifo"), Mode::from_bits_truncate(0o644)).unwrap();
        drop(std::os::unix::net::UnixListener::bind(root.join("socket")).unwrap());
        fs::set_permissions(root.join("secret.txt"), Permissions::from_mode(0o000)).unwrap();
        fs::set_permissions(root.join("locked"), Permissions::from_mode(0o700)).unwrap();
        if !nix::unistd::geteuid().is_root() {
            // Its owner serves it: then not even the owner may look.
            fs::set_permissions(root.join("locked"), Permissions::from_mode(0o000)).unwrap();
        }
        fixture
    }

    /// The document root.
    pub fn root(&self) -> PathBuf {
        self.directory.path().join("root")
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        // Or its owner could not delete it.
        let _ = fs::set_permissions(self.root().join("locked"), Permissions::from_mode(0o700));
    }
}

fn write(path: &Path, content: &[u8], mtime: (i64, i64)) {
    fs::write(path, content).unwrap();
    fs::set_permissions(path, Permissions::from_mode(0o644)).unwrap();
    set_mtime(path, mtime);
}

fn set_mtime(path: &Path, (seconds, nanos): (i64, i64)) {
    let time = TimeSpec::new(seconds, nanos);
    utimensat(nix::fcntl::AT_FDCWD, path, &time, &time, UtimensatFlags::NoFollowSymlink).unwrap();
}
