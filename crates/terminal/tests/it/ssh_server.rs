//! A real `sshd` on this computer's loopback, and a user with a password. Tests of other crates include this file.

use std::io::Write as _;
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use steplatch_patience::{eventually_blocking, free_port};
use tempfile::TempDir;

/// A server with its own keys.
pub(crate) struct Server {
    process: Child,
    directory: TempDir,
    port: u16,
}

/// A user of this computer with a password, for the duration of the test. Only root can create one.
pub(crate) struct Guest(pub(crate) String);

/// The password of [`Guest`].
pub(crate) const PASSWORD: &str = "open sesame 42";

impl Guest {
    /// `None` if no user can be added.
    pub(crate) fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            steplatch_patience::skip_test("logging in with a password needs a user, which only root can add");
            return None;
        }
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!("steplatch{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
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
        // A leftover user has no home directory and does no harm.
        let _ = Command::new("userdel").arg("--force").arg(&self.0).stderr(Stdio::null()).status();
    }
}

impl Server {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        for key in ["host", "key"] {
            let made = Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(path(key)).status();
            assert!(made.unwrap().success(), "ssh-keygen");
        }
        std::fs::copy(path("key.pub"), path("authorized_keys")).unwrap();
        // The server's directory for its unprivileged part. Packages create the directory when their service starts.
        if rustix::process::geteuid().is_root() {
            std::fs::create_dir_all("/run/sshd").unwrap();
        }
        let port = free_port();
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
        Self { process, directory, port }
    }

    #[allow(dead_code, reason = "used by the stories of other crates")]
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Returns the command that logs in as `user`.
    pub(crate) fn ssh(&self, user: &str, options: &str) -> String {
        format!(
            "ssh -tt -p {} -F /dev/null -o UserKnownHostsFile={} {options} {user}@127.0.0.1",
            self.port,
            self.path("known_hosts")
        )
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The server has ended already, or ends now.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
