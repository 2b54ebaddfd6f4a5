//! The contract between the daemon and its front-ends.
//!
//! Owns every verb that can be asked of the daemon, once: its name, its
//! parameters, its reply and what kind of deed it is. Tool schemas and help are
//! derived from these types. Besides, it owns how verbs travel (lines of JSON),
//! where the daemon is found, and the client that all front-ends use.

mod approver;
mod arguments;
mod client;
mod codec;
mod connect;
mod daemon;
mod follow;
#[cfg(test)]
mod fuzz;
mod library;
mod message;
mod metrics;
mod nodes;
mod place;
mod reconnecting_client;
mod remote;
mod runs;
mod schema;
mod session;
mod terminals;
mod tools;
mod verb;
mod visible;

pub use approver::{
    GetApprover, GetApproverReply, Passphrase, SetApprover, SetApproverReply, UnlockRuns, UnlockRunsReply,
};
pub use arguments::{InvalidArguments, Read, check, read};
pub use client::{CallError, Client, Events};
pub use codec::{Line, LineReader, MAX_LINE};
pub use connect::{ConnectError, StartError, Starter, connect, connect_or_start};
pub use daemon::{DaemonStatus, DaemonStatusReply, Hello, HelloReply, HostInfo, Peer, StopDaemon, StopDaemonReply};

pub use follow::{FollowError, Follower, SomeEvents};
pub use library::{
    BrokenWorkflow, CreateWorkflow, CreateWorkflowReply, DeclarationInfo, DeleteWorkflow, DeleteWorkflowReply,
    DescribeWorkflow, DescribeWorkflowReply, FileProblem, FunctionSource, GetWorkflowSchema, GetWorkflowSchemaReply,
    ListWorkflows, ListWorkflowsReply, LoadFunctions, LoadFunctionsReply, VariableOfContract, WorkflowInfo,
    WorkflowMetadata,
};
pub use message::{ErrorCode, FromClient, FromDaemon, Refusal};
pub use metrics::{GetMetrics, GetMetricsReply, Histogram, Metric, MetricKind, Sample};
pub use nodes::{
    BrokenNode, DescribeNode, DescribeNodeReply, GraphInfo, ListGraphs, ListGraphsReply, ListNodes, ListNodesReply,
    NodeInfo, NodeReply, RunGraph, RunNode,
};
pub use place::{DaemonPaths, DaemonRecord, NotPrivate, ensure_private};
pub use reconnecting_client::{AskError, ReconnectingClient, RetryPolicy};
pub use remote::{
    CheckWorkflowStatus, CheckWorkflowStatusReply, ListRemoteWorkflows, ListRemoteWorkflowsReply, RefreshWorkflows,
    RefreshWorkflowsReply, RemoteInfo, RemoteWorkflowInfo, StatusTimes,
};
pub use runs::{
    AnswerGate, AnswerGateReply, CancelWorkflow, CancelWorkflowReply, Decide, ExecuteWorkflow, ExecuteWorkflowReply,
    GateInfo, GetGate, GetGateReply, GetRun, GetWorkflowRun, GetWorkflowRunReply, ListWorkflowRuns,
    ListWorkflowRunsReply, PauseInfo, PauseWorkflow, PauseWorkflowReply, RUN_WAIT_SECONDS, ResumeWorkflow, RunEvent,
    RunRecord, RunReply, RunWorkflow, Subscribe, SubscribeReply, TypedInput, Until,
};
pub use schema::{offered, parameters, reply};
pub use session::{DEFAULT_SESSION, take_session};
pub use terminals::{
    AbsenceInfo, AttachTerminal, AttachTerminalReply, AwaitOutput, AwaitOutputReply, AwaitReason, AwaitTarget,
    AwaitUntil, ContentMode, CursorPosition, ExitTerminal, ExitTerminalReply, GetScreenContent, GetScreenContentReply,
    GetVariables, GetVariablesReply, HandBackTerminal, HandBackTerminalReply, ListTerminalSessions,
    ListTerminalSessionsReply, OpenTerminal, OpenTerminalReply, PNG_FIELD, ResizeTerminal, ResizeTerminalReply,
    RunCommand, RunCommandReply, ScreenFormat, SendInput, SendInputReply, SendSignal, SendSignalReply, SessionInfo,
    SetVariables, SetVariablesReply, Survivor, TerminalEvent, VariableInfo, WriteTerminal, WriteTerminalReply,
};
pub use tools::{CallTool, Change, ListTools, ListToolsReply, ToolInfo, ToolScope, Watch, WatchReply};
pub use verb::{Command, VERBS, Verb, VerbInfo, VerbTraits};
pub use visible::{is_format, visible};

/// The version of the contract. Raised when an older front-end or daemon would misread the other.
pub const PROTOCOL_VERSION: u32 = 1;
