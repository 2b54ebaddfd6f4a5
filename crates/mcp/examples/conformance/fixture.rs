//! The tools, prompts and resources that the conformance suite expects.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rmcp::ErrorData;
use rmcp::model::{
    ArgumentInfo, CallToolResult, ClientCapabilities, ContentBlock, DetailedTask, GetPromptResult, Implementation,
    InitializeResult, InputResponses, JsonObject, Prompt, PromptArgument, PromptMessage, Reference, Resource,
    ResourceContents, ResourceTemplate, Role, ServerCapabilities, ServerConfig, Tool,
};
use serde_json::{Value, json};
use steplatch_mcp::offer::{CachedList, Call, ClientContext, ListChange, Outcome, ToolReply, Updates};
use steplatch_mcp::{ServerBackend, SkillPackage};
use steplatch_protocol::SkillName;
use tokio::sync::{broadcast, mpsc};

use crate::jobs::Jobs;
use crate::rounds;

/// An image of one red pixel.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==";

/// An audio file without samples.
const WAV: &str = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA=";

/// Duration of one step in tools that only wait.
const STEP_DURATION: Duration = Duration::from_millis(50);

/// A server backend with the names that the suite expects.
#[derive(Debug)]
pub(crate) struct Fixture {
    jobs: Jobs,
    changes: broadcast::Sender<ListChange>,
    /// True if the additional tool is listed.
    lists_extra_tool: AtomicBool,
    /// True if the additional prompt is listed.
    lists_extra_prompt: AtomicBool,
}

impl Default for Fixture {
    fn default() -> Self {
        Self {
            jobs: Jobs::default(),
            changes: broadcast::Sender::new(16),
            lists_extra_tool: AtomicBool::default(),
            lists_extra_prompt: AtomicBool::default(),
        }
    }
}

/// Returns the successful result of a tool, as text.
pub(crate) fn text_result(text: impl Into<String>) -> Outcome<ToolReply> {
    Outcome::Done(ToolReply::Result(CallToolResult::success(vec![ContentBlock::text(text.into())])))
}

/// Returns the successful result of a tool.
fn content_result(content: Vec<ContentBlock>) -> Outcome<ToolReply> {
    Outcome::Done(ToolReply::Result(CallToolResult::success(content)))
}

/// Returns an error for invalid parameters.
pub(crate) fn invalid_params(error: &str) -> ErrorData {
    ErrorData::invalid_params(error.to_owned(), None)
}

fn object(schema: Value) -> JsonObject {
    match schema {
        Value::Object(object) => object,
        _ => unreachable!("schemas are objects"),
    }
}

/// Returns every tool, with its description and its schema.
/// A skill with a directory.
fn skill() -> SkillPackage {
    let name = "test-skill".parse().expect("the name is permitted");
    SkillPackage::new(name, "A skill of the suite", "# Test\n\nSee [references/more.md](references/more.md).\n")
        .with_file("references/more.md", "text/markdown", "# More\n".to_owned())
}

fn tools() -> Vec<Tool> {
    let no_arguments = || json!({"type": "object", "properties": {}});
    let text_argument =
        |name: &str| json!({"type": "object", "properties": {name: {"type": "string"}}, "required": [name]});
    let names_without_arguments = [
        "test_simple_text",
        "test_image_content",
        "test_audio_content",
        "test_embedded_resource",
        "test_multiple_content_types",
        "test_error_handling",
        "test_tool_with_progress",
        "test_tool_with_logging",
        "test_logging_tool",
        "test_reconnection",
        "test_trigger_tool_change",
        "test_trigger_prompt_change",
        "test_missing_capability",
        "failing_job",
        "protocol_error_job",
        "multi_input",
    ];
    let mut all: Vec<(&str, Value)> =
        names_without_arguments.into_iter().chain(rounds::TOOLS).map(|name| (name, no_arguments())).collect();
    let seconds = json!({"type": "object", "required": ["seconds"], "properties": {
        "seconds": {"type": "number", "minimum": 0}, "label": {"type": "string"}}});
    let header = json!({"type": "object", "required": ["region"], "properties": {
        "region": {"type": "string", "x-mcp-header": "Region"}}});
    all.extend([
        ("test_sampling", text_argument("prompt")),
        ("test_elicitation", text_argument("message")),
        ("json_schema_2020_12_tool", json_schema_2020_12()),
        ("test_custom_header", header),
        ("greet", text_argument("name")),
        ("slow_compute", seconds),
        ("confirm_delete", text_argument("filename")),
    ]);
    all.sort_by_key(|(name, _)| *name);
    let to_tool = |(name, schema): (&str, Value)| {
        Tool::new(name.to_owned(), format!("The suite's {name}"), std::sync::Arc::new(object(schema)))
    };
    all.into_iter().map(to_tool).collect()
}

/// Returns a schema with keywords of JSON Schema 2020-12.
fn json_schema_2020_12() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object", "properties": {
            "street": {"type": "string"}, "city": {"type": "string"}}}},
        "properties": {
            "name": {"type": "string"},
            "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"},
            "email": {"type": "string"},
        },
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]},
        "else": {"required": ["email"]},
        "additionalProperties": false,
    })
}

/// Sends a log message: to every client before 2026-07-28, since then to clients that request logs with the call.
#[expect(deprecated, reason = "the suite still tests logging")]
async fn log(client: &ClientContext<'_>, message: &str) {
    let context = client.context();
    if client.is_modern() && context.meta.log_level().is_none() {
        return;
    }
    let message = rmcp::model::LoggingMessageNotificationParam::new(rmcp::model::LoggingLevel::Info, json!(message));
    // Ignore the error, because the client has disconnected.
    let _ = context.peer.notify_logging_message(message).await;
}

impl Fixture {
    /// Calls a tool that requests no input.
    async fn call_plain_tool(&self, call: &mut Call<'_>) -> Outcome<ToolReply> {
        match call.name.as_str() {
            "test_simple_text" => text_result("This is a simple text response for testing."),
            "test_image_content" => content_result(vec![ContentBlock::image(PNG, "image/png")]),
            "test_audio_content" => content_result(vec![ContentBlock::audio(WAV, "audio/wav")]),
            "test_embedded_resource" => {
                let text = "This is an embedded resource content.";
                content_result(vec![ContentBlock::resource(ResourceContents::text(text, "test://embedded-resource"))])
            }
            "test_multiple_content_types" => {
                let data = json!({"test": "data", "value": 123}).to_string();
                let resource = ResourceContents::text(data, "test://mixed-content-resource");
                content_result(vec![
                    ContentBlock::text("Multiple content types test:"),
                    ContentBlock::image(PNG, "image/png"),
                    ContentBlock::resource(resource.with_mime_type("application/json")),
                ])
            }
            "test_error_handling" => {
                let error = "This tool intentionally returns an error for testing";
                Outcome::Done(ToolReply::Result(CallToolResult::error(vec![ContentBlock::text(error)])))
            }
            "test_tool_with_progress" => {
                for percent in [0.0, 50.0, 100.0] {
                    if let Some(progress) = &mut call.progress {
                        progress.report(percent, Some(100.0)).await;
                    }
                    tokio::time::sleep(STEP_DURATION).await;
                }
                text_result("Three steps were completed.")
            }
            "test_tool_with_logging" | "test_logging_tool" => {
                for message in ["Tool execution started", "Tool processing data", "Tool execution completed"] {
                    log(&call.client, message).await;
                    tokio::time::sleep(STEP_DURATION).await;
                }
                text_result("Three messages were logged.")
            }
            "test_reconnection" => {
                tokio::time::sleep(STEP_DURATION).await;
                text_result("Reconnection test completed successfully")
            }
            "test_trigger_tool_change" => {
                self.lists_extra_tool.fetch_not(Ordering::Relaxed);
                let _ = self.changes.send(ListChange::Tools);
                text_result("The list of tools changed.")
            }
            "test_trigger_prompt_change" => {
                self.lists_extra_prompt.fetch_not(Ordering::Relaxed);
                let _ = self.changes.send(ListChange::Prompts);
                text_result("The list of prompts changed.")
            }
            "test_missing_capability" => {
                let capabilities = call.client.context().client_capabilities().unwrap_or_default();
                match capabilities.sampling {
                    Some(_) => text_result("The client can sample."),
                    None => {
                        let mut required = ClientCapabilities::default();
                        required.sampling = Some(Default::default());
                        Outcome::Refused(ErrorData::missing_required_client_capability(required))
                    }
                }
            }
            "json_schema_2020_12_tool" | "test_custom_header" => {
                let arguments = Value::Object(call.arguments.clone().unwrap_or_default());
                text_result(format!("Called with {arguments}"))
            }
            "greet" => match call.arguments.as_ref().and_then(|arguments| arguments.get("name")?.as_str()) {
                Some(name) => text_result(format!("Hello, {name}!")),
                None => Outcome::Refused(invalid_params("'name' must be a string")),
            },
            _ => Outcome::Unknown,
        }
    }
}

impl ServerBackend for Fixture {
    #[expect(deprecated, reason = "the suite still tests logging")]
    fn server_config(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder()
            .enable_logging()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_resources()
            .enable_resources_subscribe()
            .enable_prompts()
            .enable_prompts_list_changed()
            .enable_completions()
            .enable_tasks()
            .enable_skills_with_directory_read()
            .build();
        let mut result = InitializeResult::new(capabilities);
        result.server_info = Implementation::new("steplatch-conformance", env!("CARGO_PKG_VERSION"));
        result
    }

    async fn tools(&self, _client: Option<&ClientContext<'_>>) -> CachedList<Tool> {
        let mut items = tools();
        if self.lists_extra_tool.load(Ordering::Relaxed) {
            let no_arguments = object(json!({"type": "object", "properties": {}}));
            items.push(Tool::new("zz_one_more", "A tool that is listed on request", std::sync::Arc::new(no_arguments)));
        }
        CachedList { items, ttl_ms: 1000 }
    }

    fn tool(&self, name: &str) -> Option<Tool> {
        tools().into_iter().find(|tool| tool.name == name)
    }

    async fn call(&self, call: &mut Call<'_>) -> Outcome<ToolReply> {
        if let Some(outcome) = rounds::call(call, &self.jobs) {
            return outcome;
        }
        match self.jobs.call(call).await {
            Some(outcome) => outcome,
            None => self.call_plain_tool(call).await,
        }
    }

    fn prompts(&self) -> CachedList<Prompt> {
        let argument = |name: &str| PromptArgument::new(name).with_description("A test argument").with_required(true);
        let prompt = |name: &str, arguments: &[&str]| {
            let arguments = arguments.iter().map(|name| argument(name)).collect();
            Prompt::new(name, Some(format!("The suite's {name}")), Some(arguments))
        };
        let mut items = vec![
            prompt(rounds::PROMPT, &[]),
            prompt("test_prompt_with_arguments", &["arg1", "arg2"]),
            prompt("test_prompt_with_embedded_resource", &["resourceUri"]),
            prompt("test_prompt_with_image", &[]),
            prompt("test_simple_prompt", &[]),
        ];
        if self.lists_extra_prompt.load(Ordering::Relaxed) {
            items.push(prompt("zz_one_more", &[]));
        }
        CachedList { items, ttl_ms: 1000 }
    }

    async fn prompt(&self, call: &mut Call<'_>) -> Outcome<GetPromptResult> {
        let arguments = call.arguments.clone().unwrap_or_default();
        let argument = |name: &str| arguments.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let user = |content| PromptMessage::new(Role::User, content);
        let messages = match call.name.as_str() {
            rounds::PROMPT => return rounds::prompt(call),
            "test_simple_prompt" => vec![user(ContentBlock::text("This is a simple prompt for testing."))],
            "test_prompt_with_arguments" => {
                let (first, second) = (argument("arg1"), argument("arg2"));
                let text = format!("Prompt with arguments: arg1='{first}', arg2='{second}'");
                vec![user(ContentBlock::text(text))]
            }
            "test_prompt_with_embedded_resource" => {
                let text = "Embedded resource content for testing.";
                let resource = ResourceContents::text(text, argument("resourceUri"));
                let instruction = ContentBlock::text("Please process the embedded resource above.");
                vec![user(ContentBlock::resource(resource)), user(instruction)]
            }
            "test_prompt_with_image" => {
                let instruction = ContentBlock::text("Please analyze the image above.");
                vec![user(ContentBlock::image(PNG, "image/png")), user(instruction)]
            }
            _ => return Outcome::Unknown,
        };
        Outcome::Done(GetPromptResult::new(messages))
    }

    async fn resources(&self, _client: &ClientContext<'_>) -> Result<CachedList<Resource>, ErrorData> {
        let resource =
            |uri: &str, kind: &str| Resource::new(uri, uri).with_description("A test resource").with_mime_type(kind);
        let items = vec![
            resource("test://static-text", "text/plain"),
            resource("test://static-binary", "image/png"),
            resource("test://watched-resource", "text/plain"),
        ];
        Ok(CachedList { items, ttl_ms: 1000 })
    }

    fn templates(&self) -> CachedList<ResourceTemplate> {
        let template = ResourceTemplate::new("test://template/{id}/data", "template")
            .with_description("A test template")
            .with_mime_type("application/json");
        CachedList { items: vec![template], ttl_ms: 1000 }
    }

    async fn read(&self, uri: &str, _client: &ClientContext<'_>) -> Result<Option<Vec<ResourceContents>>, ErrorData> {
        let id = uri.strip_prefix("test://template/").and_then(|rest| rest.strip_suffix("/data"));
        let content = match uri {
            "test://static-text" => ResourceContents::text("This is the content of the static text resource.", uri),
            "test://static-binary" => ResourceContents::blob(PNG, uri).with_mime_type("image/png"),
            "test://watched-resource" => ResourceContents::text("Watched resource content", uri),
            _ => match id {
                Some(id) => {
                    let data = json!({"id": id, "templateTest": true, "data": format!("Data for ID: {id}")});
                    ResourceContents::text(data.to_string(), uri).with_mime_type("application/json")
                }
                None => return Ok(None),
            },
        };
        Ok(Some(vec![content]))
    }

    async fn skills(&self, _client: &ClientContext<'_>) -> Result<CachedList<SkillPackage>, ErrorData> {
        Ok(CachedList { items: vec![skill()], ttl_ms: 1000 })
    }

    async fn skill(&self, name: &SkillName, _client: &ClientContext<'_>) -> Result<Option<SkillPackage>, ErrorData> {
        Ok(Some(skill()).filter(|skill| skill.name() == name))
    }

    async fn follow(&self, uri: &str) -> Result<Option<Updates>, ErrorData> {
        let (sender, updates) = mpsc::channel(1);
        tokio::spawn(async move { sender.closed().await });
        Ok((uri == "test://watched-resource").then_some(updates))
    }

    async fn complete(&self, _reference: &Reference, argument: &ArgumentInfo) -> Vec<String> {
        let values = ["paris", "park", "party"].into_iter().filter(|value| value.starts_with(&argument.value));
        values.map(str::to_owned).collect()
    }

    async fn task(&self, id: &str, _client: &ClientContext<'_>) -> Result<Option<DetailedTask>, ErrorData> {
        Ok(self.jobs.detailed_task(id))
    }

    async fn answer_task(
        &self,
        id: &str,
        answers: InputResponses,
        _client: &ClientContext<'_>,
    ) -> Result<bool, ErrorData> {
        Ok(self.jobs.answer(id, &answers))
    }

    async fn cancel_task(&self, id: &str, _client: &ClientContext<'_>) -> Result<bool, ErrorData> {
        Ok(self.jobs.cancel(id))
    }

    fn changes(&self) -> broadcast::Receiver<ListChange> {
        self.changes.subscribe()
    }
}
