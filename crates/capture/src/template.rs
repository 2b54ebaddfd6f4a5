//! Texts with variables in place of values.
//!
//! A variable replaces a value that is a separate word: not within a longer word or number. In paths, the variable
//! replaces a complete path or a parent directory: `/tmp/x` in `/tmp/x/a`, not in `/tmp/x-2`. The longest value has
//! priority. Other text that looks like a placeholder becomes literal.

use steplatch_workflow::substitute::literal;

/// A variable, with the value that it replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    /// The typed or printed text.
    pub(crate) value: String,
    /// The name of the variable.
    pub(crate) name: String,
}

/// Use of a text; it determines the quotes of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Typed into a program unchanged.
    Plain,
    /// Read by a POSIX shell, with quotes for the value.
    Shell,
    /// In a pattern.
    Pattern,
}

/// Returns the template of text, and the names of its variables. `escape` escapes the text between variables.
pub(crate) fn template(
    text: &str,
    bindings: &[Binding],
    usage: Use,
    escape: impl Fn(&str) -> String,
) -> (String, Vec<String>) {
    let (mut template, mut names) = (String::with_capacity(text.len()), Vec::new());
    let (mut copied_end, mut index) = (0, 0);
    while index < text.len() {
        let binding = bindings
            .iter()
            .filter(|binding| !binding.value.is_empty() && text[index..].starts_with(&binding.value))
            .filter(|binding| is_complete(text, index, index + binding.value.len()))
            .max_by_key(|binding| binding.value.len());
        let Some(binding) = binding else {
            index += text[index..].chars().next().map_or(1, char::len_utf8);
            continue;
        };
        let mut end = index + binding.value.len();
        let quote = if usage == Use::Shell { quote_at(text, index) } else { None };
        let fills_quotes = quote.is_some_and(|quote| text[..index].ends_with(quote) && text[end..].starts_with(quote));
        template.push_str(&escape(&text[copied_end..if fills_quotes { index - 1 } else { index }]));
        let filter = match usage {
            // In a here-document, quotes have no effect.
            Use::Shell if !text.contains("<<") => "|sh",
            Use::Shell | Use::Plain => "",
            Use::Pattern => "|regex",
        };
        // The value gets its own quotes, so the surrounding quotes end before the value and begin again after it.
        let outer_quote = quote.filter(|_| !fills_quotes && !filter.is_empty()).map(String::from).unwrap_or_default();
        template.extend([&outer_quote, "{", &binding.name, filter, "}", &outer_quote]);
        if fills_quotes {
            end += 1;
        }
        names.push(binding.name.clone());
        (index, copied_end) = (end, end);
    }
    template.push_str(&escape(&text[copied_end..]));
    (template, names)
}

/// Returns the template of a typed text, like [`template`].
pub(crate) fn typed_template(text: &str, bindings: &[Binding], usage: Use) -> (String, Vec<String>) {
    template(text, bindings, usage, literal)
}

/// Replaces each occurrence of `part` that is a separate word.
pub(crate) fn replace_word(text: &str, part: &str, replacement: &str) -> String {
    let (mut result, mut copied_end) = (String::with_capacity(text.len()), 0);
    for (start, _) in text.match_indices(part).filter(|(start, _)| stands_alone(text, *start, start + part.len())) {
        result.extend([&text[copied_end..start], replacement]);
        copied_end = start + part.len();
    }
    result.push_str(&text[copied_end..]);
    result
}

/// Letters before a version that are not part of it, as in `v1.4.2`.
pub(crate) const VERSION_SIGNS: [char; 2] = ['v', 'V'];

/// Returns whether a character is part of a word or number.
pub(crate) fn is_word_character(character: char) -> bool {
    character.is_alphanumeric() || character == '_'
}

/// Returns whether a part of text is a separate word or number. The letter before a version is not part of it.
pub(crate) fn stands_alone(text: &str, begin: usize, end: usize) -> bool {
    let is_within_word = |before: Option<char>, after: Option<char>| {
        before.is_some_and(is_word_character) && after.is_some_and(is_word_character)
    };
    let part = &text[begin..end];
    let is_version = part.contains('.') && part.starts_with(|first: char| first.is_ascii_digit());
    let before = match text[..begin].strip_suffix(VERSION_SIGNS) {
        Some(rest) if is_version && !rest.ends_with(is_word_character) => rest,
        _ => &text[..begin],
    };
    !is_within_word(before.chars().next_back(), part.chars().next())
        && !is_within_word(part.chars().next_back(), text[end..].chars().next())
}

/// Returns whether a part of text is a complete value: a separate word, or whole names of a path.
fn is_complete(text: &str, begin: usize, end: usize) -> bool {
    let is_path = text[begin..end].starts_with('/');
    stands_alone(text, begin, end) && (!is_path || (begins_path(&text[..begin]) && ends_name(&text[end..])))
}

/// Characters of file names, except letters and digits, and characters that a shell expands to a part of a name.
const FILE_NAME_CHARACTERS: &str = "_-.+~@%*?[{\\";

fn is_name_character(character: char) -> bool {
    character.is_alphanumeric() || FILE_NAME_CHARACTERS.contains(character)
}

/// Returns whether an absolute path may begin after text: not within another path, but after the letter of an option,
/// as in `-C/tmp`, and in an address, as in `file:///tmp`.
fn begins_path(before: &str) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let is_option =
        word.len() == 2 && word.starts_with('-') && word.ends_with(|character: char| character.is_ascii_alphabetic());
    let continues_path = |character: char| is_name_character(character) || "/})".contains(character);
    is_option || before.ends_with("://") || !before.ends_with(continues_path)
}

/// Returns whether the name of a file ends before text. A full stop or a question mark may end a sentence.
fn ends_name(after: &str) -> bool {
    let mut characters = after.chars();
    match characters.next() {
        Some('.' | '?') => characters.next().is_none_or(|next| !is_name_character(next) && next != '/'),
        character => character.is_none_or(|character| !is_name_character(character)),
    }
}

/// Returns the quote that encloses a position in a command, by the rules of POSIX shells.
fn quote_at(text: &str, index: usize) -> Option<char> {
    let mut quote = None;
    let mut characters = text[..index].chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (None | Some('"'), '\\') => drop(characters.next()),
            (None, '\'' | '"') => quote = Some(character),
            (Some(open), character) if open == character => quote = None,
            _ => {}
        }
    }
    quote.filter(|_| !text.contains("<<"))
}

/// Names of keys, by the bytes that a person's terminal sends.
const KEYS: [(&str, &str); 18] = [
    ("\x1b[A", "up"),
    ("\x1b[B", "down"),
    ("\x1b[C", "right"),
    ("\x1b[D", "left"),
    ("\x1bOA", "up"),
    ("\x1bOB", "down"),
    ("\x1bOC", "right"),
    ("\x1bOD", "left"),
    ("\x1b[H", "home"),
    ("\x1b[F", "end"),
    ("\x1b[3~", "delete"),
    ("\x1b[5~", "pageup"),
    ("\x1b[6~", "pagedown"),
    ("\t", "tab"),
    ("\x03", "ctrl-c"),
    ("\x04", "ctrl-d"),
    ("\x1a", "ctrl-z"),
    ("\x1b", "escape"),
];

/// Returns the key at the beginning of the bytes of a person's terminal and its length in bytes.
pub(crate) fn key_at(bytes: &str) -> Option<(&'static str, usize)> {
    KEYS.iter().find(|(key, _)| bytes.starts_with(key)).map(|(key, name)| (*name, key.len()))
}

/// Returns the text that the bytes of a person's terminal type, with corrections applied, and the keys after it. Enter
/// is `\n`.
pub(crate) fn typed_keys(bytes: &str) -> (String, Vec<String>) {
    let (mut text, mut keys) = (String::new(), Vec::new());
    let mut rest = bytes;
    while let Some(character) = rest.chars().next() {
        let key = key_at(rest);
        let length = key.map_or(character.len_utf8(), |(_, length)| length);
        match (key, character) {
            (Some((name, _)), _) => keys.push(name.to_owned()),
            (None, '\x7f' | '\x08') => drop(text.pop()),
            (None, '\x15') => text.clear(),
            (None, '\x17') => {
                let word_start = text.trim_end().rfind(' ').map_or(0, |blank| blank + 1);
                text.truncate(word_start);
            }
            (None, '\r' | '\n') if keys.is_empty() => text.push('\n'),
            (None, '\r' | '\n') => keys.push("enter".to_owned()),
            // Keys follow the text, so each character after a key is a key, too.
            (None, character) if !keys.is_empty() => keys.push(character.to_string()),
            (None, character) => text.push(character),
        }
        rest = &rest[length..];
    }
    (text, keys)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn binding(value: &str, name: &str) -> Binding {
        Binding { value: value.to_owned(), name: name.to_owned() }
    }

    #[test]
    fn standalone_value_is_replaced() {
        let bindings = [binding("1.2", "version"), binding("1.2.3", "exact")];
        let shell = |text: &str| typed_template(text, &bindings, Use::Shell).0;
        assert_eq!(shell("git tag r1.2 1.2rc"), "git tag r1.2 1.2rc", "a part of a word is not replaced");
        assert_eq!(shell("git tag v1.2"), "git tag v{version|sh}");
        assert_eq!(shell("git tag 1.2"), "git tag {version|sh}");
        assert_eq!(shell("echo '1.2' a-1.2 --x=1.2.3"), "echo {version|sh} a-{version|sh} --x={exact|sh}");
        assert_eq!(shell("echo \"it's\" 1.2 'v 1.2'"), "echo \"it's\" {version|sh} 'v '{version|sh}''");
        assert_eq!(shell("echo \"v 1.2 x\""), "echo \"v \"{version|sh}\" x\"");
        assert_eq!(shell("cat <<E\nit's 1.2\nE"), "cat <<E\nit's {version}\nE");
        assert_eq!(shell("awk '{print}' ${HOME}"), "awk '{{print}}' ${{HOME}}");
    }

    #[test]
    fn path_is_replaced_as_a_whole_or_as_a_parent() {
        let bindings = [binding("/tmp/x", "PWD"), binding("/tmp/x/proj", "DIR")];
        let shell = |text: &str| typed_template(text, &bindings, Use::Shell).0;
        for (text, template) in [
            ("cd /tmp/x", "cd {PWD|sh}"),
            ("cd /tmp/x/", "cd {PWD|sh}/"),
            ("tar -C /tmp/x -xf a.tar", "tar -C {PWD|sh} -xf a.tar"),
            ("tar -C/tmp/x x", "tar -C{PWD|sh} x"),
            ("make DIR=/tmp/x PATH=/bin:/tmp/x/bin:$PATH", "make DIR={PWD|sh} PATH=/bin:{PWD|sh}/bin:$PATH"),
            ("cd '/tmp/x' && ls \"/tmp/x/a\"", "cd {PWD|sh} && ls \"\"{PWD|sh}\"/a\""),
            ("cd /tmp/x/proj", "cd {DIR|sh}"),
            ("cd /tmp/x/proj2", "cd {PWD|sh}/proj2"),
            ("open file:///tmp/x/a", "open file://{PWD|sh}/a"),
        ] {
            assert_eq!(shell(text), template);
        }
        for prefix in
            ["/tmp/x2", "/tmp/x-2", "/tmp/x.bak", "/tmp/x_2", "/tmp/x*", "/srv/tmp/x", "a/tmp/x", "/tmp/x\\ y"]
        {
            assert_eq!(shell(&format!("cd {prefix}")), format!("cd {prefix}"));
        }
        let plain = |text: &str| typed_template(text, &bindings, Use::Plain).0;
        assert_eq!(plain("It is in /tmp/x. Use /tmp/x?"), "It is in {PWD}. Use {PWD}?");
    }

    #[test]
    fn corrections_by_a_person_are_applied() {
        assert_eq!(typed_keys("lx\x7fs -l\x17-a\r"), ("ls -a\n".to_owned(), vec![]));
        assert_eq!(typed_keys("\x1b[A\r"), (String::new(), vec!["up".to_owned(), "enter".to_owned()]));
        assert_eq!(typed_keys("wrong\x15right"), ("right".to_owned(), vec![]));
    }
}
