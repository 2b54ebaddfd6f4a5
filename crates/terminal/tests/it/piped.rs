//! Programs on pipes.

use steplatch_patience::eventually;
use steplatch_terminal::{Exit, PipedSpec, Programs, SpawnError, Stdin};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

fn spec(command: &str) -> PipedSpec {
    PipedSpec {
        family: None,
        arguments: ["sh", "-c", command].map(Into::into).to_vec(),
        directory: "/".into(),
        environment: std::env::vars_os().collect(),
        stdin: Stdin::Piped,
    }
}

/// Returns whether a process runs. An ended process does not run, even before it is reaped.
fn is_running(pid: &str) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| ![") Z ", ") X "].iter().any(|gone| stat.contains(gone)))
}

#[tokio::test]
async fn streams_are_separate_without_a_terminal() {
    let mut piped =
        Programs::new().start(spec("read line; echo got $line; (: < /dev/tty) 2>&1; pwd >&2; exit 4")).await.unwrap();
    let mut stdin = piped.take_stdin().unwrap();
    stdin.write_all(b"hello\n").await.unwrap();
    let (mut out, mut err) = (String::new(), String::new());
    piped.take_stdout().unwrap().read_to_string(&mut out).await.unwrap();
    piped.take_stderr().unwrap().read_to_string(&mut err).await.unwrap();
    assert_eq!(piped.wait().await.unwrap(), Exit { code: 4, signal: None });
    assert!(out.starts_with("got hello\n") && out.contains("/dev/tty"), "{out}");
    assert_eq!(err, "/\n");
    assert!(piped.take_stdin().is_none(), "standard input can be taken only once");
    assert!(piped.wait().await.is_err(), "the exit is reported only once");
}

#[tokio::test]
async fn ending_a_program_ends_only_its_family() {
    let programs = Programs::new();
    let start = async |command: &str| {
        let mut piped = programs.start(spec(command)).await.unwrap();
        let mut pid = String::new();
        BufReader::new(piped.take_stdout().unwrap()).read_line(&mut pid).await.unwrap();
        (piped, pid.trim().to_owned())
    };
    // Each program has a child in its own session, and the parent of that child has ended.
    let forks = "(setsid sh -c 'echo $$; exec sleep 1000' &); sleep 1000";
    let ((one, escapee), (other, neighbour)) = (start(forks).await, start(forks).await);
    assert!(is_running(&escapee) && is_running(&neighbour));
    let ended = one.end(None).await;
    assert_eq!(ended.exit, Some(Exit { code: 129, signal: Some(1) }));
    assert_eq!(ended.survivors, []);
    assert!(!is_running(&escapee) && is_running(&neighbour));
    assert_eq!(other.end(None).await.survivors, []);
    assert!(!is_running(&neighbour), "{:?}", std::fs::read_to_string(format!("/proc/{neighbour}/stat")));
}

#[tokio::test]
async fn dropped_program_is_ended_with_its_family() {
    let mut piped = Programs::new().start(spec("setsid sleep 1000 & echo $!; sleep 1000")).await.unwrap();
    let mut pid = String::new();
    BufReader::new(piped.take_stdout().unwrap()).read_line(&mut pid).await.unwrap();
    assert!(is_running(pid.trim()));
    drop(piped);
    eventually(&format!("process {pid} ends with its parent"), async || !is_running(pid.trim())).await;
}

#[tokio::test]
async fn failed_start_reports_its_reason() {
    let programs = Programs::new();
    let nothing = PipedSpec { arguments: vec!["no-such-program".into()], ..spec("") };
    assert!(matches!(programs.start(nothing).await, Err(SpawnError::NotFound(name)) if name == "no-such-program"));
    let nowhere = PipedSpec { directory: "/no/such".into(), ..spec("") };
    assert!(matches!(programs.start(nowhere).await, Err(SpawnError::NoDirectory(_))));
}

#[tokio::test]
async fn orphan_of_an_ended_process_is_found_by_its_mark() {
    let family = format!("left {}", std::process::id());
    let spec_with_family =
        PipedSpec { family: Some(family.clone()), ..spec("setsid sleep 1000 & echo $!; exec sleep 1000") };
    let mut piped = Programs::new().start(spec_with_family).await.unwrap();
    let mut reader = BufReader::new(piped.take_stdout().unwrap());
    let mut line = String::new();
    reader.read_line(&mut line).await.unwrap();
    assert!(Programs::new().end_left("somebody else's").await.is_empty());
    assert!(is_running(line.trim()));
    assert!(Programs::new().end_left(&family).await.is_empty());
    assert!(!is_running(line.trim()));
    assert!(piped.wait().await.is_ok(), "the program has exited");
}
