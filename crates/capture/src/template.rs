//! Texts with variables in place of values.
//!
//! A variable replaces a value that stands by itself: not within a longer word or number. It replaces a path that is
//! whole or a parent directory: `/tmp/x` in `/tmp/x/a`, not in `/tmp/x-2`. The longest value wins. Other text that
//! looks like a placeholder becomes literal.

use steplatch_workflow::substitute::literal;

/// A value that a variable stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Binding {
    /// The typed or printed text.
    pub(crate) value: String,
    /// The name of the variable.
    pub(crate) name: String,
}

/// Use of a text, which decides the quotes of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Typed into a program unchanged.
    Plain,
    /// Read by a POSIX shell, with quotes for the value.
    Shell,
    /// In a pattern.
    Pattern,
}

/// Returns the template of a text, and the names of the variables in it. `escape` escapes text of patterns.
pub(crate) fn template(
    text: &str,
    bindings: &[Binding],
    usage: Use,
    escape: impl Fn(&str) -> String,
) -> (String, Vec<String>) {
    let (mut made, mut names) = (String::with_capacity(text.len()), Vec::new());
    let (mut plain, mut at) = (0, 0);
    while at < text.len() {
        let found = bindings
            .iter()
            .filter(|binding| !binding.value.is_empty() && text[at..].starts_with(&binding.value))
            .filter(|binding| is_whole(text, at, at + binding.value.len()))
            .max_by_key(|binding| binding.value.len());
        let Some(binding) = found else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
            continue;
        };
        let mut end = at + binding.value.len();
        let quote = if usage == Use::Shell { quote_at(text, at) } else { None };
        let is_whole = quote.is_some_and(|quote| text[..at].ends_with(quote) && text[end..].starts_with(quote));
        made.push_str(&escape(&text[plain..if is_whole { at - 1 } else { at }]));
        let filter = match usage {
            // Quotes do not quote in a document typed with the command.
            Use::Shell if !text.contains("<<") => "|sh",
            Use::Shell | Use::Plain => "",
            Use::Pattern => "|regex",
        };
        // A value has quotes of its own, so the quotes around it end before it and begin again behind it.
        let around = quote.filter(|_| !is_whole && !filter.is_empty()).map(String::from).unwrap_or_default();
        made.extend([&around, "{", &binding.name, filter, "}", &around]);
        if is_whole {
            end += 1;
        }
        names.push(binding.name.clone());
        (at, plain) = (end, end);
    }
    made.push_str(&escape(&text[plain..]));
    (made, names)
}

/// As [`template`], of a typed text.
pub(crate) fn typed(text: &str, bindings: &[Binding], usage: Use) -> (String, Vec<String>) {
    template(text, bindings, usage, literal)
}

/// Returns a text with something else in place of a part, wherever the part stands by itself.
pub(crate) fn replaced(text: &str, part: &str, with: &str) -> String {
    let (mut made, mut plain) = (String::with_capacity(text.len()), 0);
    for (at, _) in text.match_indices(part).filter(|(at, _)| stands_alone(text, *at, at + part.len())) {
        made.extend([&text[plain..at], with]);
        plain = at + part.len();
    }
    made.push_str(&text[plain..]);
    made
}

/// Returns whether the part of a text is no part of a longer word or number.
pub(crate) fn stands_alone(text: &str, begin: usize, end: usize) -> bool {
    let joins = |one: Option<char>, other: Option<char>| {
        let is_word = |sign: char| sign.is_alphanumeric() || sign == '_';
        one.is_some_and(is_word) && other.is_some_and(is_word)
    };
    let part = &text[begin..end];
    !joins(text[..begin].chars().next_back(), part.chars().next())
        && !joins(part.chars().next_back(), text[end..].chars().next())
}

/// Returns whether the part of a text is a value of its own. Of a longer path, it has whole names.
fn is_whole(text: &str, begin: usize, end: usize) -> bool {
    let is_path = text[begin..end].starts_with('/');
    stands_alone(text, begin, end) && (!is_path || (begins_path(&text[..begin]) && ends_name(&text[end..])))
}

/// Signs that names of files have besides letters and digits, and those that a shell expands to more of a name.
const OF_NAMES: &str = "_-.+~@%*?[{\\";

fn is_of_name(sign: char) -> bool {
    sign.is_alphanumeric() || OF_NAMES.contains(sign)
}

/// Returns whether an absolute path may begin behind a text: not within another path, but behind an option's letter, as
/// in `-C/tmp`, and in an address, as in `file:///tmp`.
fn begins_path(before: &str) -> bool {
    let word = before.rsplit(char::is_whitespace).next().unwrap_or_default();
    let is_option = word.len() == 2 && word.starts_with('-') && word.ends_with(|sign: char| sign.is_ascii_alphabetic());
    let goes_on = |sign: char| is_of_name(sign) || "/})".contains(sign);
    is_option || before.ends_with("://") || !before.ends_with(goes_on)
}

/// Returns whether the name of a file ends where a text begins. A full stop or a question mark may end a sentence.
fn ends_name(after: &str) -> bool {
    let mut signs = after.chars();
    match signs.next() {
        Some('.' | '?') => signs.next().is_none_or(|next| !is_of_name(next) && next != '/'),
        sign => sign.is_none_or(|sign| !is_of_name(sign)),
    }
}

/// Returns the quote that a place in a command stands within, by the rules of POSIX shells.
fn quote_at(text: &str, at: usize) -> Option<char> {
    let mut quote = None;
    let mut signs = text[..at].chars();
    while let Some(sign) = signs.next() {
        match (quote, sign) {
            (None | Some('"'), '\\') => drop(signs.next()),
            (None, '\'' | '"') => quote = Some(sign),
            (Some(open), sign) if open == sign => quote = None,
            _ => {}
        }
    }
    quote.filter(|_| !text.contains("<<"))
}

/// Keys of a person's own terminal, as the bytes that it sends.
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

/// Returns the key that bytes of a person's own terminal begin with, and how many bytes it has.
pub(crate) fn key_at(bytes: &str) -> Option<(&'static str, usize)> {
    KEYS.iter().find(|(key, _)| bytes.starts_with(key)).map(|(key, name)| (*name, key.len()))
}

/// Returns what the bytes of a person's own terminal type: text with its corrections applied, and keys behind it. Enter
/// is `\n`.
pub(crate) fn typed_keys(bytes: &str) -> (String, Vec<String>) {
    let (mut text, mut keys) = (String::new(), Vec::new());
    let mut rest = bytes;
    while let Some(sign) = rest.chars().next() {
        let key = key_at(rest);
        let length = key.map_or(sign.len_utf8(), |(_, length)| length);
        match (key, sign) {
            (Some((name, _)), _) => keys.push(name.to_owned()),
            (None, '\x7f' | '\x08') => drop(text.pop()),
            (None, '\x15') => text.clear(),
            (None, '\x17') => {
                let kept = text.trim_end().rfind(' ').map_or(0, |blank| blank + 1);
                text.truncate(kept);
            }
            (None, '\r' | '\n') if keys.is_empty() => text.push('\n'),
            (None, '\r' | '\n') => keys.push("enter".to_owned()),
            // Text behind a key: keys come after the text, so each sign is a key of its own.
            (None, sign) if !keys.is_empty() => keys.push(sign.to_string()),
            (None, sign) => text.push(sign),
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
    fn a_value_is_replaced_where_it_stands_by_itself() {
        let bindings = [binding("1.2", "version"), binding("1.2.3", "exact")];
        let shell = |text: &str| typed(text, &bindings, Use::Shell).0;
        assert_eq!(shell("git tag v1.2"), "git tag v1.2", "a part of a word");
        assert_eq!(shell("git tag 1.2"), "git tag {version|sh}");
        assert_eq!(shell("echo '1.2' a-1.2 --x=1.2.3"), "echo {version|sh} a-{version|sh} --x={exact|sh}");
        assert_eq!(shell("echo \"it's\" 1.2 'v 1.2'"), "echo \"it's\" {version|sh} 'v '{version|sh}''");
        assert_eq!(shell("echo \"v 1.2 x\""), "echo \"v \"{version|sh}\" x\"");
        assert_eq!(shell("cat <<E\nit's 1.2\nE"), "cat <<E\nit's {version}\nE");
        assert_eq!(shell("awk '{print}' ${HOME}"), "awk '{{print}}' ${{HOME}}");
    }

    #[test]
    fn a_path_is_replaced_where_it_is_whole_or_a_parent() {
        let bindings = [binding("/tmp/x", "PWD"), binding("/tmp/x/proj", "DIR")];
        let shell = |text: &str| typed(text, &bindings, Use::Shell).0;
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
        let plain = |text: &str| typed(text, &bindings, Use::Plain).0;
        assert_eq!(plain("It is in /tmp/x. Use /tmp/x?"), "It is in {PWD}. Use {PWD}?");
    }

    #[test]
    fn corrections_of_a_person_are_applied() {
        assert_eq!(typed_keys("lx\x7fs -l\x17-a\r"), ("ls -a\n".to_owned(), vec![]));
        assert_eq!(typed_keys("\x1b[A\r"), (String::new(), vec!["up".to_owned(), "enter".to_owned()]));
        assert_eq!(typed_keys("wrong\x15right"), ("right".to_owned(), vec![]));
    }
}
