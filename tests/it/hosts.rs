//! Terminals on another machine: a real `sshd` on this one's loopback, and another user.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home, eventually_blocking};
use tempfile::TempDir;

use crate::ssh_server::{Guest, Server};
use crate::survival::{kill, next_daemon, whole_output};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Another machine, which the home reaches as `box`.
pub(crate) struct Far {
    server: Server,
    pub(crate) guest: Guest,
    pub(crate) folder: TempDir,
}

impl Far {
    /// `None` where no other user can be added.
    pub(crate) fn new(home: &mut Home) -> Option<Self> {
        let guest = Guest::new()?;
        let server = Server::new();
        let folder = tempfile::Builder::new().prefix("far-").tempdir_in("/tmp").unwrap();
        let far = Self { server, guest, folder };
        std::fs::set_permissions(far.folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        far.system("usermod", &["--home", far.folder.path().to_str().unwrap(), &far.guest.0]);
        far.own();
        far.configure(home, "accept-new");
        Some(far)
    }

    fn system(&self, program: &str, arguments: &[&str]) {
        assert!(Command::new(program).args(arguments).status().unwrap().success(), "{program} {arguments:?}");
    }

    /// Makes everything in the home of the other user theirs.
    fn own(&self) {
        self.system("chown", &["-R", &self.guest.0, self.folder.path().to_str().unwrap()]);
    }

    /// Puts steplatch there.
    pub(crate) fn install(&self) {
        let there = self.folder.path().join(".local/share/steplatch/bin").join(env!("CARGO_PKG_VERSION"));
        std::fs::create_dir_all(&there).unwrap();
        // The file itself stays that of its owner.
        if std::fs::hard_link(STEPLATCH, there.join("steplatch")).is_err() {
            std::fs::copy(STEPLATCH, there.join("steplatch")).unwrap();
        }
        for folder in there.ancestors().take_while(|folder| *folder != self.folder.path()) {
            self.system("chown", &[&self.guest.0, folder.to_str().unwrap()]);
        }
    }

    /// Writes the configuration of `ssh`, and an `ssh` that uses it.
    pub(crate) fn configure(&self, home: &mut Home, strict: &str) {
        let config = home.path().join("ssh_config");
        let text = format!(
            "Host box\n  HostName 127.0.0.1\n  Port {}\n  User {}\n  IdentityFile {}\n  UserKnownHostsFile {}\n  \
             StrictHostKeyChecking {strict}\n",
            self.server.port(),
            self.guest.0,
            self.server.path("key"),
            home.path().join("known_hosts").display()
        );
        std::fs::write(&config, text).unwrap();
        let bin = home.path().join("bin");
        std::fs::create_dir_all(&bin).unwrap();
        write_program(&bin.join("ssh"), &format!("#!/bin/sh\nexec /usr/bin/ssh -F {} \"$@\"\n", config.display()));
        home.sets("PATH", &format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    }

    /// Ends the connections of this home's daemon, as a network does that is gone.
    fn cut(home: &Home) -> usize {
        let config = home.path().join("ssh_config").display().to_string();
        let processes = std::fs::read_dir("/proc").unwrap().flatten();
        let ssh = processes.filter_map(|entry| {
            let pid: i32 = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let words: Vec<&[u8]> = line.split(|byte| *byte == 0).collect();
            (words.first()?.ends_with(b"ssh") && words.contains(&config.as_bytes())).then_some(pid)
        });
        // One that has ended meanwhile is cut as well.
        ssh.filter(|pid| kill_process(Pid::from_raw(*pid).unwrap(), Signal::KILL).is_ok()).count()
    }
}

impl Drop for Far {
    fn drop(&mut self) {
        // The host over there goes on until its terminals are closed.
        let _ = Command::new("pkill").args(["-KILL", "-u", &self.guest.0]).status();
    }
}

fn write_program(path: &Path, text: &str) {
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
    file.set_permissions(std::fs::Permissions::from_mode(0o755)).unwrap();
}

/// Pauses for a random moment of at most so many milliseconds.
fn moment(most: u32) {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    std::thread::sleep(Duration::from_millis(u64::from(now.subsec_micros() % most)));
}

#[test]
fn twenty_cuts_and_five_killed_daemons_take_no_byte_no_wait_and_no_input_of_another_machine() {
    const TERMINALS: usize = 20;
    const LINES: usize = 4_000;
    let mut home = Home::new(STEPLATCH);
    let Some(far) = Far::new(&mut home) else { return };
    far.install();
    home.runs(&["hosts", "add", "build", "--ssh", "box"]).well();
    let agent = Agent::new(&home);
    let printing = format!(
        "read start; for ((n = 1; n <= {LINES}; n++)); do echo line-$n; ((n % 50)) || sleep 0.05; done; \
         echo finished-$((6 * 7)); read end"
    );
    let open = |command: &str| -> String {
        let opened = agent.calls("open_terminal", json!({"host": "build", "command": ["bash", "-c", command]}));
        opened["session_id"].as_str().unwrap_or_else(|| panic!("{opened}")).to_owned()
    };
    let sessions: Vec<String> = (0..TERMINALS).map(|_| open(&printing)).collect();
    let typed_into = open("stty -echo -icanon; sed -u s/typed/got/");
    for session in &sessions {
        let sent = agent.calls("send_input", json!({"session_id": session, "input_text": "\n"}));
        assert_eq!(sent["success"], true, "{sent}");
    }
    let waits: Vec<_> = sessions
        .iter()
        .map(|session| {
            agent.begins("await_output", json!({"session_id": session, "pattern": "^finished-(\\d+)$", "timeout": 150}))
        })
        .collect();
    let over = AtomicBool::new(false);
    let typed = std::thread::scope(|scope| {
        let typist = scope.spawn(|| {
            let mut typed = 0;
            while !over.load(Ordering::Relaxed) {
                typed += 1;
                let text = format!("typed-{typed}\n");
                let sent = agent
                    .calls("send_input", json!({"session_id": typed_into, "input_text": text, "wait_for_quiet_ms": 0}));
                assert_eq!(sent["success"], true, "{sent}");
            }
            typed
        });
        let mut last = 0;
        for round in 1..=20 {
            eventually_blocking("the machine is connected again", || {
                let listed = home.runs(&["hosts", "list", "--json"]);
                if listed.code == 0 && listed.json()["hosts"][0]["state"] == "connected" { Ok(()) } else { Err(listed) }
            });
            moment(250);
            Far::cut(&home);
            if round % 4 == 0 {
                last = next_daemon(&home, last);
                moment(250);
                kill(last);
            }
        }
        over.store(true, Ordering::Relaxed);
        typist.join().unwrap()
    });
    for wait in waits {
        let waited = wait.ends();
        assert_eq!((&waited["match_text"], &waited["groups"]), (&json!("finished-42"), &json!(["42"])), "{waited}");
    }
    let listed = agent.calls("list_terminal_sessions", json!({}));
    assert_eq!(listed["total_sessions"], json!(TERMINALS + 1));
    assert_eq!(listed["hosts"][0]["state"], "connected", "{listed}");
    for session in &sessions {
        let output = whole_output(&agent, session);
        let lines: Vec<&str> = output.lines().filter(|line| line.starts_with("line-")).collect();
        let expected: Vec<String> = (1..=LINES).map(|n| format!("line-{n}")).collect();
        assert!(lines == expected, "{} lines, of which some are lost or doubled", lines.len());
    }
    let seen = agent.calls(
        "await_output",
        json!({"session_id": typed_into, "pattern": format!("^got-{typed}$"), "since": 0, "timeout": 20}),
    );
    assert_eq!(seen["reason"], "match", "{seen}");
    let got = whole_output(&agent, &typed_into);
    let got: Vec<&str> = got.lines().filter(|line| line.starts_with("got-")).collect();
    let expected: Vec<String> = (1..=typed).map(|n| format!("got-{n}")).collect();
    assert!(got == expected, "{} of {typed} inputs, of which some are lost or doubled", got.len());
}

#[test]
fn a_machine_that_is_not_reached_says_why_and_what_to_do() {
    let mut home = Home::new(STEPLATCH);
    let Some(far) = Far::new(&mut home) else { return };
    let failed = |arguments: &[&str]| {
        let output = home.runs(arguments);
        assert_ne!(output.code, 0, "{}", output.stdout);
        output.stderr
    };
    let said = failed(&["hosts", "add", "build", "--ssh", "box"]);
    assert!(said.contains("steplatch is not installed there"), "{said}");
    assert!(said.contains("steplatch hosts add build --ssh box --install"), "{said}");
    let said = failed(&["terminal", "open", "--host", "biuld"]);
    assert!(said.contains("there is no host 'biuld'; known hosts: build"), "{said}");
    let said = failed(&["hosts", "add", "nowhere", "--ssh", "nowhere.invalid"]);
    assert!(said.contains("check the name with 'ssh nowhere.invalid'"), "{said}");
    // A program that is too old to know what it is asked.
    let there = far.folder.path().join(".local/share/steplatch/bin/0.0.1");
    std::fs::create_dir_all(&there).unwrap();
    write_program(&there.join("steplatch"), "#!/bin/sh\necho \"error: unrecognized subcommand 'host'\" >&2\nexit 2\n");
    far.own();
    let said = failed(&["hosts", "check", "build"]);
    assert!(said.contains("too old"), "{said}");
    std::fs::remove_dir_all(&there).unwrap();
    far.install();
    let listed: Value = serde_json::from_str(&home.runs(&["hosts", "check", "build", "--json"]).well()).unwrap();
    assert_eq!(listed["host"]["state"], "connected", "{listed}");
    home.runs(&["hosts", "remove", "build"]).well();
    let said = failed(&["hosts", "remove", "build"]);
    assert!(said.contains("there is no host 'build'"), "{said}");
}
