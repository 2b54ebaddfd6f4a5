//! Settings of a person that get in the way of the marks: read-only names, options, and hooks.

use super::inner_shells::{gives, start};
use super::shells::{Session, World};

const PROMPT: &str = "PS1='$ '\n";

/// Commands whose outputs and exit codes a shell with marks reports.
const COMMANDS: [(&str, &str, i32); 4] =
    [("true", "", 0), ("false", "", 1), ("echo hi", "hi\n", 0), ("echo a\nsh -c 'exit 3'", "a\n", 3)];

async fn check_commands(session: &Session, case: &str) {
    for (command, output, code) in COMMANDS {
        let ran = session.tries(command).await.unwrap_or_else(|error| panic!("{case}: {command}: {error}"));
        assert_eq!((ran.output.as_str(), ran.exit_code), (output, Some(code)), "{case}: {command}");
    }
}

#[tokio::test]
async fn read_only_variables_with_common_names_change_no_exit_code() {
    let names = ["status", "named", "entry", "entries", "place", "code", "key", "line", "n", "s"];
    let constants: String = names.map(|name| format!("readonly {name}=0\n")).concat();
    for (shell, file, text) in [
        ("bash", ".bashrc", format!("{PROMPT}{constants}PROMPT_COMMAND=(true x=1)\n")),
        ("zsh", ".zshrc", constants.replace("readonly status=0\n", "")),
    ] {
        let world = World::new();
        world.file(file, &text);
        let session = world.open(&[shell]).await;
        check_commands(&session, shell).await;
        session.types("false\n").await;
        assert_eq!(session.prompt().await.exit_code, Some(1), "{shell}");
    }
    let world = World::new();
    let session = world.open(&["bash"]).await;
    session.runs(constants.trim_end()).await;
    check_commands(&session, "a bash in which a person declares them").await;
    for (shell, text) in [
        ("bash --norc", constants.as_str()),
        ("zsh -f", "readonly c=0 code=0 n=0\n"),
        ("dash", "readonly s=0 n=0 l=0 r=0\n"),
    ] {
        let session = world.open(&["bash"]).await;
        start(&session, &format!("PS1='$ ' {shell}")).await;
        start(&session, &text.trim_end().replace('\n', "; ")).await;
        for (command, output, code) in COMMANDS.into_iter().filter(|(command, ..)| !command.contains('\n')) {
            assert_eq!(gives(&session, command).await, (output.into(), Some(code)), "{shell}: {command}");
        }
    }
}
