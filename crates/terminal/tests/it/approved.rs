//! Inputs that a person approved, in changed and unchanged terminals.

use steplatch_terminal::{CommandRequest, Input, InputError, NotedState, RunError, Signal};

use crate::shells::{SHELLS, Session, World, request};

/// Asks a person at a gate and returns the traps of the shell.
async fn ask_person(session: &Session, gate: &str) -> Vec<String> {
    match session.0.record_state(gate.to_owned()).await.unwrap() {
        NotedState::Shell { traps } => traps,
        other => panic!("not a state of a shell: {other:?}"),
    }
}

/// Types the approved input at a gate. Returns the change that refused it, if any.
async fn type_approved(session: &Session, gate: &str, text: &str) -> Option<String> {
    let input = Input {
        text: text.to_owned(),
        approved_at: Some(gate.to_owned()),
        run: Some("run".to_owned()),
        step: Some(format!("{gate}/next")),
        ..Input::default()
    };
    match session.0.send(input).await {
        Ok(_) => None,
        Err(InputError::Changed(what)) => Some(what),
        Err(error) => panic!("{error}"),
    }
}

fn approved_command(command: &str, gate: &str) -> CommandRequest {
    CommandRequest { approved_at: Some(gate.to_owned()), step: Some(format!("{gate}/run")), ..request(command) }
}

#[tokio::test]
async fn approved_input_is_typed_if_nothing_has_changed() {
    for shell in SHELLS {
        let world = World::new();
        let session = world.open(&[shell]).await;
        // Like prompts that count, show the time, or read the directory.
        match shell {
            "bash" => {
                session
                    .runs("PROMPT_COMMAND='N=$((N+1)); branch=$(ls)'; PS1='$SECONDS \\t $N> '; ls() { command ls; }")
                    .await;
            }
            "zsh" => {
                session.runs("setopt prompt_subst; PROMPT='%* $SECONDS> '; precmd() { n=$((n+1)); b=$(ls) }").await;
            }
            _ => {
                session
                    .runs("function fish_prompt; set -g n (math $n + 1 2>/dev/null; or echo 0); date; echo '> '; end")
                    .await;
            }
        }
        session.runs("ls; true").await;
        ask_person(&session, "gate").await;
        ask_person(&session, "gate").await;
        session.0.resize(steplatch_terminal::Size { cols: 90, rows: 30 }).await.unwrap();
        let result = session.0.run(approved_command("echo approved", "gate")).await;
        assert_eq!(result.unwrap_or_else(|error| panic!("{shell}: {error}")).output, "approved\n", "{shell}");
        session
            .runs("new=1; true".replace("new=1", if shell == "fish" { "set new 1" } else { "new=1" }).as_str())
            .await;
        // Only the first input is compared; later ones belong to the run.
        let later = session.0.run(CommandRequest { step: None, ..approved_command("echo later", "gate") }).await;
        assert_eq!(later.unwrap().output, "later\n", "{shell}");
    }
}

#[tokio::test]
async fn approved_input_is_refused_after_any_change() {
    let changes: [(&str, &[(&str, &str)]); 3] = [
        (
            "bash",
            &[
                ("cd /", "directory"),
                ("make() { touch evil; }", "function make"),
                ("alias make='touch evil'", "alias make"),
                ("PATH=/tmp/evil:$PATH", "variable PATH"),
                ("export LD_PRELOAD=/tmp/evil.so", "variable LD_PRELOAD"),
                ("export BASH_ENV=/tmp/evil", "variable BASH_ENV"),
                ("trap 'touch evil' DEBUG", "traps"),
                ("trap 'touch evil' ERR", "traps"),
                ("hash -p /bin/true make", "place of make"),
                ("bind '\"m\": \"touch evil; m\"'", "keys"),
                ("shopt -s expand_aliases extglob nullglob", "options"),
                ("enable -n echo", "options"),
                ("umask 0777", "options"),
                ("PROMPT_COMMAND+=('touch evil')", "variable PROMPT_COMMAND"),
                ("PS0='$(touch evil)'", "variable PS0"),
                ("set -o noclobber", "options"),
                ("set -o pipefail", "options"),
                ("set -o posix", "options"),
                ("set -o vi", "keys"),
                ("set -- evil", "parameters"),
                ("set -- ''", "parameters"),
                ("exec 3>evil", "file descriptor 3"),
                ("exec 9<>/dev/null", "file descriptor 9"),
                ("exec >evil", "file descriptor 1"),
                ("ulimit -f 1000", "limits"),
                ("pushd -n /", "directories"),
                ("bind 'set convert-meta on'; bind 'set input-meta off'", "keys"),
                ("sleep 600 &", "job "),
                ("match=evil", "variable match"),
                ("status=evil", "variable status"),
                ("history=evil", "variable history"),
                ("func=evil", "variable func"),
                ("REPLY=evil", "variable REPLY"),
                ("export TMOUT=9999", "variable TMOUT"),
                ("declare -n dir=PATH", "variable dir"),
                ("declare -r FILE=evil", "variable FILE"),
                ("CDPATH=/", "variable CDPATH"),
                ("IFS=/", "variable IFS"),
                ("command_not_found_handle() { touch evil; }", "function command_not_found_handle"),
                ("bind -x '\"\\C-m\": touch evil'", "keys"),
                ("trap 'touch evil' EXIT", "traps"),
                ("trap '' INT", "traps"),
                ("shopt -s cdable_vars", "options"),
                ("enable -n cd", "options"),
                ("set -o ignoreeof", "options"),
                ("bind -u accept-line", "keys"),
                ("unset HOME", "variable HOME"),
                ("declare -i FILE", "variable FILE"),
                ("export -n PATH", "variable PATH"),
                ("PS4='$(touch evil)'", "variable PS4"),
                ("BASH_XTRACEFD=1", "variable BASH_XTRACEFD"),
                ("GLOBIGNORE='*'", "variable GLOBIGNORE"),
                ("OPTIND=7", "variable OPTIND"),
                ("exec 0<&- 0<>/dev/tty", "file descriptor 0"),
                ("complete -F evil make", "completions"),
                ("bind -m vi-command '\"x\": \"touch evil\"'", "keys"),
                ("__steplatch_evil=1", "variable __steplatch_evil"),
                ("__steplatch_files=/tmp/evil", "no longer reports its state"),
                ("COMP_DIR=evil", "variable COMP_DIR"),
                ("READLINE_DIR=evil", "variable READLINE_DIR"),
                ("BASH_ARGV0=evil", "options"),
                ("BASH_CMDS_DIR=evil", "variable BASH_CMDS_DIR"),
                ("async_dir=evil", "variable async_dir"),
                ("vcs_info_dir=evil", "variable vcs_info_dir"),
                ("export STARSHIP_CONFIG=evil", "variable STARSHIP_CONFIG"),
                ("mapfile -d '' -t PSVAR </dev/null", "variable PSVAR"),
            ],
        ),
        (
            "zsh",
            &[
                ("cd /", "directory"),
                ("make() { touch evil }", "function make"),
                ("alias make='touch evil'", "alias make"),
                ("alias -g now='; touch evil'", "alias -g now"),
                ("path=(/tmp/evil $path)", "variable PATH"),
                ("export LD_PRELOAD=/tmp/evil.so", "variable LD_PRELOAD"),
                ("trap 'touch evil' DEBUG", "traps"),
                ("TRAPUSR2() { touch evil }", "function TRAPUSR2"),
                ("hash make=/bin/true", "place of make"),
                ("bindkey -s m 'touch evil'", "keys"),
                ("setopt sh_word_split", "options"),
                ("preexec_functions+=(evil)", "variable preexec_functions"),
                ("set -- evil", "parameters"),
                ("argv=(evil)", "parameters"),
                ("exec 3>evil", "file descriptor 3"),
                ("exec >evil", "file descriptor 1"),
                ("ulimit -f 1000", "limits"),
                ("pushd -q /; pushd -q -", "directories"),
                ("disable -r if", "options"),
                ("sched +9:00 'touch evil'", "schedule"),
                ("sleep 600 &", "job "),
                ("funcs=evil", "variable funcs"),
                ("zle -N accept-line evil; evil() { zle .accept-line }", "keys"),
                ("hash -d x=/", "directories"),
                ("cdpath=(/)", "variable CDPATH"),
                ("alias -s txt=evil", "alias -s txt"),
                ("chpwd_functions+=(evil)", "variable chpwd_functions"),
                ("NULLCMD=evil", "variable NULLCMD"),
                ("bindkey -A vicmd main", "keys"),
                ("emulate sh", "options"),
                ("TRAPEXIT() { touch evil }", "function TRAPEXIT"),
                ("periodic_functions+=(evil)", "variable periodic_functions"),
                ("histchars='#^!'", "variable HISTCHARS"),
                ("typeset -r FILE=evil", "variable FILE"),
                ("zmodload zsh/mathfunc", "modules"),
                ("umask 0777", "options"),
                ("disable -p '*'", "disabled patterns"),
                ("disable -f precmd; setopt ksh_glob; disable -p '@('", "disabled patterns"),
                ("typeset -gH FILE=evil", "variable FILE"),
                ("typeset -gh FILE=evil", "variable FILE"),
                ("KEYED=(evil 1)", "variable KEYED"),
                ("zmodload -ab zsh/files rm", "builtins"),
                ("functions -M evil 0 1", "mathematical functions"),
                ("zstyle zle-line-init widgets 0:evil", "styles"),
                ("bindkey -M vicmd -s x evil", "keys"),
                ("bindkey -M visual -s x evil", "keys"),
                ("__steplatch_evil=1", "variable __steplatch_evil"),
                ("PIPESTATUS=evil", "variable PIPESTATUS"),
                ("DIRSTACK=evil", "variable DIRSTACK"),
                ("last_pid=evil", "variable last_pid"),
                ("async_dir=evil", "variable async_dir"),
                ("export P9K_DIR=evil", "variable P9K_DIR"),
            ],
        ),
        (
            "fish",
            &[
                ("cd /", "directory"),
                ("function make; touch evil; end", "function make"),
                ("function ls; touch evil; end", "function ls"),
                ("set -gx PATH /tmp/evil $PATH", "variable PATH"),
                ("function evil --on-signal USR2; touch evil; end", "function evil"),
                ("bind m 'touch evil'", "keys"),
                ("umask 0777", "variable umask"),
                ("set argv evil", "parameters"),
                ("ulimit -f 1000", "limits"),
                ("sleep 600 &", "job "),
                ("abbr -a make touch evil", "alias -a -- make"),
                ("set -g funcs evil", "variable funcs"),
                ("set -gx LD_PRELOAD /tmp/evil.so", "variable LD_PRELOAD"),
                ("function fish_command_not_found; touch evil; end", "function fish_command_not_found"),
                ("function evil --on-variable PWD; touch evil; end", "function evil"),
                ("function cd; touch evil; end", "function cd"),
                ("set -U universal evil", "variable universal"),
                ("set -g fish_function_path /tmp", " more"),
                (
                    "mkdir -p $__fish_config_dir/functions; echo 'function make; touch evil; end' >$__fish_config_dir/functions/make.fish",
                    "function make",
                ),
                ("set -gx CDPATH /", "variable CDPATH"),
                ("status job-control full", "options"),
                ("set -g match evil", "variable match"),
                ("set -g REPLY evil", "variable REPLY"),
                ("set -g PS1 evil", "variable PS1"),
                ("set -g SECONDS 1", "variable SECONDS"),
                ("set -g COMP_DIR evil", "variable COMP_DIR"),
                ("set -g __steplatch_evil 1", "variable __steplatch_evil"),
                ("set -g __fish_data_dir /tmp", " more"),
                ("set -gx _tide_dir evil", "variable _tide_dir"),
                ("bind -M insert x evil", "keys"),
                ("abbr -a re --regex 'm.*' --function evil", "re"),
                ("function evil --on-event fish_postexec; end", "function evil"),
            ],
        ),
    ];
    let mut taken = Vec::new();
    for (shell, changes) in changes {
        for (number, (change, what)) in changes.iter().enumerate() {
            let world = World::new();
            let session = world.open(&[shell]).await;
            let gate = format!("gate{number}");
            if shell == "zsh" {
                session.runs("typeset -gA KEYED=(good 1)").await;
            }
            ask_person(&session, &gate).await;
            session.type_in(&format!("{change}\n")).await;
            session.prompt().await;
            let typed = type_approved(&session, &gate, "make\n").await.unwrap_or_default();
            if !typed.contains(what) {
                taken.push(format!("{shell}: {change}: {typed:?}"));
                continue;
            }
            let result = session.0.run(approved_command("make", &gate)).await;
            assert!(
                matches!(&result, Err(RunError::Changed(named)) if named.contains(what)),
                "{shell}: {change}: {result:?}"
            );
            assert!(!session.view().await.screen.contains("make: "), "{shell}: {change}: something was typed");
        }
    }
    assert!(taken.is_empty(), "{taken:#?}");
}

#[tokio::test]
async fn approved_input_is_refused_after_terminal_mode_changes() {
    let settings: [&[&str]; 6] = [&["intr", "#"], &["istrip"], &["iuclc"], &["igncr"], &["stop", "#"], &["kill", "t"]];
    for shell in SHELLS {
        let world = World::new();
        for (number, setting) in settings.iter().enumerate() {
            let session = world.open(&[shell]).await;
            let device = session.output_of("tty").await.0;
            let gate = format!("gate{number}");
            ask_person(&session, &gate).await;
            let mut stty = std::process::Command::new("stty");
            assert!(stty.args(["-F", device.trim()]).args(*setting).status().unwrap().success());
            let result = session.0.run(approved_command("echo approved", &gate)).await;
            let is_named =
                matches!(&result, Err(RunError::Changed(named)) if named.contains("settings of the terminal"));
            assert!(is_named, "{shell}: {setting:?}: {result:?}");
        }
        // A program that reads lines.
        let session = world.open(&[shell]).await;
        let device = session.output_of("tty").await.0;
        session.type_in("sh -c 'echo asks; read x; echo got $x'\n").await;
        session.expect_text("^asks").await;
        let _ = session.0.record_state("gate".to_owned()).await.unwrap();
        let mut stty = std::process::Command::new("stty");
        assert!(stty.args(["-F", device.trim(), "intr", "#"]).status().unwrap().success());
        let refusal = type_approved(&session, "gate", "yes # all\n").await.unwrap_or_default();
        assert!(refusal.contains("settings of the terminal"), "{shell}: {refusal}");
    }
}

#[tokio::test]
async fn approved_input_is_refused_if_open_files_changed() {
    // The shell itself reports no change.
    let changes = [
        (": $(head -c 1 <&3)", "file descriptor 3"),
        ("exec 3</etc/hostname", "file descriptor 3"),
        ("exec 3<&-", "file descriptor 3"),
        ("exec 4>>list", "file descriptor 4"),
        ("exec 4>&-", "file descriptor 4"),
        ("rm log", "file descriptor 4"),
    ];
    for shell in ["bash", "zsh"] {
        let world = World::new();
        for (number, (change, what)) in changes.iter().enumerate() {
            let session = world.open(&[shell]).await;
            session.runs("cd \"$(mktemp -d)\"; echo list >list; exec 3<list 4>>log").await;
            let gate = format!("gate{number}");
            ask_person(&session, &gate).await;
            session.type_in(&format!("{change}\n")).await;
            session.prompt().await;
            let typed = type_approved(&session, &gate, "cat <&3\n").await.unwrap_or_default();
            assert!(typed.contains(what), "{shell}: {change}: {typed:?}");
        }
        // Writing more to an open file is not a change.
        let session = world.open(&[shell]).await;
        session.runs("cd \"$(mktemp -d)\"; exec 4>>log").await;
        assert_eq!(ask_person(&session, "gate").await, [""; 0], "{shell}: nothing runs by itself");
        session.type_in("echo more >&4\n").await;
        session.prompt().await;
        assert_eq!(type_approved(&session, "gate", "true\n").await, None, "{shell}");
    }
}

#[tokio::test]
async fn trap_is_reported_at_the_gate_and_a_later_one_refused() {
    for shell in ["bash", "zsh"] {
        let world = World::new();
        let session = world.open(&[shell]).await;
        session.runs("release() { echo good; }; trap 'release() { touch evil; }; echo trapped' USR2").await;
        let traps = ask_person(&session, "gate").await;
        assert!(traps.iter().any(|trap| trap.ends_with("USR2")), "{shell}: {traps:?}");
        session.0.signal(Signal::USR2).await.unwrap().unwrap();
        // bash runs a trap when its line editor is active, at the latest at the next exchange.
        let refusal = type_approved(&session, "gate", "release\n").await.unwrap_or_default();
        assert!(refusal.contains("function release"), "{shell}: {refusal}");
    }
}

#[tokio::test]
async fn trap_during_the_comparison_adds_no_text() {
    let traps = [
        "trap 'READLINE_LINE=\"touch EVIL; \"; READLINE_POINT=${#READLINE_LINE}' USR2",
        "trap 'READLINE_LINE=\"touch EVIL; \"; READLINE_POINT=12' DEBUG",
        "readonly READLINE_LINE='touch EVIL; '; true",
    ];
    for (number, trap) in traps.into_iter().enumerate() {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        let gate = format!("gate{number}");
        session.runs("make() { echo made; }; cd \"$(mktemp -d)\"").await;
        session.runs(trap).await;
        // A trap that sets the line immediately prevents a report of the shell.
        let _ = session.0.record_state(gate.clone()).await.unwrap();
        session.0.signal(Signal::USR2).await.unwrap().unwrap();
        let result = session.0.run(approved_command("make", &gate)).await;
        // Nothing was executed, except possibly the command.
        assert!(result.as_ref().map_or(true, |result| result.output == "made\n"), "{trap}: {result:?}");
        let screen = session.view().await.screen;
        assert!(!screen.contains("EVIL; make"), "{trap}: {screen}");
    }
}

#[tokio::test]
async fn unentered_text_of_others_hides_no_change() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    session.type_in("echo begun; ").await;
    session.wait_until("the line is shown", |view| view.screen.contains("echo begun;")).await;
    ask_person(&session, "run/gate").await;
    session.type_in("cd /\n").await;
    session.prompt().await;
    session.type_in("echo begun; ").await;
    session.wait_until("the line is shown", |view| view.screen.ends_with("echo begun;")).await;
    assert_eq!(
        type_approved(&session, "run/gate", "pwd\n").await.as_deref(),
        Some("directories, directory, variable OLDPWD, variable PWD")
    );
}

#[tokio::test]
async fn incomparable_content_is_reported_and_other_program_refused() {
    let world = World::new();
    let session = world.open(&["bash"]).await;
    session.type_in("cat\n").await;
    session.wait_until("cat waits", |view| view.awaiting_input == Some(true) && view.busy == Some(true)).await;
    let state = session.0.record_state("gate".to_owned()).await.unwrap();
    assert_eq!(state, NotedState::Program { program: Some("cat".to_owned()) });
    assert_eq!(type_approved(&session, "gate", "to cat\n").await, None);
    session.0.record_state("next gate".to_owned()).await.unwrap();
    session.type_in("\u{4}").await;
    session.prompt().await;
    let input = Input { text: "rm x\n".to_owned(), approved_at: Some("next gate".to_owned()), ..Input::default() };
    let result = session.0.send(input.clone()).await;
    assert!(matches!(result, Err(InputError::Changed(_))), "the shell would have run it: {result:?}");
    // A terminal opened after the answer was not part of the question.
    session.0.send(Input { approved_at: Some("other".to_owned()), text: "true\n".to_owned(), ..input }).await.unwrap();

    let dash = world.open(&["dash"]).await;
    let state = dash.0.record_state("gate".to_owned()).await.unwrap();
    assert!(matches!(state, NotedState::Program { .. } | NotedState::Unknown { .. }), "{state:?}");
}
