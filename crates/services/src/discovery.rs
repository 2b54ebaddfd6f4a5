//! Discovery: fetches the lists of services, at the start, at intervals and on request.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use steplatch_clock as clock;
use steplatch_nodes::{Call, Node, NodeEnvironment, Nodes};
use steplatch_remote::{Config, Listing, backoff, clean_text, jitter};

use super::catalog::CatalogDiff;
use super::service::ServiceClient;
use crate::error::{DiscoveryError, SharedDiscoveryError};
use crate::service::Service;
use crate::services::RemoteServices;

/// The result of a discovery.
pub(super) type DiscoveryResult = Result<CatalogDiff, SharedDiscoveryError>;

/// Maximum length of an MCP server's error, in characters.
const MAX_ERROR_CHARS: usize = 500;

/// Time limit for an MCP server to return its list.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// Keeps the list of a service up to date while the daemon runs.
pub(super) async fn run_discovery(remotes: RemoteServices, service: Arc<Service>) {
    let mut failures = 0;
    let mut last_client: Option<Arc<ServiceClient>> = None;
    loop {
        let setup = service.setup().filter(|setup| setup.config.enabled);
        let Some(setup) = setup else {
            // A disabled service receives no requests.
            for waiter in service.take_refresh_waiters() {
                let _ = waiter.send(Err(DiscoveryError::NotUsed { name: service.name.clone() }.into()));
            }
            last_client = None;
            service.wake.notified().await;
            continue;
        };
        let is_new = last_client.as_ref().is_none_or(|client| !Arc::ptr_eq(client, &setup));
        if is_new {
            failures = 0;
        }
        let delay = match (is_new, failures, setup.config.discovery_interval) {
            (true, ..) => Some(Duration::ZERO),
            (_, 0, interval) => interval,
            (_, failures, interval) => Some(backoff::discovery_delay(failures, interval, None, jitter())),
        };
        tokio::select! {
            () = service.wake.notified() => {
                if is_replaced(&service, &setup) {
                    continue;
                }
            }
            () = wait_for_delay(delay) => {}
        }
        // A later request waits for the next discovery.
        let waiters = service.take_refresh_waiters();
        let listing = discover(&setup).await;
        // The answer is obsolete if the configuration has changed in the meantime.
        if is_replaced(&service, &setup) {
            service.requeue_waiters(waiters);
            continue;
        }
        last_client = Some(setup.clone());
        // Storing the list writes the catalog to disk, and that may block.
        let (services, listed_service) = (remotes.clone(), service.clone());
        let storing = tokio::task::spawn_blocking(move || store_listing(&services, &listed_service, listing));
        let listing = storing.await.unwrap_or_else(|error| Err(DiscoveryError::NotStored(error).into()));
        failures = if listing.is_ok() { 0 } else { failures + 1 };
        for waiter in waiters {
            let _ = waiter.send(listing.clone());
        }
    }
}

fn is_replaced(service: &Service, setup: &Arc<ServiceClient>) -> bool {
    service.setup().is_none_or(|current| !Arc::ptr_eq(&current, setup))
}

/// Waits for a delay, or forever without one.
async fn wait_for_delay(delay: Option<Duration>) {
    match delay {
        Some(delay) => tokio::time::sleep(delay).await,
        None => std::future::pending().await,
    }
}

/// Stores the list of a service. After an error, the last list stays.
fn store_listing(
    remotes: &RemoteServices,
    service: &Service,
    listing: Result<Listing, DiscoveryError>,
) -> DiscoveryResult {
    match listing {
        Ok(listing) => {
            let skipped = listing.skipped.clone();
            for reason in &skipped {
                tracing::warn!(remote = service.name, reason, "an entry of a remote service's list is skipped");
            }
            let changed = remotes.inner.catalog.replace(&service.name, listing);
            {
                let mut health = service.health();
                (health.reachable, health.error, health.skipped) = (true, None, skipped);
                health.discovered = Some(clock::now());
            }
            if changed.added + changed.updated + changed.removed > 0 {
                let CatalogDiff { added, updated, removed, .. } = changed;
                tracing::info!(remote = service.name, added, updated, removed, "the list of a remote service changed");
                remotes.inner.listener.tools_changed();
            }
            Ok(changed)
        }
        Err(error) => {
            let message = error.to_string();
            tracing::warn!(
                remote = service.name,
                error = message,
                "a remote service did not return its list; the last list is kept"
            );
            let mut health = service.health();
            (health.reachable, health.error) = (false, Some(message));
            Err(error.into())
        }
    }
}

async fn discover(setup: &ServiceClient) -> Result<Listing, DiscoveryError> {
    setup.hide_token().await;
    match &setup.config.discovery_mcp {
        None => Ok(setup.client.list().await?),
        Some(url) => discover_over_mcp(&setup.config, url).await,
    }
}

/// Calls the tool `workflows-list-tool` of an MCP server.
async fn discover_over_mcp(config: &Config, url: &str) -> Result<Listing, DiscoveryError> {
    let token = match &config.token {
        Some(token) => Some(token.resolve().await?),
        None => None,
    };
    let mut server = json!({"url": url});
    let mut secrets = BTreeMap::new();
    if let Some(token) = &token {
        server["headers"] = json!({"Authorization": "Bearer {secret:TOKEN}"});
        secrets.insert("TOKEN".to_owned(), token.expose().to_owned());
    }
    let node = json!({"id": "discovery", "type": "mcp", "server": server, "tool": "workflows-list-tool"});
    let node = Node::parse(&node).map_err(DiscoveryError::Server)?;
    let node_environment = NodeEnvironment::of_this_process()?;
    let nodes = Nodes::new(NodeEnvironment { secrets: Arc::new(secrets), ..node_environment });
    let call = Call { timeout: Some(LIST_TIMEOUT), ..Call::new(Value::Null) };
    let result = nodes.run(&node, call).await;
    nodes.close().await;
    if !result.success {
        let message = result.error.unwrap_or_else(|| "The MCP server did not return its list.".to_owned());
        let message = clean_text(&message, MAX_ERROR_CHARS);
        return Err(DiscoveryError::Tool { message: token.map_or(message.clone(), |token| token.mask(&message)) });
    }
    // A tool without structured output returns it as text.
    let output = match result.output {
        Value::String(text) => json!({"content": [{"type": "text", "text": text}]}),
        structured => json!({"structuredContent": structured}),
    };
    Ok(Listing::from_tool_result(output).await?)
}
