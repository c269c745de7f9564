//! The internal dummy connection: wakes one prefork child that waits in `accept`, so that it looks at the pipe of death
//! (mpm-semantics 5.2). The child serves it like any other, and it appears in the access log.

use super::listen::Listener;
use std::io::Write;
use std::net::TcpStream;
use std::time::Duration;

/// Longer the parent does not wait for its own server.
const LIMIT: Duration = Duration::from_secs(3);

/// Makes one, to the first listener. A failure is no matter: then nobody is idle, and nobody need be woken.
pub fn connect(listeners: &[Listener], banner: &str) {
    let Some(listener) = listeners.first() else { return };
    if let Ok(mut stream) = TcpStream::connect_timeout(&listener.reachable(), LIMIT) {
        let request =
            format!("OPTIONS * HTTP/1.0\r\nUser-Agent: {banner} (internal dummy connection)\r\n\r\n");
        let _ = stream.write_all(request.as_bytes());
    }
}
