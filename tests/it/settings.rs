//! Changes of the settings file while the daemon runs.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use steplatch_testkit::{Home, eventually_blocking};

/// Returns a home with a running daemon, and the path of its settings file. The file does not exist.
fn running_home() -> (Home, PathBuf) {
    let home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
    home.run(&["daemon", "start"]).expect_success();
    let file = home.path().join(".config/steplatch/config.toml");
    (home, file)
}

/// Returns the daemon's log.
fn read_log(home: &Home) -> String {
    let socket = home.run(&["daemon", "status", "--json"]).json()["socket"].as_str().unwrap().to_owned();
    fs::read_to_string(PathBuf::from(socket).with_file_name("daemon.log")).unwrap()
}

/// Waits until the daemon has logged `part`.
fn wait_for_log(home: &Home, part: &str) {
    eventually_blocking(&format!("'{part}' is in the log"), || {
        let log = read_log(home);
        if log.contains(part) { Ok(()) } else { Err(log) }
    });
}

#[test]
fn changed_file_applies_while_the_daemon_runs() {
    let (home, file) = running_home();
    // Neither the file nor its directory existed when the daemon started.
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "daemon.log = 'info'\n").unwrap();
    wait_for_log(&home, "daemon.log changed and is applied");
    // Replaced by a new file, as by editors.
    let new_file = file.with_extension("new");
    fs::write(&new_file, "daemon.log = 'info'\ntools.library = true\nruns.days = 3\n").unwrap();
    fs::rename(&new_file, &file).unwrap();
    wait_for_log(&home, "tools.library changed and is applied");
    wait_for_log(&home, "runs.days changed and is applied by the next start: steplatch daemon restart");
    let service = |url: &str| format!("daemon.log = 'info'\n[[remote]]\nname = 'flows'\nbase_url = '{url}'\n");
    fs::write(&file, service("https://flows.example.com")).unwrap();
    wait_for_log(&home, "remote 'flows' was added");
    fs::write(&file, service("https://flows.example.org")).unwrap();
    wait_for_log(&home, "remote 'flows' changed and is applied");
    // The daemon applies a change shortly after logging it.
    eventually_blocking("the new address is listed", || {
        let list = home.run(&["remote", "list", "--json"]).json();
        if list["remotes"][0]["base_url"] == "https://flows.example.org" { Ok(()) } else { Err(list) }
    });
    fs::remove_file(&file).unwrap();
    // The filter of logs is the default again, so the removal of a service is not logged.
    let settings = home.run(&["config", "show", "--json"]).json();
    assert!(settings.get("remote.flows.base_url").is_none(), "{settings}");
}

#[test]
fn services_are_shown_without_their_tokens() {
    let home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
    let file = home.path().join(".config/steplatch/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    let secret = home.path().join("secret");
    fs::write(&secret, "sk-very-secret\n").unwrap();
    let service = |name: &str, token: &str| {
        format!("[[remote]]\nname = '{name}'\nenabled = true\nbase_url = 'https://a.example.com'\ntoken = '{token}'\n")
    };
    let token_reference = format!("file:{}", secret.display());
    fs::write(&file, service("kept", &token_reference) + &service("lost", "env:NO_SUCH_TOKEN_HERE")).unwrap();
    let output = home.run(&["config", "show", "--json"]);
    let settings = output.json();
    assert_eq!(settings["remote.kept.token"]["value"], token_reference.as_str());
    assert_eq!(settings["remote.kept.token"]["resolves"], true);
    assert_eq!(settings["remote.lost.token"]["resolves"], false);
    assert_eq!(settings["remote.lost.token"]["origin"], file.display().to_string());
    assert_eq!(settings["remote.lost.retry_attempts"]["origin"], "default");
    let text_output = home.run(&["config", "show"]);
    assert!(text_output.stdout.contains("env:NO_SUCH_TOKEN_HERE (missing)"), "{text_output:?}");
    let check_output = home.run(&["config", "check"]);
    assert!(check_output.code == 2 && check_output.stderr.contains("remote.lost.token: "), "{check_output:?}");
    fs::write(&file, service("clear", "sk-very-secret")).unwrap();
    let refusal = home.run(&["config", "show"]);
    assert!(refusal.code == 2 && refusal.stderr.contains("must be env:NAME, file:PATH, keyring:NAME, secret-tool:ATTRIBUTE VALUE …, pass:NAME or command:PROGRAM ARGUMENT …"), "{refusal:?}");
    for output in [output, text_output, check_output, refusal] {
        assert!(!format!("{output:?}").contains("sk-very-secret"), "{output:?}");
    }
}

#[test]
fn invalid_file_is_logged_once_and_changes_nothing() {
    let (home, file) = running_home();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "daemon.log = 'info'\ntools.library = 'perhaps'\n").unwrap();
    let complaint = "the settings were not changed: ";
    wait_for_log(&home, complaint);
    wait_for_log(&home, "tools.library must be true or false, not perhaps");
    fs::write(&file, "daemon.log = 'info'\ntools.library = 'perhaps' # not sure\n").unwrap();
    fs::write(&file, "daemon.log = 'info'\ntools.library = true\n").unwrap();
    wait_for_log(&home, "tools.library changed and is applied");
    assert_eq!(read_log(&home).matches(complaint).count(), 1, "{}", read_log(&home));
}

#[test]
fn settings_are_reread_on_request() {
    let (home, file) = running_home();
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "daemon.log = 'info'\nno_such_setting = 1\n").unwrap();
    wait_for_log(&home, "'no_such_setting' is not a setting");
    let pid = home.run(&["daemon", "status", "--json"]).json()["pid"].to_string();
    assert!(Command::new("kill").args(["-HUP", &pid]).status().unwrap().success());
    wait_for_log(&home, "the settings were read again");
}

#[test]
fn daemon_does_not_start_with_invalid_settings() {
    let home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
    let file = home.path().join(".config/steplatch/config.toml");
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, "terminals.max = 0\ntools.library = 'perhaps'\n").unwrap();
    let output = home.run(&["daemon", "start"]);
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stderr.contains("terminals.max must be a whole number from 1 to 10000, not 0"), "{output:?}");
    assert!(output.stderr.contains("tools.library must be true or false, not perhaps"), "{output:?}");
}

#[test]
fn setting_disables_the_log_of_inputs() {
    for (value, entries) in [("true", 1), ("false", 0)] {
        let home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
        let open = ["terminal", "open", "--name", "work", "--json", "--", "cat"];
        // The first command starts the daemon, and the daemon starts the host.
        let output = home.steplatch().env("STEPLATCH_TERMINALS_LOG_INPUTS", value).args(open).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        home.run(&["terminal", "send", "work", "hello", "-e"]).expect_success();
        let is_typed = |input: &&serde_json::Value| input["kind"] == "typed";
        let log = home.run(&["terminal", "inputs", "work", "--json"]).json();
        assert_eq!(log["inputs"].as_array().unwrap().iter().filter(is_typed).count(), entries, "{log}");
    }
}
