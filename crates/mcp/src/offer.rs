//! What a server offers, apart from the manners in which it does.
//!
//! Tools, prompts, resources and tasks come from an [`Offer`]; the protocol's two eras, who is asked and told how, what is
//! carried between two rounds of a call, hints for caches and the like are the [`Server`](crate::Server)'s. So the server that
//! the public test suite is run against is the one that agents use, with another offer in it (`examples/conformance.rs`).

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

/// What a server offers. Everything is the same for every client and every connection; who asks matters for what they can
/// be asked in return only.
pub trait Offer: Send + Sync + 'static {
    /// Who this is, what it can do, and what an agent is told first.
    fn about(&self) -> ServerConfig;

    /// The tools, sorted by name.
    fn tools(&self) -> impl Future<Output = Listed<Tool>> + Send;

    /// The tool called `name`, as far as that is known without asking anybody.
    fn tool(&self, name: &str) -> Option<Tool>;

    /// Calls a tool.
    fn call(&self, call: &mut Call<'_>) -> impl Future<Output = Outcome<Called>> + Send;

    /// The prompts.
    fn prompts(&self) -> Listed<Prompt>;

    /// Writes a prompt.
    fn prompt(&self, call: &mut Call<'_>) -> impl Future<Output = Outcome<GetPromptResult>> + Send;

    /// The resources that there are just now.
    ///
    /// # Errors
    /// When they can not be found out.
    fn resources(&self, asker: &Asker<'_>) -> impl Future<Output = Result<Listed<Resource>, ErrorData>> + Send;

    /// The kinds of resources.
    fn templates(&self) -> Listed<ResourceTemplate>;

    /// Reads a resource; `None` where there is none of that URI.
    ///
    /// # Errors
    /// When it can not be read.
    fn read(
        &self,
        uri: &str,
        asker: &Asker<'_>,
    ) -> impl Future<Output = Result<Option<Vec<ResourceContents>>, ErrorData>> + Send;

    /// Follows a resource; `None` where there is none of that URI.
    ///
    /// # Errors
    /// When it can not be followed.
    fn follow(&self, uri: &str) -> impl Future<Output = Result<Option<Updates>, ErrorData>> + Send;

    /// What an argument of a prompt, or a part of the URI of a resource, may be: all that begins as it does, the best first.
    fn complete(&self, what: &Reference, argument: &ArgumentInfo) -> impl Future<Output = Vec<String>> + Send;

    /// How far a task is; `None` where there is none of that id.
    ///
    /// # Errors
    /// When nobody can say.
    fn task(&self, id: &str, asker: &Asker<'_>)
    -> impl Future<Output = Result<Option<DetailedTask>, ErrorData>> + Send;

    /// Takes what a task asked for. Returns whether there is such a task.
    ///
    /// # Errors
    /// When it can not be passed on.
    fn answer_task(
        &self,
        id: &str,
        said: InputResponses,
        asker: &Asker<'_>,
    ) -> impl Future<Output = Result<bool, ErrorData>> + Send;

    /// Ends a task; one that is over does not mind. Returns whether there is such a task.
    ///
    /// # Errors
    /// When it can not be ended.
    fn cancel_task(&self, id: &str, asker: &Asker<'_>) -> impl Future<Output = Result<bool, ErrorData>> + Send;

    /// What is told of changes of the lists from now on. Somebody begins to listen, so whatever notices them is to begin.
    fn changes(&self) -> broadcast::Receiver<Changed>;
}

/// Everything of one kind, and for how long a client may take it for true.
#[derive(Debug, Clone)]
pub struct Listed<T> {
    /// The items, in an order that stays.
    pub items: Vec<T>,
    /// Milliseconds for which the list is fresh.
    pub ttl_ms: u64,
}

/// A list that changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Changed {
    /// The tools.
    Tools,
    /// The prompts.
    Prompts,
}

/// Comes whenever a resource that is followed is another one; it may come once for many changes. Following ends when this is
/// dropped, and there will be no more changes when it ends.
pub type Updates = mpsc::Receiver<()>;

/// What is asked for: a tool to be called, or a prompt to be written.
#[derive(Debug)]
pub struct Call<'c> {
    /// Its name.
    pub name: String,
    /// Its arguments.
    pub arguments: Option<JsonObject>,
    /// Who asks.
    pub asker: Asker<'c>,
    /// How far it is is told by way of this, if somebody wants to know.
    pub progress: Option<Progress>,
    /// What came before.
    pub round: Round,
}

/// What came before in a call: a call that asks its client for something is made again, with what came of that.
#[derive(Debug, Default)]
pub struct Round {
    /// What was to be carried until then, as it was.
    pub carried: Option<Value>,
    /// What came of the questions.
    pub came: Came,
}

/// What came of questions to a client.
#[derive(Debug, Default)]
pub enum Came {
    /// Nothing was asked yet.
    #[default]
    Nothing,
    /// What was answered, by the names of the questions. Some may not be answered, and answers may be nonsense.
    Answers(InputResponses),
    /// Nobody needs to answer any more.
    Moot,
    /// Nobody answered for a long time.
    Late,
    /// The client can not be asked that.
    Unreachable,
}

/// What a call comes to.
#[derive(Debug)]
pub enum Outcome<T> {
    /// It is done.
    Done(T),
    /// The client is to be asked first.
    Ask(Ask),
    /// There is nothing of that name.
    Unknown,
    /// It can not be done at all, for a reason that is the client's and not the agent's.
    Refused(ErrorData),
}

/// What comes of a tool.
#[derive(Debug)]
pub enum Called {
    /// Its result.
    Result(CallToolResult),
    /// A task that will have one, for an asker who takes tasks.
    Task(CreateTaskResult),
}

/// Questions to a client.
pub struct Ask {
    /// The questions, by names.
    pub questions: InputRequests,
    /// What is needed to go on. It may travel by way of the client, which can read it. Without it, answers are taken from
    /// whoever gives them, and they must say it all.
    pub carried: Option<Value>,
    /// Ends when nobody needs to answer any more.
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
    /// Questions that are never moot.
    #[must_use]
    pub fn new(questions: InputRequests, carried: Option<Value>) -> Self {
        Self { questions, carried, moot: Box::pin(std::future::pending()) }
    }
}

/// Who asks, by what they say of themselves: with each request since 2026-07-28, once before that.
#[derive(Debug, Clone, Copy)]
pub struct Asker<'c> {
    context: &'c RequestContext<RoleServer>,
}

impl<'c> Asker<'c> {
    pub(crate) fn of(context: &'c RequestContext<RoleServer>) -> Self {
        Self { context }
    }

    /// The request.
    #[must_use]
    pub fn context(&self) -> &'c RequestContext<RoleServer> {
        self.context
    }

    /// What the client calls itself.
    #[must_use]
    pub fn name(&self) -> Option<String> {
        self.context.client_info().map(|client| client.name)
    }

    /// Where it is, over HTTP.
    #[must_use]
    pub fn peer(&self) -> Option<Peer> {
        self.context.extensions.get::<http::request::Parts>()?.extensions.get::<Peer>().copied()
    }

    /// Whether it speaks the protocol of 2026-07-28 or a later one, in which nobody is asked but by a result.
    #[must_use]
    pub fn is_modern(&self) -> bool {
        self.speaks(&ProtocolVersion::V_2026_07_28)
    }

    /// Whether it speaks that version of the protocol, or a later one.
    fn speaks(&self, version: &ProtocolVersion) -> bool {
        // Versions are dates, which sort as text.
        self.context.protocol_version().is_some_and(|spoken| spoken.as_str() >= version.as_str())
    }

    /// Whether it can be given a task in place of a result.
    #[must_use]
    pub fn takes_tasks(&self) -> bool {
        self.is_modern() && self.context.client_capabilities().is_some_and(|can| can.supports_tasks())
    }

    /// Whether it can put a form to its person.
    #[must_use]
    pub fn takes_forms(&self) -> bool {
        let can = self.context.client_capabilities().unwrap_or_default();
        // One that says nothing about modes has the form, which was there first.
        can.elicitation.is_some_and(|can| can.form.is_some() || can.url.is_none())
    }

    /// Whether it knows choices with titles of their own.
    #[must_use]
    pub fn knows_titles(&self) -> bool {
        self.speaks(&ProtocolVersion::V_2025_11_25)
    }

    /// Whether it can be asked that.
    #[must_use]
    pub fn takes(&self, question: &InputRequest) -> bool {
        let can = || self.context.client_capabilities().unwrap_or_default();
        match question {
            InputRequest::Elicitation(_) => self.takes_forms(),
            InputRequest::CreateMessage(_) => can().sampling.is_some(),
            InputRequest::ListRoots(_) => can().roots.is_some(),
            _ => false,
        }
    }
}
