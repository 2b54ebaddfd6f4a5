//! Nodes and graphs by the contract: declared in a project, listed, described and called.

use std::fs;
use std::path::PathBuf;

use serde_json::{Value, json};
use steplatch_protocol::{
    Client, DescribeNode, Hello, ListGraphs, ListNodes, ListTerminalSessions, NodeReply, PROTOCOL_VERSION, RunGraph,
    RunNode, connect,
};
use steplatch_testkit::{TestDaemon, eventually};
use tempfile::TempDir;

/// The author of a project, working in one of its directories.
struct Author {
    client: Client,
    directory: TempDir,
}

const TOKEN: &str = "tok-4711-abc";

const DECLARED: &str = r#"
[nodes.where]
type = "bash"
description = "Tells where it works"
command = "pwd; echo $GREETING"

[nodes.shout]
type = "bash"
command = "echo -n {input|sh} | tr a-z A-Z"

[nodes.token]
type = "bash"
command = "echo \"got $TOKEN\"; echo \"$TOKEN\" >&2; exit 3"
env = { TOKEN = "{secret:DEPLOY_TOKEN}" }

[nodes.count]
type = "bash"
command = "echo once >> count; wc -l < count"

[nodes.slow]
type = "bash"
command = "echo $$ > slow.pid; sleep 600"

[nodes.broken]
type = "bash"
comand = "ls"

[graphs.twice]
description = "Shouts, and shouts what came of it"
steps = [
    { id = "one", node = "shout", input = "{input} a" },
    { id = "two", node = "shout", input = "{one} b" },
]

[graphs.fails]
steps = [
    { id = "bad", node = "token" },
    { id = "after", node = "shout", depends_on = ["bad"] },
]

[graphs.nested]
steps = [{ id = "inner", node = "twice", input = "x" }, { id = "outer", node = "identity", input = ["{inner}"] }]
"#;

impl Author {
    async fn connect(daemon: &TestDaemon) -> Self {
        Self::with(daemon, DECLARED).await
    }

    async fn with(daemon: &TestDaemon, declared: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("project/src")).unwrap();
        fs::create_dir(directory.path().join("project/.git")).unwrap();
        fs::write(directory.path().join("project/steplatch.toml"), declared).unwrap();
        let client = Self::connected(daemon, &directory).await;
        Self { client, directory }
    }

    async fn connected(daemon: &TestDaemon, directory: &TempDir) -> Client {
        let environment = [
            ("HOME".to_owned(), directory.path().display().to_string()),
            ("PATH".to_owned(), std::env::var("PATH").unwrap()),
            ("GREETING".to_owned(), "hello".to_owned()),
            ("DEPLOY_TOKEN".to_owned(), TOKEN.to_owned()),
        ];
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION,
            client: "author".to_owned(),
            cwd: Some(directory.path().join("project/src").display().to_string()),
            environment: Some(environment.into()),
            ..Hello::default()
        };
        connect(daemon.paths(), hello).await.unwrap().0
    }

    fn project(&self) -> PathBuf {
        self.directory.path().join("project").canonicalize().unwrap()
    }

    async fn call_tool(&self, node: &str, input: Value) -> NodeReply {
        self.client.call(RunNode { node_id: node.to_owned(), input, timeout: None }).await.unwrap()
    }

    async fn runs(&self, graph: &str, input: Value) -> NodeReply {
        self.client.call(RunGraph { graph_id: graph.to_owned(), input, timeout: None }).await.unwrap()
    }
}

#[tokio::test]
async fn project_nodes_are_listed_and_an_invalid_one_is_named() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    let listing = author.client.call(ListNodes::default()).await.unwrap();
    assert!(listing.success, "{listing:?}");
    let ids: Vec<(&str, &str)> = listing.nodes.iter().map(|node| (node.id.as_str(), node.kind.as_str())).collect();
    let bash = ["count", "shout", "slow", "token", "where"].map(|id| (id, "bash"));
    assert_eq!(ids[1], ("identity", "identity"));
    assert_eq!(ids.iter().filter(|(id, _)| *id != "identity").copied().collect::<Vec<_>>(), bash);
    let file = author.directory.path().join("project/steplatch.toml").display().to_string();
    assert_eq!(listing.files, [file.as_str()]);
    assert_eq!(listing.broken[0].id.as_deref(), Some("broken"));
    assert!(listing.broken[0].reason.contains("did you mean 'command'?"), "{:?}", listing.broken);
    assert_eq!(listing.broken.len(), 1);

    let some = author.client.call(ListNodes { containing: Some("WHERE it".to_owned()) }).await.unwrap();
    assert_eq!(some.nodes.iter().map(|node| node.id.as_str()).collect::<Vec<_>>(), ["where"]);
    let graphs = author.client.call(ListGraphs::default()).await.unwrap().graphs;
    let graphs: Vec<_> = graphs.iter().map(|graph| (graph.id.as_str(), graph.steps.join(" "))).collect();
    let expected = [("fails", "bad after"), ("nested", "inner outer"), ("twice", "one two")];
    assert_eq!(graphs, expected.map(|(id, steps)| (id, steps.to_owned())));

    let described = author.client.call(DescribeNode { node_id: "token".to_owned() }).await.unwrap();
    assert_eq!(described.declaration.unwrap()["env"]["TOKEN"], "{secret:DEPLOY_TOKEN}");
    let described = author.client.call(DescribeNode { node_id: "twice".to_owned() }).await.unwrap();
    assert_eq!(
        described.declaration.unwrap()["steps"][1]["depends_on"],
        json!(["one"]),
        "the dependency follows from the input"
    );
    let error = author.client.call(DescribeNode { node_id: "broken".to_owned() }).await.unwrap().error.unwrap();
    assert!(
        error.starts_with(&format!("Node 'broken' cannot be used; correct its declaration in {file}:\n/comand")),
        "{error}"
    );

    // The current contents of the file apply, even if they are invalid.
    fs::write(author.directory.path().join("project/steplatch.json"), r#"{"nodes": {"new": {"type": "identity"}}}"#)
        .unwrap();
    fs::write(author.directory.path().join("project/steplatch.toml"), "[nodes").unwrap();
    let listing = author.client.call(ListNodes::default()).await.unwrap();
    let ids: Vec<&str> = listing.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["identity", "new"]);
    assert!(listing.broken[0].reason.contains("not valid TOML"), "{:?}", listing.broken);
    daemon.stop().await;
}

#[tokio::test]
async fn call_uses_project_directory_and_callers_environment() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    let called = author.call_tool("where", Value::Null).await;
    assert!(called.success, "{called:?}");
    assert_eq!(called.output, json!(format!("{}\nhello", author.project().display())));
    assert_eq!((called.node_type.as_deref(), called.attributes["exit_code"].as_i64()), (Some("bash"), Some(0)));
    let same = author.call_tool("identity", json!({"a": [1, null]})).await;
    assert_eq!((same.success, same.output), (true, json!({"a": [1, null]})));

    let unknown_node_reply = author.call_tool("wher", json!(1)).await;
    let error = "Node 'wher' not found, did you mean 'where'? Available nodes: count, fails, identity, nested, shout, slow, token, twice, where";
    assert_eq!(
        (unknown_node_reply.error.as_deref(), unknown_node_reply.error_type.as_deref()),
        (Some(error), Some("not_found"))
    );
    assert_eq!(
        (unknown_node_reply.success, unknown_node_reply.node_type, unknown_node_reply.input),
        (false, None, json!(1))
    );
    let error = author.runs("shout", json!("x")).await.error.unwrap();
    assert_eq!(error, "'shout' is a node of type bash, not a graph; call it as a node.");
    let late_request = RunNode { node_id: "slow".to_owned(), input: Value::Null, timeout: Some(0.3) };
    let late_request = author.client.call(late_request).await.unwrap();
    assert_eq!(
        (late_request.success, late_request.error_type.as_deref()),
        (false, Some("timeout")),
        "{late_request:?}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn secret_reference_is_in_no_reply() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    let called = author.call_tool("token", json!(format!("I know {TOKEN}"))).await;
    assert_eq!((called.success, called.error_type.as_deref()), (false, Some("exit_code")));
    assert_eq!(called.output, json!("got ••••••"));
    assert_eq!(called.error.as_deref(), Some("The command ended with exit code 3: ••••••"));
    let graph = author.runs("fails", Value::Null).await;
    // Returned by a node that does not know the secret, after another node used it.
    let repeated = author.call_tool("identity", json!({"again": TOKEN})).await;
    for reply in [&called, &graph, &repeated] {
        let text = serde_json::to_string(reply).unwrap();
        assert!(text.contains("••••••") && !text.contains("4711"), "{text}");
    }
    daemon.stop().await;
}

#[tokio::test]
async fn graph_runs_its_steps_and_names_the_failed_ones() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    let twice = author.runs("twice", json!("hi")).await;
    assert_eq!((twice.success, &twice.output), (true, &json!("HI A B")), "{twice:?}");
    assert_eq!(twice.attributes["execution_order"], json!(["one", "two"]));
    assert_eq!(twice.attributes["steps"]["one"]["status"], "completed");
    let nested = author.call_tool("nested", Value::Null).await;
    assert_eq!((nested.success, nested.output), (true, json!(["X A B"])), "a graph can be called as a node");
    let fails = author.runs("fails", Value::Null).await;
    assert!(!fails.success);
    assert!(fails.error.as_deref().unwrap().starts_with("Step 'bad' failed: "), "{fails:?}");
    assert_eq!(fails.attributes["steps"]["after"]["status"], "not_run");
    daemon.stop().await;
}

/// A project with a node that runs its input as a command, and a graph of such commands.
fn commands(graph: &Value) -> String {
    let steps: Vec<String> = graph
        .as_array()
        .unwrap()
        .iter()
        .map(|step| {
            let field = |(name, value): (&String, &Value)| format!("{name} = {}", inline(value));
            let fields = step.as_object().unwrap().iter().map(field);
            format!("{{ node = \"sh\", {} }}", fields.collect::<Vec<_>>().join(", "))
        })
        .collect();
    format!("[nodes.sh]\ntype = \"bash\"\n\n[graphs.g]\nsteps = [{}]\n", steps.join(", "))
}

/// A value as TOML on one line.
fn inline(value: &Value) -> String {
    match value {
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| format!("{name} = {}", inline(value)));
            format!("{{ {} }}", fields.collect::<Vec<_>>().join(", "))
        }
        other => other.to_string(),
    }
}

#[tokio::test]
async fn independent_steps_run_at_the_same_time() {
    // Each step waits until the other two have started, so none ends unless all run concurrently.
    let meets = |own: &str| {
        format!(
            "touch {own}; for i in $(seq 600); do [ -e a -a -e b -a -e c ] && echo {own} && exit 0; sleep 0.05; done; exit 1"
        )
    };
    let steps = json!([
        {"id": "a", "input": meets("a")},
        {"id": "b", "input": meets("b")},
        {"id": "c", "input": meets("c")},
        {"id": "sum", "input": "echo {a|sh} {b|sh} {c|sh}"}
    ]);
    let daemon = TestDaemon::new().await;
    let author = Author::with(&daemon, &commands(&steps)).await;
    let result = author.runs("g", Value::Null).await;
    assert_eq!((result.success, &result.output), (true, &json!("a b c")), "{result:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn step_failing_at_first_is_retried() {
    let command = "echo x >> tries; [ $(wc -l < tries) -ge 3 ] && echo fine";
    let on_error = json!({"policy": "retry", "count": 4, "delay": 0.01});
    let daemon = TestDaemon::new().await;
    let author = Author::with(&daemon, &commands(&json!([{"id": "a", "input": command, "on_error": on_error}]))).await;
    let result = author.runs("g", Value::Null).await;
    assert_eq!(
        (&result.output, &result.attributes["steps"]["a"]["attempts"]),
        (&json!("fine"), &json!(3)),
        "{result:?}"
    );
    daemon.stop().await;
}

#[tokio::test]
async fn slow_attempt_is_ended_before_the_next_one() {
    let on_error = json!({"policy": "retry", "count": 1, "delay": 0, "timeout": 2, "then": {"policy": "skip", "value": "gave up"}});
    let steps = json!([{"id": "a", "input": "echo $$ > slow.pid; sleep 1000", "on_error": on_error}]);
    let daemon = TestDaemon::new().await;
    let author = Author::with(&daemon, &commands(&steps)).await;
    let result = author.runs("g", Value::Null).await;
    assert_eq!((result.success, &result.output), (true, &json!("gave up")), "{result:?}");
    assert_eq!(result.attributes["steps"]["a"]["attempts"], 2);
    let pid = author.project().join("slow.pid");
    assert!(pid.exists() && !running(&pid), "the child processes have exited");
    daemon.stop().await;
}

#[tokio::test]
async fn timed_out_graph_ends_its_calls() {
    let steps = json!([{"id": "a", "input": "echo A"}, {"id": "b", "input": "echo $$ > slow.pid; sleep 1000; {a}"}]);
    let daemon = TestDaemon::new().await;
    let author = Author::with(&daemon, &commands(&steps)).await;
    let verb = RunGraph { graph_id: "g".to_owned(), input: Value::Null, timeout: Some(3.0) };
    let result = author.client.call(verb).await.unwrap();
    assert_eq!((result.success, result.error.as_deref()), (false, Some("Node 'g' took longer than 3 s")), "{result:?}");
    assert_eq!(
        (result.error_type.as_deref(), result.node_type.as_deref()),
        (Some("timeout"), Some("graph")),
        "{result:?}"
    );
    assert!(result.run_id.is_some_and(|run| run.starts_with("run_")));
    let pid = author.project().join("slow.pid");
    eventually("the step has ended", async || pid.exists() && !running(&pid)).await;
    daemon.stop().await;
}

#[tokio::test]
async fn repeated_step_makes_one_call() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    let count = RunNode { node_id: "count".to_owned(), ..RunNode::default() };
    let first = author.client.call_once(&count, "step_1").await.unwrap();
    assert_eq!(first.output.as_str().map(str::trim), Some("1"));
    let other_client = Author::connected(&daemon, &author.directory).await;
    assert_eq!(
        other_client.call_once(&count, "step_1").await.unwrap(),
        first,
        "a call repeated over another connection returns the first reply"
    );
    let (first, second) =
        tokio::join!(author.client.call_once(&count, "step_2"), other_client.call_once(&count, "step_2"));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(
        (&first, first.output.as_str().map(str::trim)),
        (&second, Some("2")),
        "concurrent calls of one step share a reply"
    );
    let other_input = RunNode { input: json!("else"), ..count };
    let refusal = author.client.call_once(&other_input, "step_1").await.unwrap();
    assert!(refusal.error.unwrap().starts_with("This step has already made another call"));
    assert_eq!(fs::read_to_string(author.project().join("count")).unwrap(), "once\nonce\n");
    daemon.stop().await;
}

#[tokio::test]
async fn call_ends_with_its_caller_and_with_the_daemon() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    let pid = author.project().join("slow.pid");
    let slow = RunNode { node_id: "slow".to_owned(), ..RunNode::default() };
    tokio::select! {
        reply = author.client.call(slow.clone()) => panic!("{reply:?}"),
        () = eventually("the step runs", async || running(&pid)) => {}
    }
    // The call was cancelled.
    eventually("the step ends", async || !running(&pid)).await;
    fs::remove_file(&pid).unwrap();
    let other_client = Author::connected(&daemon, &author.directory).await;
    let calling = tokio::spawn(async move { other_client.call_once(&slow, "slow").await });
    eventually("the step runs", async || running(&pid)).await;
    daemon.stop().await;
    assert!(!running(&pid), "a call with a step stops with the daemon");
    assert!(!matches!(calling.await.unwrap(), Ok(reply) if reply.success));
}

#[tokio::test]
async fn program_ended_between_two_calls_is_restarted() {
    let daemon = TestDaemon::new().await;
    let declared = "[nodes.shell]\ntype = \"pty\"\ncommand = \"bash --norc\"\n";
    let author = Author::with(&daemon, declared).await;
    let first = author.call_tool("shell", json!("word=kept; echo $$ > shell.pid; echo began")).await;
    assert_eq!((first.success, &first.output), (true, &json!("began")), "{first:?}");
    let same_program_reply = author.call_tool("shell", json!("echo $word")).await;
    assert_eq!(same_program_reply.output, "kept");
    let pid = author.project().join("shell.pid");
    let killed = std::process::Command::new("kill").arg("-9").arg(fs::read_to_string(&pid).unwrap().trim()).status();
    assert!(killed.unwrap().success());
    eventually("the program has ended", async || !running(&pid)).await;
    eventually("the terminal knows it", async || {
        daemon.call(ListTerminalSessions::default()).await.sessions.iter().all(|session| session.state == "exited")
    })
    .await;
    let second_reply = author.call_tool("shell", json!("echo \"again $word\"")).await;
    assert_eq!((second_reply.success, &second_reply.output), (true, &json!("again")), "{second_reply:?}");
    assert_ne!(second_reply.attributes["session_id"], first.attributes["session_id"]);
    let open = daemon.call(ListTerminalSessions::default()).await.sessions;
    assert_eq!(open.len(), 1, "{open:?}");
    daemon.stop().await;
}

/// Returns whether the process whose id is in a file is running.
fn running(pid: &std::path::Path) -> bool {
    let pid = fs::read_to_string(pid).unwrap_or_default();
    !pid.trim().is_empty()
        && fs::read_to_string(format!("/proc/{}/cmdline", pid.trim())).is_ok_and(|line| !line.is_empty())
}
