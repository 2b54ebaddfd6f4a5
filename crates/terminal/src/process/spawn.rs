//! Start of a program as the leader of a new session, on a pseudo-terminal or on pipes.

use std::collections::BTreeMap;
use std::ffi::{CString, NulError, OsStr, OsString};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{Pid, Resource, Rlimit, getrlimit};

use super::system::{Execution, ExecutionError, execute};

/// A program to start.
#[derive(Debug, Clone)]
pub(crate) struct Program {
    /// The program and its arguments; the lookup of the program uses the `PATH` of `environment`.
    pub(crate) arguments: Vec<OsString>,
    /// The working directory.
    pub(crate) directory: PathBuf,
    /// The complete environment.
    pub(crate) environment: Vec<(OsString, OsString)>,
    /// Maximum number of open descriptors (RLIMIT_NOFILE, soft), if it differs from this process.
    pub(crate) descriptors: Option<u64>,
}

/// Reason why a program did not start.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// The request named no program.
    #[error("no program was named")]
    Nothing,
    /// The program is not in the `PATH`, or its file does not exist.
    #[error("program '{0}' was not found")]
    NotFound(String),
    /// The program exists but may not be executed.
    #[error("program '{0}' may not be executed")]
    NotExecutable(String),
    /// The working directory does not exist.
    #[error("directory '{0}' does not exist")]
    NoDirectory(PathBuf),
    /// The system had no terminal, process or memory available.
    #[error("the system could not start it")]
    System(#[from] io::Error),
}

/// Streams that a program reads from and writes to.
#[derive(Debug)]
pub(crate) enum Streams {
    /// The program's side of a pseudo-terminal: the controlling terminal of its session.
    Terminal(OwnedFd),
    /// Standard input, output and error, without a terminal.
    Pipes { input: OwnedFd, output: OwnedFd, error: OwnedFd },
}

/// Directories of programs for an environment without `PATH`, as in execvp(3).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Starts `program` on these streams, as the leader of a new session. The program has no other descriptors, blocks and
/// ignores no signals, and has the terminal, if any, as its controlling terminal.
///
/// Returns when the exec has succeeded or failed, after a few hundred microseconds.
pub(super) fn spawn(program: &Program, streams: Streams) -> Result<Pid, SpawnError> {
    let [name, ..] = program.arguments.as_slice() else { return Err(SpawnError::Nothing) };
    // Of several variables with one name, the last one counts.
    let environment: BTreeMap<&OsStr, &OsStr> =
        program.environment.iter().map(|(key, value)| (key.as_os_str(), value.as_os_str())).collect();
    let path = environment.get(OsStr::new("PATH")).copied().unwrap_or(OsStr::new(DEFAULT_PATH));
    let candidates = candidates(name, path).map_err(io::Error::from)?;
    let arguments = program.arguments.iter().map(|argument| CString::new(argument.as_bytes()));
    let arguments = arguments.collect::<Result<Vec<_>, _>>().map_err(io::Error::from)?;
    let variables = environment.iter().map(|(key, value)| [key.as_bytes(), b"=", value.as_bytes()].concat());
    let variables = variables.map(CString::new).collect::<Result<Vec<_>, _>>().map_err(io::Error::from)?;
    let directory = CString::new(program.directory.as_os_str().as_bytes()).map_err(io::Error::from)?;
    let has_terminal = matches!(streams, Streams::Terminal(_));
    // Duplicate the streams, because the numbers 0 to 2 must be free in the new process.
    let duplicate = |stream: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(stream, 3).map_err(io::Error::from);
    let [input, output, error] = match &streams {
        Streams::Terminal(slave) => [duplicate(slave)?, duplicate(slave)?, duplicate(slave)?],
        Streams::Pipes { input, output, error } => [duplicate(input)?, duplicate(output)?, duplicate(error)?],
    };
    let execution = Execution {
        candidates: &candidates,
        arguments: &arguments,
        environment: &variables,
        directory: &directory,
        streams: [input.as_fd(), output.as_fd(), error.as_fd()],
        has_terminal,
        descriptors: program.descriptors.map(|limit| Rlimit { current: Some(limit), ..getrlimit(Resource::Nofile) }),
    };
    execute(&execution).map_err(|error| {
        let name = || name.to_string_lossy().into_owned();
        match error {
            ExecutionError::Program(error) => match error.kind() {
                io::ErrorKind::NotFound => SpawnError::NotFound(name()),
                io::ErrorKind::PermissionDenied => SpawnError::NotExecutable(name()),
                // E2BIG, ENOMEM, ELOOP …
                _ => SpawnError::System(error),
            },
            ExecutionError::Directory(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                    SpawnError::NoDirectory(program.directory.clone())
                }
                kind => {
                    let directory = program.directory.display();
                    SpawnError::System(io::Error::new(
                        kind,
                        format!("cannot change to the directory '{directory}': {error}"),
                    ))
                }
            },
            ExecutionError::System(error) => SpawnError::System(error),
        }
    })
}

/// Returns the files that may be the program `name`, in search order. An empty part of `path` stands for the working
/// directory of the program.
fn candidates(name: &OsStr, path: &OsStr) -> Result<Vec<CString>, NulError> {
    let bytes = name.as_bytes();
    if bytes.is_empty() || bytes.contains(&b'/') {
        return Ok(vec![CString::new(bytes)?]);
    }
    let directories = path.as_bytes().split(|byte| *byte == b':').map(OsStr::from_bytes);
    directories.map(|directory| CString::new(Path::new(directory).join(name).into_os_string().as_bytes())).collect()
}

#[cfg(test)]
mod tests {
    use std::fs::{File, Permissions};
    use std::io::Read as _;
    use std::os::unix::fs::PermissionsExt as _;

    use rustix::pipe::{PipeFlags, pipe_with};
    use rustix::process::{WaitId, WaitIdOptions, waitid};

    use super::*;
    use crate::process::Pty;
    use crate::screen::Size;

    const TRUE: &str = "true";

    fn program(arguments: &[&str]) -> Program {
        Program {
            arguments: arguments.iter().map(OsString::from).collect(),
            directory: "/".into(),
            environment: vec![("PATH".into(), std::env::var_os("PATH").unwrap())],
            descriptors: None,
        }
    }

    /// Runs a program to its end and returns the program's output.
    fn run_for_output(program: &Program) -> Result<String, SpawnError> {
        let (mut reader, output) =
            pipe_with(PipeFlags::CLOEXEC).map(|(reader, output)| (File::from(reader), output)).unwrap();
        let input = File::open("/dev/null").unwrap().into();
        let pid = spawn(program, Streams::Pipes { input, error: output.try_clone().unwrap(), output })?;
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).unwrap();
        Ok(text)
    }

    fn in_shell(script: &str) -> Program {
        program(&["sh", "-c", script])
    }

    #[test]
    fn program_lookup_follows_execvp() {
        let home = tempfile::tempdir().unwrap();
        let path = |name: &str| home.path().join(name);
        let file = |name: &str, text: &str, mode: u32| {
            std::fs::create_dir_all(path(name).parent().unwrap()).unwrap();
            std::fs::write(path(name), text).unwrap();
            std::fs::set_permissions(path(name), Permissions::from_mode(mode)).unwrap();
        };
        file("bin/script", "echo \"script $1 in ${0##*/}\"\n", 0o755);
        file("bin/plain", "text", 0o644);
        file("bin/lost", "#!/no/such/interpreter\n", 0o755);
        file("later/plain", "#!/bin/sh\necho later\n", 0o755);
        file("here", "#!/bin/sh\necho here\n", 0o755);
        std::fs::create_dir(path("bin/folder")).unwrap();
        let directories = format!("/no/such:{0}/here:{0}/bin:{0}/later::/usr/bin:/bin", home.path().display());
        let long = "x".repeat(256);
        let absolute = path("bin/script").display().to_string();
        let cases: [(&[&str], Result<&str, &str>); 15] = [
            (&["script", "one"], Ok("script one in script\n")),
            (&[&absolute, "two"], Ok("script two in script\n")),
            (&["bin/script", "three"], Ok("script three in script\n")),
            (&["plain"], Ok("later\n")),
            (&["here"], Ok("here\n")),
            (&["./here"], Ok("here\n")),
            (&["echo", "", "a b"], Ok(" a b\n")),
            (&[], Err("no program was named")),
            (&[""], Err("program '' was not found")),
            (&["no-such-program"], Err("program 'no-such-program' was not found")),
            (&["./no-such-program"], Err("program './no-such-program' was not found")),
            (&["lost"], Err("program 'lost' was not found")),
            (&["bin/plain"], Err("program 'bin/plain' may not be executed")),
            (&["folder"], Err("program 'folder' may not be executed")),
            (&[&long], Err("the system could not start it")),
        ];
        for (arguments, expected) in cases {
            let mut program = program(arguments);
            program.directory = home.path().into();
            program.environment = vec![("PATH".into(), directories.clone().into())];
            let printed = run_for_output(&program).map_err(|error| error.to_string());
            assert_eq!(printed.as_deref().map_err(String::as_str), expected, "{arguments:?}");
        }
        let without_path = Program { environment: Vec::new(), ..program(&["echo", "found"]) };
        assert_eq!(run_for_output(&without_path).unwrap(), "found\n");
    }

    #[test]
    fn failed_start_is_reported_with_the_reason() {
        let home = tempfile::tempdir().unwrap();
        let missing = home.path().join("missing");
        let file = home.path().join("file");
        std::fs::write(&file, "").unwrap();
        for directory in [missing, file] {
            let started = run_for_output(&Program { directory: directory.clone(), ..program(&[TRUE]) });
            assert!(matches!(&started, Err(SpawnError::NoDirectory(named)) if *named == directory), "{started:?}");
        }
        let hard = getrlimit(Resource::Nofile).maximum.unwrap();
        let cases = [
            ("an argument is too long", program(&[TRUE, &"x".repeat(1 << 20)]), libc::E2BIG),
            (
                "the limit is above the hard one",
                Program { descriptors: Some(hard + 1), ..program(&[TRUE]) },
                libc::EINVAL,
            ),
        ];
        for (case, program, number) in cases {
            match run_for_output(&program) {
                Err(SpawnError::System(error)) => assert_eq!(error.raw_os_error(), Some(number), "{case}"),
                other => panic!("{case}: {other:?}"),
            }
        }
        for arguments in [["a\0b", ""], [TRUE, "a\0b"]] {
            match run_for_output(&program(&arguments)) {
                Err(SpawnError::System(error)) => assert_eq!(error.kind(), io::ErrorKind::InvalidInput),
                other => panic!("{arguments:?}: {other:?}"),
            }
        }
    }

    #[test]
    fn program_has_its_streams_and_no_other_descriptor() {
        // A descriptor inherited from the parent of this process.
        let inherited = rustix::io::fcntl_dupfd_cloexec(File::open("/dev/null").unwrap(), 90).unwrap();
        rustix::io::fcntl_setfd(&inherited, rustix::io::FdFlags::empty()).unwrap();
        let script = "for number in $(seq 0 300); do [ ! -e /proc/$$/fd/$number ] || echo $number; done";
        // The shell has read the list of numbers by then.
        assert_eq!(run_for_output(&in_shell(script)).unwrap(), "0\n1\n2\n");
        assert_eq!(
            run_for_output(&in_shell("readlink /proc/self/fd/0; echo error >&2")).unwrap(),
            "/dev/null\nerror\n"
        );
    }

    #[test]
    fn environment_is_complete_and_the_last_duplicate_counts() {
        let big = "b".repeat(100_000);
        let mut program = program(&["env", "-0"]);
        let variables = [("A", "first"), ("LINES", "1\n2=3"), ("A", "last"), ("EMPTY", ""), ("A=B", "C")];
        program.environment.extend(variables.map(|(key, value)| (key.into(), value.into())));
        program.environment.extend((0..15).map(|number| (format!("BIG{number}").into(), big.clone().into())));
        let printed = run_for_output(&program).unwrap();
        let mut found: Vec<&str> = printed.split_terminator('\0').filter(|entry| !entry.starts_with("PATH=")).collect();
        found.retain(|entry| !entry.ends_with(&big));
        assert_eq!(found, ["A=last", "A=B=C", "EMPTY=", "LINES=1\n2=3"]);
        assert_eq!(printed.matches(&big).count(), 15);
    }

    #[test]
    fn descriptor_limit_is_soft() {
        let hard = getrlimit(Resource::Nofile).maximum.unwrap();
        let limited = Program { descriptors: Some(77), ..in_shell("ulimit -Sn; ulimit -Hn") };
        assert_eq!(run_for_output(&limited).unwrap(), format!("77\n{hard}\n"));
    }

    #[tokio::test]
    async fn program_leads_its_session_and_the_terminal() {
        // Fields of proc_pid_stat(5) after the name: parent, group, session, terminal, foreground group.
        let script = "read line </proc/$$/stat; set -- ${line##*) }; echo $(($3 == $$)) $(($4 == $$)) $(($5 != 0)) $6";
        assert_eq!(run_for_output(&in_shell(script)).unwrap(), "1 1 0 -1\n");
        let (pty, slave) = Pty::open(Size { cols: 80, rows: 24 }).unwrap();
        let pid = spawn(&in_shell(&format!("{script}; read line </dev/tty")), Streams::Terminal(slave)).unwrap();
        let mut buffer = [0; 200];
        pty.readable().await.unwrap();
        let crate::process::Read::Bytes(length) = pty.read(&mut buffer).unwrap() else {
            panic!("the program printed nothing")
        };
        let number = pid.as_raw_nonzero();
        assert_eq!(String::from_utf8_lossy(&buffer[..length]), format!("1 1 1 {number}\r\n"));
        assert_eq!(pty.foreground(), Some(pid));
        pty.write(b"\n").unwrap();
        waitid(WaitId::Pid(pid), WaitIdOptions::EXITED).unwrap();
    }

    #[test]
    fn concurrent_starts_are_independent() {
        std::thread::scope(|scope| {
            for thread in 0..8 {
                scope.spawn(move || {
                    for round in 0..25 {
                        let name = format!("{thread}-{round}");
                        let missing = run_for_output(&program(&[&format!("no-{name}")]));
                        assert!(matches!(missing, Err(SpawnError::NotFound(named)) if named == format!("no-{name}")));
                        assert_eq!(run_for_output(&program(&["echo", &name])).unwrap(), format!("{name}\n"));
                    }
                });
            }
        });
    }

    #[test]
    fn inaccessible_directory_is_reported_as_such() {
        let home = tempfile::tempdir().unwrap();
        // Longer than the kernel permits, with a different error than a missing directory.
        let directory = home.path().join("x".repeat(256));
        match run_for_output(&Program { directory, ..program(&[TRUE]) }) {
            Err(SpawnError::System(error)) => {
                assert!(error.to_string().contains("cannot change to the directory"), "{error}");
            }
            other => panic!("{other:?}"),
        }
    }
}
