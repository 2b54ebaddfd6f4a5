//! The check that the command line has every command that the pages name.

use std::path::{Path, PathBuf};

use clap::error::ErrorKind;

use crate::commands::Arguments;

/// Messages of programs in a page that look like commands.
const MESSAGES: [&str; 2] = ["steplatch is not installed there", "steplatch there is too old"];

/// Returns the Markdown pages below `docs` and in the root directory.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut pages, mut directories) = (Vec::new(), vec![root.to_owned()]);
    while let Some(directory) = directories.pop() {
        for entry in directory.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && (directory != root || path.ends_with("docs")) {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages
}

/// A command of a page.
struct Command {
    line: String,
    /// True for code within a paragraph, which may be the beginning of a command.
    is_name: bool,
}

/// Returns the commands of a page: of its shell blocks, its sessions and its paragraphs.
fn commands(page: &str) -> Vec<Command> {
    let mut commands = Vec::new();
    // Every second part is code.
    for (index, part) in page.split("\n```").enumerate() {
        let is_name = index % 2 == 0;
        let lines: Vec<String> = if is_name {
            let spans = part.split("\n\n").flat_map(|paragraph| paragraph.split('`').skip(1).step_by(2));
            spans.map(|span| span.split_whitespace().collect::<Vec<_>>().join(" ").replace(['[', ']'], "")).collect()
        } else {
            let (language, code) = part.split_once('\n').unwrap();
            let prompt = match language.split(' ').next() {
                Some("sh") => "",
                Some("console") => "$ ",
                _ => continue,
            };
            code.replace(" \\\n", " ").lines().filter_map(|line| Some(line.strip_prefix(prompt)?.to_owned())).collect()
        };
        let lines = lines.iter().flat_map(|line| steplatch_commands(line));
        commands.extend(lines.map(|line| Command { line, is_name }));
    }
    commands
}

/// Returns the commands of steplatch in a line of a shell, without redirections.
fn steplatch_commands(line: &str) -> Vec<String> {
    let line = line.replace("cargo run -- ", "steplatch ");
    let is_command = |start: usize| {
        let before = line[..start].trim_end();
        let word = before.rsplit(' ').next().unwrap();
        before.ends_with(['(', '&', '|', ';']) || word.is_empty() || (start > before.len() && word.contains('='))
    };
    let starts = line.match_indices("steplatch ").map(|(start, _)| start).filter(|start| is_command(*start));
    starts.map(|start| until_operator(&line[start..]).to_owned()).collect()
}

/// Returns the text before the first operator or comment of a shell.
fn until_operator(text: &str) -> &str {
    let (mut quote, mut previous) = (None, ' ');
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '|' | '&' | ';' | '<' | '>' | ')') => return &text[..at],
            (None, '#') if previous == ' ' => return &text[..at],
            (None, _) => {}
        }
        previous = character;
    }
    text
}

/// Returns the error of the command line about a command.
fn error(command: &Command) -> Option<String> {
    let words = shell_words::split(&command.line).unwrap_or_else(|error| panic!("{error}: {}", command.line));
    let has_placeholder = words.iter().any(|word| word.len() > 1 && word.bytes().all(|byte| byte.is_ascii_uppercase()));
    let error = Arguments::grammar().try_get_matches_from(words).err()?;
    let is_name = match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => true,
        ErrorKind::MissingRequiredArgument | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => command.is_name,
        ErrorKind::InvalidValue | ErrorKind::ValueValidation | ErrorKind::InvalidSubcommand => {
            command.is_name && has_placeholder
        }
        _ => false,
    };
    (!is_name).then(|| error.to_string().lines().next().unwrap_or_default().to_owned())
}

#[test]
fn every_command_of_a_page_is_in_the_command_line() {
    let mut problems = Vec::new();
    let mut count = 0;
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let commands = commands(&text).into_iter().filter(|command| !MESSAGES.contains(&&*command.line));
        for command in commands {
            count += 1;
            problems.extend(error(&command).map(|error| format!("{}: {}: {error}", page.display(), command.line)));
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(count > 400, "{count}");
}

#[test]
fn commands_that_do_not_exist_are_found() {
    let page = "# A `steplatch run` or `steplatch\nruns list --al`\n\n```sh\nA=b steplatch rn x | steplatch ui\n\
                echo 'a; b' && steplatch run    # steplatch x\n```\n\n```console\n$ steplatch docs nothing\nsteplatch z\n```\n";
    let commands = commands(page);
    let wrong: Vec<&str> =
        commands.iter().filter(|command| error(command).is_some()).map(|command| command.line.trim_end()).collect();
    assert_eq!(wrong, ["steplatch runs list --al", "steplatch rn x", "steplatch run", "steplatch docs nothing"]);
}
