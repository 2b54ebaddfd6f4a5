//! TCP ports on which processes listen, from proc_pid_net(5) and proc_pid_fd(5).
//!
//! The kernel wakes nobody when a process begins to listen, so a caller that waits for it looks again after a pause.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

/// State of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// A process that listens on a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortOwner {
    /// The process.
    pub pid: i32,
    /// Its name.
    pub name: String,
}

/// Returns the ports on which a process, its descendants and the processes of its session listen. Blocks for some
/// milliseconds.
#[must_use]
pub fn listening_ports(pid: i32) -> BTreeSet<u16> {
    let sockets = listening_sockets();
    let owned = process_tree(pid).into_iter().flat_map(socket_inodes);
    owned.filter_map(|inode| sockets.get(&inode).copied()).collect()
}

/// Returns the process that listens on a port, if this user may see it. Blocks for some milliseconds.
#[must_use]
pub fn owner_of(port: u16) -> Option<PortOwner> {
    let sockets: BTreeSet<u64> =
        listening_sockets().into_iter().filter(|(_, listening)| *listening == port).map(|(inode, _)| inode).collect();
    let pid = processes().find(|pid| socket_inodes(*pid).any(|inode| sockets.contains(&inode)))?;
    let name = fs::read_to_string(format!("/proc/{pid}/comm")).ok()?;
    Some(PortOwner { pid, name: name.trim_end().to_owned() })
}

/// Returns true if `pid` is `ancestor`, descends from it, or belongs to its session.
#[must_use]
pub fn belongs_to(pid: i32, ancestor: i32) -> bool {
    process_tree(ancestor).contains(&pid)
}

/// Returns the port that a message about an address in use names.
#[must_use]
pub fn port_in_use(output: &str) -> Option<u16> {
    let lower = output.to_lowercase();
    let position = ["eaddrinuse", "address already in use", "address in use", "port is already allocated"]
        .iter()
        .filter_map(|text| lower.find(text))
        .min();
    let position = position.or_else(|| lower.find("already in use").filter(|_| lower.contains("port")))?;
    // The port stands in the same line, or in one of the next lines, after a colon or the word. Other numbers are error
    // numbers.
    let begin = lower[..position].rfind('\n').map_or(0, |end| end + 1);
    let end = lower[begin..].match_indices('\n').nth(12).map_or(lower.len(), |(end, _)| begin + end);
    let text = &lower[begin..end];
    let starts = [":", ": ", "port ", "port: "].iter().flat_map(|mark| text.match_indices(mark));
    let mut starts: Vec<usize> = starts.map(|(at, mark)| at + mark.len()).collect();
    starts.sort_unstable();
    starts.into_iter().find_map(|start| {
        let digits = text[start..].split(|sign: char| !sign.is_ascii_digit()).next()?;
        digits.parse().ok().filter(|port: &u16| *port >= 10)
    })
}

/// Returns the ports of the listening sockets of this network, by their inodes.
fn listening_sockets() -> BTreeMap<u64, u16> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].into_iter().filter_map(|file| fs::read_to_string(file).ok());
    tables.flat_map(|table| table.lines().skip(1).filter_map(listening_socket).collect::<Vec<_>>()).collect()
}

/// Reads a line: number, local address, remote address, state, …, and the inode as the tenth field.
fn listening_socket(line: &str) -> Option<(u64, u16)> {
    let fields: Vec<&str> = line.split_whitespace().collect();
    let (_, port) = fields.get(1)?.rsplit_once(':')?;
    let is_listening = *fields.get(3)? == LISTEN;
    let inode = fields.get(9)?.parse().ok()?;
    is_listening.then(|| u16::from_str_radix(port, 16).ok()).flatten().map(|port| (inode, port))
}

fn processes() -> impl Iterator<Item = i32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Returns the inodes of the sockets that a process has open.
fn socket_inodes(pid: i32) -> impl Iterator<Item = u64> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    entries.filter_map(|entry| {
        let target = fs::read_link(entry.path()).ok()?;
        target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()
    })
}

/// Returns a process, its descendants, and the processes of its session.
fn process_tree(root: i32) -> BTreeSet<i32> {
    let parents: Vec<(i32, i32, i32)> =
        processes().filter_map(|pid| family_of(pid).map(|(p, s)| (pid, p, s))).collect();
    let mut tree: BTreeSet<i32> =
        parents.iter().filter(|(pid, _, session)| *pid == root || *session == root).map(|(pid, ..)| *pid).collect();
    loop {
        let found: Vec<i32> = parents
            .iter()
            .filter(|(pid, parent, _)| tree.contains(parent) && !tree.contains(pid))
            .map(|(pid, ..)| *pid)
            .collect();
        if found.is_empty() {
            return tree;
        }
        tree.extend(found);
    }
}

/// Returns the parent and the session of a process: the fields 4 and 6 of proc_pid_stat(5), after the name in
/// parentheses.
fn family_of(pid: i32) -> Option<(i32, i32)> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    Some((fields.get(1)?.parse().ok()?, fields.get(3)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn own_listening_port_is_found_with_its_owner() {
        let own = i32::try_from(std::process::id()).unwrap();
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let port = listener.local_addr().unwrap().port();
            assert!(listening_ports(own).contains(&port), "{address}");
            assert_eq!(owner_of(port).unwrap().pid, own);
            assert!(belongs_to(own, own));
            drop(listener);
            assert!(!listening_ports(own).contains(&port));
        }
    }

    #[test]
    fn ports_of_messages_are_found() {
        for (output, port) in [
            ("Error: listen EADDRINUSE: address already in use :::3000\n    at Server.setupListenHandle", Some(3000)),
            ("Error: listen EADDRINUSE: address already in use 127.0.0.1:5173", Some(5173)),
            ("OSError: [Errno 98] Address already in use\n", None),
            ("error: Port 5173 is already in use", Some(5173)),
            ("bind() to 0.0.0.0:80 failed (98: Address already in use)", Some(80)),
            (
                "LOG:  could not bind IPv4 address \"127.0.0.1\": Address already in use\nHINT:  Is another postmaster already running on port 5432?",
                Some(5432),
            ),
            ("listening on :3000", None),
            ("", None),
        ] {
            assert_eq!(port_in_use(output), port, "{output}");
        }
    }
}
