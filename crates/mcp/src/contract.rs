//! The offer to agents: each tool is a verb of the daemon, or a workflow that the daemon runs.

mod app;
mod client_pool;
mod client_traits;
mod gates;
mod more_tools;
mod prompts;
mod registry;
mod resources;
mod skills;
mod tasks;
mod text_reply;
mod tools;
mod waiting;

use rmcp::ErrorData;
use rmcp::model::{
    ArgumentInfo, CallToolResult, ContentBlock, DetailedTask, GetPromptResult, Implementation, InitializeResult,
    InputResponses, JsonObject, Prompt, Reference, Resource, ResourceContents, ResourceTemplate, ServerCapabilities,
    ServerConfig, Tool,
};
use serde_json::{Value, json};
use steplatch_protocol::{
    AskError, AwaitOutput, CallError, CallTool, Decide, ErrorCode, ExitTerminal, GetRun, GetScreenContent,
    GetWorkflowSchema, OpenTerminal, PNG_FIELD, ReadCommand, ReconnectingClient, RecordTerminal, RunCommand, RunDetail,
    RunWorkflow, ScreenMode, SendInput, SkillName, Verb as _, WorkflowTopic, is_wrapped, unwrapped,
};
use tokio::sync::broadcast;

use crate::offer::{
    CachedList, Call, ClientContext, ClientInput, ListChange, Outcome, ServerBackend, ToolReply, Updates,
};
use crate::skills::SkillPackage;
use client_pool::ClientPool;
use client_traits::ClientTraits;
use gates::{Caller, Elicitor, GateStep};
use registry::{FoundTool, Registry};

/// The server's instructions to an agent, most important first: some clients cut them at 2,048 characters.
const INSTRUCTIONS: &str = "\
Real interactive terminals. Use them for programs that ask questions or stay open: installers, debuggers, ssh, REPLs, \
editors, release procedures.
1. open_terminal starts a shell (or any program) and returns a session_id at its prompt.
2. send_input types: end a line with \\n. Add until=\"prompt\" to wait in the same call: it returns when the command \
has ended or when its program asks for input, with what is new on the screen. Or add a pattern.
3. run_command runs one command in a shell and returns its output and exit code, or at once when it asks something. \
Within ssh, su, docker or a REPL it is one entry at the prompt; integrate=true gives a shell there exit codes.
4. await_output keeps waiting, also for several terminals. get_screen_content reads the screen, or the output by position, \
or searches it.
5. exit_terminal closes it with everything that was started in it.
Type secrets that you know with secret=true; at password=true, request_secret waits until a person has typed one. A \
failed action is success=false with an error that says what to do. Terminals outlive this connection; \
list_terminal_sessions finds them again.
What worked once can be run again, the same way every time and without a model for its steps:
a. Write a workflow: a JSON state machine over these tools (get_workflow_schema documents it).
b. create_workflow checks and saves it under its name, or run_workflow takes it inline and saves what runs to its end.
c. run_workflow starts it and waits 20 s; it returns a run_id, and get_run keeps waiting.
d. status=waiting means that pending_gate asks something: decide answers it, if it is for you; otherwise next_step says \
where a person does. cancel_run ends a run.
e. Next time run_workflow {\"workflow_name\": ...}: look at list_workflows before you do a task by hand, \
describe_workflow lists its arguments. Some workflows, also of remote services, are tools themselves: workflow_*.
If your list has more_tools, it calls the others. Terminals and runs are resources: terminal://ID/screen, run://ID.";

/// Lifetime of the list of skills in a client's cache, in milliseconds.
const SKILLS_TTL_MS: u64 = 5_000;

/// Maximum number of seconds that a tool call waits for the end of a workflow.
const RUN_TIMEOUT_SECONDS: f64 = 7200.0;

/// The daemon's verbs and workflows, offered as MCP tools, prompts, resources and tasks.
#[derive(Debug)]
pub struct Contract {
    clients: ClientPool,
    elicitor: Elicitor,
    registry: Registry,
    /// The connection of the app and of resources. What a client reads there need not reach its model, so it does not count
    /// as seen.
    viewer: ReconnectingClient,
}

impl Contract {
    /// Creates the offer of the daemon that `daemon` connects to.
    #[must_use]
    pub fn new(daemon: ReconnectingClient) -> Self {
        // Use a separate connection, because watching the list of tools belongs to no client's call.
        let registry = Registry::new(daemon.with_own_connection("mcp tools"));
        let viewer = daemon.with_own_connection("mcp resources");
        Self { registry, elicitor: Elicitor::default(), clients: ClientPool::new(daemon), viewer }
    }

    /// Returns the connection to the daemon under the client's name.
    fn daemon_for_client(&self, client: &ClientContext<'_>) -> ReconnectingClient {
        self.clients.client(client.name())
    }

    async fn run(&self, verb: &'static str, params: Value, call: &mut Call<'_>) -> Outcome<ToolReply> {
        let daemon = self.daemon_for_client(&call.client);
        let arguments = call.arguments.clone();
        let may_wait_at_gate = [RunWorkflow::NAME, GetRun::NAME, CallTool::NAME].contains(&verb);
        let round = std::mem::take(&mut call.round);
        let step = async {
            if !matches!(round.input, ClientInput::Nothing) {
                let step = self.elicitor.resume(round, &mut Caller::new(&daemon, call)).await?;
                return Ok(step.map(|step| (step, Vec::new())));
            }
            let (reply, warnings) = waiting::call_with_progress(&daemon, verb, params, call.progress.as_mut()).await?;
            let step = match may_wait_at_gate && reply["status"] == "waiting" {
                true => self.elicitor.ask_person(reply, &Caller::new(&daemon, call)).await?,
                false => GateStep::Reply(reply),
            };
            Ok(Some((step, warnings)))
        };
        match step.await {
            Ok(Some((GateStep::Reply(mut data), warnings))) => {
                remove_redundant_fields(verb, arguments.as_ref(), &mut data);
                let form = reply_form(verb, arguments.as_ref(), &call.client);
                Outcome::Done(ToolReply::Result(tool_result(verb, data, warnings, form)))
            }
            Ok(Some((GateStep::InputRequired(questions), _))) => Outcome::InputRequired(questions),
            Ok(None) => {
                let error = "inputResponses must have the requestState of the question that they answer";
                Outcome::Refused(ErrorData::invalid_params(error, None))
            }
            Err(error) => Outcome::Done(ToolReply::Result(error_result(verb, &call.name, &error))),
        }
    }

    /// Replaces a call of [`more_tools`] by the call that it contains. Returns the result of a request for descriptions,
    /// or of an invalid request.
    async fn resolve_more_tools(&self, call: &mut Call<'_>) -> Option<CallToolResult> {
        let arguments = call.arguments.take().map(unwrapped).unwrap_or_default();
        let text = match more_tools::Request::parse(arguments) {
            Ok(more_tools::Request::List) => Ok(more_tools::list(tools::outside_core())),
            Ok(more_tools::Request::Describe(name)) => {
                let tool = tools::find_complete_tool(&name).cloned().or_else(|| self.registry.find_cached_tool(&name));
                tool.filter(|tool| tool.name != more_tools::MORE_TOOLS)
                    .map(|tool| more_tools::describe(&tool).to_string())
                    .ok_or_else(|| more_tools::unknown_tool_error(&name, tools::outside_core()))
            }
            Ok(more_tools::Request::Call(name, arguments)) => match self.registry.find(&name).await {
                Some(_) => {
                    (call.name, call.arguments) = (name, Some(arguments));
                    return None;
                }
                None => Err(more_tools::unknown_tool_error(&name, tools::outside_core())),
            },
            Err(error) => Err(error),
        };
        Some(match text {
            Ok(text) => CallToolResult::success(vec![ContentBlock::text(text)]),
            Err(error) => CallToolResult::error(vec![ContentBlock::text(error)]),
        })
    }
}

/// Default limit on a command's output, in characters. Reading and searching give access to the rest.
const MAX_OUTPUT_CHARS: u32 = 4000;

/// Adds arguments that request a short reply, unless they specify its length: a model pays for every word that it
/// reads.
fn set_brief_defaults(verb: &str, arguments: Option<JsonObject>) -> Value {
    let (field, value) = match verb {
        SendInput::NAME | AwaitOutput::NAME => ("screen", json!(ScreenMode::Auto)),
        RunCommand::NAME => ("limit", MAX_OUTPUT_CHARS.into()),
        GetWorkflowSchema::NAME => ("topic", json!(WorkflowTopic::Overview)),
        RunWorkflow::NAME | GetRun::NAME => ("detail", json!(RunDetail::Brief)),
        _ => return arguments.map_or(Value::Null, Value::Object),
    };
    let mut arguments = arguments.unwrap_or_default();
    // Leave wrapped arguments unchanged, because the daemon rejects invalid ones.
    if !is_wrapped(&arguments) {
        arguments.entry(field).or_insert(value);
    }
    Value::Object(arguments)
}

/// Removes redundant fields from a reply, unless the client has selected a part of the screen.
fn remove_redundant_fields(verb: &str, arguments: Option<&JsonObject>, reply: &mut Value) {
    let verbs = [OpenTerminal::NAME, SendInput::NAME, AwaitOutput::NAME];
    if !verbs.contains(&verb) || arguments.is_some_and(|arguments| arguments.contains_key("screen")) {
        return;
    }
    let Value::Object(fields) = reply else { return };
    if fields.get("success") != Some(&Value::Bool(true)) {
        return;
    }
    let waited = fields.get("waited").and_then(|waited| waited["reason"].as_str()).map(str::to_owned);
    let is_awaiting_input = matches!(waited.as_deref(), Some("prompt" | "input"));
    fields.retain(|name, value| match name.as_str() {
        "message" | "timestamp" | "pid" | "cols" | "rows" => false,
        "process_running" | "awaiting_input" if is_awaiting_input => *value == false,
        "process_running" => *value == false,
        "timeout_occurred" | "alternate_screen" => *value == true,
        // Lines of others may be left to run.
        "busy" if waited.as_deref() == Some("prompt") => *value == true,
        "offset" => waited.is_none(),
        "elapsed_time" => verb == AwaitOutput::NAME,
        "groups" => value.as_array().is_some_and(|groups| !groups.is_empty()),
        "match_text" => !value.is_null(),
        _ => true,
    });
    if let Some(Value::Object(waited)) = fields.get_mut("waited") {
        // The next wait of this client begins there.
        waited.retain(|name, _| !matches!(name.as_str(), "elapsed_time" | "offset"));
    }
    if let Some(seconds) = fields.get_mut("elapsed_time") {
        *seconds = seconds.as_f64().map_or(Value::Null, |seconds| json!((seconds * 1e3).round() / 1e3));
    }
}

/// Returns the tool result of a call without a reply from the daemon.
fn error_result(verb: &str, tool: &str, error: &AskError) -> CallToolResult {
    let error = match error {
        AskError::Call(CallError::Refused(refusal)) if refusal.code == ErrorCode::InvalidParams => {
            format!("{tool}: {}", refusal.error)
        }
        AskError::Call(CallError::Lost) => {
            let lookup_tool = if verb == Decide::NAME { "get_run" } else { "list_terminal_sessions" };
            format!(
                "the daemon was lost during this call, which may or may not have taken effect; check with {lookup_tool} \
                 before repeating it"
            )
        }
        other => other.to_string(),
    };
    CallToolResult::error(vec![ContentBlock::text(error)])
}

/// The form of a tool result.
#[derive(Debug, Clone, Copy)]
enum ReplyForm<'a> {
    /// Every field, as structured content and as JSON in the text.
    Structured,
    /// A short text for the client's model.
    Text {
        /// Verb that was called.
        verb: &'a str,
        /// Arguments of the call, which the model knows. `None` for a workflow, whose arguments may have the names of fields.
        arguments: Option<&'a JsonObject>,
    },
}

/// Returns a reply as a tool result.
fn formatted_result(form: ReplyForm<'_>, is_error: bool, mut data: Value, warnings: Vec<String>) -> CallToolResult {
    let mut image = None;
    if let Value::Object(fields) = &mut data {
        image = fields.remove(PNG_FIELD);
        if !warnings.is_empty() {
            // A reply may contain its own warnings.
            match fields.entry("warnings").or_insert_with(|| Value::Array(Vec::new())) {
                Value::Array(all) => all.extend(warnings.into_iter().map(Value::String)),
                other => *other = warnings.into(),
            }
        }
    }
    let mut result = match (form, data) {
        (ReplyForm::Text { verb, arguments }, Value::Object(reply)) => {
            let text = text_reply::format_reply(verb, arguments, is_error, reply);
            CallToolResult::success(vec![ContentBlock::text(text)])
        }
        (_, data) => CallToolResult::structured(data),
    };
    if let Some(Value::String(png)) = image {
        // As text, an image would cost a hundred thousand tokens and be useless to an agent.
        result.content.push(ContentBlock::image(png, "image/png"));
    }
    result.is_error = Some(is_error);
    result
}

/// Returns the form of the reply to a client's call.
fn reply_form<'a>(verb: &'a str, arguments: Option<&'a JsonObject>, client: &ClientContext<'_>) -> ReplyForm<'a> {
    // The arguments of a workflow may have the names of parameters and fields.
    let arguments = arguments.filter(|_| verb != CallTool::NAME);
    let wants_all_fields =
        arguments.is_some_and(|arguments| arguments.get("detail").is_some_and(|detail| detail == "full"));
    match ClientTraits::new(client).reads_text && !wants_all_fields {
        true => ReplyForm::Text { verb, arguments },
        false => ReplyForm::Structured,
    }
}

/// Returns the tool result of a reply, according to the verb.
fn tool_result(verb: &str, data: Value, warnings: Vec<String>, form: ReplyForm<'_>) -> CallToolResult {
    match verb == CallTool::NAME {
        true => workflow_result(data, warnings, form),
        false => formatted_result(form, is_failed_action(verb, &data), data, warnings),
    }
}

/// Returns whether a reply reports a failed action on a terminal. A command that still runs, or a wait that timed out,
/// is a result. So is a run that failed.
fn is_failed_action(verb: &str, data: &Value) -> bool {
    let terminal_verbs = [
        OpenTerminal::NAME,
        SendInput::NAME,
        AwaitOutput::NAME,
        GetScreenContent::NAME,
        ExitTerminal::NAME,
        ReadCommand::NAME,
        RecordTerminal::NAME,
        RunCommand::NAME,
    ];
    let is_in_progress = ["timed_out", "awaiting_input"].iter().any(|field| data[*field] == true);
    terminal_verbs.contains(&verb) && data["success"] == false && !is_in_progress && (data["exit_code"].is_null())
}

/// Returns the result of a workflow called as a tool. A failed run is a failed tool call; a running or cancelled one is
/// not. In the structured form, moves the result of a remote service's run to the fields of the local run, where the
/// service's users expect it. A short text keeps the result apart, as it omits fields of the run.
fn workflow_result(mut data: Value, warnings: Vec<String>, form: ReplyForm<'_>) -> CallToolResult {
    let is_error = data["status"] == "failed";
    let is_remote_result =
        |result: &Value| result.get("correlationId").is_some() && result.get("originalWorkflowId").is_some();
    if matches!(form, ReplyForm::Structured)
        && let Value::Object(fields) = &mut data
        && fields.get("result").is_some_and(is_remote_result)
        && let Some(Value::Object(result)) = fields.remove("result")
    {
        fields.extend(result);
    }
    formatted_result(form, is_error, data, warnings)
}

fn identity() -> Implementation {
    let mut identity = Implementation::new("steplatch", env!("CARGO_PKG_VERSION"));
    identity.title = Some("Steplatch".to_owned());
    identity.description = Some("Real terminals and procedures that run the same every time".to_owned());
    identity
}

fn internal_error(error: &AskError) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

impl ServerBackend for Contract {
    fn server_config(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_completions()
            .enable_tasks()
            .enable_skills_with_directory_read()
            .build();
        let mut result = InitializeResult::new(capabilities);
        result.server_info = identity();
        result.instructions = Some(INSTRUCTIONS.to_owned());
        result
    }

    async fn tools(&self, client: Option<&ClientContext<'_>>) -> CachedList<Tool> {
        let (items, ttl_ms) = self.registry.list(client.map(ClientTraits::new).unwrap_or_default()).await;
        CachedList { items, ttl_ms }
    }

    fn tool(&self, name: &str) -> Option<Tool> {
        self.registry.find_cached_tool(name)
    }

    async fn call(&self, call: &mut Call<'_>) -> Outcome<ToolReply> {
        if call.name == more_tools::MORE_TOOLS
            && let Some(result) = self.resolve_more_tools(call).await
        {
            return Outcome::Done(ToolReply::Result(result));
        }
        if call.name == app::LOOK && ClientTraits::new(&call.client).shows_apps {
            let arguments = call.arguments.take().unwrap_or_default();
            let looked = app::look(&arguments, &self.viewer).await;
            let result = looked.unwrap_or_else(|error| error_result(GetScreenContent::NAME, app::LOOK, &error));
            return Outcome::Done(ToolReply::Result(result));
        }
        let (verb, params) = match self.registry.find(&call.name).await {
            None => return Outcome::Unknown,
            Some(FoundTool::Verb(verb)) => {
                call.arguments = call.arguments.take().map(unwrapped);
                (verb.name, set_brief_defaults(verb.name, call.arguments.clone()))
            }
            Some(FoundTool::Workflow { sync }) => {
                let arguments = call.arguments.clone().unwrap_or_default();
                let mut params = json!({"name": call.name, "arguments": arguments, "detail": RunDetail::Brief});
                if sync {
                    params["wait_seconds"] = RUN_TIMEOUT_SECONDS.into();
                }
                (CallTool::NAME, params)
            }
        };
        let starts_run = [RunWorkflow::NAME, CallTool::NAME].contains(&verb);
        if starts_run && call.client.supports_tasks() && matches!(call.round.input, ClientInput::Nothing) {
            return match tasks::start_task(verb, params, &self.daemon_for_client(&call.client)).await {
                Ok(Ok(task)) => Outcome::Done(ToolReply::Task(task)),
                Ok(Err((reply, warnings))) => {
                    let form = reply_form(verb, call.arguments.as_ref(), &call.client);
                    let result = tool_result(verb, reply, warnings, form);
                    Outcome::Done(ToolReply::Result(result))
                }
                Err(error) => Outcome::Done(ToolReply::Result(error_result(verb, &call.name, &error))),
            };
        }
        self.run(verb, params, call).await
    }

    fn prompts(&self) -> CachedList<Prompt> {
        prompts::all()
    }

    async fn prompt(&self, call: &mut Call<'_>) -> Outcome<GetPromptResult> {
        prompts::expand(&call.name, call.arguments.as_ref(), &self.daemon_for_client(&call.client)).await
    }

    async fn resources(&self, client: &ClientContext<'_>) -> Result<CachedList<Resource>, ErrorData> {
        let mut list = resources::all(&self.daemon_for_client(client)).await.map_err(|error| internal_error(&error))?;
        if ClientTraits::new(client).shows_apps {
            list.items.push(app::resource());
        }
        Ok(list)
    }

    fn templates(&self) -> CachedList<ResourceTemplate> {
        resources::templates()
    }

    async fn read(&self, uri: &str, _client: &ClientContext<'_>) -> Result<Option<Vec<ResourceContents>>, ErrorData> {
        if let Some(page) = app::read(uri) {
            return Ok(Some(vec![page]));
        }
        resources::read(uri, &self.viewer).await.map_err(|error| internal_error(&error))
    }

    async fn skills(&self, client: &ClientContext<'_>) -> Result<CachedList<SkillPackage>, ErrorData> {
        let items = skills::all(&self.daemon_for_client(client)).await.map_err(|error| internal_error(&error))?;
        Ok(CachedList { items, ttl_ms: SKILLS_TTL_MS })
    }

    async fn skill(&self, name: &SkillName, client: &ClientContext<'_>) -> Result<Option<SkillPackage>, ErrorData> {
        skills::find(name, &self.daemon_for_client(client)).await.map_err(|error| internal_error(&error))
    }

    async fn follow(&self, uri: &str) -> Result<Option<Updates>, ErrorData> {
        resources::follow(uri, self.clients.unnamed()).await.map_err(|error| internal_error(&error))
    }

    async fn complete(&self, what: &Reference, argument: &ArgumentInfo) -> Vec<String> {
        resources::complete(what, argument, self.clients.unnamed()).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "completions are not available");
            Vec::new()
        })
    }

    async fn task(&self, id: &str, client: &ClientContext<'_>) -> Result<Option<DetailedTask>, ErrorData> {
        self.elicitor.task(id, &self.daemon_for_client(client), client).await.map_err(|error| internal_error(&error))
    }

    async fn answer_task(
        &self,
        id: &str,
        responses: InputResponses,
        client: &ClientContext<'_>,
    ) -> Result<bool, ErrorData> {
        self.elicitor
            .submit_answers(id, responses, &self.daemon_for_client(client), client)
            .await
            .map_err(|error| internal_error(&error))
    }

    async fn cancel_task(&self, id: &str, client: &ClientContext<'_>) -> Result<bool, ErrorData> {
        tasks::cancel(id, &self.daemon_for_client(client)).await.map_err(|error| internal_error(&error))
    }

    fn changes(&self) -> broadcast::Receiver<ListChange> {
        self.registry.changes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Document 000, line 184: `success` means a completed run, and `isError` a failed one.
    #[test]
    fn workflow_tool_is_an_error_only_if_its_run_failed() {
        for (status, is_error) in
            [("running", false), ("waiting", false), ("completed", false), ("cancelled", false), ("failed", true)]
        {
            let result = workflow_result(
                json!({"success": status == "completed", "status": status}),
                Vec::new(),
                ReplyForm::Structured,
            );
            assert_eq!(result.is_error, Some(is_error), "{status}");
        }
    }

    #[test]
    fn short_text_keeps_every_field_of_a_workflows_result() {
        let result = json!({"correlationId": "c", "originalWorkflowId": "o", "success": false, "pid": 5, "cursor": null,
            "runs": [{"a": null}], "empty": ""});
        let reply = json!({"success": true, "run_id": "run_1", "status": "completed", "result": result});
        let form = ReplyForm::Text { verb: CallTool::NAME, arguments: None };
        let formatted = tool_result(CallTool::NAME, reply.clone(), Vec::new(), form);
        let text = &serde_json::to_value(&formatted.content).unwrap()[0]["text"];
        let text: Value = serde_json::from_str(text.as_str().unwrap()).unwrap();
        assert_eq!(text, json!({"result": result, "run_id": "run_1", "status": "completed"}));
        let structured =
            tool_result(CallTool::NAME, reply, Vec::new(), ReplyForm::Structured).structured_content.unwrap();
        assert_eq!(structured["correlationId"], "c", "{structured}");
    }

    #[test]
    fn instructions_are_short_and_name_existing_tools() {
        assert!(INSTRUCTIONS.len() <= 2048, "{} bytes", INSTRUCTIONS.len());
        let words = INSTRUCTIONS.split(|character: char| !character.is_ascii_lowercase() && character != '_');
        let fields = [
            "session_id",
            "exit_code",
            "since_input",
            "run_id",
            "pending_gate",
            "next_step",
            "workflow_name",
            "workflow_",
        ];
        for word in words.filter(|word| word.contains('_') && !fields.contains(word)) {
            assert!(tools::find_tool(word).is_some() || word == more_tools::MORE_TOOLS, "{word}");
        }
    }
}
