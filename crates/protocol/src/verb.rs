//! The table of verbs.
//!
//! The type of a verb holds its parameters. One line of the table adds a verb to the
//! contract: the compiler then requires the daemon to handle it, and a verb with a
//! tool name is offered to agents.

use std::sync::LazyLock;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::arguments::{InvalidArguments, ParsedVerb, read};
use crate::{
    approver, capture, daemon, engine, files, hosts, inputs, library, metrics, nodes, notifications, page, passkey,
    read_commands, recordings, remote, runs, schedules, screens, services, terminals, tools,
};

/// A request to the daemon. The type holds the parameters.
pub trait Verb: Serialize + DeserializeOwned + schemars::JsonSchema + Send + 'static {
    /// Name on the wire, such as `OPEN_TERMINAL`.
    const NAME: &'static str;
    /// Hints about the verb's effects.
    const TRAITS: VerbTraits;
    /// Type of the reply.
    type Reply: Serialize + DeserializeOwned + schemars::JsonSchema + Send + 'static;

    /// Returns the JSON Schema of the parameters, which is generated once.
    fn schema() -> &'static Value;
}

/// Hints about a verb's effects (MCP tool annotations).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerbTraits {
    /// True if the verb changes nothing.
    pub read_only: bool,
    /// True if the verb may destroy something.
    pub destructive: bool,
    /// True if a repetition has no further effect.
    pub idempotent: bool,
    /// True if the verb reaches programs that may do anything.
    pub open_world: bool,
    /// True if the daemon executes the verb at most once for a step.
    pub once: bool,
}

impl VerbTraits {
    /// Reads; changes at most the bookkeeping of the request.
    pub const READS: Self =
        Self { read_only: true, destructive: false, idempotent: true, open_world: false, once: false };
    /// Reads from remote services or hosts and changes nothing.
    pub const READS_REMOTE: Self = Self { open_world: true, ..Self::READS };
    /// Runs or feeds programs that may do anything.
    pub const EXECUTES: Self =
        Self { read_only: false, destructive: true, idempotent: false, open_world: true, once: false };
    /// Runs or feeds programs that may do anything, at most once for a step.
    pub const EXECUTES_ONCE: Self = Self { once: true, ..Self::EXECUTES };
    /// Creates something new and harms nothing, at most once for a step.
    pub const CREATES: Self =
        Self { read_only: false, destructive: false, idempotent: false, open_world: true, once: true };
    /// Ends or removes something; a repetition has no further effect.
    pub const REMOVES: Self =
        Self { read_only: false, destructive: true, idempotent: true, open_world: false, once: false };
    /// Writes a file, replacing another one; a repetition has no further effect.
    pub const WRITES: Self =
        Self { read_only: false, destructive: true, idempotent: true, open_world: true, once: false };
    /// Makes a decision; most later decisions are refused.
    pub const DECIDES: Self =
        Self { read_only: false, destructive: true, idempotent: false, open_world: false, once: false };
    /// Writes a file; a repetition reports that the file exists.
    pub const SAVES: Self =
        Self { read_only: false, destructive: true, idempotent: false, open_world: false, once: false };
    /// Sets something to a value.
    pub const SETS: Self =
        Self { read_only: false, destructive: false, idempotent: true, open_world: false, once: false };
}

/// A row of the table of verbs.
#[derive(Debug, Clone, Copy)]
pub struct VerbInfo {
    /// Name on the wire.
    pub name: &'static str,
    /// Tool name, if the verb is offered to agents.
    pub tool: Option<&'static str>,
    /// Title of the tool.
    pub title: &'static str,
    /// Hints about the verb's effects.
    pub traits: VerbTraits,
    /// JSON Schema of the parameters, with the description of the verb.
    pub parameters: fn() -> Value,
    /// JSON Schema of the reply.
    pub reply: fn() -> Value,
}

macro_rules! verbs {
    ($( $module:ident :: $verb:ident => $reply:ident, $name:literal, $tool:expr, $title:literal, $traits:ident; )*) => {
        $(
            impl Verb for $module::$verb {
                const NAME: &'static str = $name;
                const TRAITS: VerbTraits = VerbTraits::$traits;
                type Reply = $module::$reply;

                fn schema() -> &'static Value {
                    static SCHEMA: LazyLock<Value> = LazyLock::new(crate::schema::parameters::<$module::$verb>);
                    &SCHEMA
                }
            }
        )*

        /// A verb with its parameters, as requested.
        #[derive(Debug)]
        #[allow(clippy::large_enum_variant, reason = "a command is moved once, from the wire to where it is answered")]
        pub enum Command {
            $( #[doc = $title] $verb($module::$verb), )*
        }

        impl Command {
            /// Reads the parameters of the verb called `name`. `None` when there is no such verb.
            pub fn parse(name: &str, parameters: Value) -> Option<Result<(Self, Vec<String>), InvalidArguments>> {
                match name {
                    $( $name => Some(read::<$module::$verb>(parameters)
                        .map(|ParsedVerb { verb, warnings }| (Self::$verb(verb), warnings))), )*
                    _ => None,
                }
            }
        }

        /// Every verb of the contract.
        pub const VERBS: &[VerbInfo] = &[
            $( VerbInfo {
                name: $name,
                tool: $tool,
                title: $title,
                traits: VerbTraits::$traits,
                parameters: crate::schema::parameters::<$module::$verb>,
                reply: crate::schema::reply::<$module::$verb>,
            }, )*
        ];
    };
}

verbs! {
    daemon::Hello => HelloReply, "HELLO", None, "Begin a connection", READS;
    daemon::DaemonStatus => DaemonStatusReply, "DAEMON_STATUS", None, "Show the daemon's status", READS;
    metrics::GetMetrics => GetMetricsReply, "GET_METRICS", None, "Get the daemon's metrics", READS;
    daemon::StopDaemon => StopDaemonReply, "STOP_DAEMON", None, "Stop the daemon", REMOVES;

    terminals::OpenTerminal => OpenTerminalReply, "OPEN_TERMINAL", Some("open_terminal"), "Open a terminal", CREATES;
    terminals::SendInput => SendInputReply, "SEND_INPUT", Some("send_input"), "Type into a terminal", EXECUTES_ONCE;
    terminals::AwaitOutput => AwaitOutputReply, "AWAIT_OUTPUT", Some("await_output"), "Wait for output", READS;
    terminals::GetScreenContent => GetScreenContentReply, "GET_SCREEN_CONTENT", Some("get_screen_content"), "Read a terminal", READS;
    terminals::ListTerminalSessions => ListTerminalSessionsReply, "LIST_TERMINAL_SESSIONS", Some("list_terminal_sessions"), "List terminals", READS;
    terminals::ExitTerminal => ExitTerminalReply, "EXIT_TERMINAL", Some("exit_terminal"), "Close a terminal", REMOVES;
    inputs::ReadInputs => ReadInputsReply, "READ_INPUTS", None, "Read the input log of a terminal", READS;
    terminals::RunCommand => RunCommandReply, "RUN_COMMAND", Some("run_command"), "Run a command", EXECUTES_ONCE;
    read_commands::ReadCommand => ReadCommandReply, "READ_COMMAND", Some("read_command"), "Run a command that only reads", READS;
    terminals::GetVariables => GetVariablesReply, "GET_VARIABLES", None, "Get variables of a shell", READS;
    terminals::SetVariables => SetVariablesReply, "SET_VARIABLES", None, "Set variables of a shell", SETS;
    terminals::ResizeTerminal => ResizeTerminalReply, "RESIZE_TERMINAL", Some("resize_terminal"), "Resize a terminal", SETS;
    recordings::RecordTerminal => RecordTerminalReply, "RECORD_TERMINAL", Some("record_terminal"), "Save a recording of a terminal", SAVES;
    terminals::RequestSecret => RequestSecretReply, "REQUEST_SECRET", Some("request_secret"), "Ask a person for a password", READS;
    terminals::EnterSecret => EnterSecretReply, "ENTER_SECRET", None, "Type a password as a person", EXECUTES;
    terminals::SendSignal => SendSignalReply, "SEND_SIGNAL", Some("send_signal"), "Signal a terminal's program", EXECUTES;
    terminals::AttachTerminal => AttachTerminalReply, "ATTACH_TERMINAL", None, "Attach to a terminal", READS;
    terminals::HandBackTerminal => HandBackTerminalReply, "HAND_BACK_TERMINAL", None, "Hand back a held terminal", SETS;
    files::PutFile => PutFileReply, "PUT_FILE", Some("put_file"), "Write a file", WRITES;
    files::GetFile => GetFileReply, "GET_FILE", Some("get_file"), "Read a file", WRITES;
    files::CopyFile => CopyFileReply, "COPY_FILE", None, "Copy a file between hosts", WRITES;
    screens::WatchScreen => WatchScreenReply, "WATCH_SCREEN", None, "Watch the screen of a terminal", READS;
    screens::ReadScrollback => ReadScrollbackReply, "READ_SCROLLBACK", None, "Read a screen with its scrollback", READS;
    screens::WatchTerminals => WatchTerminalsReply, "WATCH_TERMINALS", None, "Watch the states of terminals", READS;
    screens::HoldTerminal => HoldTerminalReply, "HOLD_TERMINAL", None, "Hold a terminal", SETS;
    recordings::ListRecordings => ListRecordingsReply, "LIST_RECORDINGS", None, "List recordings", READS;
    recordings::ReadRecording => ReadRecordingReply, "READ_RECORDING", None, "Read part of a recording", READS;
    terminals::WriteTerminal => WriteTerminalReply, "WRITE_TERMINAL", None, "Write bytes to a terminal", EXECUTES_ONCE;

    runs::RunWorkflow => RunReply, "RUN_WORKFLOW", Some("run_workflow"), "Run a workflow", EXECUTES_ONCE;
    runs::ExecuteWorkflow => ExecuteWorkflowReply, "EXECUTE_WORKFLOW", None, "Run a workflow by name", EXECUTES_ONCE;
    runs::GetRun => RunReply, "GET_RUN", Some("get_run"), "Get a run", READS;
    runs::GetGate => GetGateReply, "GET_GATE", None, "Get a gate in full", READS;
    runs::Decide => AnswerGateReply, "DECIDE", Some("decide"), "Answer a waiting run", DECIDES;
    runs::AnswerGate => AnswerGateReply, "ANSWER_GATE", None, "Answer a gate as a person", DECIDES;
    runs::ProposePatch => ProposePatchReply, "PROPOSE_PATCH", Some("propose_patch"), "Propose a patch for a run", EXECUTES_ONCE;
    runs::CancelWorkflow => CancelWorkflowReply, "CANCEL_WORKFLOW", Some("cancel_run"), "Cancel a run", REMOVES;
    runs::DeleteRun => DeleteRunReply, "DELETE_RUN", None, "Delete the record of a run", REMOVES;
    runs::PauseWorkflow => PauseWorkflowReply, "PAUSE_WORKFLOW", None, "Pause a run", SETS;
    runs::ResumeWorkflow => PauseWorkflowReply, "RESUME_WORKFLOW", None, "Resume a paused run", SETS;
    runs::GetWorkflowRun => GetWorkflowRunReply, "GET_WORKFLOW_RUN", None, "Get the record of a run", READS;
    runs::ListWorkflowRuns => ListWorkflowRunsReply, "LIST_WORKFLOW_RUNS", Some("list_runs"), "List runs", READS;
    runs::Subscribe => SubscribeReply, "SUBSCRIBE", None, "Follow the events of a run", READS;

    services::StartServices => ServicesReply, "START_SERVICES", None, "Start services", EXECUTES_ONCE;
    services::StopServices => ServicesReply, "STOP_SERVICES", None, "Stop services", REMOVES;
    services::RestartServices => ServicesReply, "RESTART_SERVICES", None, "Restart services", EXECUTES_ONCE;
    services::ListServices => ServicesReply, "LIST_SERVICES", None, "List services", READS;

    schedules::AddSchedule => ScheduleReply, "ADD_SCHEDULE", None, "Add a schedule", SAVES;
    schedules::ListSchedules => ListSchedulesReply, "LIST_SCHEDULES", None, "List schedules", READS;
    schedules::PauseSchedule => ScheduleReply, "PAUSE_SCHEDULE", None, "Pause or resume a schedule", SETS;
    schedules::RemoveSchedule => ScheduleReply, "REMOVE_SCHEDULE", None, "Remove a schedule", REMOVES;
    schedules::FireSchedule => FireScheduleReply, "FIRE_SCHEDULE", None, "Start a run of a schedule", EXECUTES_ONCE;

    engine::ServeRuns => ServeRunsReply, "SERVE_RUNS", None, "Serve runs decided by an external engine", SETS;
    engine::PerformTask => PerformTaskReply, "PERFORM_TASK", None, "Perform a task for an external engine", EXECUTES;
    engine::ReportRequest => ReportRequestReply, "REPORT_REQUEST", None, "Report the outcome of a request", SETS;

    approver::GetApprover => GetApproverReply, "GET_APPROVER", None, "Show the requirements for answers", READS;
    approver::SetApprover => SetApproverReply, "SET_APPROVER", None, "Set the passphrase for answers", DECIDES;
    approver::LowerRequirement => LowerRequirementReply, "LOWER_REQUIREMENT", None, "Confirm a weaker gates.require", DECIDES;
    approver::UnlockRuns => UnlockRunsReply, "UNLOCK_RUNS", None, "Unlock locked runs", DECIDES;

    page::OpenPage => OpenPageReply, "OPEN_PAGE", None, "Get a ticket for the page", SETS;
    page::ShareTerminal => ShareTerminalReply, "SHARE_TERMINAL", None, "Get a read-only link to a terminal", SETS;
    page::BeginPageSession => BeginPageSessionReply, "BEGIN_PAGE_SESSION", None, "Exchange a ticket for a session", DECIDES;
    page::CheckPageSession => CheckPageSessionReply, "CHECK_PAGE_SESSION", None, "Check a page session", READS;
    page::ListPageSessions => ListPageSessionsReply, "LIST_PAGE_SESSIONS", None, "List page sessions", READS;
    page::EndPageSessions => EndPageSessionsReply, "END_PAGE_SESSIONS", None, "End page sessions", REMOVES;

    passkey::AddPasskey => AddPasskeyReply, "ADD_PASSKEY", None, "Get a ticket to register a passkey", SETS;
    passkey::RegisterPasskey => RegisterPasskeyReply, "REGISTER_PASSKEY", None, "Register a passkey", DECIDES;
    passkey::AwaitPasskey => AwaitPasskeyReply, "AWAIT_PASSKEY", None, "Wait for a passkey", READS;
    passkey::ConfirmPasskey => ConfirmPasskeyReply, "CONFIRM_PASSKEY", None, "Confirm a passkey", DECIDES;
    passkey::ListPasskeys => ListPasskeysReply, "LIST_PASSKEYS", None, "List passkeys", READS;
    passkey::RemovePasskey => RemovePasskeyReply, "REMOVE_PASSKEY", None, "Remove a passkey", DECIDES;

    capture::CaptureWorkflow => CaptureWorkflowReply, "CAPTURE_WORKFLOW", Some("capture_workflow"), "Capture a workflow", SAVES;
    library::CreateWorkflow => CreateWorkflowReply, "CREATE_WORKFLOW", Some("create_workflow"), "Save a workflow", SAVES;
    library::EditWorkflow => EditWorkflowReply, "EDIT_WORKFLOW", None, "Save an edited workflow", DECIDES;
    library::LoadFunctions => LoadFunctionsReply, "LOAD_FUNCTIONS", None, "Load a file of functions", SETS;
    library::GetWorkflowSchema => GetWorkflowSchemaReply, "GET_WORKFLOW_SCHEMA", Some("get_workflow_schema"), "Learn to write workflows", READS;
    library::ListWorkflows => ListWorkflowsReply, "LIST_WORKFLOWS", Some("list_workflows"), "List saved workflows", READS;
    library::DrawWorkflow => DrawWorkflowReply, "DRAW_WORKFLOW", None, "Draw a state machine", READS;
    library::DescribeWorkflow => DescribeWorkflowReply, "DESCRIBE_WORKFLOW", Some("describe_workflow"), "Describe a saved workflow", READS;
    library::DeleteWorkflow => DeleteWorkflowReply, "DELETE_WORKFLOW", Some("delete_workflow"), "Remove a saved workflow", REMOVES;

    library::ListWorkflowVersions => ListWorkflowVersionsReply, "LIST_WORKFLOW_VERSIONS", None, "List versions of a workflow", READS;
    library::RevertWorkflow => RevertWorkflowReply, "REVERT_WORKFLOW", None, "Revert to a version of a workflow", SAVES;
    library::ForgetWorkflowVersions => ForgetWorkflowVersionsReply, "FORGET_WORKFLOW_VERSIONS", None, "Delete old versions of a workflow", REMOVES;

    nodes::ListNodes => ListNodesReply, "LIST_NODES", None, "List nodes", READS;
    nodes::DescribeNode => DescribeNodeReply, "DESCRIBE_NODE", None, "Describe a node", READS;
    nodes::RunNode => NodeReply, "RUN_NODE", None, "Call a node", EXECUTES;
    nodes::ListGraphs => ListGraphsReply, "LIST_GRAPHS", None, "List graphs", READS;
    nodes::RunGraph => NodeReply, "RUN_GRAPH", None, "Run a graph", EXECUTES;

    tools::ListTools => ListToolsReply, "LIST_TOOLS", None, "List workflow tools", READS;
    tools::CallTool => RunReply, "CALL_TOOL", None, "Call a workflow tool", EXECUTES_ONCE;
    tools::Watch => WatchReply, "WATCH", None, "Subscribe to changes", READS;
    hosts::ListHosts => ListHostsReply, "LIST_HOSTS", None, "List remote hosts", READS;
    hosts::CheckHost => CheckHostReply, "CHECK_HOST", None, "Connect to a remote host", READS_REMOTE;
    hosts::AskSshQuestion => QuestionReply, "ASK_SSH_QUESTION", None, "Ask a person an ssh question", EXECUTES;
    hosts::AskPassword => QuestionReply, "ASK_PASSWORD", None, "Ask a person for a program's password", EXECUTES;
    notifications::ListNotifications => ListNotificationsReply, "LIST_NOTIFICATIONS", None, "List rules of notifications", READS;
    notifications::TestNotification => TestNotificationReply, "TEST_NOTIFICATION", None, "Send a test notification", EXECUTES;
    notifications::WatchNotifications => WatchNotificationsReply, "WATCH_NOTIFICATIONS", None, "Watch notifications for a terminal", READS;
    remote::ListRemoteWorkflows => ListRemoteWorkflowsReply, "LIST_REMOTE_WORKFLOWS", Some("list_remote_workflows"), "List remote workflows", READS;
    remote::RefreshWorkflows => RefreshWorkflowsReply, "REFRESH_WORKFLOWS", Some("refresh_workflows"), "Refresh remote workflows", READS_REMOTE;
    remote::CheckWorkflowStatus => CheckWorkflowStatusReply, "CHECK_WORKFLOW_STATUS", Some("check_workflow_status"), "Check a remote run", READS_REMOTE;
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn verbs_and_tools_have_unique_names_and_descriptions() {
        let names: BTreeSet<_> = VERBS.iter().map(|verb| verb.name).collect();
        let tools: BTreeSet<_> = VERBS.iter().filter_map(|verb| verb.tool).collect();
        assert_eq!(names.len(), VERBS.len());
        assert_eq!(tools.len(), VERBS.iter().filter(|verb| verb.tool.is_some()).count());
        for verb in VERBS {
            let schema = (verb.parameters)();
            let description = schema["description"].as_str().unwrap_or_default();
            assert!(!description.is_empty(), "{} has no description", verb.name);
            assert!(description.len() < 2048, "{} has a description that clients truncate", verb.name);
        }
    }
}
