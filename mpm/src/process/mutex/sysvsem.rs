//! `Mutex sysvsem`: a System V semaphore, whose SEM_UNDO gives back what a killed holder took.

use super::{Account, Lock};
use nix::errno::Errno;
use nix::libc;

#[derive(Debug)]
pub(super) struct Sysvsem {
    id: libc::c_int,
}

/// The argument of `semctl`, which C leaves to its caller to declare.
#[repr(C)]
union Argument {
    value: libc::c_int,
    status: *mut libc::semid_ds,
}

impl Sysvsem {
    /// The kernel keeps it until it is removed: dropping does that, and a parent that is killed leaves it, as Apache's does
    /// (`ipcs -s` shows it).
    pub(super) fn new(account: Option<&Account>) -> nix::Result<Sysvsem> {
        // SAFETY: semget takes numbers.
        let id = Errno::result(unsafe { libc::semget(libc::IPC_PRIVATE, 1, libc::IPC_CREAT | 0o600) })?;
        let made = Sysvsem { id };
        // SAFETY: SETVAL reads the integer of the union.
        Errno::result(unsafe { libc::semctl(id, 0, libc::SETVAL, Argument { value: 1 }) })?;
        if let Some(account) = account {
            // SAFETY: zeroes are a valid semid_ds, of which IPC_SET reads owner and mode only.
            let mut status: libc::semid_ds = unsafe { std::mem::zeroed() };
            status.sem_perm.uid = account.uid.as_raw();
            status.sem_perm.gid = account.gid.as_raw();
            status.sem_perm.mode = 0o600;
            // SAFETY: the structure outlives the call.
            Errno::result(unsafe {
                libc::semctl(id, 0, libc::IPC_SET, Argument { status: &raw mut status })
            })?;
        }
        Ok(made)
    }

    #[cfg(test)]
    pub(super) fn id(&self) -> libc::c_int {
        self.id
    }

    fn operate(&self, add: libc::c_short) -> nix::Result<()> {
        let mut operation =
            libc::sembuf { sem_num: 0, sem_op: add, sem_flg: libc::SEM_UNDO as libc::c_short };
        // SAFETY: one operation, which outlives the call.
        Errno::result(unsafe { libc::semop(self.id, &raw mut operation, 1) }).map(drop)
    }
}

impl Lock for Sysvsem {
    fn lock(&self) -> nix::Result<()> {
        self.operate(-1)
    }

    fn unlock(&self) {
        while self.operate(1) == Err(Errno::EINTR) {}
    }
}

impl Drop for Sysvsem {
    fn drop(&mut self) {
        // SAFETY: IPC_RMID takes no argument.
        unsafe { libc::semctl(self.id, 0, libc::IPC_RMID) };
    }
}
