//! What commands do: which programs they run, and whether they cannot be taken back. A captured machine does not run the
//! latter without a person's yes.

use serde_json::Value;
use steplatch_workflow::{Definition, State, Weakening, tool};

/// Programs and the words behind them that make a command irreversible. No words: whatever its arguments are.
const IRREVERSIBLE: [(&str, &[&str]); 26] = [
    ("dd", &[]),
    ("mkfs", &[]),
    ("fdisk", &[]),
    ("parted", &[]),
    ("shutdown", &[]),
    ("reboot", &[]),
    ("poweroff", &[]),
    ("shred", &[]),
    ("dropdb", &[]),
    ("pg_restore", &[]),
    ("rm", &["-r", "-R", "-f", "--recursive", "--force"]),
    ("git", &["push", "clean", "--hard", "filter-branch", "filter-repo"]),
    ("npm", &["publish", "unpublish"]),
    ("cargo", &["publish", "yank"]),
    ("twine", &["upload"]),
    ("docker", &["push", "prune", "rm", "rmi"]),
    ("podman", &["push", "prune", "rm", "rmi"]),
    ("kubectl", &["apply", "delete", "replace", "drain", "scale"]),
    ("helm", &["install", "upgrade", "uninstall", "rollback"]),
    ("terraform", &["apply", "destroy"]),
    ("tofu", &["apply", "destroy"]),
    ("systemctl", &["stop", "restart", "disable", "mask"]),
    ("gh", &["release", "merge"]),
    ("aws", &["rm", "delete", "terminate-instances"]),
    ("userdel", &[]),
    ("find", &["-delete"]),
];

/// Words of SQL that take something away.
const OF_SQL: [&str; 4] = ["drop table", "drop database", "truncate table", "delete from"];

/// Whether a command, or an entry of a database's shell, cannot be taken back.
pub(crate) fn is_irreversible(command: &str) -> bool {
    let lower = command.to_ascii_lowercase();
    if OF_SQL.iter().any(|words| lower.contains(words)) {
        return true;
    }
    parts(command).any(|part| {
        let mut words = words(part);
        let program = program_of(&mut words, |_| {});
        let words: Vec<&str> = words.collect();
        let has = |wanted: &&str| {
            words.iter().any(|word| {
                // Letters of short options stand together: `-rf`.
                let short = wanted.strip_prefix('-').filter(|letter| letter.len() == 1);
                let together = short
                    .is_some_and(|letter| word.starts_with('-') && !word.starts_with("--") && word.contains(letter));
                word == wanted || together
            })
        };
        let is_named = |name: &str| program == name || (name == "mkfs" && program.starts_with("mkfs."));
        IRREVERSIBLE.iter().any(|(name, wanted)| is_named(name) && (wanted.is_empty() || wanted.iter().any(has)))
    })
}

/// Names what new states of a patched machine type that cannot be taken back. A capture puts a gate before it.
#[must_use]
pub fn irreversible_inputs(before: &Definition, after: &Definition) -> Vec<Weakening> {
    let is_new = |state: &&State| before.state(state.name()).is_none();
    let named = |state: &State| {
        let mut texts = Vec::new();
        state.action().params().values().for_each(|value| texts_in(value, &mut texts));
        let input = texts.into_iter().find(|text| is_irreversible(text))?;
        let input: String = input.trim().chars().take(LONGEST_SHOWN).collect();
        let name = state.name();
        Some(Weakening {
            place: format!("/states/{name}/action"),
            what: format!("the new state '{name}' does what cannot be taken back: '{input}'"),
        })
    };
    after.states().iter().filter(is_new).filter(|state| state.action().tool() != tool::GATE).filter_map(named).collect()
}

/// The most characters of an input that a sentence shows.
const LONGEST_SHOWN: usize = 120;

fn texts_in<'v>(value: &'v Value, texts: &mut Vec<&'v str>) {
    match value {
        Value::String(text) => texts.push(text),
        Value::Array(items) => items.iter().for_each(|item| texts_in(item, texts)),
        Value::Object(fields) => fields.values().for_each(|field| texts_in(field, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Returns the commands of a line.
fn parts(command: &str) -> impl Iterator<Item = &str> {
    command.split(['|', ';', '\n', '(', '`', '&', '{', '}'])
}

/// Returns the words of a command, without quotes around them.
fn words(part: &str) -> impl Iterator<Item = &str> {
    part.split_whitespace().map(|word| word.trim_matches(['"', '\'']))
}

/// What shells do themselves, and their words.
const OF_SHELLS: [&str; 47] = [
    "alias", "bg", "break", "case", "cd", "command", "continue", "declare", "do", "done", "echo", "elif", "else",
    "eval", "exec", "if", "then", "time", "while", "until", "esac", "exit", "export", "false", "fg", "fi", "for",
    "function", "hash", "jobs", "kill", "let", "local", "popd", "printf", "pushd", "pwd", "read", "return", "set",
    "shift", "source", "test", "trap", "true", "type", "ulimit",
];

/// Returns the programs that a line of a shell runs, each once, in their order: as far as the beginnings of its commands
/// say it, without paths and without what shells do themselves.
#[must_use]
pub fn programs(command: &str) -> Vec<&str> {
    let mut programs: Vec<&str> = Vec::new();
    for part in parts(command) {
        let mut all: Vec<&str> = Vec::new();
        let program = program_of(&mut words(part), |wrapper| all.push(wrapper));
        // What a shell is given is a file.
        if !all.last().is_some_and(|last| SHELLS.contains(last)) {
            all.push(program);
        }
        let is_name = |sign: char| sign.is_alphanumeric() || "-_.+".contains(sign);
        let is_program = |name: &&str| name.starts_with(char::is_alphanumeric) && name.chars().all(is_name);
        for program in all.into_iter().filter(is_program) {
            if !OF_SHELLS.contains(&program) && !programs.contains(&program) {
                programs.push(program);
            }
        }
    }
    programs
}

/// Shells among the programs that run others.
const SHELLS: [&str; 2] = ["bash", "sh"];

/// Programs that run the one behind them, with their options that take a value, and words of the shell before a program.
const WRAPPERS: [(&str, &[&str]); 19] = [
    ("bash", &[]),
    ("sh", &[]),
    ("sudo", &["-u", "-g", "-C", "-h", "-p", "-r", "-t", "-U", "-D"]),
    ("doas", &["-u", "-C"]),
    ("env", &["-u", "-C", "-S"]),
    ("xargs", &["-I", "-n", "-P", "-L", "-d", "-a", "-s", "-E"]),
    ("nice", &["-n"]),
    ("timeout", &["-s", "-k"]),
    ("command", &[]),
    ("nohup", &[]),
    ("time", &[]),
    ("exec", &[]),
    ("eval", &[]),
    ("do", &[]),
    ("then", &[]),
    ("else", &[]),
    ("if", &[]),
    ("while", &[]),
    ("!", &[]),
];

/// Returns the program that a command runs, behind what only runs it, which goes to `passed`; its arguments are left.
fn program_of<'w>(words: &mut impl Iterator<Item = &'w str>, mut passed: impl FnMut(&'w str)) -> &'w str {
    let mut values: &[&str] = &[];
    while let Some(word) = words.next() {
        let name = word.rsplit('/').next().unwrap_or(word);
        if let Some((_, taking)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) {
            passed(name);
            values = taking;
        } else if values.contains(&word) {
            words.next();
        } else if !word.starts_with('-')
            && !word.contains('=')
            && !word.starts_with(|first: char| first.is_ascii_digit())
        {
            return name;
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_programs_of_a_line_are_named() {
        assert_eq!(
            programs("cd x && sudo -u ana git pull | tee log; make -j2 && /usr/bin/git gc"),
            ["sudo", "git", "tee", "make"]
        );
        assert_eq!(programs("bash x.sh; exec sh -c 'y'"), ["bash", "sh"]);
        assert_eq!(programs("A=1 echo 'x' > f; [ -e f ]; $EDITOR f"), Vec::<&str>::new());
    }

    #[test]
    fn what_cannot_be_taken_back_is_recognised() {
        for command in [
            "rm -rf build",
            "sudo rm -fr /x",
            "make && git push",
            "X=1 git reset --hard",
            "sudo -n rm -rf x",
            "sudo -u root rm -rf x",
            "env A=1 rm -rf x",
            "mkdir y & rm -rf x",
            "{ rm -rf x; }",
            "for i in x; do rm -rf $i; done",
            "if true; then rm -rf x; fi",
            "ls | xargs -n 1 rm -rf",
            "timeout 5 rm -rf x",
            "bash -c 'rm -rf x'",
            "DROP TABLE t;",
            "mkfs.ext4 /dev/x",
        ] {
            assert!(is_irreversible(command), "{command}");
        }
        for command in ["rm a.txt", "git pull", "echo push", "cargo build --release", "select * from t;"] {
            assert!(!is_irreversible(command), "{command}");
        }
    }
}
