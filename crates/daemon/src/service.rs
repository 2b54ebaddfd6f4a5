//! Every verb of the contract, answered.
//!
//! One `match` says who answers what; the work is done where its things are kept.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::Value;
use steplatch_access::{Approver, Caller, NoPerson, Secrets};
use steplatch_host::{HostState, Hosts};
use steplatch_project::{Projects, Workers, Workflows};
use steplatch_protocol::{
    Command, DaemonStatusReply, ErrorCode, GetMetricsReply, Hello, HelloReply, HostInfo, Metric, PROTOCOL_VERSION,
    Place, Refusal, StopDaemonReply, WatchReply,
};
use steplatch_runs::{Hands, KeptRuns, Nodes, RunEvents, Runs, Surroundings};
use steplatch_services::Remotes;
use steplatch_sessions::{Answer, Ending, EventSink, Sessions, TerminalEvents, actions};
use steplatch_store::OpenError;
use steplatch_workflow::Proof;
use tokio::sync::{Notify, watch};

use crate::changes::Changes;
use crate::configuration::{self, Configuration, GateProof};
use crate::tools::{ToolWatch, Tools};

/// What the daemon is made of.
#[derive(Debug)]
pub(crate) struct Service {
    pub(crate) place: Place,
    pub(crate) stop: watch::Sender<Option<Ending>>,
    /// Somebody does not find the socket.
    pub(crate) listen_again: Arc<Notify>,
    sessions: Sessions,
    runs: Runs,
    workflows: Workflows,
    nodes: Arc<Nodes>,
    tools: Tools,
    remotes: Remotes,
    approver: Arc<Approver>,
    secrets: Arc<Secrets>,
    clients: AtomicUsize,
    started: Instant,
}

/// What follows an answer once it is sent.
#[derive(Debug)]
pub(crate) enum Following {
    Run(RunEvents),
    Terminal(Box<TerminalEvents>),
    Changes(Box<ToolWatch>),
    /// The end of the daemon, which cuts off whoever has not been answered yet.
    Stop(watch::Sender<Option<Ending>>, Ending),
}

impl Following {
    /// Sends events to who asked for them until there are no more, or nobody listens.
    pub(crate) async fn forward(self, request_id: &Value, sink: &EventSink) {
        // Ends with the connection; there is nobody to tell.
        let _ = match self {
            Self::Run(events) => events.forward(request_id, sink).await,
            Self::Terminal(events) => events.forward(request_id, sink).await,
            Self::Changes(watching) => watching.forward(request_id, sink).await,
            Self::Stop(stop, ending) => {
                stop.send_replace(Some(ending));
                Ok(())
            }
        };
    }
}

/// Counts a client for as long as it is connected.
#[derive(Debug)]
pub(crate) struct Counted<'a>(&'a AtomicUsize);

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Service {
    /// Takes over what the last daemon left. `in_group` is there if the process is a daemon and nothing else, and becomes true once
    /// what it starts is in its control group.
    ///
    /// # Errors
    /// When the journal of runs can not be used.
    pub(crate) async fn start(
        place: Place,
        hosts: Hosts,
        workers: Workers,
        secrets: Arc<Secrets>,
        keep: KeptRuns,
        configuration: watch::Receiver<Configuration>,
        in_group: Option<watch::Receiver<bool>>,
    ) -> Result<Self, OpenError> {
        let stop = watch::Sender::new(None);
        let sessions = Sessions::new(hosts, secrets.clone(), stop.subscribe());
        let workflows = Workflows::new(workers.clone());
        let projects = workflows.projects().clone();
        let hands = Hands::new(sessions.clone(), secrets.clone());
        if in_group.is_some()
            && let Err(error) = hands.adopt_orphans()
        {
            tracing::warn!(%error, "what nodes leave behind is not adopted");
        }
        let nodes = Arc::new(Nodes::new(hands.clone()));
        let changes = Changes::default();
        let remotes = Remotes::open(place.state(), Arc::new(changes.clone()), secrets.clone());
        configuration::follow_remotes(configuration.clone(), remotes.clone());
        let proof = Arc::new(GateProof(configuration.clone()));
        let tools = Tools::new(workflows.clone(), remotes.clone(), configuration, changes.clone());
        let approver = Arc::new(Approver::new(place.state(), proof));
        let surroundings = Surroundings {
            sessions: sessions.clone(),
            workflows: workflows.clone(),
            workers,
            nodes: nodes.clone(),
            projects,
            hands,
            approver: approver.clone(),
            remotes: remotes.clone(),
            secrets: secrets.clone(),
            listener: Arc::new(changes),
            stop: stop.clone(),
        };
        let runs = Runs::open(place.journal(), surroundings, keep).await?;
        if let Some(mut in_group) = in_group {
            // A thread that is gone has tried.
            let _ = in_group.wait_for(|joined| *joined).await;
        }
        runs.recover().await;
        Ok(Self {
            approver,
            place,
            stop,
            listen_again: Arc::default(),
            runs,
            nodes,
            tools,
            remotes,
            workflows,
            secrets,
            sessions,
            clients: AtomicUsize::new(0),
            started: Instant::now(),
        })
    }

    /// Waits until somebody stops the daemon, and returns how.
    pub(crate) async fn stopped(&self) -> Ending {
        let mut stop = self.stop.subscribe();
        // The sender is ours, so it does not go away before it says so.
        stop.wait_for(Option::is_some).await.ok().and_then(|stop| *stop).unwrap_or(Ending::KeepTerminals)
    }

    fn projects(&self) -> &Projects {
        self.workflows.projects()
    }

    pub(crate) fn count_client(&self) -> Counted<'_> {
        self.clients.fetch_add(1, Ordering::Relaxed);
        Counted(&self.clients)
    }

    /// Leaves the runs to the next daemon, and closes what is open unless it is to be kept.
    pub(crate) async fn close(&self, ending: Ending) {
        self.runs.leave().await;
        self.nodes.close().await;
        if !ending.keeps_terminals() {
            self.sessions.close_all().await;
        }
    }

    pub(crate) fn hello(&self, hello: &Hello) -> Result<Answer, Refusal> {
        if hello.protocol_version > PROTOCOL_VERSION {
            let error = format!(
                "the daemon (pid {}, version {}) speaks protocol {PROTOCOL_VERSION}, this client speaks {}; \
                 restart it with: steplatch daemon stop && steplatch daemon start",
                std::process::id(),
                env!("CARGO_PKG_VERSION"),
                hello.protocol_version,
            );
            return Err(Refusal { code: ErrorCode::UnsupportedProtocol, error });
        }
        Ok(Answer::of(HelloReply {
            protocol_version: PROTOCOL_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        }))
    }

    /// Returns the answer to a command that names a session which is not the project of `caller`.
    pub(crate) async fn other_session(&self, caller: &Caller, names: &[String]) -> Option<Answer> {
        for name in names {
            if let Err(error) = self.projects().session(caller, name).await {
                return Some(self.without_secrets(Answer::failure(error)));
            }
        }
        None
    }

    /// Carries out a command. Some bring events, which follow the answer.
    ///
    /// With a `step`, opening and typing are not done again when they were done as that step before.
    pub(crate) async fn answer(
        &self,
        caller: &Arc<Caller>,
        command: Command,
        step: Option<String>,
    ) -> (Answer, Option<Following>) {
        let sessions = &self.sessions;
        // A command that waits takes its room for as long: what is large has room of its own, only while it is carried out.
        let answer = match command {
            Command::Hello(hello) => match self.hello(&hello) {
                Ok(answer) => answer,
                Err(refusal) => Answer::failure(refusal.error),
            },
            Command::DaemonStatus(_) => Answer::of(self.status().await),
            Command::GetMetrics(_) => Answer::of(GetMetricsReply { success: true, metrics: self.metrics().await }),
            Command::StopDaemon(verb) => {
                let status = self.status().await;
                let reply = StopDaemonReply { pid: status.pid, terminals: status.terminals, runs: status.runs };
                let ending = if verb.keep_terminals { Ending::KeepTerminals } else { Ending::CloseTerminals };
                return (Answer::of(reply), Some(Following::Stop(self.stop.clone(), ending)));
            }
            action @ (Command::OpenTerminal(_)
            | Command::SendInput(_)
            | Command::AwaitOutput(_)
            | Command::GetScreenContent(_)
            | Command::ListTerminalSessions(_)
            | Command::ExitTerminal(_)) => actions::act(sessions, caller, action, step).await,
            Command::RunCommand(verb) => Answer::of(sessions.run_command(caller, verb, step).await),
            Command::GetVariables(verb) => Answer::of(sessions.variables(verb).await),
            Command::SetVariables(verb) => Answer::of(sessions.set_variables(caller, verb).await),
            Command::ResizeTerminal(verb) => Answer::of(sessions.resize(caller, verb).await),
            Command::SendSignal(verb) => Answer::of(sessions.signal(caller, verb).await),
            Command::WriteTerminal(verb) => Answer::of(sessions.write(caller, verb, step).await),
            Command::AttachTerminal(verb) => {
                let (reply, events) = sessions.attach(caller, verb).await;
                return (Answer::of(reply), events.map(|events| Following::Terminal(Box::new(events))));
            }
            Command::HandBackTerminal(verb) => Answer::of(sessions.hand_back(verb).await),
            Command::RunWorkflow(verb) => Answer::of_run(Box::pin(self.runs.run(caller, verb, step)).await),
            Command::ExecuteWorkflow(verb) => Answer::of(Box::pin(self.runs.execute(caller, verb, step)).await),
            Command::GetRun(verb) => Answer::of_run(self.runs.look_at(verb).await),
            Command::Decide(verb) => Answer::of(self.runs.answer(caller, verb.into()).await),
            Command::AnswerGate(verb) => Answer::of(self.runs.answer(caller, verb.into()).await),
            Command::GetApprover(_) => Answer::of(self.approver.told().await),
            // Only a person may lock people out, or in. Where the system hides the processes of others, a passphrase is the
            // only proof there is, so the first one is set from a terminal whose owner is hidden.
            Command::SetApprover(verb) => match caller.no_person().await {
                None => Answer::of(self.runs.set_approver(verb, caller.source()).await),
                Some(NoPerson::Hidden) if caller.proof().await == Proof::Terminal => {
                    Answer::of(self.runs.set_approver(verb, caller.source()).await)
                }
                Some(_) => Answer::failure(
                    "The approver's passphrase is set by a person, with 'steplatch approver', in a terminal of their own"
                        .to_owned(),
                ),
            },
            // What the kernel hides, the passphrase proves.
            Command::UnlockRuns(verb) => match caller.no_person().await {
                None | Some(NoPerson::Hidden) => Answer::of(self.runs.unlock(verb, caller.source()).await),
                Some(_) => Answer::failure(
                    "Locked runs are opened by a person, with 'steplatch approver unlock', in a terminal of their own"
                        .to_owned(),
                ),
            },
            Command::CancelWorkflow(verb) => Answer::of(self.runs.cancel(verb).await),
            Command::PauseWorkflow(verb) => Answer::of(self.runs.pause(caller, verb).await),
            Command::ResumeWorkflow(verb) => Answer::of(self.runs.resume(caller, verb).await),
            Command::GetGate(verb) => Answer::of(self.runs.gate(&verb).await),
            Command::GetWorkflowRun(verb) => Answer::of(self.runs.record(&verb).await),
            Command::ListWorkflowRuns(verb) => Answer::of(self.runs.list(&verb).await),
            Command::Subscribe(verb) => {
                let (reply, events) = self.runs.subscribe(&verb).await;
                return (Answer::of(reply), events.map(Following::Run));
            }
            Command::CreateWorkflow(verb) => Answer::of(self.workflows.create(caller, verb).await),
            Command::LoadFunctions(verb) => Answer::of(self.workflows.load(caller, verb).await),
            Command::GetWorkflowSchema(_) => Answer::of(self.workflows.schema()),
            Command::ListWorkflows(verb) => Answer::of(self.tools.list_workflows(caller, verb).await),
            Command::DescribeWorkflow(verb) => Answer::of(self.tools.describe(caller, verb).await),
            Command::DeleteWorkflow(verb) => Answer::of(self.workflows.delete(caller, verb).await),
            Command::ListNodes(verb) => Answer::of(self.projects().list_nodes(caller, &verb).await),
            Command::DescribeNode(verb) => Answer::of(self.projects().describe_node(caller, &verb).await),
            Command::RunNode(verb) => Answer::of(Box::pin(self.runs.run_node(caller, verb, step)).await),
            Command::ListGraphs(verb) => Answer::of(self.projects().list_graphs(caller, &verb).await),
            Command::RunGraph(verb) => Answer::of(Box::pin(self.runs.run_graph(caller, verb, step)).await),
            Command::ListTools(verb) => Answer::of(self.tools.list(caller, verb).await),
            Command::CallTool(verb) => match self.tools.called(caller, &verb.name, &verb.arguments).await {
                Ok(tool) => Answer::of_run(Box::pin(self.runs.call_tool(caller, tool, verb, step)).await),
                Err(not_called) => Answer::of_run(not_called.into_reply()),
            },
            Command::Watch(_) => {
                let watching = Following::Changes(Box::new(self.tools.watch(caller).await));
                return (Answer::of(WatchReply { success: true, error: None }), Some(watching));
            }
            Command::ListRemoteWorkflows(verb) => Answer::of(self.remotes.list(verb)),
            Command::RefreshWorkflows(verb) => Answer::of(self.remotes.refresh(verb).await),
            Command::CheckWorkflowStatus(verb) => {
                let there = self.runs.there(&verb.run_id).await;
                Answer::of(self.remotes.check(verb, there).await)
            }
        };
        (self.without_secrets(answer), None)
    }

    /// What was typed as a secret is in no reply: not in an error, not in the name of a folder.
    fn without_secrets(&self, mut answer: Answer) -> Answer {
        self.secrets.mask_in(&mut answer.data);
        answer.error = self.secrets.masked_if(answer.error);
        answer
    }

    async fn metrics(&self) -> Vec<Metric> {
        let status = self.status().await;
        #[allow(clippy::cast_precision_loss, reason = "there are fewer than 2^53 of each")]
        let number = |count: usize| count as f64;
        let mut metrics = self.remotes.metrics();
        metrics.extend([
            Metric::gauge("steplatch_clients", "Connected clients.", number(status.clients)),
            Metric::gauge("steplatch_runs_under_way", "Runs that have not ended.", number(status.runs)),
            Metric::gauge("steplatch_terminals", "Open terminals.", number(status.terminals)),
            Metric::gauge("steplatch_uptime_seconds", "Seconds since the daemon began.", status.uptime_seconds),
        ]);
        metrics.sort_by(|one, other| one.name.cmp(&other.name));
        metrics
    }

    async fn status(&self) -> DaemonStatusReply {
        let hosts = self.sessions.hosts().await.into_iter().map(|host| HostInfo {
            pid: host.pid,
            version: host.version,
            terminals: host.terminals,
            state: match host.state {
                HostState::Current => "current",
                HostState::Older => "older",
                HostState::Foreign => "foreign",
                HostState::Silent => "silent",
            }
            .to_owned(),
        });
        let hosts: Vec<_> = hosts.collect();
        DaemonStatusReply {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol_version: PROTOCOL_VERSION,
            socket: self.place.socket().display().to_string(),
            state_dir: self.place.state().display().to_string(),
            terminals: hosts.iter().map(|host| host.terminals).sum(),
            runs: self.runs.count_under_way(),
            clients: self.clients.load(Ordering::Relaxed),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            hosts,
        }
    }
}
