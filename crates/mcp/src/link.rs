//! The way to the daemon, made when it is needed and made again when it broke.

use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::Value;
use steplatch_ids::random_name;
use steplatch_protocol::{CallError, Client, ConnectError, Hello, PROTOCOL_VERSION, Place, Starter, connect_or_start};
use tokio::sync::Mutex;

/// A connection that mends itself. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Link {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    place: Place,
    starter: Starter,
    /// What every connection introduces itself with.
    hello: Hello,
    current: Mutex<Option<Connection>>,
}

#[derive(Debug)]
struct Connection {
    client: Client,
    /// The name it introduced itself with.
    name: String,
}

/// What to do when the connection breaks before the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Again {
    /// Ask again: it does no harm.
    Freely,
    /// Ask again as the same step, which is done once.
    AsTheSame,
    /// Leave it: twice is worse than not knowing.
    Never,
}

/// How often a question is asked anew. One that brings down every daemon it reaches should not go on for ever.
const MOST_LOSSES: usize = 20;

/// Whether a connection may come about when it is tried again.
fn came_too_late(error: &ConnectError, losses: usize) -> bool {
    match error {
        ConnectError::NotRunning(_) | ConnectError::HungUp(_) => losses < MOST_LOSSES,
        // One that was ended while it started can be started again; one that can not start stays so.
        ConnectError::NotStarted(_) => losses < 3,
        ConnectError::OtherVersion(_) | ConnectError::System(_) => false,
    }
}

/// Parameters that say how long to wait, in seconds.
const WAITS: [&str; 2] = ["timeout", "wait_seconds"];

/// Takes off what was waited already.
fn without_time_waited(params: &mut Value, waited: Duration) {
    for wait in WAITS {
        if let Some(seconds) = params.get(wait).and_then(Value::as_f64) {
            params[wait] = (seconds - waited.as_secs_f64()).max(0.0).into();
        }
    }
}

/// Why a verb was not answered.
#[derive(Debug)]
pub(crate) enum LinkError {
    /// There is no daemon and none could be started.
    Connect(ConnectError),
    /// The daemon did not answer, or refused.
    Call(CallError),
}

impl Link {
    /// A link to the daemon of `place`. Nothing is connected yet.
    #[must_use]
    pub fn new(place: Place, starter: Starter, hello: Hello) -> Self {
        Self { shared: Arc::new(Shared { place, starter, hello, current: Mutex::new(None) }) }
    }

    /// Connects, so that the first call finds the way made. A failure is left for that call to tell.
    pub(crate) async fn prepare(&self) {
        if let Err(error) = self.client(None).await {
            tracing::warn!(%error, "the daemon can not be reached");
        }
    }

    /// Asks for the verb called `name` on behalf of the client called `who`.
    ///
    /// `again` says what to do when the connection breaks in the middle.
    pub(crate) async fn call(
        &self,
        who: Option<&str>,
        name: &str,
        mut params: Value,
        again: Again,
    ) -> Result<(Value, Vec<String>), LinkError> {
        let step = random_name();
        let mut losses = 0;
        loop {
            let began = Instant::now();
            let client = match self.client(who).await {
                Ok(client) => client,
                // Nothing was asked yet, so nothing can be done twice: it ended while we came.
                Err(error) if came_too_late(&error, losses) => {
                    losses += 1;
                    continue;
                }
                Err(error) => return Err(LinkError::Connect(error)),
            };
            let asked = match again {
                Again::AsTheSame => client.call_raw_once(name, params.clone(), &step).await,
                Again::Freely | Again::Never => client.call_raw(name, params.clone()).await,
            };
            match asked {
                Err(CallError::Lost) if again != Again::Never && losses < MOST_LOSSES => {
                    losses += 1;
                    without_time_waited(&mut params, began.elapsed());
                }
                answered => return answered.map_err(LinkError::Call),
            }
        }
    }

    async fn client(&self, who: Option<&str>) -> Result<Client, ConnectError> {
        let mut current = self.shared.current.lock().await;
        if let Some(connection) = current.as_mut().filter(|connection| !connection.client.is_closed()) {
            if let Some(who) = who.filter(|who| *who != connection.name) {
                connection.name = who.to_owned();
                // Only a name: what was open before goes on under the old one.
                connection.client.call(self.hello(who)).await.map_err(ConnectError::HungUp)?;
            }
            return Ok(connection.client.clone());
        }
        let name = who.unwrap_or(&self.shared.hello.client).to_owned();
        let (client, _) = connect_or_start(&self.shared.place, self.hello(&name), &self.shared.starter).await?;
        *current = Some(Connection { client: client.clone(), name });
        Ok(client)
    }

    fn hello(&self, name: &str) -> Hello {
        Hello { protocol_version: PROTOCOL_VERSION, client: name.to_owned(), ..self.shared.hello.clone() }
    }
}
