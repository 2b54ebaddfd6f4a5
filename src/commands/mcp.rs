//! `steplatch mcp`

use std::process::ExitCode;

use steplatch_mcp::serve_stdio;
use steplatch_protocol::{Place, Steady};

use crate::failure::Failure;
use crate::front;

pub(super) async fn run(place: Place) -> Result<ExitCode, Failure> {
    let daemon = Steady::new(place, front::starter()?, front::hello("mcp"));
    serve_stdio(daemon).await.map_err(|error| Failure::work(format!("the client did not speak MCP: {error}")))?;
    Ok(ExitCode::SUCCESS)
}
