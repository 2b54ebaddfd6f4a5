//! The table of verbs.
//!
//! The type of a verb holds its parameters. One line of the table adds a verb to the
//! contract: the compiler then requires the daemon to handle it, and a verb with a
//! tool name is offered to agents.

use std::sync::LazyLock;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::arguments::{InvalidArguments, Read, read};
use crate::{
    approver, capture, daemon, engine, files, hosts, inputs, library, metrics, nodes, page, passkey, recordings,
    remote, runs, screens, terminals, tools,
};

/// A request to the daemon. The type holds the parameters.
pub trait Verb: Serialize + DeserializeOwned + schemars::JsonSchema + Send + 'static {
    /// The name on the wire, such as `OPEN_TERMINAL`.
    const NAME: &'static str;
    /// Hints about its effects.
    const NATURE: VerbTraits;
    /// Type of the reply.
    type Reply: Serialize + DeserializeOwned + schemars::JsonSchema + Send + 'static;

    /// Returns the JSON Schema of the parameters, which is generated once.
    fn schema() -> &'static Value;
}

/// Hints about a verb's effects (MCP tool annotations).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerbTraits {
    /// True if it changes nothing.
    pub read_only: bool,
    /// True if it may destroy something.
    pub destructive: bool,
    /// True if repeating it has no further effect.
    pub idempotent: bool,
    /// True if it reaches programs that may do anything.
    pub open_world: bool,
    /// True if the daemon performs it only once for a step.
    pub once: bool,
}

impl VerbTraits {
    /// Reads; any change is only of the bookkeeping of the request.
    pub const READS: Self =
        Self { read_only: true, destructive: false, idempotent: true, open_world: false, once: false };
    /// Reads and changes nothing, and queries other services.
    pub const LOOKS_OUT: Self = Self { open_world: true, ..Self::READS };
    /// Runs or feeds programs that may do anything.
    pub const ACTS: Self =
        Self { read_only: false, destructive: true, idempotent: false, open_world: true, once: false };
    /// Runs or feeds programs that may do anything, at most once for a step.
    pub const ACTS_ONCE: Self = Self { once: true, ..Self::ACTS };
    /// Makes something new and harms nothing, at most once for a step.
    pub const OPENS: Self =
        Self { read_only: false, destructive: false, idempotent: false, open_world: true, once: true };
    /// Ends something; repeating it has no further effect.
    pub const ENDS: Self =
        Self { read_only: false, destructive: true, idempotent: true, open_world: false, once: false };
    /// Writes a file over another one; repeating it has no further effect.
    pub const WRITES: Self =
        Self { read_only: false, destructive: true, idempotent: true, open_world: true, once: false };
    /// Decides something: most later decisions are refused.
    pub const DECIDES: Self =
        Self { read_only: false, destructive: true, idempotent: false, open_world: false, once: false };
    /// Writes a file; a repetition reports that the file exists.
    pub const SAVES: Self =
        Self { read_only: false, destructive: true, idempotent: false, open_world: false, once: false };
    /// Sets something to a value.
    pub const SETS: Self =
        Self { read_only: false, destructive: false, idempotent: true, open_world: false, once: false };
}

/// Row of the table.
#[derive(Debug, Clone, Copy)]
pub struct VerbInfo {
    /// The name on the wire.
    pub name: &'static str,
    /// The name as a tool for agents, if it is one.
    pub tool: Option<&'static str>,
    /// Title of the tool.
    pub title: &'static str,
    /// Hints about its effects.
    pub nature: VerbTraits,
    /// The JSON Schema of the parameters; its description is the verb's.
    pub parameters: fn() -> Value,
    /// The JSON Schema of the reply.
    pub reply: fn() -> Value,
}

macro_rules! verbs {
    ($( $module:ident :: $verb:ident => $reply:ident, $name:literal, $tool:expr, $title:literal, $nature:ident; )*) => {
        $(
            impl Verb for $module::$verb {
                const NAME: &'static str = $name;
                const NATURE: VerbTraits = VerbTraits::$nature;
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
                        .map(|Read { verb, warnings }| (Self::$verb(verb), warnings))), )*
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
                nature: VerbTraits::$nature,
                parameters: crate::schema::parameters::<$module::$verb>,
                reply: crate::schema::reply::<$module::$verb>,
            }, )*
        ];
    };
}

verbs! {
    daemon::Hello => HelloReply, "HELLO", None, "Begin a connection", READS;
    daemon::DaemonStatus => DaemonStatusReply, "DAEMON_STATUS", None, "Tell how the daemon is", READS;
    metrics::GetMetrics => GetMetricsReply, "GET_METRICS", None, "Tell numbers for monitoring", READS;
    daemon::StopDaemon => StopDaemonReply, "STOP_DAEMON", None, "Stop the daemon", ENDS;

    terminals::OpenTerminal => OpenTerminalReply, "OPEN_TERMINAL", Some("open_terminal"), "Open a terminal", OPENS;
    terminals::SendInput => SendInputReply, "SEND_INPUT", Some("send_input"), "Type into a terminal", ACTS_ONCE;
    terminals::AwaitOutput => AwaitOutputReply, "AWAIT_OUTPUT", Some("await_output"), "Wait for output", READS;
    terminals::GetScreenContent => GetScreenContentReply, "GET_SCREEN_CONTENT", Some("get_screen_content"), "Read a terminal", READS;
    terminals::ListTerminalSessions => ListTerminalSessionsReply, "LIST_TERMINAL_SESSIONS", Some("list_terminal_sessions"), "List terminals", READS;
    terminals::ExitTerminal => ExitTerminalReply, "EXIT_TERMINAL", Some("exit_terminal"), "Close a terminal", ENDS;
    inputs::ReadInputs => ReadInputsReply, "READ_INPUTS", None, "Tell what was typed into a terminal", READS;
    terminals::RunCommand => RunCommandReply, "RUN_COMMAND", Some("run_command"), "Run a command", ACTS_ONCE;
    terminals::GetVariables => GetVariablesReply, "GET_VARIABLES", None, "Tell variables of a shell", READS;
    terminals::SetVariables => SetVariablesReply, "SET_VARIABLES", None, "Set variables of a shell", SETS;
    terminals::ResizeTerminal => ResizeTerminalReply, "RESIZE_TERMINAL", Some("resize_terminal"), "Resize a terminal", SETS;
    terminals::SendSignal => SendSignalReply, "SEND_SIGNAL", Some("send_signal"), "Signal a terminal's program", ACTS;
    terminals::AttachTerminal => AttachTerminalReply, "ATTACH_TERMINAL", None, "Join a terminal", READS;
    terminals::HandBackTerminal => HandBackTerminalReply, "HAND_BACK_TERMINAL", None, "Give a held terminal back", SETS;
    files::PutFile => PutFileReply, "PUT_FILE", Some("put_file"), "Write a file", WRITES;
    files::GetFile => GetFileReply, "GET_FILE", Some("get_file"), "Read a file", WRITES;
    files::CopyFile => CopyFileReply, "COPY_FILE", None, "Copy a file between machines", WRITES;
    screens::WatchScreen => WatchScreenReply, "WATCH_SCREEN", None, "Watch the screen of a terminal", READS;
    screens::ReadScrollback => ReadScrollbackReply, "READ_SCROLLBACK", None, "Read a screen and what scrolled away", READS;
    screens::WatchTerminals => WatchTerminalsReply, "WATCH_TERMINALS", None, "Watch the states of terminals", READS;
    screens::HoldTerminal => HoldTerminalReply, "HOLD_TERMINAL", None, "Hold a terminal", SETS;
    recordings::ListRecordings => ListRecordingsReply, "LIST_RECORDINGS", None, "List recordings", READS;
    recordings::ReadRecording => ReadRecordingReply, "READ_RECORDING", None, "Read a stretch of a recording", READS;
    terminals::WriteTerminal => WriteTerminalReply, "WRITE_TERMINAL", None, "Write bytes to a terminal", ACTS_ONCE;

    runs::RunWorkflow => RunReply, "RUN_WORKFLOW", Some("run_workflow"), "Run a workflow", ACTS_ONCE;
    runs::ExecuteWorkflow => ExecuteWorkflowReply, "EXECUTE_WORKFLOW", None, "Run a workflow by name", ACTS_ONCE;
    runs::GetRun => RunReply, "GET_RUN", Some("get_run"), "Look at a run", READS;
    runs::GetGate => GetGateReply, "GET_GATE", None, "Show a gate whole", READS;
    runs::Decide => AnswerGateReply, "DECIDE", Some("decide"), "Answer a run that waits", DECIDES;
    runs::AnswerGate => AnswerGateReply, "ANSWER_GATE", None, "Answer as a person", DECIDES;
    runs::ProposePatch => ProposePatchReply, "PROPOSE_PATCH", Some("propose_patch"), "Propose a repair of a run's machine", ACTS_ONCE;
    runs::CancelWorkflow => CancelWorkflowReply, "CANCEL_WORKFLOW", Some("cancel_run"), "Cancel a run", ENDS;
    runs::DeleteRun => DeleteRunReply, "DELETE_RUN", None, "Delete the record of a run", ENDS;
    runs::PauseWorkflow => PauseWorkflowReply, "PAUSE_WORKFLOW", None, "Pause a run", SETS;
    runs::ResumeWorkflow => PauseWorkflowReply, "RESUME_WORKFLOW", None, "Let a paused run go on", SETS;
    runs::GetWorkflowRun => GetWorkflowRunReply, "GET_WORKFLOW_RUN", None, "The record of a run", READS;
    runs::ListWorkflowRuns => ListWorkflowRunsReply, "LIST_WORKFLOW_RUNS", Some("list_runs"), "List runs", READS;
    runs::Subscribe => SubscribeReply, "SUBSCRIBE", None, "Follow the events of a run", READS;

    engine::ServeRuns => ServeRunsReply, "SERVE_RUNS", None, "Serve runs that an outer engine decides", SETS;
    engine::PerformTask => PerformTaskReply, "PERFORM_TASK", None, "Perform a task for an outer engine", ACTS;
    engine::ReportRequest => ReportRequestReply, "REPORT_REQUEST", None, "Report what became of a request", SETS;

    approver::GetApprover => GetApproverReply, "GET_APPROVER", None, "Tell whether answers need a passphrase", READS;
    approver::SetApprover => SetApproverReply, "SET_APPROVER", None, "Set the passphrase of answers", DECIDES;
    approver::LowerRequirement => LowerRequirementReply, "LOWER_REQUIREMENT", None, "Let a weaker gates.require count", DECIDES;
    approver::UnlockRuns => UnlockRunsReply, "UNLOCK_RUNS", None, "Open locked runs", DECIDES;

    page::OpenPage => OpenPageReply, "OPEN_PAGE", None, "Get a ticket for the page", SETS;
    page::ShareTerminal => ShareTerminalReply, "SHARE_TERMINAL", None, "Get a read-only link to a terminal", SETS;
    page::BeginPageSession => BeginPageSessionReply, "BEGIN_PAGE_SESSION", None, "Exchange a ticket for a session", DECIDES;
    page::CheckPageSession => CheckPageSessionReply, "CHECK_PAGE_SESSION", None, "Check a session of the page", READS;
    page::ListPageSessions => ListPageSessionsReply, "LIST_PAGE_SESSIONS", None, "List sessions of the page", READS;
    page::EndPageSessions => EndPageSessionsReply, "END_PAGE_SESSIONS", None, "End sessions of the page", ENDS;

    passkey::AddPasskey => AddPasskeyReply, "ADD_PASSKEY", None, "Get a ticket for a passkey", SETS;
    passkey::RegisterPasskey => RegisterPasskeyReply, "REGISTER_PASSKEY", None, "Register a passkey", DECIDES;
    passkey::AwaitPasskey => AwaitPasskeyReply, "AWAIT_PASSKEY", None, "Wait for a passkey", READS;
    passkey::ConfirmPasskey => ConfirmPasskeyReply, "CONFIRM_PASSKEY", None, "Confirm a passkey", DECIDES;
    passkey::ListPasskeys => ListPasskeysReply, "LIST_PASSKEYS", None, "List passkeys", READS;
    passkey::RemovePasskey => RemovePasskeyReply, "REMOVE_PASSKEY", None, "Remove a passkey", DECIDES;

    capture::CaptureWorkflow => CaptureWorkflowReply, "CAPTURE_WORKFLOW", Some("capture_workflow"), "Make a workflow of a session", SAVES;
    library::CreateWorkflow => CreateWorkflowReply, "CREATE_WORKFLOW", Some("create_workflow"), "Save a workflow", SAVES;
    library::LoadFunctions => LoadFunctionsReply, "LOAD_FUNCTIONS", None, "Load a file of functions", SETS;
    library::GetWorkflowSchema => GetWorkflowSchemaReply, "GET_WORKFLOW_SCHEMA", Some("get_workflow_schema"), "Learn to write workflows", READS;
    library::ListWorkflows => ListWorkflowsReply, "LIST_WORKFLOWS", Some("list_workflows"), "List saved workflows", READS;
    library::DrawWorkflow => DrawWorkflowReply, "DRAW_WORKFLOW", None, "Draw a machine", READS;
    library::DescribeWorkflow => DescribeWorkflowReply, "DESCRIBE_WORKFLOW", Some("describe_workflow"), "Look at a saved workflow", READS;
    library::DeleteWorkflow => DeleteWorkflowReply, "DELETE_WORKFLOW", Some("delete_workflow"), "Remove a saved workflow", ENDS;

    library::ListWorkflowVersions => ListWorkflowVersionsReply, "LIST_WORKFLOW_VERSIONS", None, "List versions of a workflow", READS;
    library::RevertWorkflow => RevertWorkflowReply, "REVERT_WORKFLOW", None, "Go back to a version of a workflow", SAVES;
    library::ForgetWorkflowVersions => ForgetWorkflowVersionsReply, "FORGET_WORKFLOW_VERSIONS", None, "Forget versions of a workflow", ENDS;

    nodes::ListNodes => ListNodesReply, "LIST_NODES", None, "List nodes", READS;
    nodes::DescribeNode => DescribeNodeReply, "DESCRIBE_NODE", None, "Look at a node", READS;
    nodes::RunNode => NodeReply, "RUN_NODE", None, "Call a node", ACTS;
    nodes::ListGraphs => ListGraphsReply, "LIST_GRAPHS", None, "List graphs", READS;
    nodes::RunGraph => NodeReply, "RUN_GRAPH", None, "Run a graph", ACTS;

    tools::ListTools => ListToolsReply, "LIST_TOOLS", None, "List workflows that are tools", READS;
    tools::CallTool => RunReply, "CALL_TOOL", None, "Call a workflow that is a tool", ACTS_ONCE;
    tools::Watch => WatchReply, "WATCH", None, "Be told of changes", READS;
    hosts::ListHosts => ListHostsReply, "LIST_HOSTS", None, "List other machines", READS;
    hosts::CheckHost => CheckHostReply, "CHECK_HOST", None, "Connect to a machine", LOOKS_OUT;
    hosts::AskSshQuestion => AskSshQuestionReply, "ASK_SSH_QUESTION", None, "Ask a question of ssh", ACTS;
    remote::ListRemoteWorkflows => ListRemoteWorkflowsReply, "LIST_REMOTE_WORKFLOWS", Some("list_remote_workflows"), "List remote workflows", READS;
    remote::RefreshWorkflows => RefreshWorkflowsReply, "REFRESH_WORKFLOWS", Some("refresh_workflows"), "Look for remote workflows", LOOKS_OUT;
    remote::CheckWorkflowStatus => CheckWorkflowStatusReply, "CHECK_WORKFLOW_STATUS", Some("check_workflow_status"), "Ask how a remote run is", LOOKS_OUT;
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
