//! Commands that cannot be taken back, which a captured machine does not run without a person's yes.

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
    let parts = command.split(['|', ';', '\n', '(', '`', '&', '{', '}']);
    parts.into_iter().any(|part| {
        let mut words = part.split_whitespace().map(|word| word.trim_matches(['"', '\'']));
        let program = program_of(&mut words);
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

/// Returns the program that a command runs, behind what only runs it; its arguments are left.
fn program_of<'w>(words: &mut impl Iterator<Item = &'w str>) -> &'w str {
    let mut values: &[&str] = &[];
    while let Some(word) = words.next() {
        let name = word.rsplit('/').next().unwrap_or(word);
        if let Some((_, taking)) = WRAPPERS.iter().find(|(wrapper, _)| *wrapper == name) {
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
