//! The library by the contract: workflows are saved, listed, described and removed by name.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use steplatch_protocol::{
    Client, CreateWorkflow, CreateWorkflowReply, DeleteWorkflow, DescribeWorkflow, GetWorkflowSchema, Hello,
    ListWorkflows, PROTOCOL_VERSION, WorkflowTopic, connect,
};
use steplatch_testkit::TestDaemon;
use tempfile::TempDir;

/// The author of a project, with a home directory next to it.
struct Author {
    client: Client,
    directory: TempDir,
}

impl Author {
    async fn connect(daemon: &TestDaemon) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir_all(directory.path().join("project/src")).unwrap();
        fs::create_dir(directory.path().join("project/.git")).unwrap();
        fs::create_dir(directory.path().join("home")).unwrap();
        let client =
            Self::client_at(daemon, &directory.path().join("project/src"), &directory.path().join("home")).await;
        Self { client, directory }
    }

    async fn client_at(daemon: &TestDaemon, cwd: &Path, home: &Path) -> Client {
        let home = home.display().to_string();
        let hello = Hello {
            protocol_version: PROTOCOL_VERSION,
            client: "author".to_owned(),
            cwd: Some(cwd.display().to_string()),
            environment: Some([("HOME".to_owned(), home)].into()),
            ..Hello::default()
        };
        connect(daemon.paths(), hello).await.unwrap().0
    }

    /// Returns the directory of the project's workflows.
    fn project(&self) -> PathBuf {
        self.directory.path().join("project/.terminal_control_workflows")
    }

    /// Returns the directory of the author's own workflows.
    fn own(&self) -> PathBuf {
        self.directory.path().join("home/.local/share/steplatch/workflows")
    }

    async fn create(&self, definition: Value) -> CreateWorkflowReply {
        self.client
            .call(CreateWorkflow { workflow_definition: definition, overwrite_existing: false, reason: None })
            .await
            .unwrap()
    }

    async fn list(&self) -> Vec<(String, String, bool)> {
        let reply = self.client.call(ListWorkflows::default()).await.unwrap();
        assert!(reply.success, "{:?}", reply.error);
        assert_eq!(reply.library, self.project().display().to_string());
        assert_eq!(reply.total, reply.workflows.len());
        reply.workflows.into_iter().map(|workflow| (workflow.name, workflow.status, workflow.hidden)).collect()
    }
}

fn machine(name: &str) -> Value {
    json!({
        "name": name,
        "description": "Types a command",
        "arguments": {"GREETED": {"description": "whom to greet", "default": "world", "schema": {"minLength": 1}, "export": false}},
        "return_values": {"GREETING": {"secret": true}},
        "initial_state": "type",
        "states": {"type": {"action": {"tool": "send_input", "params": {"input_text": "make\n"}}}},
    })
}

fn row(name: &str, hidden: bool) -> (String, String, bool) {
    (name.to_owned(), "draft".to_owned(), hidden)
}

#[tokio::test]
async fn project_workflow_is_saved_found_described_and_removed() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    assert_eq!(author.list().await, []);

    let created = author.create(machine("greet")).await;
    assert!(created.success, "{created:?}");
    assert_eq!(created.workflow_name, "greet");
    let file = author.project().join("greet.json").display().to_string();
    // Document 001, line 1170: the file name.
    assert_eq!((created.stored_file.as_str(), created.path.as_ref()), ("greet.json", Some(&file)));
    // Document 001, lines 1161-1165: the variables that the agent must export and may read.
    let signature = json!({
        "arguments": {"GREETED": {
            "name": "GREETED", "description": "whom to greet", "required": false, "default": "world",
            "schema": {"minLength": 1}
        }},
        "return_values": {"GREETING": {"name": "GREETING", "description": "", "required": true, "secret": true}},
        "description": "Types a command"
    });
    assert_eq!(Value::Object(created.workflow_signature), signature);
    assert_eq!(author.list().await, [row("greet", false)]);

    let second_reply = author.create(machine("greet")).await;
    let error = "Workflow 'greet' already exists. Use overwrite_existing=true to replace.";
    assert_eq!(
        (second_reply.success, second_reply.name_taken, second_reply.error.as_deref()),
        (false, true, Some(error))
    );
    // Document 001, lines 1148-1155: a refusal has every field.
    assert_eq!(second_reply.validation_errors, ["Workflow 'greet' already exists"]);
    let fields = (
        second_reply.workflow_name.as_str(),
        second_reply.stored_file.as_str(),
        second_reply.workflow_signature.is_empty(),
    );
    assert_eq!(fields, ("greet", "", true));
    let overwriting = CreateWorkflow { workflow_definition: machine("greet"), overwrite_existing: true, reason: None };
    assert!(author.client.call(overwriting).await.unwrap().success);

    let described = author.client.call(DescribeWorkflow { name: "greet".to_owned() }).await.unwrap();
    assert!(described.success && described.problems.is_empty(), "{described:?}");
    assert_eq!(described.definition, Some(machine("greet")));
    assert_eq!(described.file, Some(file.clone()));
    let argument = &described.arguments[0];
    assert_eq!(
        (argument.name.as_str(), argument.required),
        ("GREETED", false),
        "an argument with a default is not required"
    );
    assert_eq!(argument.default.as_deref(), Some("world"));
    assert_eq!((argument.export, described.return_values[0].export), (Some(false), None));
    assert_eq!(argument.schema, Some(json!({"minLength": 1})));
    assert!(described.return_values[0].secret && described.return_values[0].required);
    assert!(described.graph.unwrap().contains("stateDiagram"));
    let metadata = described.metadata.unwrap();
    assert_eq!((metadata.version, metadata.run_count, metadata.status.as_str()), (1, 0, "draft"));
    assert_eq!(metadata.hash.len(), 64);

    let deleted = author.client.call(DeleteWorkflow { name: "greet".to_owned() }).await.unwrap();
    assert!(deleted.success, "{deleted:?}");
    assert_eq!((deleted.file, deleted.remaining), (Some(file), None));
    assert_eq!(author.list().await, []);
    daemon.stop().await;
}

#[tokio::test]
async fn all_problems_are_reported_at_once_and_nothing_is_saved() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    let refusal = author
        .create(json!({
            "initial_state": "x",
            "states": {"a": {
                "action": {"tool": "send_inptu"},
                "transitions": [{"condition": {"pattern_match": "("}, "next_state": "b"}]
            }}
        }))
        .await;
    assert!(!refusal.success);
    let expected = [
        "/name: a saved workflow must have a 'name', by which it is found",
        "/description: a saved workflow must have a 'description', which explains its purpose",
        "/initial_state: Initial state 'x' not found in states, did you mean 'a'?",
        "/states/a/action/tool: unknown tool 'send_inptu', did you mean 'send_input'?",
        "/states/a/transitions/0/condition/pattern_match: pattern '(' does not compile: unclosed group at position 0",
        "/states/a/transitions/0/next_state: State 'a' references non-existent state 'b', did you mean 'a'?",
    ];
    assert_eq!(refusal.validation_errors, expected);
    // Document 001, lines 1115-1122: a refusal has every field, and its error begins like this.
    assert_eq!((refusal.workflow_name.as_str(), refusal.stored_file.as_str()), ("", ""));
    assert_eq!(serde_json::to_value(&refusal).unwrap()["workflow_signature"], json!({}));
    let error = refusal.error.unwrap();
    assert!(error.starts_with("Workflow definition does not match current MCP tool schema. "), "{error}");
    for name in ["..", "../x", "a/b", ""] {
        let refusal = author.create(machine(name)).await;
        assert!(!refusal.success && refusal.validation_errors[0].starts_with("/name: "), "{refusal:?}");
    }
    let reserved = author.create(machine("index")).await;
    assert!(reserved.error.unwrap().contains("'index' is the name of a file of the library itself"));
    assert!(!author.project().exists());
    daemon.stop().await;
}

#[tokio::test]
async fn warning_allows_saving_and_costly_pattern_is_a_pattern() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    let mut explosive = machine("explosive");
    explosive["states"]["type"]["transitions"] =
        json!([{"condition": {"pattern_match": "(a+)+$(?=b)"}, "next_state": "type"}]);
    explosive["states"]["lost"] = json!({"action": {"tool": "sleep", "params": {"seconds": 1}}});
    let created = author.create(explosive).await;
    assert!(created.success, "{created:?}");
    assert_eq!(created.warnings.len(), 2, "{created:?}");
    assert!(created.warnings[0].starts_with("/states/lost: "), "{created:?}");
    assert!(created.warnings[1].starts_with("/states/type/transitions/0/condition: may still be on"), "{created:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn names_fall_back_to_user_library_hidden_by_project() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    let at_home =
        Author::client_at(&daemon, &author.directory.path().join("home"), &author.directory.path().join("home")).await;
    for name in ["greet", "build"] {
        let verb = CreateWorkflow { workflow_definition: machine(name), overwrite_existing: false, reason: None };
        let created = at_home.call(verb).await.unwrap();
        assert_eq!(created.path, Some(author.own().join(format!("{name}.json")).display().to_string()));
    }
    assert!(author.create(machine("greet")).await.success, "a name in another library can be used");
    assert_eq!(author.list().await, [row("build", false), row("greet", false), row("greet", true)]);
    let of = |name: &str| DescribeWorkflow { name: name.to_owned() };
    let described = author.client.call(of("greet")).await.unwrap();
    assert_eq!(described.file, Some(author.project().join("greet.json").display().to_string()));
    let described = author.client.call(of("build")).await.unwrap();
    assert_eq!(described.file, Some(author.own().join("build.json").display().to_string()));

    let deleted = author.client.call(DeleteWorkflow { name: "greet".to_owned() }).await.unwrap();
    assert_eq!(deleted.file, Some(author.project().join("greet.json").display().to_string()));
    assert_eq!(deleted.remaining, Some(author.own().join("greet.json").display().to_string()));
    assert_eq!(author.list().await, [row("build", false), row("greet", false)]);
    daemon.stop().await;
}

#[tokio::test]
async fn unknown_name_is_answered_with_existing_names() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    let error = async |name: &str| {
        let reply = author.client.call(DescribeWorkflow { name: name.to_owned() }).await.unwrap();
        assert!(!reply.success);
        reply.error.unwrap()
    };
    assert_eq!(
        error("build").await,
        "Workflow 'build' not found. Available workflows: none; create_workflow saves one"
    );
    for number in 10..40 {
        assert!(author.create(machine(&format!("w{number}"))).await.success);
    }
    let many = error("build").await;
    assert!(many.starts_with("Workflow 'build' not found. Available workflows: w10, w11, "), "{many}");
    assert!(many.ends_with("w29 and 10 more; list_workflows lists them"), "{many}");
    assert!(error("W1O").await.starts_with("Workflow 'W1O' not found. Did you mean 'w10'? Available workflows: w10,"));
    let outside = error("../w10").await;
    assert!(outside.starts_with("Workflow '../w10' not found: '../w10' is not a workflow name (1 to 64 "), "{outside}");
    assert!(error(&"x".repeat(1 << 20)).await.len() < 1000);
    daemon.stop().await;
}

#[tokio::test]
async fn broken_files_and_index_hide_nothing() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    assert!(author.create(machine("greet")).await.success);
    fs::write(author.project().join("half.json"), "{\"definition\": {").unwrap();
    fs::write(author.project().join("index.json"), "not an index").unwrap();
    let invalid = json!({"definition": {"initial_state": "a", "states": {}}});
    fs::write(author.project().join("odd.json"), invalid.to_string()).unwrap();

    let listing = author.client.call(ListWorkflows::default()).await.unwrap();
    let names: Vec<_> = listing.workflows.iter().map(|workflow| workflow.name.as_str()).collect();
    assert_eq!(names, ["greet", "odd"]);
    assert_eq!(listing.broken.len(), 1);
    assert_eq!(listing.broken[0].file, author.project().join("half.json").display().to_string());
    assert!(listing.broken[0].reason.starts_with("this is not JSON: "), "{listing:?}");
    let index: Value = serde_json::from_slice(&fs::read(author.project().join("index.json")).unwrap()).unwrap();
    assert_eq!(index["files"].as_array().unwrap().len(), 3, "the index is rebuilt");

    let half = author.client.call(DescribeWorkflow { name: "half".to_owned() }).await.unwrap();
    let error = half.error.unwrap();
    assert!(error.starts_with("Workflow 'half' cannot be read: the file '"), "{error}");
    assert!(error.ends_with("Correct or remove the file."), "{error}");
    let odd = author.client.call(DescribeWorkflow { name: "odd".to_owned() }).await.unwrap();
    assert!(odd.success && odd.graph.is_none(), "{odd:?}");
    assert_eq!(
        odd.problems,
        [
            "/states: a workflow must have 1 to 100 states, not 0",
            "/initial_state: Initial state 'a' not found in states"
        ]
    );
    let deleted = author.client.call(DeleteWorkflow { name: "half".to_owned() }).await.unwrap();
    assert!(deleted.success, "{deleted:?}");
    assert!(author.client.call(ListWorkflows::default()).await.unwrap().broken.is_empty());
    daemon.stop().await;
}

#[tokio::test]
async fn ten_megabyte_definition_is_refused_at_once() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    let mut long = machine("long");
    long["states"]["type"]["action"]["params"]["input_text"] = "x".repeat(10 << 20).into();
    let started = Instant::now();
    let (refusal, beside) = tokio::join!(author.create(long), author.create(machine("greet")));
    assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
    assert_eq!(refusal.validation_errors.len(), 1, "{refusal:?}");
    assert!(refusal.validation_errors[0].ends_with("more than the maximum of 1048576"), "{refusal:?}");
    assert!(beside.success, "{beside:?}");
    // An even longer definition cannot be sent at all.
    let mut longer = machine("longer");
    longer["description"] = "x".repeat(17 << 20).into();
    let longer = CreateWorkflow { workflow_definition: longer, overwrite_existing: false, reason: None };
    let (refusal, beside) = tokio::join!(author.client.call(longer), author.create(machine("other")));
    let refusal = refusal.unwrap_err().to_string();
    assert_eq!(refusal, "the request takes 17 MB; at most 16 MB can be sent");
    assert!(beside.success, "{beside:?}");
    daemon.stop().await;
}

#[tokio::test]
async fn list_can_be_searched_and_is_bounded() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    for name in ["build", "rebuild", "test"] {
        assert!(author.create(machine(name)).await.success);
    }
    let found = ListWorkflows { containing: Some("BUILD".to_owned()), limit: 1 };
    let found = author.client.call(found).await.unwrap();
    assert_eq!((found.total, found.workflows.len(), found.workflows[0].name.as_str()), (2, 1, "build"));
    daemon.stop().await;
}

#[tokio::test]
async fn example_for_agents_is_valid_and_docs_name_every_action() {
    let daemon = TestDaemon::new().await;
    let author = Author::connect(&daemon).await;
    let overview = GetWorkflowSchema { topic: Some(WorkflowTopic::Overview) };
    let overview = author.client.call(overview).await.unwrap();
    let example = overview.documentation.split("```json\n").nth(1).unwrap().split("```").next().unwrap();
    let example: Value = serde_json::from_str(example).unwrap();
    let created = author.create(example).await;
    assert!(created.success && created.warnings.is_empty(), "{created:?}");

    let schema = author.client.call(GetWorkflowSchema::default()).await.unwrap();
    assert!(schema.available_tools.len() >= 8, "{:?}", schema.available_tools);
    for tool in &schema.available_tools {
        assert!(schema.documentation.contains(&format!("### {tool}\n")), "{tool}");
    }
    assert!(schema.json_schema["properties"]["states"].is_object());
    let link =
        schema.documentation.split("](").skip(1).find(|target| target.split(')').next().unwrap().contains(".md"));
    assert_eq!(link, None, "no MCP client can read another page");
    daemon.stop().await;
}
