//! Skills: a captured workflow is exported, and runs elsewhere with `steplatch run` alone.

use serde_json::json;
use steplatch_testkit::{CommandOutput, Home};

use super::Session;

/// Runs the program in a home that has an empty library.
fn run_elsewhere(home: &Home, arguments: &[&str], environment: &[(&str, &str)]) -> CommandOutput {
    let mut program = home.steplatch();
    let program = program.args(arguments).envs(environment.iter().copied()).current_dir(home.path());
    CommandOutput::from_process(&program.output().unwrap())
}

#[test]
fn skill_runs_without_the_library() {
    let session = Session::begin(&[(
        "greet.sh",
        "read -p 'Name: ' n; read -s -p 'Password: ' p; echo; echo \"$n ${#p}\" > out\n",
    )]);
    session.type_text("bash greet.sh\n");
    session.type_text("Ana\n");
    session.send(json!({"input_text": "hunter2-exported\n", "until": "prompt"}));
    let procedure = session.capture(json!({"name": "Ana"}));
    let outer = json!({"name": "twice", "description": "Greets: \"two\" people", "arguments": {"OTHER": "Another name"},
        "initial_state": "both", "states": {
        "both": {"action": {"tool": "run_workflow", "params": {"workflow_name": "procedure",
                 "initial_variables": {"NAME": "{OTHER}", "PASSWORD": "1234"}}},
                 "transitions": [{"condition": "success", "next_state": "end"}]},
        "end": {"action": {"tool": "return", "params": {"result": {}}}}}});
    let reply = procedure.agent.call_tool("create_workflow", json!({"workflow_definition": outer}));
    assert_eq!(reply["success"], true, "{reply}");
    let skills = procedure.home.path().join("skills");
    let skill = skills.join("greet-people");
    let (skill_path, other_path) = (skill.to_str().unwrap(), skills.join("greet-twice"));
    let export = procedure.home.run(&["workflow", "export", "procedure", "--skill", skill_path, "--json"]).json();
    assert_eq!(
        export["files"],
        json!(["SKILL.md", "references/steps.md", "scripts/procedure.json", "scripts/procedure.golden.jsonl"])
    );
    procedure.home.run(&["workflow", "export", "twice", "--skill", other_path.to_str().unwrap()]).expect_success();

    // Nothing is replaced by accident, and an invalid name is refused with a valid suggestion.
    let repeated = procedure.home.run(&["workflow", "export", "procedure", "--skill", skill_path]);
    assert!(repeated.code == 2 && repeated.stderr.contains("--force replaces it"), "{repeated:?}");
    procedure.home.run(&["workflow", "export", "procedure", "--skill", skill_path, "--force"]).expect_success();
    let invalid = procedure.home.run(&["workflow", "export", "procedure", "--skill", "Greet_People"]);
    assert!(invalid.code == 2 && invalid.stderr.contains("such as 'greet-people'"), "{invalid:?}");
    let unknown = procedure.home.run(&["workflow", "export", "no_such", "--skill", "x"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("no_such"), "{unknown:?}");

    let text = std::fs::read_to_string(skill.join("SKILL.md")).unwrap();
    for part in ["name: greet-people\n", "-i NAME='…'", "| `PASSWORD` | required, secret |", "bash", "it never guesses"]
    {
        assert!(text.contains(part), "{part}\n{text}");
    }
    let files = ["SKILL.md", "references/steps.md", "scripts/procedure.json", "scripts/procedure.golden.jsonl"];
    for file in files {
        assert!(!std::fs::read_to_string(skill.join(file)).unwrap().contains("hunter2"), "{file}");
    }

    // Elsewhere only the file exists: the library is empty.
    let other_home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
    std::fs::copy(procedure.home.path().join("greet.sh"), other_home.path().join("greet.sh")).unwrap();
    assert_eq!(other_home.run(&["workflow", "list", "--json"]).json()["workflows"], json!([]));
    let workflow_file = skill.join("scripts/procedure.json");
    run_elsewhere(&other_home, &["workflow", "test", workflow_file.to_str().unwrap()], &[]).expect_success();
    let run = ["run", workflow_file.to_str().unwrap(), "-i", "NAME=Bo"];
    run_elsewhere(&other_home, &run, &[("PASSWORD", "12345678")]).expect_success();
    assert_eq!(std::fs::read_to_string(other_home.path().join("out")).unwrap(), "Bo 8\n");
    let twice_file = other_path.join("scripts/twice.json");
    run_elsewhere(&other_home, &["run", twice_file.to_str().unwrap(), "-i", "OTHER=Cy"], &[]).expect_success();
    assert_eq!(std::fs::read_to_string(other_home.path().join("out")).unwrap(), "Cy 4\n");
    assert_eq!(other_home.run(&["workflow", "list", "--json"]).json()["workflows"], json!([]));
}

#[test]
fn function_is_a_skill_and_missing_parts_are_named() {
    let home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
    let write = |name: &str, text: &str| std::fs::write(home.path().join(name), text).unwrap();
    let function = "async def greet(ctx):\n    \"\"\"Greets one.\"\"\"\n    said = await ctx.run(\"say\", ctx.input)\n    return said[\"output\"]\n\n\
                    BashNode(id=\"say\", session=session, command=\"echo hello {input|sh}\")\nWorkflow(id=\"greet\", session=session, fn=greet)\n";
    write("greet.py", function);
    let caller = |name: &str| json!({"name": name, "description": "Calls", "initial_state": "go", "states": {"go": {"action": {"tool": "run_workflow", "params": {"workflow_name": "greet"}}}}});
    write("caller.json", &caller("caller").to_string());
    let path_of = |name: &str| home.path().join(name).display().to_string();
    home.run(&["workflow", "load", &path_of("greet.py"), &path_of("caller.json")]).expect_success();
    let refusal = home.run(&["workflow", "export", "caller", "--skill", &path_of("call")]);
    assert!(refusal.code == 2 && refusal.stderr.contains("'greet', which is not a saved machine"), "{refusal:?}");
    home.run(&["workflow", "export", "greet", "--skill", &path_of("say-hello")]).expect_success();
    let text = std::fs::read_to_string(home.path().join("say-hello/SKILL.md")).unwrap();
    assert!(text.contains("steplatch run SKILL_DIR/scripts/greet.py:greet"), "{text}");
    let other_home = Home::new(env!("CARGO_BIN_EXE_steplatch"));
    let target = format!("{}:greet", path_of("say-hello/scripts/greet.py"));
    let run = run_elsewhere(&other_home, &["run", &target, "-i", "input=Ana", "--json"], &[]);
    assert!(run.stdout.contains("hello Ana"), "{run:?}");
}
