//! Activity of the full-screen programs of AI agents: working, asking a person, or idle.
//!
//! Such a program polls for keys at any time, so the kernel cannot tell whether it waits. Its title and the last rows of
//! its screen do. The signs of each program are data ([`PROGRAMS`]), tested against screens of the real programs
//! (`tests/agent_screens`). A screen without a known sign has no activity.

use std::sync::LazyLock;

use AgentActivity::{Asks, Idle, Working};
use serde::{Deserialize, Serialize};
use steplatch_pattern::Pattern;

/// Activity of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AgentActivity {
    /// It thinks, answers, or executes a tool.
    Working,
    /// It waits for the decision of a person, such as a permission.
    Asks,
    /// It waits for the next task.
    Idle,
}

/// The agent in a terminal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentStatus {
    /// Name of the program, such as `claude`.
    pub program: String,
    /// Its activity; `None` if the screen does not tell.
    pub activity: Option<AgentActivity>,
}

/// A program of an agent.
#[derive(Debug)]
pub(crate) struct AgentProgram {
    /// Name of its command, also without `.js`.
    pub(crate) name: &'static str,
    /// Signs of its activity, in order of precedence.
    signs: &'static [Sign],
}

/// A sign of an activity.
#[derive(Debug)]
struct Sign {
    place: Place,
    /// Regular expression; `^` and `$` match at the ends of rows.
    pattern: &'static str,
    activity: AgentActivity,
}

/// Place of a sign.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// The title of the terminal.
    Title,
    /// This number of last rows with text.
    Rows(usize),
}

const fn title(pattern: &'static str, activity: AgentActivity) -> Sign {
    Sign { place: Place::Title, pattern, activity }
}

const fn rows(count: usize, pattern: &'static str, activity: AgentActivity) -> Sign {
    Sign { place: Place::Rows(count), pattern, activity }
}

/// The known programs. A spinner in a title is a character of Braille or a rotating circle.
const PROGRAMS: &[AgentProgram] = &[
    AgentProgram {
        name: "claude",
        signs: &[
            title(r"^[◐◓◑◒\u2800-\u28ff] ", Working),
            rows(3, r"\besc to interrupt\b", Working),
            // The field for the next task, between two lines.
            rows(8, r"^─{10}.*\n❯(?! *\d+\.).*\n(?:(?!─).*\n)*─{10}", Idle),
            rows(14, r"^ *❯ (?:\d+\.|Yes\b|No\b)", Asks),
            rows(2, r"\b(?:Esc to cancel|Enter to confirm|Enter to select)\b", Asks),
        ],
    },
    AgentProgram {
        name: "codex",
        signs: &[
            title(r"Action Required", Asks),
            title(r"^[\u2800-\u28ff] ", Working),
            rows(3, r"\b[Pp]ress enter to (?:confirm|continue|submit)\b", Asks),
            rows(8, r"\besc to interrupt\b", Working),
            rows(5, r"^› (?!\d+\. )", Idle),
        ],
    },
    AgentProgram {
        name: "gemini",
        signs: &[
            title(r"^✋", Asks),
            title(r"^[✦⏲]", Working),
            title(r"^◇", Idle),
            rows(12, r"^│ ● \d+\. ", Asks),
            rows(14, r"\(esc to cancel\b", Working),
            rows(8, r"^ > ", Idle),
        ],
    },
    AgentProgram {
        name: "opencode",
        signs: &[
            rows(1, r"\besc (?:again to )?interrupt\b", Working),
            // The field for the next task; a dialog takes its place.
            rows(4, r"^ *╹▀{10}", Idle),
            rows(14, r"^ *┃ +△ Permission required", Asks),
            rows(4, r"^ *┃.*(?:\bAllow once\b.*\bReject\b|\benter (?:confirm|submit)\b)", Asks),
        ],
    },
    AgentProgram {
        name: "copilot",
        signs: &[
            rows(3, r"\benter to (?:select|submit|confirm)\b.*\besc to cancel\b", Asks),
            rows(2, r"\besc interrupt\b", Working),
            rows(3, r"^╹▀{10}", Idle),
        ],
    },
];

/// The patterns of [`PROGRAMS`], in the order of the signs.
static PATTERNS: LazyLock<Vec<Vec<Pattern>>> = LazyLock::new(|| {
    let compile = |sign: &Sign| Pattern::new(sign.pattern).expect("the patterns of programs are tested");
    PROGRAMS.iter().map(|program| program.signs.iter().map(compile).collect()).collect()
});

impl AgentProgram {
    /// Returns the program of a command line. A script is the argument of its interpreter.
    pub(crate) fn find(arguments: &[String]) -> Option<&'static Self> {
        let name = |argument: &String| {
            let file = argument.rsplit('/').next().unwrap_or_default();
            file.strip_suffix(".js").or_else(|| file.strip_suffix(".mjs")).unwrap_or(file).to_owned()
        };
        let mut words = arguments.iter();
        let program = name(words.next()?);
        let is_interpreter = matches!(program.as_str(), "node" | "bun" | "deno" | "sh" | "bash");
        let is_option = |argument: &&String| argument.starts_with('-');
        let script = if is_interpreter { words.find(|word| !is_option(word)).map(name) } else { None };
        [Some(program), script].into_iter().flatten().find_map(|name| PROGRAMS.iter().find(|known| known.name == name))
    }

    /// Returns the activity that the title and the rows of the screen tell.
    pub(crate) fn activity(&self, title: &str, rows: &[String]) -> Option<AgentActivity> {
        let position = PROGRAMS.iter().position(|known| known.name == self.name)?;
        let filled: Vec<&str> = rows.iter().map(String::as_str).filter(|row| !row.trim().is_empty()).collect();
        let is_present = |(sign, pattern): &(&Sign, &Pattern)| {
            let text = match sign.place {
                Place::Title => title.to_owned(),
                Place::Rows(count) => filled[filled.len().saturating_sub(count)..].join("\n"),
            };
            pattern.is_match(&text).unwrap_or(false)
        };
        self.signs.iter().zip(&PATTERNS[position]).find(is_present).map(|(sign, _)| sign.activity)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// A recorded screen.
    #[derive(Debug, Deserialize)]
    struct Recorded {
        /// Activity at the time, as a person judged it.
        activity: Option<AgentActivity>,
        title: String,
        rows: Vec<String>,
    }

    #[test]
    fn recorded_screens_are_recognised() {
        let recorded = [
            ("claude", include_str!("../tests/agent_screens/claude.json")),
            ("codex", include_str!("../tests/agent_screens/codex.json")),
            ("gemini", include_str!("../tests/agent_screens/gemini.json")),
            ("opencode", include_str!("../tests/agent_screens/opencode.json")),
            ("copilot", include_str!("../tests/agent_screens/copilot.json")),
        ];
        let mut wrong = BTreeMap::new();
        for (name, screens) in recorded {
            let program = AgentProgram::find(&[name.to_owned()]).unwrap();
            let screens: Vec<Recorded> = serde_json::from_str(screens).unwrap();
            assert!(screens.len() >= 30, "{name} has {} screens", screens.len());
            for (index, screen) in screens.iter().enumerate() {
                let found = program.activity(&screen.title, &screen.rows);
                if found != screen.activity {
                    wrong.insert(format!("{name} {index}"), (found, screen.activity));
                }
            }
        }
        assert_eq!(wrong, BTreeMap::new());
    }

    #[test]
    fn program_is_found_in_its_command_line() {
        let find = |line: &str| {
            let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
            AgentProgram::find(&words).map(|program| program.name)
        };
        for (line, name) in [
            ("claude --continue", Some("claude")),
            ("/usr/lib/node_modules/x/bin/codex", Some("codex")),
            ("node --no-warnings /usr/bin/gemini -m pro", Some("gemini")),
            ("/usr/bin/node /opt/codex/bin/codex.js", Some("codex")),
            ("bash", None),
            ("vim claude", None),
            ("node server.js claude", None),
            ("", None),
        ] {
            assert_eq!(find(line), name, "{line}");
        }
    }

    #[test]
    fn screen_without_a_sign_has_no_activity() {
        for program in PROGRAMS {
            let rows = ["$ cat notes", "Yes, esc is a key. Do you want to proceed?", ""].map(str::to_owned);
            assert_eq!(program.activity("notes", &rows), None, "{}", program.name);
            assert_eq!(program.activity("", &[]), None, "{}", program.name);
        }
    }
}
