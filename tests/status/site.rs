//! mpmlab and the installed Apache with one configuration, to be asked the same questions.

use super::apache::Apache;
use super::harness::{Server, identity, talk};
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const TEMPLATE: &str = include_str!("apache.conf.in");

/// As in Debian's mods-available/status.conf.
pub const STATUS: [&str; 8] = [
    "<Location /server-status>",
    "SetHandler server-status",
    "Require local",
    "</Location>",
    "ExtendedStatus On",
    "<IfModule mod_proxy.c>",
    "ProxyStatus On",
    "</IfModule>",
];

/// A server that is asked.
pub enum Target {
    Mpmlab(Server),
    Apache(Apache),
}

impl Target {
    pub fn addr(&self) -> SocketAddr {
        match self {
            Target::Mpmlab(server) => server.addr,
            Target::Apache(apache) => apache.addr,
        }
    }

    /// The parent process.
    pub fn pid(&self) -> i32 {
        match self {
            Target::Mpmlab(server) => server.pid,
            Target::Apache(apache) => apache.pid(),
        }
    }

    /// The status page; `None` if the server does not answer at the moment.
    pub fn status(&self, query: &str) -> Option<String> {
        self.get(&format!("/server-status{query}")).map(|(_, body)| body)
    }

    /// Header and body of an answer that says its length or ends with the connection.
    pub fn get(&self, path: &str) -> Option<(String, String)> {
        let request = format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n");
        std::net::TcpStream::connect(self.addr()).ok()?;
        let (answer, _) = talk(self.addr(), request.as_bytes(), usize::MAX, false);
        let text = String::from_utf8(answer).unwrap();
        text.split_once("\r\n\r\n").map(|(header, body)| (header.to_owned(), body.to_owned()))
    }
}

/// A document root with one file, readable for everybody.
pub struct Site {
    folder: tempfile::TempDir,
}

impl Site {
    pub fn new() -> Site {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(root.join("f.txt"), [b'x'; 1024]).unwrap();
        for path in [folder.path(), &root] {
            std::fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
        }
        Site { folder }
    }

    fn root(&self) -> std::path::PathBuf {
        self.folder.path().join("root")
    }

    /// Two processes, eight workers or four, and room for more.
    fn shape(mpm: &str) -> Vec<&'static str> {
        let mut lines = vec!["ServerName localhost", "KeepAliveTimeout 30", "StartServers 2"];
        lines.extend(match mpm {
            "prefork" => {
                ["ServerLimit 8", "MaxRequestWorkers 4", "MinSpareServers 1", "MaxSpareServers 4"].as_slice()
            }
            _ => &[
                "ServerLimit 4",
                "ThreadLimit 8",
                "ThreadsPerChild 4",
                "MaxRequestWorkers 8",
                "MinSpareThreads 1",
                "MaxSpareThreads 8",
            ],
        });
        lines
    }

    /// mpmlab with these lines more.
    pub fn mpmlab(&self, mpm: &str, more: &[&str]) -> Target {
        let board = format!("ScoreBoardFile {}", self.folder.path().join("board").display());
        let identity = identity();
        let mut lines = Site::shape(mpm);
        lines.extend(STATUS.iter().chain(more));
        lines.push(&board);
        lines.extend(identity.iter().map(String::as_str));
        Target::Mpmlab(Server::start(mpm, &self.root(), &lines))
    }

    /// Apache with these lines more.
    pub fn apache(&self, mpm: &str, more: &[&str]) -> Target {
        let mut lines = Site::shape(mpm);
        lines.extend(STATUS.iter().chain(more));
        let types = Path::new(env!("CARGO_MANIFEST_DIR")).join("core/data/mime.types");
        Target::Apache(Apache::start(&TEMPLATE.replace("@MPM@", mpm), &self.root(), &types, &lines))
    }
}
