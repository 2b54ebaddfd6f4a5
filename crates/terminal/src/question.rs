//! Heuristic for a row of the screen that looks like a request for input.
//!
//! Used only for programs that forward input to a remote host or terminal, whose state the kernel does not show.

/// Maximum number of characters to inspect, counted from the end of a row.
const MAX_ROW_CHARS: usize = 200;

/// Characters that end a prompt: of shells, REPLs, debuggers and questions.
const PROMPT_ENDS: &[char] = &['$', '#', '%', '>', '?', ':', ']', ')', '❯', '➜', 'λ', '»'];

/// Returns whether the text before the cursor looks like a prompt or a question.
///
/// A prompt ends in one of [`PROMPT_ENDS`] and at most two spaces. A bracket or a colon also ends lines of progress, so
/// it usually counts only with a space after it.
pub(crate) fn looks_like_question(before_cursor: &str) -> bool {
    let skipped = before_cursor.chars().count().saturating_sub(MAX_ROW_CHARS);
    let row: String = before_cursor.chars().skip(skipped).collect();
    let text = row.trim_end_matches(' ');
    let blanks = row.len() - text.len();
    let Some(last) = text.chars().last() else { return false };
    match last {
        _ if blanks > 2 || !PROMPT_ENDS.contains(&last) => false,
        ']' | ')' | ':' => blanks > 0 || text.ends_with("):") || text.ends_with("]:") || requests_password(text),
        // A percentage is progress, because a prompt of zsh has no digit before `%`.
        '%' => !text[..text.len() - 1].ends_with(|before: char| before.is_ascii_digit()),
        _ => true,
    }
}

/// Returns whether the text requests a password. Many programs print no blank after such a text.
pub(crate) fn requests_password(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("password") || text.contains("passphrase") || text.contains("passcode")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prompts_and_questions_differ_from_output() {
        let questions = [
            "user@host:~$ ",
            "root@host:/# ",
            "host% ",
            "/ # ",
            "sh-5.2$ ",
            ">>> ",
            "(gdb) ",
            "postgres=# ",
            "Continue? [Y/n] ",
            "Are you sure you want to continue connecting (yes/no/[fingerprint])? ",
            "Password:",
            "alice@host's password: ",
            "Name: ",
            "overwrite 'a'?",
            "~/src ❯ ",
            "(y/n):",
        ];
        let output = ["", "   ", "Compiling serde v1.0", "42%", " 42% ", "Reading package lists...", "done", "$      "];
        for row in questions {
            assert!(looks_like_question(row), "{row:?}");
        }
        for row in output {
            assert!(!looks_like_question(row), "{row:?}");
        }
    }
}
