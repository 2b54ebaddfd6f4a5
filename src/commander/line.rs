//! Parsing of a line by its first character, before the resolution of names.

use crate::commands::file_and_workflow;

/// The kind of a call's target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Node,
    Graph,
    Workflow,
}

impl Kind {
    pub(crate) const ALL: [Self; 3] = [Self::Node, Self::Graph, Self::Workflow];

    /// Returns the character that marks a call of this kind.
    pub(crate) fn sigil(self) -> char {
        match self {
            Self::Node => '@',
            Self::Graph => '#',
            Self::Workflow => '%',
        }
    }

    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Graph => "graph",
            Self::Workflow => "workflow",
        }
    }
}

/// The target of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) kind: Kind,
    pub(crate) name: String,
}

impl Target {
    /// Returns the file of the target and the name of the workflow in that file, if given: `story.py`,
    /// `./stories.py:one`. `None` for the name of a saved workflow: such a name has neither slashes nor dots.
    pub(crate) fn file(&self) -> Option<(&str, Option<&str>)> {
        let (file, workflow) = file_and_workflow(&self.name);
        let is_file = file.contains('/') || file.ends_with(".json") || file.ends_with(".py");
        (self.kind == Kind::Workflow && is_file).then_some((file, workflow))
    }

    /// Returns the name for references to its results. For a file, this is its name without directory and extension.
    pub(crate) fn short(&self) -> &str {
        match self.file() {
            None => &self.name,
            Some((_, Some(workflow))) => workflow,
            Some((file, None)) => {
                let name = file.rsplit('/').next().unwrap_or_default();
                name.strip_suffix(".json").or_else(|| name.strip_suffix(".py")).unwrap_or(name)
            }
        }
    }
}

impl std::fmt::Display for Target {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "{}{}", self.kind.sigil(), self.name)
    }
}

/// A parsed line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Line {
    Nothing,
    /// `@node text`, `#graph text`, `%workflow text`.
    Call {
        target: Target,
        text: String,
    },
    /// `/word rest`, `:word rest`.
    Order {
        word: String,
        rest: String,
    },
    /// A `::reference` without other text: shows the value.
    Look(String),
    /// Any other text. An answer if a question is open.
    Words(String),
}

/// Parses a line.
///
/// # Errors
/// If the line is a call without a name.
pub(crate) fn read(line: &str) -> Result<Line, String> {
    let line = line.trim();
    let Some(first) = line.chars().next() else { return Ok(Line::Nothing) };
    if line.starts_with("::") {
        return Ok(Line::Look(line.to_owned()));
    }
    let (word, rest) =
        line[first.len_utf8()..].split_once(char::is_whitespace).unwrap_or((&line[first.len_utf8()..], ""));
    let rest = rest.trim_start().to_owned();
    if matches!(first, '/' | ':') {
        return Ok(Line::Order { word: word.to_lowercase(), rest });
    }
    let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.sigil() == first) else {
        return Ok(Line::Words(line.to_owned()));
    };
    if word.is_empty() {
        let (sigil, noun) = (kind.sigil(), kind.noun());
        return Err(format!("after {sigil} comes the name of a {noun}, without a space; /{noun}s lists them"));
    }
    Ok(Line::Call { target: Target { kind, name: word.to_owned() }, text: rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(kind: Kind, name: &str, text: &str) -> Line {
        Line::Call { target: Target { kind, name: name.to_owned() }, text: text.to_owned() }
    }

    fn order(word: &str, rest: &str) -> Line {
        Line::Order { word: word.to_owned(), rest: rest.to_owned() }
    }

    #[test]
    fn first_character_determines_the_kind_of_a_line() {
        let table = [
            ("", Line::Nothing),
            (" \t", Line::Nothing),
            ("@greet  two  words ", call(Kind::Node, "greet", "two  words")),
            (" @greet", call(Kind::Node, "greet", "")),
            ("@greet\ntwo\nlines", call(Kind::Node, "greet", "two\nlines")),
            ("#both you", call(Kind::Graph, "both", "you")),
            ("%release 1.2", call(Kind::Workflow, "release", "1.2")),
            ("%./a/story.py x", call(Kind::Workflow, "./a/story.py", "x")),
            ("/Help  runs", order("help", "runs")),
            (":quit", order("quit", "")),
            ("/", order("", "")),
            ("::0 and ::1", Line::Look("::0 and ::1".to_owned())),
            ("2", Line::Words("2".to_owned())),
            ("yes, @home", Line::Words("yes, @home".to_owned())),
        ];
        for (line, meant) in table {
            assert_eq!(read(line), Ok(meant), "{line:?}");
        }
    }

    #[test]
    fn line_without_a_target_explains_calls() {
        for (line, expected) in
            [("@ greet", "name of a node"), ("#", "name of a graph"), ("% x", "/workflows lists them")]
        {
            assert!(read(line).unwrap_err().contains(expected), "{line:?}");
        }
    }

    #[test]
    fn workflow_may_be_a_file() {
        let target = |line: &str| match read(line) {
            Ok(Line::Call { target, .. }) => target,
            other => panic!("{other:?}"),
        };
        for (line, file, short) in [
            ("%story.py", Some(("story.py", None)), "story"),
            ("%flows/release", Some(("flows/release", None)), "release"),
            ("%../a.json text", Some(("../a.json", None)), "a"),
            ("%b/many.py:one text", Some(("b/many.py", Some("one"))), "one"),
            ("%release", None, "release"),
            ("@a.json", None, "a.json"),
        ] {
            let target = target(line);
            assert_eq!((target.file(), target.short()), (file, short), "{line}");
        }
    }
}
