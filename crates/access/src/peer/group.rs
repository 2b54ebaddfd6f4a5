//! The cgroup of a daemon and its descendants, see cgroups(7).
//!
//! A process is in the cgroup of its parent, at any depth of forks, even after the ends of the parents, and regardless
//! of its environment. A process that outlives its terminal, the terminal host and the daemon can therefore still be
//! attributed to them. Creating cgroups requires root, or a cgroup that systemd delegates to the user.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::mounts::mounts;

/// Name of the cgroup of every daemon.
const CGROUP_NAME: &str = "steplatch-kept";

/// Moves this process, and so its future children, into the cgroup. Does nothing if the process is already in such a
/// cgroup.
///
/// # Errors
/// If cgroup v2 is not available, or the user may not create a cgroup.
pub fn join() -> io::Result<()> {
    let current_groups = fs::read_to_string("/proc/self/cgroup")?;
    if is_daemon_group(&current_groups) {
        return Ok(());
    }
    let unsupported = || io::Error::new(io::ErrorKind::Unsupported, "cgroup v2 is not available");
    let group = cgroup_v2_path(&current_groups).ok_or_else(unsupported)?;
    let directory = cgroup_directory(group, &fs::read_to_string("/proc/self/mountinfo")?)
        .ok_or_else(unsupported)?
        .join(CGROUP_NAME);
    match fs::create_dir(&directory) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::write(directory.join("cgroup.procs"), "0")
}

/// Returns whether `/proc/PID/cgroup` (`groups`) names the cgroup of a daemon.
pub(super) fn is_daemon_group(groups: &str) -> bool {
    let is_match =
        |line: &str| cgroup_v2_path(line).is_some_and(|group| Path::new(group).iter().any(|part| part == CGROUP_NAME));
    groups.lines().any(is_match)
}

/// Returns the cgroup v2 path in the text of `/proc/PID/cgroup`.
fn cgroup_v2_path(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Returns the directory of a cgroup, from the text of `/proc/PID/mountinfo`.
fn cgroup_directory(group: &str, list: &str) -> Option<PathBuf> {
    mounts(list).filter(|mount| mount.kind == "cgroup2").find_map(|mount| {
        let relative = Path::new(group).strip_prefix(mount.root).ok()?;
        Some(Path::new(mount.mount_point).join(relative))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_is_recognised_by_any_part_of_its_group() {
        assert!(is_daemon_group("4:memory:/x\n0::/user.slice/app.scope/steplatch-kept\n"));
        assert!(is_daemon_group("0::/steplatch-kept/below\n"));
        assert!(!is_daemon_group("0::/user.slice/steplatch-kept-not\n1:name=systemd:/steplatch-kept\n"));
    }

    #[test]
    fn group_directory_is_at_its_mount_point() {
        let mounts = "31 20 0:29 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup_directory("/user.slice/a", mounts), Some("/sys/fs/cgroup/unified/user.slice/a".into()));
        let relative = "41 31 0:38 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(cgroup_directory("/box/a", relative), Some("/sys/fs/cgroup/a".into()));
        assert_eq!(cgroup_directory("/other", relative), None);
        assert_eq!(cgroup_directory("/a", "31 20 0:29 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"), None);
    }
}
