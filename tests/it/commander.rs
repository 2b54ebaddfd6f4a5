//! `steplatch commander` for a person and for a script.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use steplatch_testkit::{CommandOutput, Home, eventually_blocking};

use crate::desk::Desk;

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// The declarations of the project. `wait` ends once the file `go` exists.
const PROJECT_FILE: &str = r#"
[nodes.greet]
type = "bash"
description = "Greets"
command = "echo hello {input|sh}; echo {input|sh} >>greeted"

[nodes.fails]
type = "bash"
command = "echo before; echo 'no such file' >&2; exit 3"

[nodes.wait]
type = "bash"
command = "echo $$ >wait.pid; until [ -e go ]; do sleep 0.05; done; echo waited"

[graphs.both]
steps = [{ id = "first", node = "greet" }, { id = "last", node = "greet", input = "{first}" }]
"#;

/// A function with two gates.
const STORY: &str = r#"
async def story(ctx):
    verdict = await ctx.gate("Publish " + ctx.params["input"] + "?", choices=["publish", "stop"])
    if verdict == "stop":
        return "stopped"
    why = await ctx.gate("Why?")
    return verdict + " because " + why

Workflow(id="story", session=session, fn=story)
"#;

/// A state machine with a gate, saved as `release`.
const RELEASE: &str = r#"{"name": "release", "description": "Asks and ends", "initial_state": "ask", "states": {
    "ask": {"action": {"tool": "gate", "params": {"prompt": "Release {input}?", "choices": ["yes", "no"]}}}
}}"#;

/// Two functions: one starts the other, and the other has a gate with a form.
const NESTED: &str = r#"
async def inner(ctx):
    form = {"properties": {"version": {"type": "string", "minLength": 3}, "note": {"type": "string"}},
            "required": ["version"]}
    return await ctx.gate("Fill in", form=form)

async def outer(ctx):
    filled = await ctx.run_workflow("inner", "x")
    return filled["version"]

Workflow(id="outer", session=session, fn=outer)
Workflow(id="inner", session=session, fn=inner)
"#;

const SLEEPS: &str = r#"{"name": "sleeps", "initial_state": "rest", "states": {
    "rest": {"action": {"tool": "sleep", "params": {"seconds": 1000}}, "timeout": 300}
}}"#;

/// A home with a project.
struct Project {
    home: Home,
    directory: PathBuf,
}

impl Project {
    fn new() -> Self {
        let home = Home::new(STEPLATCH);
        let directory = home.path().join("project");
        fs::create_dir(&directory).unwrap();
        let files = [
            ("steplatch.toml", PROJECT_FILE),
            ("story.py", STORY),
            ("nested.py", NESTED),
            ("release.json", RELEASE),
            ("sleeps.json", SLEEPS),
        ];
        for (name, text) in files {
            fs::write(directory.join(name), text).unwrap();
        }
        let project = Self { home, directory };
        project.run(&["workflow", "load", "release.json"]).expect_success();
        project
    }

    fn run(&self, words: &[&str]) -> CommandOutput {
        CommandOutput::from_process(&self.home.steplatch().current_dir(&self.directory).args(words).output().unwrap())
    }

    /// Runs these lines as a script.
    fn run_script(&self, lines: &str) -> CommandOutput {
        let mut program = self.home.steplatch();
        program.current_dir(&self.directory).arg("commander");
        let mut program = program.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        program.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
        CommandOutput::from_process(&program.wait_with_output().unwrap())
    }

    fn list_runs(&self, state: &str) -> Vec<Value> {
        self.run(&["runs", "list", "--state", state, "--json"]).json()["runs"].as_array().unwrap().clone()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn release_wait(&self) {
        fs::write(self.path("go"), "").unwrap();
    }
}

/// Opens Commander in a person's own terminal.
async fn open_commander(project: &Project) -> Desk {
    open_commander_with(project, &[]).await
}

/// Same as [`open_commander`], with additional environment variables.
async fn open_commander_with(project: &Project, environment: &[(&str, &str)]) -> Desk {
    let command = format!("{STEPLATCH} commander; echo left with $?; stty -a | grep -o ' -*echo '; sleep 1000");
    let desk = Desk::start(&project.home, &project.directory, &command, (120, 45), environment).await;
    desk.expect_screen("/help teaches, Ctrl-D leaves").await;
    desk
}

#[tokio::test]
async fn nodes_and_graphs_are_called_and_refer_to_earlier_results() {
    let project = Project::new();
    let desk = open_commander(&project).await;
    desk.expect_screen("^4 nodes, 1 graph, 1 workflow here").await;
    desk.enter_line("@greet world", "^hello world\n✓ ::0 @greet in ").await;
    desk.enter_line("@identity (::0) ::greet['attributes']['exit_code']", "^\\(hello world\\) 0\n✓ ::1 @identity")
        .await;
    desk.enter_line("#both ::-1", "^hello hello \\(hello world\\) 0\nfirst +completed\nlast +completed\n✓ ::2 #both")
        .await;
    desk.enter_line("@both you", "✓ ::3 #both").await;
    desk.enter_line("@fails", "^before\nno such file\n✗ ::4 @fails in .*: The command ended with exit code 3").await;
    let screen = desk.enter_line("::0", "^hello world\n›$").await;
    assert!(!screen.contains("error"), "{screen}");
    let history = desk.enter_line("/history", "^::4 +@fails +failed .*exit code 3").await;
    assert!(history.contains("::2     #both      done"), "{history}");
    desk.enter_line("/show 0", "^  input +world").await;
}

#[tokio::test]
async fn invalid_line_is_explained_and_runs_nothing() {
    let project = Project::new();
    let desk = open_commander(&project).await;
    for (line, pattern) in [
        ("@gret", "^error: there is no node 'gret', did you mean @greet\\?; there is @fails, @greet, @identity, @wait"),
        ("@release 1", "^error: 'release' is a workflow; write %release"),
        ("%greet", "^error: 'greet' is a node; write @greet"),
        ("#greet", "^error: 'greet' is a node; write @greet"),
        ("@greet ::0", "^error: ::0 refers to nothing: there are no results yet"),
        ("@greet ::wait", "^error: ::wait refers to nothing: 'wait' was not called yet"),
        ("hello", "^error: no question is open; call a node with @"),
        ("/hlep", "^error: there is no command '/hlep', did you mean /help\\?"),
        ("/help cooking", "^error: there is no help about 'cooking'; the topics are nodes"),
        (":help gates", "^gates: questions that runs wait for$"),
        ("/help", "^  /help TOPIC teaches more: nodes, graphs"),
        ("@greet \\::0", "^hello ::0\n✓ ::0 @greet in"),
    ] {
        desk.enter_line(line, pattern).await;
    }
    assert_eq!(fs::read_to_string(project.path("greeted")).unwrap(), "::0\n", "only the last line made a call");
    desk.press("/clear\r").await;
    desk.expect_screen("\\A›\\s*\\z").await;
}

#[tokio::test]
async fn remarks_and_errors_wrap_at_the_terminal_width() {
    let project = Project::new();
    let desk = open_commander(&project).await;
    desk.resize(38, 30).await;
    desk.enter_line("@greet one", "^✓ ::0 @greet").await;
    let screen = desk.enter_line("@no-such-node x", "no-such-node'").await;
    let start = screen.find("error: ").expect("an error is shown");
    let lines: Vec<&str> = screen[start..].lines().take_while(|line| !line.starts_with('›')).collect();
    let words: Vec<&str> = lines.iter().flat_map(|line| line.split_whitespace()).collect();
    assert!(lines.len() > 1, "{screen}");
    assert!(words.iter().any(|word| word.contains("no-such-node")), "{screen}");
    for (line, next) in lines.iter().zip(&lines[1..]) {
        let first = next.split_whitespace().next().unwrap_or_default();
        assert!(
            line.chars().count() + 1 + first.chars().count() > 38,
            "each line is filled before it wraps:\n{screen}"
        );
    }
}

#[tokio::test]
async fn gate_is_answered_by_number_with_a_referable_result() {
    let project = Project::new();
    let desk = open_commander(&project).await;
    let screen = desk
        .enter_line(
            "%./story.py notes",
            "^  \\? Publish notes\\?\n    1  publish\n    2  stop\n  your answer, by number or text:\n\\?$",
        )
        .await;
    assert!(screen.contains("\nstory run_"), "the start of the run is shown:\n{screen}");
    desk.enter_line("3", "^error: invalid answer '3'; choose ").await;
    // Other targets can be called in the meantime.
    desk.enter_line("@greet meanwhile", "^✓ ::1 @greet").await;
    desk.enter_line("1", "answered: publish\n(.*\n)?  \\? Why\\?\n  your answer:\n\\?$").await;
    desk.enter_line(
        "it is ::greet",
        "^✓ completed in .*\n  publish because it is hello meanwhile\n  its result is ::0",
    )
    .await;
    desk.enter_line("@identity ::story", "^publish because it is hello meanwhile\n✓ ::2 @identity").await;
    // A saved machine, called by name, answered by text.
    desk.enter_line("%release 1.2", "^  \\? Release 1.2\\?").await;
    desk.enter_line("YES", "^✓ completed in").await;
    let run =
        project.list_runs("completed").iter().find(|run| run["workflow_id"] == "release").unwrap()["run_id"].clone();
    let events = project.run(&["runs", "events", run.as_str().unwrap(), "--json"]).expect_success();
    let event = events.lines().find(|line| line.contains("gate_answered")).unwrap();
    assert!(event.contains("\"commander\""), "the recorded client: {event}");
}

#[tokio::test]
async fn nested_form_is_filled_in_and_passphrase_is_never_shown() {
    let project = Project::new();
    let mut approver = project.home.steplatch();
    let mut approver = approver.args(["approver", "set", "--stdin"]).stdin(Stdio::piped()).spawn().unwrap();
    approver.stdin.take().unwrap().write_all(b"@greet oat\n").unwrap();
    assert!(approver.wait().unwrap().success());
    let desk = open_commander_with(&project, &[("NO_COLOR", "1")]).await;
    desk.enter_line("%nested.py:outer", "^::0 %nested.py:outer run_.* asks(.*\n)*  version \\(a text .*\\):\n\\?$")
        .await;
    desk.enter_line("1", "^error: 'version' must have at least 3 characters").await;
    desk.enter_line("1.2.3", "^  note \\(a text; may be left empty\\):\n\\?$").await;
    desk.press("\r").await;
    desk.expect_screen("^  the approver's passphrase:\n\\?$").await;
    desk.press("@greet oé\x7fat").await;
    let screen = desk.expect_screen("^\\? •{10}$").await;
    assert!(!screen.contains("oat"), "{screen}");
    desk.press("\r").await;
    desk.expect_screen(
        "^    ✓ gate .* answered: version=1.2.3\n(.*\n)*✓ completed in .*\n  1.2.3\n  its result is ::0",
    )
    .await;
    desk.enter_line("@identity of ::outer", "^of 1.2.3\n✓ ::1").await;
    let history = fs::read_to_string(project.home.path().join("state/commander_history")).unwrap();
    assert_eq!(history, "#V2\n%nested.py:outer\n@identity of ::outer\n");
    assert!(!project.path("greeted").exists(), "the passphrase is not run as a call");
    let refusal = project.run_script("%story.py x\n2\n");
    assert_eq!(refusal.code, 1, "{}", refusal.stdout);
    assert!(refusal.stderr.contains("--passphrase-stdin"), "{}", refusal.stderr);
}

#[tokio::test]
async fn slow_work_continues_in_background_and_reports_above_input() {
    let project = Project::new();
    let desk = open_commander(&project).await;
    desk.enter_line("@wait", "^::0 @wait continues in the background; /fg 0 waits for it").await;
    desk.enter_line("@greet ::last and ::wait", "^::1 @greet waits for ::0, which is still coming").await;
    desk.expect_screen("^::1 @greet continues in the background").await;
    desk.enter_line("/bg", "^::1 +@greet +waits .*for an earlier result").await;
    desk.enter_line("/show ::1['output']", "^this waits for ::1").await;
    desk.press("@greet half a li").await;
    desk.expect_screen("^› @greet half a li$").await;
    assert!(!project.path("greeted").exists(), "a waiting run has not begun");
    project.release_wait();
    let reports = "^waited\n✓ ::0 @wait in .*\nhello waited and waited\n✓ ::1 @greet in .*";
    desk.expect_screen(&format!("{reports}\n(.*\n)*› @greet half a li$")).await;
    desk.press("ne\r").await;
    desk.expect_screen("^hello half a line\n✓ ::2 @greet").await;
}

#[tokio::test]
async fn ctrl_c_interrupts_a_wait_and_leaves_a_question_open() {
    let project = Project::new();
    let desk = open_commander(&project).await;
    desk.press("@wait\r").await;
    let pid = project.path("wait.pid");
    eventually_blocking("the node writes its process id", || {
        fs::read_to_string(&pid).is_ok_and(|pid| pid.ends_with('\n'))
    });
    desk.press("\x03").await;
    desk.expect_screen("^✗ ::0 @wait in .*: interrupted\n›$").await;
    let process = format!("/proc/{}/cmdline", fs::read_to_string(&pid).unwrap().trim());
    eventually_blocking("the node ends", || !fs::read_to_string(&process).is_ok_and(|line| !line.is_empty()));

    desk.enter_line("%release 1", "^  \\? Release 1\\?\n.*\n.*\n.*\n\\?$").await;
    desk.press("\x03").await;
    desk.expect_screen("^the question is left open; Ctrl-C again cancels the run, /gates asks again\n›$").await;
    assert_eq!(project.list_runs("waiting").len(), 1, "the run still waits");
    desk.enter_line("1", "^error: no question is open").await;
    desk.enter_line("/gates", "^RUN .*\n.* release .*Release 1\\?\n(.*\n)*    2  no\n.*\n\\?$").await;
    desk.enter_line("/answer 2", "^✓ completed in").await;

    desk.enter_line("%release 2", "^  \\? Release 2\\?").await;
    desk.press("\x03").await;
    desk.expect_screen("left open(.*\n)*.*left open").await;
    // A number is never a prefix of a run's id, even if an id begins with that number.
    desk.enter_line("/cancel 3", "^error: there is no call ::3; /history lists the calls").await;
    // No id contains the letters l, o or u.
    desk.enter_line("/cancel lou", "^error: no run id starts with 'lou'").await;
    desk.enter_line("/cancel 2", "✗ cancelled in").await;

    // Cancels a foreground run that was started here.
    desk.enter_line("%./sleeps.json", "^::3 %./sleeps.json continues in the background").await;
    desk.enter_line("/fg", "^waiting for ::3 %./sleeps.json").await;
    desk.expect_screen("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] rest").await;
    desk.press("\x03").await;
    desk.expect_screen("^cancelling run_.*\n(.*\n)?✗ cancelled in .*\n  its result is ::3").await;
    let screen = desk.enter_line("@identity ::3['error_type']", "^cancelled\n✓ ::4").await;
    assert!(!screen.contains('⠋'), "the progress line is removed:\n{screen}");

    // A second Ctrl-C at the same question cancels the run.
    desk.enter_line("%release 3", "^  \\? Release 3\\?\n.*\n.*\n.*\n\\?$").await;
    desk.press("\x03").await;
    desk.expect_screen("Ctrl-C again cancels the run, /gates asks again\n›$").await;
    desk.press("\x03").await;
    desk.expect_screen("^cancelling run_.*\n(.*\n)*.*✗ cancelled in").await;
}

#[tokio::test]
async fn pending_work_is_reported_on_exit_and_asked_about_on_return() {
    let project = Project::new();
    let desk = open_commander(&project).await;
    desk.enter_line("@wait", "^::0 @wait continues in the background").await;
    desk.enter_line("/bg %release 7", "^  \\? Release 7\\?").await;
    let run = project.list_runs("waiting")[0]["run_id"].as_str().unwrap().to_owned();
    desk.press("\x04").await;
    let screen = desk.expect_screen("^left with 0\n echo").await;
    assert!(screen.contains("::0 @wait ends here"), "{screen}");
    assert!(
        screen.contains(&format!("%release continues as {run}; answer it with: steplatch gates answer {run}")),
        "{screen}"
    );
    drop(desk);

    let desk = open_commander(&project).await;
    desk.expect_screen(&format!(
        "^{run} asks, Ctrl-C leaves it open, twice cancels the run\n  \\? Release 7\\?\n.*\n.*\n.*\n\\?$"
    ))
    .await;
    desk.enter_line("no", &format!("^answered: no; {run} is now ")).await;
    desk.enter_line(":quit", "^left with 0").await;
}

#[tokio::test]
async fn external_runs_are_listed_watched_and_cancelled_by_prefix() {
    let project = Project::new();
    let start_release = |version: &str| {
        let input = format!("input={version}");
        project.run(&["run", "release", "-d", "-i", &input]).expect_success().trim().to_owned()
    };
    let (first, second) = (start_release("1"), start_release("2"));
    eventually_blocking("two runs wait", || project.list_runs("waiting").len() == 2);
    let desk = open_commander(&project).await;
    desk.expect_screen("^  \\? Release 1\\?").await;
    desk.press("\x03").await;
    desk.expect_screen("2 questions are left open").await;
    let list = desk.enter_line("/runs waiting", &format!("^{first} +release +waiting")).await;
    assert!(list.contains(&second), "{list}");
    desk.enter_line("/show run_", "^error: 'run_' is ambiguous; it matches these runs:\n.*\n.*release").await;
    desk.enter_line(
        &format!("/fg {}", &first[..12]),
        "^Ctrl-C stops watching; the run continues\nrelease run_(.*\n)*  \\? Release 1\\?",
    )
    .await;
    desk.enter_line("1", "^✓ completed in(.*\n)*  its result is ::0").await;
    desk.enter_line(&format!("/cancel {}", &second[4..12]), &format!("^{second}: Run cancelled")).await;
    assert!(project.list_runs("waiting").is_empty());
    desk.enter_line("/show release", "^error: no run id starts with 'release'").await;
}

#[tokio::test]
async fn lines_are_completed_and_saved_unless_they_start_with_space() {
    let project = Project::new();
    let desk = open_commander(&project).await;
    desk.press("@gr\tone").await;
    desk.expect_screen("^› @greet one$").await;
    desk.press("\r").await;
    desk.expect_screen("^✓ ::0 @greet").await;
    desk.enter_line(" @greet secret", "✓ ::1 @greet").await;
    desk.enter_line("%release 1", "^  \\? Release 1\\?").await;
    desk.press("y\t").await;
    desk.expect_screen("^\\? yes$").await;
    desk.press("\r").await;
    desk.expect_screen("^✓ completed in").await;
    desk.press("@identity ::re\t").await;
    desk.expect_screen("^› @identity ::release$").await;
    desk.press("\x15@identity one\r").await;
    desk.expect_screen("^✓ ::3 @identity").await;
    desk.press("/qu\t\r").await;
    desk.expect_screen("^left with 0").await;
    let history = project.home.path().join("state/commander_history");
    let lines = fs::read_to_string(&history).unwrap();
    assert_eq!(
        lines.lines().collect::<Vec<_>>(),
        ["#V2", "@greet one", "%release 1", "@identity one"],
        "the history has neither secrets nor answers"
    );
    assert_eq!(fs::metadata(&history).unwrap().permissions().mode() & 0o777, 0o600);
    drop(desk);

    let desk = open_commander_with(&project, &[("NO_COLOR", "1")]).await;
    desk.press("\x1b[A\x1b[A\x1b[A").await;
    desk.expect_screen("^› @greet one$").await;
    desk.press("\r").await;
    desk.expect_screen("^✓ ::0 @greet").await;
    let styled = desk.styled_screen().await;
    assert!(!styled.contains("\x1b[0;32m"), "{styled:?}");
}

// Document 003, line 1152: other text is direct input to the current target.
#[test]
fn plain_text_goes_to_the_current_target() {
    let project = Project::new();
    let no_target = project.run_script("world\n");
    assert!(no_target.code == 2 && no_target.stderr.contains("/target @NODE"), "{no_target:?}");
    let output = project.run_script("/target @greet\nworld\n/target\n/target off\n");
    assert_eq!((output.code, output.stdout.as_str()), (0, "hello world\n"), "{output:?}");
    assert!(output.stderr.contains("plain text is sent to @greet; /target off ends that"), "{output:?}");
    let unknown = project.run_script("/target @gret\n");
    assert!(unknown.code == 2 && unknown.stderr.contains("did you mean @greet?"), "{unknown:?}");
    let graph = project.run_script("/target @both\nworld\n");
    assert!(graph.stderr.contains("plain text is sent to #both"), "{graph:?}");
}

#[test]
fn script_reads_lines_and_ends_with_the_code_of_the_last_one() {
    let project = Project::new();
    let output = project.run_script("@fails\n@greet you\n@identity ::greet!\n");
    assert_eq!((output.code, output.stdout.as_str()), (0, "before\nhello you\nhello you!\n"), "{}", output.stderr);
    assert!(output.stderr.contains("error: The command ended with exit code 3"), "{}", output.stderr);
    assert!(!output.stdout.contains('\x1b') && !output.stderr.contains('\x1b'));
    assert_eq!(project.run_script("@greet a\n@fails").code, 1);
    assert_eq!(project.run_script("@gret\n").code, 2);
    assert_eq!(project.run_script("@gret\n/help\n").code, 0);
    assert_eq!(project.run_script("@greet x\n/quit\n@fails\n").code, 0);

    let answered_output = project.run_script("%story.py notes\n1\nI can\n@identity so ::story\n");
    assert_eq!(answered_output.code, 0, "{}", answered_output.stderr);
    assert!(answered_output.stdout.ends_with("\nso publish because I can\n"), "{}", answered_output.stdout);
    let waiting = project.run_script("%story.py notes\n@greet ::story\n");
    let run = project.list_runs("waiting")[0]["run_id"].as_str().unwrap().to_owned();
    assert_eq!(waiting.code, 3, "{}", waiting.stdout);
    let continuation = format!("%story.py continues as {run}; answer it with: steplatch gates answer {run}/gate/1@");
    assert!(waiting.stderr.contains(&continuation), "{}", waiting.stderr);
    assert!(
        waiting.stderr.contains("::1 @greet did not begin, because what it waits for did not come"),
        "{}",
        waiting.stderr
    );
}
