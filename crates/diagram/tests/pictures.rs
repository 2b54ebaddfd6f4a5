//! Pictures of machines.

// Shared with the tests of `workflow`; they use more of this module.
#[allow(dead_code)]
#[path = "../../workflow/tests/workflow/generated.rs"]
mod generated;
#[allow(dead_code)]
#[path = "../../workflow/tests/workflow/machine.rs"]
mod machine;

use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;
use steplatch_diagram::{collapsed_svg, mermaid, svg};
use steplatch_workflow::Definition;

use generated::machines;
use machine::{Tools, definition};

#[test]
fn picture_distinguishes_states_and_transitions() {
    let picture = svg(&definition(&json!({"name": "mixed", "initial_state": "a", "states": {
        "a": {
            "action": {"tool": "await_output", "params": {"pattern": "x"}}, "timeout": 3, "on_timeout": "a",
            "transitions": [
                {"condition": {"pattern_match": "</text><script>&\"'\u{7}"}, "next_state": "b"},
                {"condition": {"field_contains": {"screen_content": "a text that is far too long for a card to hold"}}, "next_state": "c"}
            ]
        },
        "b": {"action": {"tool": "run_workflow", "params": {"workflow_name": "other"}},
              "transitions": [{"condition": {"description": "it works"}, "next_state": "c"}]},
        "c": {"action": {"tool": "get_screen_content"},
              "transitions": [{"condition": {"description": "it works"}, "next_state": "a"}]},
        "d": {"action": {"tool": "exit_terminal"}}
    }})));
    let count = |part: &str| picture.matches(part).count();
    assert_eq!(count("<g class=\"plain\""), 1, "{picture}");
    assert_eq!(count("<g class=\"plain lost\""), 1, "no transition leads to d");
    assert_eq!(count("<g class=\"nested\""), 1);
    assert_eq!(count("<g class=\"judged\""), 1);
    assert_eq!(count("class=\"line late\" marker-end"), 1, "the line for on_timeout is dashed");
    assert_eq!(count("class=\"line\" marker-end"), 5, "four transitions, and the line from the dot");
    assert_eq!(count("class=\"ring\""), 4, "a run may complete in each state");
    assert_eq!(count("class=\"cross\""), 4, "a run may fail in each state: a closed terminal has no transition");
    assert!(picture.contains("/&lt;/text&gt;&lt;script&gt;&amp;&quot;&#39; /") && !picture.contains("<script"));
    assert!(picture.contains(
        "a text that is…<title>screen_content contains a text that is far too long for a card to hold</title>"
    ));
    assert!(picture.contains("prefers-color-scheme:dark"));
}

#[test]
fn chain_of_states_is_one_card() {
    let state = |next: &str| {
        json!({"action": {"tool": "run_command", "params": {"command": "true"}},
                                    "transitions": [{"condition": "success", "next_state": next}]})
    };
    let end = json!({"action": {"tool": "sleep", "params": {"seconds": 0}}});
    let gate = json!({"action": {"tool": "gate", "params": {"prompt": "?"}}, "transitions": [
        {"condition": {"field_equals": {"answer": "yes"}}, "next_state": "e"}, {"condition": "success", "next_state": "end"}]});
    let chains = definition(&json!({"name": "chains", "initial_state": "a", "states": {
        "a": state("b"), "b": state("c"), "c": state("ask"), "ask": gate, "e": state("end"), "end": end,
    }}));
    let picture = collapsed_svg(&chains).unwrap();
    assert!(picture.contains(">a … c<title>a\nb\nc</title>") && picture.contains(">3 states<"), "{picture}");
    assert_eq!(picture.matches("<g class").count(), 4, "the gate, e and the end have their own cards: {picture}");
    assert_eq!(picture.matches(" lost").count(), 0, "{picture}");

    // Two entries into a state, a loop, and a chain that is too short.
    for states in [
        json!({"a": state("b"), "b": state("c"), "c": state("b")}),
        json!({"a": state("b"), "b": state("a")}),
        json!({"a": state("b"), "b": end}),
    ] {
        let machine = definition(&json!({"name": "none", "initial_state": "a", "states": states}));
        assert_eq!(collapsed_svg(&machine), None, "{states}");
    }
}

#[test]
fn failed_end_looks_different_from_a_successful_one() {
    let machine = definition(&json!({"name": "ends", "initial_state": "open", "states": {
        "open": {"action": {"tool": "open_terminal"}, "transitions": [{"condition": "success", "next_state": "nap"}]},
        "nap": {"action": {"tool": "sleep", "params": {"seconds": 1}}, "transitions": [
            {"condition": {"success": true, "pattern_match": "x"}, "next_state": "bad"}
        ]},
        "bad": {"action": {"tool": "fail", "params": {"message": "no"}}}
    }}));
    let picture = svg(&machine);
    let count = |part: &str| picture.matches(part).count();
    assert_eq!(
        (count(">otherwise: fails<"), count(">otherwise: completes<"), count(">fails<")),
        (1, 1, 1),
        "{picture}"
    );
    assert_eq!((count("class=\"cross\""), count("class=\"ring\"")), (2, 1));
    let diagram = mermaid(&machine);
    assert!(diagram.contains("s0 --> failed: otherwise\n") && diagram.contains("s1 --> [*]: otherwise\n"), "{diagram}");
    assert!(diagram.contains("s2 --> failed\n") && !diagram.contains("s2 --> [*]"), "{diagram}");
}

proptest! {
    #[test]
    fn pictures_are_deterministic_and_complete(document in machines()) {
        let definition = Definition::parse(&document, &Tools).expect("generated machines are valid");
        let picture = svg(&definition);
        prop_assert_eq!(&picture, &svg(&definition));
        prop_assert_eq!(picture.matches("<g class=").count(), definition.states().len());
        let lines = picture.matches("<path class=\"line").count();
        let ways: usize = definition.states().iter()
            .map(|state| {
                let exits = [state.on_timeout(), state.on_exhausted()].into_iter().flatten();
                state.transitions().len() + exits.count()
            })
            .sum();
        prop_assert_eq!(lines, ways + 1);
        let bad = |character: char| character.is_control() && character != '\n';
        prop_assert!(!picture.contains(bad) && !picture.contains("NaN") && !picture.contains("inf"));
    }
}

#[test]
fn diagram_shows_every_state_and_transition() {
    let document = json!({
        "name": "build",
        "initial_state": "make",
        "states": {
            "make": {
                "action": {"tool": "send_input"},
                "transitions": [
                    {"condition": {"success": true, "field_equals": {"exit_code": 0}}, "next_state": "end"},
                    {"condition": {"pattern_not_match": "err: \"x\""}, "next_state": "make"},
                    {"condition": {"description": "it is fine"}, "next_state": "end"}
                ],
                "on_timeout": "again"
            },
            "again": {"action": {"tool": "sleep", "params": {"seconds": 1}},
                      "transitions": [{"condition": {}, "next_state": "make"}]},
            "end": {"action": {"tool": "get_screen_content"}}
        }
    });
    expect![[r#"
        ---
        title: build
        ---
        stateDiagram-v2
            state "make: send_input" as s0
            state "again: sleep 1 s" as s1
            state "end: get_screen_content" as s2
            [*] --> s0
            s0 --> s2: success and exit_code = 0
            s0 --> s0: not /err#58; #34;x#34;/
            s0 --> s2: judged#58; it is fine
            s0 --> s1: on timeout or failure
            s0 --> [*]: otherwise, success
            s0 --> failed: otherwise, outcome unknown
            s1 --> s0: always
            s2 --> [*]: success
            s2 --> failed: failure
            classDef bad stroke:#b3261e,color:#b3261e
            class failed bad
    "#]]
    .assert_eq(&mermaid(&definition(&document)));
}
