//! The worker process, which executes functions for the daemon.

use std::io::{stdin, stdout};
use std::process::ExitCode;

use steplatch_python::worker;

use crate::failure::Failure;

/// The most bytes for all executions of a worker together: several times the limit of one.
const MEMORY: usize = 512 << 20;

/// Executes functions for the daemon at the other end of standard input and output, until it disconnects.
pub(super) async fn serve() -> Result<ExitCode, Failure> {
    // The worker must survive the terminal that started the daemon. A failure means that it is a session leader
    // already.
    let _ = rustix::process::setsid();
    let serving = tokio::task::spawn_blocking(|| worker::serve(stdin(), stdout(), MEMORY));
    let served = serving.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    served.map_err(|error| {
        Failure::system("this is started by the daemon, which went away or asks differently", &error)
    })?;
    Ok(ExitCode::SUCCESS)
}
