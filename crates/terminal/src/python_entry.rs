//! Entries for the prompt of a Python without bracketed paste, read line by line.
//!
//! Divides a text into statements. At such a prompt, an empty line ends a block, and an unindented line directly after
//! a block is an error; see "interactive mode" in the Python tutorial and
//! <https://docs.python.org/3/reference/toplevel_components.html#interactive-input>. Pure.

/// Keywords that begin a compound statement.
const BLOCK_KEYWORDS: &[&str] = &["async", "class", "def", "for", "if", "match", "try", "while", "with"];

/// Keywords that continue a compound statement without indentation.
const CLAUSE_KEYWORDS: &[&str] = &["elif", "else", "except", "finally"];

/// Returns whether an executable is a Python before 3.8. Such a Python compiles a pasted text as one statement. False
/// for a name without a version.
pub(crate) fn takes_single_statements(program: &str) -> bool {
    let version = program.strip_prefix("python").unwrap_or_default();
    // The suffix `m` names a build variant.
    let (major, minor) = version.trim_end_matches('m').split_once('.').unwrap_or((version, ""));
    match (major, minor.parse::<u32>()) {
        ("3", Ok(minor)) => minor < 8,
        (major, _) => major == "2",
    }
}

/// Splits a text into statements to type, without the empty line that ends a block. An empty line inside a block
/// becomes a line with one space, so that it does not end the block.
pub(crate) fn statements(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut statements: Vec<String> = Vec::new();
    let mut scanner = LineScanner::default();
    // True if the next line may continue the last statement.
    let mut is_block = false;
    for (index, line) in lines.iter().enumerate() {
        let is_inside_expression = scanner.is_inside_expression();
        scanner.scan_line(line);
        if is_inside_expression {
            push_line(&mut statements, line);
            continue;
        }
        if line.trim().is_empty() || line.trim_start().starts_with('#') {
            let next = lines[index + 1..].iter().find(|next| !is_blank(next));
            if is_block && next.is_some_and(|next| continues_block(next)) {
                push_line(&mut statements, if line.trim().is_empty() { " " } else { line });
            }
            continue;
        }
        let is_decorated = is_block && last_line(&statements).is_some_and(|last| last.starts_with('@'));
        if is_block && (continues_block(line) || is_decorated) {
            push_line(&mut statements, line);
        } else {
            statements.push((*line).to_owned());
            is_block = line.starts_with('@') || BLOCK_KEYWORDS.contains(&first_word(line));
        }
    }
    statements
}

/// Returns whether an empty line of a text ends a block that later lines continue.
pub(crate) fn ends_early(text: &str) -> bool {
    let lines: Vec<&str> = text.split('\n').collect();
    let mut scanner = LineScanner::default();
    let mut is_block = false;
    for (index, line) in lines.iter().enumerate() {
        let is_inside_expression = scanner.is_inside_expression();
        scanner.scan_line(line);
        if is_inside_expression || is_blank(line) && !line.is_empty() {
            continue;
        }
        if line.is_empty() {
            if is_block
                && lines[index + 1..].iter().find(|next| !is_blank(next)).is_some_and(|next| continues_block(next))
            {
                return true;
            }
            is_block = false;
        } else if !continues_block(line) {
            is_block = line.starts_with('@') || BLOCK_KEYWORDS.contains(&first_word(line));
        }
    }
    false
}

fn is_blank(line: &str) -> bool {
    line.trim().is_empty() || line.trim_start().starts_with('#')
}

/// Returns whether a line belongs to the preceding block.
fn continues_block(line: &str) -> bool {
    line.starts_with([' ', '\t']) || CLAUSE_KEYWORDS.contains(&first_word(line))
}

fn first_word(line: &str) -> &str {
    let end = line.find(|character: char| !character.is_alphanumeric() && character != '_').unwrap_or(line.len());
    &line[..end]
}

fn push_line(statements: &mut Vec<String>, line: &str) {
    match statements.last_mut() {
        Some(statement) => {
            statement.push('\n');
            statement.push_str(line);
        }
        None => statements.push(line.to_owned()),
    }
}

fn last_line(statements: &[String]) -> Option<&str> {
    statements.last()?.rsplit('\n').next()
}

/// Open strings and brackets at the end of a line.
#[derive(Debug, Default)]
struct LineScanner {
    /// The quote of an open string.
    open_quote: Option<&'static str>,
    brackets: usize,
    is_continued: bool,
}

impl LineScanner {
    /// Returns whether the next line continues a string, brackets or a backslash continuation.
    fn is_inside_expression(&self) -> bool {
        self.open_quote.is_some() || self.brackets > 0 || self.is_continued
    }

    /// Scans one line.
    fn scan_line(&mut self, line: &str) {
        self.is_continued = false;
        let mut rest = line;
        while let Some(character) = rest.chars().next() {
            if let Some(quote) = self.open_quote {
                if rest.starts_with('\\') {
                    rest = skip_chars(rest, 2);
                    self.is_continued = rest.is_empty() && quote.len() == 1;
                } else if let Some(after_quote) = rest.strip_prefix(quote) {
                    self.open_quote = None;
                    rest = after_quote;
                } else {
                    rest = skip_chars(rest, 1);
                }
                continue;
            }
            match character {
                '#' => break,
                '\\' if rest.len() == 1 => self.is_continued = true,
                '(' | '[' | '{' => self.brackets += 1,
                ')' | ']' | '}' => self.brackets = self.brackets.saturating_sub(1),
                '"' | '\'' => {
                    let quote = ["\"\"\"", "'''", "\"", "'"].into_iter().find(|quote| rest.starts_with(quote));
                    self.open_quote = quote;
                    rest = &rest[quote.map_or(1, str::len)..];
                    continue;
                }
                _ => {}
            }
            rest = skip_chars(rest, 1);
        }
        // A single-line string ends with its line, unless a backslash continues it.
        if self.open_quote.is_some_and(|quote| quote.len() == 1) && !self.is_continued {
            self.open_quote = None;
        }
    }
}

/// Returns the text after the first `characters` characters.
fn skip_chars(text: &str, characters: usize) -> &str {
    text.char_indices().nth(characters).map_or("", |(at, _)| &text[at..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_python_is_recognised_by_its_version() {
        for (program, is_single) in [
            ("python2.7", true),
            ("python2", true),
            ("python3.6", true),
            ("python3.7", true),
            ("python3.7m", true),
            ("python3.8", false),
            ("python3.13", false),
            ("python3", false),
            ("bash", false),
        ] {
            assert_eq!(takes_single_statements(program), is_single, "{program}");
        }
    }

    #[test]
    fn text_is_split_into_statements() {
        let cases: &[(&str, &[&str])] = &[
            ("print(1)", &["print(1)"]),
            ("a = 1\nb = 2\n\nc", &["a = 1", "b = 2", "c"]),
            (
                "def f():\n    a = 1\n\n    return a\n\nprint(f())",
                &["def f():\n    a = 1\n \n    return a", "print(f())"],
            ),
            ("def f():\n    return 1\nprint(f())", &["def f():\n    return 1", "print(f())"]),
            ("if a:\n    b\n\nelse:\n    c\nd", &["if a:\n    b\n \nelse:\n    c", "d"]),
            ("for x in y: print(x)\nprint('end')", &["for x in y: print(x)", "print('end')"]),
            ("@cache\ndef f():\n    pass\n\n\nf()", &["@cache\ndef f():\n    pass", "f()"]),
            ("x = '''a\n\nb'''\nx", &["x = '''a\n\nb'''", "x"]),
            ("x = [\n1,\n\n2]\nx", &["x = [\n1,\n\n2]", "x"]),
            ("x = 1 + \\\n2\ny", &["x = 1 + \\\n2", "y"]),
            (
                "def f():\n    \"\"\"Text (\n\n    \"\"\"\n\n    # note\n    return ')'\nf()",
                &["def f():\n    \"\"\"Text (\n\n    \"\"\"\n \n    # note\n    return ')'", "f()"],
            ),
            (
                "class A:\n\n    x = 1\n\n    def g(self):\n        pass\n\nA()",
                &["class A:\n \n    x = 1\n \n    def g(self):\n        pass", "A()"],
            ),
            ("# a note\nx", &["x"]),
            ("format = 'it\\'s # no note'\ny", &["format = 'it\\'s # no note'", "y"]),
            ("\n\n", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(statements(text), *expected, "{text:?}");
        }
    }
}
