//! Dispatches every verb of the contract.
//!
//! One `match` selects the component that owns the data and performs the command.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::Value;
use steplatch_access::{Approver, Caller, PageLogins, Passkeys, PersonRefusal, Redactor, add_askpass};
use steplatch_clock::Clock;
use steplatch_host::{HostState, Hosts};
use steplatch_project::{Projects, Workers, Workflows};
use steplatch_protocol::{
    AddPasskeyReply, CheckHostReply, Command, DaemonPaths, DaemonStatusReply, DrawWorkflowReply, EditWorkflowReply,
    ErrorCode, GetMetricsReply, Hello, HelloReply, HostInfo, Metric, PROTOCOL_VERSION, Refusal, RunDetail, RunReply,
    ShareTerminalReply, StopDaemonReply, WatchNotificationsReply, WatchReply, host_advice,
};
use steplatch_runs::{ExecutorFactory, Nodes, RetentionPolicy, RunDependencies, RunEvents, Runs, WorkerRequests};
use steplatch_services::RemoteServices;
use steplatch_sessions::{
    ActivityEvents, CopyEvents, EventSink, HeldTerminal, Recordings, ScreenEvents, Sessions, ShutdownMode,
    TerminalEvents, VerbReply, actions,
};
use steplatch_store::{Journal, OpenError};
use steplatch_workflow::Proof;
use tokio::sync::{Notify, watch};

use crate::askpass::PasswordQuestions;
use crate::changes::ChangeHub;
use crate::configuration::{self, Configuration, GateProof};
use crate::named_secrets::{SettingSecrets, failed_reply};
use crate::notifications::{NotificationParts, Notifications, TerminalNotifications};
use crate::read_commands;
use crate::schedules::{ScheduleParts, Schedules};
use crate::ssh_environment::DaemonSshEnvironment;
use crate::ssh_questions::SshQuestions;
use crate::supervision::{Supervision, SupervisionParts};
use crate::tools::{ToolSubscription, Tools};
use crate::waiting;

/// The components of the daemon.
#[derive(Debug)]
pub(crate) struct Dispatcher {
    pub(crate) paths: DaemonPaths,
    pub(crate) stop: watch::Sender<Option<ShutdownMode>>,
    /// Notified when the socket is missing.
    pub(crate) listen_again: Arc<Notify>,
    sessions: Sessions,
    ssh: Arc<DaemonSshEnvironment>,
    questions: Arc<SshQuestions>,
    passwords: Arc<PasswordQuestions>,
    named_secrets: Arc<SettingSecrets>,
    recordings: Recordings,
    runs: Arc<Runs>,
    workflows: Workflows,
    nodes: Arc<Nodes>,
    tools: Tools,
    remotes: RemoteServices,
    approver: Arc<Approver>,
    page: PageLogins,
    passkeys: Arc<Passkeys>,
    notifications: Notifications,
    schedules: Schedules,
    supervision: Supervision,
    secrets: Arc<Redactor>,
    /// The askpass program of terminals and runs.
    askpass: Option<PathBuf>,
    clients: AtomicUsize,
    started: Instant,
}

/// The stream that follows a sent reply.
#[derive(Debug)]
pub(crate) enum ReplyStream {
    Run(RunEvents),
    Terminal(Box<TerminalEvents>),
    Screen(Box<ScreenEvents>),
    Copy(Box<CopyEvents>),
    Activity(ActivityEvents),
    Hold(HeldTerminal),
    Changes(Box<ToolSubscription>),
    Notifications(TerminalNotifications),
    Engine(WorkerRequests),
    /// The daemon stops, and disconnects every client without a reply.
    Stop(watch::Sender<Option<ShutdownMode>>, ShutdownMode),
}

impl ReplyStream {
    /// Sends events to the client of command `request_id`, until there are no more or the client disconnects.
    pub(crate) async fn forward(self, request_id: &Value, sink: &EventSink) {
        // An error means that the connection has closed, so no client is left to notify.
        let _ = match self {
            Self::Run(events) => events.forward(request_id, sink).await,
            Self::Terminal(events) => events.forward(request_id, sink).await,
            Self::Screen(events) => events.forward(request_id, sink).await,
            Self::Copy(events) => Box::pin(events.forward(request_id, sink)).await,
            Self::Activity(events) => events.forward(request_id, sink).await,
            Self::Hold(held) => held.forward().await,
            Self::Engine(requests) => requests.forward(request_id, sink).await,
            Self::Notifications(notifications) => notifications.forward(request_id, sink).await,
            Self::Changes(watching) => watching.forward(request_id, sink).await,
            Self::Stop(stop, mode) => {
                stop.send_replace(Some(mode));
                Ok(())
            }
        };
    }
}

/// Counts a client during its connection.
#[derive(Debug)]
pub(crate) struct ConnectionGuard<'a>(&'a AtomicUsize);

impl Drop for ConnectionGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A repeated step of a client. Dropping it ends the record of the repetition.
#[derive(Debug)]
pub(crate) struct RepeatedStep {
    sessions: Sessions,
    step: String,
}

impl Drop for RepeatedStep {
    fn drop(&mut self) {
        self.sessions.forget_repeated(&self.step);
    }
}

/// Parts of a dispatcher.
pub(crate) struct DispatcherParts {
    pub(crate) paths: DaemonPaths,
    /// The terminal hosts.
    pub(crate) hosts: Hosts,
    /// The environment of connections to remote hosts.
    pub(crate) ssh: Arc<DaemonSshEnvironment>,
    /// Questions of `ssh` for these connections.
    pub(crate) questions: Arc<SshQuestions>,
    /// The workers that execute functions.
    pub(crate) workers: Workers,
    pub(crate) secrets: Arc<Redactor>,
    /// The askpass program of terminals and runs.
    pub(crate) askpass: Option<PathBuf>,
    /// Retention of finished runs.
    pub(crate) retention: RetentionPolicy,
    /// Settings that may change while the daemon runs.
    pub(crate) configuration: watch::Receiver<Configuration>,
    pub(crate) clock: Clock,
    /// The journal of runs, unless it is the file in the state directory.
    pub(crate) journal: Option<Arc<dyn Journal>>,
}

impl Dispatcher {
    /// Takes over the runs and terminals of the last daemon. `in_group` is present if the process is only a daemon, and
    /// becomes true once its child processes start in its control group.
    ///
    /// # Errors
    ///
    /// If the journal of runs cannot be opened.
    pub(crate) async fn start(
        parts: DispatcherParts,
        in_group: Option<watch::Receiver<bool>>,
    ) -> Result<Self, OpenError> {
        let DispatcherParts {
            paths,
            hosts,
            ssh,
            questions,
            workers,
            secrets,
            askpass,
            retention,
            configuration,
            clock,
            journal,
        } = parts;
        let stop = watch::Sender::new(None);
        let runtime = paths.runtime().to_owned();
        let policy = Arc::new(configuration::CommandSettings { configuration: configuration.clone(), runtime });
        let private = [paths.state().to_owned(), paths.runtime().to_owned()];
        let sessions = Sessions::new(hosts, secrets.clone(), policy, stop.subscribe(), private);
        let workflows = Workflows::new(workers.clone());
        let projects = workflows.projects().clone();
        let passwords = Arc::<PasswordQuestions>::default();
        let named_secrets = Arc::new(SettingSecrets::new(configuration.clone(), secrets.clone(), passwords.clone()));
        let executors = ExecutorFactory::new(sessions.clone(), named_secrets.clone());
        if in_group.is_some()
            && let Err(error) = executors.adopt_orphans()
        {
            tracing::warn!(%error, "failed to adopt processes that nodes leave behind");
        }
        let nodes = Arc::new(Nodes::new(executors.clone()));
        let changes = ChangeHub::default();
        let remotes = RemoteServices::open(paths.state(), Arc::new(changes.clone()), secrets.clone());
        configuration::follow_remotes(configuration.clone(), remotes.clone());
        let engine_policy = Arc::new(configuration::DefaultEngine(configuration.clone()));
        let proof = Arc::new(GateProof(configuration.clone()));
        let (gate_proof, notification_rules) = (configuration.clone(), configuration.clone());
        let tools = Tools::new(workflows.clone(), remotes.clone(), configuration, changes.clone());
        let approver = Arc::new(Approver::new(paths.state(), proof));
        configuration::follow_gate_proof(gate_proof, &approver);
        let page = PageLogins::open(paths.state(), paths.runtime(), clock.clone());
        let passkeys = Arc::new(Passkeys::new(paths.state(), clock.clone()));
        let dependencies = RunDependencies {
            sessions: sessions.clone(),
            workflows: workflows.clone(),
            workers,
            nodes: nodes.clone(),
            projects: projects.clone(),
            executors,
            approver: approver.clone(),
            passkeys: passkeys.clone(),
            remotes: remotes.clone(),
            secrets: secrets.clone(),
            listener: Arc::new(changes.clone()),
            stop: stop.clone(),
            clock: clock.clone(),
            engine_policy,
        };
        let recordings = Recordings::new(paths.recordings(), secrets.clone());
        let runs = Arc::new(match journal {
            Some(journal) => Runs::new(journal, paths.state(), dependencies, retention),
            None => Runs::open(paths.journal(), dependencies, retention).await?,
        });
        named_secrets.set_runs(&runs);
        if let Some(mut in_group) = in_group {
            // Ignore an error, because the thread has finished its attempt.
            let _ = in_group.wait_for(|joined| *joined).await;
        }
        runs.recover().await;
        let supervision = Supervision::start(SupervisionParts {
            paths: paths.clone(),
            sessions: sessions.clone(),
            projects,
            named_secrets: named_secrets.clone(),
            clock: clock.clone(),
            stop: stop.subscribe(),
        });
        let schedules = Schedules::start(ScheduleParts {
            paths: paths.clone(),
            clock: clock.clone(),
            runs: runs.clone(),
            changes: changes.clone(),
            stop: stop.subscribe(),
        });
        let notifications = Notifications::start(NotificationParts {
            paths: paths.clone(),
            configuration: notification_rules,
            clock,
            secrets: secrets.clone(),
            sessions: sessions.clone(),
            runs: runs.clone(),
            changes,
            failed_schedules: schedules.failed(),
            failed_services: supervision.failed(),
            stop: stop.subscribe(),
        });
        Ok(Self {
            notifications,
            schedules,
            supervision,
            approver,
            page,
            passkeys,
            paths,
            stop,
            listen_again: Arc::default(),
            runs,
            nodes,
            tools,
            remotes,
            workflows,
            secrets,
            recordings,
            sessions,
            ssh,
            questions,
            askpass,
            passwords,
            named_secrets,
            clients: AtomicUsize::new(0),
            started: Instant::now(),
        })
    }

    /// Waits until the daemon stops and returns its shutdown mode.
    pub(crate) async fn wait_until_stopped(&self) -> ShutdownMode {
        let mut stop = self.stop.subscribe();
        // This struct owns the sender, so it outlives this call.
        stop.wait_for(Option::is_some).await.ok().and_then(|stop| *stop).unwrap_or(ShutdownMode::KeepTerminals)
    }

    fn projects(&self) -> &Projects {
        self.workflows.projects()
    }

    /// Returns the caller that a client's HELLO describes, whose programs can ask for passwords.
    pub(crate) fn caller(&self, hello: Hello) -> Caller {
        let caller = Caller::from_hello(hello);
        let Some(program) = &self.askpass else { return caller };
        let mut environment = caller.environment.to_vec();
        add_askpass(&mut environment, program);
        Caller { environment: environment.into(), ..caller }
    }

    pub(crate) fn count_client(&self) -> ConnectionGuard<'_> {
        self.clients.fetch_add(1, Ordering::Relaxed);
        ConnectionGuard(&self.clients)
    }

    /// Leaves the runs for the next daemon and closes terminals unless the mode keeps them.
    pub(crate) async fn close(&self, mode: ShutdownMode) {
        self.runs.leave().await;
        self.nodes.close().await;
        self.supervision.close(mode).await;
        if !mode.keeps_terminals() {
            self.sessions.close_all().await;
        }
    }

    /// Records that an earlier request of a client's step may have reached a daemon, until the drop of the result.
    pub(crate) fn record_repeated(&self, step: &str) -> RepeatedStep {
        self.sessions.record_repeated(step);
        RepeatedStep { sessions: self.sessions.clone(), step: step.to_owned() }
    }

    pub(crate) fn hello(&self, hello: &Hello) -> Result<VerbReply, Refusal> {
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
        self.ssh.record_client(hello);
        Ok(VerbReply::from_reply(HelloReply {
            protocol_version: PROTOCOL_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            pid: std::process::id(),
        }))
    }

    /// Returns the error reply if a named session is not the project of `caller`.
    pub(crate) async fn check_session(&self, caller: &Caller, names: &[String]) -> Option<VerbReply> {
        for name in names {
            if let Err(error) = self.projects().check_session(caller, name).await {
                return Some(self.mask_reply(VerbReply::failure(error.to_string())));
            }
        }
        None
    }

    /// Performs a command. Some commands also start a stream of events; the events follow the reply.
    ///
    /// With a `step`, does not repeat a terminal's opening or an input that the step has already performed.
    pub(crate) async fn answer(
        &self,
        caller: &Arc<Caller>,
        mut command: Box<Command>,
        step: Option<String>,
    ) -> (VerbReply, Option<ReplyStream>) {
        let sessions = &self.sessions;
        let used_secrets = match Box::pin(self.named_secrets.fill(sessions, caller, &mut command)).await {
            Ok(used_secrets) => used_secrets,
            Err(error) => return (self.mask_reply(failed_reply(*command, error)), None),
        };
        // Box each verb separately, because a waiting command needs the memory of its verb, not of the largest one.
        let answer = match *command {
            Command::Hello(hello) => match self.hello(&hello) {
                Ok(answer) => answer,
                Err(refusal) => VerbReply::failure(refusal.error),
            },
            Command::DaemonStatus(_) => VerbReply::from_reply(self.status().await),
            Command::GetMetrics(_) => {
                let metrics = Box::pin(self.metrics()).await;
                VerbReply::from_reply(GetMetricsReply { success: true, metrics })
            }
            Command::StopDaemon(verb) => {
                let status = self.status().await;
                let remote_terminals = sessions.list_hosts().hosts.iter().map(|host| host.terminals).sum();
                let (terminals, runs) = (status.terminals, status.runs);
                let reply = StopDaemonReply { pid: status.pid, terminals, remote_terminals, runs };
                let mode = if verb.keep_terminals { ShutdownMode::KeepTerminals } else { ShutdownMode::CloseTerminals };
                return (VerbReply::from_reply(reply), Some(ReplyStream::Stop(self.stop.clone(), mode)));
            }
            Command::AwaitOutput(verb) => {
                VerbReply::from_reply(Box::pin(waiting::wait(sessions, &self.runs, caller, verb)).await)
            }
            Command::OpenTerminal(verb) if verb.reuse && self.supervision.declares(caller, &verb).await => {
                VerbReply::from_reply(Box::pin(self.supervision.open_terminal(caller, verb)).await)
            }
            action @ (Command::OpenTerminal(_)
            | Command::SendInput(_)
            | Command::GetScreenContent(_)
            | Command::ListTerminalSessions(_)
            | Command::ExitTerminal(_)
            | Command::PutFile(_)
            | Command::GetFile(_)) => Box::pin(actions::act(sessions, caller, action, step)).await,
            Command::RunCommand(verb) => VerbReply::from_reply(Box::pin(sessions.run_command(caller, verb, step)).await),
            Command::GetVariables(verb) => VerbReply::from_reply(Box::pin(sessions.variables(verb)).await),
            Command::SetVariables(verb) => VerbReply::from_reply(Box::pin(sessions.set_variables(caller, verb)).await),
            Command::ResizeTerminal(verb) => VerbReply::from_reply(Box::pin(sessions.resize(caller, verb)).await),
            Command::SendSignal(verb) => VerbReply::from_reply(Box::pin(sessions.signal(caller, verb)).await),
            Command::WriteTerminal(verb) => VerbReply::from_reply(Box::pin(sessions.write(caller, verb, step)).await),
            Command::AttachTerminal(verb) => {
                let (reply, events) = Box::pin(sessions.attach(caller, verb)).await;
                return (VerbReply::from_reply(reply), events.map(|events| ReplyStream::Terminal(Box::new(events))));
            }
            Command::CopyFile(verb) => {
                let (reply, events) = Box::pin(sessions.copy_file(caller, verb)).await;
                return (self.mask_reply(VerbReply::from_reply(reply)), events.map(|events| ReplyStream::Copy(Box::new(events))));
            }
            Command::WatchScreen(verb) => {
                let (reply, events) = Box::pin(sessions.watch_screen(verb)).await;
                return (VerbReply::from_reply(reply), events.map(|events| ReplyStream::Screen(Box::new(events))));
            }
            Command::ReadInputs(verb) => VerbReply::from_reply(Box::pin(sessions.inputs(verb)).await),
            Command::ListRecordings(verb) => VerbReply::from_reply(Box::pin(self.recordings.list(verb)).await),
            Command::ReadRecording(verb) => VerbReply::from_reply(Box::pin(self.recordings.read(verb)).await),
            Command::ReadScrollback(verb) => VerbReply::from_reply(Box::pin(sessions.scrollback(verb)).await),
            Command::WatchTerminals(_) => {
                let (reply, events) = sessions.watch_terminals();
                return (VerbReply::from_reply(reply), Some(ReplyStream::Activity(events)));
            }
            Command::HoldTerminal(verb) => {
                let (reply, held) = Box::pin(sessions.hold(caller, verb)).await;
                return (VerbReply::from_reply(reply), held.map(ReplyStream::Hold));
            }
            Command::ListHosts(_) => VerbReply::from_reply(sessions.list_hosts()),
            Command::CheckHost(verb) => {
                let host = verb.host.clone();
                VerbReply::from_reply(tokio::select! {
                    reply = Box::pin(sessions.check_host(verb)) => reply,
                    run = self.questions.wait_for_open(&host) => {
                        CheckHostReply { question: Some(run), ..CheckHostReply::default() }
                    }
                })
            }
            Command::AskSshQuestion(verb) => {
                // The answer may be a secret, and ssh needs it unmasked.
                let reply = Box::pin(self.questions.ask(&self.runs, verb)).await;
                return (VerbReply::from_reply(reply), None);
            }
            Command::AskPassword(verb) => {
                // Unmasked for the same reason.
                let reply = Box::pin(self.passwords.ask(&self.runs, sessions, caller, verb)).await;
                return (VerbReply::from_reply(reply), None);
            }
            Command::HandBackTerminal(verb) => VerbReply::from_reply(Box::pin(sessions.hand_back(verb)).await),
            Command::RunWorkflow(verb) => {
                let detail = verb.detail;
                VerbReply::from_run(select_detail(Box::pin(self.runs.run(caller, verb, step)).await, detail))
            }
            Command::ExecuteWorkflow(verb) => VerbReply::from_reply(Box::pin(self.runs.execute(caller, verb, step)).await),
            Command::GetRun(verb) => {
                let detail = verb.detail;
                VerbReply::from_run(select_detail(Box::pin(self.runs.get_run(verb)).await, detail))
            }
            Command::Decide(verb) => VerbReply::from_reply(Box::pin(self.runs.answer(caller, verb.into())).await),
            Command::ProposePatch(verb) => VerbReply::from_reply(Box::pin(self.runs.propose_patch(caller, verb)).await),
            Command::AnswerGate(verb) => VerbReply::from_reply(Box::pin(self.runs.answer(caller, verb.into())).await),
            Command::ServeRuns(verb) => {
                let (reply, requests) = self.runs.serve_engine(&verb);
                return (VerbReply::from_reply(reply), requests.map(ReplyStream::Engine));
            }
            // The engine receives unmasked results, since it decides with them; the worker encrypts the stored results.
            Command::PerformTask(verb) => {
                return (VerbReply::from_reply(Box::pin(self.runs.perform_task(caller, verb)).await), None);
            }
            Command::ReportRequest(verb) => VerbReply::from_reply(self.runs.report_request(verb)),
            Command::GetApprover(_) => VerbReply::from_reply(Box::pin(self.approver.status()).await),
            // Only a person may change the passphrase. If the system hides processes of other users, a passphrase is
            // the only possible proof, so the first one may be set from a terminal with a hidden owner.
            Command::SetApprover(verb) => match caller.person_refusal().await {
                None => VerbReply::from_reply(Box::pin(self.runs.set_approver(verb, caller.source())).await),
                Some(PersonRefusal::Hidden) if caller.proof().await == Proof::Terminal => {
                    VerbReply::from_reply(Box::pin(self.runs.set_approver(verb, caller.source())).await)
                }
                Some(_) => VerbReply::failure(
                    "The approver's passphrase is set by a person, with 'steplatch approver', in a terminal of their own"
                        .to_owned(),
                ),
            },
            // Require a person, as for the passphrase: an agent that edits the settings must not lower the proof for
            // its own questions.
            Command::LowerRequirement(verb) => match caller.is_at_own_terminal().await {
                true => {
                    let by = format!("{} ({})", caller.display_name().await, caller.display_surface().await);
                    VerbReply::from_reply(Box::pin(self.approver.lower_requirement(verb, caller.source(), by)).await)
                }
                false => VerbReply::failure(
                    "What gates require is lowered by a person, with 'steplatch approver lower', in a terminal of their own"
                        .to_owned(),
                ),
            },
            // The passphrase proves a person even if the kernel hides the process.
            Command::UnlockRuns(verb) => match caller.person_refusal().await {
                None | Some(PersonRefusal::Hidden) => {
                    VerbReply::from_reply(Box::pin(self.runs.unlock(verb, caller.source())).await)
                }
                Some(_) => VerbReply::failure(
                    "Locked runs are opened by a person, with 'steplatch approver unlock', in a terminal of their own"
                        .to_owned(),
                ),
            },
            // The record shows a person what agents did, so no agent deletes it.
            Command::DeleteRun(verb) => match caller.is_at_own_terminal().await || caller.is_in_own_browser().await {
                true => VerbReply::from_reply(Box::pin(self.runs.delete(verb)).await),
                false => VerbReply::failure(
                    "Records of runs are deleted by a person, on the page or with 'steplatch runs delete', in a terminal \
                     of their own"
                        .to_owned(),
                ),
            },
            // The passphrase separates the approver from other people at a browser that is logged in.
            Command::EditWorkflow(verb) => match caller.is_in_own_browser().await {
                true => VerbReply::from_reply(match self.approver.verify(verb.passphrase.as_ref(), caller.source()).await {
                    Ok(_) => Box::pin(self.workflows.edit(caller, verb)).await,
                    Err(error) => EditWorkflowReply {
                        passphrase_wanted: error.wants_another(),
                        retry_after_seconds: error.retry_after_seconds(),
                        error: Some(error.to_string()),
                        ..EditWorkflowReply::default()
                    },
                }),
                false => VerbReply::failure(
                    "A workflow is edited by a person, on the page; programs save one with CREATE_WORKFLOW".to_owned(),
                ),
            },
            Command::RecordTerminal(verb) => {
                VerbReply::from_reply(Box::pin(sessions.record_terminal(caller, verb)).await)
            }
            Command::ReadCommand(verb) => {
                let list = self.tools.read_commands();
                VerbReply::from_reply(Box::pin(read_commands::run(caller, &list, &self.secrets, verb)).await)
            }
            Command::RequestSecret(verb) => {
                VerbReply::from_reply(Box::pin(sessions.request_secret(caller, verb)).await)
            }
            // An agent that could type the password would know it.
            Command::EnterSecret(verb) => match caller.is_at_own_terminal().await || caller.is_in_own_browser().await {
                true => VerbReply::from_reply(Box::pin(sessions.enter_secret(caller, verb)).await),
                false => VerbReply::failure(
                    "A password is typed by a person, on the page or with 'steplatch terminal secret', in a terminal of \
                     their own; an agent waits for it with request_secret"
                        .to_owned(),
                ),
            },
            // A ticket grants the rights of the user's programs, so only a person at their terminal receives one.
            Command::OpenPage(verb) => match caller.is_at_own_terminal().await {
                true => VerbReply::from_reply(self.page.open_page(&verb)),
                false => VerbReply::failure(
                    "The page is opened by a person, with 'steplatch open', in a terminal of their own".to_owned(),
                ),
            },
            // A link shows a terminal to others, so only a person at their terminal may create one.
            Command::ShareTerminal(verb) => match caller.is_at_own_terminal().await {
                true => {
                    // An id is found even if its terminal is not open.
                    let terminal = match sessions.exists(&verb.session_id).await {
                        Ok(()) => sessions.id_of(&verb.session_id).await,
                        Err(error) => Err(error.to_string()),
                    };
                    VerbReply::from_reply(match terminal {
                        Ok(terminal) => self.page.share(terminal, verb.seconds),
                        Err(error) => ShareTerminalReply { error: Some(error), ..ShareTerminalReply::default() },
                    })
                }
                false => VerbReply::failure(
                    "A terminal is shared by a person, with 'steplatch terminal share', in a terminal of their own"
                        .to_owned(),
                ),
            },
            // A passkey answers for the person, so only a person at their terminal adds and removes it.
            Command::AddPasskey(verb) => match caller.is_at_own_terminal().await {
                true => match self.approver.verify(verb.passphrase.as_ref(), caller.source()).await {
                    Ok(_) => VerbReply::from_reply(self.passkeys.issue()),
                    Err(refusal) => VerbReply::from_reply(AddPasskeyReply {
                        passphrase_wanted: refusal.wants_another(),
                        error: Some(refusal.to_string()),
                        ..AddPasskeyReply::default()
                    }),
                },
                false => VerbReply::failure(
                    "A passkey is added by a person, with 'steplatch gates passkey add', in a terminal of their own".to_owned(),
                ),
            },
            Command::RegisterPasskey(verb) => VerbReply::from_reply(self.passkeys.register(&verb)),
            Command::AwaitPasskey(verb) => VerbReply::from_reply(Box::pin(self.passkeys.await_registration(&verb)).await),
            Command::ConfirmPasskey(verb) => match caller.is_at_own_terminal().await {
                true => VerbReply::from_reply(self.passkeys.confirm(&verb)),
                false => VerbReply::failure(
                    "A passkey is confirmed by a person, with 'steplatch gates passkey confirm', in a terminal of their own"
                        .to_owned(),
                ),
            },
            Command::ListPasskeys(_) => VerbReply::from_reply(self.passkeys.list()),
            Command::RemovePasskey(verb) => match caller.is_at_own_terminal().await {
                true => VerbReply::from_reply(self.passkeys.remove(&verb)),
                false => VerbReply::failure(
                    "A passkey is removed by a person, with 'steplatch gates passkey remove', in a terminal of their own"
                        .to_owned(),
                ),
            },
            // Programs in kept terminals may have read the ticket of the person. An unknown ticket is refused first,
            // because an inspection of the client costs more.
            Command::BeginPageSession(verb) if !self.page.contains_ticket(&verb) => {
                VerbReply::from_reply(self.page.begin(&verb))
            }
            Command::BeginPageSession(verb) => match caller.kept_terminal_refusal().await {
                None => VerbReply::from_reply(self.page.begin(&verb)),
                Some(PersonRefusal::Unknown | PersonRefusal::UnknownClient) => VerbReply::failure(
                    "The page is opened by a person, in a browser of their own: the program behind this connection cannot \
                     be determined; try again"
                        .to_owned(),
                ),
                Some(_) => VerbReply::failure(
                    "The page is opened by a person, in a browser of their own: this program runs in a terminal that steplatch \
                     keeps, where an agent may type"
                        .to_owned(),
                ),
            },
            Command::CheckPageSession(verb) => VerbReply::from_reply(self.page.check(&verb)),
            Command::ListPageSessions(_) => VerbReply::from_reply(self.page.list()),
            Command::EndPageSessions(verb) => match caller.kept_terminal_refusal().await {
                None => VerbReply::from_reply(self.page.end(&verb)),
                Some(_) => VerbReply::failure(
                    "The sessions of browsers are ended by a person, in a terminal of their own or on the page".to_owned(),
                ),
            },
            Command::CancelWorkflow(verb) => VerbReply::from_reply(Box::pin(self.runs.cancel(verb)).await),
            Command::PauseWorkflow(verb) => VerbReply::from_reply(Box::pin(self.runs.pause(caller, verb)).await),
            Command::ResumeWorkflow(verb) => VerbReply::from_reply(Box::pin(self.runs.resume(caller, verb)).await),
            Command::GetGate(verb) => VerbReply::from_reply(Box::pin(self.runs.gate(&verb)).await),
            Command::GetWorkflowRun(verb) => VerbReply::from_reply(Box::pin(self.runs.record(&verb)).await),
            Command::ListWorkflowRuns(verb) => VerbReply::from_reply(Box::pin(self.runs.list(&verb)).await),
            Command::Subscribe(verb) => {
                let (reply, events) = Box::pin(self.runs.subscribe(&verb)).await;
                return (VerbReply::from_reply(reply), events.map(ReplyStream::Run));
            }
            Command::CaptureWorkflow(verb) => {
                VerbReply::from_reply(Box::pin(self.workflows.capture(caller, sessions, verb)).await)
            }
            Command::CreateWorkflow(verb) => VerbReply::from_reply(Box::pin(self.workflows.create(caller, verb)).await),
            Command::ListWorkflowVersions(verb) => {
                VerbReply::from_reply(Box::pin(self.workflows.list_versions(caller, verb)).await)
            }
            Command::RevertWorkflow(verb) => VerbReply::from_reply(Box::pin(self.workflows.revert(caller, verb)).await),
            Command::ForgetWorkflowVersions(verb) => {
                VerbReply::from_reply(Box::pin(self.workflows.forget_versions(caller, verb)).await)
            }
            Command::LoadFunctions(verb) => VerbReply::from_reply(Box::pin(self.workflows.load(caller, verb)).await),
            Command::GetWorkflowSchema(verb) => VerbReply::from_reply(self.workflows.schema(&verb)),
            Command::ListWorkflows(verb) => VerbReply::from_reply(Box::pin(self.tools.list_workflows(caller, verb)).await),
            Command::DrawWorkflow(verb) => VerbReply::from_reply(match (verb.name, verb.run_id) {
                (Some(name), None) => Box::pin(self.workflows.draw(caller, name)).await,
                (None, Some(run)) => Box::pin(self.runs.draw(&run)).await,
                _ => DrawWorkflowReply {
                    error: Some("Provide either name or run_id to draw".to_owned()),
                    ..DrawWorkflowReply::default()
                },
            }),
            Command::DescribeWorkflow(verb) => VerbReply::from_reply(Box::pin(self.tools.describe(caller, verb)).await),
            Command::DeleteWorkflow(verb) => VerbReply::from_reply(Box::pin(self.workflows.delete(caller, verb)).await),
            Command::ListNodes(verb) => VerbReply::from_reply(Box::pin(self.projects().list_nodes(caller, &verb)).await),
            Command::DescribeNode(verb) => VerbReply::from_reply(Box::pin(self.projects().describe_node(caller, &verb)).await),
            Command::RunNode(verb) => VerbReply::from_reply(Box::pin(self.runs.run_node(caller, verb, step)).await),
            Command::ListGraphs(verb) => VerbReply::from_reply(Box::pin(self.projects().list_graphs(caller, &verb)).await),
            Command::RunGraph(verb) => VerbReply::from_reply(Box::pin(self.runs.run_graph(caller, verb, step)).await),
            Command::ListTools(verb) => VerbReply::from_reply(Box::pin(self.tools.list(caller, verb)).await),
            Command::CallTool(verb) => match Box::pin(self.tools.find_checked(caller, &verb.name, &verb.arguments)).await {
                Ok(tool) => {
                    let detail = verb.detail;
                    VerbReply::from_run(select_detail(Box::pin(self.runs.call_tool(caller, tool, verb, step)).await, detail))
                }
                Err(not_called) => VerbReply::from_run(not_called.into_reply()),
            },
            Command::Watch(_) => {
                let watching = ReplyStream::Changes(Box::new(Box::pin(self.tools.watch(caller)).await));
                return (VerbReply::from_reply(WatchReply { success: true, error: None }), Some(watching));
            }
            Command::StartServices(verb) => VerbReply::from_reply(Box::pin(self.supervision.up(caller, verb)).await),
            Command::StopServices(verb) => VerbReply::from_reply(Box::pin(self.supervision.down(caller, verb)).await),
            Command::RestartServices(verb) => {
                VerbReply::from_reply(Box::pin(self.supervision.restart(caller, verb)).await)
            }
            Command::ListServices(verb) => VerbReply::from_reply(Box::pin(self.supervision.list(caller, verb)).await),
            Command::AddSchedule(verb) => VerbReply::from_reply(Box::pin(self.schedules.add(caller, verb)).await),
            Command::ListSchedules(verb) => VerbReply::from_reply(Box::pin(self.schedules.list(verb)).await),
            Command::PauseSchedule(verb) => VerbReply::from_reply(Box::pin(self.schedules.pause(verb)).await),
            Command::RemoveSchedule(verb) => VerbReply::from_reply(Box::pin(self.schedules.remove(verb)).await),
            Command::FireSchedule(verb) => VerbReply::from_reply(Box::pin(self.schedules.fire(verb, step)).await),
            Command::ListNotifications(_) => VerbReply::from_reply(Box::pin(self.notifications.list()).await),
            // A test runs the commands of the rules and disturbs people.
            Command::TestNotification(verb) => match caller.person_refusal().await {
                None | Some(PersonRefusal::Hidden) => {
                    VerbReply::from_reply(Box::pin(self.notifications.test(verb)).await)
                }
                Some(_) => VerbReply::failure(
                    "Notifications are tested by a person, with 'steplatch notify test', in a terminal of their own"
                        .to_owned(),
                ),
            },
            Command::WatchNotifications(_) => {
                let watching = ReplyStream::Notifications(self.notifications.watch());
                return (VerbReply::from_reply(WatchNotificationsReply { success: true }), Some(watching));
            }
            Command::ListRemoteWorkflows(verb) => VerbReply::from_reply(self.remotes.list(verb)),
            Command::RefreshWorkflows(verb) => VerbReply::from_reply(Box::pin(self.remotes.refresh(verb)).await),
            Command::CheckWorkflowStatus(verb) => {
                // The id may be the run's id at its service.
                let run_id = match verb.run_id.parse() {
                    Ok(run) => self.runs.remote_ids(&run).await,
                    Err(_) => None,
                };
                VerbReply::from_reply(Box::pin(self.remotes.check(verb, run_id)).await)
            }
        };
        if let Some(session) =
            answer.data.get("session_id").and_then(Value::as_str).filter(|_| !used_secrets.is_empty())
        {
            // A terminal that was opened on another machine.
            self.sessions.hide_named_secrets(Some(session), &used_secrets).await;
        }
        (self.mask_reply(answer), None)
    }

    /// Removes typed secrets from a reply, including its error and the names of directories.
    fn mask_reply(&self, mut reply: VerbReply) -> VerbReply {
        self.secrets.mask_in(&mut reply.data);
        reply.error = self.secrets.masked_if(reply.error);
        reply
    }

    async fn metrics(&self) -> Vec<Metric> {
        let status = self.status().await;
        #[allow(clippy::cast_precision_loss, reason = "the counts are below 2^53")]
        let number = |count: usize| count as f64;
        let mut metrics = self.remotes.metrics();
        metrics.extend([
            Metric::gauge("steplatch_clients", "Connected clients.", number(status.clients)),
            Metric::gauge("steplatch_runs_under_way", "Runs that have not ended.", number(status.runs)),
            Metric::gauge("steplatch_terminals", "Open terminals.", number(status.terminals)),
            Metric::gauge("steplatch_uptime_seconds", "Seconds since the daemon began.", status.uptime_seconds),
        ]);
        metrics.sort_by(|left, right| left.name.cmp(&right.name));
        metrics
    }

    async fn status(&self) -> DaemonStatusReply {
        let hosts = self.sessions.hosts().await.into_iter().map(|host| {
            let state = match host.state {
                HostState::Current => "current",
                HostState::Older => "older",
                HostState::Foreign => "foreign",
                HostState::Silent => "silent",
            };
            HostInfo {
                pid: host.pid,
                version: host.version,
                terminals: host.terminals,
                state: state.to_owned(),
                advice: host_advice(state).map(str::to_owned),
            }
        });
        let hosts: Vec<_> = hosts.collect();
        DaemonStatusReply {
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            protocol_version: PROTOCOL_VERSION,
            socket: self.paths.socket().display().to_string(),
            state_dir: self.paths.state().display().to_string(),
            terminals: hosts.iter().map(|host| host.terminals).sum(),
            runs: self.runs.count_in_progress(),
            clients: self.clients.load(Ordering::Relaxed),
            uptime_seconds: self.started.elapsed().as_secs_f64(),
            hosts,
        }
    }
}

/// Returns the reply about a run with the requested detail, by default complete.
fn select_detail(reply: RunReply, detail: Option<RunDetail>) -> RunReply {
    match detail {
        Some(RunDetail::Brief) => reply.shortened(),
        Some(RunDetail::Full) | None => reply,
    }
}
