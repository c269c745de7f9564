//! User and Group: whom children run as when the server is started as root.

use mpmlab_core::server::Server;
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{Gid, Group, Uid, User, getuid, initgroups, setgid, setuid};
use std::ffi::CString;

/// Accounts tried in order when `User` is not set: Debian's for web servers, then the one for nobody.
const USUAL: [&str; 2] = ["www-data", "nobody"];

/// The account that children switch to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Account {
    /// Its name, for messages.
    pub name: String,
    pub(super) uid: Uid,
    pub(super) gid: Gid,
    chosen: bool,
}

/// Why children cannot run as configured.
#[derive(Debug, thiserror::Error)]
pub enum AccountError {
    /// No such user or group.
    #[error("{directive} '{name}': there is no such account; name one that exists")]
    Unknown {
        /// `User` or `Group`.
        directive: &'static str,
        /// As configured.
        name: String,
    },
    /// No account to fall back to.
    #[error(
        "started as root, but there is neither 'www-data' nor 'nobody' to run as; choose with -c \"User NAME\""
    )]
    None,
    /// The account cannot read the document root.
    #[error(
        "DocumentRoot '{root}': user '{name}', whom children run as when started as root, cannot read it; {advice}"
    )]
    Root {
        /// The document root.
        root: String,
        /// The account.
        name: String,
        /// What to do.
        advice: &'static str,
    },
}

/// The account for this configuration; `None` when not started as root: then nothing changes hands.
///
/// # Errors
/// There is no such account. Whether it can read the document root is for [`check`] to say.
pub fn choose(server: &Server) -> Result<Option<Account>, AccountError> {
    if !getuid().is_root() {
        return Ok(None);
    }
    let config = &server.config;
    let user = match &config.user {
        Some(name) => {
            find_user(name).ok_or_else(|| AccountError::Unknown { directive: "User", name: name.clone() })?
        }
        None => USUAL.iter().find_map(|name| find_user(name)).ok_or(AccountError::None)?,
    };
    let gid = match &config.group {
        None => user.gid,
        Some(name) => find_group(name)
            .ok_or_else(|| AccountError::Unknown { directive: "Group", name: name.clone() })?,
    };
    Ok(Some(Account { name: user.name, uid: user.uid, gid, chosen: config.user.is_some() }))
}

/// Can the account read the document root?
///
/// # Errors
/// It cannot.
pub fn check(account: Option<&Account>, server: &Server) -> Result<(), AccountError> {
    let Some(account) = account else { return Ok(()) };
    if account.uid.is_root() || can_read(account, server) {
        return Ok(());
    }
    Err(AccountError::Root {
        root: server.root.display().to_string(),
        name: account.name.clone(),
        advice: if account.chosen {
            "give it permission, or name another with User"
        } else {
            "give it permission, or choose another with -c \"User NAME\" (\"User root\" is allowed)"
        },
    })
}

/// `#1000` is a number, as in Apache; anything else is a name.
fn find_user(name: &str) -> Option<User> {
    match name.strip_prefix('#') {
        Some(number) => User::from_uid(Uid::from_raw(number.parse().ok()?)).ok()?,
        None => User::from_name(name).ok()?,
    }
}

fn find_group(name: &str) -> Option<Gid> {
    match name.strip_prefix('#') {
        Some(number) => Some(Gid::from_raw(number.parse().ok()?)),
        None => Group::from_name(name).ok()?.map(|group| group.gid),
    }
}

/// Tries it in a process that has already switched: permission bits on every directory of the path, access lists and
/// security modules all have their say that way.
fn can_read(account: &Account, server: &Server) -> bool {
    let probe = super::fork::spawn(|| {
        let readable = become_account(account).is_ok() && std::fs::read_dir(&server.root).is_ok();
        if readable { crate::ExitReason::Finished } else { crate::ExitReason::Fatal }
    });
    matches!(probe.and_then(|pid| waitpid(pid, None)), Ok(WaitStatus::Exited(_, 0)))
}

/// Switches this process to the account for good: supplementary groups, group, user.
///
/// # Errors
/// The kernel refuses.
pub fn become_account(account: &Account) -> nix::Result<()> {
    if account.uid.is_root() {
        return Ok(());
    }
    let name = CString::new(account.name.as_str()).map_err(|_| nix::errno::Errno::EINVAL)?;
    setgid(account.gid)?;
    initgroups(&name, account.gid)?;
    setuid(account.uid)
}
