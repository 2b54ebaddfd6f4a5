//! Words of the integration that a person uses as names of aliases and functions, in all shells.

use steplatch_terminal::{CommandRequest, RunError, Variable};

use super::inner_shells::{entry, gives, integrate, start};
use super::shells::{World, request};

/// Builtins and reserved words of bash and zsh. The texts of the integration use each of them unchanged.
const BUILTINS: &[&str] = &[
    "alias", "bind", "bindkey", "break", "builtin", "cd", "command", "continue", "declare", "disable", "echo",
    "emulate", "enable", "eval", "exit", "export", "hash", "help", "history", "local", "logout", "printf", "readonly",
    "return", "sched", "set", "setopt", "shopt", "source", "test", "trap", "typeset", "umask", "unset", "unsetopt",
    "zle", "zmodload", "[", ".",
];
const KEYWORDS: &[&str] = &["if", "then", "else", "elif", "fi", "case", "esac", "for", "while", "do", "done"];

/// Names that fish permits for functions, except the names that it needs for keys and for loading functions.
const FISH: &[&str] = &["abbr", "cd", "contains", "echo", "exit", "math", "printf"];

/// fish's own prompt and title use some of these names, so these functions print nothing.
const FISH_PROMPT: &str =
    "set -g fish_greeting; function fish_prompt; builtin echo -n '$ '; end; function fish_title; end\n";

/// Commands of `template` for each word, `WORD` replaced.
fn each(words: &[&[&str]], template: &str) -> String {
    words.concat().iter().map(|word| template.replace("WORD", word)).collect()
}

fn named(words: &[&[&str]], but: &[&str], template: &str) -> String {
    let words: Vec<&str> = words.concat().into_iter().filter(|word| !but.contains(word)).collect();
    each(&[&words], template)
}

/// The shadows of a start file, and the shells that read it.
fn shadows() -> Vec<(&'static str, &'static str, String)> {
    let alias = "\\builtin \\alias -- 'WORD=echo wrong WORD'\n";
    let (functions, quiet) = ("WORD() { /bin/echo wrong WORD; }\n", "function WORD; builtin false; end\n");
    let aliases = each(&[BUILTINS, KEYWORDS], alias);
    let global = aliases.replace("alias -- ", "alias -g -- ");
    // Reserved words of zsh.
    let reserved = ["declare", "export", "local", "readonly", "typeset", "[", "."];
    vec![
        ("bash", ".bashrc", aliases.clone()),
        ("bash", ".bashrc", each(&[BUILTINS], functions)),
        ("bash", ".bashrc", each(&[BUILTINS], "WORD() { :; }\n")),
        ("bash -l", ".profile", each(&[BUILTINS], functions)),
        ("bash -l", ".profile", aliases.clone()),
        ("zsh", ".zshrc", aliases.clone()),
        ("zsh", ".zshenv", each(&[&["builtin", "return", "sched", "trap"]], alias)),
        ("zsh", ".zshrc", global),
        // The hooks of the system's start files call these functions, too.
        ("zsh", ".zshrc", named(&[BUILTINS], &reserved, "WORD() { [[ a == b ]] }\n")),
        ("zsh", ".zshenv", "builtin() { echo wrong builtin; return 0 }; command() { builtin }\n".to_owned()),
        ("fish", ".config/fish/config.fish", format!("{}{FISH_PROMPT}", each(&[FISH], quiet))),
    ]
}

#[tokio::test]
async fn marks_and_variables_ignore_aliases_and_functions() {
    for (shell, file, text) in shadows() {
        let world = World::new();
        world.file(file, &text);
        let case = format!("{shell}, {file}, {}", text.lines().next_back().unwrap());
        let words: Vec<&str> = shell.split(' ').collect();
        let session = world.open(&words).await;
        for (command, output, code) in [("/bin/echo said", "said\n", 0), ("sh -c 'exit 3'", "", 3)] {
            let result = session.try_command(command).await.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!((result.output.as_str(), result.exit_code), (output, Some(code)), "{case}: {command}");
        }
        let within = CommandRequest { working_directory: Some("/tmp".into()), ..request("/bin/pwd") };
        match session.0.run(within).await {
            Ok(result) => assert_eq!(result.output, "/tmp\n", "{case}"),
            // Only this function changes the directory, and its replacement fails.
            Err(error @ RunError::CannotChangeDirectory { .. })
                if text.contains("\nbuiltin()") || text.starts_with("builtin()") =>
            {
                assert!(error.to_string().contains("the command was not run"), "{case}: {error}");
            }
            Err(error) => panic!("{case}: {error}"),
        }
        session.0.set_variables(vec![("GREETING".into(), "it's $HOME".into())], true).await.unwrap();
        let greeting = Variable { value: "it's $HOME".into(), exported: true };
        assert_eq!(session.0.variables(vec!["GREETING".into()]).await.unwrap()[0].1, Some(greeting), "{case}");
        session.type_in("\n").await;
        session.prompt().await;
        // The failed change of the directory names it.
        let screen = session.view().await.screen.replace("wrong builtin", "");
        assert!(!screen.contains("wrong") && !screen.contains("steplatch"), "{case}:\n{screen}");
        // The user's functions are still defined.
        if text.contains("alias -- 'umask=") {
            assert!(session.runs("umask").await.output.ends_with("wrong umask\n"), "{case}");
        }
    }
}

/// Each row is a shell with its input. fish reserves these names.
#[tokio::test]
async fn marks_ignore_a_later_function_named_builtin() {
    let functions = "builtin() { echo wrong; }; command() { echo wrong; }";
    for (shell, definition, is_answered) in [
        ("bash", functions.to_owned(), true),
        ("bash", "builtin() { command builtin \"$@\"; }".to_owned(), true),
        ("bash", format!("{functions}; PROMPT_COMMAND+=('/bin/echo hook')"), true),
        ("bash", format!("set -o posix; {functions}"), true),
        ("bash", format!("shopt -u interactive_comments expand_aliases; {functions}"), true),
        ("bash", format!("set -eu; {functions}"), true),
        // It cannot be replaced, so the prompt contains the marks.
        ("bash", format!("{functions}; readonly -f builtin"), false),
        ("zsh", functions.to_owned(), true),
        ("zsh", format!("setopt ksh_arrays sh_word_split; {functions}"), true),
        ("zsh", "builtin() { command echo wrong >/dev/null }".to_owned(), true),
    ] {
        let world = World::new();
        let session = world.open(&[shell]).await;
        let case = format!("{shell}: {definition}");
        let modes = if shell == "bash" { "/bin/echo $SHELLOPTS $BASHOPTS" } else { "setopt" };
        session.runs(&format!("{definition}; true")).await;
        let before = session.try_command(modes).await.unwrap_or_else(|error| panic!("{case}: {error}"));
        for (command, output, code) in
            [("/bin/echo said", "said\n", 0), ("/bin/sh -c 'exit 3' || /bin/echo no", "no\n", 0), ("/bin/true", "", 0)]
        {
            let result = session.try_command(command).await.unwrap_or_else(|error| panic!("{case}: {error}"));
            assert_eq!((result.output.as_str(), result.exit_code), (output, Some(code)), "{case}: {command}");
        }
        let after = session.try_command(modes).await.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(after.output, before.output, "{case}");
        let set = session.0.set_variables(vec![("GREETING".into(), "it's $HOME".into())], true).await;
        assert_eq!(set.is_ok(), is_answered, "{case}: {set:?}");
        // The user's variable is unchanged.
        if definition.contains("echo wrong; }") {
            assert_eq!(session.runs("builtin").await.output, "wrong\n", "{case}");
        }
        let screen = session.view().await.screen;
        assert!(!screen.contains("steplatch"), "{case}:\n{screen}");
        session.type_in("exit 3\n").await;
        session.wait_until("the shell has ended", |view| view.exit.is_some()).await;
        assert_eq!(session.view().await.exit.map(|exit| exit.code), Some(3), "{case}");
    }
}

#[tokio::test]
async fn inner_shell_with_aliases_and_functions_is_integrated() {
    let alias = "\\alias WORD='echo wrong WORD'\n";
    let aliases =
        each(&[&["printf", "eval", "export", "echo", "help", "cd", "test", "local", "history"], KEYWORDS], alias);
    let functions = each(&[&["printf", "echo", "help", "test", "history", "cd"]], "WORD() { echo wrong WORD; }\n");
    let rows = [
        ("bash --rcfile rc", aliases.clone()),
        ("bash --rcfile rc", functions.clone()),
        ("zsh", aliases.clone()),
        ("zsh", aliases.replace("\\alias ", "\\alias -g ")),
        ("zsh", functions.clone()),
        ("env ENV=rc dash", aliases.clone()),
        ("env ENV=rc dash", functions.clone()),
        ("env ENV=rc busybox sh", aliases),
        ("env ENV=rc busybox sh", functions),
        ("fish", format!("{}{FISH_PROMPT}", each(&[FISH], "function WORD; builtin false; end\n"))),
    ];
    for (shell, text) in rows {
        let world = World::new();
        let file = match shell {
            "zsh" => ".zshrc",
            "fish" => ".config/fish/config.fish",
            _ => "rc",
        };
        world.file(file, &text);
        let case = format!("{shell}, {}", text.lines().next_back().unwrap());
        let session = world.open(&["bash"]).await;
        start(&session, &format!("PS1='$ ' {shell}")).await;
        session.0.run(integrate("")).await.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(gives(&session, "/bin/echo hi").await, ("hi\n".into(), Some(0)), "{case}");
        assert_eq!(gives(&session, "sh -c 'exit 3'").await, (String::new(), Some(3)), "{case}");
        session.0.set_variables(vec![("GREETING".into(), "a b".into())], true).await.unwrap();
        let greeting = Variable { value: "a b".into(), exported: true };
        assert_eq!(session.0.variables(vec!["GREETING".into()]).await.unwrap()[0].1, Some(greeting), "{case}");
        let within = CommandRequest { working_directory: Some("/tmp".into()), ..entry("/bin/pwd") };
        let result = session.0.run(within).await.unwrap_or_else(|error| panic!("{case}: {error}"));
        assert_eq!(result.output, "/tmp\n", "{case}");
        let screen = session.view().await.screen;
        assert!(!screen.contains("wrong") && !screen.contains("steplatch"), "{case}:\n{screen}");
    }
}
