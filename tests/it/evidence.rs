//! Recordings of what a terminal has shown, made after the fact.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

const SECRET: &str = "correct-horse-battery";

#[test]
fn what_a_terminal_has_shown_is_written_in_three_formats_without_secrets() {
    let home = Home::new(STEPLATCH);
    let directory = home.path().join(".config/steplatch");
    fs::create_dir_all(&directory).unwrap();
    let token = home.path().join("token");
    fs::write(&token, SECRET).unwrap();
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).unwrap();
    let settings = format!("[secrets.TOKEN]\nfrom = \"file:{}\"\n", token.display());
    fs::write(directory.join("config.toml"), settings).unwrap();
    let agent = Agent::new(&home);
    let opened = agent.call_tool("open_terminal", json!({"shell": "bash", "working_directory": home.path()}));
    let session = opened["session_id"].as_str().unwrap();
    let run = |line: &str| {
        let input = json!({"session_id": session, "input_text": format!("{line}\n"), "until": "prompt", "timeout": 30});
        let reply = agent.call_tool("send_input", input);
        assert_eq!(reply["waited"]["reason"], "prompt", "{reply}");
    };
    run("echo first");
    // In two pieces, of which the second begins with a sequence.
    run("token='{secret:TOKEN}'; printf '%s' ${token:0:9}; printf '\\e[m%s\\n' ${token:9}");
    run("printf '\\e[1;32m<b>\"green\"</b>&\\e[m\\n'");
    let record = |arguments: Value| {
        let mut call = json!({"session_id": session});
        call.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        agent.begin("record_terminal", call).answer()["result"]["structuredContent"].clone()
    };
    for format in ["apng", "svg", "cast"] {
        let path = home.path().join(format!("all.{format}"));
        let reply = record(json!({"path": path, "format": format}));
        assert!(reply["success"] == true && reply["is_cut"].is_null(), "{format}: {reply}");
        let bytes = fs::read(&path).unwrap();
        assert_eq!(reply["file"]["size"], bytes.len(), "{format}");
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains(SECRET) && !text.contains("horse"), "{format}");
        match format {
            "apng" => assert!(bytes.starts_with(b"\x89PNG") && text.contains("acTL")),
            "svg" => assert!(text.contains("&lt;b&gt;&quot;green&quot;&lt;/b&gt;&amp;") && text.contains("echo first")),
            _ => assert!(text.starts_with("{\"version\":3") && text.contains("echo first") && text.contains("•••")),
        }
    }
    // The last command only, on the command line.
    let last = home.path().join("last.svg");
    let printed = home.run(&["terminal", "record", session, last.to_str().unwrap(), "--commands", "1"]);
    printed.expect_success();
    assert!(fs::read_to_string(&last).unwrap().contains("green"));

    let exists = home.path().join("token");
    for (arguments, reason) in [
        (json!({"path": exists, "format": "svg"}), "exists"),
        (json!({"path": "a.svg", "format": "svg", "max_bytes": 100}), "and max_bytes is 100"),
        (json!({"path": "a.svg", "commands": 99}), "has 3 commands"),
        (json!({"path": "a.svg", "commands": 1, "since": 5}), "not both"),
        (json!({"path": "a.svg", "since": -1}), "since"),
    ] {
        let mut call = json!({"session_id": session});
        call.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        let answer = agent.begin("record_terminal", call).answer();
        assert!(answer["result"]["isError"] == true, "{arguments}: {answer}");
        assert!(answer["result"].to_string().contains(reason), "{arguments}: {answer}");
    }
    assert!(!home.path().join("a.svg").exists());
    assert_eq!(fs::read_to_string(exists).unwrap(), SECRET);
    let _ = agent.call_tool("exit_terminal", json!({"session_id": session}));
    let reply = record(json!({"path": "closed.png"}));
    assert!(reply["error"].as_str().unwrap().contains("not found"), "{reply}");
}
