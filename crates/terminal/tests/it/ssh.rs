//! Shells on the other side of a real `sshd`, which listens on this machine's loopback.

use std::io::Write as _;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use steplatch_patience::eventually_blocking;
use steplatch_terminal::{Input, Reason};
use tempfile::TempDir;

use super::inner_shells::{INNER, entry, gives, integrate, start, until_input};
use super::shells::{Session, World};

/// A server with keys of its own.
struct Server {
    process: Child,
    folder: TempDir,
    port: u16,
}

/// A user of this machine with a password, for as long as the test runs. Only root can make one.
struct Guest(String);

const PASSWORD: &str = "open sesame 42";

impl Guest {
    #[allow(clippy::print_stderr, reason = "a test that is skipped says so")]
    fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("skipped: logging in with a password needs a user, which only root can add");
            return None;
        }
        let name = format!("steplatch{}", std::process::id());
        let run = |command: &mut Command| command.stdin(Stdio::null()).status().is_ok_and(|status| status.success());
        assert!(run(Command::new("useradd").args(["--no-create-home", "--shell", "/bin/bash", &name])), "useradd");
        let guest = Self(name);
        let mut chpasswd = Command::new("chpasswd").stdin(Stdio::piped()).spawn().unwrap();
        writeln!(chpasswd.stdin.take().unwrap(), "{}:{PASSWORD}", guest.0).unwrap();
        assert!(chpasswd.wait().unwrap().success(), "chpasswd");
        Some(guest)
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        // A user that is left behind has no home and does no harm.
        let _ = Command::new("userdel").arg("--force").arg(&self.0).stderr(Stdio::null()).status();
    }
}

impl Server {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for key in ["host", "key"] {
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path(key)).status();
            assert!(made.unwrap().success(), "ssh-keygen");
        }
        std::fs::copy(path("key.pub"), path("authorized_keys")).unwrap();
        // Where the server gives up its privileges; packages make it at the start of their service.
        if rustix::process::geteuid().is_root() {
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let configuration = format!(
            "ListenAddress 127.0.0.1\nPort {port}\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\n\
             PidFile none\nPermitRootLogin yes\nPasswordAuthentication yes\nPrintMotd no\nPrintLastLog no\n",
            path("host").display(),
            path("authorized_keys").display()
        );
        std::fs::write(path("sshd_config"), configuration).unwrap();
        let process = Command::new("/usr/sbin/sshd")
            .args(["-D", "-e", "-f"])
            .arg(path("sshd_config"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("sshd: {error}; cargo xtask test installs it"));
        eventually_blocking("sshd listens", || TcpStream::connect(("127.0.0.1", port)).is_ok());
        Self { process, folder, port }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    /// The command that logs in as `user`.
    fn ssh(&self, user: &str, options: &str) -> String {
        format!(
            "ssh -tt -p {} -F /dev/null -o UserKnownHostsFile={} {options} {user}@127.0.0.1",
            self.port,
            self.path("known_hosts")
        )
    }

    /// The command that logs in with the key, without a question.
    fn with_key(&self) -> String {
        let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
        let options = format!("-i {} -o StrictHostKeyChecking=accept-new -o LogLevel=ERROR", self.path("key"));
        self.ssh(user.trim(), &options)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It has ended already, or ends now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

async fn asks(session: &Session, text: &str) {
    let (waited, view) = session.waits(until_input()).await;
    assert!(waited.reason == Reason::Input && view.screen.contains(text), "{text:?}:\n{}", view.screen);
}

#[tokio::test]
async fn a_person_logs_in_with_a_password_and_the_shell_over_there_reports_exit_codes() {
    let server = Server::new();
    let Some(guest) = Guest::new() else { return };
    let world = World::new();
    let session = world.open(&["bash"]).await;
    session.types(&format!("{}\n", server.ssh(&guest.0, ""))).await;
    asks(&session, "(yes/no/[fingerprint])? ".trim_end()).await;
    session.types("yes\n").await;
    asks(&session, "password:").await;
    assert!(session.view().await.password, "the password is asked for unseen");
    session.0.send(Input { text: format!("{PASSWORD}\n"), ..Input::default() }).await.unwrap();
    asks(&session, "$").await;
    let ran = session.0.run(entry("echo there")).await.unwrap();
    assert_eq!((ran.output.as_str(), ran.exit_code), ("there\n", None));
    assert_eq!(gives(&session, "sh -c 'exit 5'").await, (String::new(), Some(5)));
    assert_eq!(gives(&session, "id -un").await, (format!("{}\n", guest.0), Some(0)));
    // An interpreter over there.
    start(&session, "python3 -q").await;
    let ran = session.0.run(entry("6 * 7")).await.unwrap();
    assert_eq!((ran.output.as_str(), ran.exit_code), ("42\n", None));
    let ran = session.0.run(entry("exit(3)")).await.unwrap();
    assert_eq!(ran.exit_code, Some(3), "{ran:?}");
    // The connection is cut: the shell around it is at its prompt.
    let _ = session.0.run(integrate("kill -9 $PPID")).await;
    let (waited, _) = session.waits(until_input()).await;
    assert_eq!(waited.reason, Reason::Prompt);
    assert_eq!(session.gives("echo back").await, ("back\n".into(), Some(0)));
}

#[tokio::test]
async fn every_shell_over_ssh_takes_commands_and_is_integrated() {
    let server = Server::new();
    for shell in INNER {
        let world = World::new();
        let session = world.open(&["bash"]).await;
        start(&session, &format!("{} \"PS1='far$ ' {shell}\"", server.with_key())).await;
        let ran = session.0.run(entry("echo there; sleep 0.2; echo late")).await.unwrap();
        assert_eq!((ran.output.as_str(), ran.exit_code), ("there\nlate\n", None), "{shell}");
        assert_eq!(gives(&session, "cd /tmp").await.1, Some(0), "{shell}");
        assert_eq!(gives(&session, "pwd; sh -c 'exit 6'").await, ("/tmp\n".into(), Some(6)), "{shell}");
        session.0.set_variables(vec![("PLACE".into(), "far away".into())], true).await.unwrap();
        assert_eq!(gives(&session, "sh -c 'echo $PLACE'").await.0, "far away\n", "{shell}");
        session.types("exit\n").await;
        let (waited, view) = session.waits(until_input()).await;
        assert_eq!(waited.reason, Reason::Prompt, "{shell}:\n{}", view.screen);
        assert_eq!(session.gives("echo back").await.0, "back\n", "{shell}");
    }
    assert!(Path::new(&server.path("known_hosts")).exists());
}
