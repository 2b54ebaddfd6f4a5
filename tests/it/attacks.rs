//! Attacks on gates for people with an agent's means, on the real binary. Every known way to impersonate a person is a
//! row here.

use serde_json::{Value, json};
use steplatch_testkit::{Agent, Home, eventually_blocking};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// A home with an attacking agent.
struct Scene {
    agent: Agent,
    home: Home,
    socket: String,
}

impl Scene {
    fn new() -> Self {
        let home = Home::new(STEPLATCH);
        let agent = Agent::new(&home);
        std::fs::write(home.path().join("attack.py"), include_str!("attacks.py")).unwrap();
        let status = home.run(&["daemon", "start", "--json"]);
        assert_eq!(status.code, 0, "{status:?}");
        let status = home.run(&["daemon", "status", "--json"]).json();
        Self { agent, socket: status["socket"].as_str().unwrap().to_owned(), home }
    }

    /// Starts a run with a gate for `answered_by` and returns its id.
    fn start_gate_run(&self, answered_by: &str) -> String {
        let gate = json!({"prompt": "Release?", "choices": ["yes", "no"], "answered_by": answered_by});
        let machine = json!({"name": "asking", "initial_state": "ask", "states": {"ask": {"action": {"tool": "gate", "params": gate}}}});
        let arguments = json!({"workflow_definition": machine, "wait_seconds": 60, "save_on_success": false});
        let waiting = self.agent.call_tool("run_workflow", arguments);
        assert_eq!(waiting["status"], "waiting", "{waiting:#}");
        waiting["run_id"].as_str().unwrap().to_owned()
    }

    /// Types a command in a new terminal of the agent. The terminal stays open.
    fn type_command(&self, command: &str) {
        let terminal = self.agent.call_tool("open_terminal", json!({"shell": "bash"}));
        let input = json!({"session_id": terminal["session_id"], "input_text": format!("{command}\n")});
        let reply = self.agent.call_tool("send_input", input);
        assert_eq!(reply["success"], true, "{reply}");
    }

    fn state(&self, run: &str) -> Value {
        self.agent.call_tool("get_run", json!({"run_id": run}))["status"].clone()
    }

    /// Returns the shell command of an attack on the socket, and the file of its reply.
    fn attack(&self, way: &str, command: &str, params: &Value) -> (String, std::path::PathBuf) {
        self.attack_at(way, &self.socket, command, params)
    }

    fn attack_at(&self, way: &str, at: &str, command: &str, params: &Value) -> (String, std::path::PathBuf) {
        let reply = self.home.path().join(format!("{}.reply", way.replace(' ', "-")));
        let _ = std::fs::remove_file(&reply);
        let script = self.home.path().join("attack.py");
        let words = [script.to_str().unwrap(), way, at, command, &params.to_string(), reply.to_str().unwrap()];
        let quoted: Vec<String> = words.iter().map(|word| format!("'{word}'")).collect();
        (format!("python3 {}", quoted.join(" ")), reply)
    }
}

/// Waits for the reply of an attack.
fn read_reply(file: &std::path::Path) -> Value {
    let text = eventually_blocking(&format!("the reply in {}", file.display()), || std::fs::read_to_string(file));
    serde_json::from_str(&text).unwrap()
}

/// Attacks that need only a terminal.
const TERMINAL_ATTACKS: [&str; 6] =
    ["plainly", "handed on", "without a trace", "far below", "below one that has ended", "without its host"];

/// The messages to a caller that is not treated as a person.
const REFUSALS: [&str; 3] = ["in a terminal that steplatch keeps", "was started by steplatch", "is unknown"];

fn is_refused(reply: &Value) -> bool {
    let error = reply["error"].as_str().unwrap_or_default();
    reply["success"] == false && REFUSALS.iter().any(|refusal| error.contains(refusal))
}

#[test]
fn agent_terminal_cannot_answer_a_persons_gate() {
    let scene = Scene::new();
    let run = scene.start_gate_run("human");
    for way in TERMINAL_ATTACKS {
        let (attack, file) = scene.attack(way, "ANSWER_GATE", &json!({"run_id": run, "answer": "yes"}));
        scene.type_command(&attack);
        let reply = read_reply(&file);
        assert!(is_refused(&reply), "{way}: {reply}");
        assert_eq!(scene.state(&run), "waiting", "{way}");
    }
}

#[test]
fn cli_and_dialog_refuse_answers_from_agent_terminals() {
    let scene = Scene::new();
    let run = scene.start_gate_run("human");
    let gate = format!("{run}/ask/1");
    let surfaces = [
        ("by command", json!({"words": ["gates", "answer", gate, "yes"]})),
        ("by command", json!({"words": ["gates", "answer", run, "yes", "--json"]})),
        ("by a dialog", json!({"run_id": run})),
    ];
    for (way, params) in surfaces {
        let (attack, file) = scene.attack_at(way, STEPLATCH, "", &params);
        scene.type_command(&attack);
        let reply = read_reply(&file);
        assert!(is_refused(&reply), "{way} {params}: {reply}");
        assert_ne!(reply["asked"], false, "the dialog was shown: {reply}");
        assert_eq!(scene.state(&run), "waiting", "{way}");
    }
}

#[test]
fn agent_terminal_cannot_set_a_passphrase() {
    let scene = Scene::new();
    for way in ["plainly", "handed on", "without a trace", "below one that has ended"] {
        let (attack, file) = scene.attack(way, "SET_APPROVER", &json!({"passphrase": "of an agent"}));
        scene.type_command(&attack);
        let reply = read_reply(&file);
        assert!(reply["error"].as_str().unwrap().contains("is set by a person"), "{way}: {reply}");
    }
    assert_eq!(scene.home.run(&["approver", "status", "--json"]).json()["is_set"], false);
}

#[test]
fn process_started_by_a_node_cannot_answer_for_a_person() {
    let scene = Scene::new();
    let run = scene.start_gate_run("human");
    for way in ["plainly", "handed on", "without a trace"] {
        let (attack, file) = scene.attack(way, "ANSWER_GATE", &json!({"run_id": run, "answer": "yes"}));
        std::fs::write(scene.home.path().join("attack.sh"), attack).unwrap();
        let story = scene.home.path().join("story.py");
        let text = "async def story(ctx):\n    return (await ctx.run('attack'))['output']\n\
                    BashNode(id='attack', session=session, command='sh attack.sh')\nWorkflow(id='story', session=session, fn=story)\n";
        std::fs::write(&story, text).unwrap();
        let result = scene
            .agent
            .call_tool("run_workflow", json!({"workflow_file": story.display().to_string(), "wait_seconds": 60}));
        assert_eq!(result["status"], "completed", "{result}");
        let reply = read_reply(&file);
        assert!(is_refused(&reply), "{way}: {reply}");
    }
    assert_eq!(scene.state(&run), "waiting");
}

#[test]
fn answer_is_attributed_to_its_real_author() {
    let scene = Scene::new();
    let run = scene.start_gate_run("anyone");
    let (attack, file) = scene.attack("plainly", "ANSWER_GATE", &json!({"run_id": run, "answer": "yes"}));
    scene.type_command(&attack);
    assert_eq!(read_reply(&file)["success"], true);
    let events = scene.home.run(&["runs", "events", &run, "--json"]).expect_success();
    let events = events.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let event = events.into_iter().find(|event| event["event_type"] == "gate_answered").unwrap();
    assert_eq!(event["data"]["by"], "a program in a kept terminal", "{event}");
    let through = event["data"]["through"].as_str().unwrap();
    assert!(through.starts_with("cli (python3"), "{event}");
}
