//! Writes the history of a run to standard output, in the form that `tests/replay.rs` reads: `export ADDRESS RUN`.

use std::io::Write as _;

use steplatch_temporal::run::SteplatchRun;
use temporalio_client::{Client, ClientOptions, Connection, ConnectionOptions, WorkflowFetchHistoryOptions};
use url::Url;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (Some(address), Some(run)) = (arguments.next(), arguments.next()) else {
        return Err("write the address of Temporal and the id of a run".into());
    };
    let target = Url::parse(&format!("http://{address}"))?;
    let connection = Connection::connect(ConnectionOptions::new(target).build()).await?;
    let client = Client::new(connection, ClientOptions::new("default").build())?;
    let history = client.get_workflow_handle::<SteplatchRun>(run).fetch_history(WorkflowFetchHistoryOptions::default());
    std::io::stdout().write_all(&history.to_json().await?)?;
    Ok(())
}
