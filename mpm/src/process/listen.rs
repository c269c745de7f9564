//! Listening sockets, made as Apache makes them (mpm-semantics 1.2, step 2), by the parent, before it forks.

use super::fd::Closable;
use mpmlab_core::config::{Config, Listen};
use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::sockopt::{Ipv6V6Only, KeepAlive, RcvBuf, ReuseAddr, ReusePort, SndBuf, TcpNoDelay};
use nix::sys::socket::{
    AddressFamily, Backlog, SockFlag, SockType, SockaddrStorage, bind, listen, setsockopt, socket,
};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

/// Most addresses. Prefork's signal handler must be able to reach every listener, so they stand in a table of fixed size.
pub const MOST_LISTENERS: usize = 256;

/// Why a `Listen` cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("Listen {address}: {why}")]
pub struct ListenError {
    address: String,
    why: String,
}

/// One listening socket.
///
/// It can be closed before it is dropped, because a child that retires closes its listeners and lives on.
#[derive(Debug)]
pub struct Listener {
    fd: Closable,
    asked: Listen,
    bound: SocketAddr,
}

impl Listener {
    /// The descriptor; -1 once closed.
    pub fn fd(&self) -> RawFd {
        self.fd.raw()
    }

    /// Where it listens, with the port that the kernel chose for port 0.
    pub fn bound(&self) -> SocketAddr {
        self.bound
    }

    /// The local address of every connection from here; `None` when bound to a wildcard: then each must be asked for.
    pub fn local(&self) -> Option<SocketAddr> {
        (!self.bound.ip().is_unspecified()).then_some(self.bound)
    }

    /// Where a client on this machine reaches it.
    pub fn reachable(&self) -> SocketAddr {
        let ip = match self.bound.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
            ip => ip,
        };
        SocketAddr::new(ip, self.bound.port())
    }

    /// Closes it in this process. The socket lives on in the others.
    pub fn close(&self) {
        self.fd.close();
    }

    /// Sets or clears the non-blocking flag, which all processes share.
    pub fn set_nonblocking(&self, on: bool) {
        // SAFETY: fcntl with these commands takes no pointer.
        unsafe {
            let flags = libc::fcntl(self.fd(), libc::F_GETFL);
            let wanted = if on { flags | libc::O_NONBLOCK } else { flags & !libc::O_NONBLOCK };
            if wanted != flags {
                libc::fcntl(self.fd(), libc::F_SETFL, wanted);
            }
        }
    }
}

/// The listeners of a run: for each bucket one of every address, in the order of the configuration. There is one bucket
/// unless `ListenCoresBucketsRatio` asks for more (mpm-semantics 1.3); the kernel spreads connections over them.
pub type Buckets = Vec<Vec<Listener>>;

/// Opens what the configuration asks for, once per bucket. Sockets of `old` that are still asked for are kept, so that a
/// restart never refuses a connection; the others are closed. Apache keeps the options of a kept socket too, but for
/// TCP_DEFER_ACCEPT, which it sets anew, and never takes back.
///
/// # Errors
/// One of them cannot be had; `old` is as it was then.
pub fn open_all(
    asked: &[Listen],
    config: &Config,
    buckets: usize,
    old: &mut Buckets,
) -> Result<Buckets, ListenError> {
    if asked.len() > MOST_LISTENERS {
        let why = format!("there may be no more than {MOST_LISTENERS} addresses; remove some");
        return Err(ListenError { address: format!("({} addresses)", asked.len()), why });
    }
    // First everything that can fail; only then is anything taken from `old`.
    let mut plan: Vec<Vec<Origin>> = Vec::new();
    for bucket in 0..buckets {
        let have = old.get(bucket).map_or(&[][..], Vec::as_slice);
        let mut used = vec![false; have.len()];
        let mut row = Vec::new();
        for (index, listen) in asked.iter().enumerate() {
            // Copies listen where the first one does, which with port 0 only the kernel knows.
            let twin = plan.first().map(|first: &Vec<Origin>| first[index].bound(old));
            let fits = |l: &Listener| l.asked == *listen && twin.is_none_or(|twin| l.bound == twin);
            let kept = (0..have.len()).find(|&k| !used[k] && fits(&have[k]));
            row.push(match (kept, twin) {
                (Some(k), _) => {
                    used[k] = true;
                    Origin::Kept(bucket, k)
                }
                (None, Some(twin)) => Origin::Fresh(
                    open_at(*listen, twin, config)
                        .map_err(|errno| ListenError { address: twin.to_string(), why: explain(errno) })?,
                ),
                (None, None) => Origin::Fresh(open_one(*listen, config)?),
            });
        }
        plan.push(row);
    }
    let mut old: Vec<Vec<Option<Listener>>> =
        std::mem::take(old).into_iter().map(|bucket| bucket.into_iter().map(Some).collect()).collect();
    let mut take = |origin: Origin| match origin {
        Origin::Fresh(listener) => listener,
        Origin::Kept(bucket, index) => old[bucket][index].take().expect("planned once"),
    };
    let open: Buckets = plan.into_iter().map(|row| row.into_iter().map(&mut take).collect()).collect();
    for listener in open.iter().flatten() {
        if let Some(seconds) = config.accepting.defer_on(listener.bound.port()) {
            defer_accept(listener.fd(), seconds);
        }
    }
    Ok(open)
}

/// Where a listener of the new run comes from.
enum Origin {
    Kept(usize, usize),
    Fresh(Listener),
}

impl Origin {
    fn bound(&self, old: &Buckets) -> SocketAddr {
        match self {
            Origin::Kept(bucket, index) => old[*bucket][*index].bound,
            Origin::Fresh(listener) => listener.bound,
        }
    }
}

fn open_one(asked: Listen, config: &Config) -> Result<Listener, ListenError> {
    let failed = |address: String, error: Errno| ListenError { address, why: explain(error) };
    match asked.ip {
        Some(ip) => {
            let address = SocketAddr::new(ip, asked.port);
            open_at(asked, address, config).map_err(|e| failed(address.to_string(), e))
        }
        // A bare port is one socket for both families; where there is no IPv6, one for IPv4.
        None => {
            match open_at(asked, SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), asked.port), config) {
                Err(Errno::EAFNOSUPPORT | Errno::EADDRNOTAVAIL) => {
                    open_at(asked, SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), asked.port), config)
                }
                other => other,
            }
            .map_err(|e| failed(asked.port.to_string(), e))
        }
    }
}

/// The calls of Apache's 2.4.71, in its order.
fn open_at(asked: Listen, address: SocketAddr, config: &Config) -> nix::Result<Listener> {
    let family = if address.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let fd: OwnedFd = socket(family, SockType::Stream, SockFlag::SOCK_CLOEXEC, None)?;
    let accepting = &config.accepting;
    setsockopt(&fd, ReuseAddr, &true)?;
    setsockopt(&fd, KeepAlive, &true)?;
    // Set here once; accepted sockets inherit all of them. A size that the kernel refuses is no error, as in Apache.
    if accepting.send_buffer > 0 {
        let _ = setsockopt(&fd, SndBuf, &accepting.send_buffer);
    }
    if accepting.receive_buffer > 0 {
        let _ = setsockopt(&fd, RcvBuf, &accepting.receive_buffer);
    }
    setsockopt(&fd, TcpNoDelay, &true)?;
    if accepting.cores_per_bucket > 0 {
        setsockopt(&fd, ReusePort, &true)?;
    }
    if address.is_ipv6() {
        setsockopt(&fd, Ipv6V6Only, &false)?;
    }
    bind(fd.as_raw_fd(), &SockaddrStorage::from(address))?;
    // Backlog::new refuses what the kernel would silently cap at somaxconn.
    let backlog = i32::try_from(config.listen_backlog).ok().and_then(|n| Backlog::new(n).ok());
    listen(&fd, backlog.unwrap_or(Backlog::MAXCONN))?;
    let bound = mpmlab_core::sys::local_address(fd.as_raw_fd())?;
    Ok(Listener { fd: fd.into(), asked, bound })
}

/// A client that connects and sends nothing is not handed out for about so many seconds (mpm-semantics 1.4). Only an
/// optimisation: a kernel that refuses it is no error, as in Apache.
fn defer_accept(fd: RawFd, seconds: i32) {
    // SAFETY: the option value is a c_int that outlives the call, and its size is given.
    unsafe {
        libc::setsockopt(
            fd,
            libc::IPPROTO_TCP,
            libc::TCP_DEFER_ACCEPT,
            (&raw const seconds).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        );
    }
}

fn explain(error: Errno) -> String {
    match error {
        Errno::EADDRINUSE => {
            "address already in use; stop the server that listens there, or choose another port"
        }
        Errno::EACCES => "permission denied; ports below 1024 need root, choose a higher one",
        Errno::EADDRNOTAVAIL => "this machine has no such address; choose one of its own, or only a port",
        other => return format!("{}; choose another address", other.desc().to_lowercase()),
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        use mpmlab_core::config::{Environment, Source, load};
        let source = Source::Text { origin: "test".to_owned(), text: text.into() };
        load(&[source], &Environment::for_model("event")).unwrap().0
    }

    fn places(buckets: &Buckets) -> Vec<Vec<(RawFd, SocketAddr)>> {
        buckets.iter().map(|b| b.iter().map(|l| (l.fd(), l.bound())).collect()).collect()
    }

    #[test]
    fn sockets_that_are_still_asked_for_are_kept_and_copies_share_their_port() {
        let config = config("Listen 127.0.0.1:0\nListen 127.0.0.1:0\nListenCoresBucketsRatio 1");
        let mut first = open_all(&config.listen, &config, 2, &mut Vec::new()).unwrap();
        let before = places(&first);
        assert_eq!((before.len(), before[0].len()), (2, 2));
        for (one, other) in before[0].iter().zip(&before[1]) {
            assert!(one.1 == other.1 && one.0 != other.0);
        }
        let mut same = open_all(&config.listen, &config, 2, &mut first).unwrap();
        assert_eq!(places(&same), before);
        let fewer = open_all(&config.listen[..1], &config, 1, &mut same).unwrap();
        assert_eq!(places(&fewer), [vec![before[0][0]]]);
        assert!(same.is_empty());
    }

    #[test]
    fn what_was_open_stays_open_when_something_new_cannot_be_had() {
        let one = config("Listen 127.0.0.1:0");
        let mut open = open_all(&one.listen, &one, 1, &mut Vec::new()).unwrap();
        let before = places(&open);
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let two = config(&format!("Listen 127.0.0.1:0\nListen {}", taken.local_addr().unwrap()));
        let error = open_all(&two.listen, &two, 1, &mut open).unwrap_err();
        assert!(error.to_string().contains("address already in use"), "{error}");
        assert_eq!(places(&open), before);
    }

    // mpm-semantics 1.2: a bare port is one socket for both families.
    #[test]
    fn a_bare_port_is_one_dual_stack_socket() {
        let config = config("Listen 0");
        let open = open_all(&config.listen, &config, 1, &mut Vec::new()).unwrap();
        let bound = open[0][0].bound();
        // Where the machine has no IPv6, the one socket is of IPv4.
        assert!(open[0].len() == 1 && bound.ip().is_unspecified() && open[0][0].local().is_none());
        std::net::TcpStream::connect(("127.0.0.1", bound.port())).unwrap();
        if bound.is_ipv6() {
            std::net::TcpStream::connect(("::1", bound.port())).unwrap();
        }
    }
}
