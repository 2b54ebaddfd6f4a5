//! Judgement of commands by the table of known programs. An unlisted program, option or operand is unknown.

use super::Effect::{Irreversible, Reversible, Unknown};
use super::paths::{
    file_name, in_named_home, is_ancestor, is_build_file, is_protected_path, is_script, is_trusted_file,
};
use super::shell::{
    Argument, Judge, Stdin, arithmetic_assignments, changes_directory, has_substitution, is_name_character,
};
use super::sql;
use super::table::{CommandOption, Input, Meaning, Operand, Row, ValuePlace, list_contains, matches_word, meanings};

/// Stems of words that suggest that a project command deletes or publishes something.
const DESTRUCTIVE_STEMS: [&str; 39] = [
    "clean",
    "distclean",
    "realclean",
    "delet",
    "destr",
    "drop",
    "purg",
    "wip",
    "eras",
    "nuk",
    "reset",
    "uninstall",
    "remov",
    "prun",
    "rollback",
    "teardown",
    "terminat",
    "kill",
    "shutdown",
    "reboot",
    "format",
    "migrat",
    "upload",
    "push",
    "restor",
    "truncat",
    "overwrit",
    "revok",
    "flush",
    "deploy",
    "publish",
    "undeploy",
    "decommission",
    "rm",
    "force",
    "evict",
    "rotate",
    "send",
    "unpublish",
];

/// Further stems for the names of targets and scripts only. In arguments, they often name a build profile.
const DESTRUCTIVE_NAME_STEMS: [&str; 1] = ["releas"];

/// Variables that change only the wording, time or amount of output. All others may change a program, file or place
/// that a command uses. The list contains harmless variables, because no list of harmful variables is complete.
const HARMLESS_VARIABLES: &str = "LANG LANGUAGE TZ TERM COLORTERM COLUMNS LINES NO_COLOR CLICOLOR CLICOLOR_FORCE FORCE_COLOR CI DEBUG VERBOSE QUIET \
    RUST_LOG RUST_BACKTRACE CARGO_TERM_COLOR CARGO_INCREMENTAL CARGO_NET_OFFLINE NODE_ENV RAILS_ENV RACK_ENV APP_ENV FLASK_ENV FLASK_DEBUG DJANGO_DEBUG \
    PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 DEBIAN_FRONTEND NEEDRESTART_MODE CGO_ENABLED GOOS GOARCH \
    GOMAXPROCS OMP_NUM_THREADS MAKELEVEL POSIXLY_CORRECT TIMEFORMAT HISTCONTROL HISTSIZE USER LOGNAME HOSTNAME PORT VERSION SEED JOBS";

/// Variables that the shell itself uses, or that are usually exported.
const SHELL_VARIABLES: &str = "PATH HOME LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH BASH_ENV ENV PROMPT_COMMAND PS0 PS1 PS2 PS4 GIT_SSH GIT_SSH_COMMAND \
    GIT_EDITOR GIT_PAGER GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_PROXY_COMMAND PAGER EDITOR VISUAL MANPAGER LESSOPEN PYTHONSTARTUP PYTHONPATH PERL5OPT \
    PERL5LIB NODE_OPTIONS RUSTC_WRAPPER RUSTC CC CXX MAKEFLAGS SHELL IFS BROWSER SSH_ASKPASS RUSTFLAGS GOFLAGS DOCKER_HOST KUBECONFIG GIT_DIR \
    CDPATH FIGNORE GLOBIGNORE FPATH ZDOTDIR HISTFILE TMOUT INPUTRC FCEDIT PROMPT RPROMPT DYLD_INSERT_LIBRARIES DYLD_LIBRARY_PATH";

/// Variables whose value is a program with its arguments.
const PROGRAM_VARIABLES: &str = "GIT_SSH GIT_SSH_COMMAND GIT_EDITOR GIT_PAGER GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_PROXY_COMMAND PAGER EDITOR VISUAL MANPAGER \
    RUSTC_WRAPPER RUSTC CC CXX SHELL BROWSER SSH_ASKPASS PROMPT_COMMAND";

/// Names of shells.
const SHELLS: &str = "sh bash dash zsh ksh mksh ash fish rbash";

/// Returns whether a word begins with a stem in the list. A stem of two letters must be the whole word.
pub(crate) fn starts_with_stem(stems: &[&str], word: &str) -> bool {
    stems.iter().any(|stem| word.starts_with(stem) && (stem.len() > 2 || word == *stem))
}

/// Returns whether the value of a variable is a number or a switch, so that it names no program or file.
fn is_switch(value: &str) -> bool {
    list_contains("true false yes no on off", &value.to_lowercase())
        || value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn join_words(words: &[Argument]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// A command, parsed by the row of its program.
struct ParsedCommand<'w> {
    row: &'static Row,
    options: Vec<(&'static CommandOption, Option<Argument>)>,
    operands: Vec<&'w Argument>,
    /// Index of the first of the last words, if these share one meaning.
    rest_index: Option<usize>,
    /// Index of the first word after `--`, if these words belong to another program.
    after_dashes_index: Option<usize>,
    /// Commands in the arguments, each up to a semicolon (`find -exec`).
    commands: Vec<&'w [Argument]>,
    /// Index of the subcommand of the program.
    subcommand_index: Option<usize>,
    /// True if every option is listed and no word can expand to options.
    is_known: bool,
    /// True if the command only prints its help.
    is_help: bool,
}

/// Returns whether a word may expand to options: an unquoted expansion, or all values of an array.
fn may_be_options(word: &Argument) -> bool {
    let text = word.text.as_str();
    let quoted = text.strip_prefix('"').unwrap_or_default();
    let has_all_values = ["$@", "${@"].iter().any(|prefix| quoted.starts_with(prefix)) || quoted.contains("[@]");
    let has_braces = text.starts_with('{') && (text.contains("{-") || text.contains(",-"));
    !word.is_fixed && (text.starts_with(['$', '`']) || has_all_values || has_braces)
}

/// Returns whether a word looks like an option.
fn looks_like_option(word: &Argument) -> bool {
    let name = word.text.strip_prefix("--").or_else(|| word.text.strip_prefix('-')).unwrap_or_default();
    name.starts_with(char::is_alphabetic) && !name.contains(char::is_whitespace)
}

impl<'w> ParsedCommand<'w> {
    fn from_arguments(row: &'static Row, arguments: &'w [Argument]) -> Self {
        let mut parsed = Self {
            row,
            options: Vec::new(),
            operands: Vec::new(),
            rest_index: None,
            after_dashes_index: None,
            commands: Vec::new(),
            subcommand_index: None,
            is_known: true,
            is_help: false,
        };
        let (mut index, mut options_ended) = (0, false);
        while let Some(word) = arguments.get(index) {
            index += 1;
            let text = if word.is_fixed { word.text.as_str() } else { word.text.trim_matches(['"', '\'']) };
            let row = parsed.row;
            let may_be_subcommand = parsed.operands.is_empty() && !options_ended;
            if may_be_subcommand && let Some(command) = word.fixed().and_then(|name| row.command(name)) {
                (parsed.row, parsed.subcommand_index) = (command, Some(index - 1));
                if command.from_name.is_some() {
                    break;
                }
                continue;
            }
            if !options_ended && text == "--" {
                if !row.operands_after_dashes.is_empty() {
                    parsed.after_dashes_index = Some(index);
                    break;
                }
                options_ended = true;
                continue;
            }
            if index == 1 && row.has_option_bundle && !text.starts_with('-') {
                index = parsed.read_option(&format!("-{text}"), word, arguments, index);
                continue;
            }
            let is_option = text.len() > 1 && text.starts_with('-')
                || text.starts_with('+') && row.has_plus()
                || text == "-" && row.read_option(text).is_some();
            let is_alone = parsed.operands.is_empty() && parsed.options.is_empty();
            if text == "--help" && index == arguments.len() && is_alone && parsed.is_known {
                parsed.is_help = true;
            } else if is_option && !options_ended {
                index = parsed.read_option(text, word, arguments, index);
            } else if parsed.read_operand(word, options_ended, index - 1) {
                break;
            }
        }
        parsed
    }

    /// Reads an operand. Returns whether its meaning applies to all further words.
    fn read_operand(&mut self, word: &'w Argument, options_ended: bool, index: usize) -> bool {
        self.is_known &= options_ended || self.row.takes_any_option || !may_be_options(word);
        if self.row.meaning_at(self.operands.len()).is_some_and(Meaning::takes_rest) {
            self.rest_index = Some(index);
            return true;
        }
        self.operands.push(word);
        false
    }

    /// Reads an option with its value. Returns the index of the next word.
    fn read_option(&mut self, text: &str, word: &Argument, arguments: &'w [Argument], mut index: usize) -> usize {
        let row = self.row;
        let Some(options) = row.read_option(text) else {
            self.is_known &= row.takes_any_option;
            return index;
        };
        for (option, value) in options {
            let value = match value {
                ValuePlace::None => None,
                // Some programs read `-v=x` as `-v x`.
                ValuePlace::Inside(begin) => {
                    let text = text[begin..].strip_prefix('=').unwrap_or(&text[begin..]);
                    Some(Argument { text: text.to_owned(), is_fixed: word.is_fixed })
                }
                ValuePlace::NextWord if matches!(option.meaning(), Meaning::Letter('e')) => {
                    let words = arguments.get(index..).unwrap_or_default();
                    let end = words.iter().position(|word| list_contains("; +", &word.text)).unwrap_or(words.len());
                    self.commands.push(&words[..end]);
                    index += end + 1;
                    None
                }
                ValuePlace::NextWord => {
                    let value = arguments.get(index);
                    // The program may read this word as an option.
                    self.is_known &= !value.is_some_and(looks_like_option);
                    index += 1;
                    value.cloned()
                }
            };
            self.options.push((option, value));
        }
        index
    }

    fn has_option(&self, name: &str) -> bool {
        self.options.iter().any(|(option, _)| option.is_named(name))
    }
}

impl Judge {
    /// Judges assigned variables. Commands get only exported variables.
    pub(super) fn judge_variables(&mut self, variables: &[(String, Argument)], is_exported: bool) {
        let is_exported = is_exported || self.exports_all;
        for (name, value) in variables {
            self.record_value(name, value.clone());
            // The shell may evaluate a quoted command substitution later: in a prompt, in arithmetic, in a subscript.
            if value.is_fixed && has_substitution(&value.text) {
                self.record_effect(Unknown, &format!("{name}={}", value.text));
            }
            let is_switch = value.fixed().is_some_and(is_switch);
            if list_contains(HARMLESS_VARIABLES, name)
                || name.starts_with("LC_")
                || is_switch && !list_contains(SHELL_VARIABLES, name)
            {
                continue;
            }
            match value.fixed() {
                Some(program)
                    if name == "SHELL" && list_contains(SHELLS, program.rsplit('/').next().unwrap_or_default()) =>
                {
                    self.record_effect(Reversible, program);
                }
                Some(program)
                    if list_contains(PROGRAM_VARIABLES, name)
                        && !program.is_empty()
                        && !list_contains(SHELLS, program) =>
                {
                    // Arguments may be code, and a path may lead to an unlisted program.
                    if program.contains(|character: char| character.is_whitespace() || character == '/') {
                        self.record_effect(Unknown, &format!("{name}={program}"));
                    }
                    self.queue_line(program.to_owned());
                }
                _ if !is_exported && !list_contains(SHELL_VARIABLES, name) => {}
                _ => self.record_effect(Unknown, &format!("{name}={}", value.text)),
            }
        }
    }

    /// Records the value of a variable. A second, different value makes it unknown.
    fn record_value(&mut self, name: &str, value: Argument) {
        let recorded = self.assigned_values.entry(name.to_owned()).or_insert_with(|| value.clone());
        if recorded.text != value.text || recorded.is_fixed != value.is_fixed {
            *recorded = Argument::unknown();
        }
    }

    /// Returns the value that the line assigned to a variable.
    pub(super) fn assigned_value(&self, name: &str) -> Argument {
        self.assigned_values.get(name).cloned().unwrap_or_else(Argument::unknown)
    }

    /// Judges an arithmetic expression: it may assign a variable that the shell itself uses.
    pub(super) fn judge_arithmetic(&mut self, expression: &str) {
        if arithmetic_assignments(expression).into_iter().any(|name| list_contains(SHELL_VARIABLES, name)) {
            self.record_effect(Unknown, expression);
        }
    }

    /// Judges a written file: a change to a system file is hard to undo, and an unknown file may be a system file.
    pub(super) fn judge_written_file(&mut self, file: &Argument) {
        let path = file.text.as_str();
        let is_harmless =
            list_contains("- /dev/null /dev/stdout /dev/stderr /dev/tty", path) || path.starts_with("/dev/fd/");
        if is_harmless {
            return;
        }
        let (places, is_unknown) = self.directories.locate(path);
        if places.iter().any(|place| in_named_home(place).is_some()) {
            self.file_in_named_home.get_or_insert_with(|| path.to_owned());
        }
        let is_computed = !file.is_fixed && !path.starts_with("./");
        let effect = if !is_computed && places.iter().any(|place| is_protected_path(place)) {
            Irreversible
        } else if is_computed || is_unknown || places.iter().any(|place| is_trusted_file(place)) {
            Unknown
        } else {
            Reversible
        };
        self.record_effect(effect, path);
    }

    /// Judges a file with new content. A script is unreviewed code, so its effect is unknown.
    pub(super) fn judge_written_content(&mut self, file: &Argument) {
        self.judge_written_file(file);
        if is_script(&file.text) {
            self.record_effect(Unknown, &file.text);
        }
        self.written_names.insert(file_name(&file.text).to_owned());
    }

    /// Changes the working directory.
    fn change_directory(&mut self, name: &str, arguments: &[Argument]) {
        let is_target = |word: &&Argument| !word.text.starts_with('-') || word.text == "-";
        let targets: Vec<Argument> = arguments.iter().filter(is_target).map(|word| self.value_of(word)).collect();
        let target = match targets.as_slice() {
            [] if name == "cd" => Some("~"),
            // A new temporary directory.
            [word] if word.text.trim_matches('"').starts_with("$(mktemp -d") => Some("/tmp/new"),
            [word] => word.fixed(),
            _ => None,
        };
        match name {
            "cd" => self.directories.enter(target),
            "pushd" => self.directories.push(target),
            _ => self.directories.pop(),
        }
    }

    /// Returns the assigned value of a word that is a variable, or else the word.
    fn value_of(&self, word: &Argument) -> Argument {
        let name = word.text.trim_matches('"').strip_prefix('$').unwrap_or_default();
        let name = name.strip_prefix('{').and_then(|name| name.strip_suffix('}')).unwrap_or(name);
        match self.assigned_values.get(name) {
            Some(value) if !word.is_fixed => value.clone(),
            _ => word.clone(),
        }
    }

    /// Judges a command: a program and its arguments.
    pub(super) fn judge_command(&mut self, words: &[Argument], stdin: &Stdin) {
        let Some((first, arguments)) = words.split_first() else { return };
        let command_line = join_words(words);
        let Some(program) = first.fixed() else {
            // The variable may hold a program that runs another one, such as `$SUDO rm`.
            self.record_effect(Unknown, &command_line);
            if arguments.first().is_some_and(|word| word.is_fixed) {
                let program_count = self.programs.len();
                self.judge_command(arguments, stdin);
                self.programs.truncate(program_count);
            }
            return;
        };
        if self.is_function(program) {
            // The definition of the function was judged.
            if !self.directories.are_harmless() {
                self.record_effect(Unknown, &command_line);
            }
            return self.record_effect(Reversible, &command_line);
        }
        let (directory, name) = program.rsplit_once('/').unwrap_or(("", program));
        let is_in_system =
            list_contains("/bin /usr/bin /usr/local/bin /sbin /usr/sbin /usr/local/sbin /opt/homebrew/bin", directory);
        let is_listed_script = list_contains("gradlew mvnw", name);
        if program.contains('/') && !is_in_system && !is_listed_script {
            if program.starts_with('-') || self.directories.may_be_protected(directory) {
                return self.record_effect(Unknown, &command_line);
            }
            return self.judge_project_program(name, &command_line, arguments);
        }
        self.record_program(name);
        if let [only] = arguments
            && list_contains("--help --version", &only.text)
        {
            return self.record_effect(Reversible, &command_line);
        }
        let unversioned = name.trim_end_matches(|character: char| character.is_ascii_digit() || character == '.');
        let row = match name {
            "tar" | "bsdtar" => Row::for_program(tar_mode(arguments)),
            _ => Row::for_program(name).or_else(|| {
                list_contains("python pypy perl ruby php lua", unversioned)
                    .then(|| Row::for_program(unversioned))
                    .flatten()
            }),
        };
        match row {
            Some(row) => self.judge_listed(name, row, arguments, stdin, &command_line),
            None => self.record_effect(Unknown, &command_line),
        }
    }

    fn record_program(&mut self, name: &str) {
        let is_name = |character: char| character.is_alphanumeric() || "-_.+".contains(character);
        let is_program = name.starts_with(char::is_alphanumeric) && name.chars().all(is_name);
        if is_program && !list_contains(SHELL_BUILTINS, name) && !self.programs.iter().any(|known| known == name) {
            self.programs.push(name.to_owned());
        }
    }

    /// Judges a command by the row of its program.
    fn judge_listed(
        &mut self,
        name: &str,
        row: &'static Row,
        arguments: &[Argument],
        stdin: &Stdin,
        command_line: &str,
    ) {
        let parsed = ParsedCommand::from_arguments(row, arguments);
        let row = parsed.row;
        if parsed.is_help {
            return self.record_effect(Reversible, command_line);
        }
        if !parsed.is_known {
            self.record_effect(Unknown, command_line);
            // After an unknown option, a command may begin at any irreversible word.
            let is_irreversible = |word: &str| Row::for_program(word).is_some_and(|row| row.effect == Irreversible);
            let starts = (0..arguments.len()).filter(|index| arguments[*index].fixed().is_some_and(is_irreversible));
            if row.runs_commands() {
                starts.for_each(|start| self.judge_command(&arguments[start..], stdin));
            }
        }
        if row.has_subscripts && arguments.iter().any(has_evaluated_subscript) {
            self.record_effect(Unknown, command_line);
        }
        let is_dry_run = parsed.is_known && parsed.options.iter().any(|(option, _)| option.is_dry_run);
        let mut has_statements = false;
        if list_contains("cd pushd popd", name) {
            self.change_directory(name, arguments);
        }
        // By default, the server publishes files to every host of the network.
        if name == "http.server" && !parsed.has_option("-b") && !parsed.has_option("--bind") {
            self.record_effect(Unknown, command_line);
        }
        let extracts = match name {
            "tar" | "bsdtar" => ["-x", "--extract", "--get"].iter().any(|option| parsed.has_option(option)),
            "unzip" => !["-l", "-t", "-p", "-Z"].iter().any(|option| parsed.has_option(option)),
            _ => false,
        };
        if extracts && !["-C", "--directory", "-d"].iter().any(|option| parsed.has_option(option)) {
            self.judge_written_file(&Argument { text: ".".to_owned(), is_fixed: true });
        }
        // A build runs its own programs.
        if list_contains("cargo cmake", name) && self.has_written("") {
            self.record_effect(Unknown, command_line);
        }
        // With these options, the command starts in another directory.
        let directory_options: &[&str] = match name {
            "sudo" | "doas" => &["-i", "--login", "-D", "--chdir", "-R"],
            "su" | "runuser" => &["-", "-l", "--login"],
            "env" => &["-C", "--chdir"],
            "unshare" | "nsenter" => &["-R", "--root", "--wd"],
            _ => &[],
        };
        if name == "chroot" || directory_options.iter().any(|option| parsed.has_option(option)) {
            self.directories.forget();
        }
        // The address determines the file name.
        let takes_remote_name = match name {
            "curl" => parsed.has_option("-O") || parsed.has_option("--remote-name"),
            "wget" => !parsed.has_option("-O") && !parsed.has_option("--output-document"),
            _ => false,
        };
        if takes_remote_name {
            for address in &parsed.operands {
                let file = Argument { text: file_name(&address.text).to_owned(), is_fixed: true };
                self.judge_written_content(&file);
            }
        }
        self.exports_all |= name == "set"
            && parsed.options.iter().any(|(option, value)| {
                option.is_named("-a") || value.as_ref().is_some_and(|value| value.text == "allexport")
            });
        for (option, value) in &parsed.options {
            if !is_dry_run || option.effect == Unknown {
                self.record_effect(option.effect, command_line);
            }
            if let Some(value) = value {
                has_statements |= matches!(option.meaning(), Meaning::Letter('c' | 'q' | 's'));
                self.judge_operand(option.meaning(), value, command_line);
            }
        }
        for words in &parsed.commands {
            let mut command: Vec<Argument> = words.iter().map(|word| without_placeholder(word, None)).collect();
            // Programs such as fd append the file as an argument.
            if !words.iter().any(|word| word.text.contains("{}")) {
                command.push(Argument::unknown());
            }
            self.judge_command(&command, stdin);
        }
        if let (Some(meaning), Some(index)) = (&row.from_name, parsed.subcommand_index) {
            let program_count = self.programs.len();
            self.judge_rest(meaning, &arguments[index..], stdin, command_line);
            // The subcommand belongs to this program.
            if self.programs.get(program_count).is_some_and(|name| *name == arguments[index].text) {
                self.programs.remove(program_count);
            }
            return;
        }
        self.record_effect(if is_dry_run { Reversible } else { row.effect }, command_line);
        if is_dry_run {
            return;
        }
        if list_contains("sed gsed", name) {
            return self.judge_sed(&parsed, command_line);
        }
        match row.meanings(parsed.operands.len()) {
            Some(meanings) => {
                for (meaning, operand) in meanings.into_iter().zip(&parsed.operands) {
                    has_statements |= matches!(meaning, Meaning::Letter('q'));
                    self.judge_operand(meaning, operand, command_line);
                }
            }
            None => self.record_effect(Unknown, command_line),
        }
        if let Some(index) = parsed.after_dashes_index {
            self.judge_after_dashes(&row.operands_after_dashes, &arguments[index..], stdin, command_line);
            has_statements = true;
        }
        // The code of a shell is an operand: further options may precede it.
        let is_shell = list_contains(SHELLS, name);
        match parsed.rest_index.map(|index| &arguments[index..]) {
            Some([code, ..]) if is_shell && parsed.has_option("-c") => self.judge_code(code, command_line),
            Some([file, ..]) if is_shell && (parsed.has_option("-s") || list_contains("- /dev/stdin", &file.text)) => {
                self.judge_shell_input(stdin, command_line);
            }
            Some(rest) => {
                let meaning = row.meaning_at(parsed.operands.len()).expect("the operand was parsed by its meaning");
                let rest = if row.has_variables { self.take_variables(rest) } else { rest };
                if matches!(meaning, Meaning::Letter('x')) {
                    let names = ["-I", "-J", "--replace"];
                    let option =
                        parsed.options.iter().find(|(option, _)| names.iter().any(|name| option.is_named(name)));
                    let placeholder = option.and_then(|(_, value)| value.as_ref()).map(|value| value.text.as_str());
                    let rest: Vec<Argument> = rest.iter().map(|word| without_placeholder(word, placeholder)).collect();
                    self.judge_rest(meaning, &rest, stdin, command_line);
                } else {
                    self.judge_rest(meaning, rest, stdin, command_line);
                }
            }
            None if is_shell && parsed.has_option("-c") => self.record_effect(Unknown, command_line),
            None if has_statements => {}
            None => match (row.input, stdin) {
                (Some(Input::Shell), _) => self.judge_shell_input(stdin, command_line),
                (Some(Input::Statements), Stdin::Text(text)) => self.judge_sql(text),
                (Some(Input::Statements | Input::Code), Stdin::Text(_) | Stdin::Unknown) => {
                    self.record_effect(Unknown, command_line);
                }
                (None, _) | (Some(_), Stdin::Terminal) => {}
            },
        }
        if row.runs_project_programs {
            if self.has_written("") || arguments.iter().any(|word| self.has_written(&word.text)) {
                self.record_effect(Unknown, command_line);
            }
            self.record_project_program(command_line);
        }
    }

    /// Judges the variables before a command and returns the command.
    fn take_variables<'w>(&mut self, mut words: &'w [Argument]) -> &'w [Argument] {
        while let Some((first, command)) = words.split_first()
            && let Some((name, value)) = first.text.split_once('=').filter(|(name, _)| !name.is_empty())
        {
            let value = Argument { text: value.to_owned(), is_fixed: first.is_fixed };
            self.judge_variables(&[(name.to_owned(), value)], true);
            words = command;
        }
        words
    }

    fn judge_after_dashes(&mut self, operands: &[Operand], words: &[Argument], stdin: &Stdin, command_line: &str) {
        if let Some(first) = operands.first().filter(|first| first.meaning.takes_rest()) {
            return self.judge_rest(&first.meaning, words, stdin, command_line);
        }
        match meanings(operands, words.len()) {
            Some(meanings) => {
                meanings
                    .into_iter()
                    .zip(words)
                    .for_each(|(meaning, word)| self.judge_operand(meaning, word, command_line));
            }
            None => self.record_effect(Unknown, command_line),
        }
    }

    /// Judges an operand, or the value of an option, by its meaning.
    fn judge_operand(&mut self, meaning: &Meaning, word: &Argument, command_line: &str) {
        let letter = match meaning {
            Meaning::Letter(letter) => *letter,
            Meaning::Words(words) => {
                let lower = word.text.to_lowercase();
                let found = words.iter().find(|(_, pattern)| matches_word(pattern, &lower));
                return self.record_effect(found.map_or(Unknown, |(effect, _)| *effect), command_line);
            }
        };
        match letter {
            'w' => self.judge_written_file(word),
            'o' if !word.is_fixed || !is_harmless_mode(&word.text) => self.record_effect(Unknown, command_line),
            'p' if is_outside_project(word) => self.record_effect(Unknown, command_line),
            'W' => self.judge_written_content(word),
            'L' if is_ancestor(&word.text) || self.directories.may_be_protected(&word.text) || is_computed(word) => {
                self.record_effect(Unknown, command_line);
            }
            'n' if word.text.contains("://") || word.is_fixed && self.directories.may_be_protected(&word.text) => {
                self.record_effect(Unknown, command_line);
            }
            't' if word.text == "/dev/null" => self.record_effect(Irreversible, command_line),
            't' => self.judge_written_file(word),
            'M' if is_computed(&self.value_of(word)) || is_every_file(word) => {
                self.record_effect(Unknown, command_line);
            }
            'M' if word.is_fixed || word.text.starts_with(['/', '~']) => self.judge_written_file(word),
            'R' if word.text.contains(':') => self.record_effect(Unknown, command_line),
            'R' => self.judge_written_file(word),
            'u' if !is_address(word) => self.record_effect(Unknown, command_line),
            'c' => self.judge_code(word, command_line),
            'q' => {
                if !word.is_fixed {
                    self.record_effect(Unknown, command_line);
                }
                self.judge_sql(&word.text);
            }
            's' if word.text.starts_with("/dev/") || list_contains("-", &word.text) || !word.is_fixed => {
                self.record_effect(Unknown, command_line);
            }
            's' => self.judge_project_program(&word.text, command_line, &[]),
            '@' | 'T' if !word.is_fixed => self.record_effect(Unknown, command_line),
            // A variable of a makefile.
            '@' if word.text.contains('=') => {
                let (name, value) = word.text.split_once('=').unwrap_or_default();
                let value = Argument { text: value.to_owned(), is_fixed: true };
                self.judge_variables(&[(name.to_owned(), value)], true);
            }
            // A version of a package is not a target of the project.
            '@' if word.text.contains('@') => self.record_effect(Unknown, command_line),
            '@' | 'T' => self.judge_project_program(&word.text, command_line, &[]),
            'a' => {
                let is_harmless = word.fixed().is_some_and(is_harmless_awk);
                self.record_effect(if is_harmless { Reversible } else { Unknown }, command_line);
            }
            'v' => {
                self.assigned_values.insert(word.text.clone(), Argument::unknown());
                let is_harmless = word
                    .fixed()
                    .is_some_and(|name| name.chars().all(is_name_character) && !list_contains(SHELL_VARIABLES, name));
                self.record_effect(if is_harmless { Reversible } else { Unknown }, command_line);
            }
            // `set NAME VALUE` of fish.
            'V' if list_contains(SHELL_VARIABLES, &word.text) => self.record_effect(Unknown, command_line),
            '=' => self.judge_arithmetic(&word.text),
            'm' => {
                // A container with a system directory is not isolated.
                let (source, _) = word.text.split_once(':').unwrap_or_default();
                if !source.is_empty() && (!word.is_fixed || is_protected_path(source)) {
                    self.record_effect(Unknown, command_line);
                }
            }
            'i' => match word.fixed().map(|text| text.split_once('=')) {
                Some(Some((_, code))) => self.queue_line(code.to_owned()),
                Some(None) => {}
                None => self.record_effect(Unknown, command_line),
            },
            '!' => self.record_effect(Irreversible, command_line),
            '?' => self.record_effect(Unknown, command_line),
            _ => {}
        }
    }

    /// Judges all remaining words by their common meaning.
    fn judge_rest(&mut self, meaning: &Meaning, rest: &[Argument], stdin: &Stdin, command_line: &str) {
        match meaning {
            Meaning::Letter('$') => self.judge_command(rest, stdin),
            Meaning::Letter('j') => {
                if rest.iter().any(|word| !word.is_fixed) {
                    self.record_effect(Unknown, command_line);
                }
                let line = join_words(rest);
                if changes_directory(&line) {
                    self.directories.forget();
                }
                self.queue_line(line);
            }
            Meaning::Letter('x') => {
                let words: Vec<Argument> = rest.iter().cloned().chain([Argument::unknown()]).collect();
                self.judge_command(&words, &Stdin::Unknown);
            }
            Meaning::Letter('r') => {
                // The shell of the remote host reads the joined words and the standard input.
                if matches!(stdin, Stdin::Unknown) || rest.iter().any(|word| !word.is_fixed) {
                    self.record_effect(Unknown, command_line);
                }
                self.queue_line_with_input(join_words(rest), stdin.clone());
            }
            Meaning::Letter('&') => match rest {
                [_, command @ ..] if !command.is_empty() => self.judge_command(command, stdin),
                _ => self.record_project_program(command_line),
            },
            Meaning::Letter('>') => match rest.split_first() {
                Some((file, arguments))
                    if file.is_fixed
                        && file.text != "-"
                        && !file.text.contains("://")
                        && !["/dev/", "/proc/"].iter().any(|files| file.text.starts_with(files)) =>
                {
                    let name = file.text.rsplit('/').next().unwrap_or_default().to_owned();
                    self.judge_project_program(&name, command_line, arguments);
                }
                _ => self.record_effect(Unknown, command_line),
            },
            Meaning::Letter(_) | Meaning::Words(_) => self.record_effect(Unknown, command_line),
        }
    }

    /// Judges the standard input of a shell, read as commands.
    pub(super) fn judge_shell_input(&mut self, stdin: &Stdin, command_line: &str) {
        match stdin {
            Stdin::Terminal => self.record_effect(Reversible, command_line),
            Stdin::Text(code) => self.queue_line(code.clone()),
            Stdin::Unknown => self.record_effect(Unknown, command_line),
        }
    }

    /// Judges a word with shell code.
    fn judge_code(&mut self, code: &Argument, command_line: &str) {
        match code.fixed() {
            Some(code) => self.queue_line(code.to_owned()),
            None => {
                self.record_effect(Unknown, command_line);
                // Judge the quoted text as written: `$f` is unknown, but `rm` is known.
                let inside = code.text.trim_matches(['"', '\'']).to_owned();
                self.queue_line(inside);
            }
        }
    }

    /// Returns whether the line writes this program, or a build file.
    fn has_written(&self, program: &str) -> bool {
        self.written_names.iter().any(|name| is_build_file(name) || name == file_name(program))
    }

    /// Judges a program, script or target of the project by its name and arguments, without reading its file.
    fn judge_project_program(&mut self, name: &str, command_line: &str, arguments: &[Argument]) {
        let words = |text: &str| -> Vec<String> {
            text.split(|character: char| !character.is_alphanumeric())
                .filter(|word| !word.is_empty())
                .map(str::to_lowercase)
                .collect()
        };
        let has_stem = |list: &[&str], text: &str| words(text).iter().any(|word| starts_with_stem(list, word));
        let is_destructive = has_stem(&DESTRUCTIVE_STEMS, name)
            || has_stem(&DESTRUCTIVE_NAME_STEMS, name)
            || arguments.iter().any(|word| word.is_fixed && has_stem(&DESTRUCTIVE_STEMS, &word.text));
        if is_destructive || self.has_written(name) {
            self.record_effect(Unknown, command_line);
        } else {
            self.record_project_program(command_line.trim());
        }
    }

    /// Judges text for a database client.
    pub(super) fn judge_sql(&mut self, text: &str) {
        match sql::judge_text(text) {
            sql::SqlEffect::Known(effect) => self.record_effect(effect, text),
            sql::SqlEffect::Shell(line) => self.queue_line(line),
        }
    }

    fn judge_sed(&mut self, parsed: &ParsedCommand<'_>, command_line: &str) {
        let is_script = |option: &CommandOption| option.is_named("-e") || option.is_named("--expression");
        let script_options: Vec<&Argument> = parsed
            .options
            .iter()
            .filter(|(option, _)| is_script(option))
            .filter_map(|(_, value)| value.as_ref())
            .collect();
        let first_file = usize::from(script_options.is_empty());
        let mut scripts = script_options.into_iter().chain(parsed.operands.iter().take(first_file).copied());
        if !scripts.all(|script| script.fixed().is_some_and(is_harmless_sed)) {
            self.record_effect(Unknown, command_line);
        }
        if ["-i", "-I", "--in-place"].iter().any(|name| parsed.has_option(name)) {
            parsed.operands.iter().skip(first_file).for_each(|file| self.judge_written_file(file));
        }
    }
}

/// Returns whether a word has a variable or a command whose output the line does not determine.
fn is_computed(word: &Argument) -> bool {
    !word.is_fixed && word.text.contains(['$', '`', '…'])
}

/// Returns whether a glob names every file of a directory.
fn is_every_file(word: &Argument) -> bool {
    let name = word.text.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
    !word.is_fixed && name.contains('*') && name.chars().all(|character| "*.?[]!{},".contains(character))
}

/// Returns whether a path may lead out of the project.
fn is_outside_project(word: &Argument) -> bool {
    is_computed(word) || word.text.starts_with(['/', '~']) || word.text.split('/').any(|part| part == "..")
}

/// Returns whether a mode lets the owner read (a symbolic mode removes no right of the owner) and sets neither the
/// setuid nor the setgid bit.
fn is_harmless_mode(mode: &str) -> bool {
    if mode.bytes().all(|byte| (b'0'..=b'7').contains(&byte)) {
        let Ok(bits) = u32::from_str_radix(mode, 8) else { return false };
        return bits & 0o6000 == 0 && bits & 0o400 != 0;
    }
    mode.split(',').all(|clause| {
        let rights = clause.trim_start_matches(['u', 'g', 'o', 'a']);
        let who = &clause[..clause.len() - rights.len()];
        let is_for_owner = who.is_empty() || who.contains(['u', 'a']);
        let removes = rights.contains('-') || rights.contains('=') && !rights.contains(['r', 'g', 'o']);
        !(rights.contains('s') || is_for_owner && removes)
    })
}

/// Returns whether a word is a host or an HTTP address, without a command substitution or variable: the request would
/// send the value.
fn is_address(word: &Argument) -> bool {
    let text = word.text.as_str();
    if !word.is_fixed && text.contains('$') {
        return false;
    }
    let scheme = text.split_once("://").map_or("http", |(scheme, _)| scheme.trim_start_matches(['"', '\'']));
    list_contains("http https", scheme) && !has_substitution(text) && !text.contains("::")
}

/// Returns a word of a command, unknown if it has a placeholder that the program replaces: `custom`, `{}` or `{.}`.
fn without_placeholder(word: &Argument, custom: Option<&str>) -> Argument {
    if word.text == "{}" {
        return Argument::unknown();
    }
    let is_placeholder = |(start, _): (usize, &str)| {
        let inside = word.text[start + 1..].split_once('}');
        inside.is_some_and(|(inside, _)| {
            inside.chars().all(|character| character.is_ascii_digit() || "./#%-".contains(character))
        })
    };
    let has_custom = custom.is_some_and(|custom| !custom.is_empty() && word.text.contains(custom));
    let has_placeholder = has_custom || word.text.match_indices('{').any(is_placeholder);
    Argument { is_fixed: word.is_fixed && !has_placeholder, ..word.clone() }
}

/// Returns whether a word has a subscript that a shell evaluates even in quotes.
fn has_evaluated_subscript(word: &Argument) -> bool {
    if word.is_fixed {
        return has_substitution(&word.text);
    }
    let text = word.text.trim_start_matches(['"', '\'']);
    let name = text.trim_start_matches(|character: char| character.is_alphanumeric() || character == '_');
    name.len() < text.len() && name.starts_with('[')
}

/// Returns the name of the row for the operation of tar.
fn tar_mode(arguments: &[Argument]) -> &'static str {
    let modes = [
        ("tar-extract", "x", "--extract --get"),
        ("tar-list", "td", "--list --diff --compare"),
        ("tar-create", "crua", "--create --append --update"),
    ];
    for (index, word) in arguments.iter().enumerate() {
        let text = word.text.as_str();
        let is_letters = !text.starts_with("--") && (text.starts_with('-') || index == 0);
        for (row, letters, options) in modes {
            if list_contains(options, text) || is_letters && text.contains(|letter| letters.contains(letter)) {
                return row;
            }
        }
    }
    "tar-create"
}

/// Returns whether an awk program only prints to its standard output.
fn is_harmless_awk(code: &str) -> bool {
    let outside: String = code.split('"').step_by(2).collect();
    !code.contains("system")
        && !code.contains("getline")
        && !code.contains('@')
        && !outside.replace("||", "").contains('|')
        && !outside.contains(">>")
        && !prints_to_file(&outside)
}

/// Returns whether a sed script has no command that writes a file or runs a program.
fn is_harmless_sed(script: &str) -> bool {
    let mut script_rest = script;
    loop {
        script_rest =
            script_rest.trim_start_matches(|character: char| character.is_whitespace() || ";{}".contains(character));
        // Skip the addresses.
        loop {
            script_rest = script_rest
                .trim_start_matches(|character: char| character.is_ascii_digit() || "$,!~+ ".contains(character));
            let Some(pattern) = script_rest.strip_prefix('/') else { break };
            let Some(end) = end_of_part(pattern, '/') else { return false };
            script_rest = pattern[end..].trim_start_matches(['I', 'M']);
        }
        let Some(command) = script_rest.chars().next() else { return true };
        script_rest = &script_rest[command.len_utf8()..];
        let line_end = script_rest.find('\n').unwrap_or(script_rest.len());
        match command {
            's' | 'y' => {
                let Some(delimiter) =
                    script_rest.chars().next().filter(|character| character.is_ascii() && *character != '\\')
                else {
                    return false;
                };
                for _ in 0..2 {
                    let Some(end) = script_rest.get(1..).and_then(|part| end_of_part(part, delimiter)) else {
                        return false;
                    };
                    // The delimiter at the end starts the next part.
                    script_rest = &script_rest[end..];
                }
                script_rest = script_rest[1..]
                    .trim_start_matches(|character: char| character.is_ascii_digit() || "gpiIm".contains(character));
            }
            'a' | 'i' | 'c' | 'r' | '#' | ':' | 'b' | 't' if !script_rest[..line_end].ends_with('\\') => {
                let ends_early = ":bt".contains(command).then(|| script_rest.find([';', '}'])).flatten();
                script_rest = &script_rest[ends_early.unwrap_or(line_end).min(line_end)..];
            }
            'd' | 'D' | 'p' | 'P' | 'q' | 'Q' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'l' | 'z' => {
                script_rest =
                    script_rest.trim_start_matches(|character: char| character.is_ascii_digit() || character == ' ');
            }
            _ => return false,
        }
        if !script_rest.is_empty() && !script_rest.starts_with([';', '}', '\n', ' ', '#']) {
            return false;
        }
    }
}

/// Returns the index after a delimited part of a sed command. `None` if the delimiter is absent or in a class.
fn end_of_part(text: &str, delimiter: char) -> Option<usize> {
    let (mut is_escaped, mut is_class) = (false, false);
    for (index, character) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if character == delimiter {
            return (!is_class).then(|| index + character.len_utf8());
        } else {
            is_escaped = character == '\\';
            is_class = character == '[' || is_class && character != ']';
        }
    }
    None
}

/// Builtins and keywords of shells.
const SHELL_BUILTINS: &str = "alias bg break case cd command continue declare do done echo elif else eval exec if then time while until esac exit export \
    false fg fi for function hash jobs kill let local popd printf pushd pwd read return set shift source test trap true type ulimit \
    builtin complete compgen bind dirs disown getopts history logout shopt suspend times umask unalias unset wait";

/// Returns whether a program reads database statements.
pub(super) fn is_database_client(name: &str) -> bool {
    Row::for_program(name).is_some_and(|row| row.input == Some(Input::Statements))
}

/// Returns whether a program starts an interactive shell unless it gets a command.
pub(super) fn opens_shell(name: &str) -> bool {
    let launchers = "docker podman nerdctl compose docker-compose kubectl oc vagrant lxc machinectl newgrp script";
    list_contains(launchers, name) || Row::for_program(name).is_some_and(|row| row.input == Some(Input::Shell))
}

/// Returns whether awk code prints to a file: `>` after `print`.
fn prints_to_file(code: &str) -> bool {
    code.split(['{', '}', ';', '\n']).any(|statement| {
        let statement = statement.trim_start();
        (statement.starts_with("print") || statement.contains(" print")) && statement.contains('>')
    })
}
