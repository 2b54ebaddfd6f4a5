//! The handler of the protocol's requests.

use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock,
    CreateTaskResult, DiscoverResult, GetTaskParams, GetTaskResult, Implementation, InitializeResult,
    InputRequiredResult, ListToolsResult, MetaObject, PaginatedRequestParams, ProtocolVersion, ServerCapabilities,
    ServerConfig, SubscriptionFilter, Tool, UpdateTaskParams,
};
use rmcp::service::{RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use steplatch_protocol::{AskError, CallError, Decide, ErrorCode, PNG_FIELD, RunWorkflow, Steady, Verb as _};
use tokio_util::sync::CancellationToken;

use crate::gates::{Call, People, Reached};
use crate::progress::Listener;
use crate::{tasks, tools};

/// What an agent is told first. The most important comes first, because some clients cut at 2,048 characters.
const INSTRUCTIONS: &str = "\
Real interactive terminals. Use them for programs that ask questions or stay open: installers, debuggers, ssh, REPLs, \
editors, release procedures.
1. open_terminal starts a shell (or any program) and returns a session_id at its prompt.
2. send_input types: end a command with \\n. It returns the screen within 50 ms; it does not wait for slow commands.
3. await_output waits for a pattern and returns the moment it appears; until=\"prompt\" waits for the end of a command \
and returns its exit_code. Prefer it to polling the screen.
4. get_screen_content reads the screen, or the output by position (history, since_input, tail).
5. exit_terminal closes it with everything that was started in it.
Type secrets with secret=true. A failed action is success=false with an error that says what to do. Terminals outlive \
this connection; list_terminal_sessions finds them again.
What worked once can be run again, the same way every time and without a model for its steps:
a. Write a workflow: a JSON state machine over these tools (get_workflow_schema documents it).
b. create_workflow checks and saves it under its name, or run_workflow takes it inline and saves what runs to its end.
c. run_workflow starts it and waits 20 s; it returns a run_id, and get_run waits on.
d. status=waiting means that pending_gate asks something: decide answers it, if it is for you; else next_step says \
where a person does. cancel_run ends a run.
e. Next time run_workflow {\"workflow_name\": ...}: look at list_workflows before you do a task by hand, \
describe_workflow says what one must be given.";

/// The key under which a server says who it is in a result (2026-07-28).
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Answers an MCP client by asking the daemon.
#[derive(Debug, Clone)]
pub(crate) struct Server {
    daemon: Steady,
    people: Arc<People>,
    /// Cancelled when the client is gone.
    ended: CancellationToken,
}

impl Server {
    pub(crate) fn new(daemon: Steady, ended: CancellationToken) -> Self {
        Self { daemon, people: Arc::new(People::new()), ended }
    }

    /// The daemon, asked under the client's name.
    fn daemon_of(&self, context: &RequestContext<RoleServer>) -> Steady {
        match context.client_info() {
            Some(client) => self.daemon.named(&client.name),
            None => self.daemon.clone(),
        }
    }

    async fn call(&self, request: CallToolRequestParams, context: &RequestContext<RoleServer>) -> Called {
        let Some(verb) = tools::verb(&request.name) else { return Called::UnknownTool };
        let daemon = self.daemon_of(context);
        let mut listener = context.meta.get_progress_token().map(|token| Listener::new(context.peer.clone(), token));
        let mut call = Call::of(verb.name, &request, &daemon, context);
        if let Some(sealed) = &request.request_state {
            // Only these two end with a question.
            let Some(call) = &mut call else {
                return Called::Invalid(ErrorData::invalid_params("this tool asks for no input", None));
            };
            call.listener = listener;
            return tokio::select! {
                biased;
                answered = self.people.answered(sealed, &request, call) => match answered {
                    Ok(reached) => Called::of(reached),
                    Err(invalid) => Called::Invalid(invalid),
                },
                () = context.ct.cancelled() => Called::Cancelled,
                () = self.ended.cancelled() => Called::Cancelled,
            };
        }
        if request.input_responses.is_some() {
            let error = "inputResponses come with the requestState of the question that they answer";
            return Called::Invalid(ErrorData::invalid_params(error, None));
        }
        let params = request.arguments.map_or(Value::Null, Value::Object);
        if verb.name == RunWorkflow::NAME && is_modern(context) && takes_tasks(context) {
            let call = Call::of_a_task(&daemon, context);
            return match tasks::begin(params, &call).await {
                Ok(Ok(task)) => Called::Task(task),
                Ok(Err((reply, warnings))) => Called::Answered(reply, warnings),
                Err(error) => Called::Refused(error.to_string()),
            };
        }
        let asked = async {
            let (reply, warnings) = match &mut listener {
                Some(listener) => listener.ask(&daemon, verb.name, params).await,
                None => daemon.call_raw(verb.name, params).await,
            }?;
            let reached = match &mut call {
                Some(call) if reply["status"] == "waiting" => {
                    call.listener = listener;
                    self.people.reach(reply, call).await?
                }
                _ => Reached::Reply(reply),
            };
            Ok((reached, warnings))
        };
        // A wait ends with who asked for it; what it waits for goes on.
        let answer = tokio::select! {
            // First, so that a dialog which is open for this call is taken back.
            biased;
            answer = asked => answer,
            () = context.ct.cancelled() => return Called::Cancelled,
            () = self.ended.cancelled() => return Called::Cancelled,
        };
        match answer {
            Ok((Reached::Reply(data), warnings)) => Called::Answered(data, warnings),
            Ok((Reached::Input(input), _)) => Called::Input(input),
            Err(AskError::Call(CallError::Refused(refusal))) if refusal.code == ErrorCode::InvalidParams => {
                Called::Refused(format!("{}: {}", request.name, refusal.error))
            }
            Err(AskError::Call(CallError::Lost)) => {
                let look = if verb.name == Decide::NAME { "get_run" } else { "list_terminal_sessions" };
                Called::Refused(format!(
                    "the daemon went away while this was under way, so it may or may not have happened; look with \
                     {look} before doing it again"
                ))
            }
            Err(AskError::Call(error)) => Called::Refused(error.to_string()),
            Err(AskError::Connect(error)) => Called::Refused(error.to_string()),
        }
    }
}

/// What came of calling a tool.
enum Called {
    Answered(Value, Vec<String>),
    /// A person is to be asked before it comes to anything.
    Input(InputRequiredResult),
    /// It is waited for by looking at a task.
    Task(CreateTaskResult),
    Invalid(ErrorData),
    Refused(String),
    Cancelled,
    UnknownTool,
}

impl Called {
    fn of(reached: Result<Reached, AskError>) -> Self {
        match reached {
            Ok(Reached::Reply(data)) => Self::Answered(data, Vec::new()),
            Ok(Reached::Input(input)) => Self::Input(input),
            Err(error) => Self::Refused(error.to_string()),
        }
    }
}

/// The result of a call that the daemon replied to.
pub(crate) fn completed(mut data: Value, warnings: Vec<String>) -> CallToolResult {
    let mut image = None;
    if let Value::Object(fields) = &mut data {
        image = fields.remove(PNG_FIELD);
        if !warnings.is_empty() {
            // A reply may have warnings of its own.
            match fields.entry("warnings").or_insert_with(|| Value::Array(Vec::new())) {
                Value::Array(all) => all.extend(warnings.into_iter().map(Value::String)),
                other => *other = warnings.into(),
            }
        }
    }
    let mut result = CallToolResult::structured(data);
    if let Some(Value::String(png)) = image {
        // As text it would cost an agent a hundred thousand tokens and show it nothing.
        result.content.push(ContentBlock::image(png, "image/png"));
    }
    result
}

/// A task that nobody knows, or that can not be asked about.
fn of_task<T>(found: Result<Option<T>, AskError>, id: &str) -> Result<T, ErrorData> {
    match found {
        Ok(Some(found)) => Ok(found),
        Ok(None) => {
            let id: String = id.chars().take(80).collect();
            Err(ErrorData::invalid_params(
                format!("there is no task '{id}'; list_runs tells which runs there are"),
                None,
            ))
        }
        Err(error) => Err(ErrorData::internal_error(error.to_string(), None)),
    }
}

fn identity() -> Implementation {
    let mut identity = Implementation::new("steplatch", env!("CARGO_PKG_VERSION"));
    identity.title = Some("Steplatch".to_owned());
    identity.description = Some("Real terminals and procedures that run the same every time".to_owned());
    identity
}

fn takes_tasks(context: &RequestContext<RoleServer>) -> bool {
    context.client_capabilities().is_some_and(|capabilities| capabilities.supports_tasks())
}

pub(crate) fn is_modern(context: &RequestContext<RoleServer>) -> bool {
    // Versions are dates, which sort as text.
    context.protocol_version().is_some_and(|version| version.as_str() >= ProtocolVersion::V_2026_07_28.as_str())
}

/// Says who answers, to clients that know no session in which it was said.
fn signed(meta: Option<MetaObject>, context: &RequestContext<RoleServer>) -> Option<MetaObject> {
    if !is_modern(context) {
        return meta;
    }
    let mut meta = meta.unwrap_or_default();
    let identity = serde_json::to_value(identity()).expect("an identity has only JSON in it");
    meta.0.insert(SERVER_INFO.to_owned(), identity);
    Some(meta)
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().enable_tasks().build();
        let mut info = InitializeResult::new(capabilities);
        info.server_info = identity();
        info.instructions = Some(INSTRUCTIONS.to_owned());
        info
    }

    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let discovered = DiscoverResult::from_server_info(versions, self.get_info());
        Ok(discovered.with_ttl_ms(3_600_000).with_cache_scope(CacheScope::Public))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        if let Some(cursor) = request.and_then(|request| request.cursor) {
            return Err(ErrorData::invalid_params(format!("there is no page '{cursor}': all tools are on one"), None));
        }
        let mut list = ListToolsResult::with_all_items(tools::all());
        list.meta = signed(list.meta, &context);
        Ok(list.with_ttl_ms(60_000).with_cache_scope(CacheScope::Public))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::named(name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.clone();
        let mut result = match self.call(request, &context).await {
            Called::Answered(data, warnings) => completed(data, warnings),
            Called::Task(mut task) => {
                task.meta = signed(task.meta, &context);
                return Ok(task.into());
            }
            Called::Input(mut input) => {
                input.meta = signed(input.meta, &context);
                return Ok(input.into());
            }
            Called::Invalid(error) => return Err(error),
            Called::Refused(error) => CallToolResult::error(vec![ContentBlock::text(error)]),
            Called::Cancelled => return Err(ErrorData::internal_error("the call was cancelled", None)),
            Called::UnknownTool => {
                let known: Vec<_> = tools::all().into_iter().map(|tool| tool.name).collect();
                let error = format!("there is no tool '{name}'; there are {}", known.join(", "));
                return Err(ErrorData::invalid_params(error, None));
            }
        };
        result.meta = signed(result.meta, &context);
        Ok(result.into())
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let daemon = self.daemon_of(&context);
        let call = Call::of_a_task(&daemon, &context);
        let task = of_task(self.people.task(&request.task_id, &call).await, &request.task_id)?;
        let mut result = GetTaskResult::new(task);
        result.meta = signed(result.meta, &context);
        Ok(result)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let daemon = self.daemon_of(&context);
        let call = Call::of_a_task(&daemon, &context);
        let told = self.people.told(&request.task_id, request.input_responses, &call).await;
        of_task(told.map(|known| known.then_some(())), &request.task_id)
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let daemon = self.daemon_of(&context);
        let call = Call::of_a_task(&daemon, &context);
        let cancelled = tasks::cancel(&request.task_id, &call).await;
        of_task(cancelled.map(|known| known.then_some(())), &request.task_id)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        let mut accepted = SubscriptionFilter::default();
        accepted.tools_list_changed = requested.tools_list_changed;
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        tokio::select! {
            () = context.cancelled() => {}
            () = self.ended.cancelled() => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instructions_are_read_to_their_end_and_name_tools_that_there_are() {
        assert!(INSTRUCTIONS.len() <= 2048, "{} bytes", INSTRUCTIONS.len());
        let words = INSTRUCTIONS.split(|character: char| !character.is_ascii_lowercase() && character != '_');
        let fields = ["session_id", "exit_code", "since_input", "run_id", "pending_gate", "next_step", "workflow_name"];
        for word in words.filter(|word| word.contains('_') && !fields.contains(word)) {
            assert!(tools::named(word).is_some(), "{word}");
        }
    }
}
