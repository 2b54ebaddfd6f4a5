//! `steplatch uninstall`: removed and kept files.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;

use serde_json::json;
use steplatch_testkit::{Agent, CommandOutput, Home};

use crate::hosts::{RemoteHost, write_program};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Returns the files below a directory by their relative paths.
fn list_files(directory: &Path) -> Vec<String> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        match entry.file_type().unwrap().is_dir() {
            true => files.extend(list_files(&entry.path()).into_iter().map(|inner| format!("{name}/{inner}"))),
            false => files.push(name),
        }
    }
    files.sort();
    files
}

fn uninstall(home: &Home, arguments: &[&str]) -> CommandOutput {
    home.run(&[&["uninstall"], arguments].concat())
}

#[test]
fn uninstall_lists_everything_and_keeps_user_files() {
    let home = Home::new(STEPLATCH);
    for client in [".cursor", ".claude"] {
        fs::create_dir(home.path().join(client)).unwrap();
    }
    fs::create_dir_all(home.path().join(".gemini")).unwrap();
    fs::write(home.path().join(".gemini/settings.json"), "{\n  \"theme\": \"dark\"\n}\n").unwrap();
    let before = list_files(home.path());
    home.run(&["setup", "--allow-reading", "--instructions"]).expect_success();
    let agent = Agent::new(&home);
    assert_eq!(agent.call_tool("open_terminal", json!({"name": "t"}))["success"], true);
    let mut page =
        home.steplatch().args(["serve", "--detached", "--json", "--port", "0"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(page.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("\"success\""), "{line}");

    let list = uninstall(&home, &["--dry-run"]).expect_success();
    for part in [
        "entry of Cursor",
        "entry of Gemini CLI",
        "rules of Claude Code",
        "instructions of Gemini CLI",
        "closes 1 terminal",
        "server of the page",
        "Keeps, without --purge:",
    ] {
        assert!(list.contains(part), "{part}: {list}");
    }
    assert!(agent.call_tool("run_command", json!({"session_id": "t", "command": "true"}))["success"] == true);

    // Standard input is not a terminal.
    let refusal = uninstall(&home, &[]);
    assert_eq!(refusal.code, 2, "{refusal:?}");
    assert!(refusal.stderr.contains("--yes"), "{refusal:?}");
    let refusal = uninstall(&home, &["--json"]).json();
    assert!(refusal["success"] == false && refusal["daemon"] == true, "{refusal}");
    drop(agent);

    uninstall(&home, &["--yes"]).expect_success();
    let remaining: Vec<String> = list_files(home.path()).into_iter().filter(|file| !before.contains(file)).collect();
    let is_kept = |file: &String| file.starts_with("state/") || file == ".bash_history";
    assert!(!remaining.is_empty() && remaining.iter().all(is_kept), "{remaining:?}");
    assert_eq!(fs::read_to_string(home.path().join(".gemini/settings.json")).unwrap().matches("steplatch").count(), 0);
    assert_eq!(home.run(&["daemon", "status"]).code, 1);
    page.wait().unwrap();

    let reply = uninstall(&home, &["--yes", "--purge", "--json"]).json();
    assert_eq!(reply["success"], true, "{reply}");
    let remaining = list_files(home.path()).into_iter().filter(|file| file != ".bash_history");
    assert_eq!(remaining.collect::<Vec<_>>(), before);
    assert!(uninstall(&home, &["--purge"]).expect_success().contains("nothing to remove"));
}

#[test]
fn remote_files_are_removed_except_those_of_other_clients() {
    let mut home = Home::new(STEPLATCH);
    let Some(remote) = RemoteHost::new(&mut home) else { return };
    let output = home.run(&["hosts", "add", "build", "--ssh", "box", "--install"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let agent = Agent::new(&home);
    let terminal = agent.call_tool("open_terminal", json!({"host": "build"}));
    assert_eq!(terminal["success"], true, "{terminal}");
    drop(agent);
    let list = uninstall(&home, &["--dry-run"]).expect_success();
    assert!(list.contains("files on build") && list.contains("box, closes 1 terminal"), "{list}");

    // Another client uses the same host and the same program.
    let other_client_dir = remote.home_dir.path().join(".local/state/steplatch/hosted/another");
    fs::create_dir(&other_client_dir).unwrap();
    remote.chown_home();
    uninstall(&home, &["--yes"]).expect_success();
    let remote_files = |path: &str| list_files(&remote.home_dir.path().join(path));
    assert_eq!(remote_files(".local/state/steplatch"), [] as [String; 0]);
    assert!(remote_files(".local/share/steplatch/bin").iter().any(|file| file.ends_with("/steplatch")));

    fs::remove_dir(&other_client_dir).unwrap();
    uninstall(&home, &["--yes"]).expect_success();
    assert!(!remote.home_dir.path().join(".local/share/steplatch").exists());
    assert!(!remote.home_dir.path().join(".local/state/steplatch").exists());
}

#[test]
fn unit_of_systemd_is_written_and_removed() {
    let mut home = Home::new(STEPLATCH);
    let bin = home.path().join("bin");
    fs::create_dir(&bin).unwrap();
    let log = home.path().join("systemctl.log");
    // A user manager that runs once the file exists.
    let systemctl = format!(
        "#!/bin/sh\n[ -e {0}/manager ] || exit 1\necho \"$*\" >> {1}\n[ ! -e {0}/broken ] || {{ echo no bus >&2; exit 1; }}\n",
        home.path().display(),
        log.display()
    );
    write_program(&bin.join("systemctl"), &systemctl);
    home.set("PATH", &format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    let unit = home.path().join(".config/systemd/user/steplatch.service");

    let printed = home.run(&["daemon", "enable", "--print"]).expect_success();
    assert!(!unit.exists());
    let enabled = home.run(&["daemon", "enable"]);
    assert!(enabled.code == 0 && enabled.stderr.contains("no user manager of systemd runs here"), "{enabled:?}");
    assert_eq!(fs::read_to_string(&unit).unwrap(), printed);
    assert!(!log.exists());
    home.run(&["daemon", "disable"]).expect_success();
    assert!(!unit.exists());
    assert!(home.run(&["daemon", "disable"]).stderr.contains("the daemon is not enabled"));

    fs::write(home.path().join("manager"), "").unwrap();
    home.run(&["daemon", "enable"]).expect_success();
    home.run(&["daemon", "enable"]).expect_success();
    let commands = fs::read_to_string(&log).unwrap();
    assert!(commands.ends_with("daemon-reload\n--user enable --now steplatch.service\n"), "{commands}");
    fs::write(home.path().join("broken"), "").unwrap();
    // A manager that answers no longer is none; the file is written all the same.
    let unmanaged = home.run(&["daemon", "enable"]);
    assert!(unmanaged.stderr.contains("no user manager"), "{unmanaged:?}");
    fs::remove_file(home.path().join("broken")).unwrap();
    let listed = home.run(&["uninstall", "--dry-run"]).expect_success();
    assert!(listed.contains("service of systemd"), "{listed}");
    home.run(&["uninstall", "--yes"]).expect_success();
    assert!(!unit.exists());
    assert!(fs::read_to_string(&log).unwrap().contains("--user disable --now steplatch.service\n"));

    fs::write(&unit, "[Service]\nExecStart=/opt/mine\n").unwrap();
    let refused = home.run(&["daemon", "enable"]);
    assert!(refused.code == 2 && refused.stderr.contains("exists and was not written by this command"), "{refused:?}");
    assert!(home.run(&["daemon", "disable"]).stderr.contains("was not written by this command, and stays"));
    assert_eq!(fs::read_to_string(&unit).unwrap(), "[Service]\nExecStart=/opt/mine\n");
    assert!(!home.run(&["uninstall", "--dry-run"]).stdout.contains("service of systemd"));
}
