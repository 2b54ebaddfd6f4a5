//! Times of fetching the lists of services, and the handling of the answers.

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
pub(super) type Refreshed = Result<CatalogDiff, SharedDiscoveryError>;

/// Maximum length of an MCP server's error, in characters.
const MAX_ERROR_CHARS: usize = 500;

/// Time limit for an MCP server to return its list.
const LIST_TIMEOUT: Duration = Duration::from_secs(60);

/// Keeps the list of a service up to date while the daemon runs.
pub(super) async fn keep_up(remotes: RemoteServices, service: Arc<Service>) {
    let mut failures = 0;
    let mut asked: Option<Arc<ServiceClient>> = None;
    loop {
        let setup = service.setup().filter(|setup| setup.config.enabled);
        let Some(setup) = setup else {
            // A service that is not in use receives no requests.
            for waiters in service.take_wanted() {
                let _ = waiters.send(Err(DiscoveryError::NotUsed { name: service.name.clone() }.into()));
            }
            asked = None;
            service.wake.notified().await;
            continue;
        };
        let is_new = asked.as_ref().is_none_or(|asked| !Arc::ptr_eq(asked, &setup));
        if is_new {
            failures = 0;
        }
        let due = match (is_new, failures, setup.config.discovery_interval) {
            (true, ..) => Some(Duration::ZERO),
            (_, 0, interval) => interval,
            (_, failures, interval) => Some(backoff::rediscovery(failures, interval, None, jitter())),
        };
        tokio::select! {
            () = service.wake.notified() => {
                let changed = service.setup().is_none_or(|now| !Arc::ptr_eq(&now, &setup));
                if changed {
                    continue;
                }
            }
            () = passed(due) => {}
        }
        // A later request waits for the next discovery.
        let waiters = service.take_wanted();
        let listing = discover(&setup).await;
        // The service has a new configuration in the meantime, so this drops the answer of the old one.
        if service.setup().is_none_or(|now| !Arc::ptr_eq(&now, &setup)) {
            service.put_back(waiters);
            continue;
        }
        asked = Some(setup.clone());
        // The catalog is written to disk, too.
        let (services, whose) = (remotes.clone(), service.clone());
        let taking = tokio::task::spawn_blocking(move || store_listing(&services, &whose, listing));
        let listing = taking.await.unwrap_or_else(|error| Err(DiscoveryError::NotStored(error).into()));
        failures = if listing.is_ok() { 0 } else { failures + 1 };
        for waiters in waiters {
            let _ = waiters.send(listing.clone());
        }
    }
}

async fn passed(due: Option<Duration>) {
    match due {
        Some(due) => tokio::time::sleep(due).await,
        None => std::future::pending().await,
    }
}

/// Stores the answer of a service; an invalid list leaves the last one unchanged.
fn store_listing(remotes: &RemoteServices, service: &Service, listing: Result<Listing, DiscoveryError>) -> Refreshed {
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
            let words = error.to_string();
            tracing::warn!(
                remote = service.name,
                error = words,
                "a remote service did not return its list; the last one is kept"
            );
            let mut health = service.health();
            (health.reachable, health.error) = (false, Some(words));
            Err(error.into())
        }
    }
}

async fn discover(setup: &ServiceClient) -> Result<Listing, DiscoveryError> {
    setup.hide_token().await;
    match &setup.config.discovery_mcp {
        None => Ok(setup.client.list().await?),
        Some(url) => over_mcp(&setup.config, url).await,
    }
}

/// Calls the tool `workflows-list-tool` of an MCP server.
async fn over_mcp(config: &Config, url: &str) -> Result<Listing, DiscoveryError> {
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
        let words = result.error.unwrap_or_else(|| "The MCP server did not tell its list.".to_owned());
        let words = clean_text(&words, MAX_ERROR_CHARS);
        return Err(DiscoveryError::Tool { words: token.map_or(words.clone(), |token| token.mask(&words)) });
    }
    // A tool without structured output returns it as text.
    let output = match result.output {
        Value::String(text) => json!({"content": [{"type": "text", "text": text}]}),
        structured => json!({"structuredContent": structured}),
    };
    Ok(Listing::of_tool_result(output).await?)
}
