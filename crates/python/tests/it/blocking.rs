//! A client with blocking calls to a worker, for tests and benchmarks.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use steplatch_python_api::client::{WorkerError, WorkerEvent, WorkerProtocol};
use steplatch_python_api::wire::{Reply, Request};

/// A worker process with blocking calls. Dropping this value ends the process.
#[derive(Debug)]
pub(crate) struct Worker {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    protocol: WorkerProtocol,
}

impl Worker {
    /// Starts a worker: a program that calls `steplatch_python::worker::serve` with its standard input and output.
    ///
    /// # Errors
    /// If the process does not start.
    pub(crate) fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let (Some(input), Some(output)) = (child.stdin.take(), child.stdout.take()) else {
            return Err(io::Error::other("the worker has no pipes"));
        };
        Ok(Self { child, input, output: BufReader::new(output), protocol: WorkerProtocol::new() })
    }

    /// Sends a request and waits for the answer.
    ///
    /// # Errors
    /// If the worker is lost. It then accepts no further request.
    pub(crate) fn request(&mut self, request: Request) -> Result<Reply, WorkerError> {
        let (_, line) = self.protocol.add_request(request);
        // A lost worker is detected below, with the cause.
        let _ = self.input.write_all(&line);
        loop {
            let mut line = String::new();
            let Ok(1..) = self.output.read_line(&mut line) else {
                return Err(WorkerError::from_exit_status(self.child.wait()?));
            };
            if let WorkerEvent::Reply(_, reply) = self.protocol.receive(&line)? {
                return Ok(reply);
            }
        }
    }

    /// Returns the state of the protocol.
    pub(crate) fn protocol(&self) -> &WorkerProtocol {
        &self.protocol
    }

    /// Returns the process id of the worker.
    pub(crate) fn process(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // A worker has no state that a kill would lose.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
