//! Serving a connection until it is closed or parked: the only place that waits in place.

use crate::ParkSet;
use mpmlab_core::connection::Connection;
use mpmlab_core::connection::step::{Step, Wait, Wake};
use mpmlab_core::context::ThreadContext;

/// Advances `conn` until it is closed (`None`), or waits in a state that the model parks: then the model must keep it and
/// call again as the wait says.
pub fn drive(
    conn: &mut Connection,
    cx: &mut ThreadContext<'_>,
    mut wake: Wake,
    parks: ParkSet,
) -> Option<Wait> {
    loop {
        match conn.advance(cx, wake) {
            Step::Closed(_) => return None,
            Step::Wait(wait) if parks.holds(wait.state) => return Some(wait),
            Step::Wait(wait) => wake = cx.poll(&wait),
        }
    }
}
