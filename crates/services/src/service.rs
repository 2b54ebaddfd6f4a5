//! A service: its current configuration, its runs in progress, and its health.

use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use steplatch_access::Redactor;
use steplatch_remote::{Client, Config};
use steplatch_workflow::Timestamp;
use tokio::sync::{Notify, OnceCell, oneshot, watch};

use super::admission_queue::{AdmissionQueue, Permit};
use super::catalog::Catalog;
use super::discovery::DiscoveryResult;
use super::metrics::ServiceMetrics;
use crate::error::DiscoveryError;

/// A service with a present or past configuration. There is one service for each name, for as long as the daemon runs.
#[derive(Debug)]
pub struct Service {
    pub(crate) name: String,
    /// The client; `None` while the service is not configured.
    setup: watch::Sender<Option<Arc<ServiceClient>>>,
    queue: Arc<AdmissionQueue>,
    health: Mutex<Health>,
    /// Callers that wait for the result of the next discovery.
    refresh_waiters: Mutex<Vec<oneshot::Sender<DiscoveryResult>>>,
    pub(super) wake: Notify,
    /// Counters of the service's started and finished runs.
    pub metrics: ServiceMetrics,
}

/// A configured service and its client.
#[derive(Debug)]
pub struct ServiceClient {
    /// The configuration of the service.
    pub config: Config,
    /// The client that sends requests to the service.
    pub client: Client,
    secrets: Arc<Redactor>,
    /// Set once the token from a program, such as a keyring, is registered as a secret.
    token_registered: OnceCell<()>,
}

impl ServiceClient {
    /// Registers the current token as a secret, so that no output shows it. Reads a keyring only once, because it may
    /// have to prompt a person.
    pub async fn hide_token(&self) {
        let register = || async {
            if let Some(token) = &self.config.token {
                let token = token.resolve().await.map_err(drop)?;
                self.secrets.add(token.expose());
            }
            Ok::<_, ()>(())
        };
        // Ignore the error, because the request reports that there is no token.
        let _ = match &self.config.token {
            Some(token) if token.runs_program() => self.token_registered.get_or_try_init(register).await.map(drop),
            _ => register().await,
        };
    }
}

/// State of the last discovery.
#[derive(Debug, Clone, Default)]
pub(super) struct Health {
    pub(super) reachable: bool,
    /// Time of the last successful discovery.
    pub(super) discovered: Option<Timestamp>,
    pub(super) skipped: Vec<String>,
    pub(super) error: Option<String>,
}

impl Service {
    pub(super) fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            setup: watch::Sender::new(None),
            queue: AdmissionQueue::new(1),
            health: Mutex::default(),
            refresh_waiters: Mutex::default(),
            wake: Notify::new(),
            metrics: ServiceMetrics::default(),
        }
    }

    /// Applies a configuration. Fetches the list again if the change may affect it.
    pub(super) fn configure(&self, config: Config, secrets: &Arc<Redactor>, catalog: &Catalog) {
        self.queue.set_limit(config.max_concurrent_executions);
        if self.setup().is_some_and(|setup| setup.config == config) {
            return;
        }
        let client = match Client::new(&config) {
            Ok(client) => client,
            Err(error) => {
                // The reader of the configuration has refused this one already.
                tracing::error!(remote = self.name, %error, "the client of a remote service cannot be created");
                return self.retire();
            }
        };
        catalog.set_url(&self.name, &config);
        *self.health() = Health { discovered: catalog.discovered(&self.name), ..Health::default() };
        let setup = ServiceClient { config, client, secrets: secrets.clone(), token_registered: OnceCell::new() };
        self.setup.send_replace(Some(Arc::new(setup)));
        self.wake.notify_one();
    }

    /// Removes the service's configuration.
    pub(super) fn retire(&self) {
        self.setup.send_replace(None);
        self.wake.notify_one();
    }

    /// Returns the configured service, if there is one.
    pub fn setup(&self) -> Option<Arc<ServiceClient>> {
        self.setup.borrow().clone()
    }

    /// Waits until the service is configured and in use and returns it.
    pub async fn usable(&self) -> Arc<ServiceClient> {
        let mut setup = self.setup.subscribe();
        let is_enabled = |setup: &Option<Arc<ServiceClient>>| setup.as_ref().is_some_and(|setup| setup.config.enabled);
        loop {
            // This struct owns the sender, so it outlives this call.
            if let Ok(setup) = setup.wait_for(is_enabled).await
                && let Some(setup) = setup.clone()
            {
                return setup;
            }
        }
    }

    /// Returns a permit if one is available without waiting.
    pub fn try_enter(&self) -> Option<Permit> {
        self.queue.try_enter()
    }

    /// Waits for a permit.
    pub async fn enter(&self) -> Permit {
        self.queue.enter().await
    }

    /// Returns a permit for a run that is already in progress at the service, regardless of the limit.
    pub fn enter_anyway(&self) -> Permit {
        self.queue.enter_anyway()
    }

    /// Returns the number of runs in progress and the number of waiting runs.
    pub(super) fn counts(&self) -> (usize, usize) {
        self.queue.counts()
    }

    pub(super) fn health(&self) -> MutexGuard<'_, Health> {
        self.health.lock()
    }

    /// Fetches the service's list and returns the result.
    pub(super) async fn refresh(&self) -> DiscoveryResult {
        let (sender, receiver) = oneshot::channel();
        self.refresh_waiters.lock().push(sender);
        self.wake.notify_one();
        // The task that fetches lists ends only with the daemon.
        receiver.await.unwrap_or_else(|_| Err(DiscoveryError::Stopping.into()))
    }

    /// Takes the callers that wait for the next discovery.
    pub(super) fn take_refresh_waiters(&self) -> Vec<oneshot::Sender<DiscoveryResult>> {
        std::mem::take(&mut *self.refresh_waiters.lock())
    }

    /// Puts back the callers that wait for a discovery that had no result.
    pub(super) fn requeue_waiters(&self, waiters: Vec<oneshot::Sender<DiscoveryResult>>) {
        self.refresh_waiters.lock().extend(waiters);
    }
}
