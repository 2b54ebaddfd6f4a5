//! Checks of this machine: the program, directories, free space and shells.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use steplatch_protocol::DaemonPaths;

use super::{Checks, State};
use crate::clients::UserPaths;
use crate::clients::entry::{NAME, OwnEntry, is_same};
use crate::print;

/// Maximum length of a socket's path, in bytes: `sun_path` without its end, see unix(7).
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Free bytes below which the journal may soon be unable to record runs.
const TIGHT: u64 = 512 << 20;

/// Free bytes below which the journal cannot record runs.
const FULL: u64 = 16 << 20;

/// Shells with known prompts and exit codes.
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

pub(super) fn look(around: &UserPaths, ours: &OwnEntry, place: &DaemonPaths) -> Checks {
    let mut checks = Checks::for_section("This machine");
    program(&mut checks, around, ours);
    folder(&mut checks, "state", place.state(), around);
    folder(&mut checks, "runtime", place.runtime(), around);
    socket(&mut checks, place);
    disk(&mut checks, place.state(), around);
    shells(&mut checks, around);
    checks
}

fn program(checks: &mut Checks, around: &UserPaths, ours: &OwnEntry) {
    let version = env!("CARGO_PKG_VERSION");
    let shown = around.display_path(&ours.program);
    match around.find(NAME) {
        Some(found) if is_same(&found, &ours.program) => {
            checks.good("program", format!("version {version}, {shown}, found by its name"));
        }
        Some(other) => {
            let said = format!(
                "version {version}, {shown}; by its name another one is found: {}",
                around.display_path(&other)
            );
            checks.warn("program", said, "remove the other one, or move its directory behind this one in PATH");
        }
        None => {
            let folder = ours.program.parent().unwrap_or(Path::new("/"));
            let said = format!("version {version}, {shown}; not found by its name");
            checks.warn(
                "program",
                said,
                format!("add its directory to PATH: export PATH=\"$PATH:{}\"", folder.display()),
            );
        }
    }
}

fn folder(checks: &mut Checks, about: &str, folder: &Path, around: &UserPaths) {
    let shown = around.display_path(folder);
    let found = match folder.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return checks.good(about, format!("{shown}, created at the first use"));
        }
        Err(error) => {
            let fix = "check the permissions of the directories above it";
            return checks.problem(about, format!("{shown} cannot be read: {error}"), fix);
        }
        Ok(found) => found,
    };
    if !found.is_dir() {
        let fix = format!("move it out of the way: mv '{0}' '{0}.old'", folder.display());
        return checks.problem(about, format!("{shown} is not a directory"), fix);
    }
    let own = rustix::process::getuid().as_raw();
    if found.uid() != own {
        let said = format!("{shown} belongs to user {}, not to you ({own})", found.uid());
        return checks.problem(about, said, "remove it, or set another one: STEPLATCH_STATE_DIR, XDG_RUNTIME_DIR");
    }
    if rustix::fs::access(folder, rustix::fs::Access::WRITE_OK).is_err() {
        let fix = format!("allow it with: chmod u+rwx '{}'", folder.display());
        return checks.problem(about, format!("{shown} cannot be written"), fix);
    }
    if found.mode() & 0o077 != 0 {
        let said = format!("other users can enter {shown} until the next start of the daemon");
        return checks.warn(about, said, format!("close it now with: chmod 700 '{}'", folder.display()));
    }
    checks.good(about, format!("{shown}, private"));
}

fn socket(checks: &mut Checks, place: &DaemonPaths) {
    let length = place.socket().as_os_str().len();
    if length > MAX_SOCKET_PATH_BYTES {
        let said = format!(
            "its path has {length} bytes, more than the limit of {MAX_SOCKET_PATH_BYTES}: {}",
            place.socket().display()
        );
        checks.problem("socket", said, "set XDG_RUNTIME_DIR to a directory with a shorter path");
    } else {
        checks.good("socket", format!("its path has {length} of {MAX_SOCKET_PATH_BYTES} bytes"));
    }
}

fn disk(checks: &mut Checks, folder: &Path, around: &UserPaths) {
    let existing = folder.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"));
    let free = match rustix::fs::statvfs(existing) {
        Ok(about) => about.f_bavail.saturating_mul(about.f_frsize),
        Err(error) => {
            let said = format!("the free disk space in {} is not known: {error}", around.display_path(existing));
            return checks.add("disk", State::Warning, said, None);
        }
    };
    let said = format!("{} free for the journal of runs", print::size(free));
    let fix = format!("free disk space in {}", around.display_path(existing));
    match free {
        0..FULL => checks.problem("disk", said, fix),
        FULL..TIGHT => checks.warn("disk", said, fix),
        _ => checks.good("disk", said),
    }
}

fn shells(checks: &mut Checks, around: &UserPaths) {
    let found: Vec<&str> = SHELLS.into_iter().filter(|shell| around.find(shell).is_some()).collect();
    if found.is_empty() {
        let said = "bash, zsh and fish are missing; other shells work without marks for prompts and exit codes";
        checks.warn("shells", said, "install bash, or add its directory to PATH");
    } else {
        checks.good("shells", found.join(", "));
    }
}
