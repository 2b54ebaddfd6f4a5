//! File transfers between this computer and a remote host: a real `sshd` on loopback, and another user.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home, eventually_blocking, skip_test};

use crate::hosts::{RemoteHost, state};
use crate::survival::{kill, wait_for_next_daemon};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Returns repeatable pseudo-random bytes.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    std::iter::repeat_with(next).flatten().take(length).collect()
}

fn connect_host(home: &mut Home) -> Option<RemoteHost> {
    let remote = RemoteHost::new(home)?;
    remote.install();
    home.run(&["hosts", "add", "build", "--ssh", "box"]).expect_success();
    Some(remote)
}

/// Returns the names in a directory, sorted.
fn file_names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).unwrap().flatten();
    let mut names: Vec<_> = entries.map(|entry| entry.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn file_arrives_complete_despite_cuts_and_a_killed_daemon() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = connect_host(&mut home) else { return };
    let content = noise(48 << 20);
    let source = home.path().join("image.bin");
    std::fs::write(&source, &content).unwrap();
    std::fs::set_permissions(&source, std::fs::Permissions::from_mode(0o750)).unwrap();
    let inbox = remote.home_dir.path().join("inbox");
    std::fs::create_dir(&inbox).unwrap();
    remote.chown_home();
    let has_partial_file = || file_names(&inbox).iter().any(|name| name.starts_with(".steplatch-"));

    let output = std::thread::scope(|scope| {
        let copy = scope.spawn(|| home.run(&["cp", "image.bin", "build:inbox"]));
        eventually_blocking("a portion has arrived", || has_partial_file().then_some(()).ok_or("nothing"));
        for round in 0..4 {
            RemoteHost::cut_connections(&home);
            if round == 2 {
                kill(wait_for_next_daemon(&home, 0));
            }
            eventually_blocking("the connection is restored", || {
                let check_output = home.run(&["hosts", "check", "build", "--json"]);
                if check_output.code == 0 { Ok(()) } else { Err(check_output) }
            });
        }
        copy.join().unwrap()
    });
    assert_eq!(output.code, 0, "{}", output.stderr);
    let remote_file = inbox.join("image.bin");
    assert!(std::fs::read(&remote_file).unwrap() == content, "the copy differs");
    assert_eq!(std::fs::metadata(&remote_file).unwrap().permissions().mode() & 0o777, 0o750);
    home.run(&["cp", "build:inbox/image.bin", "back.bin"]).expect_success();
    assert!(std::fs::read(home.path().join("back.bin")).unwrap() == content, "the returned file differs");
}

#[test]
fn directory_is_copied_and_skipped_links_are_named() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = connect_host(&mut home) else { return };
    let site = home.path().join("site");
    std::fs::create_dir_all(site.join("css/deep")).unwrap();
    for (name, text) in [("index.html", "<p>häuser"), ("css/a.css", ""), ("css/deep/b.css", "b{}")] {
        std::fs::write(site.join(name), text).unwrap();
    }
    symlink("index.html", site.join("link")).unwrap();
    let refusal = home.run(&["cp", "site", "build:"]);
    assert!(refusal.code == 1 && refusal.stderr.contains("copied with -r"), "{refusal:?}");
    let output = home.run(&["cp", "-r", "site", "build:", "--json"]);
    assert_eq!(output.code, 0, "{output:?}");
    let report = output.json();
    assert_eq!(report["files"].as_array().unwrap().len(), 3, "{report}");
    assert!(report["skipped"][0].as_str().unwrap().ends_with("site/link"), "{report}");
    let remote_site = remote.home_dir.path().join("site");
    assert_eq!(std::fs::read_to_string(remote_site.join("index.html")).unwrap(), "<p>häuser");
    assert_eq!(file_names(&remote_site.join("css/deep")), ["b.css"]);
    // Several files go into a directory, and its existing files are unchanged.
    home.run(&["cp", "site/index.html", "site/css/a.css", "build:site"]).expect_success();
    assert_eq!(file_names(&remote_site), ["a.css", "css", "index.html"]);
    let refusal = home.run(&["cp", "-n", "site/css/deep/b.css", "build:site/index.html"]);
    assert!(
        refusal.code == 1 && refusal.stderr.contains("already exists with different content (on host 'build')"),
        "{refusal:?}"
    );
    let refusal = home.run(&["cp", "-r", "site", "site/css"]);
    assert!(refusal.code == 1 && refusal.stderr.contains("not copied into itself"), "{refusal:?}");
}

#[test]
fn agent_and_workflow_transfer_remote_files() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = connect_host(&mut home) else { return };
    let agent = Agent::new(&home);
    let put_reply = agent.call_tool(
        "put_file",
        json!({"host": "build", "path": "hello.sh", "content": "#!/bin/sh\necho häuser\n", "mode": "0755"}),
    );
    assert_eq!(put_reply["success"], true, "{put_reply}");
    assert_eq!(put_reply["file"]["path"], json!(remote.home_dir.path().join("hello.sh")), "{put_reply}");
    let result = agent.call_tool("run_command", json!({"host": "build", "command": "./hello.sh; sha256sum hello.sh"}));
    let sum = put_reply["file"]["sha256"].as_str().unwrap();
    assert_eq!(result["output"], json!(format!("häuser\n{sum}  hello.sh\n")), "{result}");

    let first_part = agent.call_tool("get_file", json!({"host": "build", "path": "~/hello.sh", "limit": 17}));
    // The umlaut does not fit entirely.
    assert_eq!(
        (first_part["content"].as_str(), first_part["next_offset"].as_u64()),
        (Some("#!/bin/sh\necho h"), Some(16)),
        "{first_part}"
    );
    let second_part = agent.call_tool("get_file", json!({"host": "build", "path": "hello.sh", "offset": 16}));
    assert_eq!(
        (&second_part["content"], &second_part["next_offset"], &second_part["sha256"]),
        (&json!("äuser\n"), &Value::Null, &json!(sum))
    );
    let bytes = agent.call_tool("put_file", json!({"host": "build", "path": "b", "content_base64": "AP8="}));
    assert_eq!(bytes["file"]["size"], 2, "{bytes}");
    let bytes = agent.call_tool("get_file", json!({"host": "build", "path": "b"}));
    assert_eq!((&bytes["content_base64"], &bytes["content"]), (&json!("AP8="), &Value::Null), "{bytes}");

    for (tool, params, expected) in [
        ("put_file", json!({"host": "build", "path": "b", "content": "x", "overwrite": false}), "overwrite=true"),
        ("put_file", json!({"host": "build", "path": "no/b", "content": "x"}), "create it first"),
        ("put_file", json!({"host": "build", "path": "b"}), "one of content, content_base64 and from"),
        ("put_file", json!({"host": "build", "path": "b", "content": "x", "mode": "rwx"}), "mode is written as 0644"),
        ("put_file", json!({"host": "build", "path": "/etc/passwd", "content": "x"}), "Permission denied"),
        ("put_file", json!({"host": "biuld", "path": "b", "content": "x"}), "known hosts: build"),
        ("put_file", json!({"path": home.path().join("state/x"), "content": "x"}), "private directory of steplatch"),
        ("get_file", json!({"path": home.path().join("state/../state/journal.db")}), "private directory of steplatch"),
        ("get_file", json!({"host": "build", "path": "missing"}), "does not exist (on host 'build')"),
        ("get_file", json!({"host": "build", "path": "/"}), "is a directory"),
        ("get_file", json!({"host": "build", "path": "/dev/zero"}), "not a regular file"),
    ] {
        let refusal = agent.call_tool(tool, params.clone());
        assert_eq!(refusal["success"], false, "{params}: {refusal}");
        assert!(refusal["error"].as_str().unwrap().contains(expected), "{params}: {refusal}");
    }

    std::fs::write(home.path().join("version"), "1.4.0\n").unwrap();
    let run_workflow = |states: Value| {
        let definition = json!({"host": "build", "initial_state": "send", "states": states});
        agent.call_tool(
            "run_workflow",
            json!({"save_on_success": false, "wait_seconds": 60, "workflow_definition": definition}),
        )
    };
    let (version, out) = (home.path().join("version"), home.path().join("out"));
    let run = run_workflow(json!({
        "send": state(None, "put_file", json!({"from": version, "path": "in/version"}), "never"),
        "never": {"action": {"tool": "return", "params": {"result": "?"}}},
    }));
    assert_eq!(run["status"], "failed", "the directory is missing: {run}");
    let run = run_workflow(json!({
        "send": state(None, "put_file", json!({"from": version, "path": "version"}), "work"),
        "work": state(None, "run_command", json!({"command": "tr . - < version > out"}), "fetch"),
        "fetch": state(None, "get_file", json!({"path": "out", "to": out}), "show"),
        "show": state(None, "get_file", json!({"path": "out"}), "end"),
        "end": {"action": {"tool": "return", "params": {"result": "{show_content}"}}},
    }));
    assert_eq!((&run["status"], &run["result"]), (&json!("completed"), &json!("1-4-0\n")), "{run}");
    assert_eq!(std::fs::read_to_string(out).unwrap(), "1-4-0\n");
}

/// A small file system, mounted while this value exists.
struct SmallDisk(std::path::PathBuf);

impl SmallDisk {
    /// `None` where nothing can be mounted, as in a container.
    fn new(remote: &RemoteHost) -> Option<Self> {
        let directory = remote.home_dir.path().join("small");
        std::fs::create_dir(&directory).unwrap();
        let mount_status =
            Command::new("mount").args(["-t", "tmpfs", "-o", "size=256k,mode=777", "tmpfs"]).arg(&directory).status();
        if mount_status.is_ok_and(|status| status.success()) {
            return Some(Self(directory));
        }
        skip_test("a file system cannot be mounted");
        None
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[test]
fn full_remote_disk_is_reported_and_keeps_the_old_file() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = connect_host(&mut home) else { return };
    let Some(disk) = SmallDisk::new(&remote) else { return };
    std::fs::write(home.path().join("big"), noise(1 << 20)).unwrap();
    std::fs::write(disk.0.join("big"), "old").unwrap();
    remote.chown_home();
    let refusal = home.run(&["cp", "big", "build:small"]);
    assert_eq!(refusal.code, 1, "{refusal:?}");
    assert!(refusal.stderr.contains("No space left on device (on host 'build')"), "{refusal:?}");
    eventually_blocking("no partial file remains", || match file_names(&disk.0).as_slice() {
        [one] if one == "big" => Ok(()),
        other => Err(other.to_vec()),
    });
    assert_eq!(std::fs::read_to_string(disk.0.join("big")).unwrap(), "old");
}
