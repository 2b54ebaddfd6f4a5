//! Random functions over the calls of the language, the project with the nodes and graphs that they call, and the
//! workers that execute functions.

use std::collections::VecDeque;
use std::io::{self, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use steplatch_daemon::WorkerSource;
use steplatch_python::worker::LocalWorker;

use crate::computer::Requests;
use crate::random::Random;
use crate::stage::Stage;

/// The nodes and graphs of the project. Their programs run in simulated terminals.
const PROJECT: &str = r#"
[nodes.note]
type = "pty"
command = "bash"

[graphs.notes]
steps = [{ id = "one", node = "note", input = "x" }, { id = "two", node = "note", input = "{one}" }]
"#;

/// Name of the function that other functions run.
pub(crate) const FUNCTION: &str = "inner";

/// Maximum duration of a request to a worker, in milliseconds.
const MAX_WORK_MS: u64 = 20;

/// Writes the declarations of the project into a directory.
///
/// # Errors
/// If writing fails.
pub(crate) fn declare_project(directory: &Path) -> io::Result<()> {
    std::fs::write(directory.join("steplatch.toml"), PROJECT)
}

/// Returns the text of a random function with the name `flow`.
pub(crate) fn function(random: &mut Random) -> String {
    let mut calls = String::new();
    for _ in 0..1 + random.below(4) {
        calls.push_str(&random_call(random));
    }
    source_file(&calls)
}

/// Returns the text of a function with every kind of call.
pub(crate) fn scenario() -> String {
    source_file(&(0..CALL_KINDS).map(|kind| call_text(kind, "")).collect::<String>())
}

/// Returns a file whose function makes these calls.
fn source_file(calls: &str) -> String {
    format!(
        "async def {FUNCTION}(ctx):\n    await ctx.run(\"note\", \"x\")\n    return 1\n\n\
         async def flow(ctx):\n    try:\n{calls}    except TimeoutError:\n        pass\n    return 1\n\n\
         Workflow(id=\"{FUNCTION}\", session=session, fn={FUNCTION})\nWorkflow(id=\"flow\", session=session, fn=flow)\n"
    )
}

/// Number of kinds of calls.
const CALL_KINDS: u64 = 7;

fn random_call(random: &mut Random) -> String {
    let timeout = if random.one_in(8) { ", timeout=1" } else { "" };
    call_text(random.below(CALL_KINDS), timeout)
}

fn call_text(kind: u64, timeout: &str) -> String {
    let line = match kind {
        0 => format!("await ctx.run(\"note\", \"x\"{timeout})"),
        1 => "await ctx.run_parallel([(\"note\", \"x\"), (\"note\", \"y\")])".to_owned(),
        2 => format!("await ctx.gate(\"Go on?\", choices=[\"yes\"], answered_by=\"anyone\"{timeout})"),
        3 => "await ctx.sleep(0.2)".to_owned(),
        4 => "ctx.emit(\"seen\", {\"at\": ctx.now()})".to_owned(),
        5 => format!("await ctx.run_graph(\"notes\", \"x\"{timeout})"),
        _ => format!("await ctx.run_workflow(\"{FUNCTION}\"{timeout})"),
    };
    format!("        {line}\n")
}

/// Starts the workers of a daemon.
#[derive(Debug)]
pub(crate) struct Workers(pub(crate) Arc<Requests>);

impl WorkerSource for Workers {
    fn start(&self) -> io::Result<UnixStream> {
        let (daemon_end, worker_end) = UnixStream::pair()?;
        worker_end.set_nonblocking(true)?;
        self.0.workers.lock().push(worker_end);
        Ok(daemon_end)
    }
}

/// A worker process. Dropping it kills the process.
#[derive(Debug)]
pub(crate) struct WorkerProcess {
    worker: LocalWorker,
    stream: UnixStream,
    received: Vec<u8>,
    /// Replies to send, with their times.
    replies: VecDeque<(Duration, Vec<u8>)>,
}

impl WorkerProcess {
    pub(crate) fn start(stage: &Stage, stream: UnixStream) -> io::Result<Self> {
        let (worker, greeting) = LocalWorker::new()?;
        Ok(Self { worker, stream, received: Vec::new(), replies: VecDeque::from([(stage.now(), greeting)]) })
    }

    /// Executes the received requests and sends the replies that are due. Returns false once the daemon has exited.
    pub(crate) fn run(&mut self, stage: &Stage) -> bool {
        let mut bytes = vec![0; 64 << 10];
        loop {
            match self.stream.read(&mut bytes) {
                Ok(0) => return false,
                Ok(count) => self.received.extend_from_slice(&bytes[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => return false,
            }
        }
        while let Some(end) = self.received.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.received.drain(..=end).collect();
            let line = String::from_utf8(line).expect("the daemon sends UTF-8");
            let reply = self.worker.execute(line.trim_end()).expect("the daemon sends requests");
            stage.record_activity();
            let due = stage.now() + Duration::from_millis(stage.random(|random| random.below(MAX_WORK_MS)));
            self.replies.push_back((due, reply));
        }
        while let Some((_, reply)) = self.replies.pop_front_if(|(due, _)| *due <= stage.now()) {
            stage.record_activity();
            if self.stream.write_all(&reply).is_err() {
                return false;
            }
        }
        true
    }
}
