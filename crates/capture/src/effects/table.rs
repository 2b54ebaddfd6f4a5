//! The table of known programs (`programs.txt`): their harmless options, and the meanings of their operands.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::Effect;

/// The rows of the table, in the format that its head describes.
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| parse(include_str!("programs.txt")));

/// A program, or a subcommand of a program.
#[derive(Debug, Default)]
pub(super) struct Row {
    names: Vec<&'static str>,
    commands: Vec<Row>,
    options: Vec<CommandOption>,
    /// Options that the subcommands accept, too.
    inherited: Vec<CommandOption>,
    operands: Vec<Operand>,
    /// Operands after `--`, if these belong to another program.
    pub(super) operands_after_dashes: Vec<Operand>,
    pub(super) input: Option<Input>,
    pub(super) takes_any_option: bool,
    /// Effect of every use.
    pub(super) effect: Effect,
    /// Meaning of the words starting at the name of the row.
    pub(super) from_name: Option<Meaning>,
    /// True if the command runs programs of the project.
    pub(super) runs_project_programs: bool,
    /// True if options with one dash are words, not letters.
    has_word_options: bool,
    /// True if the first word consists of letters of options, as for tar.
    pub(super) has_option_bundle: bool,
    /// True if variables may precede the command.
    pub(super) has_variables: bool,
    /// True if the shell evaluates subscripts in quotes.
    pub(super) has_subscripts: bool,
}

/// Use of a program's standard input, if no argument determines it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Input {
    Shell,
    Statements,
    Code,
}

/// An option, and its effect.
#[derive(Debug, Clone)]
pub(super) struct CommandOption {
    name: &'static str,
    value: OptionValue,
    pub(super) effect: Effect,
    /// True if the program only shows its actions and performs none.
    pub(super) is_dry_run: bool,
}

/// Value that an option takes.
#[derive(Debug, Clone)]
enum OptionValue {
    None,
    /// An optional value, joined to the option.
    Joined(Meaning),
    /// A required value: the next word or joined.
    Required {
        meaning: Meaning,
        is_joined: bool,
    },
}

impl CommandOption {
    pub(super) fn is_named(&self, name: &str) -> bool {
        self.name == name
    }

    pub(super) fn meaning(&self) -> &Meaning {
        match &self.value {
            OptionValue::None => &Meaning::Letter('.'),
            OptionValue::Joined(meaning) | OptionValue::Required { meaning, .. } => meaning,
        }
    }
}

/// Meaning of an operand, or of the value of an option.
#[derive(Debug, Clone)]
pub(super) enum Meaning {
    /// A letter that the head of the table explains.
    Letter(char),
    /// One of these words.
    Words(Vec<(Effect, &'static str)>),
}

impl Meaning {
    /// Returns whether the meaning applies to all remaining words.
    pub(super) fn takes_rest(&self) -> bool {
        matches!(self, Self::Letter('$' | 'j' | 'x' | 'r' | '&' | '>'))
    }
}

#[derive(Debug, Clone)]
pub(super) struct Operand {
    pub(super) meaning: Meaning,
    is_repeated: bool,
}

/// Place of an option's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ValuePlace {
    None,
    /// In the word of the option, starting at this byte.
    Inside(usize),
    NextWord,
}

impl Row {
    /// Returns the row of a program.
    pub(super) fn for_program(name: &str) -> Option<&'static Self> {
        static BY_NAME: LazyLock<HashMap<&str, &Row>> = LazyLock::new(|| {
            let entries = ROWS.iter().flat_map(|row| row.names.iter().map(move |name| (*name, row)));
            entries.collect()
        });
        BY_NAME.get(name).copied().or_else(|| ROWS.iter().find(|row| row.is_named(name)))
    }

    /// Returns the row of a command of this program.
    pub(super) fn command(&self, name: &str) -> Option<&Self> {
        // An option is not a command, even if a command may have any name.
        let is_option = name.starts_with('-');
        self.commands.iter().find(|row| if is_option { row.names.contains(&name) } else { row.is_named(name) })
    }

    fn is_named(&self, name: &str) -> bool {
        self.names.iter().any(|pattern| matches_word(pattern, name))
    }

    /// Returns whether the arguments may contain another command.
    pub(super) fn runs_commands(&self) -> bool {
        self.operands.iter().any(|operand| operand.meaning.takes_rest())
    }

    /// Returns the meaning of the operand at `index` while the number of operands is unknown.
    pub(super) fn meaning_at(&self, index: usize) -> Option<&Meaning> {
        let repeated_index = self.operands.iter().position(|operand| operand.is_repeated);
        let position = repeated_index.map_or(index, |repeated_index| index.min(repeated_index));
        self.operands.get(position).map(|operand| &operand.meaning)
    }

    /// Returns the meanings of operands. `None` if there are too many.
    pub(super) fn meanings(&self, count: usize) -> Option<Vec<&Meaning>> {
        meanings(&self.operands, count)
    }

    /// Reads a word as an option, or as the letters of several. `None` if an option is not listed.
    pub(super) fn read_option(&self, text: &str) -> Option<Vec<(&CommandOption, ValuePlace)>> {
        if let Some(option) = self.find_option(text) {
            let is_required = matches!(option.value, OptionValue::Required { .. });
            return Some(vec![(option, if is_required { ValuePlace::NextWord } else { ValuePlace::None })]);
        }
        let is_long = text.starts_with("--") || self.has_word_options;
        if let Some((name, _)) = text.split_once('=').filter(|_| is_long)
            && let Some(option) = self.find_option(name).filter(|option| !matches!(option.value, OptionValue::None))
        {
            return Some(vec![(option, ValuePlace::Inside(name.len() + 1))]);
        }
        let is_number = text.len() > 1 && text[1..].bytes().all(|byte| byte.is_ascii_digit());
        if is_number && let Some(option) = self.find_option(if text.starts_with('+') { "+#" } else { "-#" }) {
            return Some(vec![(option, ValuePlace::None)]);
        }
        let is_joined = |option: &&CommandOption| {
            let may_be_joined =
                matches!(option.value, OptionValue::Joined(_) | OptionValue::Required { is_joined: true, .. });
            may_be_joined && !option.name.starts_with("--") && text.starts_with(option.name)
        };
        if let Some(option) = self.options.iter().filter(is_joined).max_by_key(|option| option.name.len()) {
            return Some(vec![(option, ValuePlace::Inside(option.name.len()))]);
        }
        (!is_long && text.starts_with('-')).then(|| self.read_letters(text)).flatten()
    }

    fn read_letters(&self, text: &str) -> Option<Vec<(&CommandOption, ValuePlace)>> {
        let mut options = Vec::new();
        for (index, letter) in text.char_indices().skip(1) {
            let option = self.options.iter().find(|option| {
                option.name.strip_prefix('-').is_some_and(|name| name.chars().eq(std::iter::once(letter)))
            })?;
            let end = index + letter.len_utf8();
            let value = match option.value {
                OptionValue::None => ValuePlace::None,
                _ if end < text.len() => ValuePlace::Inside(end),
                OptionValue::Joined(_) => ValuePlace::None,
                OptionValue::Required { .. } => ValuePlace::NextWord,
            };
            options.push((option, value));
            if value != ValuePlace::None {
                break;
            }
        }
        // A dash alone is an operand.
        (!options.is_empty()).then_some(options)
    }

    /// Returns whether words that begin with a plus sign are options.
    pub(super) fn has_plus(&self) -> bool {
        self.options.iter().any(|option| option.name.starts_with('+'))
    }

    fn find_option(&self, name: &str) -> Option<&CommandOption> {
        self.options.iter().find(|option| option.name == name)
    }
}

/// Returns the meanings of `count` operands; a repeated operand fills the gap. `None` if there are too many.
pub(super) fn meanings(operands: &[Operand], count: usize) -> Option<Vec<&Meaning>> {
    let repeated_index = operands.iter().position(|operand| operand.is_repeated);
    let (before, after) = match repeated_index {
        Some(index) => (&operands[..index], &operands[index + 1..]),
        None => (operands, &[][..]),
    };
    let end_count = after.len().min(count.saturating_sub(before.len()));
    let begin_count = count - end_count;
    let mut meanings: Vec<&Meaning> = before.iter().take(begin_count).map(|operand| &operand.meaning).collect();
    while meanings.len() < begin_count {
        meanings.push(&operands[repeated_index?].meaning);
    }
    meanings.extend(after[after.len() - end_count..].iter().map(|operand| &operand.meaning));
    Some(meanings)
}

/// Returns whether a word is in a space-separated list.
pub(super) fn list_contains(list: &str, word: &str) -> bool {
    list.split_whitespace().any(|entry| entry == word)
}

/// Returns whether a word matches a pattern: `*` is any text, and `_` any character.
pub(super) fn matches_word(pattern: &str, word: &str) -> bool {
    let (pattern, word): (Vec<char>, Vec<char>) = (pattern.chars().collect(), word.chars().collect());
    // The last `*`, and the end of the text that it matches.
    let (mut word_index, mut pattern_index, mut last_star) = (0, 0, None);
    while word_index < word.len() {
        match pattern.get(pattern_index) {
            Some('*') => {
                last_star = Some((pattern_index, word_index));
                pattern_index += 1;
            }
            Some(character) if *character == word[word_index] || *character == '_' => {
                (word_index, pattern_index) = (word_index + 1, pattern_index + 1);
            }
            _ => {
                let Some((begin, end)) = last_star else { return false };
                last_star = Some((begin, end + 1));
                (word_index, pattern_index) = (end + 1, begin + 1);
            }
        }
    }
    pattern[pattern_index..].iter().all(|character| *character == '*')
}

fn parse(table: &'static str) -> Vec<Row> {
    // A definition applies to the lines after it.
    let mut definitions: HashMap<&str, String> = HashMap::new();
    let mut open_rows: Vec<Row> = Vec::new();
    let mut rows = Vec::new();
    let text = table.replace("\\\n", "");
    // The table lives as long as the program.
    let text: &'static str = Box::leak(text.into_boxed_str());
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((name, words)) = line.strip_prefix('%').and_then(|line| line.split_once(" = ")) {
            let words: Vec<String> = words.split(' ').map(|word| expand_definition(word, &definitions)).collect();
            definitions.insert(name, words.join(" "));
            continue;
        }
        let words: Vec<String> = line.split(' ').map(|word| expand_definition(word, &definitions)).collect();
        let row_text: &'static str = Box::leak(words.join(" ").into_boxed_str());
        let level = (row_text.len() - row_text.trim_start().len()) / 2;
        close_rows(&mut open_rows, level, &mut rows);
        let row = Row::parse(row_text.trim_start(), open_rows.last());
        open_rows.push(row);
    }
    close_rows(&mut open_rows, 0, &mut rows);
    rows
}

/// Replaces the name of a definition with its words, alone or as a meaning: `%ssh`, `-o:%ssh`, `%ref*`.
fn expand_definition(word: &str, definitions: &HashMap<&str, String>) -> String {
    let Some((before, name)) = word.split_once('%').filter(|(before, _)| before.is_empty() || before.ends_with(':'))
    else {
        return word.to_owned();
    };
    let stem = name.trim_end_matches('*');
    match definitions.get(stem) {
        Some(words) => format!("{before}{words}{}", &name[stem.len()..]),
        None => word.to_owned(),
    }
}

/// Moves the open rows below `level` to their parents, or to `rows`.
fn close_rows(open_rows: &mut Vec<Row>, level: usize, rows: &mut Vec<Row>) {
    while open_rows.len() > level {
        let row = open_rows.pop().expect("there are more open rows than `level`");
        match open_rows.last_mut() {
            Some(parent) => parent.commands.push(row),
            None => rows.push(row),
        }
    }
}

impl Row {
    fn parse(text: &'static str, parent: Option<&Self>) -> Self {
        // A `|` of alternatives has no space before it.
        let (names, rest) = text.split_once(" |").unwrap_or((text, ""));
        let (operands, options) = rest.split_once(" |").unwrap_or((rest, ""));
        let mut row = Self { names: names.split_whitespace().collect(), ..Self::default() };
        if let Some(parent) = parent {
            row.inherited.clone_from(&parent.inherited);
            row.has_word_options = parent.has_word_options;
        }
        let mut is_after_dashes = false;
        for word in operands.split_whitespace() {
            match word {
                "!" if row.operands.is_empty() && !is_after_dashes => row.effect = Effect::Irreversible,
                "?" if row.operands.is_empty() && !is_after_dashes => row.effect = Effect::Unknown,
                "as" => row.from_name = Some(Meaning::Letter('$')),
                "script" => row.from_name = Some(Meaning::Letter('>')),
                "unseen" => row.runs_project_programs = true,
                "long" => row.has_word_options = true,
                "bundle" => row.has_option_bundle = true,
                "vars" => row.has_variables = true,
                "subscript" => row.has_subscripts = true,
                "<$" => row.input = Some(Input::Shell),
                "<q" => row.input = Some(Input::Statements),
                "<?" => row.input = Some(Input::Code),
                "--" => is_after_dashes = true,
                word => {
                    let (meaning, is_repeated) = match word.strip_suffix('*') {
                        Some(meaning) if !meaning.is_empty() => (meaning, true),
                        _ => (word, false),
                    };
                    let operand = Operand { meaning: Meaning::parse(meaning), is_repeated };
                    if is_after_dashes { row.operands_after_dashes.push(operand) } else { row.operands.push(operand) }
                }
            }
        }
        let mut is_inherited = false;
        for word in options.split_whitespace() {
            match word {
                "*" => row.takes_any_option = true,
                "/" => is_inherited = true,
                word if is_inherited => row.inherited.push(CommandOption::parse(word)),
                word => row.options.push(CommandOption::parse(word)),
            }
        }
        let inherited = row.inherited.clone();
        row.options.extend(inherited);
        row
    }
}

impl CommandOption {
    fn parse(text: &'static str) -> Self {
        // Some names have a colon, such as `-c:v`.
        let with_colon =
            text.strip_suffix(':').filter(|name| name.contains(':') && !name.ends_with(':') && !name.contains('('));
        let end = with_colon.map_or_else(|| text.find([':', '=']).unwrap_or(text.len()), str::len);
        let (name, value) = text.split_at(end);
        let none = Meaning::Letter('.');
        let option = |name, value| Self { name, value, effect: Effect::Reversible, is_dry_run: false };
        if let Some(meaning) = value.strip_prefix("::") {
            let meaning = if meaning.is_empty() { none } else { Meaning::parse(meaning) };
            return option(name, OptionValue::Required { meaning, is_joined: true });
        }
        let (value, is_dry_run) = match value.strip_suffix('~') {
            Some(value) => (value, true),
            None => (value, false),
        };
        let mut option = match value.chars().next() {
            Some(character) => {
                let (meaning, effect) = match &value[1..] {
                    "" => (none, Effect::Reversible),
                    "!" => (none, Effect::Irreversible),
                    "?" => (none, Effect::Unknown),
                    meaning => (Meaning::parse(meaning), Effect::Reversible),
                };
                let value = if character == '=' {
                    OptionValue::Joined(meaning)
                } else {
                    OptionValue::Required { meaning, is_joined: false }
                };
                Self { effect, ..option(name, value) }
            }
            None => option(name, OptionValue::None),
        };
        option.is_dry_run = is_dry_run;
        if end == text.len() {
            for (mark, effect) in [('!', Effect::Irreversible), ('?', Effect::Unknown), ('~', Effect::Reversible)] {
                if let Some(name) = option.name.strip_suffix(mark) {
                    (option.name, option.effect, option.is_dry_run) = (name, effect, mark == '~');
                    break;
                }
            }
        }
        option
    }
}

impl Meaning {
    fn parse(text: &'static str) -> Self {
        let Some(words) = text.strip_prefix('(').and_then(|text| text.strip_suffix(')')) else {
            let letter = text
                .chars()
                .next()
                .filter(|letter| text.len() == 1 && ".wWLopntMRuc$jxre&@>TsavVmi=!?q".contains(*letter));
            return Self::Letter(letter.unwrap_or_else(|| panic!("invalid meaning of an operand: {text}")));
        };
        let words = words.split('|').map(|word| match word.strip_prefix(['!', '?']) {
            Some(rest) if word.starts_with('!') && !rest.is_empty() => (Effect::Irreversible, rest),
            Some(rest) if !rest.is_empty() => (Effect::Unknown, rest),
            _ => (Effect::Reversible, word),
        });
        Self::Words(words.collect())
    }
}

/// Returns the rows of the table by the full names of their programs and commands.
#[cfg(test)]
pub(super) fn all_commands() -> Vec<(String, &'static Row)> {
    fn walk(row: &'static Row, before: &str, commands: &mut Vec<(String, &'static Row)>) {
        for name in &row.names {
            let path = format!("{before}{}", name.replace('*', "x"));
            row.commands.iter().for_each(|command| walk(command, &format!("{path} "), commands));
            commands.push((path, row));
        }
    }
    let mut commands = Vec::new();
    ROWS.iter().for_each(|row| walk(row, "", &mut commands));
    commands
}
