//! Handlers of the verbs about remote services.

use std::sync::Arc;

use steplatch_clock as clock;
use steplatch_protocol::{
    CheckWorkflowStatus, CheckWorkflowStatusReply, ListRemoteWorkflows, ListRemoteWorkflowsReply, Metric, MetricKind,
    RefreshWorkflows, RefreshWorkflowsReply, RemoteInfo, Sample, StatusTimes,
};
use steplatch_remote::State;

use super::metrics::RunCounts;
use super::service::Health;
use crate::error::{DiscoveryError, UnknownService};
use crate::service::{Service, ServiceClient};
use crate::services::RemoteServices;

type ConfiguredService = (Arc<Service>, Arc<ServiceClient>);

/// Ids of a run at its service, from the answer to its start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemoteIds {
    /// The service.
    pub service: String,
    /// `workflow_id` of the answer: the run.
    pub instance: String,
    /// `correlation_id` of the answer.
    pub correlation: String,
}

impl RemoteServices {
    /// Lists services, and their workflows.
    pub fn list(&self, verb: ListRemoteWorkflows) -> ListRemoteWorkflowsReply {
        let services = match self.select_services(verb.remote.as_deref()) {
            Ok(services) => services,
            Err(error) => {
                let error = Some(error.to_string());
                return ListRemoteWorkflowsReply { error, ..ListRemoteWorkflowsReply::default() };
            }
        };
        let mut workflows = Vec::new();
        for (service, setup) in services.iter().filter(|(_, setup)| setup.config.enabled) {
            let entries = self.inner.catalog.entries(&service.name, &setup.config);
            workflows.extend(entries.iter().map(|entry| entry.info(&service.name)));
        }
        workflows.sort_by(|left, right| left.tool.cmp(&right.tool));
        ListRemoteWorkflowsReply { success: true, remotes: self.remote_infos(&services), workflows, error: None }
    }

    /// Fetches the lists of services now.
    pub async fn refresh(&self, verb: RefreshWorkflows) -> RefreshWorkflowsReply {
        let mut reply = RefreshWorkflowsReply { success: true, ..RefreshWorkflowsReply::default() };
        let services = match self.select_services(verb.remote.as_deref()) {
            Ok(services) => services,
            Err(error) => return RefreshWorkflowsReply { success: false, error: Some(error.to_string()), ..reply },
        };
        let enabled: Vec<&ConfiguredService> = services.iter().filter(|(_, setup)| setup.config.enabled).collect();
        let refreshes = enabled.iter().map(|(service, _)| {
            let service = service.clone();
            tokio::spawn(async move { service.refresh().await })
        });
        let refreshes: Vec<_> = refreshes.collect();
        let mut errors = Vec::new();
        for ((service, _), refresh) in enabled.iter().zip(refreshes) {
            match refresh.await.unwrap_or_else(|error| Err(DiscoveryError::Interrupted(error).into())) {
                Ok(changed) => {
                    reply.added += changed.added;
                    reply.updated += changed.updated;
                    reply.removed += changed.removed;
                    reply.unchanged += changed.unchanged;
                }
                Err(error) => {
                    errors
                        .push(format!("'{}' did not return its list, so the last one is kept: {error}", service.name));
                }
            }
        }
        if let (Some(name), true) = (&verb.remote, enabled.is_empty()) {
            errors.push(format!("the service '{name}' is not enabled; set enabled = true in its [[remote]]"));
        }
        if !errors.is_empty() {
            reply.success = false;
            reply.error = Some(errors.join("; "));
        }
        reply.remotes = self.remote_infos(&services);
        reply
    }

    /// Requests the status of a run from a service. `remote_ids` has the ids of a run started from here; without them,
    /// the run id of `verb` is the service's own.
    pub async fn check(&self, verb: CheckWorkflowStatus, remote_ids: Option<RemoteIds>) -> CheckWorkflowStatusReply {
        let run_id = remote_ids.as_ref().map(|_| verb.run_id.clone());
        let service = verb.remote.clone().or_else(|| remote_ids.as_ref().map(|remote_ids| remote_ids.service.clone()));
        let (instance, correlation) = match remote_ids {
            Some(RemoteIds { instance, correlation, .. }) => (instance, Some(correlation)),
            None => (verb.run_id.clone(), None),
        };
        let error_reply =
            |error: String| CheckWorkflowStatusReply { error: Some(error), ..CheckWorkflowStatusReply::default() };
        let services = match self.select_services(service.as_deref()) {
            Ok(services) => services.into_iter().filter(|(_, setup)| setup.config.enabled).collect::<Vec<_>>(),
            Err(error) => return error_reply(error.to_string()),
        };
        let has_workflow = |(service, setup): &&ConfiguredService| {
            let entries = self.inner.catalog.entries(&service.name, &setup.config);
            entries.iter().any(|entry| entry.workflow.id == verb.workflow_id)
        };
        let setup = match (services.as_slice(), services.iter().filter(has_workflow).collect::<Vec<_>>().as_slice()) {
            ([only], _) => &only.1,
            (_, [only]) => &only.1,
            ([], _) => return error_reply("no remote service is configured and enabled".to_owned()),
            (_, []) => {
                return error_reply(format!(
                    "no service has a workflow '{}'; list_remote_workflows lists the available workflows",
                    verb.workflow_id
                ));
            }
            (_, several) => {
                let names: Vec<&str> = several.iter().map(|(service, _)| service.name.as_str()).collect();
                return error_reply(format!(
                    "several services have this workflow; choose one with remote: {}",
                    names.join(", ")
                ));
            }
        };
        match setup.client.status(&verb.workflow_id, &instance).await {
            Ok(status) => CheckWorkflowStatusReply {
                success: true,
                run_id,
                error: matches!(status.state, State::Failed | State::Cancelled).then(|| status.error_message()),
                times: StatusTimes::new(status.create_time, status.update_time, status.start_time, status.end_time),
                pending_gate: status.pending_gate,
                status: status.word,
                input: status.input,
                output: status.output,
                workflow_id: verb.workflow_id.clone(),
                original_workflow_id: verb.workflow_id,
                workflow_instance_id: instance,
                correlation_id: correlation.or(status.correlation),
                progress: status.progress,
            },
            Err(error) => CheckWorkflowStatusReply {
                run_id,
                workflow_id: verb.workflow_id.clone(),
                original_workflow_id: verb.workflow_id,
                workflow_instance_id: instance,
                correlation_id: correlation,
                ..error_reply(error.to_string())
            },
        }
    }

    /// Returns the selected services: the service with a name, or all.
    fn select_services(&self, name: Option<&str>) -> Result<Vec<ConfiguredService>, UnknownService> {
        let services = self.configured();
        let Some(name) = name else { return Ok(services) };
        let configured: Vec<String> = services.iter().map(|(service, _)| service.name.clone()).collect();
        match services.into_iter().find(|(service, _)| service.name == name) {
            Some(service) => Ok(vec![service]),
            None => Err(UnknownService { name: name.to_owned(), configured }),
        }
    }

    fn remote_infos(&self, services: &[ConfiguredService]) -> Vec<RemoteInfo> {
        let info = |(service, setup): &ConfiguredService| {
            let Health { reachable, discovered, skipped, error } = service.health().clone();
            let (running, queued) = service.counts();
            let enabled = setup.config.enabled;
            RemoteInfo {
                name: service.name.clone(),
                base_url: setup.config.base_url.clone(),
                enabled,
                reachable,
                last_discovery: discovered.map(clock::to_iso8601),
                workflows: if enabled { self.inner.catalog.entries(&service.name, &setup.config).len() } else { 0 },
                running,
                queued,
                skipped,
                error,
            }
        };
        services.iter().map(info).collect()
    }

    /// Returns the metrics of all services.
    pub fn metrics(&self) -> Vec<Metric> {
        use MetricKind::{Counter, Gauge, Histogram};
        let services = self.configured();
        let labels = |service: &Service| [("remote".to_owned(), service.name.clone())].into();
        let samples = |value: &dyn Fn(&ConfiguredService) -> u64| {
            #[allow(clippy::cast_precision_loss, reason = "nobody starts 2^53 runs")]
            let sample =
                |configured: &ConfiguredService| Sample::new("", labels(&configured.0), value(configured) as f64);
            services.iter().map(sample).collect::<Vec<_>>()
        };
        let counted = |count: fn(&RunCounts) -> u64| samples(&|(service, _)| count(&service.metrics.counts()));
        let durations =
            services.iter().flat_map(|(service, _)| service.metrics.counts().duration_samples(&labels(service)));
        let workflow_count = |(service, setup): &ConfiguredService| {
            self.inner.catalog.entries(&service.name, &setup.config).len() as u64
        };
        let running = samples(&|(service, _)| service.counts().0 as u64);
        let queued = samples(&|(service, _)| service.counts().1 as u64);
        let up = samples(&|(service, _)| u64::from(service.health().reachable));
        let metric = |name: &str, help: &str, kind, samples| Metric {
            name: format!("steplatch_remote_{name}"),
            help: help.to_owned(),
            kind,
            samples,
        };
        vec![
            metric("queue_length", "Calls that wait for a run to end.", Gauge, queued),
            metric("run_duration_seconds", "Durations of runs of remote workflows.", Histogram, durations.collect()),
            metric(
                "runs_cancelled_total",
                "Cancelled runs of remote workflows.",
                Counter,
                counted(|counts| counts.cancelled),
            ),
            metric(
                "runs_completed_total",
                "Completed runs of remote workflows.",
                Counter,
                counted(|counts| counts.completed),
            ),
            metric("runs_failed_total", "Failed runs of remote workflows.", Counter, counted(|counts| counts.failed)),
            metric("runs_running", "Runs in progress at the service.", Gauge, running),
            metric(
                "runs_started_total",
                "Started runs of remote workflows.",
                Counter,
                counted(|counts| counts.started),
            ),
            metric("up", "1 if the last discovery succeeded, otherwise 0.", Gauge, up),
            metric("workflows_discovered", "Workflows that the service offers.", Gauge, samples(&workflow_count)),
        ]
    }
}
