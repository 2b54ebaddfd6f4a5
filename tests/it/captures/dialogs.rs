//! Procedures with dialogs of real programs: captured from a live session without an edit, proven, and run with other
//! values.

use serde_json::json;

use super::Session;
use crate::ssh_server::{Guest, PASSWORD, Server};

#[test]
fn questions_of_npm_init_are_captured() {
    let session = Session::begin(&[]);
    session.run_command("mkdir -p pkg && cd pkg && echo '{}' > package.json");
    session.type_text("npm init\n");
    let mut reply = json!(null);
    for answer in ["shop", "1.0.0", "A shop", "", "node test.js", "", "", "Ana", "MIT"] {
        reply = session.type_text(&format!("{answer}\n"));
    }
    // Newer versions ask an additional question.
    if reply.to_string().contains("type: (") {
        session.type_text("\n");
    }
    session.send(json!({"input_text": "yes\n", "until": "prompt"}));
    let procedure = session.capture(json!({"name": "shop", "author": "Ana", "about": "A shop"}));
    procedure.assert_replays();
    procedure.prove(&["NAME=store", "AUTHOR=Bo"], &[]);
    let package_json = procedure.file("pkg/package.json");
    assert!(
        package_json.contains("\"name\": \"store\"") && package_json.contains("\"author\": \"Bo\""),
        "{package_json}"
    );
}

#[test]
fn debugger_session_to_a_crash_is_captured() {
    let code = "#include <stdlib.h>\nint at(int *p, int n) { return p[n]; }\n\
                int main(int c, char **v) { int n = atoi(v[1]); return n > 3 ? at(0, n) : 0; }\n";
    let session = Session::begin(&[("crash.c", code)]);
    session.run_command("cc -g -O0 -o crash crash.c");
    session.type_text("gdb -q crash\n");
    session.send(json!({"input_text": "run 41\n", "pattern": "received signal SIGSEGV[\\s\\S]*\\(gdb\\) *\\Z"}));
    session.type_text("print n\n");
    session.type_text("backtrace\n");
    session.type_text("quit\n");
    session.send(json!({"input_text": "y\n", "until": "prompt"}));
    let procedure = session.capture(json!({"count": "41"}));
    procedure.assert_replays();
    procedure.prove(&["COUNT=77"], &[]);
    // A program that does not crash takes another path.
    procedure.write_file("crash.c", &code.replace("n > 3", "n > 3000"));
    let run = procedure.begin(json!({"COUNT": "41"}));
    assert_eq!(run["status"], "waiting", "{run:#}");
}

#[test]
fn ssh_login_with_host_question_and_password_is_captured() {
    let server = Server::new();
    let Some(guest) = Guest::new() else { return };
    let session = Session::begin(&[]);
    session.run_command(&format!(": > {}", server.path("known_hosts")));
    session.type_text(&format!("{}\n", server.ssh(&guest.0, "")));
    session.type_text("yes\n");
    session.type_text(&format!("{PASSWORD}\n"));
    session.type_text("echo over-there-pear | tr a-z A-Z\n");
    session.send(json!({"input_text": "exit\n", "until": "prompt"}));
    let procedure = session.capture(json!({"fruit": "pear"}));
    assert_eq!(procedure.arguments()["PASSWORD"]["secret"], true, "{:#}", procedure.capture);
    procedure.assert_replays();
    procedure.prove(&["FRUIT=plum"], &[("PASSWORD", PASSWORD)]);
    procedure.assert_absent(PASSWORD);
    let run = procedure.begin(json!({"PASSWORD": "a wrong one", "FRUIT": "fig"}));
    assert_eq!(run["status"], "waiting", "a refused password stops the run: {run:#}");
}

/// Asks like debconf, in full-screen dialogs.
const DIALOGS: &str = r#"export TERM=xterm
mirror=$(whiptail --title Setup --menu "Which mirror?" 12 40 3 de Berlin fr Paris it Rome 3>&1 1>&2 2>&3) || exit 1
port=$(whiptail --title Setup --inputbox "Which port?" 10 40 3>&1 1>&2 2>&3) || exit 1
whiptail --title Setup --yesno "Start it now?" 10 40 && now=yes
echo "mirror=$mirror port=$port now=$now" > conf
"#;

#[test]
fn full_screen_dialogs_are_captured() {
    let session = Session::begin(&[("setup.sh", DIALOGS)]);
    session.send(json!({"input_text": "bash setup.sh\n", "until": "quiet"}));
    session.expect_text("Which mirror");
    session.send(json!({"keys": ["down", "enter"], "until": "quiet"}));
    session.expect_text("Which port");
    session.send(json!({"input_text": "9000\n", "until": "quiet"}));
    session.expect_text("Start it now");
    session.send(json!({"keys": ["enter"], "until": "prompt"}));
    let procedure = session.capture(json!({"port": "9000"}));
    procedure.assert_replays();
    procedure.prove(&["PORT=7777"], &[]);
    assert_eq!(procedure.file("conf"), "mirror=fr port=7777 now=yes\n");
    // The keys that once led to a moved entry must not choose another one.
    std::fs::remove_file(procedure.home.path().join("conf")).unwrap();
    procedure.write_file("setup.sh", &DIALOGS.replace("fr Paris it Rome", "it Rome fr Paris"));
    let run = procedure.begin(json!({"PORT": "7777"}));
    assert_eq!(run["status"], "waiting", "{run:#}");
    assert!(!procedure.home.path().join("conf").exists());
}

/// A build that shows its progress on one line. Each run has another speed and other sizes.
const BUILD: &str = r#"for i in 1 2 3 4 5; do printf "\r[%3d%%] compiling %s (%5d kB)" $((i * 20)) "$1" $RANDOM; sleep 0.0$((RANDOM % 5)); done
echo; echo "linked $1 in 0.$RANDOM s"
"#;

#[test]
fn build_with_a_progress_bar_is_captured() {
    let session = Session::begin(&[("build.sh", BUILD)]);
    session.run_command("bash build.sh release");
    let procedure = session.capture(json!({"target": "release"}));
    procedure.assert_replays();
    procedure.prove(&["TARGET=debug"], &[]);
    let runs = [json!({"TARGET": "release"}), json!({"TARGET": "release"}), json!({"TARGET": "debug"})];
    let runs = runs.map(|variables| procedure.run_to_completion(variables)["run_id"].as_str().unwrap().to_owned());
    let compare_with = |other: &str| {
        let request = json!({"run_id": runs[0], "compare_with": other, "detail": "brief"});
        procedure.agent.call_tool("get_run", request)["comparison"].clone()
    };
    let same = compare_with(&runs[1]);
    assert_eq!((&same["same"], &same["differences"]), (&json!(true), &json!([])), "{same:#}");
    let comparison = compare_with(&runs[2]);
    assert_eq!(comparison["same"], false, "{comparison:#}");
    assert_eq!(comparison["inputs"], json!([{"TARGET": "release"}, {"TARGET": "debug"}]), "{comparison:#}");
    let first = &comparison["differences"][0];
    assert_eq!(
        (&first["state"], &first["what"]),
        (&json!("bash_build_sh_release"), &json!("output")),
        "{comparison:#}"
    );
    let output = procedure.home.run(&["runs", "diff", &runs[0], &runs[2], "--json"]);
    assert_eq!((output.code, output.json()), (1, comparison), "{output:?}");
    let unknown = compare_with("run_aaaaaaaaaaaaaaaa");
    assert!(unknown["error"].as_str().unwrap().contains("run_aaaaaaaaaaaaaaaa"), "{unknown}");
}
