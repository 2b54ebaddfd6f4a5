//! State of a process in the kernel: its name, working directory, program, and current system call.
//!
//! Every function reads `/proc` (proc(5)) without a cache. It returns `None` for a process that has exited or cannot be
//! inspected.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

/// Returns the name of a process.
pub(crate) fn process_name(pid: i32) -> Option<String> {
    let name = fs::read(format!("/proc/{pid}/comm")).ok()?;
    Some(String::from_utf8_lossy(name.trim_ascii_end()).into_owned())
}

/// Returns the effective users of the programs of a group, each once. A process that has just exited has none.
pub(crate) fn group_owners(session: i32, group: i32) -> Vec<u32> {
    let owner = |pid: i32| Some(fs::metadata(format!("/proc/{pid}")).ok()?.uid());
    let mut owners: Vec<u32> = group_members(session, group).into_iter().filter_map(owner).collect();
    owners.sort_unstable();
    owners.dedup();
    owners
}

/// Returns the name of the file that a process executes.
pub(crate) fn executable_name(pid: i32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/exe")).ok()?;
    Some(path.file_name()?.to_string_lossy().into_owned())
}

/// Returns the name of the foreground program: of the first process of its group, or of another member if the first
/// process has exited. `session` is the terminal's own program.
pub(crate) fn group_name(session: i32, group: i32) -> Option<String> {
    process_name(group).or_else(|| group_members(session, group).first().and_then(|pid| process_name(*pid)))
}

/// Returns the last program in a group that reads the terminal `device`, with its name: an editor rather than the program
/// that started the editor. `None` without a known reader.
pub(crate) fn group_reader(session: i32, group: i32, device: &Path, reads_single_keys: bool) -> Option<(i32, String)> {
    let reads = |pid: &i32| wait_channel(*pid, device).awaits_input(reads_single_keys);
    let reader = group_members(session, group).into_iter().rev().find(reads)?;
    Some((reader, process_name(reader)?))
}

/// Maximum length of a command line that is read, in bytes.
const MAX_COMMAND_LINE_BYTES: usize = 4_096;

/// Returns the beginnings of the command lines of the processes in a group, or of one of them.
pub(crate) fn group_arguments(session: i32, group: i32, only: Option<i32>) -> Vec<Vec<String>> {
    let arguments = |pid: i32| {
        let mut line = vec![0; MAX_COMMAND_LINE_BYTES];
        let length = File::open(format!("/proc/{pid}/cmdline")).ok()?.read_at(&mut line, 0).ok()?;
        let words = line[..length].split(|byte| *byte == 0).filter(|word| !word.is_empty());
        Some(words.map(|word| String::from_utf8_lossy(word).into_owned()).collect())
    };
    let members = only.map_or_else(|| group_members(session, group), |pid| vec![pid]);
    members.into_iter().filter_map(arguments).collect()
}

/// Returns the working directory of a process, if it exists.
pub(crate) fn working_directory(pid: i32) -> Option<String> {
    let path = fs::read_link(format!("/proc/{pid}/cwd")).ok()?;
    let path = path.to_string_lossy().into_owned();
    (!path.ends_with(" (deleted)")).then_some(path)
}

/// Returns whether a process has a handler for a signal, so that the signal does not end it.
pub(crate) fn has_signal_handler(pid: i32, signal: i32) -> Option<bool> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let mask = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    let mask = u64::from_str_radix(mask.trim(), 16).ok()?;
    Some(mask >> (signal - 1) & 1 == 1)
}

/// Identity of the program that a process runs. It changes when the process executes another program.
///
/// The addresses of code, stack, arguments and environment identify the program: the kernel chooses new addresses at
/// every execve(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessImage([u64; 4]);

impl ProcessImage {
    /// Returns the image of a process. Fields of proc_pid_stat(5), counted from 1: startcode, startstack,
    /// arg_start, env_end.
    pub(crate) fn read(pid: i32) -> Option<Self> {
        const FIELDS: [usize; 4] = [26, 28, 48, 51];
        let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        // The second field is a name in parentheses. The name may contain spaces and parentheses.
        let (_, after_name) = line.rsplit_once(')')?;
        let fields: Vec<&str> = after_name.split_ascii_whitespace().collect();
        // An exited process runs no program.
        if matches!(fields.first(), None | Some(&"Z" | &"X")) {
            return None;
        }
        let mut layout = [0; 4];
        for (value, field) in layout.iter_mut().zip(FIELDS) {
            *value = fields.get(field - 3)?.parse().ok()?;
        }
        // A process that is exiting runs no program either.
        if layout[1] == 0 {
            return None;
        }
        Some(Self(layout))
    }
}

/// State of a foreground program with regard to typed input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InputState {
    /// The process waits for input.
    Awaits,
    /// The process is busy.
    Works,
    /// The process forwards input to a remote host or terminal, whose state is not visible.
    Relays,
    /// Unknown: a process waits for events that may include terminal input.
    Unknown,
}

impl InputState {
    /// Returns whether the program waits for input; `None` if unknown.
    pub(crate) fn awaits(self) -> Option<bool> {
        match self {
            Self::Awaits => Some(true),
            Self::Works => Some(false),
            Self::Relays | Self::Unknown => None,
        }
    }
}

/// Programs that forward typed input to a program on a remote host or terminal.
const RELAYS: &[&str] = &[
    "abduco",
    "apt",
    "apt-get",
    "aptitude",
    "autossh",
    "cu",
    "docker",
    "dtach",
    "kubectl",
    "lxc",
    "lxc-attach",
    "machinectl",
    "minicom",
    "mosh-client",
    "nerdctl",
    "picocom",
    "plink",
    "podman",
    "runuser",
    "screen",
    "script",
    "ssh",
    "sshpass",
    "socat",
    "su",
    "sudo",
    "systemd-run",
    "telnet",
    "tio",
    "tmux: client",
    "unbuffer",
    "zellij",
];

/// Relays that poll for input during the remote command, even if the command reads no input.
const POLLING_RELAYS: &[&str] =
    &["autossh", "docker", "kubectl", "nerdctl", "plink", "podman", "socat", "ssh", "sshpass"];

/// Relays with their own terminals, whose modes differ from the modes of the programs in them.
const MULTIPLEXERS: &[&str] = &["screen", "tmux: client", "zellij"];

/// Returns whether a relay is a terminal multiplexer.
pub(crate) fn is_multiplexer(name: &str) -> bool {
    MULTIPLEXERS.contains(&name)
}

/// Returns whether a program relays typed input to a remote host or another terminal.
pub(crate) fn is_relay(name: &str) -> bool {
    RELAYS.contains(&name)
}

/// Programs that read entries at a prompt, unless their arguments name a file or a command to execute.
const ENTRY_PROGRAMS: &[&str] = &[
    "ash", "bash", "csh", "dash", "fish", "ghci", "ipython", "irb", "julia", "ksh", "lua", "mksh", "node", "php",
    "pry", "python", "sh", "tcsh", "zsh",
];

/// Programs that read entries at a prompt with any arguments.
const ENTRY_PROGRAMS_WITH_FILES: &[&str] =
    &["R", "bc", "dc", "ftp", "gdb", "lldb", "mariadb", "mysql", "psql", "redis-cli", "sftp", "sqlite3"];

/// Programs that execute the program named in their arguments.
const LAUNCHERS: &[&str] =
    &["chrt", "env", "ionice", "nice", "nohup", "numactl", "setarch", "setsid", "stdbuf", "taskset", "time", "timeout"];

/// Returns whether a process of a group, or an ancestor below `shell`, is a relay or a program that reads entries at a
/// prompt. The ancestors count because a starting program may give the foreground to a child. `session` is the
/// terminal's own program.
///
/// `None` during a transition: the group has ended and its parent has not yet returned to the foreground, or a process
/// is executing a new program.
pub(crate) fn reads_prompt_entries(session: i32, group: i32, shell: i32) -> Option<bool> {
    // If the first process of a group has exited, use any other one.
    let is_alive = |pid: &i32| parent_and_group(*pid).is_some();
    let member = Some(group).filter(is_alive).or_else(|| group_members(session, group).first().copied());
    let member = member.or_else(|| all_group_members(group).first().copied());
    let mut is_certain = member.is_some();
    let mut pid = member.or_else(|| parent_pid(group))?;
    for _ in 0..MAX_INSPECTED_PROCESSES {
        if pid == shell || pid <= 1 {
            break;
        }
        match is_entry_program(pid) {
            Some(true) => return Some(true),
            Some(false) => {}
            None => is_certain = false,
        }
        pid = parent_pid(pid)?;
    }
    is_certain.then_some(false)
}

/// Returns whether a process is a program that reads entries at a prompt. `None` during its execve(2).
fn is_entry_program(pid: i32) -> Option<bool> {
    let name = process_name(pid)?;
    let read = || fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let mut line = read();
    if line.is_empty() {
        if !is_loaded(pid) {
            return None;
        }
        // The execve(2) may have completed in the meantime.
        line = read();
    }
    let arguments: Vec<&[u8]> = line.split(|byte| *byte == 0).filter(|argument| !argument.is_empty()).collect();
    Some(names_entry_program(&name, &arguments))
}

/// Returns whether the program `name` with this command line reads entries at a prompt.
fn names_entry_program(name: &str, arguments: &[&[u8]]) -> bool {
    if RELAYS.contains(&name) || ENTRY_PROGRAMS_WITH_FILES.contains(&name) {
        return true;
    }
    // Recognise "-bash", "python3.11", and a program started by another, such as `busybox sh`.
    let Some((first, arguments)) = arguments.split_first() else { return false };
    let program = String::from_utf8_lossy(first.rsplit(|byte| *byte == b'/').next().unwrap_or_default()).into_owned();
    let program = program.trim_start_matches('-').trim_end_matches(|last: char| last.is_ascii_digit() || last == '.');
    let takes_no_file =
        |arguments: &[&[u8]]| arguments.iter().all(|word| word.starts_with(b"-") && !word.starts_with(b"-c"));
    match program {
        "busybox" => arguments.get(1..).is_some_and(takes_no_file),
        _ if ENTRY_PROGRAMS.contains(&program) => takes_no_file(arguments),
        // The options and settings of the launcher precede the program.
        _ if LAUNCHERS.contains(&program) => {
            (0..arguments.len()).any(|at| !arguments[at].starts_with(b"-") && names_entry_program("", &arguments[at..]))
        }
        _ => false,
    }
}

/// Returns whether a process has loaded its program. During an execve(2), the end of the process's environment is 0
/// (proc_pid_stat(5), field 51).
fn is_loaded(pid: i32) -> bool {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let after_name = line.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
    after_name.split_ascii_whitespace().nth(51 - 3).is_some_and(|end| end != "0")
}

/// Returns the state of the processes of `group` with regard to typed input on the terminal `device`.
///
/// `session` is the terminal's own program. `reads_single_keys` is true if the program reads single keys instead of
/// whole lines, and `is_echoed` if the terminal shows typed input.
pub(crate) fn input_state(
    session: i32,
    group: i32,
    device: &Path,
    reads_single_keys: bool,
    is_echoed: bool,
) -> InputState {
    let members = group_members(session, group);
    if reads_single_keys && members.iter().any(|pid| has_reader_elsewhere(*pid, group, device)) {
        return InputState::Relays;
    }
    let mut state = if members.is_empty() { InputState::Unknown } else { InputState::Works };
    let mut has_polling_relay = false;
    for pid in members {
        let name = process_name(pid).unwrap_or_default();
        // A relay that requests a password itself reads whole lines.
        if reads_single_keys && is_relay(&name) {
            return InputState::Relays;
        }
        if is_echoed && POLLING_RELAYS.contains(&name.as_str()) {
            has_polling_relay = true;
            continue;
        }
        match wait_channel(pid, device) {
            channel if channel.awaits_input(reads_single_keys) => return InputState::Awaits,
            WaitChannel::ReadsTerminal | WaitChannel::WaitsForSome | WaitChannel::Unknown => {
                state = InputState::Unknown;
            }
            WaitChannel::Runs | WaitChannel::Other => {}
        }
    }
    if has_polling_relay { InputState::Relays } else { state }
}

/// Returns whether a child in another group reads the terminal, such as the child of GNU screen in its own session.
fn has_reader_elsewhere(pid: i32, group: i32, device: &Path) -> bool {
    let is_elsewhere = |child: &i32| parent_and_group(*child).is_some_and(|(_, child_group)| child_group != group);
    let mut children = child_pids(pid).into_iter().filter(is_elsewhere);
    children.any(|child| wait_channel(child, device) == WaitChannel::ReadsTerminal)
}

/// Maximum number of processes that are inspected in a group, and of threads in a process.
const MAX_INSPECTED_PROCESSES: usize = 16;

/// Returns the live processes of a group: its first process, children of the same parent or of the terminal's own
/// program, and their descendants.
fn group_members(session: i32, group: i32) -> Vec<i32> {
    let mut members = Vec::new();
    let is_in_group = |pid: i32| parent_and_group(pid).is_some_and(|(_, child_group)| child_group == group);
    // The first process of a pipeline may have exited.
    let parent = parent_and_group(group).map_or(session, |(parent, _)| parent);
    for pid in [group].into_iter().chain(child_pids(parent)).chain(child_pids(session)) {
        if !members.contains(&pid) && is_in_group(pid) {
            members.push(pid);
        }
    }
    let mut next = 0;
    while next < members.len() && members.len() < MAX_INSPECTED_PROCESSES {
        let children = child_pids(members[next]).into_iter().filter(|pid| is_in_group(*pid));
        let children: Vec<i32> = children.filter(|pid| !members.contains(pid)).collect();
        members.extend(children);
        next += 1;
    }
    members.truncate(MAX_INSPECTED_PROCESSES);
    members
}

/// Returns the live processes of a group, from all processes of the system.
fn all_group_members(group: i32) -> Vec<i32> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let processes = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    processes.filter(|pid| parent_and_group(*pid).is_some_and(|(_, child_group)| child_group == group)).collect()
}

/// Returns the parent of a process. The process may be a zombie.
fn parent_pid(pid: i32) -> Option<i32> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    line.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

/// Returns the parent and the group of a live process.
fn parent_and_group(pid: i32) -> Option<(i32, i32)> {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, after_name) = line.rsplit_once(')')?;
    let mut fields = after_name.split_ascii_whitespace();
    if matches!(fields.next(), None | Some("Z" | "X")) {
        return None;
    }
    Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
}

fn child_pids(pid: i32) -> Vec<i32> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_ascii_whitespace().filter_map(|child| child.parse().ok()).take(MAX_INSPECTED_PROCESSES).collect()
}

/// Event that a process waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WaitChannel {
    /// Input of the terminal: a read, or a poll of the terminal and possibly other descriptors.
    ReadsTerminal,
    /// Several events, possibly including a key.
    WaitsForSome,
    /// None: the process is running.
    Runs,
    /// An event other than terminal input.
    Other,
    /// Unknown.
    Unknown,
}

impl WaitChannel {
    /// Returns whether the program waits for typed input. A program that reads single keys usually waits for many
    /// events, including keys.
    fn awaits_input(self, reads_single_keys: bool) -> bool {
        self == Self::ReadsTerminal || reads_single_keys && self == Self::WaitsForSome
    }
}

fn wait_channel(pid: i32, device: &Path) -> WaitChannel {
    let first = thread_wait_channel(pid, pid, device);
    if first == WaitChannel::ReadsTerminal {
        return first;
    }
    let Ok(threads) = fs::read_dir(format!("/proc/{pid}/task")) else { return first };
    let threads = threads.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let other_threads = threads.filter(|thread| *thread != pid).take(MAX_INSPECTED_PROCESSES);
    let mut channels = vec![first];
    channels.extend(other_threads.map(|thread| thread_wait_channel(pid, thread, device)));
    let has_channel = |channel: WaitChannel| channels.contains(&channel);
    if has_channel(WaitChannel::ReadsTerminal) {
        WaitChannel::ReadsTerminal
    } else if has_channel(WaitChannel::WaitsForSome) && has_channel(WaitChannel::Runs) {
        // One thread waits for keys while another may process the last key.
        WaitChannel::Unknown
    } else {
        let order = [WaitChannel::WaitsForSome, WaitChannel::Unknown, WaitChannel::Runs];
        order.into_iter().find(|channel| has_channel(*channel)).unwrap_or(WaitChannel::Other)
    }
}

fn thread_wait_channel(pid: i32, thread: i32, device: &Path) -> WaitChannel {
    let Ok(line) = fs::read_to_string(format!("/proc/{pid}/task/{thread}/syscall")) else {
        return wait_channel_from_kernel_function(pid, thread);
    };
    let mut fields = line.split_ascii_whitespace();
    // The field is "running" or a number: -1 for a process that is blocked outside a system call.
    let Some(call) = fields.next().and_then(|call| call.parse::<i64>().ok()) else { return WaitChannel::Runs };
    let mut argument = || fields.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok());
    let arguments = [argument(), argument()].map(Option::unwrap_or_default);
    let is_terminal = |descriptor: u64| {
        let target = fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()?;
        Some(target == device || target == Path::new("/dev/tty"))
    };
    if READ_CALLS.contains(&call) {
        match is_terminal(arguments[0]) {
            Some(true) => WaitChannel::ReadsTerminal,
            Some(false) => WaitChannel::Other,
            None => WaitChannel::Unknown,
        }
    } else if WAIT_CALLS.contains(&call) {
        match polled_descriptors(pid, call, arguments) {
            Some(descriptors) if descriptors.iter().any(|polled| is_terminal(*polled) == Some(true)) => {
                WaitChannel::ReadsTerminal
            }
            Some(_) => WaitChannel::Other,
            None => WaitChannel::WaitsForSome,
        }
    } else {
        WaitChannel::Other
    }
}

/// Maximum number of inspected descriptors of one system call.
const MAX_POLLED_DESCRIPTORS: u64 = 1024;

/// Returns the descriptors that a system call waits to read from. `None` if the kernel does not reveal them.
///
/// Reads the arguments of poll(2) and select(2) from the memory of the process, and the interest list of epoll(7) from
/// proc_pid_fdinfo(5). The kernel permits reading the memory of descendants.
fn polled_descriptors(pid: i32, call: i64, [first, second]: [u64; 2]) -> Option<Vec<u64>> {
    let memory = |address: u64, bytes: u64| {
        let mut buffer = vec![0; usize::try_from(bytes).ok()?];
        File::open(format!("/proc/{pid}/mem")).ok()?.read_exact_at(&mut buffer, address).ok()?;
        Some(buffer)
    };
    if POLL_CALLS.contains(&call) {
        // struct pollfd: int fd, short events, short revents.
        let entries = memory(first, second.min(MAX_POLLED_DESCRIPTORS) * 8)?;
        let entries = entries.chunks_exact(8).map(|entry| {
            let descriptor = i32::from_ne_bytes([entry[0], entry[1], entry[2], entry[3]]);
            (descriptor, i16::from_ne_bytes([entry[4], entry[5]]))
        });
        let reads = entries.filter(|(_, events)| events & libc::POLLIN != 0);
        Some(reads.filter_map(|(descriptor, _)| u64::try_from(descriptor).ok()).collect())
    } else if SELECT_CALLS.contains(&call) {
        if second == 0 {
            return Some(Vec::new());
        }
        // struct fd_set: a bit for each descriptor, in longs.
        let count = first.min(MAX_POLLED_DESCRIPTORS);
        let bits = memory(second, count.div_ceil(64) * 8)?;
        let is_set = |descriptor: &u64| {
            let bit_index = usize::try_from(*descriptor).unwrap_or(usize::MAX);
            let byte =
                if cfg!(target_endian = "big") { bit_index / 64 * 8 + 7 - bit_index % 64 / 8 } else { bit_index / 8 };
            bits.get(byte).is_some_and(|byte| byte >> (bit_index % 8) & 1 == 1)
        };
        Some((0..count).filter(is_set).collect())
    } else if call == libc::SYS_io_uring_enter {
        None
    } else {
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{first}")).ok()?;
        let entries = info.lines().filter_map(|line| line.strip_prefix("tfd:"));
        let reads = entries.filter_map(|entry| {
            let mut fields = entry.split_ascii_whitespace();
            let descriptor = fields.next()?.parse().ok()?;
            let events = u32::from_str_radix(fields.nth(1)?, 16).ok()?;
            (events & libc::EPOLLIN.cast_unsigned() != 0).then_some(descriptor)
        });
        Some(reads.collect())
    }
}

/// Returns the wait channel of a process whose system call is unreadable, based on the kernel function that it sleeps
/// in.
fn wait_channel_from_kernel_function(pid: i32, thread: i32) -> WaitChannel {
    match fs::read_to_string(format!("/proc/{pid}/task/{thread}/wchan")).as_deref() {
        Ok("n_tty_read") => WaitChannel::ReadsTerminal,
        // Reads of terminals and of sockets sleep in `wait_woken`.
        Ok("wait_woken") | Err(_) => WaitChannel::Unknown,
        Ok("0" | "") => WaitChannel::Unknown,
        Ok(_) => WaitChannel::Other,
    }
}

/// System calls that read from the descriptor in their first argument.
const READ_CALLS: &[i64] = &[libc::SYS_read, libc::SYS_readv];

/// System calls whose first argument is a list of `struct pollfd`, and whose second is its length.
#[cfg(target_arch = "x86_64")]
const POLL_CALLS: &[i64] = &[libc::SYS_poll, libc::SYS_ppoll];
#[cfg(not(target_arch = "x86_64"))]
const POLL_CALLS: &[i64] = &[libc::SYS_ppoll];

/// System calls whose first argument is a number of descriptors, and whose second is the set to read from.
#[cfg(target_arch = "x86_64")]
const SELECT_CALLS: &[i64] = &[libc::SYS_select, libc::SYS_pselect6];
#[cfg(not(target_arch = "x86_64"))]
const SELECT_CALLS: &[i64] = &[libc::SYS_pselect6];

/// System calls that wait for one of several events.
#[cfg(target_arch = "x86_64")]
const WAIT_CALLS: &[i64] = &[
    libc::SYS_poll,
    libc::SYS_ppoll,
    libc::SYS_select,
    libc::SYS_pselect6,
    libc::SYS_epoll_wait,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_io_uring_enter,
];
#[cfg(not(target_arch = "x86_64"))]
const WAIT_CALLS: &[i64] =
    &[libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2, libc::SYS_io_uring_enter];

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn process_image_identifies_the_executed_program() {
        let us = i32::try_from(std::process::id()).unwrap();
        assert_eq!(working_directory(us).as_deref(), std::env::current_dir().unwrap().to_str());
        assert!(process_name(us).is_some());
        assert_eq!(ProcessImage::read(us), ProcessImage::read(us));
        assert!(ProcessImage::read(us).is_some());
        let mut other = Command::new("sleep").arg("30").spawn().unwrap();
        assert_ne!(ProcessImage::read(other.id().cast_signed()), ProcessImage::read(us));
        other.kill().unwrap();
        other.wait().unwrap();
        assert_eq!(process_name(0), None);
    }

    #[test]
    fn process_without_a_handler_is_recognised() {
        let mut sleep = Command::new("sleep").arg("30").spawn().unwrap();
        assert_eq!(has_signal_handler(sleep.id().cast_signed(), libc::SIGUSR1), Some(false));
        sleep.kill().unwrap();
        sleep.wait().unwrap();
    }
    #[test]
    fn entry_programs_are_recognised_by_command_line() {
        for (line, reads) in [
            ("bash", true),
            ("-bash", true),
            ("/usr/bin/python3.11 -q", true),
            ("python3 script.py", false),
            ("bash -c true", false),
            ("busybox sh", true),
            ("busybox sh script", false),
            ("env A=1 nice bash", true),
            ("/usr/bin/env -i nice -n 5 bash --norc", true),
            ("timeout 5 psql", false),
            ("env bash ./script", false),
            ("nice make -j2", false),
            ("make bash", false),
            ("", false),
        ] {
            let words: Vec<&[u8]> = line.split_ascii_whitespace().map(str::as_bytes).collect();
            assert_eq!(names_entry_program("name", &words), reads, "{line}");
        }
        assert!(names_entry_program("ssh", &[b"ssh", b"host"]));
    }

    #[test]
    fn exited_group_has_unknown_kind_until_reaped() {
        let us = std::process::id().cast_signed();
        let mut exited = Command::new("true").spawn().unwrap();
        let pid = exited.id().cast_signed();
        let id = rustix::process::Pid::from_raw(pid).unwrap();
        let options = rustix::process::WaitIdOptions::EXITED | rustix::process::WaitIdOptions::NOWAIT;
        rustix::process::waitid(rustix::process::WaitId::Pid(id), options).unwrap();
        assert_eq!(reads_prompt_entries(us, pid, us), None, "the exited process is not reaped yet");
        exited.wait().unwrap();
        assert_eq!(reads_prompt_entries(us, pid, us), None, "the process was reaped");
        let mut sleep = Command::new("sleep").arg("30").spawn().unwrap();
        // The exec may not have completed yet.
        let reads =
            std::iter::repeat_with(|| reads_prompt_entries(us, sleep.id().cast_signed(), us)).find_map(|reads| reads);
        assert_eq!(reads, Some(false));
        sleep.kill().unwrap();
        sleep.wait().unwrap();
    }
}
