//! Menus of real prompt libraries: each reply has its question, and a captured answer never chooses another entry.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use serde_json::{Value, json};

use crate::clients::{installed_path, node_program};
use crate::field::ways::{COMMAND_TIMEOUT, Failures, Field};

/// A script with questions, and a person's answers.
struct Menu {
    name: &'static str,
    script: (&'static str, &'static str),
    /// A part of each question, and the text or the keys of its answer.
    answers: &'static [(&'static str, Answer)],
    /// Expected content of the file `chosen`.
    chosen: &'static str,
    /// Parts of the script with replacements that must stop the captured workflow.
    changes: &'static [(&'static str, &'static str)],
}

enum Answer {
    Text(&'static str),
    Keys(&'static [&'static str]),
}

use Answer::{Keys, Text};

/// The answers to the same wizard in each prompt library.
const ANSWERS: &[(&str, Answer)] = &[
    ("Project name?", Text("shop\n")),
    ("Where to?", Keys(&["down", "enter"])),
    ("Features?", Keys(&["down", "space", "enter"])),
    ("Go on?", Text("y\n")),
];

/// Changes to the scripts of that wizard.
const CHANGES: &[(&str, &str)] = &[
    ("Project name?", "Delete which project?"),
    ("'staging', 'prod'", "'prod', 'staging'"),
    ("'dev', 'staging'", "'dev', 'wipe', 'staging'"),
    ("'api', 'web'", "'api', 'reset', 'web'"),
    ("Go on?", "Erase all?"),
];

/// The table of menus.
const MENUS: &[Menu] = &[
    Menu {
        name: "inquirer 8",
        script: (
            "menu.cjs",
            "const ask = require('inquirer').prompt;
ask([{type: 'input', name: 'n', message: 'Project name?'},
     {type: 'list', name: 'w', message: 'Where to?', choices: ['dev', 'staging', 'prod']},
     {type: 'checkbox', name: 'f', message: 'Features?', choices: ['api', 'web', 'docs']},
     {type: 'confirm', name: 'g', message: 'Go on?'}])
  .then(a => require('fs').writeFileSync('chosen', [a.n, a.w, a.f, a.g].join(' ')));
",
        ),
        answers: ANSWERS,
        chosen: "shop staging web true",
        changes: CHANGES,
    },
    Menu {
        name: "@inquirer/prompts",
        script: (
            "menu.mjs",
            "import {input, select, checkbox, confirm} from '@inquirer/prompts'; import fs from 'fs';
const choices = texts => texts.map(value => ({value}));
const n = await input({message: 'Project name?'});
const w = await select({message: 'Where to?', choices: choices(['dev', 'staging', 'prod'])});
const f = await checkbox({message: 'Features?', choices: choices(['api', 'web', 'docs'])});
const g = await confirm({message: 'Go on?'});
fs.writeFileSync('chosen', [n, w, f, g].join(' '));
",
        ),
        answers: ANSWERS,
        chosen: "shop staging web true",
        changes: CHANGES,
    },
    Menu {
        name: "@clack/prompts",
        script: (
            "menu.mjs",
            "import * as p from '@clack/prompts'; import fs from 'fs';
const options = texts => texts.map(value => ({value, label: value}));
p.intro('hello');
const n = await p.text({message: 'Project name?', placeholder: 'demo'});
const w = await p.select({message: 'Where to?', options: options(['dev', 'staging', 'prod'])});
const f = await p.multiselect({message: 'Features?', options: options(['api', 'web', 'docs'])});
const g = await p.confirm({message: 'Go on?'});
fs.writeFileSync('chosen', [n, w, f, g].join(' '));
p.outro('bye');
",
        ),
        answers: &[
            ("Project name?", Text("shop\n")),
            ("Where to?", Keys(&["down", "enter"])),
            ("Features?", Keys(&["down", "space", "enter"])),
            ("Go on?", Keys(&["enter"])),
        ],
        chosen: "shop staging web true",
        changes: CHANGES,
    },
    Menu {
        name: "fzf",
        script: ("menu.sh", "printf 'dev\\nstaging\\nprod\\n' | fzf --height 8 > chosen\n"),
        answers: &[("3/3", Keys(&["up", "enter"]))],
        chosen: "staging\n",
        changes: &[("staging\\nprod", "prod\\nstaging"), ("dev\\nstaging", "dev\\nwipe\\nstaging"), ("dev\\n", "")],
    },
];

impl Menu {
    fn check(&self, field: &Field, failures: &mut Failures) {
        let directory = field.create_directory(&format!("menu-{}", self.name.replace(['/', ' ', '@'], "-")));
        symlink(installed_path(Path::new("prompts/node_modules")), directory.join("node_modules")).unwrap();
        let write = |text: &str| fs::write(directory.join(self.script.0), text).unwrap();
        let chosen = || fs::read_to_string(directory.join("chosen")).unwrap_or_default();
        write(self.script.1);
        let program = if self.script.0.ends_with("sh") { "sh".into() } else { node_program() };
        let session = field.open(json!({"shell": "bash", "working_directory": directory}));
        let line = format!("{} {}\n", program.display(), self.script.0);
        let mut reply = field.call_tool(
            "send_input",
            json!({"session_id": session, "input_text": line, "until": "input", "timeout": COMMAND_TIMEOUT}),
        );
        for (number, (question, answer)) in self.answers.iter().enumerate() {
            let screen = reply["screen_content"].as_str().unwrap_or_default();
            if reply["waited"]["reason"] != "input" || !screen.contains(question) {
                return failures.add(format!("{} / {question}: {reply}", self.name));
            }
            let until = if number + 1 == self.answers.len() { "prompt" } else { "input" };
            let mut input = json!({"session_id": session, "until": until, "timeout": COMMAND_TIMEOUT});
            match answer {
                Text(text) => input["input_text"] = (*text).into(),
                Keys(keys) => input["keys"] = json!(keys),
            }
            reply = field.call_tool("send_input", input);
        }
        if reply["waited"]["reason"] != "prompt" || reply["exit_code"] != 0 || chosen() != self.chosen {
            return failures.add(format!("{}: {:?}, {reply}", self.name, chosen()));
        }
        let capture = field.call_tool("capture_workflow", json!({"session_ids": [session], "name": "again"}));
        let definition = &capture["workflow_definition"];
        let status = run(field, definition);
        if status != "completed" || chosen() != self.chosen {
            failures.add(format!("{} / captured: {status}, {:?}: {definition:#}", self.name, chosen()));
        }
        for (part, other) in self.changes {
            let changed = self.script.1.replacen(part, other, 1);
            assert_ne!(changed, self.script.1, "{} / {part}", self.name);
            write(&changed);
            fs::remove_file(directory.join("chosen")).unwrap();
            let status = run(field, definition);
            if status == "completed" || !chosen().is_empty() {
                failures.add(format!("{} / {other}: {status}, {:?}: {definition:#}", self.name, chosen()));
            }
            fs::write(directory.join("chosen"), "").unwrap();
        }
    }
}

/// Runs a definition until it ends or waits at a gate and returns its status.
fn run(field: &Field, definition: &Value) -> String {
    let result = field.call_tool(
        "run_workflow",
        json!({"workflow_definition": definition, "wait_seconds": 2.0 * COMMAND_TIMEOUT, "save_on_success": false}),
    );
    if result["status"] == "waiting" {
        field.call_tool("cancel_run", json!({"run_id": result["run_id"]}));
    }
    result["status"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn captured_answers_replay_every_library_menu() {
    let field = Field::new();
    Failures::check_rows(MENUS, |menu, failures| menu.check(&field, failures));
}
