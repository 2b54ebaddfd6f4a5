//! Remote shells behind a real `sshd` on this computer's loopback.

use std::path::Path;
use std::process::Command;

use steplatch_terminal::{CommandRequest, Input, Reason};

use super::inner_shells::{INNER, entry, gives, integrate, start, until_input};
use super::shells::{Session, World};
use super::ssh_server::{Guest, PASSWORD, Server};
use super::typing::refuses_long_lines;

/// Returns the command that logs in with the key, without a question.
fn with_key(server: &Server) -> String {
    let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
    let options = format!("-i {} -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR", server.path("key"));
    server.ssh(user.trim(), &options)
}

async fn wait_for_question(session: &Session, text: &str) {
    let (waited, view) = session.waits(until_input()).await;
    assert!(waited.reason == Reason::Input && view.screen.contains(text), "{text:?}:\n{}", view.screen);
}

#[tokio::test]
async fn ssh_login_with_password_reports_exit_codes() {
    let server = Server::new();
    let Some(guest) = Guest::new() else { return };
    let world = World::new();
    let session = world.open(&["bash"]).await;
    session.type_in(&format!("{}\n", server.ssh(&guest.0, ""))).await;
    wait_for_question(&session, "(yes/no/[fingerprint])? ".trim_end()).await;
    session.type_in("yes\n").await;
    wait_for_question(&session, "password:").await;
    assert!(session.view().await.password, "the password is read without echo");
    session.0.send(Input { text: format!("{PASSWORD}\n"), ..Input::default() }).await.unwrap();
    wait_for_question(&session, "$").await;
    let result = session.0.run(entry("echo there")).await.unwrap();
    assert_eq!((result.output.as_str(), result.exit_code), ("there\n", None));
    assert_eq!(gives(&session, "sh -c 'exit 5'").await, (String::new(), Some(5)));
    assert_eq!(gives(&session, "id -un").await, (format!("{}\n", guest.0), Some(0)));
    // A remote interpreter.
    start(&session, "python3 -q").await;
    let result = session.0.run(entry("6 * 7")).await.unwrap();
    assert_eq!((result.output.as_str(), result.exit_code), ("42\n", None));
    let block = "def f(x):\n    y = x\n\n    return y + 1\n\nprint(f(41))";
    let result = session.0.run(entry(block)).await.unwrap();
    assert_eq!(result.output, "42\n", "a block with empty lines is one entry");
    let result = session.0.run(entry("exit(3)")).await.unwrap();
    assert_eq!(result.exit_code, Some(3), "{result:?}");
    // The connection is cut, and the outer shell is at its prompt.
    let _ = session.0.run(integrate("kill -9 $PPID")).await;
    let (waited, _) = session.waits(until_input()).await;
    assert_eq!(waited.reason, Reason::Prompt);
    assert_eq!(session.output_of("echo back").await, ("back\n".into(), Some(0)));
}

#[tokio::test]
async fn every_shell_over_ssh_takes_commands_and_is_integrated() {
    let server = Server::new();
    for shell in INNER {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        start(&session, &format!("{} \"PS1='far$ ' {shell}\"", with_key(&server))).await;
        let result = session.0.run(entry("echo there; sleep 0.2; echo late")).await.unwrap();
        assert_eq!((result.output.as_str(), result.exit_code), ("there\nlate\n", None), "{shell}");
        assert_eq!(gives(&session, "cd /tmp").await.1, Some(0), "{shell}");
        assert_eq!(gives(&session, "pwd; sh -c 'exit 6'").await, ("/tmp\n".into(), Some(6)), "{shell}");
        session.0.set_variables(vec![("PLACE".into(), "far away".into())], true).await.unwrap();
        assert_eq!(gives(&session, "sh -c 'echo $PLACE'").await.0, "far away\n", "{shell}");
        session.type_in("exit\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!(waited.reason, Reason::Prompt, "{shell}:\n{}", view.screen);
        assert_eq!(session.output_of("echo back").await.0, "back\n", "{shell}");
    }
    assert!(Path::new(&server.path("known_hosts")).exists());
}

/// Nothing shows which remote shell it is, and whether it cuts long lines.
#[tokio::test]
async fn line_too_long_for_a_shell_over_ssh_is_refused() {
    let server = Server::new();
    for shell in ["busybox sh", "dash", "ksh", "tcsh"] {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        start(&session, &format!("{} \"PS1='far$ ' {shell}\"", with_key(&server))).await;
        refuses_long_lines(&session).await;
        session.type_in("printf 'sec''ond\\n'\n").await;
        session.expect_text("^second").await;
    }
    for shell in ["bash --norc", "zsh -f", "fish"] {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        start(&session, &format!("{} {shell}", with_key(&server))).await;
        session.type_in(&format!("echo {} | wc -c\n", "a".repeat(1500))).await;
        session.expect_text("^1501").await;
        // The remote shell may still be busy after this output; only its prompt shows that it reads input.
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!(waited.reason, Reason::Input, "{shell}:\n{}", view.screen);
        assert_eq!(
            gives(&session, &format!("printf %s {} | wc -c", "a".repeat(6000))).await,
            ("6000\n".into(), Some(0))
        );
    }
}

#[tokio::test]
async fn remote_command_without_a_terminal_requests_no_input() {
    let server = Server::new();
    let world = World::new();
    let session = world.open(&["bash"]).await;
    let ssh = with_key(&server).replace("-tt ", "");
    for (command, output, exit_code) in [
        ("SSH 'sleep 1; echo done; exit 4'", "done\n", 4),
        ("SSH 'sleep 1; echo done' | tr a-z A-Z", "DONE\n", 0),
        ("x=$(SSH 'sleep 1; echo done'); echo got $x", "got done\n", 0),
    ] {
        let request = CommandRequest { input: true, ..entry(&command.replace("SSH", &ssh)) };
        let result = session.0.run(request).await.unwrap();
        assert!(result.asks.is_none(), "{command}: {result:?}");
        assert_eq!((result.output.as_str(), result.exit_code), (output, Some(exit_code)), "{command}");
    }
}
