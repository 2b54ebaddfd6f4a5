//! The local processes at the other end of a TCP connection.
//!
//! The daemon sees a network client as the server process that serves it. If the client is on this computer, at any
//! address, `/proc/net/tcp` has its socket (proc_pid_net(5)), and the descriptors of processes show its owner.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::{fs, io};

/// States of sockets that are not an end of a connection, in the kernel's format: TIME_WAIT and LISTEN.
const UNUSED_STATES: [&str; 2] = ["06", "0A"];

/// Location of the other end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Location<T> {
    /// On this computer. Empty if the processes are unknown.
    Here(T),
    /// On another computer, or in another network namespace of this one.
    Elsewhere,
}

/// Returns the processes that have a connected socket with this address. Blocks while it reads every descriptor of
/// every readable process.
///
/// Several sockets can share one address, each with a different peer. All of them count: if one belongs to no readable
/// process (its descriptor may be in transit through a Unix socket), the result is empty. The result is also empty if
/// reading the tables fails.
pub(super) fn processes_at(peer: SocketAddr) -> Location<Vec<i32>> {
    let unknown = Location::Here(Vec::new());
    let tables: io::Result<String> = ["/proc/self/net/tcp", "/proc/self/net/tcp6"].iter().map(read_table).collect();
    let Ok(tables) = tables else { return unknown };
    let sockets = sockets_at(&tables, peer);
    if sockets.is_empty() {
        return if is_local_address(peer) { unknown } else { Location::Elsewhere };
    }
    let mut missing: HashSet<String> = sockets.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let sockets = missing.clone();
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let mut owners = Vec::new();
    for process in ids {
        let descriptors = fs::read_dir(format!("/proc/{process}/fd")).into_iter().flatten().flatten();
        let targets =
            descriptors.filter_map(|entry| fs::read_link(entry.path()).ok()?.into_os_string().into_string().ok());
        let owned: Vec<String> = targets.filter(|target| sockets.contains(target)).collect();
        if !owned.is_empty() {
            missing.retain(|socket| !owned.contains(socket));
            owners.push(process);
        }
    }
    if missing.is_empty() { Location::Here(owners) } else { unknown }
}

/// Reads a table of sockets. A computer without IPv6 has no table for it.
fn read_table(table: &&str) -> io::Result<String> {
    match fs::read_to_string(table) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        result => result,
    }
}

/// Returns whether an address may be local. A socket cannot bind to an address of another computer, and only the error
/// `EADDRNOTAVAIL` proves that.
fn is_local_address(address: SocketAddr) -> bool {
    let mut any_port = address;
    // A link-local address includes the scope of its link.
    any_port.set_port(0);
    if let IpAddr::V4(canonical) = address.ip().to_canonical() {
        any_port.set_ip(canonical.into());
    }
    let is_foreign = |error: &io::Error| error.kind() == io::ErrorKind::AddrNotAvailable;
    any_port.ip().is_loopback() || UdpSocket::bind(any_port).as_ref().err().is_none_or(|error| !is_foreign(error))
}

/// Returns the inodes of the connected sockets with this address, from the kernel's tables.
fn sockets_at(tables: &str, peer: SocketAddr) -> HashSet<&str> {
    let addresses = [to_kernel_format(peer.ip().to_canonical()), to_kernel_format(to_ipv6_form(peer.ip()))];
    let addresses = addresses.map(|address| format!("{address}:{:04X}", peer.port()));
    let matching_inode = |line| {
        let fields: Vec<&str> = str::split_whitespace(line).collect();
        let (local, state, inode) = (fields.get(1)?, fields.get(3)?, fields.get(9)?);
        (addresses.iter().any(|address| address == local) && !UNUSED_STATES.contains(state)).then_some(*inode)
    };
    // A socket that was closed before it sent everything has the inode 0, and no process has that inode.
    tables.lines().filter_map(matching_inode).collect()
}

/// Returns an IPv4 address in its IPv6 form.
fn to_ipv6_form(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => IpAddr::V6(address.to_ipv6_mapped()),
        address @ IpAddr::V6(_) => address,
    }
}

/// Returns an address in the kernel's format: 32-bit words as numbers in native byte order.
fn to_kernel_format(address: IpAddr) -> String {
    let to_hex = |octets: &[u8]| -> String {
        let words = octets.chunks_exact(4).map(|word| u32::from_ne_bytes([word[0], word[1], word[2], word[3]]));
        words.map(|word| format!("{word:08X}")).collect()
    };
    match address {
        IpAddr::V4(address) => to_hex(&address.octets()),
        IpAddr::V6(address) => to_hex(&address.octets()),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn sockets_are_found_by_local_address() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1EC6 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 111 1\n\
             1: 0100007F:CF2A 0100007F:1EC6 01 00000000:00000000 00:00000000 00000000  1000        0 222 1\n\
             2: 0100007F:1EC6 0100007F:CF2A 01 00000000:00000000 00:00000000 00000000  1000        0 333 1\n\
             3: 0100007F:CF2A 0100007F:1EC7 06 00000000:00000000 00:00000000 00000000     0        0 0 3\n\
             5: 0100007F:CF2B 0100007F:1EC6 08 00000000:00000000 00:00000000 00000000  1000        0 555 1\n\
             4: 0000000000000000FFFF00000200A8C0:CF2A 0000000000000000FFFF00000100007F:1EC6 01 0:0 00:0 0 0 0 444 1\n";
        let inodes_at = |address: &str| sockets_at(table, address.parse().unwrap());
        assert_eq!(inodes_at("127.0.0.1:53034"), HashSet::from(["222"]));
        assert_eq!(inodes_at("[::ffff:127.0.0.1]:53034"), HashSet::from(["222"]));
        assert_eq!(inodes_at("127.0.0.1:53035"), HashSet::from(["555"]), "a socket that is half closed can still send");
        assert_eq!(inodes_at("127.0.0.1:7878"), HashSet::from(["333"]), "a listening socket is not a peer");
        assert_eq!(inodes_at("192.168.0.2:53034"), HashSet::from(["444"]));
        assert_eq!(inodes_at("192.168.0.3:53034"), HashSet::new(), "the address of another computer has no socket");
    }

    #[test]
    fn own_process_is_found_at_any_loopback_address() {
        let own_pid = i32::try_from(std::process::id()).unwrap();
        for address in ["127.0.0.1:0", "127.0.0.9:0", "[::1]:0"] {
            // The computer may not have IPv6.
            let Ok(listener) = TcpListener::bind(address) else { continue };
            let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
            let (_server, peer) = listener.accept().unwrap();
            let location = processes_at(peer);
            // A process started by another test shares this process's sockets until its exec.
            assert!(matches!(&location, Location::Here(all) if all.contains(&own_pid)), "{location:?}");
            drop(client);
        }
    }

    #[test]
    fn local_address_without_socket_has_unknown_processes() {
        assert_eq!(processes_at("127.0.0.1:1".parse().unwrap()), Location::Here(Vec::new()));
        // TEST-NET-3 (RFC 5737) is assigned to no computer.
        assert_eq!(processes_at("203.0.113.7:4711".parse().unwrap()), Location::Elsewhere);
    }
}
