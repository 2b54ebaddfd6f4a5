//! The last valid list of each service, and the tool names of the workflows.
//!
//! Stored in a file in the state directory: a daemon that starts while a service is down offers its last list, and no
//! name passes to another workflow.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use serde::{Deserialize, Serialize};
use steplatch_clock as clock;
use steplatch_protocol::{RemoteWorkflowInfo, ToolInfo};
use steplatch_remote::names::{Key, assign};
use steplatch_remote::{Changes, Config, Execution, Filter, Listing, RemoteWorkflow, diff};
use steplatch_workflow::Timestamp;

/// Version of the file.
const VERSION: u32 = 1;

/// Maximum number of stored names of a service's present and former workflows, and of the library's workflows.
const MAX_NAMES: usize = 5_000;

/// The lists of all services.
#[derive(Debug)]
pub(super) struct Catalog {
    file: PathBuf,
    stored: Mutex<CatalogFile>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct CatalogFile {
    version: u32,
    #[serde(default)]
    services: BTreeMap<String, ServiceEntry>,
    /// Tool names of library workflows. No remote workflow gets such a name.
    #[serde(default)]
    library: BTreeSet<String>,
}

/// The stored data of a service.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct ServiceEntry {
    /// The URL of the service. A different URL means a different service.
    base_url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    discovered: Option<Timestamp>,
    #[serde(default)]
    workflows: BTreeMap<String, NamedWorkflow>,
    /// Tool names of the service's present and former workflows, by their ids there.
    #[serde(default)]
    names: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct NamedWorkflow {
    workflow: Arc<RemoteWorkflow>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    changed: Option<Timestamp>,
}

/// An offered workflow.
#[derive(Debug, Clone)]
pub(crate) struct ToolEntry {
    pub(crate) workflow: Arc<RemoteWorkflow>,
    /// Name of the tool that runs the workflow.
    pub(crate) tool: String,
    /// Time of the last change of its pinned definition.
    changed: Option<Timestamp>,
}

/// Number of added, updated and removed workflows in a new list.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct CatalogDiff {
    pub(crate) added: usize,
    pub(crate) updated: usize,
    pub(crate) removed: usize,
    pub(crate) unchanged: usize,
}

impl Catalog {
    /// Reads the file of the last daemon. Ignores an invalid file.
    pub(super) fn open(state: &Path) -> Self {
        let file = state.join("remote_workflows.json");
        let stored = match std::fs::read(&file) {
            Ok(text) => match serde_json::from_slice::<CatalogFile>(&text) {
                Ok(stored) if stored.version == VERSION => stored,
                Ok(stored) => {
                    tracing::warn!(version = stored.version, "the lists of remote services have another version");
                    CatalogFile::default()
                }
                Err(error) => {
                    tracing::warn!(%error, "the lists of remote services are not valid and are rebuilt");
                    CatalogFile::default()
                }
            },
            Err(error) => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    tracing::warn!(%error, "the lists of remote services cannot be read");
                }
                CatalogFile::default()
            }
        };
        Self { file, stored: Mutex::new(CatalogFile { version: VERSION, ..stored }) }
    }

    fn lock(&self) -> MutexGuard<'_, CatalogFile> {
        self.stored.lock()
    }

    /// Stores the URL of a service. If it has changed, removes the list of the service.
    pub(super) fn set_url(&self, name: &str, config: &Config) {
        let mut stored = self.lock();
        let service = stored.services.entry(name.to_owned()).or_default();
        if service.base_url != config.base_url {
            service.base_url.clone_from(&config.base_url);
            service.discovered = None;
            service.workflows.clear();
        }
    }

    /// Returns the last fetch time of a service's list.
    pub(super) fn discovered(&self, name: &str) -> Option<Timestamp> {
        self.lock().services.get(name)?.discovered
    }

    /// Returns the offered workflows of a service, by their ids.
    pub(super) fn entries(&self, name: &str, config: &Config) -> Vec<ToolEntry> {
        let filter = Filter::new(&config.filter_patterns);
        let stored = self.lock();
        let Some(service) = stored.services.get(name) else { return Vec::new() };
        let admitted = service.workflows.iter().filter(|(_, named)| filter.admits(&named.workflow.title));
        let entries = admitted.filter_map(|(id, NamedWorkflow { workflow, changed })| {
            let tool = service.names.get(id)?.clone();
            Some(ToolEntry { workflow: workflow.clone(), tool, changed: *changed })
        });
        entries.collect()
    }

    /// Stores a new list of a service and returns the changes.
    pub(super) fn replace(&self, name: &str, listing: Listing) -> CatalogDiff {
        let now = clock::now();
        let mut stored = self.lock();
        let mut service = stored.services.get(name).cloned().unwrap_or_default();
        let old: Vec<RemoteWorkflow> = service.workflows.values().map(|named| (*named.workflow).clone()).collect();
        let new = listing.replacing(&old);
        let Changes { added, updated, removed, unchanged } = diff(&old, &new);
        for workflow in &updated {
            tracing::warn!(remote = name, workflow, "a remote workflow changed its title, description or schema");
        }
        let mut list = BTreeMap::new();
        for workflow in new {
            let last_change = service.workflows.get(&workflow.id).and_then(|named| named.changed);
            let changed = if updated.contains(&workflow.id) { Some(now) } else { last_change };
            list.insert(workflow.id.clone(), NamedWorkflow { workflow: Arc::new(workflow), changed });
        }
        let changed = CatalogDiff {
            added: added.len(),
            updated: updated.len(),
            removed: removed.len(),
            unchanged: unchanged.len(),
        };
        let titles: Vec<(Key, String)> =
            list.iter().map(|(id, named)| (Key::new(name, id.clone()), named.workflow.title.clone())).collect();
        let known_names: BTreeMap<Key, String> = stored
            .services
            .iter()
            .flat_map(|(service, entry)| {
                entry.names.iter().map(|(id, tool)| (Key::new(service.clone(), id.clone()), tool.clone()))
            })
            .collect();
        let entries = titles.iter().map(|(key, title)| (key.clone(), title.as_str()));
        let names = assign(&known_names, &stored.library, entries);
        service.names.extend(names.into_iter().map(|(key, tool)| (key.id, tool)));
        // Remove the names of removed workflows only above the maximum.
        while service.names.len() > MAX_NAMES {
            let Some(removed) = service.names.keys().find(|id| !list.contains_key(*id)).cloned() else { break };
            service.names.remove(&removed);
        }
        service.workflows = list;
        service.discovered = Some(now);
        stored.services.insert(name.to_owned(), service);
        self.write(&stored);
        changed
    }

    /// Returns the tool names of library workflows, by the workflows' own names. A workflow keeps its tool name, and no
    /// remote workflow gets it.
    pub(super) fn library_names(&self, workflows: &[String]) -> BTreeMap<String, String> {
        let mut stored = self.lock();
        let remote_names: BTreeSet<String> =
            stored.services.values().flat_map(|service| service.names.values().cloned()).collect();
        let entries = workflows.iter().map(|name| (Key::new("", name.clone()), name.as_str()));
        let names = assign(&BTreeMap::new(), &remote_names, entries);
        let added: Vec<String> = names.values().filter(|tool| !stored.library.contains(*tool)).cloned().collect();
        if !added.is_empty() && stored.library.len() + added.len() <= MAX_NAMES {
            stored.library.extend(added);
            self.write(&stored);
        }
        names.into_iter().map(|(key, tool)| (key.id, tool)).collect()
    }

    /// Writes the file atomically.
    fn write(&self, stored: &CatalogFile) {
        let directory = self.file.parent().unwrap_or(Path::new("/"));
        let write_result = tempfile::NamedTempFile::new_in(directory).and_then(|mut file| {
            serde_json::to_writer(&mut file, stored)?;
            file.flush()?;
            file.persist(&self.file).map_err(|error| error.error)?;
            Ok(())
        });
        if let Err(error) = write_result {
            tracing::warn!(%error, "the lists of remote services are not stored for the next daemon");
        }
    }
}

impl ToolEntry {
    /// Returns the entry as a tool.
    pub(super) fn tool(&self, remote: &str) -> ToolInfo {
        let workflow = &self.workflow;
        ToolInfo {
            name: self.tool.clone(),
            title: workflow.title.clone(),
            description: workflow.description_with_origin(remote),
            input_schema: workflow.input_schema.clone(),
            source: "remote".to_owned(),
            remote: Some(remote.to_owned()),
            workflow_id: workflow.id.clone(),
            version: Some(workflow.version.clone()),
            category: Some(workflow.category.clone()),
            sync: workflow.execution == Execution::Sync,
        }
    }

    /// Returns the entry for listings.
    pub(super) fn info(&self, remote: &str) -> RemoteWorkflowInfo {
        let workflow = &self.workflow;
        RemoteWorkflowInfo {
            tool: self.tool.clone(),
            workflow_id: workflow.id.clone(),
            remote: remote.to_owned(),
            title: workflow.title.clone(),
            description: workflow.description.clone(),
            category: workflow.category.clone(),
            version: workflow.version.clone(),
            execution_type: match workflow.execution {
                Execution::Sync => "sync",
                Execution::Async => "async",
            }
            .to_owned(),
            metadata: workflow.metadata.clone(),
            hash: workflow.hash.clone(),
            changed: self.changed.map(clock::to_iso8601),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn workflow(id: &str, title: &str, description: &str) -> RemoteWorkflow {
        RemoteWorkflow::read(&json!({"id": id, "title": title, "description": description})).unwrap()
    }

    fn list<const N: usize>(workflows: [RemoteWorkflow; N]) -> Listing {
        let mut listing = Listing::default();
        listing.workflows.extend(workflows);
        listing
    }

    fn names(catalog: &Catalog) -> Vec<String> {
        catalog.entries("one", &Config::default()).into_iter().map(|entry| entry.tool).collect()
    }

    #[test]
    fn names_and_lists_survive_a_restart() {
        let state = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(state.path());
        let first = catalog.replace("one", list([workflow("1", "Deploy", "a"), workflow("2", "Deploy", "b")]));
        assert_eq!(first, CatalogDiff { added: 2, ..CatalogDiff::default() });
        let last_change = names(&catalog);
        let second = catalog.replace("one", list([workflow("2", "Deploy", "changed")]));
        assert_eq!(second, CatalogDiff { updated: 1, removed: 1, ..CatalogDiff::default() });
        let reopened = Catalog::open(state.path());
        assert_eq!(names(&reopened), last_change[1..], "the remaining tool keeps its name");
        assert!(reopened.discovered("one").is_some());
        let entry = &reopened.entries("one", &Config::default())[0];
        assert!(entry.info("one").changed.is_some(), "the time of the change is reported");
        reopened.replace("one", list([workflow("1", "Deploy", "a"), workflow("2", "Deploy", "changed")]));
        assert_eq!(names(&reopened), last_change, "a tool that reappears has its former name");
    }

    #[test]
    fn remote_and_library_workflows_never_share_a_name() {
        let state = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(state.path());
        let library = catalog.library_names(&["release".to_owned()]);
        assert_eq!(library["release"], "workflow_release");
        catalog.replace("one", list([workflow("7", "Release", "x"), workflow("8", "Build", "x")]));
        let remote = names(&catalog);
        assert!(remote[0].starts_with("workflow_release_") && remote[1] == "workflow_build", "{remote:?}");
        let library = catalog.library_names(&["release".to_owned(), "build".to_owned()]);
        assert_eq!(library["release"], "workflow_release");
        assert!(library["build"].starts_with("workflow_build_"), "{library:?}");
    }

    #[test]
    fn different_address_is_a_different_service() {
        let state = tempfile::tempdir().unwrap();
        let catalog = Catalog::open(state.path());
        let at = |url: &str| Config { base_url: url.to_owned(), ..Config::default() };
        catalog.set_url("one", &at("https://a.example"));
        catalog.replace("one", list([workflow("1", "Deploy", "a")]));
        catalog.set_url("one", &at("https://a.example"));
        assert_eq!(names(&catalog).len(), 1);
        catalog.set_url("one", &at("https://b.example"));
        assert_eq!(names(&catalog).len(), 0);
    }
}
