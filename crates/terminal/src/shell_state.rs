//! The state of a shell that decides the meaning of a command line: its directory, variables, functions, aliases, traps, keys and options.
//!
//! A shell at its prompt reports it in an exchange ([`exchange`](crate::exchange)). This module keeps only hashes,
//! enough to compare two states and to name the differences. It leaves out variables that change on their own, such as
//! `SECONDS` and what prompts keep to themselves ([`is_volatile`]). The report is the shell's own: a shell prepared to
//! lie before the first request goes undetected.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, RandomState};
use std::path::Path;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

/// The keys of the hashes, random so that no program can make a text with the hash of another one.
static HASHING: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Maximum number of named differences. A count replaces the others.
const MAX_NAMED: usize = 5;

/// Maximum number of named signals and events of traps.
const MAX_TRAPS: usize = 10;

/// Maximum number of programs to compare by their place in `PATH`; of more, every place counts.
const MAX_PROGRAMS: usize = 5000;

/// The state of a shell at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShellState {
    /// The hash of each part, by its name.
    parts: BTreeMap<String, u64>,
    /// The names of the parts that change with every drawing of the prompt. They do not count as a difference.
    varying: BTreeSet<String>,
    /// The signals and events that the user's traps are for.
    traps: Vec<String>,
}

/// The state of a terminal at a question to a person, where known.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotedState {
    /// The state of its shell, for comparison before the next approved input.
    Shell {
        /// Signals and events at which the shell runs a command on its own.
        traps: Vec<String>,
    },
    /// A program waits for input. The comparison checks only that it is the same one.
    Program {
        /// Its name.
        program: Option<String>,
    },
    /// There is nothing to compare.
    Unknown {
        /// The reason.
        why: String,
    },
}

impl ShellState {
    /// Reads what a shell has reported, and the traps that bash lists apart. Returns `None` if the report has no end.
    pub(crate) fn parse(answer: &[u8], traps: Option<&[u8]>) -> Option<Self> {
        let texts: Vec<&[u8]> = answer.split(|&byte| byte == 0).collect();
        let mut state = Self::default();
        let mut search_path = None;
        let mut programs = Vec::new();
        let mut is_whole = false;
        for pair in texts.chunks_exact(2) {
            let (name, text) = (String::from_utf8_lossy(pair[0]), String::from_utf8_lossy(pair[1]));
            match (name.as_ref(), name.split_once(' ')) {
                ("end", _) => is_whole = true,
                ("path", _) => search_path = Some(text.into_owned()),
                ("functions", _) => {
                    definitions(&text, function_of).for_each(|(name, text)| state.add_function(name, text));
                }
                ("variables", _) => {
                    definitions(&text, variable_of).for_each(|(name, text)| state.add_variable(name, text));
                }
                ("aliases", _) => definitions(&text, alias_of).for_each(|(name, text)| state.add("alias", name, text)),
                ("commands", _) => programs.extend(text.lines().filter_map(program_of)),
                ("traps", _) => state.add_traps(&text),
                (_, Some(("function", name))) => state.add_function(name, &text),
                (_, Some(("variable", name))) => state.add_variable(name, &text),
                (_, Some(("varies", name))) => {
                    state.varying.insert(format!("variable {name}"));
                }
                (_, Some(("command", name))) => programs.push((name.to_owned(), text.into_owned())),
                (kind, _) => state.add(kind, "", &text),
            }
        }
        if let Some(traps) = traps {
            state.add_traps(&String::from_utf8_lossy(traps));
        }
        let is_few = programs.len() <= MAX_PROGRAMS;
        for (name, place) in programs {
            // A shell's own look-ups are not changes.
            if !(is_few && search_path.as_deref().is_some_and(|path| is_first(path, &name, &place))) {
                state.add("place of", &name, &place);
            }
        }
        state.traps.sort();
        state.traps.dedup();
        is_whole.then_some(state)
    }

    /// Adds the directory of the process.
    pub(crate) fn add_directory(&mut self, directory: &str) {
        self.add("directory", "", directory);
    }

    fn add(&mut self, kind: &str, name: &str, text: &str) {
        let key = if name.is_empty() { kind.to_owned() } else { format!("{kind} {name}") };
        // Two parts with one name count together.
        let before = self.parts.get(&key).copied();
        self.parts.insert(key, HASHING.hash_one((before, text)));
    }

    fn add_variable(&mut self, name: &str, text: &str) {
        if runs_by_itself(name, text) {
            self.traps.push(name.to_owned());
        }
        if !is_volatile(name) {
            self.add("variable", name, text);
        }
    }

    fn add_function(&mut self, name: &str, text: &str) {
        self.add("function", name, text);
        if name.starts_with("__steplatch") || text.contains("__steplatch_exchange") {
            return;
        }
        self.traps.extend(name.strip_prefix("TRAP").map(str::to_owned));
        // zsh runs these before and after each command.
        self.traps.extend(["preexec", "precmd"].into_iter().filter(|hook| *hook == name).map(str::to_owned));
        let signal = |option: &str| Some(text.split_once(option)?.1.split_whitespace().next()?.to_owned());
        self.traps.extend(["--on-signal ", "--on-event ", "--on-variable "].into_iter().filter_map(signal));
    }

    fn add_traps(&mut self, text: &str) {
        self.add("traps", "", text);
        let listed = text.lines().filter(|line| line.starts_with("trap -- "));
        self.traps.extend(listed.filter_map(|line| Some(line.rsplit_once(' ')?.1.to_owned())));
    }

    /// Returns the signals and events that the user's traps are for, at most [`MAX_TRAPS`].
    pub(crate) fn traps(&self) -> Vec<String> {
        self.traps.iter().take(MAX_TRAPS).cloned().collect()
    }

    /// Returns the names of the parts that differ, as the beginning of a sentence; `None` if there are none.
    pub(crate) fn difference(&self, now: &Self) -> Option<String> {
        let names = self.parts.keys().chain(now.parts.keys().filter(|name| !self.parts.contains_key(*name)));
        let varies = |name: &String| self.varying.contains(name) || now.varying.contains(name);
        let differs = |name: &&String| self.parts.get(*name) != now.parts.get(*name) && !varies(name);
        let differing: Vec<&str> = names.filter(differs).map(String::as_str).collect();
        let named = differing.iter().take(MAX_NAMED).copied().collect::<Vec<_>>().join(", ");
        match differing.len() {
            0 => None,
            count if count > MAX_NAMED => Some(format!("{named} and {} more", count - MAX_NAMED)),
            _ => Some(named),
        }
    }
}

/// Divides a list of definitions where one begins, with the names that `name` finds in first lines.
fn definitions<'t>(text: &'t str, name: fn(&'t str) -> Option<&'t str>) -> impl Iterator<Item = (&'t str, &'t str)> {
    let mut begins: Vec<(&str, usize)> = Vec::new();
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        begins.extend(name(line.trim_end()).map(|name| (name, at)));
        at += line.len();
    }
    // Text before the first one belongs to it.
    if let Some(first) = begins.first_mut() {
        first.1 = 0;
    }
    let ends: Vec<usize> = begins.iter().skip(1).map(|(_, at)| *at).chain([text.len()]).collect();
    begins.into_iter().zip(ends).map(|((name, begin), end)| (name, &text[begin..end]))
}

/// Returns the name in the first line of a function that bash prints.
fn function_of(line: &str) -> Option<&str> {
    line.strip_suffix(" ()").filter(|name| !name.is_empty() && !name.contains(char::is_whitespace))
}

/// Returns the name in the first line of a variable that bash prints.
fn variable_of(line: &str) -> Option<&str> {
    let (attributes, rest) = line.strip_prefix("declare -")?.split_once(' ')?;
    let name = rest.split_once('=').map_or(rest, |(name, _)| name);
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
    (is_name && attributes.bytes().all(|byte| byte == b'-' || byte.is_ascii_alphabetic())).then_some(name)
}

/// Returns the name in the first line of an alias that bash or zsh prints, or the whole line of an abbreviation of fish.
fn alias_of(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("alias ").or_else(|| line.strip_prefix("abbr "))?;
    Some(rest.split_once('=').map_or(rest, |(name, _)| name))
}

/// Returns the name and the place in a line of `hash -l` of bash.
fn program_of(line: &str) -> Option<(String, String)> {
    let (place, name) = line.strip_prefix("builtin hash -p ")?.rsplit_once(' ')?;
    Some((name.to_owned(), place.to_owned()))
}

/// Returns whether the search path leads to this place for the program's name.
fn is_first(search_path: &str, name: &str, place: &str) -> bool {
    let found = search_path.split(':').map(|folder| Path::new(folder).join(name)).find(|place| place.is_file());
    found.is_some_and(|found| found == Path::new(place))
}

/// Returns whether a variable changes on its own, or by a look at it: clocks, counters, values that line editors and
/// prompts keep to themselves. A shell may compute prompts in the background.
fn is_volatile(name: &str) -> bool {
    /// Of bash, zsh and fish.
    const NAMES: &[&str] = &[
        "_",
        "?",
        "!",
        "#",
        "*",
        "@",
        "-",
        "0",
        "$",
        "argv",
        "status",
        "pipestatus",
        "PIPESTATUS",
        "RANDOM",
        "SRANDOM",
        "SECONDS",
        "EPOCHSECONDS",
        "EPOCHREALTIME",
        "LINENO",
        "HISTCMD",
        "FUNCNAME",
        "DIRSTACK",
        "COLUMNS",
        "LINES",
        "OPTIND",
        "OPTARG",
        "TTYIDLE",
        "ZSH_EVAL_CONTEXT",
        "CMD_DURATION",
        "COPROC",
        "SHELLOPTS",
        "PS1",
        "PROMPT",
        "RPROMPT",
        "RPS1",
        "prompt",
        "psvar",
        "PSVAR",
        "region_highlight",
        "REPLY",
        "MATCH",
        "MBEGIN",
        "MEND",
        "match",
        "mbegin",
        "mend",
        "history",
        "last_pid",
        "fish_last_status",
    ];
    /// Of bash's debugging, completion and line editor, and of the usual prompts. `BASH_ENV` is not such a variable.
    const PREFIXES: &[&str] = &[
        "__steplatch",
        "BASH_ALIASES",
        "BASH_ARG",
        "BASH_CMDS",
        "BASH_COMMAND",
        "BASH_LINENO",
        "BASH_MONOSECONDS",
        "BASH_REMATCH",
        "BASH_SOURCE",
        "BASH_SUBSHELL",
        "BASHPID",
        "COMP_",
        "READLINE_",
        "func",
        "_p9k",
        "__p9k",
        "P9K_",
        "_gitstatus",
        "GITSTATUS_",
        "_GITSTATUS",
        "VCS_STATUS_",
        "vcs_info",
        "starship_",
        "STARSHIP_",
        "__starship",
        "_starship",
        "prompt_pure",
        "async_",
        "ASYNC_",
        "_async",
        "_zsh_autosuggest",
        "_zsh_highlight",
        "_ble_",
        "_omp_",
        "__fish_",
        "_tide_",
        "_hydro_",
    ];
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Returns whether a shell executes what this variable has before or after each command, apart from what the integration put there.
fn runs_by_itself(name: &str, text: &str) -> bool {
    const OF_INTEGRATION: [&str; 7] = [
        r"\${__steplatch_elsewhere:+\$(__steplatch_mark_start)}",
        r##"\${__steplatch_hook#\"\${PROMPT_COMMAND[999]:=\$__steplatch_hook}\"}"##,
        r##"\${__steplatch_bang:+\${histchars##\"\${histchars:=\$__steplatch_bang}\"}}"##,
        "{ __steplatch_end; } >/dev/null 2>&1",
        "{ __steplatch_prompt; } 3>&2 >/dev/null 2>&1",
        r"__steplatch_status=\$?",
        r"__steplatch_status=$?\n",
    ];
    let without_integration =
        |value: &str| OF_INTEGRATION.iter().fold(value.to_owned(), |value, part| value.replace(part, ""));
    match name {
        // The shell expands it as a prompt.
        "PS0" => {
            let own = without_integration(text);
            own.contains("$(") || own.contains('`') || own.contains("${")
        }
        "PROMPT_COMMAND" => {
            let value = text.split_once("PROMPT_COMMAND=").map_or(text, |(_, value)| value);
            let own = without_integration(value);
            let has_word = |part: &str| part.chars().any(char::is_alphabetic);
            own.split(']')
                .any(|part| has_word(part.trim_end_matches(|sign: char| sign == '[' || sign.is_ascii_digit())))
        }
        "preexec_functions" | "precmd_functions" => {
            let mut entries = text.split_whitespace().filter(|entry| entry.starts_with("$'"));
            entries.any(|entry| !entry.starts_with("$'__steplatch_"))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_bash(variables: &str, functions: &str, traps: &str) -> ShellState {
        let answer = format!(
            "options\0himBHs\0aliases\0alias ll='ls -l'\n\0functions\0{functions}\0variables\0{variables}\0end\0\0"
        );
        ShellState::parse(answer.as_bytes(), Some(traps.as_bytes())).unwrap()
    }

    #[test]
    fn differences_have_the_names_of_what_changed() {
        let before = of_bash("declare -x A=\"1\"\ndeclare -- B=\"x\ny\"\n", "make () \n{ \n    :\n}\n", "");
        assert_eq!(before.difference(&before), None);
        let after =
            of_bash("declare -- A=\"1\"\ndeclare -- B=\"x\nz\"\ndeclare -i C=\"1\"\n", "make () \n{ \n    rm\n}\n", "");
        assert_eq!(before.difference(&after).unwrap(), "function make, variable A, variable B, variable C");
        let many: String = (0..9).map(|number| format!("declare -- V{number}=\"\"\n")).collect();
        assert_eq!(
            of_bash("", "", "").difference(&of_bash(&many, "", "")).unwrap(),
            "variable V0, variable V1, variable V2, variable V3, variable V4 and 4 more"
        );
    }

    #[test]
    fn a_variable_that_the_prompt_changes_is_no_difference_and_others_are() {
        let state = |count: u8, other: u8| {
            let answer = format!("variable n\0{count}\0variable m\0{other}\0varies n\0\0end\0\0");
            ShellState::parse(answer.as_bytes(), None).unwrap()
        };
        assert_eq!(state(1, 1).difference(&state(2, 1)), None);
        assert_eq!(state(1, 1).difference(&state(2, 2)).unwrap(), "variable m");
    }

    #[test]
    fn what_changes_by_itself_is_no_difference_and_a_file_that_every_bash_reads_is() {
        let before = of_bash("declare -- RANDOM=\"1\"\ndeclare -x BASH_ENV=\"\"\ndeclare -- _p9k__x=\"1\"\n", "", "");
        let after = of_bash("declare -- RANDOM=\"2\"\ndeclare -x BASH_ENV=\"/tmp/x\"\ndeclare -- PS1=\"2\"\n", "", "");
        assert_eq!(before.difference(&after).unwrap(), "variable BASH_ENV");
    }

    #[test]
    fn traps_are_compared_and_named() {
        let (none, usr1) = (of_bash("", "", ""), of_bash("", "", "trap -- 'make() { rm x; }' SIGUSR1\n"));
        assert_eq!((none.traps(), usr1.traps()), (Vec::new(), vec!["SIGUSR1".to_owned()]));
        assert_eq!(none.difference(&usr1).unwrap(), "traps");
        let zsh =
            |text: &str| ShellState::parse(format!("function TRAPUSR1\0{text}\0end\0\0").as_bytes(), None).unwrap();
        assert_eq!(zsh("rm x").traps(), ["USR1"]);
        assert!(zsh("__steplatch_exchange \"$@\"").traps().is_empty(), "the integration's own");
    }

    #[test]
    fn what_runs_with_each_command_is_named_as_traps_are() {
        let hook =
            "[0]=\"{ __steplatch_end; } >/dev/null 2>&1\" [999]=\"{ __steplatch_prompt; } 3>&2 >/dev/null 2>&1\"";
        let mark = "\\e]133;R;k=0a;s=\\$?\\a\\${__steplatch_bang:+\\${histchars##\\\"\\${histchars:=\\$__steplatch_bang}\\\"}}\\${__steplatch_hook#\\\"\\${PROMPT_COMMAND[999]:=\\$__steplatch_hook}\\\"}\\\\e]133;C;k=0a\\\\a\\${__steplatch_elsewhere:+\\$(__steplatch_mark_start)}";
        for (variable, name) in [
            (format!("declare -- PS0=\"{mark}\""), None),
            (format!("declare -- PS0=\"\\$(test -e flag && evil){mark}\""), Some("PS0")),
            (format!("declare -- PS0=\"\\`evil\\`{mark}\""), Some("PS0")),
            (format!("declare -- PS0=\"{mark}\\$(evil)\""), Some("PS0")),
            (format!("declare -a PROMPT_COMMAND=({hook})"), None),
            (format!("declare -a PROMPT_COMMAND=([1]=\":\" {hook})"), None),
            (format!("declare -a PROMPT_COMMAND=([1]=\"evil\" {hook})"), Some("PROMPT_COMMAND")),
        ] {
            let traps = of_bash(&format!("{variable}\n"), "", "").traps();
            assert_eq!(traps.first().map(String::as_str), name, "{variable}");
        }
        let zsh = |text: &str| ShellState::parse(format!("{text}\0end\0\0").as_bytes(), None).unwrap().traps();
        assert_eq!(zsh("variable preexec_functions\0array $'__steplatch_preexec'"), [""; 0]);
        assert_eq!(zsh("variable preexec_functions\0array $'evil' $'__steplatch_preexec'"), ["preexec_functions"]);
        assert_eq!(zsh("function preexec\0evil"), ["preexec"]);
        assert_eq!(zsh("function evil\0function evil --on-event fish_preexec\nend"), ["fish_preexec"]);
    }

    #[test]
    fn a_place_that_the_path_leads_to_is_no_difference() {
        let folder = tempfile::tempdir().unwrap();
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("tool"), "").unwrap();
        let (bin, path) = (bin.display().to_string(), format!("/none:{}", bin.display()));
        let state = |place: &str| {
            let answer = format!("path\0{path}\0commands\0builtin hash -p {place} tool\n\0end\0\0");
            ShellState::parse(answer.as_bytes(), None).unwrap()
        };
        assert_eq!(state(&format!("{bin}/tool")), ShellState::parse(b"end\0\0", None).unwrap());
        assert_eq!(state(&format!("{bin}/tool")).difference(&state("/tmp/evil")).unwrap(), "place of tool");
    }

    #[test]
    fn a_report_without_its_end_is_none() {
        assert_eq!(ShellState::parse(b"options\0x\0variables\0declare", None), None);
    }
}
