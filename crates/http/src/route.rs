//! Table of routes.
//!
//! A route is a verb of the contract at an address. The server, the OpenAPI document and the tests use the rows of the
//! table. A route has the parameters and the reply of its verb. Another list has the verbs without a route.

use steplatch_protocol::{VERBS, VerbInfo};

/// Prefix of all addresses of the table.
pub const BASE: &str = "/api/v1";

/// The method of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Method {
    /// Parameters are in the address and its query.
    Get,
    /// Parameters are in the address and in a JSON object.
    Post,
    /// Same as Post, to set a value.
    Put,
    /// Parameters are in the address and its query.
    Delete,
}

impl Method {
    /// Returns whether the parameters are in a body.
    #[must_use]
    pub fn has_body(self) -> bool {
        matches!(self, Self::Post | Self::Put)
    }

    /// Returns the name of the method.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Delete => "DELETE",
        }
    }
}

/// Kind of the resource in an address. A missing resource has the status 404.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ResourceKind {
    /// A run, by its id.
    Run,
    /// A terminal, by its id or its name.
    Terminal,
    /// A recording, by its id.
    Recording,
    /// A remote host, by its name.
    Host,
    /// A schedule, by its name.
    Schedule,
    /// A saved workflow, by its name.
    Workflow,
    /// A node, by its name.
    Node,
    /// A graph, by its name.
    Graph,
    /// A workflow that is a tool, by the tool's name.
    Tool,
    /// A workflow of a remote service, by its id there.
    RemoteWorkflow,
}

/// Status of a reply with `success: false`, if the resource exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FailureStatus {
    /// The state of the resource does not allow the request: 409.
    Conflict,
    /// The request is valid but cannot be executed: 422.
    Unprocessable,
    /// 200 for a failed run, if the reply has a run.
    Run,
    /// 200: the reply is the outcome of a call.
    Value,
}

/// A verb at an address.
#[derive(Debug, Clone, Copy)]
pub struct Route {
    /// HTTP method of the route.
    pub method: Method,
    /// The address under [`BASE`]; parameters are in braces.
    pub path: &'static str,
    /// Name of the verb.
    pub verb: &'static str,
    /// Parameters of the address that have another name in the verb.
    pub renamed: &'static [(&'static str, &'static str)],
    /// The resource of the address.
    pub resource: Option<ResourceKind>,
    /// Status of an unsuccessful reply.
    pub failure_status: FailureStatus,
    /// True if only a browser with a session of the page may send the request; the token is not enough.
    pub for_page: bool,
}

macro_rules! routes {
    ($( $method:ident $path:literal $verb:literal $({ $($from:literal = $to:literal),+ })? $(of $thing:ident)? $(for $page:ident)?, $unsuccessful:ident; )*) => {
        /// Every verb available over HTTP as a request with one response.
        pub const ROUTES: &[Route] = &[
            $( Route {
                method: Method::$method,
                path: $path,
                verb: $verb,
                renamed: &[$($(($from, $to)),+)?],
                resource: routes!(@thing $($thing)?),
                failure_status: FailureStatus::$unsuccessful,
                for_page: routes!(@page $($page)?),
            }, )*
        ];
    };
    (@thing) => { None };
    (@thing $thing:ident) => { Some(ResourceKind::$thing) };
    (@page) => { false };
    (@page page) => { true };
}

routes! {
    Get "/status" "DAEMON_STATUS", Unprocessable;

    Post "/read-command" "READ_COMMAND", Unprocessable;

    Get "/runs" "LIST_WORKFLOW_RUNS", Unprocessable;
    Post "/runs" "RUN_WORKFLOW", Run;
    Get "/runs/{run_id}" "GET_RUN" of Run, Run;
    Get "/runs/{run_id}/record" "GET_WORKFLOW_RUN" of Run, Unprocessable;
    Post "/runs/{run_id}/cancel" "CANCEL_WORKFLOW" of Run, Conflict;
    Delete "/runs/{run_id}" "DELETE_RUN" of Run for page, Conflict;
    Post "/runs/{run_id}/pause" "PAUSE_WORKFLOW" of Run, Conflict;
    Post "/runs/{run_id}/resume" "RESUME_WORKFLOW" of Run, Conflict;
    Post "/runs/{run_id}/patches" "PROPOSE_PATCH" of Run, Conflict;
    Post "/runs/{run_id}/decide" "DECIDE" of Run, Conflict;
    Get "/runs/{run_id}/gates/{gate_id}" "GET_GATE" of Run, Conflict;
    Post "/runs/{run_id}/gates/{gate_id}" "ANSWER_GATE" of Run, Conflict;

    Get "/services" "LIST_SERVICES", Unprocessable;
    Post "/services/start" "START_SERVICES", Conflict;
    Post "/services/stop" "STOP_SERVICES", Conflict;
    Post "/services/restart" "RESTART_SERVICES", Conflict;

    Get "/schedules" "LIST_SCHEDULES", Unprocessable;
    Post "/schedules" "ADD_SCHEDULE", Conflict;
    Post "/schedules/{name}/runs" "FIRE_SCHEDULE" of Schedule, Conflict;
    Post "/schedules/{name}/pause" "PAUSE_SCHEDULE" of Schedule, Conflict;
    Delete "/schedules/{name}" "REMOVE_SCHEDULE" of Schedule, Conflict;

    Get "/workflows" "LIST_WORKFLOWS", Unprocessable;
    Post "/workflows" "CREATE_WORKFLOW", Conflict;
    Post "/workflows/captures" "CAPTURE_WORKFLOW", Unprocessable;
    Get "/workflows/{name}" "DESCRIBE_WORKFLOW" of Workflow, Unprocessable;
    Put "/workflows/{name}" "EDIT_WORKFLOW" of Workflow for page, Conflict;
    Delete "/workflows/{name}" "DELETE_WORKFLOW" of Workflow, Conflict;
    Get "/workflows/{name}/versions" "LIST_WORKFLOW_VERSIONS" of Workflow, Unprocessable;
    Delete "/workflows/{name}/versions" "FORGET_WORKFLOW_VERSIONS" of Workflow, Unprocessable;
    Post "/workflows/{name}/revert" "REVERT_WORKFLOW" of Workflow, Unprocessable;
    Post "/workflows/{name}/runs" "EXECUTE_WORKFLOW" {"name" = "workflow_id"} of Workflow, Run;
    Get "/diagram" "DRAW_WORKFLOW", Unprocessable;
    Get "/workflow-schema" "GET_WORKFLOW_SCHEMA", Unprocessable;
    Post "/functions" "LOAD_FUNCTIONS", Conflict;

    Get "/tools" "LIST_TOOLS", Unprocessable;
    Post "/tools/{name}/call" "CALL_TOOL" of Tool, Run;
    Get "/remotes" "LIST_REMOTE_WORKFLOWS", Unprocessable;
    Post "/remotes/refresh" "REFRESH_WORKFLOWS", Value;
    Get "/remotes/workflows/{workflow_id}/runs/{run_id}" "CHECK_WORKFLOW_STATUS" of RemoteWorkflow, Unprocessable;

    Get "/hosts" "LIST_HOSTS", Unprocessable;
    Post "/hosts/{host}/check" "CHECK_HOST" of Host, Unprocessable;

    Put "/files" "PUT_FILE", Unprocessable;
    Post "/files/read" "GET_FILE", Unprocessable;

    Get "/nodes" "LIST_NODES", Unprocessable;
    Get "/nodes/{node_id}" "DESCRIBE_NODE" of Node, Unprocessable;
    Post "/nodes/{node_id}/run" "RUN_NODE" of Node, Value;
    Get "/graphs" "LIST_GRAPHS", Unprocessable;
    Post "/graphs/{graph_id}/run" "RUN_GRAPH" of Graph, Value;

    Get "/terminals" "LIST_TERMINAL_SESSIONS", Unprocessable;
    Post "/terminals" "OPEN_TERMINAL", Unprocessable;
    Get "/terminals/{session_id}" "GET_SCREEN_CONTENT" of Terminal, Unprocessable;
    Get "/terminals/{session_id}/inputs" "READ_INPUTS" of Terminal, Unprocessable;
    Get "/terminals/{session_id}/scrollback" "READ_SCROLLBACK" of Terminal, Unprocessable;
    Delete "/terminals/{session_id}" "EXIT_TERMINAL" of Terminal, Conflict;
    Post "/terminals/{session_id}/input" "SEND_INPUT" of Terminal, Conflict;
    Post "/terminals/{session_id}/await" "AWAIT_OUTPUT" of Terminal, Unprocessable;
    Post "/terminals/{session_id}/command" "RUN_COMMAND" of Terminal, Conflict;
    Post "/terminals/{session_id}/resize" "RESIZE_TERMINAL" of Terminal, Conflict;
    Post "/terminals/{session_id}/signal" "SEND_SIGNAL" of Terminal, Conflict;
    Post "/terminals/{session_id}/recording" "RECORD_TERMINAL" of Terminal, Conflict;
    Post "/terminals/{session_id}/secret-request" "REQUEST_SECRET" of Terminal, Conflict;
    Post "/terminals/{session_id}/secret" "ENTER_SECRET" of Terminal for page, Conflict;
    Get "/terminals/{session_id}/variables" "GET_VARIABLES" of Terminal, Conflict;
    Put "/terminals/{session_id}/variables" "SET_VARIABLES" of Terminal, Conflict;
    Post "/commands" "RUN_COMMAND", Unprocessable;

    Get "/recordings" "LIST_RECORDINGS", Unprocessable;
    Get "/recordings/{recording_id}" "READ_RECORDING" of Recording, Unprocessable;

    Get "/approver" "GET_APPROVER", Unprocessable;
    Post "/approver/unlock" "UNLOCK_RUNS" for page, Unprocessable;

    Get "/passkeys" "LIST_PASSKEYS", Unprocessable;
    Post "/passkeys" "REGISTER_PASSKEY" for page, Conflict;

    Get "/page/sessions" "LIST_PAGE_SESSIONS", Unprocessable;
    Delete "/page/sessions" "END_PAGE_SESSIONS", Unprocessable;
}

/// Verbs without a route, each with the reason.
pub const WITHOUT_ROUTE: &[(&str, &str)] = &[
    ("HELLO", "begins a connection to the daemon, which is this server's own"),
    ("SUBSCRIBE", "sends events: GET /runs/{run_id}/events"),
    ("WATCH", "sends events; HTTP clients poll or follow a run"),
    ("GET_METRICS", "is at /metrics, where monitoring systems expect it"),
    ("ATTACH_TERMINAL", "sends the bytes of a terminal, for a person's own terminal"),
    ("WATCH_SCREEN", "sends events, for the page: /live, a WebSocket"),
    ("WATCH_TERMINALS", "sends events, for the page: /live, a WebSocket"),
    ("HOLD_TERMINAL", "lasts as long as its connection, for the page: /live, a WebSocket"),
    ("HAND_BACK_TERMINAL", "is for an attached terminal, which a person holds"),
    ("WRITE_TERMINAL", "is for an attached terminal; programs type with SEND_INPUT"),
    ("COPY_FILE", "sends events; PUT /files and POST /files/read copy one file"),
    ("OPEN_PAGE", "is for a person in their own terminal: steplatch open"),
    ("SHARE_TERMINAL", "is for a person in their own terminal: steplatch terminal share"),
    ("ASK_PASSWORD", "is for an askpass program, which its parent process identifies"),
    ("ASK_SSH_QUESTION", "is for an ssh process that the daemon started, which has a ticket"),
    ("BEGIN_PAGE_SESSION", "returns a cookie: POST /page/session, for the page"),
    ("CHECK_PAGE_SESSION", "is a request of this server to authenticate the page"),
    ("SERVE_RUNS", "is a request of the Temporal worker, on the daemon's socket"),
    ("PERFORM_TASK", "is a request of the Temporal worker, on the daemon's socket"),
    ("REPORT_REQUEST", "is a request of the Temporal worker, on the daemon's socket"),
    ("STOP_DAEMON", "would stop the daemon for all clients; a person stops it on the command line"),
    ("ADD_PASSKEY", "is for a person in their own terminal: steplatch gates passkey add"),
    ("AWAIT_PASSKEY", "is for a person in their own terminal: steplatch gates passkey add"),
    ("CONFIRM_PASSKEY", "is for a person in their own terminal: steplatch gates passkey confirm"),
    ("REMOVE_PASSKEY", "is for a person in their own terminal: steplatch gates passkey remove"),
    ("LOWER_REQUIREMENT", "is for a person in their own terminal"),
    ("LIST_NOTIFICATIONS", "is about a person's own settings: steplatch notify list"),
    ("TEST_NOTIFICATION", "is about a person's own settings: steplatch notify test"),
    ("WATCH_NOTIFICATIONS", "sends events, for a person's own terminal"),
    ("SET_APPROVER", "is for a person in their own terminal"),
];

impl Route {
    /// Returns the verb.
    ///
    /// # Panics
    /// If the table has an unknown verb. A test prevents this.
    #[must_use]
    pub fn info(&self) -> &'static VerbInfo {
        VERBS
            .iter()
            .find(|verb| verb.name == self.verb)
            .expect("a test checks that the contract has all verbs of the table")
    }

    /// Returns the full address.
    #[must_use]
    pub fn address(&self) -> String {
        format!("{BASE}{}", self.path)
    }

    /// Returns the parameters of the address: their names in the path and in the verb.
    pub fn path_parameters(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let names = self.path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
        names.map(|name| (name, self.field_name(name)))
    }

    /// Returns the field of the verb for a parameter of the address.
    pub(crate) fn field_name(&self, name: &'static str) -> &'static str {
        self.renamed.iter().find(|(parameter, _)| *parameter == name).map_or(name, |(_, field)| field)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_verb_has_a_route_or_a_reason() {
        let routed: BTreeSet<_> = ROUTES.iter().map(|route| route.verb).collect();
        let unrouted: BTreeSet<_> = WITHOUT_ROUTE.iter().map(|(verb, _)| *verb).collect();
        assert!(routed.is_disjoint(&unrouted), "a verb has both a route and a reason");
        let all: BTreeSet<_> = routed.union(&unrouted).copied().collect();
        assert_eq!(all, VERBS.iter().map(|verb| verb.name).collect());
    }

    #[test]
    fn addresses_are_unique_with_parameters_of_their_verbs() {
        let mut addresses = BTreeSet::new();
        for route in ROUTES {
            assert!(addresses.insert((route.method.name(), route.path)), "{}", route.path);
            let schema = (route.info().parameters)();
            for (name, field) in route.path_parameters() {
                assert!(!schema["properties"][field].is_null(), "{} has no {name}", route.verb);
            }
            assert_eq!(route.path_parameters().count() > 0, route.resource.is_some(), "{}", route.path);
            let is_read_only = route.info().traits.read_only;
            assert!(is_read_only || route.method != Method::Get, "GET {} is not read-only", route.path);
        }
    }
}
