//! The process in which functions are executed, for the daemon.

use std::io::{stdin, stdout};
use std::process::ExitCode;

use steplatch_python::worker;

use crate::failure::Failure;

/// Bytes that all executions of a worker may have together: several times what one may.
const MEMORY: usize = 512 << 20;

/// Executes functions for whoever is at the other side of standard input and output, until they go away.
pub(super) async fn serve() -> Result<ExitCode, Failure> {
    // The end of the terminal that started the daemon must not be ours. Being a leader already is as good.
    let _ = rustix::process::setsid();
    let serving = tokio::task::spawn_blocking(|| worker::serve(stdin(), stdout(), MEMORY));
    let served = serving.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
    served.map_err(|error| {
        Failure::system("this is started by the daemon, which went away or asks differently", &error)
    })?;
    Ok(ExitCode::SUCCESS)
}
