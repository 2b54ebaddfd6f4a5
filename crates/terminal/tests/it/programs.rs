//! Real programs on real terminals.

use std::time::Duration;

use steplatch_pattern::Pattern;
use steplatch_terminal::{
    Closing, Input, Integration, Limit, Opened, Options, Part, Quiet, Reason, Settle, Size, Spec, Target, Terminal,
    Terminals, Until, View, Wait, Waited,
};
use tempfile::TempDir;

struct World {
    terminals: Terminals,
    _directory: TempDir,
}

impl World {
    fn new() -> Self {
        Self::with(Options::default())
    }

    fn with(options: Options) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let integration = Some(Integration::install(directory.path()).unwrap());
        let terminals = Terminals::new(Options { integration, ..options }).unwrap();
        Self { terminals, _directory: directory }
    }

    fn spec(command: &[&str]) -> Spec {
        Spec {
            arguments: command.iter().map(Into::into).collect(),
            command: command.join(" "),
            directory: "/".into(),
            inherited: std::env::vars_os().filter(|(key, _)| key != "HOME").collect(),
            environment: vec![("HOME".into(), "/nonexistent".into()), ("LC_ALL".into(), "C.UTF-8".into())],
            size: Size { cols: 80, rows: 24 },
            name: None,
            opened_by: None,
            step: None,
        }
    }

    async fn open(&self, command: &[&str]) -> Session {
        let Opened { terminal, integrated } = self.terminals.open(Self::spec(command)).await.unwrap();
        let quiet = if integrated { Duration::from_secs(5) } else { Duration::from_millis(200) };
        terminal.ready(Quiet::for_duration(quiet), Duration::from_secs(60)).await.unwrap();
        Session(terminal)
    }

    async fn bash(&self) -> Session {
        self.open(&["bash"]).await
    }
}

/// A terminal under test, with short methods.
struct Session(Terminal);

impl Session {
    async fn type_in(&self, text: &str) -> u64 {
        let settle = Some(Settle { quiet: Duration::from_millis(10), timeout: Duration::from_millis(50) });
        self.0.send(Input { text: text.into(), settle, ..Input::default() }).await.unwrap().offset
    }

    async fn press(&self, key: &str) {
        let settle = Some(Settle { quiet: Duration::from_millis(20), timeout: Duration::from_millis(200) });
        self.0.send(Input { keys: vec![key.into()], settle, ..Input::default() }).await.unwrap();
    }

    async fn waits(&self, wait: Wait) -> (Waited, View) {
        self.0.wait(wait).await.unwrap()
    }

    /// Waits for a pattern in the output and returns the match.
    async fn expect_text(&self, pattern: &str) -> String {
        let (waited, view) = self.waits(wait_for(pattern)).await;
        let found = waited.found.unwrap_or_else(|| panic!("no {pattern:?} ({:?}) on:\n{}", waited.reason, view.screen));
        assert!(!found.in_echo, "{pattern:?} was only typed");
        found.text
    }

    async fn expect_screen(&self, pattern: &str) -> String {
        let (waited, view) = self.waits(Wait { target: Target::Screen, ..wait_for(pattern) }).await;
        assert_eq!(waited.reason, Reason::Match, "no {pattern:?} on:\n{}", view.screen);
        view.screen
    }

    async fn prompt(&self) -> View {
        let (waited, view) = self.waits(Wait { patterns: Vec::new(), until: Until::Prompt, ..wait_for("") }).await;
        assert_eq!(waited.reason, Reason::Prompt, "no prompt on:\n{}", view.screen);
        view
    }

    async fn history(&self) -> String {
        self.0.read(Part::From(0), Limit::Head(usize::MAX)).await.unwrap().head
    }

    async fn closes(self) {
        let closed = self.0.close(Closing::default()).await.unwrap();
        assert_eq!(closed.survivors, []);
    }
}

fn wait_for(pattern: &str) -> Wait {
    Wait {
        patterns: vec![Pattern::new(pattern).unwrap()],
        target: Target::Output,
        since: None,
        until: Until::Match,
        input: None,
        timeout: Duration::from_secs(60),
        by: None,
        ..Wait::default()
    }
}

#[tokio::test]
async fn bash_output_is_found_and_its_echo_is_not() {
    let world = World::new();
    let bash = world.bash().await;
    bash.type_in("echo $((40 + 2))_done\n").await;
    assert_eq!(bash.expect_text(r"\w+_done").await, "42_done");
    bash.closes().await;
}

#[tokio::test]
async fn exit_codes_of_commands_and_of_the_shell_are_known() {
    let world = World::new();
    let bash = world.bash().await;
    for (command, code) in [("true", 0), ("false", 1), ("no_such_command_here", 127), ("(exit 42) | cat; (exit 7)", 7)]
    {
        bash.type_in(&format!("{command}\n")).await;
        assert_eq!(bash.prompt().await.exit_code, Some(code), "{command}");
    }
    bash.type_in("exit 3\n").await;
    let (waited, _) = bash.waits(wait_for("never printed")).await;
    assert_eq!(waited.reason, Reason::Exit);
    assert_eq!(waited.exit.unwrap().code, 3);
}

#[tokio::test]
async fn exit_codes_survive_customised_prompts() {
    for rc in [
        "",
        "PROMPT_COMMAND='history -a'",
        "PROMPT_COMMAND=(true false)",
        "PROMPT_COMMAND=",
        "set -u",
        "declare -r PROMPT_COMMAND=true",
        "PROMPT_COMMAND='PS1=\"$ \"; PS0='",
        "PS0='running\\n'; PS1='\\u \\w \\$ '",
    ] {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join(".bashrc"), rc).unwrap();
        let world = World::new();
        let mut spec = World::spec(&["bash"]);
        spec.environment.push(("HOME".into(), home.path().into()));
        let Opened { terminal, .. } = world.terminals.open(spec).await.unwrap();
        let bash = Session(terminal);
        bash.prompt().await;
        let again = "PROMPT_COMMAND='history -a'; true";
        for (command, code) in [("true", 0), ("false", 1), ("(exit 7)", 7), (again, i32::from(rc.contains("-r")))] {
            bash.type_in(&format!("{command}\n")).await;
            let view = bash.prompt().await;
            assert_eq!(view.exit_code, Some(code), "{command} with {rc:?} on:\n{}", view.screen);
            assert!(!view.screen.contains("unbound"), "{rc:?}:\n{}", view.screen);
        }
        if rc.is_empty() {
            bash.type_in("false\n").await;
            assert_eq!(bash.prompt().await.exit_code, Some(1), "after the hooks were set again");
        }
    }
}

#[tokio::test]
async fn awaited_prompt_is_the_one_after_all_typed_input() {
    let world = World::new();
    let bash = world.bash().await;
    bash.type_in("sleep 0.2\nsleep 0.2\n(exit 3)\n").await;
    assert_eq!(bash.prompt().await.exit_code, Some(3));
    bash.type_in("for n in 1 2\ndo echo line $n\ndone; read -p 'sure? ' answer; (exit 4)\n").await;
    bash.expect_text(r"sure\?").await;
    bash.type_in("yes\n").await;
    assert_eq!(bash.prompt().await.exit_code, Some(4), "lines read by a program are not awaited");
    bash.type_in("\n").await;
    assert_eq!(bash.prompt().await.busy, Some(false));
}

#[tokio::test]
async fn shell_is_busy_while_a_command_runs() {
    let world = World::new();
    let bash = world.bash().await;
    assert_eq!(bash.0.view(false).await.unwrap().busy, Some(false));
    bash.type_in("read -p 'go? ' answer\n").await;
    bash.expect_text(r"go\?").await;
    assert_eq!(bash.0.view(false).await.unwrap().busy, Some(true));
    bash.type_in("yes\n").await;
    assert_eq!(bash.prompt().await.busy, Some(false));
}

#[tokio::test]
async fn burst_of_two_hundred_thousand_lines_is_kept() {
    let world = World::new();
    let bash = world.bash().await;
    bash.type_in("seq 1 200000; echo burst_$((1+1))\n").await;
    bash.expect_text("burst_2").await;
    let history = bash.history().await;
    let mut expected = 1u32;
    for line in history.lines() {
        if line.parse() == Ok(expected) {
            expected += 1;
        }
    }
    assert_eq!(expected, 200_001);
    bash.closes().await;
}

#[tokio::test]
async fn endless_output_is_bounded_and_blocks_no_client() {
    let world = World::with(Options { history_budget: 64 * 1024, ..Options::default() });
    let bash = world.bash().await;
    bash.type_in("head -c 8000000 /dev/urandom | base64 -w 100; echo over_$((1+1))\n").await;
    assert!(!bash.0.view(false).await.unwrap().screen.is_empty(), "a flooding terminal still answers");
    bash.expect_text("over_2").await;
    let excerpt = bash.0.read(Part::From(0), Limit::Head(usize::MAX)).await.unwrap();
    assert!(excerpt.dropped_before.is_some());
    assert!(excerpt.head.len() < 2 << 20);
    bash.closes().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn output_beyond_memory_is_read_from_disk() {
    let directory = tempfile::tempdir().unwrap();
    let history_directory = Some(directory.path().to_owned());
    let world = World::with(Options { history_budget: 64 * 1024, history_directory, ..Options::default() });
    let bash = world.bash().await;
    bash.type_in("seq 1 300000; echo over_$((1+1))\n").await;
    bash.expect_text("over_2").await;
    let excerpt = bash.0.read(Part::SinceInput, Limit::HeadAndTail(2000)).await.unwrap();
    assert_eq!(excerpt.dropped_before, None);
    assert!(excerpt.head.starts_with("1\n2\n3\n") && excerpt.left_out > 1_900_000, "{}", excerpt.head);
    assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0, "the file is unnamed");
    bash.closes().await;
}

#[tokio::test]
async fn python_computes_and_waits_at_its_prompt() {
    let world = World::new();
    let bash = world.bash().await;
    bash.type_in("python3 -q\n").await;
    bash.expect_text(">>> ").await;
    bash.type_in("6 * 7\n").await;
    assert_eq!(bash.expect_text(r"^\d+$").await, "42");
    bash.expect_text(">>> ").await;
    bash.type_in("exit()\n").await;
    bash.prompt().await;
}

#[tokio::test]
async fn vim_edits_a_file_on_the_alternate_screen() {
    let world = World::new();
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("note.txt");
    let vim = world.open(&["vim", "-u", "NONE", file.to_str().unwrap()]).await;
    vim.expect_screen("note.txt").await;
    assert!(vim.0.view(false).await.unwrap().modes.alternate_screen);
    vim.type_in("ihello from vim").await;
    vim.press("escape").await;
    vim.type_in(":wq\n").await;
    let (waited, _) = vim.waits(wait_for("never drawn")).await;
    assert_eq!(waited.reason, Reason::Exit);
    assert_eq!(std::fs::read_to_string(file).unwrap(), "hello from vim\n");
}

#[tokio::test]
async fn less_pages_forward_and_restores_the_screen() {
    let world = World::new();
    let bash = world.bash().await;
    bash.type_in("seq 1 500 | less\n").await;
    bash.expect_screen("^23$").await;
    bash.press("page-down").await;
    bash.expect_screen("^40$").await;
    bash.type_in("q").await;
    let view = bash.prompt().await;
    assert!(!view.modes.alternate_screen);
    assert!(!bash.history().await.contains("\n40\n"), "drawings of a full-screen program are not history");
}

#[tokio::test]
async fn top_draws_and_is_interrupted() {
    let world = World::new();
    let bash = world.bash().await;
    bash.type_in("top\n").await;
    bash.expect_screen("PID +USER").await;
    bash.type_in("q").await;
    bash.prompt().await;
}

#[tokio::test]
async fn cursor_position_request_is_answered() {
    let world = World::new();
    let bash = world.bash().await;
    bash.type_in("printf 'abc'; IFS='[;' read -rs -d R -p $'\\e[6n' _ row col; echo \" at $col\"\n").await;
    assert_eq!(bash.expect_text(r"at \d+").await, "at 4");
}

#[tokio::test]
async fn wait_ends_at_its_timeout_and_reports_it() {
    let world = World::new();
    let bash = world.bash().await;
    let (waited, _) = bash.waits(Wait { timeout: Duration::from_millis(30), ..wait_for("not to come") }).await;
    assert_eq!((waited.reason, waited.found), (Reason::Timeout, None));
}

#[tokio::test]
async fn old_match_satisfies_a_new_wait_only_on_request() {
    let world = World::new();
    let bash = world.bash().await;
    let first = bash.type_in("echo ready_$((1+1))\n").await;
    bash.expect_text("ready_2").await;
    bash.type_in("true\n").await;
    let (waited, _) = bash.waits(Wait { timeout: Duration::from_millis(50), ..wait_for("ready_2") }).await;
    assert_eq!(waited.reason, Reason::Timeout);
    let (waited, _) = bash.waits(Wait { since: Some(first), ..wait_for("ready_2") }).await;
    assert_eq!(waited.reason, Reason::Match);
}

#[tokio::test]
async fn typed_but_unentered_text_is_reported_as_such() {
    let world = World::new();
    let cat = world.open(&["sleep", "30"]).await;
    cat.type_in("knock\n").await;
    let (waited, _) = cat.waits(Wait { timeout: Duration::from_millis(50), ..wait_for("knock") }).await;
    assert_eq!(waited.reason, Reason::Timeout);
    let found = waited.found.unwrap();
    assert!(found.in_echo);
    assert!(waited.offset >= found.range.unwrap().end, "the next wait searches after this match");
}

#[tokio::test]
async fn long_and_unusual_text_arrives_unchanged() {
    let world = World::new();
    let bash = world.bash().await;
    for (number, text) in ["-n x;", "Enter C-a", "$HOME 'q\" \\ ;", "żółć 漢字"].into_iter().enumerate() {
        // Text typed before the terminal has its own modes again is not echoed.
        bash.type_in(&format!("echo begun_$((10 + {number})); cat > /dev/null; echo got_$((20 + {number}))_$?\n"))
            .await;
        bash.expect_text(&format!("begun_1{number}")).await;
        bash.type_in(&format!("{text}\n\u{4}")).await;
        bash.expect_text(&format!("got_2{number}_0")).await;
        assert!(bash.history().await.contains(text), "{text}");
    }
    let long: String = (0..20_000).map(|n| format!("{n:09} ")).collect();
    bash.type_in(&format!(": {long}\n")).await;
    assert_eq!(bash.prompt().await.exit_code, Some(0));
    bash.type_in("echo ${#_}_characters\n").await;
    assert_eq!(bash.expect_text(r"\d+_characters").await, "9_characters", "the last word of 200 KB has arrived");
}

#[tokio::test]
async fn key_after_escape_arrives_separately_after_a_pause() {
    let world = World::new();
    let session =
        world.open(&["sh", "-c", "stty raw -echo; echo ready; dd bs=1 count=5 2>/dev/null | od -An -c"]).await;
    session.expect_text("ready").await;
    let keys = ["escape", "q", "escape", "escape", "x"].map(str::to_owned).to_vec();
    // Only the end of each pause makes the terminal write further.
    session.0.send(Input { keys, ..Input::default() }).await.unwrap();
    session.expect_text(r"033\s+q\s+033\s+033\s+x").await;
    session.closes().await;
}

#[tokio::test]
async fn input_is_answered_without_a_view_on_request() {
    let world = World::new();
    let counts = world.open(&["wc", "-l"]).await;
    let input = Input { text: "knock\n".into(), ..Input::default() };
    for without_view in [false, true] {
        let sent = counts.0.send(Input { without_view, ..input.clone() }).await.unwrap();
        assert_eq!(sent.view.is_none(), without_view);
    }
    counts.type_in("\u{4}").await;
    assert_eq!(counts.expect_text(r"^\d$").await, "2");
}

#[tokio::test]
async fn resize_reaches_the_program() {
    let world = World::new();
    let bash = world.bash().await;
    bash.0.resize(Size { cols: 93, rows: 31 }).await.unwrap();
    bash.type_in("stty size\n").await;
    assert_eq!(bash.expect_text(r"^\d+ \d+$").await, "31 93");
}

#[tokio::test]
async fn remaining_children_are_killed_at_close() {
    let world = World::new();
    let bash = world.bash().await;
    let tag = format!("7{}", std::process::id());
    bash.type_in(&format!(
        "nohup sleep {tag}1 >/dev/null 2>&1 & setsid sleep {tag}2 & (trap '' HUP TERM; exec sleep {tag}3) & \
         (setsid sh -c 'sleep {tag}4 &' &) ; sleep 0.2; echo started_$((1+1))\n"
    ))
    .await;
    bash.expect_text("started_2").await;
    let running = || {
        let pgrep = std::process::Command::new("pgrep").args(["-f", &format!("sleep {tag}")]).output().unwrap();
        String::from_utf8(pgrep.stdout).unwrap().lines().count()
    };
    assert_eq!(running(), 4);
    bash.closes().await;
    assert_eq!(running(), 0);
}

#[tokio::test]
async fn child_without_the_mark_is_killed() {
    let world = World::new();
    let bash = world.bash().await;
    let tag = format!("8{}", std::process::id());
    let hides = format!(
        "import os,signal,subprocess,time\n\
         p = subprocess.Popen(['sleep', '{tag}'], env={{}}, start_new_session=True, \
         preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))\nprint('hidden_%d' % (1+1), flush=True)\ntime.sleep(60)"
    );
    let file = std::env::temp_dir().join(format!("hides-{tag}.py"));
    std::fs::write(&file, hides).unwrap();
    bash.type_in(&format!("python3 {}\n", file.display())).await;
    bash.expect_text("hidden_2").await;
    bash.closes().await;
    let pgrep = std::process::Command::new("pgrep").args(["-f", &format!("sleep {tag}")]).output().unwrap();
    assert!(pgrep.stdout.is_empty(), "the child has exited");
    std::fs::remove_file(file).unwrap();
}

#[tokio::test]
async fn ended_terminal_is_closed_for_a_new_one() {
    let world = World::with(Options { max_terminals: 2, ..Options::default() });
    let first = world.open(&["true"]).await;
    let (waited, _) = first.waits(wait_for("never")).await;
    assert_eq!(waited.reason, Reason::Exit);
    let _second = world.bash().await;
    let _third = world.bash().await;
    assert!(world.terminals.get(first.0.id().as_str()).is_none(), "the terminal whose program exited was closed");
    assert!(world.terminals.open(World::spec(&["bash"])).await.is_err());
}

#[tokio::test]
async fn timed_out_wait_can_continue_in_the_middle_of_a_line() {
    let world = World::new();
    let bash = world.bash().await;
    bash.type_in("printf Pass; sleep 0.3; echo word:\n").await;
    let (waited, _) = bash.waits(Wait { timeout: Duration::from_millis(100), ..wait_for("Password:") }).await;
    assert_eq!(waited.reason, Reason::Timeout);
    let (waited, _) = bash.waits(Wait { since: Some(waited.offset), ..wait_for("Password:") }).await;
    assert_eq!(waited.reason, Reason::Match);
}

#[tokio::test]
async fn failed_opening_reports_its_reason() {
    let world = World::with(Options { max_terminals: 1, ..Options::default() });
    let open_error = |spec: Spec| async { world.terminals.open(spec).await.unwrap_err().to_string() };
    assert_eq!(open_error(World::spec(&["no-such-shell"])).await, "program 'no-such-shell' was not found");
    assert_eq!(open_error(World::spec(&["/etc/passwd"])).await, "program '/etc/passwd' may not be executed");
    let nowhere = Spec { directory: "/no/such/folder".into(), ..World::spec(&["bash"]) };
    assert_eq!(open_error(nowhere).await, "directory '/no/such/folder' does not exist");
    let _one = world.bash().await;
    assert_eq!(open_error(World::spec(&["bash"])).await, "1 terminals are open, which is the limit");
}

#[tokio::test]
async fn dropped_wait_is_cancelled() {
    let world = World::new();
    let bash = world.bash().await;
    let abandoned = bash.0.wait(wait_for("never"));
    assert!(tokio::time::timeout(Duration::from_millis(20), abandoned).await.is_err());
    bash.type_in("echo on_$((1+1))\n").await;
    bash.expect_text("on_2").await;
}

#[tokio::test]
async fn hundred_consecutive_opens_reach_their_prompt() {
    let world = World::with(Options { max_terminals: 100, ..Options::default() });
    for number in 0..100 {
        let bash = world.bash().await;
        bash.type_in(&format!("echo n$(({number}))\n")).await;
        bash.expect_text(&format!("^n{number}$")).await;
        if number % 2 == 0 {
            bash.closes().await;
        }
    }
}
