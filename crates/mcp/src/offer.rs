//! Offer of a server, independent of the protocol.
//!
//! Tools, prompts, resources and tasks come from a [`ServerBackend`]. The [`Server`](crate::Server) owns the
//! protocol's two eras: the questions and notifications for clients, the state between two rounds of a call, and the
//! hints for caches. The public test suite therefore tests the server that agents use, with another offer in it
//! (`examples/conformance.rs`).

use std::future::Future;
use std::pin::Pin;

use rmcp::ErrorData;
use rmcp::RoleServer;
use rmcp::model::{
    ArgumentInfo, CallToolResult, CreateTaskResult, DetailedTask, GetPromptResult, InputRequest, InputRequests,
    InputResponses, JsonObject, Prompt, ProtocolVersion, Reference, Resource, ResourceContents, ResourceTemplate,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use serde_json::Value;
use steplatch_protocol::Peer;
use tokio::sync::{broadcast, mpsc};

use crate::progress::Progress;

/// Offer of a server, the same for every client and every connection. The requesting client determines only the
/// possible questions in return.
pub trait ServerBackend: Send + Sync + 'static {
    /// Returns the server's identity, capabilities and instructions.
    fn about(&self) -> ServerConfig;

    /// Returns the tools, sorted by name.
    fn tools(&self) -> impl Future<Output = CachedList<Tool>> + Send;

    /// Returns the tool called `name`, from local data, without a request to the daemon.
    fn tool(&self, name: &str) -> Option<Tool>;

    /// Calls a tool.
    fn call(&self, call: &mut Call<'_>) -> impl Future<Output = Outcome<ToolReply>> + Send;

    /// Returns the prompts.
    fn prompts(&self) -> CachedList<Prompt>;

    /// Writes a prompt.
    fn prompt(&self, call: &mut Call<'_>) -> impl Future<Output = Outcome<GetPromptResult>> + Send;

    /// Returns the current resources.
    ///
    /// # Errors
    /// If listing them fails.
    fn resources(
        &self,
        client: &ClientContext<'_>,
    ) -> impl Future<Output = Result<CachedList<Resource>, ErrorData>> + Send;

    /// Returns the URI templates of the resources.
    fn templates(&self) -> CachedList<ResourceTemplate>;

    /// Reads a resource; `None` if no resource has that URI.
    ///
    /// # Errors
    /// If reading it fails.
    fn read(
        &self,
        uri: &str,
        client: &ClientContext<'_>,
    ) -> impl Future<Output = Result<Option<Vec<ResourceContents>>, ErrorData>> + Send;

    /// Follows a resource; `None` if no resource has that URI.
    ///
    /// # Errors
    /// If following it fails.
    fn follow(&self, uri: &str) -> impl Future<Output = Result<Option<Updates>, ErrorData>> + Send;

    /// Returns the completions of an argument of a prompt, or of a part of a resource's URI, the best first.
    fn complete(&self, what: &Reference, argument: &ArgumentInfo) -> impl Future<Output = Vec<String>> + Send;

    /// Returns the state of a task; `None` if no task has that id.
    ///
    /// # Errors
    /// If reading the state fails.
    fn task(
        &self,
        id: &str,
        client: &ClientContext<'_>,
    ) -> impl Future<Output = Result<Option<DetailedTask>, ErrorData>> + Send;

    /// Sends the requested input to a task. Returns whether the task exists.
    ///
    /// # Errors
    /// If passing the input on fails.
    fn answer_task(
        &self,
        id: &str,
        responses: InputResponses,
        client: &ClientContext<'_>,
    ) -> impl Future<Output = Result<bool, ErrorData>> + Send;

    /// Cancels a task that has not ended. Returns whether the task exists.
    ///
    /// # Errors
    /// If the cancellation fails.
    fn cancel_task(&self, id: &str, client: &ClientContext<'_>)
    -> impl Future<Output = Result<bool, ErrorData>> + Send;

    /// Returns a receiver of later changes of the lists, and starts watching the lists.
    fn changes(&self) -> broadcast::Receiver<ListChange>;
}

/// All items of one kind, and the time that a client may cache them.
#[derive(Debug, Clone)]
pub struct CachedList<T> {
    /// The items, in a stable order.
    pub items: Vec<T>,
    /// Milliseconds for which the list is fresh.
    pub ttl_ms: u64,
}

/// A list that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListChange {
    /// The tools.
    Tools,
    /// The prompts.
    Prompts,
}

/// Receives a message whenever a followed resource has changed; one message may cover several changes. Dropping it
/// ends the subscription. The channel closes when there will be no more changes.
pub type Updates = mpsc::Receiver<()>;

/// A request to call a tool, or to write a prompt.
#[derive(Debug)]
pub struct Call<'c> {
    /// The name of the tool or prompt.
    pub name: String,
    /// The arguments.
    pub arguments: Option<JsonObject>,
    /// The requesting client.
    pub asker: ClientContext<'c>,
    /// Sends progress to the client, if the client requested progress.
    pub progress: Option<Progress>,
    /// The previous round of the call.
    pub round: CallRound,
}

/// The previous round of a call: a client repeats a call that returned a question, with the outcome.
#[derive(Debug, Default)]
pub struct CallRound {
    /// The state that the previous round gave to the client, unchanged.
    pub carried: Option<Value>,
    /// The outcome of the questions.
    pub came: ClientInput,
}

/// The outcome of questions to a client.
#[derive(Debug, Default)]
pub enum ClientInput {
    /// There was no question yet.
    #[default]
    Nothing,
    /// The answers, by the names of the questions. Some may be missing, and answers may be invalid.
    Answers(InputResponses),
    /// An answer is no longer needed.
    Moot,
    /// The client did not answer in time.
    Late,
    /// The client does not support the question.
    Unreachable,
}

/// The outcome of a call.
#[derive(Debug)]
pub enum Outcome<T> {
    /// The call is complete.
    Done(T),
    /// The client must answer a question first.
    Ask(Ask),
    /// No tool or prompt has that name.
    Unknown,
    /// The call is impossible because of the client, not because of the agent.
    Refused(ErrorData),
}

/// The outcome of a tool call.
#[derive(Debug)]
pub enum ToolReply {
    /// The tool's result.
    Result(CallToolResult),
    /// A task that will have a result, for a client that supports tasks.
    Task(CreateTaskResult),
}

/// Questions to a client.
pub struct Ask {
    /// The questions, by name.
    pub questions: InputRequests,
    /// State for the next round. It may travel through the client, which can read it. Without it, answers may come from
    /// any client and must be complete in themselves.
    pub carried: Option<Value>,
    /// Completes when an answer is no longer needed.
    pub moot: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl std::fmt::Debug for Ask {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask")
            .field("questions", &self.questions)
            .field("carried", &self.carried)
            .finish_non_exhaustive()
    }
}

impl Ask {
    /// Creates questions that remain relevant until their answers.
    #[must_use]
    pub fn new(questions: InputRequests, carried: Option<Value>) -> Self {
        Self { questions, carried, moot: Box::pin(std::future::pending()) }
    }
}

/// The requesting client, as it describes itself: with each request since 2026-07-28, once per session before that.
#[derive(Debug, Clone, Copy)]
pub struct ClientContext<'c> {
    context: &'c RequestContext<RoleServer>,
}

impl<'c> ClientContext<'c> {
    pub(crate) fn new(context: &'c RequestContext<RoleServer>) -> Self {
        Self { context }
    }

    /// Returns the context of the request.
    #[must_use]
    pub fn context(&self) -> &'c RequestContext<RoleServer> {
        self.context
    }

    /// Returns the name that the client gives itself.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.context.client_info().map(|client| client.name)
    }

    /// Returns the client's address, over HTTP.
    #[must_use]
    pub fn peer(&self) -> Option<Peer> {
        self.context.extensions.get::<http::request::Parts>()?.extensions.get::<Peer>().copied()
    }

    /// Returns whether the client speaks the protocol of 2026-07-28 or later, in which questions are results of calls.
    #[must_use]
    pub fn is_modern(&self) -> bool {
        self.supports_version(&ProtocolVersion::V_2026_07_28)
    }

    /// Returns whether the client speaks that version of the protocol, or a later one.
    fn supports_version(&self, version: &ProtocolVersion) -> bool {
        // Versions are dates, which sort as text.
        self.context.protocol_version().is_some_and(|client_version| client_version.as_str() >= version.as_str())
    }

    /// Returns whether the client accepts a task in place of a result.
    #[must_use]
    pub fn takes_tasks(&self) -> bool {
        self.is_modern() && self.context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
    }

    /// Returns whether the client can show a form to a person.
    #[must_use]
    pub fn takes_forms(&self) -> bool {
        let capabilities = self.context.client_capabilities().unwrap_or_default();
        // A client that names no modes supports forms, the first specified mode.
        capabilities.elicitation.is_some_and(|capabilities| capabilities.form.is_some() || capabilities.url.is_none())
    }

    /// Returns whether the client supports choices with titles.
    #[must_use]
    pub fn knows_titles(&self) -> bool {
        self.supports_version(&ProtocolVersion::V_2025_11_25)
    }

    /// Returns whether the client supports that question.
    #[must_use]
    pub fn takes(&self, question: &InputRequest) -> bool {
        let capabilities = || self.context.client_capabilities().unwrap_or_default();
        match question {
            InputRequest::Elicitation(_) => self.takes_forms(),
            InputRequest::CreateMessage(_) => capabilities().sampling.is_some(),
            InputRequest::ListRoots(_) => capabilities().roots.is_some(),
            _ => false,
        }
    }
}
