//! Real shells on real terminals: marks, single commands, variables, and waits.
//!
//! Common properties are tested with all three shells.

use std::path::Path;
use std::time::{Duration, Instant};

use steplatch_patience::eventually;
use steplatch_pattern::Pattern;
use steplatch_terminal::{
    CommandRequest, CommandResult, Input, InputError, Integration, Limit, Opened, Options, Part, Quiet, Reason,
    RunError, Size, Spec, Terminal, Terminals, Until, Variable, VariablesError, View, Wait, Waited,
};
use tempfile::TempDir;

pub(crate) const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// A person's home directory with terminals.
pub(crate) struct World {
    pub(crate) terminals: Terminals,
    pub(crate) home: TempDir,
    _integration: TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let integration = Some(Integration::install(directory.path()).unwrap());
        let terminals = Terminals::new(Options { integration, ..Options::default() }).unwrap();
        let world = Self { terminals, home: tempfile::tempdir().unwrap(), _integration: directory };
        // Without any start file, zsh shows a new user a menu.
        world.file(".zshrc", "");
        world.file(".config/fish/config.fish", "set -g fish_greeting\n");
        // In a new home directory, fish reads all manuals for completions in the background, and this takes a minute of
        // computing.
        world.file(".local/share/fish/generated_completions/none", "");
        world
    }

    pub(crate) fn file(&self, name: &str, text: &str) {
        let path = self.home.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    pub(crate) fn home(&self) -> &str {
        self.home.path().to_str().unwrap()
    }

    pub(crate) fn spec(&self, command: &[&str]) -> Spec {
        let variables = [("HOME", self.home()), ("LC_ALL", "C.UTF-8"), ("PROMPT_EOL_MARK", "%%")];
        Spec {
            arguments: command.iter().map(Into::into).collect(),
            command: command.join(" "),
            directory: self.home().into(),
            inherited: std::env::vars_os()
                .filter(|(key, _)| {
                    key != "ZDOTDIR" && key != "PROMPT_COMMAND" && !key.to_string_lossy().starts_with("XDG")
                })
                .collect(),
            environment: variables.map(|(name, value)| (name.into(), value.into())).to_vec(),
            size: Size { cols: 80, rows: 24 },
            name: None,
            opened_by: None,
            step: None,
        }
    }

    pub(crate) async fn open_spec(&self, spec: Spec) -> Session {
        let program = spec.arguments[0].to_str().unwrap().to_owned();
        let path = std::env::var("PATH").unwrap();
        assert!(
            program.contains('/') || path.split(':').any(|directory| Path::new(directory).join(&program).is_file()),
            "{program} is not installed; cargo xtask test installs it, or names its package"
        );
        let Opened { terminal, integrated } = self.terminals.open(spec).await.unwrap();
        let quiet = if integrated { Duration::from_secs(60) } else { Duration::from_millis(200) };
        let view = terminal.ready(Quiet::for_duration(quiet), Duration::from_secs(60)).await.unwrap();
        if integrated {
            assert_eq!(view.busy, Some(false), "{program} has shown no prompt:\n{}", view.screen);
        }
        Session(terminal)
    }

    pub(crate) async fn open(&self, command: &[&str]) -> Session {
        self.open_spec(self.spec(command)).await
    }
}

/// A terminal under test, with short methods.
pub(crate) struct Session(pub(crate) Terminal);

impl Session {
    pub(crate) async fn type_in(&self, text: &str) {
        self.0.send(Input { text: text.into(), ..Input::default() }).await.unwrap();
    }

    pub(crate) async fn try_command(&self, command: &str) -> Result<CommandResult, RunError> {
        self.0.run(request(command)).await
    }

    pub(crate) async fn runs(&self, command: &str) -> CommandResult {
        let result = self.try_command(command).await.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        if result.timed_out {
            panic!("{command:?} has not ended:\n{}", self.view().await.screen);
        }
        result
    }

    /// Returns the output of a command and its exit code.
    pub(crate) async fn output_of(&self, command: &str) -> (String, Option<i32>) {
        let result = self.runs(command).await;
        (result.output, result.exit_code)
    }

    pub(crate) async fn view(&self) -> View {
        self.0.view(false).await.unwrap()
    }

    pub(crate) async fn waits(&self, wait: Wait) -> (Waited, View) {
        self.0.wait(wait).await.unwrap()
    }

    pub(crate) async fn expect_text(&self, pattern: &str) -> String {
        let (waited, view) = self.waits(wait_for(pattern)).await;
        let found = waited.found.unwrap_or_else(|| panic!("no {pattern:?} ({:?}) on:\n{}", waited.reason, view.screen));
        assert!(!found.in_echo, "{pattern:?} was only typed:\n{}", view.screen);
        found.text
    }

    pub(crate) async fn prompt(&self) -> View {
        let (waited, view) = self.waits(until_prompt()).await;
        assert_eq!((waited.reason, waited.replaced_by), (Reason::Prompt, None), "on:\n{}", view.screen);
        view
    }

    pub(crate) async fn history(&self) -> String {
        self.0.read(Part::From(0), Limit::Head(usize::MAX)).await.unwrap().head
    }

    async fn variable(&self, name: &str) -> Option<Variable> {
        let reported = self.0.variables(vec![name.into()]).await.unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((reported.len(), reported[0].0.as_str()), (1, name));
        reported[0].1.clone()
    }

    /// Waits until something other than the shell has the foreground, so that an interrupt reaches it. A shell may pass
    /// on the foreground shortly after the program has started.
    pub(crate) async fn wait_for_foreground_change(&self, shell: &str) {
        eventually(&format!("{shell} passes on the foreground"), async || match self.try_command("refused").await {
            Err(RunError::Busy { program: Some(program) }) => program != shell,
            Err(RunError::Busy { program: None }) => false,
            other => panic!("{shell} is not busy: {other:?}"),
        })
        .await;
    }

    /// Polls the states, because no output reports a process that begins to sleep.
    pub(crate) async fn wait_until(&self, what: &str, wanted: impl Fn(&View) -> bool) -> View {
        eventually(what, async || {
            let view = self.view().await;
            if wanted(&view) { Ok(view) } else { Err((view.awaiting_input, view.screen)) }
        })
        .await
    }
}

pub(crate) fn request(command: &str) -> CommandRequest {
    CommandRequest {
        command: command.into(),
        working_directory: None,
        timeout: Duration::from_secs(60),
        limit: Limit::HeadAndTail(10_000),
        input: false,
        integrate: false,
        step: None,
        by: None,
        approved_at: None,
    }
}

fn wait_for(pattern: &str) -> Wait {
    Wait { patterns: vec![Pattern::new(pattern).unwrap()], until: Until::Match, ..until_prompt() }
}

pub(crate) fn until_prompt() -> Wait {
    Wait {
        patterns: Vec::new(),
        target: steplatch_terminal::Target::Output,
        since: None,
        until: Until::Prompt,
        input: None,
        timeout: Duration::from_secs(60),
        by: None,
        ..Wait::default()
    }
}

fn exported(value: &str) -> Option<Variable> {
    Some(Variable { value: value.into(), exported: true })
}

fn private(value: &str) -> Option<Variable> {
    Some(Variable { value: value.into(), exported: false })
}

// ---- the prompt and the marks ----

#[tokio::test]
async fn every_shell_reports_busy_state_and_exit_codes() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        for (command, code) in [("true", 0), ("false", 1), ("no_such_command_here", 127), ("sh -c 'exit 42'", 42)] {
            session.type_in(&format!("{command}\n")).await;
            let view = session.prompt().await;
            assert_eq!((view.exit_code, view.busy), (Some(code), Some(false)), "{shell}: {command}");
        }
        session.type_in("sh -c 'echo go; read answer'\n").await;
        session.expect_text("^go$").await;
        assert_eq!(session.view().await.busy, Some(true), "{shell}");
        session.type_in("yes\n").await;
        assert_eq!(session.prompt().await.busy, Some(false), "{shell}");
        session.type_in("\n").await;
        assert_eq!(session.prompt().await.busy, Some(false), "{shell}: an empty line");
        session.type_in("half").await;
        session.wait_until("the line is shown", |view| view.screen.ends_with("half")).await;
        // fish may miss an interrupt while it colours the line.
        while session.view().await.screen.ends_with("half") {
            session.type_in("\u{3}").await;
            let quiet = Quiet::for_duration(Duration::from_millis(100));
            session.waits(Wait { until: Until::Quiet(quiet), ..until_prompt() }).await;
        }
        session.type_in("sh -c 'exit 5'\n").await;
        assert_eq!(session.prompt().await.exit_code, Some(5), "{shell}: after a line was given up");
    }
}

#[tokio::test]
async fn login_shells_read_their_files_and_report_too() {
    for (command, is_login, files) in [
        (["bash", "-l"], "shopt -q login_shell", [".bash_profile", ".bash_profile"]),
        (["bash", "--login"], "shopt -q login_shell", [".profile", ".profile"]),
        (["zsh", "-l"], "[[ -o login ]]", [".zprofile", ".zlogin"]),
        (["fish", "-l"], "status is-login", [".config/fish/config.fish", ".config/fish/conf.d/x.fish"]),
    ] {
        let world = World::new();
        for (index, file) in files.iter().enumerate() {
            let set =
                if command[0] == "fish" { format!("set -g read{index} yes\n") } else { format!("read{index}=yes\n") };
            world.file(file, &set);
        }
        let session = world.open(&command).await;
        assert_eq!(session.runs(is_login).await.exit_code, Some(0), "{command:?}");
        assert_eq!(session.variable("read1").await, private("yes"), "{command:?}");
        assert_eq!(session.output_of("sh -c 'exit 3'").await, (String::new(), Some(3)), "{command:?}");
        let environment = session.output_of("env").await.0;
        assert!(!environment.contains("STEPLATCH_SHELL") && !environment.contains("PROMPT_COMMAND"), "{environment}");
    }
}

#[tokio::test]
async fn zsh_finds_all_user_files_and_keeps_its_directory() {
    for own_directory in [None, Some("zsh")] {
        let world = World::new();
        let prefix = own_directory.map_or(String::new(), |directory| format!("{directory}/"));
        for file in [".zshenv", ".zprofile", ".zshrc", ".zlogin"] {
            world.file(&format!("{prefix}{file}"), &format!("files+=({file}:${{ZDOTDIR-home}})\n"));
        }
        let mut spec = world.spec(&["zsh", "-l"]);
        let directory = own_directory.map(|directory| format!("{}/{directory}", world.home()));
        spec.environment.extend(directory.clone().map(|directory| ("ZDOTDIR".into(), directory.into())));
        let session = world.open_spec(spec).await;
        let reported = directory.clone().unwrap_or_else(|| "home".into());
        let read = [".zshenv", ".zprofile", ".zshrc", ".zlogin"].map(|file| format!("{file}:{reported}")).join(" ");
        assert_eq!(session.output_of("print $files").await.0, format!("{read}\n"));
        assert_eq!(session.output_of("sh -c 'echo ${ZDOTDIR-home}'").await.0, format!("{reported}\n"));
        assert_eq!(
            session.output_of("unset files; zsh -ic 'print $files' 2>&1").await.0,
            format!(".zshenv:{reported} .zshrc:{reported}\n")
        );
        let environment = session.output_of("env").await.0;
        assert!(!environment.contains("STEPLATCH_SHELL"), "{environment}");
    }
    // A .zshenv that moves the other files.
    let world = World::new();
    world.file(".zshenv", "export ZDOTDIR=~/moved\n");
    world.file("moved/.zshrc", "moved=yes; HISTFILE=${ZDOTDIR:-$HOME}/.zsh_history SAVEHIST=10\n");
    let session = world.open(&["zsh"]).await;
    assert_eq!(session.variable("moved").await, private("yes"));
    assert_eq!(session.runs("exit 0").await.ended.map(|exit| exit.code), Some(0));
    assert!(world.home.path().join("moved/.zsh_history").exists());
}

/// Common user settings of shells.
const HOSTILE: &[(&str, &[&str])] = &[
    (
        "bash",
        &[
            "",
            "set -u",
            "set -x",
            "PROMPT_COMMAND=(true false)",
            "declare -r PROMPT_COMMAND=true",
            "trap 'true' DEBUG",
            "set -o vi",
            "set -C",
        ],
    ),
    (
        "zsh",
        &[
            "",
            "setopt no_unset",
            "setopt ksh_arrays sh_word_split no_clobber",
            "precmd() { false }; preexec() { true }",
            "precmd_functions=()",
            "setopt prompt_subst; PROMPT='$(echo sub)%% '",
            "bindkey -v",
            "unset zle_bracketed_paste",
            "setopt xtrace; exec 2>/dev/null",
            "emulate sh",
            "TRAPUSR1() { theirs=1 }",
            "alias print=false printf=false builtin=false typeset=false",
        ],
    ),
    (
        "fish",
        &[
            "",
            "function fish_prompt; echo -n '> '; end",
            "function fish_prompt; false; echo; echo -n 'two lines> '; end",
            "fish_vi_key_bindings",
            "function fish_right_prompt; echo right; end",
            "function on_usr1 --on-signal SIGUSR1; set -g theirs 1; end",
            "printf '\\e]133;A\\a\\e]133;D;9\\a'",
        ],
    ),
];

#[tokio::test]
async fn shell_trace_contains_nothing_of_the_integration() {
    let rows = [
        ("bash", ".bashrc", "set -x"),
        ("bash", ".bashrc", "PROMPT_COMMAND='true theirs'; set -x"),
        ("zsh", ".zshrc", "setopt xtrace"),
        ("zsh", ".zshrc", "precmd() { true theirs }; setopt xtrace"),
        ("bash", "", "set -x"),
        ("zsh", "", "setopt xtrace"),
    ];
    for (shell, file, line) in rows {
        let world = World::new();
        if !file.is_empty() {
            world.file(file, &format!("{line}\n"));
        }
        let session = world.open(&[shell]).await;
        if file.is_empty() {
            session.runs(line).await;
        }
        for (command, code) in [("echo said", 0), ("sh -c 'exit 7'", 7), ("true", 0)] {
            let result = session.runs(command).await;
            assert_eq!(result.exit_code, Some(code), "{shell} with {line:?}: {result:?}");
            let is_traced = result
                .output
                .lines()
                .any(|row| row.starts_with('+') && row.contains(command.split(' ').next().unwrap()));
            assert!(is_traced, "its own commands are traced: {shell} with {line:?}: {result:?}");
            assert!(!result.output.contains("steplatch"), "{shell} with {line:?}: {result:?}");
        }
        session.type_in("echo typed\n").await;
        session.prompt().await;
        let screen = session.view().await.screen;
        // zsh shows the effects of its hooks on the screen.
        let shows_hooks = shell == "zsh" && screen.contains("steplatch");
        assert!(
            shows_hooks || screen.contains("\ntyped") && !screen.contains("steplatch"),
            "{shell} with {line:?}:\n{screen}"
        );
    }
}

#[tokio::test]
async fn shell_reports_are_correct_despite_customisation() {
    for (shell, files) in HOSTILE {
        for rc in *files {
            let world = World::new();
            let file = match *shell {
                "bash" => ".bashrc",
                "zsh" => ".zshrc",
                _ => ".config/fish/config.fish",
            };
            world.file(file, &format!("{rc}\n"));
            let session = world.open(&[shell]).await;
            for (command, code) in [("true", 0), ("sh -c 'echo said; exit 7'", 7), ("false", 1)] {
                let result = session.runs(command).await;
                assert_eq!(result.exit_code, Some(code), "{shell} with {rc:?}: {command}: {result:?}");
                if code == 7 {
                    assert!(result.output.ends_with("said\n"), "{shell} with {rc:?}: {result:?}");
                }
            }
            // Hooks differ with `emulate sh` and a read-only list; variables work in all shells.
            let reported = session.0.variables(vec!["HOME".into()]).await;
            assert_eq!(
                reported.unwrap_or_else(|error| panic!("{shell} with {rc:?}: {error}"))[0].1,
                exported(world.home())
            );
            let screen = session.view().await.screen;
            for complaint in ["unbound", "parameter not set", "steplatch", "not found"] {
                assert!(!screen.contains(complaint), "{shell} with {rc:?}:\n{screen}");
            }
        }
    }
}

#[tokio::test]
async fn hooks_removed_at_run_time_are_restored() {
    for (shell, reset) in [
        ("bash", "PROMPT_COMMAND=true"),
        ("bash", "PROMPT_COMMAND=(); PS1='> '"),
        ("zsh", "precmd_functions=()"),
        ("zsh", "precmd_functions+=(other); other() { PROMPT='> ' }"),
        ("fish", "function fish_prompt; echo -n '> '; end"),
        ("fish", "functions -e fish_prompt"),
    ] {
        let world = World::new();
        let session = world.open(&[shell]).await;
        // The prompt right after it may be reported or not, but the next one is.
        session.type_in(&format!("{reset}; echo reset\n")).await;
        session.expect_text("^reset$").await;
        session.type_in("true\n").await;
        session.prompt().await;
        for code in [3, 4] {
            let result = session.runs(&format!("sh -c 'exit {code}'")).await;
            assert_eq!(result.exit_code, Some(code), "{shell} after {reset}");
        }
    }
}

#[tokio::test]
async fn theme_resetting_the_prompt_is_supported() {
    let theme = [
        ("bash", ".bashrc", "theme() { local code=$?; PS1=\"[theme $code] \"; return $code; }\nPROMPT_COMMAND=theme\n"),
        (
            "zsh",
            ".zshrc",
            "theme() { local code=$?; PROMPT=\"[theme $code] \"; RPROMPT=right }\n\
             last() { theme; precmd_functions=(${precmd_functions:#last} last) }\nprecmd_functions+=(last)\n",
        ),
        (
            "fish",
            ".config/fish/config.fish",
            "function fish_prompt; set -l code $status; printf '[theme %s %s] ' $code (string join , $pipestatus); end\n",
        ),
    ];
    for (shell, file, text) in theme {
        let world = World::new();
        world.file(file, text);
        let session = world.open(&[shell]).await;
        for code in [4, 0, 6] {
            assert_eq!(
                session.output_of(&format!("sh -c 'exit {code}'")).await,
                (String::new(), Some(code)),
                "{shell}"
            );
            let screen = session.view().await.screen;
            let last_row = screen.lines().last().unwrap();
            assert!(
                last_row.starts_with(&format!("[theme {code}")),
                "{shell}: the theme receives the exit code:\n{screen}"
            );
        }
    }
}

#[tokio::test]
async fn output_without_newline_stays_on_screen_and_in_history() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        assert_eq!(session.output_of("printf 'no end'").await, ("no end".into(), Some(0)), "{shell}");
        let screen = session.view().await.screen;
        assert!(screen.lines().any(|line| line.starts_with("no end")), "{shell}:\n{screen}");
        let history = session.history().await;
        assert!(history.lines().any(|line| line.starts_with("no end")), "{shell}:\n{history}");
    }
}

#[tokio::test]
async fn shell_replaced_by_exec_is_not_busy_and_has_no_prompt() {
    for shell in SHELLS {
        for command in ["exec sh", "exec sleep 30", "sh -c 'exit 1'; exec sh -c 'read x'"] {
            let world = World::new();
            let session = world.open(&[shell]).await;
            let began = Instant::now();
            session.type_in(&format!("{command}\n")).await;
            let (waited, view) = session.waits(until_prompt()).await;
            assert_eq!(waited.reason, Reason::Exit, "{shell}: {command}:\n{}", view.screen);
            assert!(waited.exit.is_none() && waited.replaced_by.is_some(), "{shell}: {waited:?}");
            assert_eq!(view.busy, None, "{shell}: {command}");
            assert!(began.elapsed() < Duration::from_secs(30), "{shell}: the wait ended before its timeout");
            let result = session.0.variables(vec!["HOME".into()]).await;
            assert!(matches!(result, Err(VariablesError::NotIntegrated { program: Some(_) })), "{shell}: {result:?}");
        }
        let world = World::new();
        let session = world.open(&[shell]).await;
        let result = session.runs("exec sh").await;
        assert_eq!(
            (result.replaced_by.is_some(), result.exit_code, result.ended),
            (true, None, None),
            "{shell}: {result:?}"
        );
    }
}

#[tokio::test]
async fn line_typed_meanwhile_is_not_part_of_a_command() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let command = session.runs("sleep 1; echo first; sh -c 'exit 7'");
        let meanwhile = async {
            eventually("the command runs", async || session.view().await.busy.is_some()).await;
            session.type_in("sleep 2; echo second; sh -c 'exit 9'\n").await;
        };
        let (result, ()) = tokio::join!(command, meanwhile);
        assert_eq!(result.exit_code, Some(7), "{shell}: {result:?}");
        assert!(result.output.ends_with("first\n"), "{shell}: {result:?}");
    }
}

#[tokio::test]
async fn nested_shell_is_distinguished_from_the_outer_one() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.type_in("script -q -c 'sh -i' /dev/null\n").await;
        session.expect_text("[#$] $").await;
        session.type_in("echo not entered").await;
        eventually("the line is echoed", async || session.view().await.screen.contains("not entered")).await;
        let error = match session.try_command("echo inside").await {
            Err(error) => error,
            Ok(ran) => panic!("{shell}: {ran:?} on:\n{}", session.view().await.screen),
        };
        assert!(matches!(&error, RunError::Busy { program: Some(program) } if program == "script"), "{error:?}");
        session.type_in("\u{15}").await;
        assert!(matches!(session.0.variables(vec!["HOME".into()]).await, Err(VariablesError::Busy { .. })));
        session.type_in("echo in_$((1+1)); exit\n").await;
        session.expect_text("in_2").await;
        session.prompt().await;
        assert_eq!(session.output_of("echo back").await.0, "back\n", "{shell}");
    }
    // Started in a program that is not an integrated shell.
    let world = World::new();
    let session = world.open(&["script", "-q", "-c", "bash --norc", "/dev/null"]).await;
    assert_eq!(session.view().await.busy, None);
    // Such a shell reports no exit codes, and the terminal recognises its returning prompt.
    assert_eq!(session.output_of("echo in; false").await, ("in\n".into(), None));
}

// ---- single commands ----

/// Commands with their output and exit codes. `{}` stands for the shell's own message.
const COMMON: &[(&str, &str, Option<i32>)] = &[
    ("echo one", "one\n", Some(0)),
    ("printf 'no end'", "no end", Some(0)),
    ("printf 'blanks  \\n\\n  \\n'", "blanks  \n\n  \n", Some(0)),
    ("printf 'a\\tb\\n'", "a\tb\n", Some(0)),
    ("true", "", Some(0)),
    ("false", "", Some(1)),
    ("sh -c 'exit 42'", "", Some(42)),
    ("seq 1 3 | sort -r | head -n 2", "3\n2\n", Some(0)),
    ("printf 'one' | cat; echo two", "onetwo\n", Some(0)),
    ("echo first\necho second\nsh -c 'exit 9'", "first\nsecond\n", Some(9)),
    ("echo err >&2", "err\n", Some(0)),
    ("printf '\\033[31mred\\033[0m\\n'", "red\n", Some(0)),
    ("printf '10%%\\r50%%\\r100%%\\n'", "100%\n", Some(0)),
    ("printf 'a\\r\\nb\\r\\n'", "a\nb\n", Some(0)),
    ("echo żółć 漢字 🎉", "żółć 漢字 🎉\n", Some(0)),
    ("echo 'it'\"'\"'s \"quoted\" $HOME \\ `x`'", "it's \"quoted\" $HOME \\ `x`\n", Some(0)),
    ("", "", None),
    ("   ", "", None),
    ("\n\n", "", None),
    ("printf '\\033]133;D;99\\007\\033]133;C\\007said\\n'", "said\n", Some(0)),
    ("printf '\\033[?1049hdrawn\\033[?1049lkept\\n'", "kept\n", Some(0)),
    ("printf '\\033[?2004l\\033[?2004hx\\n'", "x\n", Some(0)),
    ("stty size", "24 80\n", Some(0)),
];

const POSIX: &[(&str, &str, Option<i32>)] = &[
    ("cat <<END\none\n  two $((1+1))\nEND", "one\n  two 2\n", Some(0)),
    ("cat <<'END'\n$HOME \"x\nEND\n", "$HOME \"x\n", Some(0)),
    ("for n in 1 2 3\ndo\n  echo line $n\ndone", "line 1\nline 2\nline 3\n", Some(0)),
    ("n=0; while [ $n -lt 2 ]; do\n\techo $n\n\tn=$((n+1))\ndone; (exit 4)", "0\n1\n", Some(4)),
    ("greet() {\n  echo hello $1\n}\ngreet you", "hello you\n", Some(0)),
    ("(exit 42)", "", Some(42)),
    ("echo a \\\n  b", "a b\n", Some(0)),
    ("if true; then\n\n\necho blank lines\n\nfi", "blank lines\n", Some(0)),
    ("false && echo no", "", Some(1)),
];

const FISH: &[(&str, &str, Option<i32>)] = &[
    ("for n in 1 2 3\n  echo line $n\nend", "line 1\nline 2\nline 3\n", Some(0)),
    ("set n 0; while test $n -lt 2\n  echo $n\n  set n (math $n + 1)\nend; sh -c 'exit 4'", "0\n1\n", Some(4)),
    ("function greet\n  echo hello $argv\nend\ngreet you", "hello you\n", Some(0)),
    ("echo a \\\n  b", "a b\n", Some(0)),
    ("false; and echo no", "", Some(1)),
];

#[tokio::test]
async fn command_returns_its_exact_output_and_exit_code() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let own = if shell == "fish" { FISH } else { POSIX };
        for round in 0..2 {
            for (command, output, code) in COMMON.iter().chain(own) {
                let result = session.runs(command).await;
                assert_eq!(
                    (result.output.as_str(), result.exit_code),
                    (*output, *code),
                    "{shell}, round {round}: {command:?}"
                );
                assert_eq!((result.left_out, result.tail), (0, None), "{shell}: {command:?}");
            }
            // The shells' messages differ.
            assert_eq!(session.runs("sh -c 'kill -9 $$'").await.exit_code, Some(137), "{shell}");
        }
    }
}

#[tokio::test]
async fn misunderstood_command_returns_the_shells_message() {
    for (shell, command, complaint, codes) in [
        ("bash", "no_such_command_here", "no_such_command_here: command not found", 127..=127),
        ("zsh", "no_such_command_here", "command not found: no_such_command_here", 127..=127),
        ("fish", "no_such_command_here", "Unknown command", 127..=127),
    ] {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let result = session.runs(command).await;
        assert!(result.output.contains(complaint) && !result.output.contains('\u{23ce}'), "{shell}: {result:?}");
        assert!(result.exit_code.is_some_and(|code| codes.contains(&code)), "{shell}: {result:?}");
        assert_eq!(session.output_of("echo after").await, ("after\n".into(), Some(0)), "{shell}");
    }
}

#[tokio::test]
async fn incomplete_command_is_withdrawn() {
    for (shell, commands) in [
        ("bash", &["echo 'open", "for n in 1 2", "cat <<END\nno end", "echo \\"][..]),
        ("zsh", &["echo 'open", "for n in 1 2; do", "cat <<END\nno end", "echo $(("]),
        ("fish", &["echo 'open", "for n in 1 2", "echo (", "echo |"]),
    ] {
        let world = World::new();
        let session = world.open(&[shell]).await;
        for command in commands {
            assert_eq!(session.try_command(command).await, Err(RunError::Incomplete), "{shell}: {command}");
            assert_eq!(session.view().await.busy, Some(false), "{shell}: {command}");
            assert_eq!(session.output_of("echo after").await, ("after\n".into(), Some(0)), "{shell}: {command}");
        }
    }
}

#[tokio::test]
async fn shell_without_a_line_editor_gets_each_requested_line() {
    for rc in ["set +o emacs; set +o vi", "bind 'set enable-bracketed-paste off'"] {
        let world = World::new();
        world.file(".bashrc", &format!("{rc}\n"));
        let session = world.open(&["bash"]).await;
        for _ in 0..2 {
            for (command, output, code) in [
                ("for n in 1 2\ndo\n\techo line $n\ndone", "line 1\nline 2\n", Some(0)),
                ("if false\nthen echo no\nfi; sh -c 'exit 3'", "", Some(3)),
                ("echo one", "one\n", Some(0)),
            ] {
                assert_eq!(session.output_of(command).await, (output.into(), code), "{rc}: {command:?}");
            }
            assert_eq!(session.try_command("for n in 1 2\ndo").await, Err(RunError::Incomplete), "{rc}");
            assert_eq!(session.output_of("echo after").await, ("after\n".into(), Some(0)), "{rc}");
            let result = session.runs("echo one\nsh -c 'sleep 0.1; echo two; exit 5'").await;
            assert!(result.output.starts_with("one\n") && result.output.ends_with("two\n"), "{rc}: {result:?}");
            assert_eq!(result.exit_code, Some(5), "{rc}: {result:?}");
        }
    }
}

#[tokio::test]
async fn command_runs_in_its_given_directory() {
    for shell in SHELLS {
        let world = World::new();
        let odd = world.home.path().join("it's a $HOME \"folder\" \\ with -n; dots…");
        std::fs::create_dir(&odd).unwrap();
        let session = world.open(&[shell]).await;
        let directory = odd.to_str().unwrap();
        let result = session
            .0
            .run(CommandRequest { working_directory: Some(directory.into()), ..request("pwd; command ls -1a") })
            .await;
        assert_eq!(result.unwrap().output, format!("{directory}\n.\n..\n"), "{shell}");
        assert_eq!(session.view().await.cwd.as_deref(), Some(directory), "{shell}");
        let missing = CommandRequest { working_directory: Some("/no/such".into()), ..request("echo ran") };
        let error = session.0.run(missing).await.unwrap_err();
        assert!(
            matches!(&error, RunError::CannotChangeDirectory { directory, shell_message } if directory == "/no/such" && shell_message.contains(directory)),
            "{shell}: {error:?}"
        );
        assert!(!session.history().await.contains("ran\n"), "{shell}");
        let dash = CommandRequest { working_directory: Some("-".into()), ..request("echo ran") };
        let error = session.0.run(dash).await.unwrap_err();
        assert!(matches!(error, RunError::CannotChangeDirectory { .. }), "{shell}: there is no directory called -");
        assert_eq!(session.view().await.cwd.as_deref(), Some(directory), "{shell}");
    }
}

#[tokio::test]
async fn long_output_is_cut_and_readable_in_parts() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let result = session.runs("seq 1 160000; sh -c 'exit 3'").await;
        let expected: String = (1..=160_000).map(|n| format!("{n}\n")).collect();
        let tail = result.tail.unwrap();
        assert_eq!(result.exit_code, Some(3), "{shell}");
        assert!(result.output.starts_with("1\n2\n") && tail.ends_with("\n159999\n160000\n"), "{shell}");
        assert_eq!(
            result.output.len() + usize::try_from(result.left_out).unwrap() + tail.len(),
            expected.len(),
            "{shell}"
        );
        assert_eq!(result.end - result.offset, expected.len() as u64, "{shell}");
        let rest = session
            .0
            .read(Part::From(result.next), Limit::Head(usize::try_from(result.left_out).unwrap() + tail.len()))
            .await
            .unwrap();
        assert_eq!(result.output + &rest.head, expected, "{shell}");
        let all = session.0.run(CommandRequest { limit: Limit::Head(2_000_000), ..request("seq 1 160000") }).await;
        assert_eq!(all.unwrap().output, expected, "{shell}");
    }
}

#[tokio::test]
async fn command_reading_the_terminal_is_left_running() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let asks = CommandRequest { timeout: Duration::from_millis(300), ..request("echo asks; cat") };
        let result = session.0.run(asks).await.unwrap();
        assert_eq!((result.output.as_str(), result.exit_code, result.timed_out), ("asks\n", None, true), "{shell}");
        assert_eq!(session.view().await.busy, Some(true), "{shell}");
        let error = session.try_command("true").await.unwrap_err();
        assert_eq!(error, RunError::Busy { program: Some("cat".into()) }, "{shell}");
        session.type_in("\u{4}").await;
        session.prompt().await;
        assert_eq!(session.output_of("echo free").await.0, "free\n", "{shell}");
    }
}

#[tokio::test]
async fn command_right_after_a_line_waits_for_the_prompt() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        for _ in 0..5 {
            session.type_in("true\n").await;
            assert_eq!(session.output_of("echo here").await, ("here\n".to_owned(), Some(0)), "{shell}");
        }
        // A line read by a builtin of the shell follows just as soon.
        session.type_in("read answer\n").await;
        session.wait_until(shell, |view| view.awaiting_input == Some(true) && view.busy == Some(true)).await;
        session.type_in("typed\n").await;
        assert_eq!(session.output_of("echo $answer").await, ("typed\n".to_owned(), Some(0)), "{shell}");
    }
}

#[tokio::test]
async fn permanently_busy_shell_refuses_a_command_after_a_while() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    session.type_in("while :; do :; done\n").await;
    assert_eq!(session.try_command("true").await, Err(RunError::Busy { program: Some("bash".into()) }));
    session.type_in("\u{3}").await;
    assert_eq!(session.output_of("echo free").await.0, "free\n");
}

#[tokio::test]
async fn command_ending_the_shell_reports_its_exit() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let result = session.runs("echo bye; exit 3").await;
        assert_eq!((result.ended.map(|exit| exit.code), result.exit_code), (Some(3), Some(3)), "{shell}: {result:?}");
        assert!(result.output.starts_with("bye\n"), "{shell}: {result:?}");
        assert!(
            matches!(session.try_command("true").await, Err(RunError::Ended(Some(exit))) if exit.code == 3),
            "{shell}"
        );
        let world = World::new();
        let session = world.open(&[shell]).await;
        let pid = if shell == "fish" { "$fish_pid" } else { "$$" };
        let result = session.runs(&format!("kill -9 {pid}")).await;
        assert_eq!(result.ended.map(|exit| exit.signal), Some(Some(9)), "{shell}");
    }
}

#[tokio::test]
async fn unentered_line_of_a_person_is_kept() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.type_in("echo mi").await;
        let error = session.try_command("true").await.unwrap_err();
        assert_eq!(error, RunError::HalfTyped { text: "echo mi".into() }, "{shell}");
        session.type_in("ne\n").await;
        session.expect_text("^mine$").await;
        session.prompt().await;
        session.type_in("gone\u{15}").await;
        assert_eq!(session.output_of("echo next").await.0, "next\n", "{shell}: withdrawn input does not count");
        session.type_in("\u{1b}[A").await;
        session.wait_until("the last command", |view| view.screen.trim_end().ends_with("echo next")).await;
        let error = session.try_command("true").await.unwrap_err();
        assert_eq!(error, RunError::HalfTyped { text: "echo next".into() }, "{shell}");
        assert!(error.to_string().contains("Ctrl-C"), "{error}");
        session.type_in("\u{15}").await;
        session.wait_until("the typed text was erased", |view| !view.screen.trim_end().ends_with("echo next")).await;
        assert_eq!(session.output_of("echo again").await.0, "again\n", "{shell}: the screen shows an empty line");
        session.type_in("sleep 0.2\nahe").await;
        session.expect_text("ahe").await;
        session.prompt().await;
        session
            .wait_until("what was typed ahead stands on the line", |view| view.screen.trim_end().ends_with("ahe"))
            .await;
        assert!(matches!(session.try_command("true").await, Err(RunError::HalfTyped { .. })), "{shell}: typed ahead");
    }
}

#[tokio::test]
async fn background_jobs_do_not_delay_a_command() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.runs("mkfifo go").await;
        let result = session.runs("sh -c 'read go < go; echo from the background' &").await;
        assert_eq!((result.exit_code, result.output.contains("from")), (Some(0), false), "{shell}: {result:?}");
        assert_eq!(session.output_of("echo quiet").await.0, "quiet\n", "{shell}");
        session.runs("sh -c 'sleep 0.1; echo > go' &").await;
        session.expect_text("^.*from the background").await;
        // A shell reports an ended job at any time, even while a command runs.
        session.runs("wait").await;
        assert_eq!(session.output_of("echo after").await, ("after\n".into(), Some(0)), "{shell}");
    }
}

#[tokio::test]
async fn unenterable_text_is_refused_and_lost_client_leaves_no_trace() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        assert_eq!(session.try_command("echo \u{1b}[201~\nexit").await, Err(RunError::Control(0x1b)), "{shell}");
        let dropped =
            tokio::time::timeout(Duration::from_millis(50), session.try_command("sleep 0.3; echo late")).await;
        assert!(dropped.is_err(), "{shell}");
        session.expect_text("^late$").await;
        session.prompt().await;
        assert_eq!(session.output_of("echo next").await.0, "next\n", "{shell}");
    }
}

// ---- variables ----

#[tokio::test]
async fn variables_of_a_live_shell_are_read_unchanged() {
    let sets = [
        (
            "bash",
            "plain=one; export given='two words'; empty=; many=$'a\\nb  \\n'; list=(x 'y z'); unset gone; odd=$'it\\'s \\\\ \"q\" \\xff $HOME'",
        ),
        (
            "zsh",
            "plain=one; export given='two words'; empty=; many=$'a\\nb  \\n'; list=(x 'y z'); unset gone; odd=$'it\\'s \\\\ \"q\" \\xff $HOME'",
        ),
        (
            "fish",
            "set -g plain one; set -gx given 'two words'; set -g empty ''; set -g many a\\nb'  '\\n; set -g list x 'y z'; set -g odd it\\'s' \\\\ \"q\" '\\xff' $HOME'",
        ),
    ];
    for (shell, set) in sets {
        let world = World::new();
        let session = world.open(&[shell]).await;
        assert_eq!(session.runs(set).await.exit_code, Some(0), "{shell}");
        let names = ["plain", "given", "empty", "many", "list", "gone", "odd", "HOME"].map(str::to_owned);
        let reported = session.0.variables(names.to_vec()).await.unwrap_or_else(|error| panic!("{shell}: {error}"));
        let expected = [
            private("one"),
            exported("two words"),
            private(""),
            private("a\nb  \n"),
            private("x y z"),
            None,
            private("it's \\ \"q\" \u{fffd} $HOME"),
            exported(world.home()),
        ];
        for ((name, reported), expected) in reported.iter().zip(expected) {
            assert_eq!(*reported, expected, "{shell}: {name}");
        }
        let long = "x".repeat(1_000_000);
        session.0.set_variables(vec![("long".into(), long.clone())], false).await.unwrap();
        assert_eq!(session.variable("long").await.unwrap().value, long, "{shell}");
    }
}

#[tokio::test]
async fn variables_are_set_for_the_shell_and_its_programs() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let odd = "it's \"odd\" \\ $HOME `id` !!\nsecond line\n";
        let values = vec![("first".to_owned(), odd.to_owned()), ("second".to_owned(), String::new())];
        session.0.set_variables(values, false).await.unwrap_or_else(|error| panic!("{shell}: {error}"));
        assert_eq!((session.variable("first").await, session.variable("second").await), (private(odd), private("")));
        assert_eq!(session.output_of("printf '%s' \"$first\"").await.0, odd, "{shell}");
        assert_eq!(session.output_of("sh -c 'echo ${first-none}'").await.0, "none\n", "{shell}");
        session.0.set_variables(vec![("second".into(), "given".into())], true).await.unwrap();
        assert_eq!(session.output_of("sh -c 'echo $second'").await.0, "given\n", "{shell}");
        let fixed = if shell == "fish" { ("status", "") } else { ("fixed", "readonly fixed=1; ") };
        session.runs(&format!("{}true", fixed.1)).await;
        let result = session.0.set_variables(vec![(fixed.0.into(), "2".into())], false).await;
        assert_eq!(result, Err(VariablesError::Refused(vec![fixed.0.into()])), "{shell}");
        assert_eq!(session.output_of("echo alive").await.0, "alive\n", "{shell}");
    }
}

#[tokio::test]
async fn reading_variables_leaves_no_trace() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.runs("sh -c 'exit 7' last").await;
        let (before, history) = (session.view().await, session.history().await);
        let mut viewer = session.0.attach().await.unwrap();
        let patient = session.0.clone();
        let waiting = tokio::spawn(async move {
            let quiet = Quiet { after_output: Duration::from_millis(1), without_output: Duration::from_secs(600) };
            let wait = Wait { until: Until::Quiet(quiet), timeout: Duration::from_millis(400), ..wait_for("never") };
            patient.wait(wait).await.unwrap().0.reason
        });
        for _ in 0..5 {
            assert_eq!(session.variable("HOME").await, exported(world.home()), "{shell}");
            session.0.set_variables(vec![("set_by_us".into(), "1".into())], false).await.unwrap();
        }
        let after = session.view().await;
        assert_eq!(after.screen, before.screen, "{shell}");
        assert_eq!(
            (after.cursor, after.end, after.exit_code),
            (before.cursor, before.end, before.exit_code),
            "{shell}"
        );
        assert_eq!(session.history().await, history, "{shell}");
        assert!(viewer.output.try_recv().is_err(), "{shell}: a viewer sees nothing");
        assert_eq!(waiting.await.unwrap(), Reason::Timeout, "{shell}: a wait for quiet sees nothing");
        let last = match shell {
            "fish" => "echo $status",
            _ => "echo $? $_",
        };
        let reported = if shell == "fish" { "7\n" } else { "7 last\n" };
        assert_eq!(session.output_of(last).await.0, reported, "{shell}");
        let typed = session.output_of(if shell == "zsh" { "fc -l 1" } else { "history" }).await.0;
        assert!(!typed.contains("steplatch") && !typed.contains("set_by_us"), "{shell}:\n{typed}");
        let remaining_files = std::fs::read_dir(world._integration.path().join("exchange")).unwrap().count();
        assert_eq!(remaining_files, 0, "{shell}: the files of the exchange are gone");
    }
}

#[tokio::test]
async fn unentered_line_survives_or_prevents_a_query() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.type_in("echo be").await;
        session.wait_until("the line is shown", |view| view.screen.ends_with("echo be")).await;
        let reported = session.0.variables(vec!["HOME".into()]).await;
        match shell {
            "bash" => assert_eq!(reported, Err(VariablesError::HalfTyped { text: "echo be".into() })),
            _ => assert_eq!(reported.unwrap()[0].1, exported(world.home()), "{shell}"),
        }
        session.type_in("gun\n").await;
        session.expect_text("^begun$").await;
    }
}

#[tokio::test]
async fn variables_are_not_queried_during_a_command_or_by_bad_name() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.type_in("echo go; cat\n").await;
        session.expect_text("^go$").await;
        session.wait_for_foreground_change(shell).await;
        session.wait_until("cat waits", |view| view.awaiting_input == Some(true)).await;
        let busy = session.0.variables(vec!["HOME".into()]).await;
        assert_eq!(busy, Err(VariablesError::Busy { program: Some("cat".into()) }), "{shell}");
        session.type_in("\u{4}").await;
        session.prompt().await;
        for name in ["a b", "x;id", "", "__steplatch_key"] {
            let wrong = session.0.variables(vec![name.into()]).await;
            assert!(matches!(wrong, Err(VariablesError::Name(_))), "{shell}: {name:?}");
        }
        let value = session.0.set_variables(vec![("a".into(), "nul\0".into())], false).await;
        assert_eq!(value, Err(VariablesError::Value("a".into())), "{shell}");
    }
    let world = World::new();
    let python = world.open(&["python3", "-q"]).await;
    let error = python.0.variables(vec!["HOME".into()]).await.unwrap_err();
    assert!(matches!(error, VariablesError::NotIntegrated { program: Some(_) }), "{error:?}");
}

#[tokio::test]
async fn unresponsive_shell_is_unharmed_and_reported_in_time() {
    for (shell, deafen) in [
        ("bash", "bind -r '\\e\\C-_s'; true"),
        ("zsh", "unset -f TRAPUSR1"),
        ("fish", "functions -e __steplatch_exchange"),
    ] {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.runs(deafen).await;
        let reported = session.0.variables(vec!["HOME".into()]).await;
        assert!(
            matches!(reported, Err(VariablesError::NoHandler | VariablesError::Unanswered)),
            "{shell}: {reported:?}"
        );
        session.type_in("\u{15}").await;
        assert_eq!(session.output_of("echo alive").await.0, "alive\n", "{shell}");
    }
}

#[tokio::test]
async fn concurrent_queries_are_answered() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let asking = (0..8).map(|n| {
            let terminal = session.0.clone();
            tokio::spawn(async move {
                terminal.set_variables(vec![(format!("v{n}"), n.to_string())], false).await?;
                terminal.variables(vec![format!("v{n}")]).await
            })
        });
        for (n, asked) in asking.collect::<Vec<_>>().into_iter().enumerate() {
            let reported = asked.await.unwrap().unwrap_or_else(|error| panic!("{shell}: {error}"));
            assert_eq!(reported[0].1, private(&n.to_string()), "{shell}");
        }
    }
}

// ---- states ----

#[tokio::test]
async fn directory_is_that_of_the_shell_or_reported_by_a_program() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        assert_eq!(session.view().await.cwd.as_deref(), Some(world.home()), "{shell}");
        session.runs("cd /usr").await;
        assert_eq!(session.0.describe().await.unwrap().cwd.as_deref(), Some("/usr"), "{shell}");
        session.type_in("printf '\\033]7;file://far/away%%20there\\007\\n'; echo told; cat\n").await;
        session.expect_text("^told$").await;
        assert_eq!(session.view().await.cwd.as_deref(), Some("/away there"), "{shell}");
        session.type_in("\u{4}").await;
        assert_eq!(session.prompt().await.cwd.as_deref(), Some("/usr"), "{shell}: the command has ended");
    }
    let world = World::new();
    let python = world.open(&["python3", "-q"]).await;
    assert_eq!(python.view().await.cwd.as_deref(), Some(world.home()));
}

#[tokio::test]
async fn waiting_for_input_is_detected() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let view = session.view().await;
        assert_eq!((view.awaiting_input, view.password), (Some(true), false), "{shell} at its prompt");
        for (command, awaiting) in [
            ("sh -c 'echo go; cat'", true),
            ("sh -c 'echo go; exec sleep 30'", false),
            ("sh -c 'echo go; while :; do :; done'", false),
            ("python3 -c 'input(\"go\\n\")'", true),
            ("sh -c '(echo go; exec sleep 30); true'", false),
            ("seq 1 100000 | less", true),
            ("seq 1 100 | sort | less", true),
            ("vim -u NONE", true),
        ] {
            session.type_in(&format!("{command}\n")).await;
            if command.contains("go") {
                session.expect_text("^go$").await;
            }
            session.wait_until(command, |view| view.awaiting_input == Some(awaiting)).await;
            session.wait_for_foreground_change(shell).await;
            let end = match command {
                "seq 1 100000 | less" | "seq 1 100 | sort | less" => "q",
                "vim -u NONE" => ":q!\n",
                _ => "\u{3}",
            };
            session.type_in(end).await;
            session.prompt().await;
        }
    }
}

#[tokio::test]
async fn password_is_requested_without_echo() {
    let bash = "read -s -p 'word: ' word";
    let python = "python3 -c 'import getpass; getpass.getpass(\"word: \")'";
    let zsh = "read -s 'word?word: '";
    for (shell, command) in [("bash", bash), ("bash", python), ("zsh", zsh), ("zsh", python), ("fish", python)] {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.type_in(&format!("{command}\n")).await;
        session.expect_text("^word: ").await;
        let view = session.wait_until(command, |view| view.awaiting_input == Some(true)).await;
        assert!(view.password, "{shell}: {command}");
        session.type_in("secret\n").await;
        let view = session.prompt().await;
        assert!(!view.password && !view.screen.contains("secret"), "{shell}:\n{}", view.screen);
    }
    let world = World::new();
    let session = world.open(&["bash"]).await;
    session.type_in("stty -echo; cat\n").await;
    session.wait_until("cat reads without echo", |view| view.password && view.awaiting_input == Some(true)).await;
}

/// Terminal queries as found in logs.
const QUESTIONS: [&[u8]; 16] = [
    b"\x1b[c",
    b"\x1b[>c",
    b"\x1b[=c",
    b"\x1b[5n",
    b"\x1b[6n",
    b"\x1b[?6n",
    b"\x1b[18t",
    b"\x1b[>q",
    b"\x1b[?u",
    b"\x1b[?2004$p",
    b"\x1b]10;?\x07",
    b"\x1b]11;?\x1b\\",
    b"\x1b]4;1;?\x07",
    b"\x1bP$qm\x1b\\",
    b"\x1bP+q544e\x1b\\",
    b"\x1bZ",
];

/// Repeatable pseudo-random numbers (splitmix64, Steele, Lea and Flood 2014).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((mixed ^ (mixed >> 31)) % bound as u64).unwrap()
    }

    /// Returns a stream of queries, other sequences, text and bytes.
    fn stream(&mut self) -> Vec<u8> {
        let mut stream = Vec::new();
        for _ in 0..=self.below(12) {
            match self.below(6) {
                0..=2 => stream.extend(QUESTIONS[self.below(QUESTIONS.len())]),
                3 => {
                    let last = b"ABCDEFGHJKLMPSTXZ@`abdefghlmnqrstu"[self.below(34)];
                    stream.extend(format!("\x1b[{};{}", self.below(99), self.below(99)).bytes());
                    stream.push(last);
                }
                4 => stream.extend(b"some text\r\n"),
                _ => stream.extend((0..self.below(9)).map(|_| u8::try_from(self.below(256)).unwrap())),
            }
        }
        stream
    }
}

#[tokio::test]
async fn earlier_output_is_never_part_of_the_next_command() {
    // `STEPLATCH_STREAMS` adds further streams, with consecutive numbers.
    let streams = std::env::var("STEPLATCH_STREAMS").ok().and_then(|many| many.parse().ok()).unwrap_or(25);
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let mut numbers = Numbers(7);
        for number in 0..streams {
            let stream = numbers.stream();
            std::fs::write(world.home.path().join("log"), &stream).unwrap();
            let case = format!("{shell}, stream {number}: {}", stream.escape_ascii());
            // Run as a command, or typed as if by a person.
            if number % 2 == 0 {
                session.runs("cat ~/log").await;
            } else {
                session.type_in("cat ~/log\n").await;
                session.prompt().await;
            }
            let result = session.runs(&format!("echo next {number}")).await;
            assert_eq!((result.output.as_str(), result.exit_code), (&*format!("next {number}\n"), Some(0)), "{case}");
        }
    }
}

#[tokio::test]
async fn program_queries_are_answered_in_every_shell() {
    let script = "import os, sys, termios, time, tty\n\
                  def ask(pause):\n    sys.stdout.write('\\x1b[6n'); sys.stdout.flush(); time.sleep(pause)\n    \
                  old = termios.tcgetattr(0); tty.setraw(0)\n    answer = b''\n    \
                  while not answer.endswith(b'R'): answer += os.read(0, 1)\n    \
                  termios.tcsetattr(0, termios.TCSANOW, old); print('answered', len(answer) > 4)\n\
                  ask(0); ask(0.1); print('all of it')\n";
    for shell in SHELLS {
        let world = World::new();
        world.file("asks.py", script);
        let session = world.open(&[shell]).await;
        let result = session.runs("python3 ~/asks.py").await;
        assert_eq!(result.output.matches("answered True").count(), 2, "{shell}: {}", result.output);
    }
}

#[tokio::test]
async fn input_of_a_run_at_a_prompt_starts_on_an_empty_line() {
    // redteam H9: text typed by an agent at the prompt was executed with a later command.
    let world = World::new();
    let by_run = |text: &str| Input { text: text.into(), run: Some("run_a".into()), ..Input::default() };
    for (shell, editing) in [("bash", "true"), ("zsh", "true"), ("fish", "true"), ("bash", "set -o vi")] {
        let session = world.open(&[shell]).await;
        session.output_of(editing).await;
        session.type_in("printf 'EV%s\\n' IL; ").await;
        session.0.send(by_run("printf 'fi%s\\n' ne\n")).await.unwrap();
        session.expect_text("(?m)^fine$").await;
        session.prompt().await;
        // Text typed by the run itself stays.
        session.0.send(by_run("printf '%s+%s\\n' one ")).await.unwrap();
        session.0.send(by_run("two\n")).await.unwrap();
        session.expect_text(r"one\+two").await;
        session.prompt().await;
        let printed = session.history().await;
        assert!(!printed.contains("EVIL"), "{shell}, {editing}:\n{printed}");
        // Keys that move within the line or search the history: no key removes their effect in every mode of every
        // shell.
        for others in ["\x1b[A", "\x12older"] {
            let session = world.open(&[shell]).await;
            session.output_of(editing).await;
            session.output_of("echo an older line").await;
            let lines = |view: &View| view.screen.matches("older line").count();
            let before = lines(&session.view().await);
            session.type_in(others).await;
            session.wait_until("the older line is shown", |view| lines(view) > before).await;
            let result = session.0.send(by_run("echo EVIL\n")).await;
            assert!(matches!(result, Err(InputError::LineStands { .. })), "{shell}, {editing}: {result:?}");
        }
    }
}
