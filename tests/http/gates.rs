//! Who answers a gate over HTTP.

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::client::{Serving, asking};

fn gate(serving: &Serving, run: &str) -> String {
    let waiting = serving.waits_for(run);
    assert_eq!(waiting["status"], "waiting", "{waiting}");
    let id = waiting["pending_gate"]["gate_id"].as_str().unwrap();
    let escape = |byte: u8| match byte {
        byte if byte.is_ascii_alphanumeric() || byte == b'_' => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    };
    format!("/api/v1/runs/{run}/gates/{}", id.bytes().map(escape).collect::<String>())
}

#[test]
fn who_has_the_token_answers_what_anyone_may() {
    let serving = Serving::new();
    let run = serving.starts(&asking("anyone"));
    let gate = gate(&serving, &run);
    let (status, wrong) = serving.posts(&gate, json!({"answer": "perhaps"}));
    assert_eq!((status, &wrong["misread"]), (422, &json!(true)), "{wrong}");
    assert_eq!(serving.posts(&gate, json!({"answer": "yes"})).0, 200);
    assert_eq!(serving.waits_for(&run)["status"], "completed");
    let (status, late) = serving.posts(&gate, json!({"answer": "no"}));
    assert_eq!((status, &late["code"]), (409, &json!("conflict")), "{late}");
}

#[test]
fn a_gate_for_people_is_answered_with_their_passphrase_only() {
    let serving = Serving::new();
    let run = serving.starts(&asking("human"));
    let gate = gate(&serving, &run);
    let answer = |passphrase: Value| {
        let mut body = json!({"answer": "yes"});
        if !passphrase.is_null() {
            body["passphrase"] = passphrase;
        }
        serving.posts(&gate, body)
    };
    let (status, refused) = answer(Value::Null);
    assert_eq!((status, &refused["success"]), (409, &json!(false)), "the token alone is a program's: {refused}");
    assert_eq!(serving.posts(&format!("/api/v1/runs/{run}/decide"), json!({"answer": "yes"})).0, 409);
    let (status, refused) = answer(json!("anything"));
    assert_eq!(status, 409, "where none is set, none makes a person: {refused}");

    let mut set = serving.home.steplatch();
    let mut set = set.args(["approver", "set", "--stdin"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    set.stdin.take().unwrap().write_all(b"correct horse\n").unwrap();
    assert!(set.wait().unwrap().success());
    let (status, refused) = answer(Value::Null);
    assert!(status == 409 || status == 403, "{refused}");
    let (status, refused) = answer(json!("battery staple"));
    assert_eq!((status, &refused["code"]), (403, &json!("passphrase_wanted")), "{refused}");
    assert_eq!(serving.waits_for(&run)["status"], "waiting");
    // A wrong one holds up the next one, for a second at first.
    let mut taken = answer(json!("correct horse"));
    while taken.0 == 403 && taken.1["error"].as_str().unwrap().contains("looked at in") {
        taken = answer(json!("correct horse"));
    }
    assert_eq!(taken.0, 200, "{}", taken.1);
    assert_eq!(serving.waits_for(&run)["status"], "completed");
    let answered = serving.follows(&run, &[]).rest().into_iter().find(|event| event.kind == "gate_answered").unwrap();
    assert_eq!(answered.data["data"]["through"], "http", "{answered:?}");
}
