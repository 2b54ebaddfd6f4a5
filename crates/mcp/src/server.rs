//! The MCP protocol, independent of the offer.
//!
//! One [`Server`] serves one client: over standard input and output, a session over HTTP, or, since 2026-07-28, a
//! single request over HTTP. All servers of a process share the offer and the seals; a client's subscriptions belong to
//! its server, and end with it.

use std::sync::Arc;

use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CancelTaskParams, CompleteRequestParams, CompleteResult,
    CompletionInfo, DiscoverResult, GetPromptRequestParams, GetPromptResponse, GetSkillRequestParams, GetSkillResult,
    GetTaskParams, GetTaskResult, ListPromptsResult, ListResourceTemplatesResult, ListResourcesResult,
    ListSkillsResult, ListToolsResult, MetaObject, PaginatedRequestParams, ReadResourceDirectoryRequestParams,
    ReadResourceDirectoryResult, ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, SKILL_MD,
    ServerConfig, SetLevelRequestMethod, SubscribeRequestParams, SubscriptionFilter, Tool, UnsubscribeRequestParams,
    UpdateTaskParams,
};
use rmcp::service::{NotificationContext, RequestContext, SubscriptionContext};
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::listeners::{Listeners, listen, notify_of_changes};
use crate::offer::{Call, ClientContext, Outcome, ServerBackend, ToolReply};
use crate::questions::{ActiveCall, IncomingCall};
use crate::seal::Seals;
use crate::skills::{self, SkillPackage};

/// Key of the server's identity in the metadata of a result (2026-07-28).
const SERVER_INFO: &str = "io.modelcontextprotocol/serverInfo";

/// Lifetime of the server's identity in a client's cache, in milliseconds.
const IDENTITY_TTL_MS: u64 = 3_600_000;

/// A server for one MCP client.
#[derive(Debug)]
pub struct Server<O> {
    pub(crate) shared: Arc<Shared<O>>,
    /// Cancelled when the client disconnects, or the server shuts down.
    shutdown: CancellationToken,
    /// The client's subscriptions.
    listeners: Arc<Listeners>,
}

/// State that all servers of a process share.
#[derive(Debug)]
pub(crate) struct Shared<O> {
    pub(crate) offer: O,
    pub(crate) seals: Seals,
}

impl<O: ServerBackend> Server<O> {
    pub(crate) fn new(shared: Arc<Shared<O>>, shutdown: CancellationToken) -> Self {
        Self { shared, shutdown, listeners: Arc::default() }
    }

    fn offer(&self) -> &O {
        &self.shared.offer
    }

    /// Runs a future until the request is cancelled. A cancellation ends only the wait; the awaited run continues.
    async fn run_cancellable<T>(
        &self,
        context: &RequestContext<RoleServer>,
        work: impl Future<Output = Result<T, ErrorData>>,
    ) -> Result<T, ErrorData> {
        tokio::select! {
            // Poll the work first, so that it withdraws an open question of this call.
            biased;
            result = work => result,
            () = context.ct.cancelled() => Err(ErrorData::internal_error("the call was cancelled", None)),
            () = self.shutdown.cancelled() => Err(ErrorData::internal_error("the server is shutting down", None)),
        }
    }

    /// Adds the server's identity to a result, for clients without a session.
    fn with_identity(&self, meta: Option<MetaObject>, context: &RequestContext<RoleServer>) -> Option<MetaObject> {
        if !ClientContext::new(context).is_modern() {
            return meta;
        }
        let mut meta = meta.unwrap_or_default();
        let identity =
            serde_json::to_value(self.offer().server_config().server_info).expect("an identity contains only JSON");
        meta.0.insert(SERVER_INFO.to_owned(), identity);
        Some(meta)
    }

    async fn run_tool_call(&self, mut active_call: ActiveCall<'_>) -> Result<CallToolResponse, ErrorData> {
        let context = active_call.call.client.context();
        loop {
            return match self.offer().call(&mut active_call.call).await {
                Outcome::Done(ToolReply::Result(mut result)) => {
                    result.meta = self.with_identity(result.meta, context);
                    Ok(result.into())
                }
                Outcome::Done(ToolReply::Task(mut task)) => {
                    task.meta = self.with_identity(task.meta, context);
                    Ok(task.into())
                }
                Outcome::InputRequired(questions) => match active_call.ask_client(questions, &self.shared.seals).await?
                {
                    Some(mut input) => {
                        input.meta = self.with_identity(input.meta, context);
                        Ok(input.into())
                    }
                    None => continue,
                },
                Outcome::Unknown => Err(self.unknown_tool_error(&active_call.call).await),
                Outcome::Refused(error) => Err(error),
            };
        }
    }

    async fn unknown_tool_error(&self, call: &Call<'_>) -> ErrorData {
        let tools = self.offer().tools(Some(&call.client)).await;
        let names: Vec<_> = tools.items.into_iter().map(|tool| tool.name).collect();
        let name = shorten_name(&call.name);
        ErrorData::invalid_params(format!("there is no tool '{name}'; the tools are {}", names.join(", ")), None)
    }

    async fn expand_prompt(&self, mut active_call: ActiveCall<'_>) -> Result<GetPromptResponse, ErrorData> {
        let context = active_call.call.client.context();
        loop {
            return match self.offer().prompt(&mut active_call.call).await {
                Outcome::Done(mut result) => {
                    result.meta = self.with_identity(result.meta, context);
                    Ok(result.into())
                }
                Outcome::InputRequired(questions) => match active_call.ask_client(questions, &self.shared.seals).await?
                {
                    Some(mut input) => {
                        input.meta = self.with_identity(input.meta, context);
                        Ok(input.into())
                    }
                    None => continue,
                },
                Outcome::Unknown => {
                    let names: Vec<_> = self.offer().prompts().items.into_iter().map(|prompt| prompt.name).collect();
                    let name = shorten_name(&active_call.call.name);
                    let error = format!("there is no prompt '{name}'; the prompts are {}", names.join(", "));
                    Err(ErrorData::invalid_params(error, None))
                }
                Outcome::Refused(error) => Err(error),
            };
        }
    }
}

/// Shortens a foreign name for use in an error message.
fn shorten_name(name: &str) -> String {
    name.chars().filter(|character| !character.is_control()).take(80).collect()
}

fn unknown_resource_error(uri: &str) -> ErrorData {
    let error = "there is no such resource; resources/list lists the resources, resources/templates/list the kinds";
    ErrorData::resource_not_found(error, Some(json!({ "uri": uri })))
}

fn unknown_skill_error(uri: &str) -> ErrorData {
    let error = format!("there is no skill at '{}'; skills/list lists the skills", shorten_name(uri));
    ErrorData::invalid_params(error, None)
}

fn unknown_directory_error(uri: &str) -> ErrorData {
    ErrorData::invalid_params(format!("'{}' is not a directory of a skill", shorten_name(uri)), None)
}

fn unknown_task_error(id: &str) -> ErrorData {
    let error = format!("there is no task '{}'; list_runs lists the runs", shorten_name(id));
    ErrorData::invalid_params(error, None)
}

/// Rejects cursors: every list has one page, because lists are short and some clients do not support pages.
fn check_first_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(cursor) => {
            let error = format!("there is no page '{}': every list has only one page", shorten_name(&cursor));
            Err(ErrorData::invalid_params(error, None))
        }
    }
}

impl<O: ServerBackend> ServerHandler for Server<O> {
    fn get_info(&self) -> ServerConfig {
        self.offer().server_config()
    }

    async fn discover(&self, _context: RequestContext<RoleServer>) -> Result<DiscoverResult, ErrorData> {
        let versions = self.supported_protocol_versions().into_owned();
        let result = DiscoverResult::from_server_info(versions, self.get_info());
        Ok(result.with_ttl_ms(IDENTITY_TTL_MS).with_cache_scope(CacheScope::Public))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        notify_of_changes(&self.listeners, self.offer().changes(), context.peer, &self.shutdown);
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        check_first_page(request)?;
        let cached_list = self.offer().tools(Some(&ClientContext::new(&context))).await;
        let mut list = ListToolsResult::with_all_items(cached_list.items);
        list.meta = self.with_identity(list.meta, &context);
        // Clients receive different lists.
        Ok(list.with_ttl_ms(cached_list.ttl_ms).with_cache_scope(CacheScope::Private))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.offer().tool(name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let incoming_call = IncomingCall {
            method: "tools/call",
            name: request.name.into_owned(),
            arguments: request.arguments,
            answers: request.input_responses,
            state: request.request_state,
            client: ClientContext::new(&context),
        };
        let active_call = ActiveCall::new(incoming_call, &self.shared.seals).await?;
        // The library moves the future of a request several times.
        Box::pin(self.run_cancellable(&context, self.run_tool_call(active_call))).await
    }

    async fn list_prompts(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        check_first_page(request)?;
        let cached_list = self.offer().prompts();
        let mut list = ListPromptsResult::with_all_items(cached_list.items);
        list.meta = self.with_identity(list.meta, &context);
        Ok(list.with_ttl_ms(cached_list.ttl_ms).with_cache_scope(CacheScope::Public))
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let incoming_call = IncomingCall {
            method: "prompts/get",
            name: request.name,
            arguments: request.arguments,
            answers: request.input_responses,
            state: request.request_state,
            client: ClientContext::new(&context),
        };
        let active_call = ActiveCall::new(incoming_call, &self.shared.seals).await?;
        Box::pin(self.run_cancellable(&context, self.expand_prompt(active_call))).await
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        check_first_page(request)?;
        let client = ClientContext::new(&context);
        let list_all = async {
            let mut resources = self.offer().resources(&client).await?;
            resources.items.extend(self.offer().skills(&client).await?.items.iter().map(SkillPackage::resource));
            Ok(resources)
        };
        let cached_list = self.run_cancellable(&context, list_all).await?;
        let mut list = ListResourcesResult::with_all_items(cached_list.items);
        list.meta = self.with_identity(list.meta, &context);
        Ok(list.with_ttl_ms(cached_list.ttl_ms).with_cache_scope(CacheScope::Private))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        check_first_page(request)?;
        let cached_list = self.offer().templates();
        let mut list = ListResourceTemplatesResult::with_all_items(cached_list.items);
        list.meta = self.with_identity(list.meta, &context);
        Ok(list.with_ttl_ms(cached_list.ttl_ms).with_cache_scope(CacheScope::Public))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let client = ClientContext::new(&context);
        let read = async {
            match skills::parse_uri(&request.uri) {
                Some((name, path)) => {
                    let skill = self.offer().skill(&name, &client).await?;
                    Ok(skill.and_then(|skill| skill.read(path)).map(|content| vec![content]))
                }
                None => self.offer().read(&request.uri, &client).await,
            }
        };
        let contents = self.run_cancellable(&context, read).await?;
        let mut result = ReadResourceResult::new(contents.ok_or_else(|| unknown_resource_error(&request.uri))?);
        result.meta = self.with_identity(result.meta, &context);
        // A live resource may change at any moment.
        Ok(result.with_ttl_ms(0).with_cache_scope(CacheScope::Private).into())
    }

    async fn list_skills(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListSkillsResult, ErrorData> {
        check_first_page(request)?;
        let client = ClientContext::new(&context);
        let cached_list = self.run_cancellable(&context, self.offer().skills(&client)).await?;
        let mut list = ListSkillsResult::with_all_items(cached_list.items.iter().map(SkillPackage::entry).collect());
        list.meta = self.with_identity(list.meta, &context);
        Ok(list.with_ttl_ms(cached_list.ttl_ms).with_cache_scope(CacheScope::Private))
    }

    async fn get_skill(
        &self,
        request: GetSkillRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetSkillResult, ErrorData> {
        let client = ClientContext::new(&context);
        let skill = match skills::parse_uri(&request.uri) {
            Some((name, SKILL_MD)) => self.run_cancellable(&context, self.offer().skill(&name, &client)).await?,
            _ => None,
        };
        let mut result = GetSkillResult::new(skill.ok_or_else(|| unknown_skill_error(&request.uri))?.entry());
        result.meta = self.with_identity(result.meta, &context);
        Ok(result.with_ttl_ms(0).with_cache_scope(CacheScope::Private))
    }

    async fn read_resource_directory(
        &self,
        request: ReadResourceDirectoryRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceDirectoryResult, ErrorData> {
        let client = ClientContext::new(&context);
        let children = match skills::parse_uri(&request.uri) {
            Some((name, path)) => {
                let skill = self.run_cancellable(&context, self.offer().skill(&name, &client)).await?;
                skill.and_then(|skill| skill.children(path))
            }
            None => None,
        };
        let children = children.ok_or_else(|| unknown_directory_error(&request.uri))?;
        let mut result = ReadResourceDirectoryResult::with_all_items(children);
        result.meta = self.with_identity(result.meta, &context);
        Ok(result)
    }

    async fn subscribe(
        &self,
        request: SubscribeRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.listeners.check_limit(&request.uri)?;
        let updates = self.offer().follow(&request.uri).await?.ok_or_else(|| unknown_resource_error(&request.uri))?;
        self.listeners.subscribe(request.uri, updates, context.peer.clone(), &self.shutdown)
    }

    async fn unsubscribe(
        &self,
        request: UnsubscribeRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        self.listeners.unsubscribe(&request.uri);
        Ok(())
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        // Accept the requested filter, because the protocol library removes parts that this server does not announce.
        let mut accepted = SubscriptionFilter::default();
        accepted.tools_list_changed = requested.tools_list_changed;
        accepted.prompts_list_changed = requested.prompts_list_changed;
        accepted.resource_subscriptions =
            requested.resource_subscriptions.clone().map(crate::listeners::limit_resources);
        self.listeners.accept(self.offer().changes());
        Some(accepted)
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let changes = self.listeners.take_accepted().unwrap_or_else(|| self.offer().changes());
        listen(self.offer(), changes, context, &self.shutdown).await
    }

    async fn complete(
        &self,
        request: CompleteRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        let complete = async { Ok(self.offer().complete(&request.r#ref, &request.argument).await) };
        let mut values = self.run_cancellable(&context, complete).await?;
        let total = values.len();
        values.truncate(CompletionInfo::MAX_VALUES);
        let has_more = total > values.len();
        let info = CompletionInfo::with_pagination(values, u32::try_from(total).ok(), has_more);
        let mut result = CompleteResult::new(info.expect("the list was cut to the maximum"));
        result.meta = self.with_identity(result.meta, &context);
        Ok(result)
    }

    #[expect(deprecated, reason = "older clients may still send this request")]
    async fn set_level(
        &self,
        _request: rmcp::model::SetLevelRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        // The server logs to stderr. An offer that announces logging to clients sends all its log messages itself.
        match self.offer().server_config().capabilities.logging {
            Some(_) => Ok(()),
            None => Err(ErrorData::method_not_found::<SetLevelRequestMethod>()),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        let client = ClientContext::new(&context);
        let task = self.run_cancellable(&context, self.offer().task(&request.task_id, &client)).await?;
        let mut result = GetTaskResult::new(task.ok_or_else(|| unknown_task_error(&request.task_id))?);
        result.meta = self.with_identity(result.meta, &context);
        Ok(result)
    }

    async fn update_task(
        &self,
        request: UpdateTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = ClientContext::new(&context);
        let answer = self.offer().answer_task(&request.task_id, request.input_responses, &client);
        if self.run_cancellable(&context, answer).await? { Ok(()) } else { Err(unknown_task_error(&request.task_id)) }
    }

    async fn cancel_task(
        &self,
        request: CancelTaskParams,
        context: RequestContext<RoleServer>,
    ) -> Result<(), ErrorData> {
        let client = ClientContext::new(&context);
        let cancel = self.offer().cancel_task(&request.task_id, &client);
        if self.run_cancellable(&context, cancel).await? { Ok(()) } else { Err(unknown_task_error(&request.task_id)) }
    }
}
