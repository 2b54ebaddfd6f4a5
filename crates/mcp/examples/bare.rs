//! A minimal MCP server with one tool that does nothing, for benchmarks: it measures the cost of the protocol library
//! alone. `bare` serves standard input and output; `bare http` prints a port and serves /mcp there.
#![allow(clippy::print_stdout, reason = "the benchmark reads the port from standard output")]

use std::sync::Arc;

use axum::serve::ListenerExt as _;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, InitializeResult, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::async_rw::AsyncRwTransport;
use rmcp::transport::stdio_pipes;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};

#[derive(Clone)]
struct Bare;

fn tool() -> Tool {
    let schema = serde_json::json!({"type": "object", "properties": {}});
    Tool::new("nothing", "Does nothing", Arc::new(schema.as_object().cloned().unwrap_or_default()))
}

impl ServerHandler for Bare {
    fn get_info(&self) -> ServerConfig {
        InitializeResult::new(ServerCapabilities::builder().enable_tools().build())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(vec![tool()]))
    }

    async fn call_tool(
        &self,
        _request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        Ok(CallToolResult::structured(serde_json::json!({"success": true, "sessions": [], "total_sessions": 0})).into())
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    if std::env::args().nth(1).as_deref() != Some("http") {
        let (input, output) = stdio_pipes();
        Bare.serve(AsyncRwTransport::new_server(input, output)).await?.waiting().await?;
        return Ok(());
    }
    let service = StreamableHttpService::new(
        || Ok(Bare),
        Arc::new(LocalSessionManager::default()),
        StreamableHttpServerConfig::default(),
    );
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("{}", listener.local_addr()?.port());
    let listener = listener.tap_io(|stream| {
        // Without TCP_NODELAY a call takes 44 ms.
        let _ = stream.set_nodelay(true);
    });
    axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
    Ok(())
}
