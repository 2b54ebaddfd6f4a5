//! All remote services of a daemon.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use steplatch_access::Redactor;
use steplatch_protocol::ToolInfo;
use steplatch_remote::Config;

use crate::catalog::{Catalog, ToolEntry};
use crate::service::{Service, ServiceClient};

/// Notified when the tools of the services may have changed.
pub trait ToolListener: std::fmt::Debug + Send + Sync {
    /// Reports the change. Must not block.
    fn tools_changed(&self);
}

/// All services. Cheap to clone.
#[derive(Debug, Clone)]
pub struct RemoteServices {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) listener: Arc<dyn ToolListener>,
    secrets: Arc<Redactor>,
    pub(crate) catalog: Catalog,
    /// Configured services, and services that runs are waiting for.
    services: Mutex<BTreeMap<String, Arc<Service>>>,
}

impl RemoteServices {
    /// Opens the last valid lists. No service receives a request before [`Self::configure`].
    #[must_use]
    pub fn open(state: &Path, listener: Arc<dyn ToolListener>, secrets: Arc<Redactor>) -> Self {
        let catalog = Catalog::open(state);
        let services = Mutex::default();
        Self { inner: Arc::new(Inner { listener, secrets, catalog, services }) }
    }

    /// Applies the configuration of all services: fetches the lists of new and changed services, and retires missing
    /// services.
    pub fn configure(&self, configs: &[Config]) {
        let known: Vec<String> = self.services().keys().cloned().collect();
        for config in configs {
            self.service(&config.name).configure(config.clone(), &self.inner.secrets, &self.inner.catalog);
        }
        for name in known {
            if !configs.iter().any(|config| config.name == name) {
                self.service(&name).retire();
            }
        }
        // The set of tools may depend on the configuration.
        self.inner.listener.tools_changed();
    }

    /// Returns the service with this name. Creates a missing service, because recovered runs may wait for a service
    /// that is no longer configured.
    pub fn service(&self, name: &str) -> Arc<Service> {
        let mut services = self.services();
        if let Some(service) = services.get(name) {
            return service.clone();
        }
        let service = Arc::new(Service::new(name));
        services.insert(name.to_owned(), service.clone());
        tokio::spawn(crate::discovery::run_discovery(self.clone(), service.clone()));
        service
    }

    fn services(&self) -> MutexGuard<'_, BTreeMap<String, Arc<Service>>> {
        self.inner.services.lock()
    }

    /// Returns the configured services, by name.
    pub(crate) fn configured(&self) -> Vec<(Arc<Service>, Arc<ServiceClient>)> {
        let services: Vec<Arc<Service>> = self.services().values().cloned().collect();
        services.into_iter().filter_map(|service| Some((service.clone(), service.setup()?))).collect()
    }

    /// Returns the workflows of all enabled services, each with its service, sorted by the names of the tools.
    fn offered(&self) -> Vec<(Arc<Service>, ToolEntry)> {
        let enabled = self.configured().into_iter().filter(|(_, setup)| setup.config.enabled);
        let offered = enabled.flat_map(|(service, setup)| {
            let entries = self.inner.catalog.entries(&service.name, &setup.config);
            entries.into_iter().map(move |entry| (service.clone(), entry))
        });
        let mut offered: Vec<_> = offered.collect();
        offered.sort_by(|(_, left), (_, right)| left.tool.cmp(&right.tool));
        offered
    }

    /// Returns the tools of all enabled services, sorted by name.
    pub fn tools(&self) -> Vec<ToolInfo> {
        self.offered().into_iter().map(|(service, entry)| entry.tool(&service.name)).collect()
    }

    /// Returns the names of the tools of all enabled services, sorted.
    pub fn names(&self) -> Vec<String> {
        self.offered().into_iter().map(|(_, entry)| entry.tool).collect()
    }

    /// Returns the tool with this name.
    pub fn tool(&self, name: &str) -> Option<ToolInfo> {
        let (service, entry) = self.offered().into_iter().find(|(_, entry)| entry.tool == name)?;
        Some(entry.tool(&service.name))
    }

    /// Returns the address of a configured service.
    pub fn address(&self, service: &str) -> Option<String> {
        let configured = self.configured().into_iter().find(|(known, _)| known.name == service)?;
        Some(configured.1.config.base_url.clone())
    }

    /// Returns the names of the tools of all enabled services.
    pub fn tool_names(&self) -> impl Iterator<Item = String> {
        self.offered().into_iter().map(|(_, entry)| entry.tool)
    }

    /// Returns the names that saved workflows have as tools, by their own names.
    pub async fn library_names(&self, workflows: Vec<String>) -> BTreeMap<String, String> {
        let remotes = self.clone();
        let names = tokio::task::spawn_blocking(move || remotes.inner.catalog.library_names(&workflows));
        names.await.unwrap_or_default()
    }
}
