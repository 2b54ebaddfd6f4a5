//! The readers of panes, with real screens.

use expect_test::{Expect, expect};
use steplatch_nodes::pane::Parser;

/// Reads a pane and compares its readiness and its sections. The kind of a section is in brackets.
fn read_pane(parser: Parser, pane: &str, expected: Expect) {
    let path = format!("{}/tests/it/panes/{pane}.txt", env!("CARGO_MANIFEST_DIR"));
    let reading = parser.read(&std::fs::read_to_string(path).unwrap());
    let mut found = String::new();
    for section in &reading.sections {
        let kind = serde_json::to_value(section.kind).unwrap();
        found.push_str(&format!("[{}] {}\n", kind.as_str().unwrap(), section.text));
    }
    found.push_str(if reading.is_ready { "ready" } else { "not ready" });
    expected.assert_eq(&found);
}

#[test]
fn shells() {
    read_pane(
        Parser::Shell,
        "shell_bash",
        expect![[r#"
        [input] ls
        [text] price.rs  tax.rs
        [input] grep -c '#' price.rs
        [text] # of hits: 100%
        5 $
        [input] cd /tmp
        ready"#]],
    );
    read_pane(
        Parser::Shell,
        "shell_zsh",
        expect![[r#"
        [input] echo 50 %
        [text] 50 %
        [input] false
        ready"#]],
    );
    read_pane(
        Parser::Shell,
        "shell_arrow",
        expect![[r#"
        [input] cd shop
        [input] make all
        [text] cc -o shop shop.c
        ready"#]],
    );
    read_pane(
        Parser::Shell,
        "shell_root",
        expect![[r#"
        [input] cat motd
        [text] # not a prompt
        $ neither
        ready"#]],
    );
    read_pane(
        Parser::Shell,
        "shell_busy",
        expect![[r#"
        [input] make test
        [text] running 3 tests
        [ok] 33%
        not ready"#]],
    );
}

#[test]
fn claude_code() {
    read_pane(
        Parser::ClaudeCode,
        "claude_answered",
        expect![[r#"
        [input] why does the price test fail?
        it passed on friday
        [text] I'll look at the test first.
        [tool_call] Read(tests/price.rs)
        [tool_result] Read 42 lines (ctrl+r to expand)
        [tool_call] Bash(cargo test price)
        [tool_result] running 2 tests
        test rounds_down ... FAILED
        test adds_tax ... ok
        … +12 lines (ctrl+r to expand)
        [thinking] Thinking…

        The tax is added before rounding.
        [text] The tax is added before the price is rounded, so 9.995 becomes 10.

        Two ways to repair it:
        - round first
        - keep thousandths
        ready"#]],
    );
    read_pane(
        Parser::ClaudeCode,
        "claude_rules",
        expect![[r#"
        [input] name this function
        [text] I would call it rounded_price.
        ready"#]],
    );
    read_pane(
        Parser::ClaudeCode,
        "claude_busy",
        expect![[r#"
        [input] write the migration
        [tool_call] Write(migrations/7.sql)
        [tool_result] Wrote 12 lines to migrations/7.sql
        create table price (
          cents integer not null
        );
        [status] ✽ Migrating… (34s · ↓ 1.2k tokens · esc to interrupt)
        not ready"#]],
    );
    read_pane(
        Parser::ClaudeCode,
        "claude_asks",
        expect![[r#"
        [input] clean the build folder
        [tool_call] Bash(rm -rf target)
        [tool_result] Running…
        [question] Bash command

          rm -rf target
          Remove the build folder

        Do you want to proceed?
        ❯ 1. Yes
          2. Yes, and don't ask again for rm commands
          3. No, and tell Claude what to do differently
        not ready"#]],
    );
    read_pane(
        Parser::ClaudeCode,
        "claude_asks_bare",
        expect![[r#"
            [tool_call] Update(src/price.rs)
            [question] Edit file src/price.rs
            3 -    let price = 1;
            3 +    let price = 2;
            Do you want to make this edit to price.rs?
            ❯ 1. Yes
              2. Yes, allow all edits during this session
              3. No

            Esc to cancel
            not ready"#]],
    );
}

#[test]
fn gemini_cli() {
    read_pane(
        Parser::GeminiCli,
        "gemini_answered",
        expect![[r#"
        [text]  ███ GEMINI

        Tips for getting started:
        1. Ask questions, edit files, or run commands.
        2. Be specific for the best results.
        [input] what is in notes.txt?
        [tool_call] ReadFile notes.txt
        [tool_result] Read all 3 lines
        [tool_call] Shell wc -l notes.txt (count the lines)
        [tool_result] 3 notes.txt
        [text] The file has three lines about tea:

        1. green
        2. black
        ready"#]],
    );
    read_pane(
        Parser::GeminiCli,
        "gemini_busy",
        expect![[r#"
        [input] summarise it
        [text] Let me read on.
        [status] ⠏ Brewing the summary (esc to cancel, 12s)
        not ready"#]],
    );
    read_pane(
        Parser::GeminiCli,
        "gemini_asks",
        expect![[r#"
        [input] delete the notes
        [question] ?  Shell rm notes.txt (Delete the notes) ←

        rm notes.txt

        Allow execution of: 'rm'?

        ● 1. Yes, allow once
          2. Yes, allow always ...
          3. No, suggest changes (esc)
        [status] ⠏ Waiting for user confirmation...
        not ready"#]],
    );
}

#[test]
fn answer_is_the_text_after_the_last_input() {
    let pane = "$ echo one\none\n$ echo two\ntwo\n$ ";
    assert_eq!(Parser::Shell.read(pane).answer(), "two");
}

#[test]
fn empty_pane_has_no_answer() {
    for parser in [Parser::Shell, Parser::ClaudeCode, Parser::GeminiCli] {
        for pane in ["", "\n\n", "   ", "╭", "│", "──────────────", "● ", "> "] {
            let reading = parser.read(pane);
            assert!(!reading.is_ready, "{parser:?} {pane:?}: {reading:?}");
        }
    }
}
