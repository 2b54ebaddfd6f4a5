//! Which processes of this machine are at the other end of a connection of TCP.
//!
//! Somebody who is served over the network is seen by the daemon as the server. Where they are on this machine, the kernel knows
//! who they are: `/proc/net/tcp` has the sockets (proc_pid_net(5)), and the descriptors of processes say whose they are.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;

/// The state of a socket that is connected, as the kernel writes it.
const ESTABLISHED: &str = "01";

/// Returns the processes that have a connected socket at this port of a loopback address. Blocks for a look at every
/// descriptor of every process that may be looked at.
pub(crate) fn processes_at(peer: SocketAddr) -> Vec<i32> {
    let tables = ["/proc/self/net/tcp", "/proc/self/net/tcp6"];
    let tables: String = tables.iter().filter_map(|table| fs::read_to_string(table).ok()).collect();
    let sockets = sockets_at(&tables, peer.port());
    if sockets.is_empty() {
        return Vec::new();
    }
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let has_one = |process: &i32| {
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()).any(|target| {
            target.to_str().is_some_and(|target| sockets.iter().any(|inode| target == format!("socket:[{inode}]")))
        })
    };
    ids.filter(has_one).collect()
}

/// Returns the inodes of the connected sockets at this port, in tables as the kernel writes them.
fn sockets_at(tables: &str, port: u16) -> HashSet<&str> {
    let wanted = format!(":{port:04X}");
    let of_line = |line| {
        let fields: Vec<&str> = str::split_whitespace(line).collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        (local.ends_with(&wanted) && *state == ESTABLISHED && *inode != "0").then_some(*inode)
    };
    tables.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn a_line_of_the_kernel_is_read_by_the_port_on_its_own_side() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1EC6 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 111 1\n\
             1: 0100007F:CF2A 0100007F:1EC6 01 00000000:00000000 00:00000000 00000000  1000        0 222 1\n\
             2: 0100007F:1EC6 0100007F:CF2A 01 00000000:00000000 00:00000000 00000000  1000        0 333 1\n\
             3: 0100007F:CF2A 0100007F:1EC7 06 00000000:00000000 00:00000000 00000000     0        0 0 3\n";
        assert_eq!(sockets_at(table, 0xCF2A), HashSet::from(["222"]));
        assert_eq!(sockets_at(table, 0x1EC6), HashSet::from(["333"]), "one that only listens is nobody's other end");
        assert_eq!(sockets_at(table, 1), HashSet::new());
    }

    #[test]
    fn this_process_is_found_at_the_other_end() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (_server, peer) = listener.accept().unwrap();
        let us = i32::try_from(std::process::id()).unwrap();
        assert_eq!(processes_at(peer), [us]);
        drop(client);
    }
}
