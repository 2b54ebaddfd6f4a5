//! The real program, as used by a person.

use std::io::{BufRead as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Stdio;

use serde_json::Value;
use steplatch_testkit::{CommandOutput, Home, eventually_blocking};

use crate::desk::Desk;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

fn home() -> Home {
    Home::new(STEPLATCH)
}

fn example_path(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(name).display().to_string()
}

#[test]
fn hello_example_opens_a_shell_reads_its_answer_and_branches() {
    let output = home().run(&["run", &example_path("hello.json")]).expect_success();
    assert!(output.starts_with("hello run_"), "{output}");
    assert!(output.contains("→ today is "), "{output}");
    assert!(output.contains("✓ rest ") || output.contains("✓ work "), "{output}");
    assert!(output.contains("✓ completed in ") && output.contains(", 5 states"), "{output}");
    assert!(!output.contains('\x1b'), "no colours without a terminal");
}

#[test]
fn pdb_example_stops_in_a_function_and_runs_to_the_end() {
    let home = home();
    let script = home.path().join("own script.py");
    std::fs::write(&script, "def total(prices):\n    return sum(prices)\n\n\nprint('total:', total([1, 2]))\n")
        .unwrap();
    let argument = format!("SCRIPT={}", script.display());
    for (directory, arguments, prices, total) in [
        (home.path(), vec![], "prices = [0.29, 1.13, 2.5]", "total: 3.9"),
        (Path::new("/"), vec![], "prices = [0.29, 1.13, 2.5]", "total: 3.9"),
        (Path::new("/"), vec!["-i", &argument], "prices = [1, 2]", "total: 3"),
    ] {
        let temporary = home.path().join("temporary");
        std::fs::create_dir_all(&temporary).unwrap();
        let mut run = home.steplatch();
        run.current_dir(directory)
            .env("TMPDIR", &temporary)
            .args(["run", &example_path("pdb.json"), "--json"])
            .args(arguments);
        let reply = CommandOutput::from_process(&run.output().unwrap()).json();
        assert_eq!((&reply["status"], &reply["final_state"]), (&"completed".into(), &"close".into()), "{reply:#}");
        assert_eq!(reply["final_variables"]["seen_match_text"], prices);
        assert_eq!(reply["final_variables"]["result_match_text"], total);
    }
    let missing = home.run(&["run", &example_path("pdb.json"), "-i", "SCRIPT=missing.py"]);
    assert_eq!(missing.code, 1, "{missing:?}");
    assert!(missing.stdout.contains("pdb set no breakpoint: Error: "), "{}", missing.stdout);
}

#[test]
fn retry_example_loops_until_its_command_succeeds() {
    let home = home();
    let command = "COMMAND=echo x >> tries; test $(wc -l < tries) -ge 3";
    let reply = home.run(&["run", &example_path("retry.json"), "-i", command, "--json"]).json();
    assert_eq!((&reply["status"], &reply["states_executed"]), (&"completed".into(), &10.into()), "{reply:#}");
    assert_eq!(std::fs::read_to_string(home.path().join("tries")).unwrap().lines().count(), 3);
}

#[test]
fn count_example_takes_arguments_and_returns_a_value() {
    let home = home();
    std::fs::write(home.path().join("a.txt"), "1\n2\n3\n").unwrap();
    let argument = format!("FOLDER={}", home.path().display());
    let run = |suffix: &str| home.run(&["run", &example_path("count.json"), "-i", &argument, "-i", suffix, "--json"]);
    let reply = run("SUFFIX=txt").json();
    assert_eq!(
        (&reply["status"], &reply["return_values"]["LINES_COUNTED"]),
        (&"completed".into(), &"3".into()),
        "{reply:#}"
    );
    let output = home.run(&["run", &example_path("count.json"), "-i", &argument, "-i", "SUFFIX=txt"]).expect_success();
    assert!(output.contains("\n  LINES_COUNTED = 3\n"), "{output}");
    let refusal = run("SUFFIX=*");
    assert_eq!(refusal.code, 2);
    assert!(refusal.stderr.contains("nothing was started: SUFFIX=\"*\" must match the pattern"), "{refusal:?}");
}

#[test]
fn workflows_are_checked_drawn_and_described_without_a_daemon() {
    let home = home();
    let examples = ["hello", "pdb", "retry", "count"].map(|name| example_path(&format!("{name}.json")));
    let output =
        home.run(&["workflow", "lint", &examples[0], &examples[1], &examples[2], &examples[3]]).expect_success();
    assert_eq!(output.matches(": ok").count(), 4, "{output}");

    let broken_file = home.path().join("broken.json");
    let states = r#"{"a": {"action": {"tool": "sleep", "params": {}}, "on_timeout": "b"}}"#;
    std::fs::write(&broken_file, format!(r#"{{"initial_state": "A", "states": {states}}}"#)).unwrap();
    let lint_output = home.run(&["workflow", "lint", &examples[0], "broken.json", "missing.json"]);
    assert_eq!(lint_output.code, 2);
    for part in [
        "hello.json: ok",
        "broken.json: /initial_state: Initial state 'A' not found in states, did you mean 'a'?",
        "broken.json: /states/a/action/params: 'seconds' of a sleep",
        "broken.json: /states/a/on_timeout: State 'a' timeout target 'b' not found",
        "missing.json: the file cannot be read",
    ] {
        assert!(lint_output.stdout.contains(part), "no {part:?} in:\n{}", lint_output.stdout);
    }
    assert!(home.run(&["workflow", "graph", &examples[2]]).expect_success().contains("s2 --> s4: exit_code = 0"));
    let schema: Value = serde_json::from_str(&home.run(&["workflow", "schema"]).expect_success()).unwrap();
    assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema");
    let actions = schema["$defs"]["Action"]["oneOf"].as_array().unwrap();
    let tools: Vec<&str> =
        actions.iter().filter_map(|action| action.pointer("/properties/tool/const")?.as_str()).collect();
    for action in ["send_input", "run_command", "run_node", "sleep", "set", "return", "fail", "gate", "run_workflow"] {
        assert!(tools.contains(&action), "{action}: {tools:?}");
    }
    assert!(home.run(&["workflow", "schema", "--documentation"]).expect_success().contains("| `wait_for_quiet_ms` | "));
    assert!(!home.path().join(".local/state/steplatch").exists(), "no daemon was started");
}

#[test]
fn exit_codes_depend_on_the_outcome_of_a_run() {
    let home = home();
    let failed_run = home.run(&["run", &example_path("retry.json"), "-i", "COMMAND=false", "--max-states", "5"]);
    assert_eq!(failed_run.code, 1);
    assert!(failed_run.stdout.contains("failed in") && failed_run.stdout.contains("the last screen:"));
    let missing = home.run(&["run", "no-such-file.json"]);
    assert_eq!(missing.code, 2);
    assert!(missing.stderr.contains("no-such-file.json' cannot be read"), "{}", missing.stderr);
    std::fs::write(home.path().join("broken.json"), "{\"states\":").unwrap();
    let broken_file = home.run(&["run", "broken.json"]);
    assert_eq!(broken_file.code, 2);
    assert!(
        broken_file.stderr.contains("this is not JSON") && broken_file.stderr.contains("line 1"),
        "{}",
        broken_file.stderr
    );
    assert_eq!(home.run(&["run"]).code, 2);
    assert_eq!(home.run(&["run", &example_path("hello.json"), "-i", "no-equals-sign"]).code, 2);
}

/// Repeats a command until its output contains `text`, because the program in the terminal needs time.
fn repeat_until(home: &Home, arguments: &[&str], text: &str) {
    eventually_blocking(&format!("{text:?} is shown"), || {
        let output = home.run(arguments).expect_success();
        if output.contains(text) { Ok(()) } else { Err(output) }
    });
}

#[test]
fn terminal_is_opened_listed_driven_read_and_closed() {
    let home = home();
    let id = home.run(&["terminal", "open", "--name", "build", "--size", "100x30"]).expect_success();
    let id = id.trim();
    let list = home.run(&["terminal", "list"]).expect_success();
    assert!(list.contains(id) && list.contains("build") && list.contains("100x30"), "{list}");
    home.run(&["terminal", "send", "build", "-e", "seq 1 3 | tr '\\n' '+'"]).expect_success();
    repeat_until(&home, &["terminal", "screen", id], "1+2+3+");
    let json = home.run(&["terminal", "screen", id, "--json"]).json();
    assert_eq!(json["process_running"], true);
    home.run(&["terminal", "send", "build", "-e", "seq 1 2000"]).expect_success();
    repeat_until(&home, &["terminal", "screen", "build", "--history"], "\n1999\n2000\n");
    let output = home.run(&["terminal", "close", "build"]).expect_success();
    assert!(output.starts_with(&format!("closed {id}")), "{output}");
    let second_close = home.run(&["terminal", "close", "build"]);
    assert_eq!(second_close.code, 1);
    assert!(second_close.stderr.contains("terminal 'build' not found; list terminals with: steplatch terminal list"));
}

#[test]
fn daemon_starts_on_demand_reports_its_status_and_stops() {
    let home = home();
    let output = home.run(&["daemon", "status"]);
    assert_eq!(output.code, 1);
    assert!(output.stdout.contains("start it with: steplatch daemon start"), "{}", output.stdout);
    home.run(&["terminal", "list"]).expect_success();
    let status = home.run(&["daemon", "status", "--json"]).json();
    for field in ["pid", "version", "socket", "terminals", "runs"] {
        assert!(!status[field].is_null(), "no {field} in {status}");
    }
    let second_start = home.run(&["daemon", "start", "--json"]).json();
    assert_eq!(second_start["pid"], status["pid"], "one daemon for one state");
    let pid = status["pid"].as_u64().unwrap();
    home.run(&["daemon", "stop"]).expect_success();
    assert!(!Path::new(&format!("/proc/{pid}/exe")).exists(), "the daemon has exited when stop returns");
}

#[test]
fn ten_simultaneous_clients_get_the_same_daemon() {
    let home = home();
    let pids: Vec<Value> = std::thread::scope(|scope| {
        let clients: Vec<_> =
            (0..10).map(|_| scope.spawn(|| home.run(&["daemon", "start", "--json"]).json()["pid"].clone())).collect();
        clients.into_iter().map(|client| client.join().unwrap()).collect()
    });
    assert!(pids.iter().all(|pid| *pid == pids[0]), "{pids:?}");
}

#[test]
fn second_daemon_on_the_same_state_is_refused() {
    let home = home();
    let first = home.run(&["daemon", "start", "--json"]).json();
    let other_runtime_dir = home.path().join("elsewhere");
    let second =
        home.steplatch().env("XDG_RUNTIME_DIR", other_runtime_dir).args(["daemon", "start", "--foreground"]).output();
    let second = CommandOutput::from_process(&second.unwrap());
    assert_eq!(second.code, 1);
    let expected = format!("a daemon (pid {}, version", first["pid"]);
    assert!(second.stderr.contains(&expected) && second.stderr.contains("already owns"), "{}", second.stderr);
}

#[test]
fn client_finds_a_daemon_with_another_runtime_directory() {
    let home = home();
    let first = home.run(&["daemon", "start", "--json"]).json();
    let other_runtime_dir = home.path().join("elsewhere");
    let status =
        home.steplatch().env("XDG_RUNTIME_DIR", other_runtime_dir).args(["daemon", "status", "--json"]).output();
    assert_eq!(CommandOutput::from_process(&status.unwrap()).json()["pid"], first["pid"]);
}

#[test]
fn socket_of_another_version_is_named_with_a_remedy() {
    let home = home();
    // The path of the socket is derived from the state directory.
    let socket = home.run(&["daemon", "start", "--json"]).json()["socket"].as_str().unwrap().to_owned();
    home.run(&["daemon", "stop"]).expect_success();
    let listener = UnixListener::bind(&socket).unwrap();
    let newer = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(stream.try_clone().unwrap()).read_line(&mut line).unwrap();
        let hello: Value = serde_json::from_str(&line).unwrap();
        let refusal = serde_json::json!({
            "type": "result", "success": false, "request_id": hello["request_id"], "error_code": "unsupported_protocol",
            "error": "the daemon (pid 1, version 9.9.9) speaks protocol 9 only; install steplatch 9.9.9",
        });
        writeln!(stream, "{refusal}").unwrap();
    });
    let output = home.run(&["terminal", "list"]);
    newer.join().unwrap();
    assert_eq!(output.code, 1);
    assert!(output.stderr.contains("speaks protocol 9 only; install steplatch 9.9.9"), "{}", output.stderr);
    std::fs::remove_file(socket).unwrap();
}

#[test]
fn terminal_outlives_the_clients_process_group() {
    use std::os::unix::process::CommandExt as _;
    let home = home();
    let mut client = home.steplatch();
    client.args(["terminal", "open", "--name", "kept"]).process_group(0).stdout(Stdio::null());
    let mut client = client.spawn().unwrap();
    assert!(client.wait().unwrap().success());
    // Agents end their tools like this: every process of the group.
    let group = rustix::process::Pid::from_raw(client.id().cast_signed()).unwrap();
    let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    assert!(home.run(&["terminal", "list"]).expect_success().contains("kept"));
}

/// Runs the program in the person's own terminal.
async fn run_on_desk(home: &Home, arguments: &str) -> Desk {
    let command = format!("{STEPLATCH} {arguments}; echo exit-code-$?; sleep 1000");
    Desk::start(home, home.path(), &command, (90, 20), &[]).await
}

#[tokio::test]
async fn run_on_a_terminal_shows_coloured_states_in_place() {
    let home = home();
    let desk = run_on_desk(&home, &format!("run {} -i 'COMMAND=sleep 1'", example_path("retry.json"))).await;
    desk.expect_screen(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] ended").await;
    let screen = desk.expect_screen("✓ completed in").await;
    assert!(screen.contains("✓ ended") && !screen.contains('⠋'), "{screen}");
    let lines = screen.lines().filter(|line| line.contains("ended")).count();
    assert_eq!(lines, 1, "the progress line was replaced:\n{screen}");
    assert!(desk.styled_screen().await.contains("\x1b[0;32m✓"), "success is green");
}

#[tokio::test]
async fn ctrl_c_cancels_the_run_and_closes_its_terminal() {
    let home = home();
    let desk = run_on_desk(&home, &format!("run {} -i 'COMMAND=sleep 60'", example_path("retry.json"))).await;
    desk.expect_screen("ended").await;
    desk.press("\x03").await;
    desk.expect_screen("✗ cancelled in").await;
    desk.expect_screen("^exit-code-1$").await;
    assert_eq!(home.run(&["terminal", "list", "--json"]).json()["total_sessions"], 0);
}

#[tokio::test]
async fn person_attaches_types_resizes_and_detaches() {
    let home = home();
    home.run(&["terminal", "open", "--name", "shared", "--size", "100x30", "--", "bash", "--norc"]).expect_success();
    home.run(&["terminal", "send", "shared", "-e", "PS1='> '; clear; echo from before"]).expect_success();
    let desk = run_on_desk(&home, "terminal attach shared").await;
    desk.expect_screen("^from before").await;
    desk.press("stty size\r").await;
    desk.expect_screen("^20 90").await;
    desk.resize(70, 18).await;
    // The other side receives a signal, so the size is polled.
    desk.press("until [ \"$(stty size)\" = '18 70' ]; do sleep 0.02; done; echo resized\r").await;
    desk.expect_screen("^resized").await;
    desk.press("\x1c").await;
    desk.expect_screen("detached; the terminal keeps running: steplatch terminal attach shared").await;
    let list = home.run(&["terminal", "list"]).expect_success();
    assert!(list.contains("shared") && list.contains("100x30"), "the size is unchanged:\n{list}");
}

#[tokio::test]
async fn attaching_to_a_missing_terminal_names_terminals() {
    let home = home();
    let desk = run_on_desk(&home, "terminal attach nope").await;
    desk.expect_screen("terminal 'nope' not found; no terminals are open").await;
}

#[tokio::test]
async fn attached_person_sees_the_end_of_the_program() {
    let home = home();
    home.run(&["terminal", "open", "--name", "short", "--", "bash", "--norc"]).expect_success();
    let desk = run_on_desk(&home, "terminal attach short").await;
    desk.expect_screen(r"[$#] $|bash").await;
    desk.press("exit 7\r").await;
    desk.expect_screen("the program in short exited with exit code 7").await;
}

#[tokio::test]
async fn recording_has_the_output_without_secrets_and_is_playable() {
    let home = home();
    home.run(&["terminal", "open", "--name", "shown", "--size", "100x30", "--", "bash", "--norc"]).expect_success();
    home.run(&["terminal", "send", "shown", "-e", "PS1='> '; clear; echo from before"]).expect_success();
    let mut recorder = home.steplatch();
    recorder.args(["terminal", "record", "shown", "shown.cast", "--idle-limit", "2.5"]).stderr(Stdio::piped());
    let mut recorder = recorder.spawn().unwrap();
    let mut recorder_lines = std::io::BufReader::new(recorder.stderr.take().unwrap()).lines();
    assert!(recorder_lines.next().unwrap().unwrap().starts_with("recording term_"));
    // A person attaches from a terminal of another size, and detaches.
    let desk = run_on_desk(&home, "terminal attach shown").await;
    desk.expect_screen("^from before").await;
    desk.press("\x1c").await;
    desk.expect_screen("detached").await;
    home.run(&["terminal", "send", "shown", "--secret", "hunter2!"]).expect_success();
    home.run(&["terminal", "send", "shown", "-e", " 漢字"]).expect_success();
    home.run(&["terminal", "send", "shown", "-e", "exit 3"]).expect_success();
    assert!(recorder_lines.next().unwrap().unwrap().starts_with("recorded "));
    assert!(recorder.wait().unwrap().success());

    let file = home.path().join("shown.cast");
    let recording = std::fs::read_to_string(&file).unwrap();
    let mut lines = recording.lines();
    let header: Value = serde_json::from_str(lines.next().unwrap()).unwrap();
    assert_eq!((&header["version"], &header["idle_time_limit"]), (&3.into(), &2.5.into()));
    assert_eq!(header["term"], serde_json::json!({"cols": 100, "rows": 30, "type": "xterm-256color"}));
    let events: Vec<(f64, String, String)> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(events.iter().all(|(interval, ..)| (0.0..60.0).contains(interval)));
    let data_of = |event_code: &'static str| {
        events.iter().filter(move |(_, code, _)| code == event_code).map(|(.., data)| data.as_str())
    };
    assert!(events[0].2.contains("from before"), "the recording starts with the screen: {:?}", events[0]);
    assert_eq!(data_of("r").collect::<Vec<_>>(), ["90x20", "100x30"]);
    assert_eq!(events.last().map(|(_, code, data)| (code.as_str(), data.as_str())), Some(("x", "3")));
    let output: String = data_of("o").collect();
    assert!(!recording.contains("hunter2") && output.contains("•••••••• 漢字"), "{output}");

    let player_output = play_recording(&file);
    let kind = |event: &Value| event[0].as_str().unwrap().to_owned();
    let events = player_output["events"].as_array().unwrap();
    assert_eq!(events[0][1]["size"], serde_json::json!({"cols": 100, "rows": 30}));
    let texts = events.iter().filter(|event| kind(event) == "output").flat_map(|event| event[1].as_array().unwrap());
    assert_eq!(texts.map(|text| text.as_str().unwrap()).collect::<String>(), output);
    let sizes = events.iter().filter(|event| kind(event) == "resize").map(|event| event[1]["cols"].clone());
    assert_eq!(sizes.collect::<Vec<_>>(), [90, 100]);
}

/// Returns the public player's output for a recording.
fn play_recording(file: &Path) -> Value {
    let exe = std::env::current_exe().unwrap();
    let package = "player/node_modules/asciinema-player";
    let package_dir = exe.ancestors().map(|directory| directory.join(package)).find(|package| package.is_dir());
    let package = package_dir.expect("no player is installed; run cargo xtask test, which installs it");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/clients/player.mjs");
    let output = std::process::Command::new("node").args([&script, &package]).arg(file).output().unwrap();
    CommandOutput::from_process(&output).json()
}

#[test]
fn screen_is_written_as_text_ansi_html_and_png() {
    let home = home();
    home.run(&["terminal", "open", "--name", "colours", "--", "bash", "--norc"]).expect_success();
    home.run(&["terminal", "send", "colours", "-e", "clear; printf '\\033[32mgreen\\033[m <tea>\\n'"]).expect_success();
    let screen = |format: &str| home.run(&["terminal", "screen", "colours", "--format", format]).expect_success();
    assert!(screen("text").starts_with("green <tea>\n"), "{}", screen("text"));
    assert!(screen("html").contains(">green</span> &lt;tea&gt;\n"), "{}", screen("html"));
    assert!(
        home.run(&["terminal", "screen", "colours", "--format", "png", "--output", "screen.png"])
            .expect_success()
            .is_empty()
    );
    let image = std::fs::read(home.path().join("screen.png")).unwrap();
    assert_eq!(
        (&image[..4], &image[16..24]),
        (&b"\x89PNG"[..], &[0, 0, 4, 192, 0, 0, 3, 48][..]),
        "1216 by 816 pixels"
    );
    home.run(&["terminal", "screen", "colours", "--format", "ansi", "-o", "screen.ansi"]).expect_success();
    assert!(std::fs::read_to_string(home.path().join("screen.ansi")).unwrap().starts_with("\x1b[0;32mgreen"));
    assert_eq!(home.run(&["terminal", "screen", "colours", "--tail", "3", "--format", "png"]).code, 2);
    let unwritable = home.run(&["terminal", "screen", "colours", "--format", "png", "-o", "no/such/folder.png"]);
    assert_eq!(unwritable.code, 2);
    assert!(unwritable.stderr.contains("'no/such/folder.png' cannot be written"), "{}", unwritable.stderr);
    let refusal = home.run(&["terminal", "record", "colours", "screen.png"]);
    assert!(refusal.code == 2 && refusal.stderr.contains("already exists; choose another file"), "{}", refusal.stderr);
}

#[test]
fn attach_without_a_terminal_names_its_requirement() {
    let output = home().run(&["terminal", "attach", "x"]);
    assert_eq!(output.code, 2);
    assert!(output.stderr.contains("attach needs a terminal on"), "{}", output.stderr);
}
