//! The state of a shell that a command line depends on: its directory, variables, parameters, functions, aliases,
//! traps, keys, options, jobs and open files.
//!
//! A shell at its prompt reports its state in an exchange ([`exchange`](crate::exchange)). This module keeps only
//! hashes, enough to compare two states and to name the differences. It omits variables that change on their own, such
//! as `SECONDS` and private variables of prompts ([`is_volatile`]). The module trusts the report: it does not detect a
//! shell that was manipulated before the first request.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{BuildHasher as _, RandomState};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::Path;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use crate::integration::Kind;

/// Random keys of the hashes, so that no program can construct a hash collision.
static HASH_STATE: LazyLock<RandomState> = LazyLock::new(RandomState::new);

/// Maximum number of named differences. A count replaces the others.
const MAX_NAMED_DIFFERENCES: usize = 5;

/// Maximum number of named signals and events of traps.
const MAX_TRAPS: usize = 10;

/// Maximum number of remembered programs to look up in `PATH`. With more programs, every remembered path is compared.
const MAX_PROGRAMS: usize = 5000;

/// The state of a shell at one moment.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ShellState {
    /// The hash of each part, by its name.
    parts: BTreeMap<String, u64>,
    /// The names of parts that change with each prompt. These parts are not compared.
    volatile_parts: BTreeSet<String>,
    /// The background jobs, by their processes. The end of a job is not a difference.
    jobs: BTreeSet<String>,
    /// The signals and events of the user's traps.
    traps: Vec<String>,
}

/// The open files that the commands of a shell inherit, by descriptor.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct OpenFiles(BTreeMap<u32, String>);

/// The state of a terminal at a question to a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum NotedState {
    /// The state of the shell, for comparison before the next approved input.
    Shell {
        /// Trapped signals and events: at each, the shell runs a command on its own.
        traps: Vec<String>,
    },
    /// A program waits for input. The comparison checks only that it is the same program.
    Program {
        /// The name.
        program: Option<String>,
    },
    /// The state is unknown, so nothing is compared.
    Unknown {
        /// The reason.
        #[serde(rename = "why")]
        reason: String,
    },
}

impl ShellState {
    /// Parses the report of a shell, and the separate list of bash's traps. Returns `None` if the report is truncated.
    pub(crate) fn parse(answer: &[u8], traps: Option<&[u8]>) -> Option<Self> {
        let texts: Vec<&[u8]> = answer.split(|&byte| byte == 0).collect();
        let mut state = Self::default();
        let mut search_path = None;
        let mut programs = Vec::new();
        let mut is_complete = false;
        for pair in texts.chunks_exact(2) {
            let (name, text) = (String::from_utf8_lossy(pair[0]), String::from_utf8_lossy(pair[1]));
            match (name.as_ref(), name.split_once(' ')) {
                ("end", _) => is_complete = true,
                ("path", _) => search_path = Some(text.into_owned()),
                ("functions", _) => {
                    split_definitions(&text, parse_function_name)
                        .for_each(|(name, text)| state.add_function(name, text));
                }
                ("variables", _) => {
                    split_definitions(&text, parse_variable_name)
                        .for_each(|(name, text)| state.add_variable(name, text, Kind::Bash));
                }
                ("jobs", _) => state.jobs.extend(parse_job_processes(&text)),
                ("schedule", _) => state.add_schedule(&text),
                ("aliases", _) => {
                    split_definitions(&text, parse_alias_name).for_each(|(name, text)| state.add("alias", name, text));
                }
                ("commands", _) => programs.extend(text.lines().filter_map(parse_hashed_program)),
                ("traps", _) => state.add_traps(&text),
                (_, Some(("function", name))) => state.add_function(name, &text),
                (_, Some(("variable", name))) => state.add_variable(name, &text, Kind::Zsh),
                (_, Some(("fish-variable", name))) => state.add_variable(name, &text, Kind::Fish),
                (_, Some(("varies", name))) => {
                    state.volatile_parts.insert(format!("variable {name}"));
                }
                (_, Some(("command", name))) => programs.push((name.to_owned(), text.into_owned())),
                (kind, _) => state.add(kind, "", &text),
            }
        }
        if let Some(traps) = traps {
            // The positional parameters follow the traps.
            let end = traps.iter().position(|&byte| byte == 0).unwrap_or(traps.len());
            state.add_traps(&String::from_utf8_lossy(&traps[..end]));
            state.add("parameters", "", &String::from_utf8_lossy(&traps[end..]));
        }
        let has_few_programs = programs.len() <= MAX_PROGRAMS;
        for (name, path) in programs {
            // A path that the shell would look up again is not a change.
            if !(has_few_programs
                && search_path.as_deref().is_some_and(|search_path| is_found_in_path(search_path, &name, &path)))
            {
                state.add("place of", &name, &path);
            }
        }
        state.traps.sort();
        state.traps.dedup();
        is_complete.then_some(state)
    }

    /// Adds the directory and the limits of the process, as reported by the kernel.
    pub(crate) fn add_process(&mut self, pid: i32) {
        let directory = format!("/proc/{pid}/cwd");
        let file_id = fs::metadata(&directory).map(|metadata| (metadata.dev(), metadata.ino()));
        self.add("directory", "", &format!("{file_id:?} {:?}", fs::read_link(&directory)));
        self.add("limits", "", &fs::read_to_string(format!("/proc/{pid}/limits")).unwrap_or_default());
    }

    /// Adds the disabled patterns of zsh.
    pub(crate) fn add_patterns(&mut self, patterns: &[u8]) {
        self.add("disabled patterns", "", &String::from_utf8_lossy(patterns));
    }

    fn add(&mut self, kind: &str, name: &str, text: &str) {
        let key = if name.is_empty() { kind.to_owned() } else { format!("{kind} {name}") };
        // Combine the hashes of parts with the same name.
        let previous = self.parts.get(&key).copied();
        self.parts.insert(key, HASH_STATE.hash_one((previous, text)));
    }

    fn add_variable(&mut self, name: &str, text: &str, shell: Kind) {
        if has_hook_code(name, text) {
            self.traps.push(name.to_owned());
        }
        if !is_volatile(name, text, shell) {
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

    /// Adds the list of scheduled commands of zsh.
    fn add_schedule(&mut self, text: &str) {
        let events = text.lines().filter(|line| !line.contains("__steplatch_"));
        let events = events.filter_map(|line| line.trim_start().split_once(' ')).map(|(_, event)| event);
        let events: Vec<&str> = events.collect();
        self.add("schedule", "", &events.join("\n"));
        self.traps.extend((!events.is_empty()).then(|| "sched".to_owned()));
    }

    fn add_traps(&mut self, text: &str) {
        self.add("traps", "", text);
        let user_traps = text.lines().filter(|line| line.starts_with("trap -- ") && *line != ZSH_INTEGRATION_TRAP);
        self.traps.extend(user_traps.filter_map(|line| Some(line.rsplit_once(' ')?.1.to_owned())));
    }

    /// Returns the signals and events of the user's traps, at most [`MAX_TRAPS`].
    pub(crate) fn traps(&self) -> Vec<String> {
        self.traps.iter().take(MAX_TRAPS).cloned().collect()
    }

    /// Returns the names of the differing parts, as the beginning of a sentence; `None` if there are none.
    pub(crate) fn difference(&self, current: &Self) -> Option<String> {
        let names = self.parts.keys().chain(current.parts.keys().filter(|name| !self.parts.contains_key(*name)));
        let varies = |name: &String| self.volatile_parts.contains(name) || current.volatile_parts.contains(name);
        let differs = |name: &&String| self.parts.get(*name) != current.parts.get(*name) && !varies(name);
        let new_jobs = current.jobs.iter().filter(|job| !self.jobs.contains(*job));
        let differing: Vec<&str> = names.filter(differs).chain(new_jobs).map(String::as_str).collect();
        let names = differing.iter().take(MAX_NAMED_DIFFERENCES).copied().collect::<Vec<_>>().join(", ");
        match differing.len() {
            0 => None,
            count if count > MAX_NAMED_DIFFERENCES => {
                Some(format!("{names} and {} more", count - MAX_NAMED_DIFFERENCES))
            }
            _ => Some(names),
        }
    }
}

impl OpenFiles {
    /// Highest descriptor that a command line can name.
    const MAX_DESCRIPTOR: u32 = 9;

    /// Reads the open files of a process that its commands inherit.
    pub(crate) fn read(pid: i32) -> Self {
        let entries = fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        Self(numbers.filter_map(|number| Some((number, Self::describe_file(pid, number)?))).collect())
    }

    /// Describes the file of a descriptor, with its position if commands read from it.
    fn describe_file(pid: i32, number: u32) -> Option<String> {
        const O_ACCMODE: u64 = 0o3;
        const O_WRONLY: u64 = 0o1;
        const O_APPEND: u64 = 0o2000;
        const O_CLOEXEC: u64 = 0o2_000_000;
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).ok()?;
        let field = |name: &str| info.lines().find_map(|line| Some(line.strip_prefix(name)?.trim()));
        let flags = u64::from_str_radix(field("flags:")?, 8).ok()?;
        let path = format!("/proc/{pid}/fd/{number}");
        let metadata = fs::metadata(&path).ok()?;
        let (kind, target) = (metadata.file_type(), fs::read_link(&path).ok()?);
        // Shells and their plugins have private pipes at higher numbers.
        if flags & O_CLOEXEC != 0 || (number > Self::MAX_DESCRIPTOR && !kind.is_file()) {
            return None;
        }
        // Ignore the flags of a terminal, because they differ after a reopening.
        let flags = if kind.is_char_device() { 0 } else { flags & (O_ACCMODE | O_APPEND) };
        let position = field("pos:").filter(|_| kind.is_file() && flags & O_ACCMODE != O_WRONLY).unwrap_or_default();
        Some(format!("{target:?} {} {} {flags} {position}", metadata.dev(), metadata.ino()))
    }

    /// Returns the names of the differing descriptors, as the beginning of a sentence; `None` if there are none.
    /// Ignores opened and closed descriptors above [`Self::MAX_DESCRIPTOR`].
    pub(crate) fn difference(&self, current: &Self) -> Option<String> {
        let numbers: BTreeSet<u32> = self.0.keys().chain(current.0.keys()).copied().collect();
        let differs = |number: &u32| match (self.0.get(number), current.0.get(number)) {
            (Some(before), Some(current)) => before != current,
            (before, current) => *number <= Self::MAX_DESCRIPTOR && before.is_some() != current.is_some(),
        };
        let differing: Vec<String> =
            numbers.into_iter().filter(differs).map(|number| format!("file descriptor {number}")).collect();
        (!differing.is_empty()).then(|| differing.join(", "))
    }
}

/// The trap of the integration in zsh, as zsh lists it.
const ZSH_INTEGRATION_TRAP: &str = r#"trap -- '__steplatch_exchange parameters "$@"' USR1"#;

/// Returns the processes in a list of jobs: plain numbers, or in zsh the numbers before an equals sign.
fn parse_job_processes(text: &str) -> impl Iterator<Item = String> {
    let words = text.split(|character: char| character.is_whitespace() || character == ':');
    let number = |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    words.filter_map(move |word| word.split('=').next().filter(number)).map(|number| format!("job {number}"))
}

/// Splits a list of definitions, with the names that `name` parses from their first lines.
fn split_definitions<'t>(
    text: &'t str,
    name: fn(&'t str) -> Option<&'t str>,
) -> impl Iterator<Item = (&'t str, &'t str)> {
    let mut begins: Vec<(&str, usize)> = Vec::new();
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        begins.extend(name(line.trim_end()).map(|name| (name, offset)));
        offset += line.len();
    }
    // Add text before the first definition to that definition.
    if let Some(first) = begins.first_mut() {
        first.1 = 0;
    }
    let ends: Vec<usize> = begins.iter().skip(1).map(|(_, offset)| *offset).chain([text.len()]).collect();
    begins.into_iter().zip(ends).map(|((name, begin), end)| (name, &text[begin..end]))
}

/// Returns the name in the first line of a function printed by bash.
fn parse_function_name(line: &str) -> Option<&str> {
    line.strip_suffix(" ()").filter(|name| !name.is_empty() && !name.contains(char::is_whitespace))
}

/// Returns the name in the first line of a variable printed by bash.
fn parse_variable_name(line: &str) -> Option<&str> {
    let (attributes, assignment) = line.strip_prefix("declare -")?.split_once(' ')?;
    let name = assignment.split_once('=').map_or(assignment, |(name, _)| name);
    let is_name = !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric());
    (is_name && attributes.bytes().all(|byte| byte == b'-' || byte.is_ascii_alphabetic())).then_some(name)
}

/// Returns the name in the first line of an alias printed by bash or zsh, or the whole line of an abbreviation of fish.
fn parse_alias_name(line: &str) -> Option<&str> {
    let definition = line.strip_prefix("alias ").or_else(|| line.strip_prefix("abbr "))?;
    Some(definition.split_once('=').map_or(definition, |(name, _)| name))
}

/// Returns the name and the path in a line of bash's `hash -l`.
fn parse_hashed_program(line: &str) -> Option<(String, String)> {
    let (path, name) = line.strip_prefix("builtin hash -p ")?.rsplit_once(' ')?;
    Some((name.to_owned(), path.to_owned()))
}

/// Returns whether a lookup of a program in the search path finds this path, or found it before the removal of the
/// file.
fn is_found_in_path(search_path: &str, name: &str, expected: &str) -> bool {
    let mut paths = search_path.split(':').map(|directory| Path::new(directory).join(name));
    let is_gone = !Path::new(expected).is_file() && paths.clone().any(|known| known == Path::new(expected));
    is_gone || paths.find(|expected| expected.is_file()).is_some_and(|found| found == Path::new(expected))
}

/// Returns whether a variable changes on its own or when it is read: clocks, counters, private variables of line
/// editors and of prompts (a shell may compute prompts in the background). Exported variables of prompts are always
/// compared.
fn is_volatile(name: &str, text: &str, shell: Kind) -> bool {
    const BASH_VARIABLES: &[&str] = &[
        "BASHPID",
        "BASH_ALIASES",
        "BASH_ARGC",
        "BASH_ARGV",
        "BASH_CMDS",
        "BASH_COMMAND",
        "BASH_LINENO",
        "BASH_MONOSECONDS",
        "BASH_REMATCH",
        "BASH_SOURCE",
        "BASH_SUBSHELL",
        "COMP_CWORD",
        "COMP_KEY",
        "COMP_LINE",
        "COMP_POINT",
        "COMP_TYPE",
        "COMP_WORDS",
        "DIRSTACK",
        "EPOCHREALTIME",
        "EPOCHSECONDS",
        "FUNCNAME",
        "HISTCMD",
        "PIPESTATUS",
        "PS1",
        "RANDOM",
        "READLINE_ARGUMENT",
        "READLINE_LINE",
        "READLINE_MARK",
        "READLINE_POINT",
        "SECONDS",
        "SHELLOPTS",
        "SRANDOM",
    ];
    const ZSH_VARIABLES: &[&str] = &[
        "?",
        "!",
        "#",
        "*",
        "@",
        "-",
        "0",
        "$",
        "EPOCHREALTIME",
        "EPOCHSECONDS",
        "HISTCMD",
        "MATCH",
        "MBEGIN",
        "MEND",
        "OPTARG",
        "OPTIND",
        "PROMPT",
        "PS1",
        "PSVAR",
        "RANDOM",
        "REPLY",
        "RPROMPT",
        "RPS1",
        "SECONDS",
        "SRANDOM",
        "TTYIDLE",
        "ZSH_EVAL_CONTEXT",
        "argv",
        "epochtime",
        "funcfiletrace",
        "funcsourcetrace",
        "funcstack",
        "functrace",
        "history",
        "match",
        "mbegin",
        "mend",
        "pipestatus",
        "prompt",
        "psvar",
        "region_highlight",
        "status",
    ];
    const FISH_VARIABLES: &[&str] = &[
        "CMD_DURATION",
        "argv",
        "fish_last_status",
        "history",
        "last_pid",
        "pipestatus",
        "status",
        "status_generation",
    ];
    /// Variables of all shells.
    const COMMON_VARIABLES: &[&str] = &["_", "COLUMNS", "LINENO", "LINES"];
    /// Variables of the integration that change; its other variables are compared.
    const INTEGRATION_VARIABLES: &[&str] = &[
        "__steplatch_a",
        "__steplatch_at",
        "__steplatch_bang",
        "__steplatch_bye",
        "__steplatch_code",
        "__steplatch_count",
        "__steplatch_elsewhere",
        "__steplatch_ended",
        "__steplatch_exit_count",
        "__steplatch_expanded",
        "__steplatch_file",
        "__steplatch_globals",
        "__steplatch_had_bang",
        "__steplatch_is_global",
        "__steplatch_last",
        "__steplatch_line",
        "__steplatch_modes",
        "__steplatch_name",
        "__steplatch_names",
        "__steplatch_piped",
        "__steplatch_plain",
        "__steplatch_point",
        "__steplatch_real",
        "__steplatch_restored",
        "__steplatch_second",
        "__steplatch_set",
        "__steplatch_shown",
        "__steplatch_status",
        "__steplatch_text",
        "__steplatch_time",
        "__steplatch_without",
    ];
    /// Prefixes of variables of common prompts and their plugins.
    const PROMPT_PREFIXES: &[&str] = &[
        "_p9k",
        "__p9k",
        "P9K_",
        "_gitstatus",
        "GITSTATUS_",
        "_GITSTATUS",
        "VCS_STATUS_",
        "vcs_info_msg_",
        "starship_",
        "STARSHIP_",
        "__starship",
        "_starship",
        "prompt_pure",
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
    let names = match shell {
        Kind::Bash => BASH_VARIABLES,
        Kind::Zsh => ZSH_VARIABLES,
        Kind::Fish => FISH_VARIABLES,
        Kind::Posix => &[],
    };
    // The functions of fish depend on its directories.
    let is_directory = || name.starts_with("__fish_") && name.ends_with("_dir");
    let is_inherited = || match shell {
        Kind::Bash => text.split(' ').nth(1).is_some_and(|attributes| attributes.contains('x')),
        Kind::Zsh => text.split(' ').next().is_some_and(|kind| kind.split('-').any(|word| word == "export")),
        Kind::Fish => text.lines().any(|line| line.contains(", exported,")),
        Kind::Posix => false,
    };
    [names, COMMON_VARIABLES, INTEGRATION_VARIABLES].iter().any(|names| names.contains(&name))
        || (PROMPT_PREFIXES.iter().any(|prefix| name.starts_with(prefix)) && !is_directory() && !is_inherited())
}

/// Returns whether the variable contains code, other than the integration's, that the shell executes before or after
/// each command.
fn has_hook_code(name: &str, text: &str) -> bool {
    const INTEGRATION_CODE: [&str; 8] = [
        r"\$((__steplatch_count += 1))",
        r"\${__steplatch_elsewhere:+\$(__steplatch_mark_start)}",
        r##"\${__steplatch_hook##\"\${PROMPT_COMMAND[999]:=\$__steplatch_hook}\"}"##,
        r##"\${__steplatch_bang:+\${histchars##\"\${histchars:=\$__steplatch_bang}\"}}"##,
        "{ __steplatch_end; } >/dev/null 2>&1",
        "{ __steplatch_prompt; } 3>&2 4>&1 >/dev/null 2>&1",
        r"__steplatch_status=\$?",
        r"__steplatch_status=$?\n",
    ];
    let without_integration =
        |value: &str| INTEGRATION_CODE.iter().fold(value.to_owned(), |value, code| value.replace(code, ""));
    match name {
        // The shell expands this variable like a prompt.
        "PS0" => {
            let user_code = without_integration(text);
            user_code.contains("$(") || user_code.contains('`') || user_code.contains("${")
        }
        // Other expansions of a prompt have no effects.
        "PS1" | "RPS1" => {
            let user_code = without_integration(text);
            user_code.contains("$(") || user_code.contains('`')
        }
        "PROMPT_COMMAND" => {
            let value = text.split_once("PROMPT_COMMAND=").map_or(text, |(_, value)| value);
            let user_code = without_integration(value);
            let has_word = |code: &str| code.chars().any(char::is_alphabetic);
            user_code.split(']').any(|code| {
                has_word(code.trim_end_matches(|character: char| character == '[' || character.is_ascii_digit()))
            })
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

    fn bash_state(variables: &str, functions: &str, traps: &str) -> ShellState {
        let answer = format!(
            "options\0himBHs\0aliases\0alias ll='ls -l'\n\0functions\0{functions}\0variables\0{variables}\0end\0\0"
        );
        ShellState::parse(answer.as_bytes(), Some(traps.as_bytes())).unwrap()
    }

    #[test]
    fn differences_are_named_after_the_change() {
        let before = bash_state("declare -x A=\"1\"\ndeclare -- B=\"x\ny\"\n", "make () \n{ \n    :\n}\n", "");
        assert_eq!(before.difference(&before), None);
        let after = bash_state(
            "declare -- A=\"1\"\ndeclare -- B=\"x\nz\"\ndeclare -i C=\"1\"\n",
            "make () \n{ \n    rm\n}\n",
            "",
        );
        assert_eq!(before.difference(&after).unwrap(), "function make, variable A, variable B, variable C");
        let many: String = (0..9).map(|number| format!("declare -- V{number}=\"\"\n")).collect();
        assert_eq!(
            bash_state("", "", "").difference(&bash_state(&many, "", "")).unwrap(),
            "variable V0, variable V1, variable V2, variable V3, variable V4 and 4 more"
        );
    }

    #[test]
    fn variables_changed_by_the_prompt_are_ignored() {
        let state = |count: u8, other: u8| {
            let answer = format!("variable n\0{count}\0variable m\0{other}\0varies n\0\0end\0\0");
            ShellState::parse(answer.as_bytes(), None).unwrap()
        };
        assert_eq!(state(1, 1).difference(&state(2, 1)), None);
        assert_eq!(state(1, 1).difference(&state(2, 2)).unwrap(), "variable m");
    }

    #[test]
    fn volatile_values_are_ignored_but_bash_startup_files_are_not() {
        let before =
            bash_state("declare -- RANDOM=\"1\"\ndeclare -x BASH_ENV=\"\"\ndeclare -- _p9k__x=\"1\"\n", "", "");
        let after =
            bash_state("declare -- RANDOM=\"2\"\ndeclare -x BASH_ENV=\"/tmp/x\"\ndeclare -- PS1=\"2\"\n", "", "");
        assert_eq!(before.difference(&after).unwrap(), "variable BASH_ENV");
    }

    #[test]
    fn traps_are_compared_and_named() {
        let (none, usr1) = (bash_state("", "", ""), bash_state("", "", "trap -- 'make() { rm x; }' SIGUSR1\n"));
        assert_eq!((none.traps(), usr1.traps()), (Vec::new(), vec!["SIGUSR1".to_owned()]));
        assert_eq!(none.difference(&usr1).unwrap(), "traps");
        let zsh =
            |text: &str| ShellState::parse(format!("function TRAPUSR1\0{text}\0end\0\0").as_bytes(), None).unwrap();
        assert_eq!(zsh("rm x").traps(), ["USR1"]);
        assert!(zsh("__steplatch_exchange signal \"$@\"").traps().is_empty(), "the trap of the integration is ignored");
        let traps =
            |text: &str| ShellState::parse(format!("traps\0{text}\n\0end\0\0").as_bytes(), None).unwrap().traps();
        assert!(traps(ZSH_INTEGRATION_TRAP).is_empty());
        assert_eq!(traps("trap -- '__steplatch_exchange parameters \"$@\"; evil' USR1"), ["USR1"]);
    }

    #[test]
    fn prompt_hooks_are_named_like_traps() {
        let hook =
            "[0]=\"{ __steplatch_end; } >/dev/null 2>&1\" [999]=\"{ __steplatch_prompt; } 3>&2 4>&1 >/dev/null 2>&1\"";
        let mark = "\\e]133;R;k=0a;s=\\$?;n=\\$((__steplatch_count += 1))\\a\\${__steplatch_bang:+\\${histchars##\\\"\\${histchars:=\\$__steplatch_bang}\\\"}}\\${__steplatch_hook##\\\"\\${PROMPT_COMMAND[999]:=\\$__steplatch_hook}\\\"}\\\\e]133;C;k=0a\\\\a\\${__steplatch_elsewhere:+\\$(__steplatch_mark_start)}";
        for (variable, name) in [
            (format!("declare -- PS0=\"{mark}\""), None),
            (format!("declare -- PS0=\"\\$(test -e flag && evil){mark}\""), Some("PS0")),
            (format!("declare -- PS0=\"\\`evil\\`{mark}\""), Some("PS0")),
            (format!("declare -- PS0=\"{mark}\\$(evil)\""), Some("PS0")),
            (r#"declare -- PS1="\${debian_chroot:+(\$debian_chroot)}\\u:\\w\\\$ ""#.to_owned(), None),
            (r#"declare -- PS1="\\[n=\$((__steplatch_count += 1))\\]\\\$ ""#.to_owned(), None),
            (r#"declare -- PS1="\$(evil)\\\$ ""#.to_owned(), Some("PS1")),
            (r#"declare -- PS1="\$((n = 1))\\\$ ""#.to_owned(), Some("PS1")),
            (format!("declare -a PROMPT_COMMAND=({hook})"), None),
            (format!("declare -a PROMPT_COMMAND=([1]=\":\" {hook})"), None),
            (format!("declare -a PROMPT_COMMAND=([1]=\"evil\" {hook})"), Some("PROMPT_COMMAND")),
        ] {
            let traps = bash_state(&format!("{variable}\n"), "", "").traps();
            assert_eq!(traps.first().map(String::as_str), name, "{variable}");
        }
        let zsh = |text: &str| ShellState::parse(format!("{text}\0end\0\0").as_bytes(), None).unwrap().traps();
        assert_eq!(zsh("variable preexec_functions\0array $'__steplatch_preexec'"), [""; 0]);
        assert_eq!(zsh("variable preexec_functions\0array $'evil' $'__steplatch_preexec'"), ["preexec_functions"]);
        assert_eq!(zsh("function preexec\0evil"), ["preexec"]);
        assert_eq!(zsh("function evil\0function evil --on-event fish_preexec\nend"), ["fish_preexec"]);
    }

    #[test]
    fn new_job_is_a_difference_but_an_ended_one_is_not() {
        let jobs = |text: &str| ShellState::parse(format!("jobs\0{text}\0end\0\0").as_bytes(), None).unwrap();
        let (one_job, two_jobs) = (jobs("12\n"), jobs("12\n34\n"));
        assert_eq!(
            (two_jobs.difference(&one_job), one_job.difference(&two_jobs).unwrap()),
            (None, "job 34".to_owned())
        );
        // As listed by zsh.
        assert_eq!(
            jobs("").difference(&jobs("running:+:56=running\nsuspended:-:7=suspended (signal)")).unwrap(),
            "job 56, job 7"
        );
    }

    #[test]
    fn parameters_are_compared_with_their_number() {
        let state = |parameters: &str| {
            ShellState::parse(b"end\0\0", Some(format!("trap -- 'x' EXIT\n\0{parameters}").as_bytes())).unwrap()
        };
        assert_eq!(state("0").difference(&state("1\0")).unwrap(), "parameters");
        assert_eq!((state("1\0a").difference(&state("1\0a")), state("0").traps()), (None, vec!["EXIT".to_owned()]));
    }

    #[test]
    fn open_files_are_compared_with_input_of_the_next_command() {
        let files =
            |rows: &[(u32, &str)]| OpenFiles(rows.iter().map(|(number, file)| (*number, (*file).to_owned())).collect());
        let before = files(&[(0, "tty"), (3, "a 0"), (12, "b")]);
        assert_eq!(before.difference(&before), None);
        assert_eq!(before.difference(&files(&[(0, "tty"), (3, "a 7"), (12, "b")])).unwrap(), "file descriptor 3");
        assert_eq!(before.difference(&files(&[(3, "a 0"), (4, "x")])).unwrap(), "file descriptor 0, file descriptor 4");
        // A shell keeps private files at high numbers; a variable may name such a file.
        assert_eq!(before.difference(&files(&[(0, "tty"), (3, "a 0"), (11, "c")])), None);
        assert_eq!(before.difference(&files(&[(0, "tty"), (3, "a 0"), (12, "c")])).unwrap(), "file descriptor 12");
    }

    #[test]
    fn equivalent_path_is_not_a_difference() {
        let directory = tempfile::tempdir().unwrap();
        let bin = directory.path().join("bin");
        std::fs::create_dir(&bin).unwrap();
        std::fs::write(bin.join("tool"), "").unwrap();
        let (bin, path) = (bin.display().to_string(), format!("/none:{}", bin.display()));
        let state = |place: &str| {
            let answer = format!("path\0{path}\0commands\0builtin hash -p {place} tool\n\0end\0\0");
            ShellState::parse(answer.as_bytes(), None).unwrap()
        };
        assert_eq!(state(&format!("{bin}/tool")), ShellState::parse(b"end\0\0", None).unwrap());
        assert_eq!(state(&format!("{bin}/tool")).difference(&state("/tmp/evil")).unwrap(), "place of tool");
        assert_eq!(
            state("/none/tool"),
            state(&format!("{bin}/tool")),
            "the path of a removed program is not a difference"
        );
    }

    #[test]
    fn report_without_its_end_is_invalid() {
        assert_eq!(ShellState::parse(b"options\0x\0variables\0declare", None), None);
    }
}
