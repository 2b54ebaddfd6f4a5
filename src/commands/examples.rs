//! Examples in the help of commands, each checked against the grammar by a test.

use clap::Command;

/// Commands with their examples. An example is a command line and its effect; the effect may be empty.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "terminal open",
        &[
            ("steplatch terminal open --name build", "a shell"),
            ("steplatch terminal open --name py -- python3 -q", "another program"),
            ("steplatch terminal open --host box --cwd /srv", "a shell on a remote host"),
        ],
    ),
    (
        "terminal attach",
        &[
            ("steplatch terminal attach build", "ctrl-\\ detaches"),
            ("steplatch terminal attach build --hold", "the agent cannot type until you detach"),
        ],
    ),
    (
        "terminal send",
        &[
            ("steplatch terminal send build -e 'make test'", "types, presses Enter"),
            ("steplatch terminal send build -k ctrl-c", "presses a key"),
            ("pass show db | steplatch terminal send db -e --secret -", "a secret, hidden in all output"),
        ],
    ),
    (
        "terminal run",
        &[
            ("steplatch terminal run build make test", "exits with the exit code of make"),
            ("steplatch terminal run build 'cd src && ls | wc -l'", "one argument: a line of the shell"),
        ],
    ),
    (
        "terminal screen",
        &[
            ("steplatch terminal screen build --tail 20", "the last lines of the output"),
            ("steplatch terminal screen build --format png -o build.png", "an image"),
        ],
    ),
    ("terminal record", &[("steplatch terminal record build build.cast", "plays with asciinema, or on the page")]),
    ("terminal inputs", &[("steplatch terminal inputs build", "who typed what, and at which question")]),
    ("terminal resize", &[("steplatch terminal resize build 100x30", "")]),
    ("terminal signal", &[("steplatch terminal signal build TERM", "to the program in the foreground")]),
    ("terminal share", &[("steplatch terminal share build --for 2h", "a link for a colleague, who can only look")]),
    ("terminal close", &[("steplatch terminal close build", "ends everything that was started in it")]),
    (
        "run",
        &[
            ("steplatch run examples/hello.json", "a file"),
            ("steplatch run release -i version=1.4.2", "a saved workflow, with an argument"),
            ("steplatch run flows/deploy.py:deploy -d", "a function; prints the id of the run and exits"),
            ("steplatch run --again 3f2a --from publish", "a run that failed, from a state on"),
        ],
    ),
    ("up", &[("steplatch up", "all services of the project"), ("steplatch up web", "one, with those that it needs")]),
    ("logs", &[("steplatch logs web -f", "as it appears")]),
    (
        "schedule add",
        &[
            ("steplatch schedule add nightly --cron '30 2 * * *' -w backup", "every night at 2:30"),
            ("steplatch schedule add poll --every 10m -w poll --overlap queue", ""),
            ("steplatch schedule add tests --on-change src -w tests", "when a file changes"),
            ("steplatch schedule add deploy --webhook -w deploy", "prints a token for requests"),
        ],
    ),
    ("notify test", &[("steplatch notify test", "by every rule"), ("steplatch notify test desktop", "by one rule")]),
    ("workflow list", &[("steplatch workflow list release", "those whose name contains 'release'")]),
    ("workflow show", &[("steplatch workflow show release > release.json", "its definition")]),
    (
        "workflow capture",
        &[
            ("steplatch workflow capture build --name release", "prints it"),
            ("steplatch workflow capture build -n release -i version=1.4.2 --save", "with an argument; saves it"),
            ("steplatch workflow capture build -n release --last 5", "of the last five commands"),
        ],
    ),
    ("workflow import", &[("steplatch workflow import install.exp --name install", "an expect script")]),
    (
        "workflow load",
        &[
            ("steplatch workflow load release.json", "into the library of the project"),
            ("steplatch workflow load 'flows/*.py'", "functions, nodes and graphs"),
        ],
    ),
    ("workflow rm", &[("steplatch workflow rm release", "")]),
    ("workflow history", &[("steplatch workflow history release", "its versions, newest first")]),
    ("workflow diff", &[("steplatch workflow diff release@2 release@3", "two versions")]),
    ("workflow revert", &[("steplatch workflow revert release 2", "saves version 2 as the newest one")]),
    ("workflow lint", &[("steplatch workflow lint release.json", "each problem with its place")]),
    ("workflow graph", &[("steplatch workflow graph release --svg -o release.svg", "a picture")]),
    (
        "workflow test",
        &[
            ("steplatch workflow test release.json --stub stubs.json", "against made results"),
            ("steplatch workflow test release.json --from 3f2a", "against the results of a run"),
        ],
    ),
    (
        "workflow prove",
        &[("steplatch workflow prove release -i version=1.4.3", "twice as recorded, once with this value")],
    ),
    ("workflow export", &[("steplatch workflow export release --skill .claude/skills/release", "")]),
    ("runs list", &[("steplatch runs list --json", "for programs")]),
    ("runs show", &[("steplatch runs show 3f2a", "its steps, result and error")]),
    ("runs events", &[("steplatch runs events 3f2a", "each recorded event")]),
    ("runs diff", &[("steplatch runs diff 3f2a 9bc1", "where two runs went different ways")]),
    ("runs pause", &[("steplatch runs pause 3f2a", "before its next step")]),
    ("runs resume", &[("steplatch runs resume 3f2a", "")]),
    ("runs cancel", &[("steplatch runs cancel 3f2a", "")]),
    ("runs delete", &[("steplatch runs delete 3f2a", "")]),
    ("nodes run", &[("steplatch nodes run resize '{\"width\": 80}' --input-json", "")]),
    ("graph run", &[("steplatch graph run publish 1.4.2", "an input as text")]),
    (
        "gates answer",
        &[
            ("steplatch gates answer", "asks for each open gate"),
            ("steplatch gates answer 3f2a yes", "the gate of a run"),
        ],
    ),
    ("gates show", &[("steplatch gates show 3f2a", "the question, and what is to be judged")]),
    ("approver set", &[("steplatch approver set", "asks for the passphrase twice")]),
    (
        "hosts add",
        &[
            ("steplatch hosts add box --ssh ana@10.0.0.5", "steplatch is installed there"),
            ("steplatch hosts add box --ssh box --install", "installs it there first"),
        ],
    ),
    ("hosts check", &[("steplatch hosts check box", "connects now, and says what is missing")]),
    (
        "setup",
        &[
            ("steplatch setup --dry-run", "shows the changes, and makes none"),
            ("steplatch setup --client claude-code --scope project", "for everyone in this project"),
            ("steplatch setup --instructions", "also tells agents when to use the tools"),
        ],
    ),
    ("doctor", &[("steplatch doctor", "starts the server as each client does")]),
    ("config show", &[("steplatch config show", "each setting, its value and its origin")]),
    (
        "mcp",
        &[
            ("steplatch mcp", "as clients start it"),
            ("steplatch mcp --http", "prints the address and the command for a client"),
        ],
    ),
    ("serve", &[("steplatch serve", "prints the address and the token")]),
    ("open", &[("steplatch open", "starts the server of the page if none runs")]),
    ("self check", &[("steplatch self check", "names the command that installs a newer version")]),
    (
        "uninstall",
        &[
            ("steplatch uninstall --dry-run", "lists what goes and what stays"),
            ("steplatch uninstall --purge", "also settings, runs and your own workflows; asks before"),
        ],
    ),
];

/// Adds the examples to the help of their commands.
pub(super) fn add(grammar: Command) -> Command {
    EXAMPLES.iter().fold(grammar, |grammar, (path, examples)| {
        let path: Vec<&str> = path.split(' ').collect();
        add_to(grammar, &path, &text(examples))
    })
}

fn add_to(command: Command, path: &[&str], examples: &str) -> Command {
    match path {
        [] => {
            let rest = command.get_after_help().map(|rest| format!("\n\n{}", rest.ansi())).unwrap_or_default();
            command.after_help(format!("{examples}{rest}"))
        }
        [first, rest @ ..] => command.mut_subcommand(first, |inner| add_to(inner, rest, examples)),
    }
}

fn text(examples: &[(&str, &str)]) -> String {
    let width = examples.iter().map(|(line, _)| line.len()).max().unwrap_or_default();
    let heading = if examples.len() == 1 { "Example:" } else { "Examples:" };
    let lines = examples.iter().map(|(line, effect)| match effect.is_empty() {
        true => format!("\n  {line}"),
        false => format!("\n  {line:width$}  # {effect}"),
    });
    std::iter::once(heading.to_owned()).chain(lines).collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::commands::Arguments;

    #[test]
    fn every_example_is_a_command_line_of_its_command() {
        for (path, examples) in EXAMPLES {
            for (line, _) in *examples {
                let line = line.rsplit(" | steplatch ").next().unwrap();
                let line = line.split(" > ").next().unwrap();
                let words = shell_words::split(line).unwrap();
                let words = words.iter().map(String::as_str).skip_while(|word| *word == "steplatch");
                let matches = Arguments::command()
                    .try_get_matches_from(std::iter::once("steplatch").chain(words))
                    .unwrap_or_else(|error| panic!("{line}: {error}"));
                let mut called = &matches;
                for name in path.split(' ') {
                    called = called.subcommand_matches(name).unwrap_or_else(|| panic!("{line} is not of {path}"));
                }
            }
        }
    }

    #[test]
    fn no_example_is_wider_than_the_help() {
        for (path, examples) in EXAMPLES {
            let text = text(examples);
            let widest = text.lines().map(str::len).max().unwrap();
            assert!(widest <= super::super::overview::MAX_COLUMNS, "{path}: {text}");
        }
    }
}
