//! The offer of a server, independent of the protocol.
//!
//! Tools, prompts, resources and tasks come from a [`ServerBackend`]. The [`Server`](crate::Server) owns the
//! protocol in both of its eras: the questions and notifications for clients, the state between two rounds of a call,
//! and the hints for caches. The public test suite can therefore test the server that agents use, with another offer
//! (`examples/conformance`).

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
use steplatch_protocol::{Peer, SkillName};
use tokio::sync::{broadcast, mpsc};

use crate::progress::Progress;
use crate::skills::SkillPackage;

/// The offer of a server, the same for every connection. The requesting client determines which questions are possible,
/// and the size of the list of tools.
pub trait ServerBackend: Send + Sync + 'static {
    /// Returns the server's identity, capabilities and instructions.
    fn server_config(&self) -> ServerConfig;

    /// Returns the tools for the client, or for an unknown one, sorted by name.
    fn tools(&self, client: Option<&ClientContext<'_>>) -> impl Future<Output = CachedList<Tool>> + Send;

    /// Returns the tool called `name`, from local data, without a request to the daemon.
    fn tool(&self, name: &str) -> Option<Tool>;

    /// Calls a tool.
    fn call(&self, call: &mut Call<'_>) -> impl Future<Output = Outcome<ToolReply>> + Send;

    /// Returns the prompts.
    fn prompts(&self) -> CachedList<Prompt>;

    /// Expands a prompt.
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

    /// Returns the skills, whose files are resources as well.
    ///
    /// # Errors
    /// If listing them fails.
    fn skills(
        &self,
        client: &ClientContext<'_>,
    ) -> impl Future<Output = Result<CachedList<SkillPackage>, ErrorData>> + Send;

    /// Returns the skill with this name, listed or not.
    ///
    /// # Errors
    /// If reading it fails.
    fn skill(
        &self,
        name: &SkillName,
        client: &ClientContext<'_>,
    ) -> impl Future<Output = Result<Option<SkillPackage>, ErrorData>> + Send;

    /// Follows a resource; `None` if no resource has that URI.
    ///
    /// # Errors
    /// If following it fails.
    fn follow(&self, uri: &str) -> impl Future<Output = Result<Option<Updates>, ErrorData>> + Send;

    /// Returns the completions of a prompt argument, or of a part of a resource URI, best first.
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
    /// If forwarding the input fails.
    fn answer_task(
        &self,
        id: &str,
        responses: InputResponses,
        client: &ClientContext<'_>,
    ) -> impl Future<Output = Result<bool, ErrorData>> + Send;

    /// Cancels an unfinished task. Returns whether the task exists.
    ///
    /// # Errors
    /// If the cancellation fails.
    fn cancel_task(&self, id: &str, client: &ClientContext<'_>)
    -> impl Future<Output = Result<bool, ErrorData>> + Send;

    /// Returns a receiver of later changes of the lists and starts watching the lists.
    fn changes(&self) -> broadcast::Receiver<ListChange>;
}

/// All items of one kind, and the permitted time of a client's caching.
#[derive(Debug, Clone)]
pub struct CachedList<T> {
    /// The items, in a stable order.
    pub items: Vec<T>,
    /// Lifetime of the list in a cache, in milliseconds.
    pub ttl_ms: u64,
}

/// A list that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ListChange {
    /// The list of tools.
    Tools,
    /// The list of prompts.
    Prompts,
}

/// Receives a message whenever a followed resource has changed; one message may cover several changes. Dropping it
/// ends the subscription. The channel closes when there will be no more changes.
pub type Updates = mpsc::Receiver<()>;

/// A request to call a tool, or to expand a prompt.
#[derive(Debug)]
pub struct Call<'c> {
    /// Name of the tool or prompt.
    pub name: String,
    /// Arguments of the tool or prompt.
    pub arguments: Option<JsonObject>,
    /// The requesting client.
    pub client: ClientContext<'c>,
    /// Progress notifications, if the client requested them.
    pub progress: Option<Progress>,
    /// The previous round of the call.
    pub round: CallRound,
}

/// The previous round of a call: after questions, a client repeats the call with their outcome.
#[derive(Debug, Default)]
pub struct CallRound {
    /// State that the previous round gave to the client, unchanged.
    pub carried_state: Option<Value>,
    /// Outcome of the questions.
    pub input: ClientInput,
}

/// The outcome of questions to a client.
#[derive(Debug, Default)]
pub enum ClientInput {
    /// There were no questions yet.
    #[default]
    Nothing,
    /// The answers, by the names of the questions. Answers may be missing or invalid.
    Answers(InputResponses),
    /// An answer is no longer needed.
    NoLongerNeeded,
    /// The client did not answer in time.
    TimedOut,
    /// The client does not support the question, or could not be reached.
    Unreachable,
}

/// The outcome of a call.
#[derive(Debug)]
pub enum Outcome<T> {
    /// The call is complete.
    Done(T),
    /// The client must answer a question first.
    InputRequired(ClientQuestions),
    /// No tool or prompt has that name.
    Unknown,
    /// The call is not possible with this client.
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
pub struct ClientQuestions {
    /// The questions, by name.
    pub questions: InputRequests,
    /// State for the next round. The client may carry the state, and can then read it. Without a state, answers may
    /// come from any client and must be complete in themselves.
    pub carried_state: Option<Value>,
    /// Completes when an answer is no longer needed.
    pub no_longer_needed: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl std::fmt::Debug for ClientQuestions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClientQuestions")
            .field("questions", &self.questions)
            .field("carried_state", &self.carried_state)
            .finish_non_exhaustive()
    }
}

impl ClientQuestions {
    /// Creates questions whose answers remain needed.
    #[must_use]
    pub fn new(questions: InputRequests, carried_state: Option<Value>) -> Self {
        Self { questions, carried_state, no_longer_needed: Box::pin(std::future::pending()) }
    }
}

/// The requesting client, as it describes itself: in each request since 2026-07-28, once per session before that.
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

    /// Returns the client's network address, if it is connected over HTTP.
    #[must_use]
    pub fn peer(&self) -> Option<Peer> {
        self.context.extensions.get::<http::request::Parts>()?.extensions.get::<Peer>().copied()
    }

    /// Returns whether the client uses the protocol of 2026-07-28 or later. In that protocol, questions are results of
    /// calls.
    #[must_use]
    pub fn is_modern(&self) -> bool {
        self.supports_version(&ProtocolVersion::V_2026_07_28)
    }

    /// Returns whether the client uses this protocol version or a later one.
    fn supports_version(&self, version: &ProtocolVersion) -> bool {
        // Versions are dates in a form that sorts as a string.
        self.context.protocol_version().is_some_and(|client_version| client_version.as_str() >= version.as_str())
    }

    /// Returns whether the client accepts a task instead of a result.
    #[must_use]
    pub fn supports_tasks(&self) -> bool {
        self.is_modern() && self.context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
    }

    /// Returns whether the client shows apps: pages of this media type, by an extension of the protocol.
    #[must_use]
    pub fn shows_apps(&self, extension: &str, mime_type: &str) -> bool {
        let capabilities = self.context.client_capabilities().unwrap_or_default();
        let extensions = capabilities.extensions.unwrap_or_default();
        let mime_types = extensions.get(extension).and_then(|settings| settings.get("mimeTypes")?.as_array());
        mime_types.is_some_and(|mime_types| mime_types.iter().any(|known| known == mime_type))
    }

    /// Returns whether the client can show a form to a person.
    #[must_use]
    pub fn supports_forms(&self) -> bool {
        let capabilities = self.context.client_capabilities().unwrap_or_default();
        // A client without modes supports forms, the first specified mode.
        capabilities.elicitation.is_some_and(|capabilities| capabilities.form.is_some() || capabilities.url.is_none())
    }

    /// Returns whether the client supports choices with titles.
    #[must_use]
    pub fn supports_titles(&self) -> bool {
        self.supports_version(&ProtocolVersion::V_2025_11_25)
    }

    /// Returns whether the client supports the question.
    #[must_use]
    pub fn supports(&self, question: &InputRequest) -> bool {
        let capabilities = || self.context.client_capabilities().unwrap_or_default();
        match question {
            InputRequest::Elicitation(_) => self.supports_forms(),
            InputRequest::CreateMessage(_) => capabilities().sampling.is_some(),
            InputRequest::ListRoots(_) => capabilities().roots.is_some(),
            _ => false,
        }
    }
}
