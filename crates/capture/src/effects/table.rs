//! The table of known programs (`programs.txt`): their harmless options, and the meanings of their operands.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::Effect;

/// The rows of the table; its head describes them.
static ROWS: LazyLock<Vec<Row>> = LazyLock::new(|| parse(include_str!("programs.txt")));

/// A program, or a command of one.
#[derive(Debug, Default)]
pub(super) struct Row {
    names: Vec<&'static str>,
    commands: Vec<Row>,
    options: Vec<CommandOption>,
    /// Options of this row that its commands accept, too.
    inherited: Vec<CommandOption>,
    operands: Vec<Operand>,
    /// Operands behind two dashes, if these are another program's.
    pub(super) behind_dashes: Vec<Operand>,
    pub(super) input: Option<Input>,
    pub(super) takes_any_option: bool,
    /// Effect of any use.
    pub(super) effect: Effect,
    /// Meaning of the words from the name of the row on.
    pub(super) from_name: Option<Meaning>,
    /// It runs programs of the project.
    pub(super) is_unseen: bool,
    /// Options with one dash are words.
    has_words: bool,
    /// The first word is letters of options.
    pub(super) has_bundle: bool,
    /// Variables stand before the command behind it.
    pub(super) has_variables: bool,
    /// The shell evaluates subscripts in quotes.
    pub(super) has_subscripts: bool,
}

/// Use of a program's input, where no argument determines it.
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
    value: Value,
    pub(super) effect: Effect,
    /// Nothing is done with it, only shown.
    pub(super) is_dry: bool,
}

#[derive(Debug, Clone)]
enum Value {
    None,
    /// A joined one, or none.
    Joined(Meaning),
    /// The next word, or a joined one.
    Needed {
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
            Value::None => &Meaning::Letter('.'),
            Value::Joined(meaning) | Value::Needed { meaning, .. } => meaning,
        }
    }
}

/// Meaning of an operand, or of the value of an option.
#[derive(Debug, Clone)]
pub(super) enum Meaning {
    /// A letter of the head of the table.
    Letter(char),
    /// One of these words.
    Words(Vec<(Effect, &'static str)>),
}

impl Meaning {
    /// Returns whether it includes all further words.
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
pub(super) enum ValueAt {
    Nowhere,
    /// In the word of the option, from this byte on.
    Inside(usize),
    NextWord,
}

impl Row {
    /// Returns the row of a program.
    pub(super) fn of_program(name: &str) -> Option<&'static Self> {
        static BY_NAME: LazyLock<HashMap<&str, &Row>> = LazyLock::new(|| {
            let named = ROWS.iter().flat_map(|row| row.names.iter().map(move |name| (*name, row)));
            named.collect()
        });
        BY_NAME.get(name).copied().or_else(|| ROWS.iter().find(|row| row.is_named(name)))
    }

    /// Returns the row of a command of this program.
    pub(super) fn command(&self, name: &str) -> Option<&Self> {
        // An option is no command, even where a command may have any name.
        let is_option = name.starts_with('-');
        self.commands.iter().find(|row| if is_option { row.names.contains(&name) } else { row.is_named(name) })
    }

    fn is_named(&self, name: &str) -> bool {
        self.names.iter().any(|pattern| matches_word(pattern, name))
    }

    /// Returns whether arguments of it may be another command.
    pub(super) fn runs_commands(&self) -> bool {
        self.operands.iter().any(|operand| operand.meaning.takes_rest())
    }

    /// Returns the meaning of the operand with this index, as far as the number of operands does not matter.
    pub(super) fn meaning_at(&self, index: usize) -> Option<&Meaning> {
        let repeated = self.operands.iter().position(|operand| operand.is_repeated);
        let at = repeated.map_or(index, |at| index.min(at));
        self.operands.get(at).map(|operand| &operand.meaning)
    }

    /// Returns the meanings of operands. `None` if there are too many.
    pub(super) fn meanings(&self, count: usize) -> Option<Vec<&Meaning>> {
        meanings(&self.operands, count)
    }

    /// Reads a word as an option, or as letters of several. `None` if one is not listed.
    pub(super) fn read_option(&self, text: &str) -> Option<Vec<(&CommandOption, ValueAt)>> {
        if let Some(option) = self.option(text) {
            let is_needed = matches!(option.value, Value::Needed { .. });
            return Some(vec![(option, if is_needed { ValueAt::NextWord } else { ValueAt::Nowhere })]);
        }
        let is_long = text.starts_with("--") || self.has_words;
        if let Some((name, _)) = text.split_once('=').filter(|_| is_long)
            && let Some(option) = self.option(name).filter(|option| !matches!(option.value, Value::None))
        {
            return Some(vec![(option, ValueAt::Inside(name.len() + 1))]);
        }
        let is_number = text.len() > 1 && text[1..].bytes().all(|byte| byte.is_ascii_digit());
        if is_number && let Some(option) = self.option(if text.starts_with('+') { "+#" } else { "-#" }) {
            return Some(vec![(option, ValueAt::Nowhere)]);
        }
        let is_joined = |option: &&CommandOption| {
            let may_be = matches!(option.value, Value::Joined(_) | Value::Needed { is_joined: true, .. });
            may_be && !option.name.starts_with("--") && text.starts_with(option.name)
        };
        if let Some(option) = self.options.iter().filter(is_joined).max_by_key(|option| option.name.len()) {
            return Some(vec![(option, ValueAt::Inside(option.name.len()))]);
        }
        (!is_long && text.starts_with('-')).then(|| self.read_letters(text)).flatten()
    }

    fn read_letters(&self, text: &str) -> Option<Vec<(&CommandOption, ValueAt)>> {
        let mut found = Vec::new();
        for (at, letter) in text.char_indices().skip(1) {
            let option = self.options.iter().find(|option| {
                option.name.strip_prefix('-').is_some_and(|name| name.chars().eq(std::iter::once(letter)))
            })?;
            let end = at + letter.len_utf8();
            let value = match option.value {
                Value::None => ValueAt::Nowhere,
                _ if end < text.len() => ValueAt::Inside(end),
                Value::Joined(_) => ValueAt::Nowhere,
                Value::Needed { .. } => ValueAt::NextWord,
            };
            found.push((option, value));
            if value != ValueAt::Nowhere {
                break;
            }
        }
        Some(found)
    }

    /// Returns whether words that begin with a plus sign are options.
    pub(super) fn has_plus(&self) -> bool {
        self.options.iter().any(|option| option.name.starts_with('+'))
    }

    fn option(&self, name: &str) -> Option<&CommandOption> {
        self.options.iter().find(|option| option.name == name)
    }
}

/// Returns the meanings of `count` operands; a repeated one stretches. `None` if there are too many.
pub(super) fn meanings(operands: &[Operand], count: usize) -> Option<Vec<&Meaning>> {
    let repeated = operands.iter().position(|operand| operand.is_repeated);
    let (before, after) = match repeated {
        Some(at) => (&operands[..at], &operands[at + 1..]),
        None => (operands, &[][..]),
    };
    let of_end = after.len().min(count.saturating_sub(before.len()));
    let of_begin = count - of_end;
    let mut found: Vec<&Meaning> = before.iter().take(of_begin).map(|operand| &operand.meaning).collect();
    while found.len() < of_begin {
        found.push(&operands[repeated?].meaning);
    }
    found.extend(after[after.len() - of_end..].iter().map(|operand| &operand.meaning));
    Some(found)
}

/// Returns whether a word matches: `*` is any text, and `_` any sign.
pub(super) fn matches_word(pattern: &str, word: &str) -> bool {
    let (pattern, word): (Vec<char>, Vec<char>) = (pattern.chars().collect(), word.chars().collect());
    // The last `*`, and the end of the text that it stands for.
    let (mut at, mut in_pattern, mut star) = (0, 0, None);
    while at < word.len() {
        match pattern.get(in_pattern) {
            Some('*') => {
                star = Some((in_pattern, at));
                in_pattern += 1;
            }
            Some(sign) if *sign == word[at] || *sign == '_' => (at, in_pattern) = (at + 1, in_pattern + 1),
            _ => {
                let Some((begin, end)) = star else { return false };
                star = Some((begin, end + 1));
                (at, in_pattern) = (end + 1, begin + 1);
            }
        }
    }
    pattern[in_pattern..].iter().all(|sign| *sign == '*')
}

fn parse(table: &'static str) -> Vec<Row> {
    // A definition is known from its row on.
    let mut defined: HashMap<&str, String> = HashMap::new();
    let mut open: Vec<Row> = Vec::new();
    let mut rows = Vec::new();
    let joined = table.replace("\\\n", "");
    // The table lives as long as the program.
    let joined: &'static str = Box::leak(joined.into_boxed_str());
    for line in joined.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if let Some((name, words)) = line.strip_prefix('%').and_then(|line| line.split_once(" = ")) {
            let words: Vec<String> = words.split(' ').map(|word| replace_name(word, &defined)).collect();
            defined.insert(name, words.join(" "));
            continue;
        }
        let words: Vec<String> = line.split(' ').map(|word| replace_name(word, &defined)).collect();
        let text: &'static str = Box::leak(words.join(" ").into_boxed_str());
        let level = (text.len() - text.trim_start().len()) / 2;
        close(&mut open, level, &mut rows);
        let row = Row::parse(text.trim_start(), open.last());
        open.push(row);
    }
    close(&mut open, 0, &mut rows);
    rows
}

/// Replaces the name of defined words, alone or as a meaning: `%ssh`, `-o:%ssh`, `%ref*`.
fn replace_name(word: &str, defined: &HashMap<&str, String>) -> String {
    let Some((before, name)) = word.split_once('%').filter(|(before, _)| before.is_empty() || before.ends_with(':'))
    else {
        return word.to_owned();
    };
    let end = name.trim_end_matches('*');
    match defined.get(end) {
        Some(words) => format!("{before}{words}{}", &name[end.len()..]),
        None => word.to_owned(),
    }
}

fn close(open: &mut Vec<Row>, level: usize, rows: &mut Vec<Row>) {
    while open.len() > level {
        let row = open.pop().expect("its length is above a level");
        match open.last_mut() {
            Some(parent) => parent.commands.push(row),
            None => rows.push(row),
        }
    }
}

impl Row {
    fn parse(text: &'static str, parent: Option<&Self>) -> Self {
        // A `|` of alternatives has no blank before it.
        let (names, rest) = text.split_once(" |").unwrap_or((text, ""));
        let (operands, options) = rest.split_once(" |").unwrap_or((rest, ""));
        let mut row = Self { names: names.split_whitespace().collect(), ..Self::default() };
        if let Some(parent) = parent {
            row.inherited.clone_from(&parent.inherited);
            row.has_words = parent.has_words;
        }
        let mut is_behind_dashes = false;
        for word in operands.split_whitespace() {
            match word {
                "!" if row.operands.is_empty() && !is_behind_dashes => row.effect = Effect::Irreversible,
                "?" if row.operands.is_empty() && !is_behind_dashes => row.effect = Effect::Unknown,
                "as" => row.from_name = Some(Meaning::Letter('$')),
                "script" => row.from_name = Some(Meaning::Letter('>')),
                "unseen" => row.is_unseen = true,
                "long" => row.has_words = true,
                "bundle" => row.has_bundle = true,
                "vars" => row.has_variables = true,
                "subscript" => row.has_subscripts = true,
                "<$" => row.input = Some(Input::Shell),
                "<q" => row.input = Some(Input::Statements),
                "<?" => row.input = Some(Input::Code),
                "--" => is_behind_dashes = true,
                word => {
                    let (meaning, is_repeated) = match word.strip_suffix('*') {
                        Some(meaning) if !meaning.is_empty() => (meaning, true),
                        _ => (word, false),
                    };
                    let operand = Operand { meaning: Meaning::parse(meaning), is_repeated };
                    if is_behind_dashes { row.behind_dashes.push(operand) } else { row.operands.push(operand) }
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
        // Some names have a colon, as `-c:v`.
        let with_colon =
            text.strip_suffix(':').filter(|name| name.contains(':') && !name.ends_with(':') && !name.contains('('));
        let end = with_colon.map_or_else(|| text.find([':', '=']).unwrap_or(text.len()), str::len);
        let (name, value) = text.split_at(end);
        let none = Meaning::Letter('.');
        let option = |name, value| Self { name, value, effect: Effect::Reversible, is_dry: false };
        if let Some(meaning) = value.strip_prefix("::") {
            let meaning = if meaning.is_empty() { none } else { Meaning::parse(meaning) };
            return option(name, Value::Needed { meaning, is_joined: true });
        }
        let (value, is_dry) = match value.strip_suffix('~') {
            Some(value) => (value, true),
            None => (value, false),
        };
        let mut option = match value.chars().next() {
            Some(sign) => {
                let (meaning, mark) = match &value[1..] {
                    "" => (none, Effect::Reversible),
                    "!" => (none, Effect::Irreversible),
                    "?" => (none, Effect::Unknown),
                    meaning => (Meaning::parse(meaning), Effect::Reversible),
                };
                let value =
                    if sign == '=' { Value::Joined(meaning) } else { Value::Needed { meaning, is_joined: false } };
                Self { effect: mark, ..option(name, value) }
            }
            None => option(name, Value::None),
        };
        option.is_dry = is_dry;
        if end == text.len() {
            for (mark, effect) in [('!', Effect::Irreversible), ('?', Effect::Unknown), ('~', Effect::Reversible)] {
                if let Some(name) = option.name.strip_suffix(mark) {
                    (option.name, option.effect, option.is_dry) = (name, effect, mark == '~');
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
            let letter =
                text.chars().next().filter(|letter| text.len() == 1 && ".wntMRuc$jxre&@>Tsavmi!?q".contains(*letter));
            return Self::Letter(letter.unwrap_or_else(|| panic!("no meaning of an operand: {text}")));
        };
        let words = words.split('|').map(|word| match word.strip_prefix(['!', '?']) {
            Some(rest) if word.starts_with('!') && !rest.is_empty() => (Effect::Irreversible, rest),
            Some(rest) if !rest.is_empty() => (Effect::Unknown, rest),
            _ => (Effect::Reversible, word),
        });
        Self::Words(words.collect())
    }
}

/// Returns each program and command of the table, from the name of the program on, with its row.
#[cfg(test)]
pub(super) fn all_commands() -> Vec<(String, &'static Row)> {
    fn walk(row: &'static Row, before: &str, found: &mut Vec<(String, &'static Row)>) {
        for name in &row.names {
            let path = format!("{before}{}", name.replace('*', "x"));
            row.commands.iter().for_each(|command| walk(command, &format!("{path} "), found));
            found.push((path, row));
        }
    }
    let mut found = Vec::new();
    ROWS.iter().for_each(|row| walk(row, "", &mut found));
    found
}
