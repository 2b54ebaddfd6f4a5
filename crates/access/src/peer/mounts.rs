//! The list of mounts: proc_pid_mountinfo(5).

/// One mount. Spaces in paths remain escaped, as the kernel writes them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mount<'t> {
    /// The mounted directory of the file system.
    pub(super) root: &'t str,
    /// The mount point.
    pub(super) mount_point: &'t str,
    /// The type of the file system.
    pub(super) kind: &'t str,
    /// The options of the file system, separated by commas.
    pub(super) options: &'t str,
}

/// Returns the mounts of a list. Omits malformed lines.
pub(super) fn mounts(list: &str) -> impl DoubleEndedIterator<Item = Mount<'_>> {
    list.lines().filter_map(|line| {
        let (mount_text, file_system_text) = line.split_once(" - ")?;
        let mut fields = mount_text.split(' ');
        let (root, mount_point) = (fields.nth(3)?, fields.next()?);
        let mut fields = file_system_text.split(' ');
        let (kind, options) = (fields.next()?, fields.next_back()?);
        Some(Mount { root, mount_point, kind, options })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_with_optional_fields_are_parsed() {
        let list = "31 20 0:29 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n\
                    nonsense\n\
                    20 1 0:20 /box /proc rw,nosuid shared:5 master:1 - proc proc rw,hidepid=2\n";
        let mounts: Vec<Mount<'_>> = mounts(list).collect();
        assert_eq!(mounts[0], Mount { root: "/", mount_point: "/sys/fs/cgroup", kind: "tmpfs", options: "rw" });
        assert_eq!(mounts[1..], [Mount { root: "/box", mount_point: "/proc", kind: "proc", options: "rw,hidepid=2" }]);
    }
}
