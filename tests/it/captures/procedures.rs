//! Procedures of line-oriented programs: captured from a live session without an edit, proven, and run with other
//! values.
//!
//! Together with `dialogs`, these are the reference procedures for capture. None of them needs an edit by a person.

use serde_json::json;

use steplatch_testkit::CommandOutput;

use super::Session;
use crate::desk::Desk;

#[test]
fn debugger_is_captured() {
    let script =
        "def total(xs):\n    s = 0\n    for x in xs:\n        s += x\n    return s\nprint('total', total([1, 2, 3]))\n";
    let session = Session::begin(&[("sum.py", script)]);
    session.type_text("python3 -m pdb sum.py\n");
    session.type_text("break total\n");
    session.type_text("continue\n");
    session.type_text("args\n");
    session.type_text("p total([30, 12])\n");
    session.send(json!({"input_text": "continue\n", "pattern": "^total 6$"}));
    session.send(json!({"input_text": "quit\n", "until": "prompt"}));
    let procedure = session.capture(json!({"number": "12"}));
    procedure.assert_replays();
    procedure.prove(&["NUMBER=13"], &[]);
    procedure.write_file("sum.py", &script.replace("'total'", "'amount'"));
    let run = procedure.begin(json!({"NUMBER": "12"}));
    assert_eq!(run["status"], "waiting", "different output stops the run: {run:#}");
    assert_eq!(run["pending_gate"]["context"]["nearest_line"], "amount 6", "{run:#}");
}

#[test]
fn database_with_a_value_as_argument_is_captured() {
    let session = Session::begin(&[]);
    session.run_command("sqlite3 shop.db");
    session.run_command("create table if not exists fruit(id integer primary key, name text);");
    session.run_command("insert or replace into fruit values(1, 'pear');");
    session.run_command("select * from fruit;");
    session.send(json!({"input_text": ".quit\n", "until": "prompt"}));
    let procedure = session.capture(json!({"fruit": "pear"}));
    procedure.assert_replays();
    procedure.prove(&["FRUIT=plum"], &[]);
    let mut database = std::process::Command::new("sqlite3");
    let output = database.arg(procedure.home.path().join("shop.db")).arg("select * from fruit").output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "1|plum\n");
}

#[test]
fn interpreter_with_several_lines_is_captured() {
    let session = Session::begin(&[]);
    session.type_text("python3 -q\n");
    session.type_text("def seven(x):\n    return x * 7\n\n");
    session.type_text("open('out', 'w').write(str(seven(61)))\n");
    session.send(json!({"keys": ["ctrl-d"], "until": "prompt"}));
    let procedure = session.capture(json!({"number": "61"}));
    procedure.assert_replays();
    procedure.prove(&["NUMBER=6"], &[]);
    assert_eq!(procedure.file("out"), "42");
}

/// Asks like an installer: with progress, a size that differs each time, a default and a password.
const INSTALLER: &str = r#"echo "Reading package lists..."
for i in 20 40 60 80 100; do printf "\rProgress: %d%%" $i; done; echo
echo "After this operation, $RANDOM kB of disk space will be used."
read -p "Do you want to continue? [Y/n] " a
[ "$a" = Y ] || { echo Abort.; exit 1; }
read -p "Port [8$((RANDOM % 900 + 100))]: " port
read -s -p "Password for admin: " password; echo
echo "port=$port password=${#password}" > conf
"#;

#[test]
fn installer_is_captured_without_its_password() {
    let session = Session::begin(&[("install.sh", INSTALLER)]);
    session.run_command("ls");
    session.run_command("gti status");
    session.type_text("bash install.sh\n");
    session.type_text("Y\n");
    session.type_text("9000\n");
    session.send(json!({"input_text": "hunter2-captured\n", "until": "prompt"}));
    let procedure = session.capture(json!({"port": "9000"}));
    let left_out = procedure.capture["left_out"].to_string();
    assert!(left_out.contains("only looks around") && left_out.contains("was not found"), "{left_out}");
    assert_eq!(procedure.arguments()["PASSWORD"]["secret"], true);
    assert!(!procedure.is_in_library("hunter2-captured") && !procedure.capture.to_string().contains("hunter2"));
    procedure.assert_replays();
    procedure.run_to_completion(json!({"PORT": "7777", "PASSWORD": "another-one"}));
    assert_eq!(procedure.file("conf"), "port=7777 password=11\n");
    let mut prove = procedure.home.steplatch();
    let prove = prove.args(["workflow", "prove", "procedure", "-i", "PORT=1234"]).env("PASSWORD", "a-third-one");
    let output = CommandOutput::from_process(&prove.output().unwrap()).expect_success();
    assert!(output.contains("proved by 3 runs"), "{output}");
    assert_eq!(procedure.file("conf"), "port=1234 password=11\n");
    assert!(!procedure.is_in_library("a-third-one"));
    procedure.write_file("install.sh", &INSTALLER.replace("read -p \"Port", "read -p \"Mirror: \" m; read -p \"Port"));
    std::fs::remove_file(procedure.home.path().join("conf")).unwrap();
    let run = procedure.begin(json!({"PORT": "7777", "PASSWORD": "another-one"}));
    let gate = &run["pending_gate"];
    assert_eq!(run["status"], "waiting", "an extra question stops the run: {run:#}");
    assert_eq!(gate["context"]["expected"], "^Port \\[\\d+\\]: *\\Z", "{run:#}");
    assert!(!procedure.home.path().join("conf").exists());
    // The agent answers the question in the terminal of the run, and resumes it.
    let terminal = run["session_id"].as_str().unwrap();
    let input =
        json!({"session_id": terminal, "input_text": "deb.example.org\n", "pattern": "Port .*: $", "timeout": 60});
    let _ = procedure.agent.call_tool("send_input", input);
    let decision = json!({"run_id": run["run_id"], "answer": gate["choices"][0]});
    let outcome = procedure.agent.call_tool("decide", decision);
    assert_eq!(outcome["success"], true, "{outcome:#}");
    let outcome = procedure.agent.call_tool("get_run", json!({"run_id": run["run_id"], "wait_seconds": 60}));
    assert_eq!(outcome["status"], "completed", "{outcome:#}");
    assert_eq!(procedure.file("conf"), "port=7777 password=11\n");
}

#[test]
fn rebase_with_a_conflict_is_captured() {
    let session = Session::begin(&[]);
    for command in [
        "repo=$(mktemp -d) && cd $repo && git init -q -b main .",
        "git config user.email a@b.c; git config user.name A; git config core.editor true",
        "echo one > f; git add f; git commit -qm base",
        "git switch -q -c topic && echo two > f; git commit -qam topic",
        "git switch -q main && echo three > f; git commit -qam main",
        "git switch -q topic",
        "git rebase main",
        "git status",
        "printf 'two three\\n' > f && git add f",
        "git rebase --continue",
        "cp f ~/rebased",
    ] {
        session.run_command(command);
    }
    let procedure = session.capture(json!({"word": "three"}));
    let conflict = &procedure.capture["workflow_definition"]["states"]["git_rebase_main"]["transitions"][0];
    assert_eq!(conflict["condition"], json!({"field_equals": {"exit_code": 1}}));
    procedure.assert_replays();
    procedure.prove(&["WORD=four"], &[]);
    assert_eq!(procedure.file("rebased"), "two four\n");
}

/// Listens at a port chosen by the system.
const SERVER: &str = "import http.server
server = http.server.HTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)
print(f'Serving on http://127.0.0.1:{server.server_port}/ (ctrl-c stops)', flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    print('bye')
";

/// Downloads an address into a file.
const FETCH: &str = "import sys, urllib.request
urllib.request.urlretrieve(sys.argv[1], sys.argv[2])
";

#[test]
fn server_with_a_varying_port_is_captured() {
    let mut session = Session::begin(&[("serve.py", SERVER), ("fetch.py", FETCH)]);
    let reply = session.send(json!({"input_text": "python3 serve.py\n", "pattern": "Serving on .*"}));
    let line = reply["waited"]["match_text"].as_str().unwrap();
    let port = line.split(':').nth(2).and_then(|rest| rest.split('/').next()).unwrap().to_owned();
    session.open();
    session.run_command(&format!("python3 fetch.py http://127.0.0.1:{port}/serve.py got.py"));
    let server = session.terminals[0].clone();
    let _ = session
        .agent
        .call_tool("send_input", json!({"session_id": server, "keys": ["ctrl-c"], "until": "prompt", "timeout": 60}));
    let procedure = session.capture(json!({"file": "got.py"}));
    procedure.assert_replays();
    procedure.prove(&["FILE=fetched.py"], &[]);
    assert_eq!(procedure.file("fetched.py"), SERVER);
}

#[test]
fn edit_in_vim_is_captured() {
    let session = Session::begin(&[("original.txt", "hello wrld\nsecond\n")]);
    session.run_command("cp original.txt a.txt");
    session.send(json!({"input_text": "vim -u NONE -N a.txt\n", "until": "quiet"}));
    session.send(json!({"input_text": ":%s/wrld/world/\n", "until": "quiet"}));
    session.send(json!({"input_text": ":wq\n", "until": "prompt"}));
    let procedure = session.capture(json!({"word": "world"}));
    procedure.assert_replays();
    procedure.prove(&["WORD=planet"], &[]);
    assert_eq!(procedure.file("a.txt"), "hello planet\nsecond\n");
}

#[test]
fn destructive_command_asks_a_person() {
    let session = Session::begin(&[("data", "1\n")]);
    session.run_command("tar -czf backup.tgz data");
    session.run_command("rm -rf data && tar -xzf backup.tgz");
    let procedure = session.capture(json!({"backup": "backup.tgz"}));
    procedure.assert_replays();
    let run = procedure.begin(json!({"BACKUP": "other.tgz"}));
    assert_eq!(run["status"], "waiting", "{run:#}");
    assert_eq!(run["pending_gate"]["answered_by"], "human", "{run:#}");
    let refusal = procedure.agent.call_tool("decide", json!({"run_id": run["run_id"], "answer": "yes"}));
    assert_eq!(refusal["success"], false, "{refusal}");
    procedure.home.answer_gate(run["run_id"].as_str().unwrap(), "no");
    let outcome = procedure.agent.call_tool("get_run", json!({"run_id": run["run_id"], "wait_seconds": 60}));
    assert_eq!(
        (outcome["status"].as_str(), outcome["error"].as_str().unwrap().contains("said no")),
        (Some("failed"), true)
    );
    assert_eq!(procedure.file("data"), "1\n");
    let run = procedure.begin(json!({"BACKUP": "third.tgz"}));
    procedure.home.answer_gate(run["run_id"].as_str().unwrap(), "yes").expect_success();
    let outcome = procedure.agent.call_tool("get_run", json!({"run_id": run["run_id"], "wait_seconds": 60}));
    assert_eq!(outcome["status"], "completed", "{outcome:#}");
    assert!(procedure.file("data") == "1\n" && procedure.home.path().join("third.tgz").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn proof_of_a_destructive_command_asks_its_user() {
    let (home, agent) = tokio::task::block_in_place(|| {
        let session = Session::begin(&[("data", "1\n")]);
        session.run_command("tar -czf backup.tgz data");
        session.run_command("rm -rf data && tar -xzf backup.tgz");
        let procedure = session.capture(json!({"backup": "backup.tgz"}));
        (procedure.home, procedure.agent)
    });
    let command = format!("{} workflow prove procedure -i BACKUP=other.tgz", env!("CARGO_BIN_EXE_steplatch"));
    let desk = Desk::start(&home, home.path(), &command, (100, 60), &[]).await;
    for number in 1..=3 {
        desk.expect_screen(&format!("(?s)(by number or text.*?){{{number}}}")).await;
        desk.press("yes\r").await;
    }
    desk.expect_screen("proved by 3 runs").await;
    assert!(home.path().join("other.tgz").exists());
    drop(agent);
}
