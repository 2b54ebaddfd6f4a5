//! Clicks, drags and turns of the wheel by label, as an agent, as a machine and on the command line.

use std::fs;

use serde_json::json;
use steplatch_testkit::{Agent, Home};

const STEPLATCH: &str = env!("CARGO_BIN_EXE_steplatch");

/// Draws buttons on a full screen, requests the mouse in the mode of its argument, prints each event, and ends at Quit.
const BUTTONS: &str = r#"
import re, sys, termios, tty
old = termios.tcgetattr(0)
tty.setraw(0)
modes = sys.argv[1] if len(sys.argv) > 1 else "1002"
out = lambda text: (sys.stdout.write(text), sys.stdout.flush())
out(f"\x1b[?1049h\x1b[2J\x1b[?{modes}h\x1b[?1006h\x1b[2;3H[ Save ]  [ Save all ]  <Quit>\x1b[4;3HOne  Two  One")
pending = ""
while True:
    pending += sys.stdin.read(1)
    event = re.search(r"\x1b\[<(\d+);(\d+);(\d+)([Mm])", pending)
    if not event:
        continue
    pending = ""
    button, col, row = (int(event.group(n)) for n in (1, 2, 3))
    out(f"\x1b[8;1H\x1b[Kbutton {button}{event.group(4)} at {row - 1},{col - 1}")
    if row == 2 and 27 <= col <= 32 and event.group(4) == "m":
        break
out(f"\x1b[?1006l\x1b[?{modes}l\x1b[?1049l")
termios.tcsetattr(0, termios.TCSADRAIN, old)
print("done")
"#;

#[test]
fn label_is_clicked_once_it_is_unique_and_the_click_is_captured() {
    let home = Home::new(STEPLATCH);
    fs::write(home.path().join("buttons.py"), BUTTONS).unwrap();
    let agent = Agent::new(&home);
    let open = |command: serde_json::Value| {
        let opened = agent.call_tool("open_terminal", json!({"command": command, "working_directory": home.path()}));
        opened["session_id"].as_str().unwrap().to_owned()
    };
    let begin = |session: &str, modes: &str| {
        let line = format!("python3 buttons.py {modes}\n");
        let input = json!({"session_id": session, "input_text": line, "pattern": "Quit", "timeout": 30});
        let reply = agent.call_tool("send_input", input);
        assert_eq!(reply["waited"]["reason"], "match", "{reply}");
    };
    let click = |session: &str, mouse: serde_json::Value, answer: &str| {
        let arguments = json!({"session_id": session, "mouse": mouse, "pattern": answer, "timeout": 30});
        let reply = agent.call_tool("send_input", arguments);
        assert_eq!(reply["waited"]["reason"], "match", "{mouse}: {reply}");
    };
    let refused = |session: &str, arguments: serde_json::Value, reason: &str| {
        let mut input = json!({"session_id": session});
        input.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        let answer = agent.begin("send_input", input).answer();
        let text = answer["result"].to_string();
        assert!(answer["result"]["isError"] == true && text.contains(reason), "{arguments}: {answer}");
    };

    let session = open(json!(["bash"]));
    begin(&session, "1002");
    click(&session, json!({"click": "Save"}), "button 0m at 1,5");
    click(&session, json!({"click": "Save all", "button": "right"}), "button 2m at 1,1");
    click(&session, json!({"click": "Two", "drag_to": {"row": 5, "column": 9}}), "button 0m at 5,9");
    click(&session, json!({"wheel": -1}), "button 64M");
    refused(&session, json!({"mouse": {"click": "One"}}), "is on the screen 2 times");
    refused(&session, json!({"mouse": {"click": "all"}}), "only as a part of '[ Save all ]'");
    refused(&session, json!({"mouse": {"click": "Open"}}), "is not on the screen now");
    refused(&session, json!({"mouse": {"click": {"row": 200, "column": 0}}}), "is not a cell");
    refused(&session, json!({"keys": ["f10", "click:Save"]}), "needs an input of its own");
    refused(&session, json!({"mouse": {"click": "Save", "wheel": 1}}), "mouse is one of");
    // The same on the command line.
    home.run(&["terminal", "send", &session, "--key", "click:Save all"]).expect_success();
    click(&session, json!({"click": "Quit"}), "done");
    refused(&session, json!({"mouse": {"click": "Quit"}}), "reads no mouse now");

    let captured =
        agent.call_tool("capture_workflow", json!({"session_ids": [session], "name": "press", "save": true}));
    let states = captured["workflow_definition"]["states"].to_string();
    for keys in [json!(["right-click:Save all"]), json!(["press:Two", "drag@5,9", "release@5,9"]), json!(["wheel-up"])]
    {
        assert!(states.contains(&keys.to_string()), "{keys}: {captured}");
    }
    let run = agent.call_tool("run_workflow", json!({"workflow_name": "press", "wait_seconds": 60}));
    assert_eq!(run["status"], "completed", "{run}");

    // A program that reads clicks only.
    let session = open(json!(["bash"]));
    begin(&session, "1000");
    refused(&session, json!({"mouse": {"click": "Two", "drag_to": "Save"}}), "no drags");
    click(&session, json!({"click": "Two"}), "button 0m at 3,8");
}

#[test]
fn selected_row_of_a_menu_drawn_in_place_is_highlighted() {
    const MENU: &str = r#"
import sys, termios, tty
items, chosen = ["apple", "pear", "plum"], 0
old = termios.tcgetattr(0)
tty.setcbreak(0)
print(sys.argv[2] + "Fruit?")
def draw():
    for number, item in enumerate(items):
        sys.stdout.write((sys.argv[1] if number == chosen else "") + item + "\x1b[0m\x1b[K\n")
    sys.stdout.flush()
draw()
while (key := sys.stdin.read(1)) == "j":
    chosen += 1
    sys.stdout.write("\x1b[3A")
    draw()
termios.tcsetattr(0, termios.TCSADRAIN, old)
print("\x1b[?25hgot", items[chosen])
"#;
    let home = Home::new(STEPLATCH);
    fs::write(home.path().join("menu.py"), MENU).unwrap();
    let agent = Agent::new(&home);
    let opened = agent.call_tool("open_terminal", json!({"command": ["bash"], "working_directory": home.path()}));
    let send = |arguments: serde_json::Value| {
        let mut input = json!({"session_id": opened["session_id"], "until": "prompt", "timeout": 30});
        input.as_object_mut().unwrap().extend(arguments.as_object().unwrap().clone());
        let reply = agent.call_tool("send_input", input);
        let highlighted = reply["highlighted"].as_array().cloned().unwrap_or_default();
        highlighted.iter().map(|part| part["text"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    // Reversed, in a colour of its own without a cursor, and on another background.
    for (style, before) in [(r"\e[7m", ""), (r"\e[36m", r"\e[?25l"), (r"\e[44m", "")] {
        let line = format!("python3 menu.py $'{style}' $'{before}'\n");
        assert_eq!(send(json!({"input_text": line})), ["apple"], "{style}");
        assert_eq!(send(json!({"input_text": "j", "until": "input"})), ["pear"], "{style}");
        assert!(send(json!({"keys": ["enter"]})).is_empty(), "{style}");
    }
    // Older output is no highlight of the program that runs now.
    assert!(send(json!({"input_text": "python3 -q\n"})).is_empty());
}
