//! Edits of configurations in common forms.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::PathBuf;

use expect_test::{Expect, expect};
use proptest::prelude::*;

use super::edit::{EditRequest, Outcome, edit_text, find_entry, is_blank};
use super::entry::OwnEntry;
use super::file::{FileError, replace};
use super::{CLIENTS, Format, UserPaths};

fn format(client: &str) -> Format {
    CLIENTS.iter().find(|row| row.name == client).unwrap().format
}

/// Returns paths with `/bin/sh` as this program, found through `PATH`.
fn test_paths() -> UserPaths {
    let directory = PathBuf::from("/nowhere");
    UserPaths {
        home: directory.clone(),
        config: directory.clone(),
        claude: None,
        codex: directory.clone(),
        project: directory,
        path: OsString::from("/bin"),
    }
}

fn own_entry() -> OwnEntry {
    OwnEntry { command: "/bin/sh".into(), program: "/bin/sh".into() }
}

fn with_entry(client: &str, text: &str) -> (Outcome, String) {
    edit_text(format(client), text, EditRequest::Have(&own_entry()), &test_paths()).unwrap()
}

fn without_entry(client: &str, text: &str) -> (Outcome, String) {
    edit_text(format(client), text, EditRequest::Lack, &test_paths()).unwrap()
}

/// Checks the edit of text, that a second edit changes nothing, and that removing the entry restores the text.
fn add_entry(client: &str, text: &str, expected: &Expect, back: &str) {
    let (outcome, new) = with_entry(client, text);
    assert_eq!(outcome, Outcome::Added, "{text:?}");
    // Line ends are covered by separate tests.
    expected.assert_eq(&new.replace('\r', "␍"));
    assert_eq!(with_entry(client, &new), (Outcome::Kept, new.clone()));
    assert_eq!(without_entry(client, &new), (Outcome::Removed, back.to_owned()));
}

#[test]
fn client_without_a_file_gets_one() {
    let json = expect![[r#"
        {
          "mcpServers": {
            "steplatch": {
              "command": "/bin/sh",
              "args": ["mcp"]
            }
          }
        }
    "#]];
    for client in ["claude-code", "cursor", "gemini"] {
        add_entry(client, "", &json, "{\n  \"mcpServers\": {}\n}\n");
    }
    add_entry(
        "vscode",
        "",
        &expect![[r#"
            {
              "servers": {
                "steplatch": {
                  "type": "stdio",
                  "command": "/bin/sh",
                  "args": ["mcp"]
                }
              }
            }
        "#]],
        "{\n  \"servers\": {}\n}\n",
    );
    add_entry(
        "opencode",
        "",
        &expect![[r#"
            {
              "mcp": {
                "steplatch": {
                  "type": "local",
                  "command": ["/bin/sh", "mcp"]
                }
              }
            }
        "#]],
        "{\n  \"mcp\": {}\n}\n",
    );
    add_entry(
        "codex",
        "",
        &expect![[r#"
            [mcp_servers.steplatch]
            command = "/bin/sh"
            args = ["mcp"]
        "#]],
        "",
    );
}

#[test]
fn command_in_a_list_keeps_arguments_if_its_program_changes() {
    for (found, expected) in [
        (r#"["/bin/sh", "mcp"]"#, None),
        (r#"["/bin/sh", "--state-dir", "/x", "mcp"]"#, None),
        (r#"["/gone", "--state-dir", "/x", "mcp"]"#, Some(r#"["/bin/sh", "--state-dir", "/x", "mcp"]"#)),
        (r#"["/bin/sh"]"#, Some(r#"["/bin/sh", "mcp"]"#)),
        ("[]", Some(r#"["/bin/sh", "mcp"]"#)),
    ] {
        let text =
            |command: &str| format!("{{\"mcp\": {{\"steplatch\": {{\"type\": \"local\", \"command\": {command}}}}}}}");
        let (outcome, new) = with_entry("opencode", &text(found));
        assert_eq!(new, text(expected.unwrap_or(found)));
        assert_eq!(matches!(outcome, Outcome::Changed { .. }), expected.is_some(), "{outcome:?}");
    }
}

#[test]
fn entry_in_the_newer_notation_of_opencode_is_changed_there() {
    let entry = r#"{"type": "local", "command": ["/bin/sh", "mcp"]}"#;
    let older = entry.replace("/bin/sh", "/old/steplatch");
    for (text, expected, without) in [
        // A new entry follows the notation of the file.
        (
            r#"{"mcp": {"servers": {"a": {}}}}"#.to_owned(),
            format!(r#"{{"mcp": {{"servers": {{"a": {{}}, "steplatch": {entry}}}}}}}"#),
            r#"{"mcp": {"servers": {"a": {}}}}"#,
        ),
        (
            format!(r#"{{"mcp": {{"servers": {{"steplatch": {older}}}}}}}"#),
            format!(r#"{{"mcp": {{"servers": {{"steplatch": {entry}}}}}}}"#),
            r#"{"mcp": {"servers": {}}}"#,
        ),
        // One version prefers the first entry, another the second.
        (
            format!(r#"{{"mcp": {{"steplatch": {older}, "servers": {{"steplatch": {older}}}}}}}"#),
            format!(r#"{{"mcp": {{"steplatch": {entry}, "servers": {{"steplatch": {entry}}}}}}}"#),
            r#"{"mcp": {"servers": {}}}"#,
        ),
        (
            format!(r#"{{"mcp": {{"steplatch": {entry}, "servers": {{"steplatch": {older}}}}}}}"#),
            format!(r#"{{"mcp": {{"steplatch": {entry}, "servers": {{"steplatch": {entry}}}}}}}"#),
            r#"{"mcp": {"servers": {}}}"#,
        ),
        // A server of this name.
        (
            r#"{"mcp": {"servers": {"type": "remote", "url": "x"}}}"#.to_owned(),
            format!(r#"{{"mcp": {{"servers": {{"type": "remote", "url": "x"}}, "steplatch": {entry}}}}}"#),
            r#"{"mcp": {"servers": {"type": "remote", "url": "x"}}}"#,
        ),
    ] {
        let (outcome, new) = with_entry("opencode", &text);
        assert_eq!(new, expected);
        assert!(matches!(outcome, Outcome::Added | Outcome::Changed { .. }), "{outcome:?}");
        assert_eq!(with_entry("opencode", &new), (Outcome::Kept, new.clone()));
        assert!(find_entry(format("opencode"), &new).unwrap().is_some());
        assert_eq!(without_entry("opencode", &new), (Outcome::Removed, without.to_owned()));
    }
    assert!(is_blank(format("opencode"), "{\n  \"mcp\": {\n    \"servers\": {}\n  }\n}\n"));
}

#[test]
fn other_entries_stay_in_place_unchanged() {
    let text = r#"{
    "theme" :  "dark",
    "mcpServers": {
        "other": { "command": "x",   "args": [ 1,2 ] }
    },
    "last": 1e5
}"#;
    add_entry(
        "claude-code",
        text,
        &expect![[r#"
            {
                "theme" :  "dark",
                "mcpServers": {
                    "other": { "command": "x",   "args": [ 1,2 ] },
                    "steplatch": {
                        "command": "/bin/sh",
                        "args": ["mcp"]
                    }
                },
                "last": 1e5
            }"#]],
        text,
    );
}

#[test]
fn document_without_servers_gets_them_at_its_end() {
    add_entry(
        "gemini",
        "{\n\t\"theme\": \"GitHub\"\n}\n",
        &expect![[r#"
            {
            	"theme": "GitHub",
            	"mcpServers": {
            		"steplatch": {
            			"command": "/bin/sh",
            			"args": ["mcp"]
            		}
            	}
            }
        "#]],
        "{\n\t\"theme\": \"GitHub\",\n\t\"mcpServers\": {}\n}\n",
    );
}

#[test]
fn comments_and_trailing_commas_stay() {
    let text = "\
// mine
{
  // all of them
  \"servers\": {
    \"a\": {\"command\": \"x\"}, // the first
    /* \"b\": {\"command\": \"y\"}, */
  },
}
";
    add_entry(
        "vscode",
        text,
        &expect![[r#"
            // mine
            {
              // all of them
              "servers": {
                "a": {"command": "x"}, // the first
                /* "b": {"command": "y"}, */
                "steplatch": {
                  "type": "stdio",
                  "command": "/bin/sh",
                  "args": ["mcp"]
                },
              },
            }
        "#]],
        text,
    );
    let text = "{\n  \"servers\": {\n    \"a\": {} // last, \"b\": {}\n  }\n}";
    add_entry(
        "vscode",
        text,
        &expect![[r#"
            {
              "servers": {
                "a": {}, // last, "b": {}
                "steplatch": {
                  "type": "stdio",
                  "command": "/bin/sh",
                  "args": ["mcp"]
                }
              }
            }"#]],
        text,
    );
    add_entry(
        "cursor",
        "{ \"mcpServers\": { /* none */ } }\n",
        &expect![[r#"
            { "mcpServers": { /* none */ "steplatch": {"command": "/bin/sh", "args": ["mcp"]} } }
        "#]],
        "{ \"mcpServers\": { /* none */ } }\n",
    );
}

#[test]
fn single_line_object_stays_on_one_line() {
    let text = r#"{"a":1,"mcpServers":{"x":{"command":"y"}}}"#;
    add_entry(
        "claude-code",
        text,
        &expect![[
            r#"{"a":1,"mcpServers":{"x":{"command":"y"}, "steplatch": {"command": "/bin/sh", "args": ["mcp"]}}}"#
        ]],
        text,
    );
    add_entry(
        "claude-code",
        "{}\n",
        &expect![[r#"
            {
              "mcpServers": {
                "steplatch": {
                  "command": "/bin/sh",
                  "args": ["mcp"]
                }
              }
            }
        "#]],
        "{\n  \"mcpServers\": {}\n}\n",
    );
}

#[test]
fn line_ends_and_byte_order_mark_stay() {
    let text = "\u{feff}{\r\n  \"mcpServers\": {\r\n    \"a\": {}\r\n  }\r\n}\r\n";
    let (_, new) = with_entry("cursor", text);
    assert!(new.starts_with('\u{feff}') && !new.replace("\r\n", "").contains('\n'), "{new:?}");
    assert_eq!(without_entry("cursor", &new).1, text);
    let text = "model = \"o\"\r\n\r\n[mcp_servers.a]\r\ncommand = \"x\"";
    let (_, new) = with_entry("codex", text);
    assert!(!new.replace("\r\n", "").contains('\n'), "{new:?}");
    assert_eq!(with_entry("codex", &new).0, Outcome::Kept);
    assert_eq!(without_entry("codex", &new).1, format!("{text}\r\n"), "the last line gets a line end");
}

#[test]
fn entry_with_another_target_is_changed_and_keeps_the_rest() {
    let json = r#"{ "mcpServers": {
  "steplatch": { "command": "/old/steplatch", "args": ["mcp"], /* mine */ "env": {"A": "1"} },
  "b": {}
} }"#;
    let (outcome, new) = with_entry("cursor", json);
    assert_eq!(outcome, Outcome::Changed { previous: "/old/steplatch mcp".into() });
    assert_eq!(new, json.replace("/old/steplatch", "/bin/sh"));
    let (_, new) = with_entry("cursor", r#"{"mcpServers": {"steplatch": {"command": "/bin/sh"}}}"#);
    assert_eq!(new, r#"{"mcpServers": {"steplatch": {"command": "/bin/sh", "args": ["mcp"]}}}"#);
    let toml = "[mcp_servers.steplatch] # mine\nargs = [\n  'serve',\n]\ncommand = 'x' # old\nstartup_timeout_sec = 3\n\n[mcp_servers.steplatch.env]\nA = '1'\n";
    let (outcome, new) = with_entry("codex", toml);
    assert_eq!(outcome, Outcome::Changed { previous: "x serve".into() });
    assert_eq!(new, toml.replace("'x'", "\"/bin/sh\"").replace("[\n  'serve',\n]", "[\"mcp\"]"));
    let (_, new) = with_entry("codex", "[mcp_servers.steplatch]\ncommand = '/bin/sh' # here\n[other]\n");
    assert_eq!(new, "[mcp_servers.steplatch]\nargs = [\"mcp\"]\ncommand = '/bin/sh' # here\n[other]\n");
}

#[test]
fn additional_settings_of_the_user_stay() {
    for (client, text) in [
        ("cursor", r#"{"mcpServers": {"steplatch": {"command": "sh", "args": ["--state-dir", "/s", "mcp"]}}}"#),
        ("codex", "[mcp_servers.steplatch]\ncommand = '/bin/../bin/sh'\nargs = ['-v', 'mcp']\n"),
    ] {
        assert_eq!(with_entry(client, text), (Outcome::Kept, text.to_owned()));
    }
    let text = r#"{"mcpServers": {"steplatch": {"type": "http", "url": "http://127.0.0.1:1/mcp"}}}"#;
    assert_eq!(with_entry("claude-code", text), (Outcome::KeptUrl("http://127.0.0.1:1/mcp".into()), text.to_owned()));
}

#[test]
fn codex_tables_are_added_and_removed_in_any_notation() {
    let text = "# mine\nmodel = 'o'\n\n[mcp_servers.a]\ncommand = 'x'\n";
    add_entry(
        "codex",
        text,
        &expect![[r#"
            # mine
            model = 'o'

            [mcp_servers.a]
            command = 'x'

            [mcp_servers.steplatch]
            command = "/bin/sh"
            args = ["mcp"]
        "#]],
        text,
    );
    for (before, after) in [
        ("mcp_servers = { a = { command = 'x' } }\n", "mcp_servers = { a = { command = 'x' } }\n"),
        ("mcp_servers = {}\n[other]\n", "mcp_servers = {   }\n[other]\n"),
        ("mcp_servers.a.command = 'x'\n", "mcp_servers.a.command = 'x'\n"),
        ("[mcp_servers]\na = { command = 'x' }\n", "[mcp_servers]\na = { command = 'x' }\n"),
    ] {
        let (outcome, new) = with_entry("codex", before);
        assert_eq!(outcome, Outcome::Added, "{new}");
        let (outcome, back) = without_entry("codex", &new);
        assert_eq!((outcome, back.replace("{ ", "{").replace(' ', "")), (Outcome::Removed, after.replace(' ', "")));
    }
    for (before, after) in [
        (
            "a = 1\n\n[mcp_servers.steplatch]\n# mine\ncommand = 'x'\nargs = [\n 'mcp' ]\n[mcp_servers.steplatch.env]\nA = '1'\n\n[z]\n",
            "a = 1\n\n[z]\n",
        ),
        (
            "[mcp_servers]\nsteplatch = { command = 'x' }\nb = { command = 'y' }\n",
            "[mcp_servers]\nb = { command = 'y' }\n",
        ),
        ("mcp_servers.steplatch.command = 'x'\nmcp_servers.steplatch.args = []\nz = 1\n", "z = 1\n"),
        ("[mcp_servers.steplatch.env]\nA = '1'\n[z]\n[mcp_servers.steplatch]\ncommand = 'x'", "[z]\n"),
        // Approvals of tools, before and after the tables of others.
        (
            "a = 1\n\n[mcp_servers.steplatch.tools.a]\nx = 1\n\n[z]\n\n[mcp_servers.steplatch]\ncommand = 'x'\n\n[y]\n\n[mcp_servers.steplatch.tools.b]\nx = 1\n",
            "a = 1\n\n[z]\n\n[y]\n",
        ),
    ] {
        assert_eq!(without_entry("codex", before), (Outcome::Removed, after.to_owned()));
    }
}

#[test]
fn goose_mappings_are_added_and_removed_with_comments_kept() {
    let text = "# mine\nGOOSE_MODEL: gpt-5   # the big one\nextensions:\n  # built in\n  developer:\n    enabled: true\n    type: builtin\nGOOSE_MODE: auto\n";
    let expected = expect![[r#"
        # mine
        GOOSE_MODEL: gpt-5   # the big one
        extensions:
          # built in
          developer:
            enabled: true
            type: builtin
          steplatch:
            name: "steplatch"
            enabled: true
            type: "stdio"
            cmd: "/bin/sh"
            args: ["mcp"]
            timeout: 3600
        GOOSE_MODE: auto
    "#]];
    add_entry("goose", text, &expected, text);
    for (text, back) in [
        ("", "extensions: {}\n"),
        ("# mine\n", "# mine\nextensions: {}\n"),
        ("a: 1\n", "a: 1\nextensions: {}\n"),
        ("a: 1", "a: 1\nextensions: {}"),
        ("extensions:\n", "extensions: {}\n"),
        ("extensions: {}\n", "extensions: {}\n"),
        ("extensions: {a: {type: builtin}}\n", "extensions: {a: {type: builtin}}\n"),
        ("---\n# why\na: &x 1\nb: *x\n", "---\n# why\na: &x 1\nb: *x\nextensions: {}\n"),
    ] {
        let (outcome, new) = with_entry("goose", text);
        assert_eq!(outcome, Outcome::Added, "{text:?}");
        assert_eq!(with_entry("goose", &new), (Outcome::Kept, new.clone()), "{text:?}");
        assert_eq!(without_entry("goose", &new), (Outcome::Removed, back.to_owned()), "{text:?}");
    }
    // An entry of another program keeps its other settings.
    let text = "extensions:\n  steplatch:\n    cmd: /old/steplatch # here\n    args: [mcp, --state-dir, /srv]\n    timeout: 9\n";
    let (outcome, new) = with_entry("goose", text);
    assert_eq!(outcome, Outcome::Changed { previous: "/old/steplatch mcp --state-dir /srv".to_owned() });
    assert_eq!(new, text.replace("/old/steplatch", "\"/bin/sh\""));
    for broken in ["a: [1,\n", "- a\n", "a: 1\n---\nb: 2\n", "extensions: 3\n", "extensions:\n  steplatch: 3\n"] {
        edit_text(format("goose"), broken, EditRequest::Have(&own_entry()), &test_paths()).expect_err(broken);
    }
}

#[test]
fn unreadable_file_is_an_error_with_its_position() {
    for (client, text, expected) in [
        ("claude-code", "{\n  \"a\": 1,\n}", "line 2, column 9: Trailing commas are not allowed"),
        ("claude-code", "{} // no", "line 1, column 4: Comments are not allowed"),
        ("cursor", "{\n  \"a\": \"ü\" x\n}", "line 2, column 11: Expected comma"),
        ("cursor", "[1]", "line 1, column 1: the document is not an object"),
        ("vscode", "{\"servers\": [\n]}", "line 1, column 13: 'servers' is not an object"),
        ("gemini", "{\"mcpServers\": {\"steplatch\": 1}}", "line 1, column 17: the entry 'steplatch' is not an object"),
        ("codex", "a = 1\nb = = 2\n", "line 2, column 5: "),
        ("codex", "mcp_servers = 1", "line 1, column 15: 'mcp_servers' is not a table"),
        ("codex", "[mcp_servers]\nsteplatch = 1", "line 2, column 13: the entry 'steplatch' is not a table"),
    ] {
        let error =
            edit_text(format(client), text, EditRequest::Have(&own_entry()), &test_paths()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{client} {text:?}: {error}");
    }
    // A duplicate key: the client takes the last one, and so does the edit.
    let twice = r#"{"mcpServers": {"a": {}}, "mcpServers": {"b": {}}}"#;
    let (_, new) = with_entry("claude-code", twice);
    assert!(new.starts_with(r#"{"mcpServers": {"a": {}}, "mcpServers": {"b": {}, "steplatch""#), "{new}");
}

/// Returns JSON documents with comments, whitespace and trailing commas where a client accepts them.
fn documents() -> impl Strategy<Value = String> {
    let blank = prop_oneof![
        4 => Just(String::new()),
        2 => Just(" ".to_owned()),
        2 => Just("\n  ".to_owned()),
        1 => Just("\r\n\t".to_owned()),
        1 => Just("/* , } */".to_owned()),
        1 => Just(" // \"steplatch\": {}, }\n".to_owned()),
    ];
    let leaf =
        prop_oneof!["-?[1-9][0-9]{0,3}", Just("null".into()), Just("true".into()), "\"[a-z,{}/ü\\\\\\\\]{0,6}\""];
    let spaced = (blank.clone(), leaf, blank.clone()).prop_map(|(one, value, other)| format!("{one}{value}{other}"));
    let value = spaced.prop_recursive(3, 24, 4, move |inner| {
        let key = prop_oneof![Just("mcpServers".to_owned()), Just("command".to_owned()), "[a-z]{1,3}"];
        let field = (blank.clone(), key, blank.clone(), inner.clone())
            .prop_map(|(one, key, other, value)| format!("{one}\"{key}\"{other}:{value}"));
        let close = (prop::bool::ANY, blank.clone());
        let list = |open: char, end: char| {
            move |(items, (comma, blank)): (Vec<String>, (bool, String))| {
                let comma = if comma && !items.is_empty() { "," } else { "" };
                format!("{open}{}{comma}{blank}{end}", items.join(","))
            }
        };
        prop_oneof![
            (prop::collection::vec(inner, 0..3), close.clone()).prop_map(list('[', ']')),
            (prop::collection::vec(field, 0..4), close).prop_map(list('{', '}')),
        ]
    });
    value.prop_map(|value| if value.trim_start().starts_with('{') { value } else { format!("{{\"a\":{value}}}") })
}

/// Returns the number of servers of a document, if it has an object for them.
fn servers(text: &str) -> Option<usize> {
    Some(super::json::value(text, false).unwrap()?["mcpServers"].as_object()?.len())
}

/// Returns text without the whitespace before closing braces.
fn without_whitespace(text: &str) -> String {
    let parts: Vec<&str> = text.split('}').map(str::trim_ascii_end).collect();
    parts.join("}")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn everything_else_stays_byte_for_byte(text in documents()) {
        // Documents with servers of another type are refused, so nothing changes either.
        let Ok((outcome, new)) = edit_text(format("cursor"), &text, EditRequest::Have(&own_entry()), &test_paths()) else { return Ok(()) };
        prop_assert_eq!(outcome, Outcome::Added);
        prop_assert!(find_entry(format("cursor"), &new).unwrap().is_some());
        // Without the new parts and whitespace, the text equals the original.
        let mut unmatched = new.chars().filter(|character| !character.is_ascii_whitespace());
        for character in text.chars().filter(|character| !character.is_ascii_whitespace()) {
            prop_assert!(unmatched.any(|other| other == character), "{:?} is not in {:?}", text, new);
        }
        let (unchanged, same) = with_entry("cursor", &new);
        prop_assert_eq!((unchanged, &same), (Outcome::Kept, &new));
        let (removed, back) = without_entry("cursor", &new);
        prop_assert_eq!(removed, Outcome::Removed);
        let (_, again) = with_entry("cursor", &back);
        prop_assert!(find_entry(format("cursor"), &again).unwrap().is_some());
        let without_any_whitespace = |text: &str| text.replace(|character: char| character.is_ascii_whitespace(), "");
        match servers(&text) {
            // An object created for the entry stays, and so does the comma before it.
            None => {}
            Some(0) => prop_assert_eq!(without_any_whitespace(&back), without_any_whitespace(&text)),
            // The brace after the last server may have moved to its own line.
            Some(_) => prop_assert_eq!(without_whitespace(&back), without_whitespace(&text)),
        }
    }

    #[test]
    fn rules_keep_everything_else(text in documents()) {
        for client in ["opencode", "zed"] {
            let rules = CLIENTS.iter().find(|row| row.name == client).unwrap().rules.as_ref().unwrap();
            // A backslash may have escaped a quotation mark.
            let Ok((outcome, new)) = (rules.allow_reading)(&text) else { return Ok(()) };
            prop_assert_eq!(outcome, Outcome::Added);
            prop_assert_eq!((rules.allow_reading)(&new).unwrap(), (Outcome::Kept, new.clone()));
            let (outcome, back) = rules.remove.unwrap()(&new).unwrap();
            prop_assert_eq!(outcome, Outcome::Removed);
            // A comma may stay after the last property, where the client accepts it.
            let without_gaps = |text: &str| text.replace([' ', '\t', '\r', '\n', ','], "");
            prop_assert_eq!(without_gaps(&back), without_gaps(&text));
        }
    }

    #[test]
    fn no_input_panics(text in "[\\[\\]{}\",:/*\\\\ \n\r\tasteplatchmcpServers0-9.=#'ü]{0,60}") {
        for client in &CLIENTS {
            let _ = edit_text(client.format, &text, EditRequest::Have(&own_entry()), &test_paths());
            let _ = edit_text(client.format, &text, EditRequest::Lack, &test_paths());
            let Some(rules) = &client.rules else { continue };
            let _ = (rules.allow_reading)(&text);
            let _ = rules.remove.map(|remove| remove(&text));
        }
    }
}

/// A `make` function that adds a line and keeps the text that it received.
fn line(text: Option<&str>) -> Result<(Option<String>, String), FileError> {
    Ok((text.map(str::to_owned), format!("{}x\n", text.unwrap_or_default())))
}

#[test]
fn file_keeps_its_mode_and_a_link_stays_a_link() {
    let directory = tempfile::tempdir().unwrap();
    let (file, link) = (directory.path().join("file"), directory.path().join("link"));
    fs::write(&file, "a\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o640)).unwrap();
    symlink("file", &link).unwrap();
    assert_eq!(replace(&link, true, line).unwrap().as_deref(), Some("a\n"));
    assert_eq!(fs::read_to_string(&file).unwrap(), "a\nx\n");
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o640);
    assert!(link.symlink_metadata().unwrap().is_symlink());
    // A dangling link.
    symlink("below/new", directory.path().join("dangling")).unwrap();
    replace(&directory.path().join("dangling"), true, line).unwrap();
    let new = directory.path().join("below/new");
    assert_eq!(fs::read_to_string(&new).unwrap(), "x\n");
    assert_eq!(fs::metadata(&new).unwrap().permissions().mode() & 0o777, 0o600);
    let file_names: Vec<_> = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(file_names.len(), 4, "the directory has other files: {file_names:?}");
}

#[test]
fn concurrent_changes_are_not_lost() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "a\n").unwrap();
    let mut texts = Vec::new();
    replace(&file, true, |text| {
        // The client writes between the read and the replacement.
        if texts.is_empty() {
            fs::write(&file, "b\n").unwrap();
        }
        texts.push(text.unwrap().to_owned());
        line(text)
    })
    .unwrap();
    assert_eq!(texts, ["a\n", "b\n"]);
    assert_eq!(fs::read_to_string(&file).unwrap(), "b\nx\n");
    let mut count = 0;
    let contended = replace(&file, true, |text| {
        count += 1;
        fs::write(&file, format!("{count}\n")).unwrap();
        line(text)
    });
    assert!(matches!(contended, Err(FileError::Contended)), "{contended:?}");
}

#[test]
fn file_that_cannot_be_replaced_is_unchanged() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "a\n").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
    assert!(matches!(replace(&file, true, line), Err(FileError::ReadOnly)));
    assert_eq!(fs::read_to_string(&file).unwrap(), "a\n");
    assert!(matches!(replace(directory.path(), true, line), Err(FileError::NoFile)));
    let bytes = directory.path().join("bytes");
    fs::write(&bytes, [0xff, 0xfe]).unwrap();
    assert!(matches!(replace(&bytes, true, line), Err(FileError::NoText)));
    assert!(replace(&file.join("below"), true, line).is_err());
}
