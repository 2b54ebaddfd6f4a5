//! The control group of a daemon and of everything that it starts, see cgroups(7).
//!
//! A process is in the group of the process that started it, at any depth of forks, whether or not its parents live,
//! and whatever its environment. So a process that outlives its terminal, the terminal's host and the daemon remains
//! attributable to them. Making groups is possible where systemd delegates its own group to the user, and for root.

use std::path::{Path, PathBuf};
use std::{fs, io};

use super::mounts::mounts;

/// The name of the group of every daemon.
const NAME: &str = "steplatch-kept";

/// Moves this process into the group, and what it starts from now on. Does nothing if it is in one already.
///
/// # Errors
/// If this system has no groups of version 2, or the user may not make one.
pub fn join() -> io::Result<()> {
    let own = fs::read_to_string("/proc/self/cgroup")?;
    if is_of_ours(&own) {
        return Ok(());
    }
    let none = || io::Error::new(io::ErrorKind::Unsupported, "there are no control groups of version 2");
    let group = group_of(&own).ok_or_else(none)?;
    let folder = folder_of(group, &fs::read_to_string("/proc/self/mountinfo")?).ok_or_else(none)?.join(NAME);
    match fs::create_dir(&folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    fs::write(folder.join("cgroup.procs"), "0")
}

/// Returns whether a process is in the group of a daemon, by its list of groups.
pub(super) fn is_of_ours(groups: &str) -> bool {
    let of_line = |line: &str| group_of(line).is_some_and(|group| Path::new(group).iter().any(|part| part == NAME));
    groups.lines().any(of_line)
}

/// Returns the group of version 2 in a list of groups.
fn group_of(groups: &str) -> Option<&str> {
    groups.lines().find_map(|line| line.strip_prefix("0::"))
}

/// Returns the directory of a group, from the list of mounts.
fn folder_of(group: &str, list: &str) -> Option<PathBuf> {
    mounts(list).filter(|mount| mount.kind == "cgroup2").find_map(|mount| {
        let below = Path::new(group).strip_prefix(mount.root).ok()?;
        Some(Path::new(mount.at).join(below))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_ours_is_known_by_any_part_of_its_group() {
        assert!(is_of_ours("4:memory:/x\n0::/user.slice/app.scope/steplatch-kept\n"));
        assert!(is_of_ours("0::/steplatch-kept/below\n"));
        assert!(!is_of_ours("0::/user.slice/steplatch-kept-not\n1:name=systemd:/steplatch-kept\n"));
    }

    #[test]
    fn the_folder_of_a_group_is_where_its_hierarchy_is_mounted() {
        let mounts = "31 20 0:29 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                      41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:9 - cgroup2 cgroup2 rw\n";
        assert_eq!(folder_of("/user.slice/a", mounts), Some("/sys/fs/cgroup/unified/user.slice/a".into()));
        let below = "41 31 0:38 /box /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        assert_eq!(folder_of("/box/a", below), Some("/sys/fs/cgroup/a".into()));
        assert_eq!(folder_of("/other", below), None);
        assert_eq!(folder_of("/a", "31 20 0:29 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n"), None);
    }
}
