//! Checks of this computer: the program, directories, free space and shells.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use steplatch_protocol::DaemonPaths;

use super::{Checks, State};
use crate::clients::UserPaths;
use crate::clients::entry::{NAME, OwnEntry, is_same_file};
use crate::print;

/// Maximum length of a socket's path: `sun_path` without its terminating zero, see unix(7).
const MAX_SOCKET_PATH_BYTES: usize = 107;

/// Minimum free space without a warning. With less, the disk of the journal may soon be full.
const LOW_SPACE_BYTES: u64 = 512 << 20;

/// Minimum free space for recording runs in the journal.
const MIN_SPACE_BYTES: u64 = 16 << 20;

/// Shells with an integration that reports prompts and exit codes.
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

pub(super) fn check_computer(user_paths: &UserPaths, own_entry: &OwnEntry, daemon_paths: &DaemonPaths) -> Checks {
    let mut checks = Checks::for_section("This computer");
    check_program(&mut checks, user_paths, own_entry);
    check_directory(&mut checks, "state", daemon_paths.state(), user_paths);
    check_directory(&mut checks, "runtime", daemon_paths.runtime(), user_paths);
    check_socket_path(&mut checks, daemon_paths);
    check_free_space(&mut checks, daemon_paths.state(), user_paths);
    check_shells(&mut checks, user_paths);
    checks
}

fn check_program(checks: &mut Checks, user_paths: &UserPaths, own_entry: &OwnEntry) {
    let version = env!("CARGO_PKG_VERSION");
    let path = user_paths.display_path(&own_entry.program);
    match user_paths.find(NAME) {
        Some(found) if is_same_file(&found, &own_entry.program) => {
            checks.add_good("program", format!("version {version}, {path}, found in PATH"));
        }
        Some(other) => {
            let message =
                format!("version {version}, {path}; PATH has another one first: {}", user_paths.display_path(&other));
            checks.add_warning(
                "program",
                message,
                "remove the other one, or put the directory of this one before it in PATH",
            );
        }
        None => {
            let directory = own_entry.program.parent().unwrap_or(Path::new("/"));
            let message = format!("version {version}, {path}; not found in PATH");
            checks.add_warning(
                "program",
                message,
                format!("add its directory to PATH: export PATH=\"$PATH:{}\"", directory.display()),
            );
        }
    }
}

fn check_directory(checks: &mut Checks, label: &str, directory: &Path, user_paths: &UserPaths) {
    let path = user_paths.display_path(directory);
    let metadata = match directory.symlink_metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return checks.add_good(label, format!("{path}, created on first use"));
        }
        Err(error) => {
            let fix = "check the permissions of the directories above it";
            return checks.add_problem(label, format!("failed to read {path}: {error}"), fix);
        }
        Ok(metadata) => metadata,
    };
    if !metadata.is_dir() {
        let fix = format!("move it out of the way: mv '{0}' '{0}.old'", directory.display());
        return checks.add_problem(label, format!("{path} is not a directory"), fix);
    }
    let user = rustix::process::getuid().as_raw();
    if metadata.uid() != user {
        let message = format!("{path} belongs to user {}, not to you ({user})", metadata.uid());
        return checks.add_problem(
            label,
            message,
            "remove it, or choose another directory with STEPLATCH_STATE_DIR or XDG_RUNTIME_DIR",
        );
    }
    if rustix::fs::access(directory, rustix::fs::Access::WRITE_OK).is_err() {
        let fix = format!("make it writable with: chmod u+rwx '{}'", directory.display());
        return checks.add_problem(label, format!("{path} is not writable"), fix);
    }
    if metadata.mode() & 0o077 != 0 {
        let message = format!("other users can access {path} until the daemon starts again");
        return checks.add_warning(
            label,
            message,
            format!("restrict access now with: chmod 700 '{}'", directory.display()),
        );
    }
    checks.add_good(label, format!("{path}, private"));
}

fn check_socket_path(checks: &mut Checks, daemon_paths: &DaemonPaths) {
    let length = daemon_paths.socket().as_os_str().len();
    if length > MAX_SOCKET_PATH_BYTES {
        let message = format!(
            "its path has {length} bytes, more than the limit of {MAX_SOCKET_PATH_BYTES}: {}",
            daemon_paths.socket().display()
        );
        checks.add_problem("socket", message, "set XDG_RUNTIME_DIR to a directory with a shorter path");
    } else {
        checks.add_good("socket", format!("its path has {length} of {MAX_SOCKET_PATH_BYTES} bytes"));
    }
}

fn check_free_space(checks: &mut Checks, directory: &Path, user_paths: &UserPaths) {
    let existing = directory.ancestors().find(|directory| directory.is_dir()).unwrap_or(Path::new("/"));
    let free = match rustix::fs::statvfs(existing) {
        Ok(usage) => usage.f_bavail.saturating_mul(usage.f_frsize),
        Err(error) => {
            let message =
                format!("failed to read the free disk space in {}: {error}", user_paths.display_path(existing));
            return checks.add("disk", State::Warning, message, None);
        }
    };
    let message = format!("{} free for the journal of runs", print::size(free));
    let fix = format!("free disk space in {}", user_paths.display_path(existing));
    match free {
        0..MIN_SPACE_BYTES => checks.add_problem("disk", message, fix),
        MIN_SPACE_BYTES..LOW_SPACE_BYTES => checks.add_warning("disk", message, fix),
        _ => checks.add_good("disk", message),
    }
}

fn check_shells(checks: &mut Checks, user_paths: &UserPaths) {
    let shells: Vec<&str> = SHELLS.into_iter().filter(|shell| user_paths.find(shell).is_some()).collect();
    if shells.is_empty() {
        let message = "bash, zsh and fish are missing; other shells do not report prompts and exit codes";
        checks.add_warning("shells", message, "install bash, or add its directory to PATH");
    } else {
        checks.add_good("shells", shells.join(", "));
    }
}
