//! Known programs, by the table of them. An unlisted program, option or operand is unknown.

use super::Effect::{Irreversible, Reversible, Unknown};
use super::shell::{Argument, Judge, Stdin, has_substitution};
use super::sql;
use super::table::{CommandOption, Input, Meaning, Operand, Row, ValueAt, matches_word, meanings};

/// Beginnings of words which mean that a program of the project takes something away, or gives something out of hand.
const TELLING: [&str; 39] = [
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

/// Words that mean so for a target or a script alone: as an argument they often name a kind of build.
const TELLING_NAMES: [&str; 1] = ["releas"];

/// Variables that change the words, the time or the amount of output, and no program, file or place that a program works with. Any other
/// one may: of a list of those that do, one is always missing.
const HARMLESS_VARIABLES: &str = "LANG LANGUAGE TZ TERM COLORTERM COLUMNS LINES NO_COLOR CLICOLOR CLICOLOR_FORCE FORCE_COLOR CI DEBUG VERBOSE QUIET \
    RUST_LOG RUST_BACKTRACE CARGO_TERM_COLOR CARGO_INCREMENTAL CARGO_NET_OFFLINE NODE_ENV RAILS_ENV RACK_ENV APP_ENV FLASK_ENV FLASK_DEBUG DJANGO_DEBUG \
    PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONHASHSEED PYTHONIOENCODING PYTHONUTF8 DEBIAN_FRONTEND NEEDRESTART_MODE CGO_ENABLED GOOS GOARCH \
    GOMAXPROCS OMP_NUM_THREADS MAKELEVEL POSIXLY_CORRECT TIMEFORMAT HISTCONTROL HISTSIZE USER LOGNAME HOSTNAME PORT VERSION SEED JOBS";

/// Variables that a shell acts on, or that are exported everywhere.
const KEPT_BY_SHELLS: &str = "PATH HOME LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH BASH_ENV ENV PROMPT_COMMAND PS0 PS1 PS2 PS4 GIT_SSH GIT_SSH_COMMAND \
    GIT_EDITOR GIT_PAGER GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_PROXY_COMMAND PAGER EDITOR VISUAL MANPAGER LESSOPEN PYTHONSTARTUP PYTHONPATH PERL5OPT \
    PERL5LIB NODE_OPTIONS RUSTC_WRAPPER RUSTC CC CXX MAKEFLAGS SHELL IFS BROWSER SSH_ASKPASS RUSTFLAGS GOFLAGS DOCKER_HOST KUBECONFIG GIT_DIR \
    CDPATH FIGNORE GLOBIGNORE FPATH ZDOTDIR HISTFILE";

/// Variables whose value is a program with its arguments.
const NAMING_VARIABLES: &str = "GIT_SSH GIT_SSH_COMMAND GIT_EDITOR GIT_PAGER GIT_EXTERNAL_DIFF GIT_ASKPASS GIT_PROXY_COMMAND PAGER EDITOR VISUAL MANPAGER \
    RUSTC_WRAPPER RUSTC CC CXX SHELL BROWSER SSH_ASKPASS PROMPT_COMMAND";

/// Shells.
const SHELLS: &str = "sh bash dash zsh ksh mksh ash fish rbash";
/// Directories of the system, and files that programs run or trust.
const OF_SYSTEM: &str = "/etc /usr /bin /sbin /lib /lib64 /boot /dev /sys /proc /var /opt /root /srv";

/// Files of the home directory that shells and programs act on.
const OF_HOME: &str = ".bashrc .bash_profile .bash_login .profile .zshrc .zshenv .zprofile .zlogin .gitconfig .netrc";

/// Returns whether a word begins as one of the list. A beginning of two letters is a word of its own.
pub(crate) fn has_beginning(list: &[&str], word: &str) -> bool {
    list.iter().any(|beginning| word.starts_with(beginning) && (beginning.len() > 2 || word == *beginning))
}

pub(super) fn has_word(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|one| one == word)
}

/// Returns whether the value of a variable is a number or a switch, which names nothing.
fn is_switch(value: &str) -> bool {
    has_word("true false yes no on off", &value.to_lowercase())
        || value.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

fn join_words(words: &[Argument]) -> String {
    words.iter().map(|word| word.text.as_str()).collect::<Vec<_>>().join(" ")
}

/// A command, read by the row of its program.
struct Reading<'w> {
    row: &'static Row,
    options: Vec<(&'static CommandOption, Option<Argument>)>,
    operands: Vec<&'w Argument>,
    /// The operand from which on all words have one meaning.
    rest: Option<usize>,
    /// The first word behind two dashes, where these belong to another program.
    behind_dashes: Option<usize>,
    /// Commands within it, up to a semicolon.
    commands: Vec<&'w [Argument]>,
    /// The name of the command within the program.
    name_at: Option<usize>,
    /// Each option is listed, and no word may be a computed one.
    is_known: bool,
    /// It shows its help only.
    is_help: bool,
}

/// Returns whether a computed word may become options: an unquoted expansion, or all values of an array.
fn may_be_options(word: &Argument) -> bool {
    let text = word.text.as_str();
    let quoted = text.strip_prefix('"').unwrap_or_default();
    let has_all = ["$@", "${@"].iter().any(|all| quoted.starts_with(all)) || quoted.contains("[@]");
    let has_braces = text.starts_with('{') && (text.contains("{-") || text.contains(",-"));
    !word.is_fixed && (text.starts_with(['$', '`']) || has_all || has_braces)
}

/// Returns whether a word looks like an option.
fn is_like_option(word: &Argument) -> bool {
    let name = word.text.strip_prefix("--").or_else(|| word.text.strip_prefix('-')).unwrap_or_default();
    name.starts_with(char::is_alphabetic) && !name.contains(char::is_whitespace)
}

impl<'w> Reading<'w> {
    fn from_arguments(row: &'static Row, arguments: &'w [Argument]) -> Self {
        let mut reading = Self {
            row,
            options: Vec::new(),
            operands: Vec::new(),
            rest: None,
            behind_dashes: None,
            commands: Vec::new(),
            name_at: None,
            is_known: true,
            is_help: false,
        };
        let (mut at, mut has_ended) = (0, false);
        while let Some(word) = arguments.get(at) {
            at += 1;
            let text = if word.is_fixed { word.text.as_str() } else { word.text.trim_matches(['"', '\'']) };
            let row = reading.row;
            let may_name = reading.operands.is_empty() && !has_ended;
            if may_name && let Some(command) = word.fixed().and_then(|name| row.command(name)) {
                (reading.row, reading.name_at) = (command, Some(at - 1));
                if command.from_name.is_some() {
                    break;
                }
                continue;
            }
            if !has_ended && text == "--" {
                if !row.behind_dashes.is_empty() {
                    reading.behind_dashes = Some(at);
                    break;
                }
                has_ended = true;
                continue;
            }
            if at == 1 && row.has_bundle && !text.starts_with('-') {
                at = reading.read_option(&format!("-{text}"), word, arguments, at);
                continue;
            }
            let is_option = text.len() > 1 && text.starts_with('-')
                || text.starts_with('+') && row.has_plus()
                || text == "-" && row.read_option(text).is_some();
            let is_alone = reading.operands.is_empty() && reading.options.is_empty();
            if text == "--help" && at == arguments.len() && is_alone && reading.is_known {
                reading.is_help = true;
            } else if is_option && !has_ended {
                at = reading.read_option(text, word, arguments, at);
            } else if reading.read_operand(word, has_ended, at - 1) {
                break;
            }
        }
        reading
    }

    /// Reads an operand. Returns whether it includes all further words.
    fn read_operand(&mut self, word: &'w Argument, has_ended: bool, at: usize) -> bool {
        self.is_known &= has_ended || self.row.takes_any_option || !may_be_options(word);
        if self.row.meaning_at(self.operands.len()).is_some_and(Meaning::takes_rest) {
            self.rest = Some(at);
            return true;
        }
        self.operands.push(word);
        false
    }

    /// Reads an option with its value. Returns the index of the next word.
    fn read_option(&mut self, text: &str, word: &Argument, arguments: &'w [Argument], mut at: usize) -> usize {
        let row = self.row;
        let Some(found) = row.read_option(text) else {
            self.is_known &= row.takes_any_option;
            return at;
        };
        for (option, value) in found {
            let value = match value {
                ValueAt::Nowhere => None,
                // Some programs read `-v=x` as `-v x`.
                ValueAt::Inside(begin) => {
                    let text = text[begin..].strip_prefix('=').unwrap_or(&text[begin..]);
                    Some(Argument { text: text.to_owned(), is_fixed: word.is_fixed })
                }
                ValueAt::NextWord if matches!(option.meaning(), Meaning::Letter('e')) => {
                    let words = arguments.get(at..).unwrap_or_default();
                    let end = words.iter().position(|one| has_word("; +", &one.text)).unwrap_or(words.len());
                    self.commands.push(&words[..end]);
                    at += end + 1;
                    None
                }
                ValueAt::NextWord => {
                    let value = arguments.get(at);
                    // The program may not see a value there.
                    self.is_known &= !value.is_some_and(is_like_option);
                    at += 1;
                    value.cloned()
                }
            };
            self.options.push((option, value));
        }
        at
    }

    fn has(&self, name: &str) -> bool {
        self.options.iter().any(|(option, _)| option.is_named(name))
    }
}

impl Judge {
    /// Judges variables that a command gets, if they are exported, or that the shell keeps.
    pub(super) fn variables(&mut self, all: &[(String, Argument)], is_exported: bool) {
        for (name, value) in all {
            // The shell may evaluate a quoted command substitution later: in a prompt, in arithmetic, in a subscript.
            if value.is_fixed && has_substitution(&value.text) {
                self.note_effect(Unknown, &format!("{name}={}", value.text));
            }
            let is_switch = value.fixed().is_some_and(is_switch);
            if has_word(HARMLESS_VARIABLES, name)
                || name.starts_with("LC_")
                || is_switch && !has_word(KEPT_BY_SHELLS, name)
            {
                continue;
            }
            match value.fixed() {
                Some(program)
                    if name == "SHELL" && has_word(SHELLS, program.rsplit('/').next().unwrap_or_default()) =>
                {
                    self.note_effect(Reversible, program);
                }
                Some(program)
                    if has_word(NAMING_VARIABLES, name) && !program.is_empty() && !has_word(SHELLS, program) =>
                {
                    // Arguments of it may be code, and an unlisted one is not run by its name.
                    if program.contains(|sign: char| sign.is_whitespace() || sign == '/') {
                        self.note_effect(Unknown, &format!("{name}={program}"));
                    }
                    self.give(program.to_owned());
                }
                _ if !is_exported && !has_word(KEPT_BY_SHELLS, name) => {}
                _ => self.note_effect(Unknown, &format!("{name}={}", value.text)),
            }
        }
    }

    /// Judges a changed file: undoing a change of a file of the system is not easy, and an unknown file may be one.
    pub(super) fn writes(&mut self, file: &Argument) {
        let path = file.text.as_str();
        let is_harmless =
            has_word("- /dev/null /dev/stdout /dev/stderr /dev/tty", path) || path.starts_with("/dev/fd/");
        if is_harmless {
            return;
        }
        let is_of_other_home = path.starts_with('~') && path != "~" && !path.starts_with("~/");
        if is_of_other_home || !file.is_fixed && !path.starts_with("./") {
            self.note_effect(Unknown, path);
        } else if is_of_system(path) {
            self.note_effect(Irreversible, path);
        } else {
            self.note_effect(Reversible, path);
        }
    }

    /// Judges a command: a program and its arguments.
    pub(super) fn command(&mut self, words: &[Argument], stdin: &Stdin) {
        let Some((first, arguments)) = words.split_first() else { return };
        let all = join_words(words);
        let Some(program) = first.fixed() else {
            // Some variables hold a program that runs another, as in `$SUDO rm`.
            self.note_effect(Unknown, &all);
            if arguments.first().is_some_and(|word| word.is_fixed) {
                let known = self.programs.len();
                self.command(arguments, stdin);
                self.programs.truncate(known);
            }
            return;
        };
        if self.is_function(program) {
            return self.note_effect(Reversible, &all);
        }
        let (directory, name) = program.rsplit_once('/').unwrap_or(("", program));
        let is_of_system =
            has_word("/bin /usr/bin /usr/local/bin /sbin /usr/sbin /usr/local/sbin /opt/homebrew/bin", directory);
        let is_listed_script = has_word("gradlew mvnw", name);
        if program.contains('/') && !is_of_system && !is_listed_script {
            if program.starts_with('-') || self::is_of_system(directory) {
                return self.note_effect(Unknown, &all);
            }
            return self.own(name, &all, arguments);
        }
        self.ran(name);
        if let [only] = arguments
            && has_word("--help --version", &only.text)
        {
            return self.note_effect(Reversible, &all);
        }
        let plain = name.trim_end_matches(|sign: char| sign.is_ascii_digit() || sign == '.');
        let row = match name {
            "tar" | "bsdtar" => Row::of_program(tar_mode(arguments)),
            _ => Row::of_program(name)
                .or_else(|| has_word("python pypy perl ruby php lua", plain).then(|| Row::of_program(plain)).flatten()),
        };
        match row {
            Some(row) => self.listed(name, row, arguments, stdin, &all),
            None => self.note_effect(Unknown, &all),
        }
    }

    fn ran(&mut self, name: &str) {
        let is_name = |sign: char| sign.is_alphanumeric() || "-_.+".contains(sign);
        let is_program = name.starts_with(char::is_alphanumeric) && name.chars().all(is_name);
        if is_program && !has_word(OF_SHELLS, name) && !self.programs.iter().any(|known| known == name) {
            self.programs.push(name.to_owned());
        }
    }

    /// Judges a command by the row of its program.
    fn listed(&mut self, name: &str, row: &'static Row, arguments: &[Argument], stdin: &Stdin, all: &str) {
        let reading = Reading::from_arguments(row, arguments);
        let row = reading.row;
        if reading.is_help {
            return self.note_effect(Reversible, all);
        }
        if !reading.is_known {
            self.note_effect(Unknown, all);
            // A command behind an unknown option may begin at any irreversible word.
            let is_irreversible = |word: &str| Row::of_program(word).is_some_and(|row| row.effect == Irreversible);
            let begins = (0..arguments.len()).filter(|at| arguments[*at].fixed().is_some_and(is_irreversible));
            if row.runs_commands() {
                begins.for_each(|at| self.command(&arguments[at..], stdin));
            }
        }
        if row.has_subscripts && arguments.iter().any(has_evaluated_subscript) {
            self.note_effect(Unknown, all);
        }
        let is_dry = reading.is_known && reading.options.iter().any(|(option, _)| option.is_dry);
        let mut says_what = false;
        for (option, value) in &reading.options {
            if !is_dry || option.effect == Unknown {
                self.note_effect(option.effect, all);
            }
            if let Some(value) = value {
                says_what |= matches!(option.meaning(), Meaning::Letter('c' | 'q' | 's'));
                self.means(option.meaning(), value, all);
            }
        }
        for words in &reading.commands {
            let mut command: Vec<Argument> = words.iter().map(|word| with_place(word, None)).collect();
            // Programs such as fd append the file.
            if !words.iter().any(|word| word.text.contains("{}")) {
                command.push(Argument::unknown());
            }
            self.command(&command, stdin);
        }
        if let (Some(meaning), Some(at)) = (&row.from_name, reading.name_at) {
            let known = self.programs.len();
            self.rest_means(meaning, &arguments[at..], stdin, all);
            // The command is a part of this program.
            if self.programs.get(known).is_some_and(|name| *name == arguments[at].text) {
                self.programs.remove(known);
            }
            return;
        }
        self.note_effect(if is_dry { Reversible } else { row.effect }, all);
        if is_dry {
            return;
        }
        if has_word("sed gsed", name) {
            return self.sed(&reading, all);
        }
        match row.meanings(reading.operands.len()) {
            Some(meanings) => {
                for (meaning, operand) in meanings.into_iter().zip(&reading.operands) {
                    says_what |= matches!(meaning, Meaning::Letter('q'));
                    self.means(meaning, operand, all);
                }
            }
            None => self.note_effect(Unknown, all),
        }
        if let Some(at) = reading.behind_dashes {
            self.behind_dashes(&row.behind_dashes, &arguments[at..], stdin, all);
            says_what = true;
        }
        // The code of a shell is an operand: further options may stand before it.
        let is_shell = has_word(SHELLS, name);
        match reading.rest.map(|at| &arguments[at..]) {
            Some([code, ..]) if is_shell && reading.has("-c") => self.code(code, all),
            Some([file, ..]) if is_shell && (reading.has("-s") || has_word("- /dev/stdin", &file.text)) => {
                self.reads_code(stdin, all);
            }
            Some(rest) => {
                let meaning = row.meaning_at(reading.operands.len()).expect("it was read by its meaning");
                let rest = if row.has_variables { self.variables_before(rest) } else { rest };
                if matches!(meaning, Meaning::Letter('x')) {
                    let marks = ["-I", "-J", "--replace"];
                    let given =
                        reading.options.iter().find(|(option, _)| marks.iter().any(|mark| option.is_named(mark)));
                    let mark = given.and_then(|(_, value)| value.as_ref()).map(|value| value.text.as_str());
                    let rest: Vec<Argument> = rest.iter().map(|word| with_place(word, mark)).collect();
                    self.rest_means(meaning, &rest, stdin, all);
                } else {
                    self.rest_means(meaning, rest, stdin, all);
                }
            }
            None if is_shell && reading.has("-c") => self.note_effect(Unknown, all),
            None if says_what => {}
            None => match (row.input, stdin) {
                (Some(Input::Shell), _) => self.reads_code(stdin, all),
                (Some(Input::Statements), Stdin::Text(text)) => self.sql(text),
                (Some(Input::Statements | Input::Code), Stdin::Text(_) | Stdin::Unseen) => {
                    self.note_effect(Unknown, all);
                }
                (None, _) | (Some(_), Stdin::Terminal) => {}
            },
        }
        if row.is_unseen {
            self.unseen(all);
        }
    }

    /// Judges the variables before a command, and returns the command.
    fn variables_before<'w>(&mut self, mut words: &'w [Argument]) -> &'w [Argument] {
        while let Some((first, behind)) = words.split_first()
            && let Some((name, value)) = first.text.split_once('=').filter(|(name, _)| !name.is_empty())
        {
            let value = Argument { text: value.to_owned(), is_fixed: first.is_fixed };
            self.variables(&[(name.to_owned(), value)], true);
            words = behind;
        }
        words
    }

    fn behind_dashes(&mut self, operands: &[Operand], words: &[Argument], stdin: &Stdin, all: &str) {
        if let Some(first) = operands.first().filter(|first| first.meaning.takes_rest()) {
            return self.rest_means(&first.meaning, words, stdin, all);
        }
        match meanings(operands, words.len()) {
            Some(meanings) => {
                meanings.into_iter().zip(words).for_each(|(meaning, word)| self.means(meaning, word, all));
            }
            None => self.note_effect(Unknown, all),
        }
    }

    /// Judges an operand, or the value of an option, by its meaning.
    fn means(&mut self, meaning: &Meaning, word: &Argument, all: &str) {
        let letter = match meaning {
            Meaning::Letter(letter) => *letter,
            Meaning::Words(words) => {
                let lower = word.text.to_lowercase();
                let found = words.iter().find(|(_, pattern)| matches_word(pattern, &lower));
                return self.note_effect(found.map_or(Unknown, |(effect, _)| *effect), all);
            }
        };
        match letter {
            'w' => self.writes(word),
            'n' if word.text.contains("://") || word.is_fixed && is_of_system(&word.text) => {
                self.note_effect(Unknown, all);
            }
            't' if word.text == "/dev/null" => self.note_effect(Irreversible, all),
            't' => self.writes(word),
            'M' if word.is_fixed || word.text.starts_with(['/', '~']) => self.writes(word),
            'R' if word.text.contains(':') => self.note_effect(Unknown, all),
            'R' => self.writes(word),
            'u' if !is_address(&word.text) => self.note_effect(Unknown, all),
            'c' => self.code(word, all),
            'q' => {
                if !word.is_fixed {
                    self.note_effect(Unknown, all);
                }
                self.sql(&word.text);
            }
            's' if word.text.starts_with("/dev/") || has_word("-", &word.text) || !word.is_fixed => {
                self.note_effect(Unknown, all);
            }
            's' => self.own(&word.text, all, &[]),
            '@' | 'T' if !word.is_fixed => self.note_effect(Unknown, all),
            // A variable of a makefile.
            '@' if word.text.contains('=') => {
                let (name, value) = word.text.split_once('=').unwrap_or_default();
                let value = Argument { text: value.to_owned(), is_fixed: true };
                self.variables(&[(name.to_owned(), value)], true);
            }
            // A version of a package is no target of the project.
            '@' if word.text.contains('@') => self.note_effect(Unknown, all),
            '@' | 'T' => self.own(&word.text, all, &[]),
            'a' => {
                let is_plain = word.fixed().is_some_and(is_plain_awk);
                self.note_effect(if is_plain { Reversible } else { Unknown }, all);
            }
            'v' => {
                let is_name = |name: &str| name.chars().all(|sign| sign.is_alphanumeric() || sign == '_');
                let is_harmless = word.fixed().is_some_and(|name| is_name(name) && !has_word(KEPT_BY_SHELLS, name));
                self.note_effect(if is_harmless { Reversible } else { Unknown }, all);
            }
            'm' => {
                // A container that has the machine is no container.
                let (source, _) = word.text.split_once(':').unwrap_or_default();
                if !source.is_empty() && (!word.is_fixed || is_of_system(source)) {
                    self.note_effect(Unknown, all);
                }
            }
            'i' => match word.fixed().map(|text| text.split_once('=')) {
                Some(Some((_, code))) => self.give(code.to_owned()),
                Some(None) => {}
                None => self.note_effect(Unknown, all),
            },
            '!' => self.note_effect(Irreversible, all),
            '?' => self.note_effect(Unknown, all),
            _ => {}
        }
    }

    /// Judges all further words by their meaning.
    fn rest_means(&mut self, meaning: &Meaning, rest: &[Argument], stdin: &Stdin, all: &str) {
        match meaning {
            Meaning::Letter('$') => self.command(rest, stdin),
            Meaning::Letter('j') => {
                if rest.iter().any(|word| !word.is_fixed) {
                    self.note_effect(Unknown, all);
                }
                self.give(join_words(rest));
            }
            Meaning::Letter('x') => {
                let words: Vec<Argument> = rest.iter().cloned().chain([Argument::unknown()]).collect();
                self.command(&words, &Stdin::Unseen);
            }
            Meaning::Letter('r') => {
                // The other machine's shell reads the words, joined, and what the line gives it.
                if matches!(stdin, Stdin::Unseen) || rest.iter().any(|word| !word.is_fixed) {
                    self.note_effect(Unknown, all);
                }
                self.give_reading(join_words(rest), stdin.clone());
            }
            Meaning::Letter('&') => match rest {
                [_, command @ ..] if !command.is_empty() => self.command(command, stdin),
                _ => self.unseen(all),
            },
            Meaning::Letter('>') => match rest.split_first() {
                Some((file, arguments))
                    if file.is_fixed
                        && file.text != "-"
                        && !file.text.contains("://")
                        && !file.text.starts_with("/dev/") =>
                {
                    let name = file.text.rsplit('/').next().unwrap_or_default().to_owned();
                    self.own(&name, all, arguments);
                }
                _ => self.note_effect(Unknown, all),
            },
            Meaning::Letter(_) | Meaning::Words(_) => self.note_effect(Unknown, all),
        }
    }

    /// Judges a shell that reads its commands.
    fn reads_code(&mut self, stdin: &Stdin, all: &str) {
        match stdin {
            Stdin::Terminal => self.note_effect(Reversible, all),
            Stdin::Text(code) => self.give(code.clone()),
            Stdin::Unseen => self.note_effect(Unknown, all),
        }
    }

    /// Judges code of a shell in a word.
    fn code(&mut self, code: &Argument, all: &str) {
        match code.fixed() {
            Some(code) => self.give(code.to_owned()),
            None => {
                self.note_effect(Unknown, all);
                // This reads the text in it unchanged: `$f` may stand for anything, and `rm` is `rm`.
                let inside = code.text.trim_matches(['"', '\'']).to_owned();
                self.give(inside);
            }
        }
    }

    /// Judges a program, script or target of the project by its name and its arguments: this does not read its file.
    fn own(&mut self, name: &str, all: &str, arguments: &[Argument]) {
        let words = |text: &str| -> Vec<String> {
            text.split(|sign: char| !sign.is_alphanumeric())
                .filter(|word| !word.is_empty())
                .map(str::to_lowercase)
                .collect()
        };
        let tells = |list: &[&str], text: &str| words(text).iter().any(|word| has_beginning(list, word));
        let is_telling = tells(&TELLING, name)
            || tells(&TELLING_NAMES, name)
            || arguments.iter().any(|one| one.is_fixed && tells(&TELLING, &one.text));
        if is_telling {
            self.note_effect(Unknown, all);
        } else {
            self.unseen(all.trim());
        }
    }

    /// Judges the text for a client of a database.
    pub(super) fn sql(&mut self, text: &str) {
        match sql::effect(text) {
            sql::SqlEffect::Known(effect) => self.note_effect(effect, text),
            sql::SqlEffect::Shell(line) => self.give(line),
        }
    }

    fn sed(&mut self, reading: &Reading<'_>, all: &str) {
        let is_script = |option: &CommandOption| option.is_named("-e") || option.is_named("--expression");
        let given: Vec<&Argument> = reading
            .options
            .iter()
            .filter(|(option, _)| is_script(option))
            .filter_map(|(_, value)| value.as_ref())
            .collect();
        let first = usize::from(given.is_empty());
        let mut scripts = given.into_iter().chain(reading.operands.iter().take(first).copied());
        if !scripts.all(|script| script.fixed().is_some_and(is_plain_sed)) {
            self.note_effect(Unknown, all);
        }
        if ["-i", "-I", "--in-place"].iter().any(|name| reading.has(name)) {
            reading.operands.iter().skip(first).for_each(|file| self.writes(file));
        }
    }
}

/// Returns whether a path is of the system, is a hidden file of a home directory, or is a whole home directory.
fn is_of_system(path: &str) -> bool {
    // Enough steps up lead to the root, or to the home directory.
    let mut rest = path;
    while let Some(shorter) = rest.strip_prefix("../").or_else(|| rest.strip_prefix("./")) {
        rest = shorter;
    }
    let is_up = path.starts_with("../");
    let absolute = if is_up { format!("/{rest}") } else { path.to_owned() };
    let is_within = |directory: &str| {
        absolute == directory || absolute.strip_prefix(directory).is_some_and(|rest| rest.starts_with('/'))
    };
    let of_home = ["/home/", "/Users/"].iter().find_map(|homes| absolute.strip_prefix(homes));
    let in_home = of_home.map(|rest| rest.split_once('/').map_or("", |(_, rest)| rest)).or(path.strip_prefix("~/"));
    let first = rest.split('/').next().unwrap_or_default();
    has_word("/ ~ /home /Users", path)
        || in_home.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        || path.contains("/../")
        || OF_SYSTEM.split_whitespace().any(is_within)
        || path.split('/').any(|part| has_word(".ssh .git", part))
        || is_up && first.starts_with('.')
        || has_word(OF_HOME, first)
}

/// Returns whether a text is an address of the web or a host, without the output of a command.
fn is_address(text: &str) -> bool {
    let scheme = text.split_once("://").map_or("http", |(scheme, _)| scheme.trim_start_matches(['"', '\'']));
    has_word("http https", scheme) && !has_substitution(text) && !text.contains("::")
}

/// Returns a word of a command that gets arguments in place of `{}`, `{.}` and the like, or of another mark.
fn with_place(word: &Argument, mark: Option<&str>) -> Argument {
    if word.text == "{}" {
        return Argument::unknown();
    }
    let is_place = |(at, _): (usize, &str)| {
        let inside = word.text[at + 1..].split_once('}');
        inside.is_some_and(|(inside, _)| inside.chars().all(|sign| sign.is_ascii_digit() || "./#%-".contains(sign)))
    };
    let has_mark = mark.is_some_and(|mark| !mark.is_empty() && word.text.contains(mark));
    let has_place = has_mark || word.text.match_indices('{').any(is_place);
    Argument { is_fixed: word.is_fixed && !has_place, ..word.clone() }
}

/// Returns whether a word has a subscript that a shell evaluates though it stands in quotes.
fn has_evaluated_subscript(word: &Argument) -> bool {
    if word.is_fixed {
        return has_substitution(&word.text);
    }
    let text = word.text.trim_start_matches(['"', '\'']);
    let name = text.trim_start_matches(|sign: char| sign.is_alphanumeric() || sign == '_');
    name.len() < text.len() && name.starts_with('[')
}

/// Returns the name of the row for what tar does.
fn tar_mode(arguments: &[Argument]) -> &'static str {
    let modes = [
        ("tar-extract", "x", "--extract --get"),
        ("tar-list", "td", "--list --diff --compare"),
        ("tar-create", "crua", "--create --append --update"),
    ];
    for (at, word) in arguments.iter().enumerate() {
        let text = word.text.as_str();
        let is_letters = !text.starts_with("--") && (text.starts_with('-') || at == 0);
        for (row, letters, options) in modes {
            if has_word(options, text) || is_letters && text.contains(|letter| letters.contains(letter)) {
                return row;
            }
        }
    }
    "tar-create"
}

/// Returns whether a program of awk only prints.
fn is_plain_awk(code: &str) -> bool {
    let outside: String = code.split('"').step_by(2).collect();
    !code.contains("system")
        && !code.contains("getline")
        && !code.contains('@')
        && !outside.replace("||", "").contains('|')
        && !outside.contains(">>")
        && !prints_to_file(&outside)
}

/// Returns whether a script of sed has no command that writes a file or runs a program.
fn is_plain_sed(script: &str) -> bool {
    let mut rest = script;
    loop {
        rest = rest.trim_start_matches(|sign: char| sign.is_whitespace() || ";{}".contains(sign));
        // Addresses.
        loop {
            rest = rest.trim_start_matches(|sign: char| sign.is_ascii_digit() || "$,!~+ ".contains(sign));
            let Some(pattern) = rest.strip_prefix('/') else { break };
            let Some(end) = end_of_part(pattern, '/') else { return false };
            rest = pattern[end..].trim_start_matches(['I', 'M']);
        }
        let Some(command) = rest.chars().next() else { return true };
        rest = &rest[command.len_utf8()..];
        let line_end = rest.find('\n').unwrap_or(rest.len());
        match command {
            's' | 'y' => {
                let Some(delimiter) = rest.chars().next().filter(|sign| sign.is_ascii() && *sign != '\\') else {
                    return false;
                };
                for _ in 0..2 {
                    let Some(end) = rest.get(1..).and_then(|part| end_of_part(part, delimiter)) else { return false };
                    // The end of the part is where the next one begins.
                    rest = &rest[end..];
                }
                rest = rest[1..].trim_start_matches(|sign: char| sign.is_ascii_digit() || "gpiIm".contains(sign));
            }
            'a' | 'i' | 'c' | 'r' | '#' | ':' | 'b' | 't' if !rest[..line_end].ends_with('\\') => {
                let ends_early = ":bt".contains(command).then(|| rest.find([';', '}'])).flatten();
                rest = &rest[ends_early.unwrap_or(line_end).min(line_end)..];
            }
            'd' | 'D' | 'p' | 'P' | 'q' | 'Q' | 'n' | 'N' | 'g' | 'G' | 'h' | 'H' | 'x' | '=' | 'l' | 'z' => {
                rest = rest.trim_start_matches(|sign: char| sign.is_ascii_digit() || sign == ' ');
            }
            _ => return false,
        }
        if !rest.is_empty() && !rest.starts_with([';', '}', '\n', ' ', '#']) {
            return false;
        }
    }
}

/// Returns the index behind the end of a part of a command of sed. `None` if it has none, or is hard to read.
fn end_of_part(text: &str, delimiter: char) -> Option<usize> {
    let (mut is_escaped, mut is_class) = (false, false);
    for (at, sign) in text.char_indices() {
        if is_escaped {
            is_escaped = false;
        } else if sign == delimiter {
            return (!is_class).then(|| at + sign.len_utf8());
        } else {
            is_escaped = sign == '\\';
            is_class = sign == '[' || is_class && sign != ']';
        }
    }
    None
}

/// Commands of the shell itself: no programs.
const OF_SHELLS: &str = "alias bg break case cd command continue declare do done echo elif else eval exec if then time while until esac exit export \
    false fg fi for function hash jobs kill let local popd printf pushd pwd read return set shift source test trap true type ulimit \
    builtin complete compgen bind dirs disown getopts history logout shopt suspend times umask unalias unset wait";

/// Returns whether a program reads statements for a database.
pub(super) fn is_database_client(name: &str) -> bool {
    Row::of_program(name).is_some_and(|row| row.input == Some(Input::Statements))
}

/// Returns whether a program without a command reads lines of a shell.
pub(super) fn opens_shell(name: &str) -> bool {
    let has_shells = "docker podman nerdctl compose docker-compose kubectl oc vagrant lxc machinectl newgrp script";
    has_word(has_shells, name) || Row::of_program(name).is_some_and(|row| row.input == Some(Input::Shell))
}

/// Returns whether code of awk prints to a file: `>` behind `print`.
fn prints_to_file(code: &str) -> bool {
    code.split(['{', '}', ';', '\n']).any(|statement| {
        let statement = statement.trim_start();
        (statement.starts_with("print") || statement.contains(" print")) && statement.contains('>')
    })
}
