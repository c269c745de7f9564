//! Which CPUs a thread and the processes it starts may use (sched_setaffinity(2)).

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;

/// Pid 0 means the calling *thread* to both calls.
const THIS_THREAD: Pid = Pid::from_raw(0);

/// CPUs the calling thread may use, ascending. Empty when the kernel does not say.
pub fn allowed() -> Vec<usize> {
    let Ok(set) = sched_getaffinity(THIS_THREAD) else { return Vec::new() };
    (0..CpuSet::count()).filter(|&cpu| set.is_set(cpu) == Ok(true)).collect()
}

/// Allows the calling thread, and whatever it starts from now on, only `cpus`.
pub fn this_thread_to(cpus: &[usize]) -> nix::Result<()> {
    let mut set = CpuSet::new();
    for &cpu in cpus {
        set.set(cpu)?;
    }
    sched_setaffinity(THIS_THREAD, &set)
}

/// Restricts the calling thread to one CPU until dropped; then it may use again what it might before.
#[derive(Debug)]
pub struct Pinned {
    before: Vec<usize>,
}

impl Pinned {
    /// Pins the calling thread. Keep the value on that thread.
    pub fn to(cpu: usize) -> nix::Result<Pinned> {
        let before = allowed();
        this_thread_to(&[cpu])?;
        Ok(Pinned { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // Fails only if the machine lost those CPUs meanwhile; then there is nothing to restore.
        let _ = this_thread_to(&self.before);
    }
}

/// Server and client on different cores, so that they do not take time from each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cores {
    /// Where the server under test runs; `None` when not pinned.
    pub server: Option<usize>,
    /// Where the load generator and the study itself run; `None` when not pinned.
    pub client: Option<usize>,
}

impl Cores {
    /// What was asked for, completed from `allowed`: the first core serves, the second generates load. With a single
    /// core nothing is pinned. A core that may not be used is refused with a sentence.
    pub fn choose(server: Option<usize>, client: Option<usize>, allowed: &[usize]) -> Result<Cores, String> {
        for (flag, cpu) in [("--server-cpu", server), ("--client-cpu", client)] {
            if let Some(cpu) = cpu
                && !allowed.contains(&cpu)
            {
                return Err(format!("{flag} {cpu}: this machine allows only {allowed:?}; name one of them"));
            }
        }
        if allowed.len() < 2 {
            return Ok(Cores { server, client });
        }
        let other_than = |taken: Option<usize>| allowed.iter().copied().find(|&cpu| Some(cpu) != taken);
        let server = server.or_else(|| other_than(client));
        Ok(Cores { server, client: client.or_else(|| other_than(server)) })
    }

    /// The sentence for `environment.json` and the report.
    pub fn sentence(&self) -> String {
        match (self.server, self.client) {
            (Some(server), Some(client)) if server != client => {
                format!("server pinned to CPU {server}, load generator to CPU {client}")
            }
            (Some(server), Some(_)) => {
                format!("server and load generator both pinned to CPU {server}: they compete")
            }
            (None, None) => "not pinned: server and load generator share the only CPU and compete".to_owned(),
            (server, client) => format!("partly pinned: server {server:?}, load generator {client:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_client_get_different_cores_where_there_are_two() {
        let choose = |server, client, allowed: &[usize]| {
            Cores::choose(server, client, allowed).map(|cores| (cores.server, cores.client))
        };
        assert_eq!(choose(None, None, &[0, 1]), Ok((Some(0), Some(1))));
        assert_eq!(choose(None, None, &[3, 5, 6]), Ok((Some(3), Some(5))));
        assert_eq!(choose(Some(1), None, &[0, 1]), Ok((Some(1), Some(0))));
        assert_eq!(choose(None, Some(0), &[0, 1]), Ok((Some(1), Some(0))));
        assert_eq!(choose(Some(1), Some(1), &[0, 1]), Ok((Some(1), Some(1))));
        assert_eq!(choose(None, None, &[0]), Ok((None, None)));
        assert!(choose(Some(7), None, &[0, 1]).unwrap_err().contains("--server-cpu 7"));
    }

    #[test]
    fn a_thread_gets_its_cores_back() {
        let before = allowed();
        {
            let _pinned = Pinned::to(before[0]).unwrap();
            assert_eq!(allowed(), vec![before[0]]);
        }
        assert_eq!(allowed(), before);
    }
}
