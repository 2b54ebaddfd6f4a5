//! Shells that report their state, without a change to the user's dotfiles.
//!
//! A shell with integration reads the user's files and the files of this module. The module's files make the shell
//! print marks (OSC 133) around its prompt and around the output of a command. The marks carry a nonce, so that similar
//! marks of a program do not count. The mark at the end of a command carries a new number each time, because a command
//! can print its shell's prompt, or a recording of earlier output. This protects only against accidents: a program of
//! the same user could read the nonce from the shell. A shell's own marks (fish 4) lack the nonce and do not count.
//!
//! The same files let a shell answer requests for its variables, see [`exchange`](crate::exchange).

pub(crate) mod inner;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Startup file that bash reads instead of `~/.bashrc`. It then reads `~/.bashrc`.
const BASH: &str = include_str!("integration/bash.sh");

/// Startup file that zsh reads instead of the user's `.zshenv`. It then reads the user's file.
const ZSH: &str = include_str!("integration/zshenv.zsh");

/// Startup file that fish reads after the user's files.
const FISH: &str = include_str!("integration/fish.fish");

/// The variable that passes the nonce to the shell. The shell immediately removes the variable from its environment.
const NONCE_VARIABLE: &str = "STEPLATCH_SHELL_NONCE";

/// The variable with the path prefix of an exchange's files. The shell removes this variable and the next two as well.
const EXCHANGE_VARIABLE: &str = "STEPLATCH_SHELL_EXCHANGE";

/// The variable with the directory of the user's zsh files, if that is not the home directory.
const ZDOTDIR_VARIABLE: &str = "STEPLATCH_SHELL_ZDOTDIR";

/// Two variables of a login bash: the path of the integration, referenced by `ENV`, and the user's own `ENV`.
const LOGIN_VARIABLE: &str = "STEPLATCH_SHELL_LOGIN";
const ENV_VARIABLE: &str = "STEPLATCH_SHELL_ENV";

/// The variable with the command that a login bash removes from `PROMPT_COMMAND`.
const HOOK_COMMAND_VARIABLE: &str = "STEPLATCH_SHELL_WAY_IN";

/// The installed files of the integration.
#[derive(Debug, Clone)]
pub struct Integration {
    bash: PathBuf,
    zsh: PathBuf,
    fish: PathBuf,
    exchange: PathBuf,
}

/// A shell that has an integration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Bash,
    Zsh,
    Fish,
    /// A shell without hooks, whose prompt carries the marks: dash, busybox, ksh, an old bash. Always an inner shell.
    Posix,
}

/// Integration session of a shell that is about to start, or of a shell within it.
#[derive(Debug, Clone)]
pub(crate) struct IntegrationSession {
    pub(crate) kind: Kind,
    /// Nonce in the shell's marks.
    pub(crate) nonce: String,
    /// Path prefix of the request and answer files. `None` for an inner shell, because it receives typed lines.
    pub(crate) files: Option<PathBuf>,
}

impl Integration {
    /// Writes the files into `directory`. Creates a missing directory.
    ///
    /// # Errors
    /// If writing the directory or the files fails.
    pub fn install(directory: &Path) -> io::Result<Self> {
        let zsh = directory.join("zsh");
        let exchange = directory.join("exchange");
        for directory in [directory, &zsh, &exchange] {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        // A directory that existed before may be open to other users; its contents are private.
        fs::set_permissions(&exchange, fs::Permissions::from_mode(0o700))?;
        let installed = Self { bash: directory.join("bash.sh"), fish: directory.join("fish.fish"), zsh, exchange };
        write(&installed.bash, BASH)?;
        write(&installed.zsh.join(".zshenv"), ZSH)?;
        write(&installed.fish, FISH)?;
        Ok(installed)
    }

    /// Changes a command line and its environment, so that the started shell reports its state.
    ///
    /// Returns `None` if the command starts no shell that has an integration, or if its arguments name a command to run
    /// or change the startup files.
    pub(crate) fn prepare(
        &self,
        arguments: &mut Vec<OsString>,
        environment: &mut Vec<(OsString, OsString)>,
    ) -> Option<IntegrationSession> {
        let (kind, is_login) = recognise_shell(arguments)?;
        let nonce = random();
        let files = self.exchange.join(random());
        match kind {
            Kind::Bash if is_login => {
                // A login shell accepts a startup file only in POSIX mode.
                let user_value = environment.iter().rev().find(|(name, _)| name == "ENV").map(|(_, file)| file.clone());
                environment.extend(user_value.map(|user_value| (ENV_VARIABLE.into(), user_value)));
                arguments.insert(1, "--posix".into());
                environment.push((LOGIN_VARIABLE.into(), self.bash.clone().into()));
                environment.push(("ENV".into(), format!("${LOGIN_VARIABLE}").into()));
                // A login file may replace the shell with another bash. That bash reads its hooks from the environment.
                let mut hook_command = OsString::from(". ");
                hook_command.push(quoted(self.bash.as_os_str(), Kind::Bash));
                environment.push(("PROMPT_COMMAND".into(), hook_command.clone()));
                environment.push((HOOK_COMMAND_VARIABLE.into(), hook_command));
            }
            Kind::Bash => {
                arguments.truncate(1);
                arguments.extend(["--rcfile".into(), self.bash.clone().into(), "-i".into()]);
            }
            Kind::Zsh => {
                let user_value = environment
                    .iter()
                    .rev()
                    .find(|(name, _)| name == "ZDOTDIR")
                    .map(|(_, directory)| directory.clone());
                environment.extend(user_value.map(|user_value| (ZDOTDIR_VARIABLE.into(), user_value)));
                environment.push(("ZDOTDIR".into(), self.zsh.clone().into()));
            }
            Kind::Fish => {
                let mut source = OsString::from("source ");
                source.push(quoted(self.fish.as_os_str(), Kind::Fish));
                arguments.extend(["-C".into(), source]);
            }
            // Only inner shells have this kind, and they have no startup file.
            Kind::Posix => return None,
        }
        environment.push((NONCE_VARIABLE.into(), nonce.clone().into()));
        environment.push((EXCHANGE_VARIABLE.into(), files.clone().into()));
        Some(IntegrationSession { kind, nonce, files: Some(files) })
    }
}

/// Returns the kind of shell that a plain command line starts, and true for a login shell.
fn recognise_shell(arguments: &[OsString]) -> Option<(Kind, bool)> {
    let [program, flags @ ..] = arguments else { return None };
    let kind = match Path::new(program).file_name()?.to_str()? {
        "bash" => Kind::Bash,
        "zsh" => Kind::Zsh,
        "fish" => Kind::Fish,
        _ => return None,
    };
    let mut is_login = false;
    for flag in flags {
        match (flag.to_str()?, kind) {
            ("-i", _) | ("--interactive", Kind::Fish) => {}
            ("-l" | "-il" | "-li", _) | ("--login", Kind::Bash | Kind::Fish) => is_login = true,
            _ => return None,
        }
    }
    Some((kind, is_login))
}

/// Quotes `text` as one literal word of a command line of a shell.
pub(crate) fn quoted(text: impl AsRef<OsStr>, kind: Kind) -> OsString {
    use std::os::unix::ffi::{OsStrExt, OsStringExt};
    let mut word = vec![b'\''];
    for &byte in text.as_ref().as_bytes() {
        match (kind, byte) {
            (Kind::Bash | Kind::Zsh | Kind::Posix, b'\'') => word.extend_from_slice(br"'\''"),
            (Kind::Fish, b'\'' | b'\\') => word.extend_from_slice(&[b'\\', byte]),
            _ => word.push(byte),
        }
    }
    word.push(b'\'');
    OsString::from_vec(word)
}

/// Writes a file atomically, because a shell may be reading it.
fn write(path: &Path, text: &str) -> io::Result<()> {
    let mut name = OsString::from(".fresh-");
    name.push(std::process::id().to_string());
    name.push(path.file_name().unwrap_or_default());
    let temporary = path.with_file_name(name);
    // Remove the file of an earlier process with the same process id.
    let _ = fs::remove_file(&temporary);
    let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&temporary)?;
    io::Write::write_all(&mut file, text.as_bytes())?;
    fs::rename(&temporary, path)
}

/// Draws 64 random bits, in hexadecimal.
fn random() -> String {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Environment = Vec<(OsString, OsString)>;

    fn prepare(
        command: &[&str],
        mut environment: Environment,
    ) -> (Vec<OsString>, Environment, Option<IntegrationSession>) {
        let directory = tempfile::tempdir().unwrap();
        let integration = Integration::install(directory.path()).unwrap();
        let mut arguments: Vec<OsString> = command.iter().map(OsString::from).collect();
        let agreed = integration.prepare(&mut arguments, &mut environment);
        (arguments, environment, agreed)
    }

    #[test]
    fn interactive_shell_is_integrated() {
        let commands: [(&[&str], Kind); 13] = [
            (&["bash"], Kind::Bash),
            (&["/bin/bash"], Kind::Bash),
            (&["bash", "-i"], Kind::Bash),
            (&["bash", "-l"], Kind::Bash),
            (&["bash", "--login", "-i"], Kind::Bash),
            (&["zsh"], Kind::Zsh),
            (&["/usr/bin/zsh", "-i"], Kind::Zsh),
            (&["zsh", "-il"], Kind::Zsh),
            (&["fish"], Kind::Fish),
            (&["fish", "-i"], Kind::Fish),
            (&["fish", "--login"], Kind::Fish),
            (&["fish", "--interactive", "-l"], Kind::Fish),
            (&["/opt/fish", "-il"], Kind::Fish),
        ];
        for (command, kind) in commands {
            assert_eq!(prepare(command, Vec::new()).2.map(|agreed| agreed.kind), Some(kind), "{command:?}");
        }
    }

    #[test]
    fn shell_with_a_command_is_unchanged() {
        let commands: [&[&str]; 14] = [
            &["bash", "-c", "ls"],
            &["bash", "--norc"],
            &["bash", "--rcfile", "x"],
            &["bash", "script"],
            &["zsh", "-c", "ls"],
            &["zsh", "-f"],
            &["zsh", "--no-rcs"],
            &["fish", "-c", "ls"],
            &["fish", "-N"],
            &["fish", "-C", "echo"],
            &["rbash"],
            &["python3", "-i"],
            &["sh"],
            &[],
        ];
        for command in commands {
            let (arguments, environment, agreed) = prepare(command, Vec::new());
            assert!(agreed.is_none(), "{command:?}");
            assert_eq!((arguments.len(), environment.len()), (command.len(), 0), "{command:?}");
        }
    }

    /// Variables with other names that the scripts may change, because the shells use these names.
    const KNOWN_VARIABLES: &[&str] = &[
        "ENV",
        "HISTFILE",
        "HISTTIMEFORMAT",
        "POSIXLY_CORRECT",
        "POSTDISPLAY",
        "PROMPT_COMMAND",
        "PROMPT_EOL_MARK",
        "PS0",
        "PS1",
        "PS2",
        "READLINE_LINE",
        "READLINE_POINT",
        "REPORTTIME",
        "ZDOTDIR",
        "histchars",
        "precmd_functions",
        "preexec_functions",
    ];

    /// Returns the names of the variables that a line of a script declares or changes.
    fn changed_variables(line: &str, is_fish: bool) -> Vec<&str> {
        let words: Vec<&str> = line.split([' ', ';', '(', '{', '\t']).collect();
        let mut names = Vec::new();
        let mut declares = false;
        for (at, word) in words.iter().enumerate() {
            let name = word.split(['=', '+', '[', ')']).next().unwrap_or_default();
            let is_name = name.starts_with(|first: char| first.is_alphabetic() || first == '_')
                && name.chars().all(|character| character.is_alphanumeric() || character == '_');
            let follows_declaration = |command: &str| at > 0 && words[at - 1] == command;
            match *word {
                "local" | "typeset" => declares = true,
                "&&" | "||" | "" => declares = false,
                _ if !is_name => {}
                // Marks have parts such as `;k=`, without a space between them.
                _ if declares || follows_declaration("for") => names.push(name),
                _ if is_fish && follows_declaration("set") && name != "in" => names.push(name),
                _ if is_fish
                    && at > 1
                    && words[at - 2] == "set"
                    && ["-l", "-g", "-gx", "-a"].contains(&words[at - 1]) =>
                {
                    names.push(name);
                }
                _ if !is_fish && (word[name.len()..].starts_with('=') || word[name.len()..].starts_with("+=")) => {
                    let is_part = line.contains(&format!(";{word}")) && !line.contains(&format!(" {word}"));
                    if !is_part && !word[name.len()..].starts_with("==") {
                        names.push(name);
                    }
                }
                _ => {}
            }
        }
        names
    }

    #[test]
    fn scripts_change_no_possibly_readonly_variable() {
        let scripts: [(&str, &str, bool); 10] = [
            ("bash.sh", BASH, false),
            ("zshenv.zsh", ZSH, false),
            ("fish.fish", FISH, true),
            ("state.bash", include_str!("integration/state.bash"), false),
            ("state.zsh", include_str!("integration/state.zsh"), false),
            ("state.fish", include_str!("integration/state.fish"), true),
            ("inner/bash.sh", include_str!("integration/inner/bash.sh"), false),
            ("inner/zsh.zsh", include_str!("integration/inner/zsh.zsh"), false),
            ("inner/fish.fish", include_str!("integration/inner/fish.fish"), true),
            ("inner/posix.sh", include_str!("integration/inner/posix.sh"), false),
        ];
        let mut count = 0;
        for (script, text, is_fish) in scripts {
            for line in text.lines().filter(|line| !line.trim_start().starts_with('#')) {
                for name in changed_variables(line, is_fish) {
                    count += 1;
                    let is_own = name.starts_with("__steplatch_") || name.starts_with("STEPLATCH_");
                    assert!(is_own || KNOWN_VARIABLES.contains(&name), "{script}: {name}: {line}");
                }
            }
        }
        assert!(count > 80, "{count}");
        for (line, is_fish, names) in [
            ("    local code=$?", false, vec!["code"]),
            ("builtin local -n named=$1; case ${named@a} in", false, vec!["named"]),
            ("while n=$(history 1); do s+=1; done", false, vec!["n", "s"]),
            ("printf '\\e]133;D;%s;k=%s' \"$s\"", false, vec![]),
            ("for entry in a b; do", false, vec!["entry"]),
            ("set -l line (commandline)", true, vec!["line"]),
        ] {
            assert_eq!(changed_variables(line, is_fish), names, "{line}");
        }
    }

    #[test]
    fn zsh_directory_of_the_user_is_passed_on() {
        let (_, environment, _) = prepare(&["zsh"], vec![("ZDOTDIR".into(), "/home/ana/zsh".into())]);
        assert!(environment.contains(&(ZDOTDIR_VARIABLE.into(), "/home/ana/zsh".into())));
        let (_, environment, _) = prepare(&["zsh"], Vec::new());
        assert!(!environment.iter().any(|(name, _)| name == ZDOTDIR_VARIABLE));
    }

    #[test]
    fn login_bash_restores_the_users_env() {
        let (arguments, environment, _) = prepare(&["bash", "-l"], vec![("ENV".into(), "/home/ana/.shrc".into())]);
        assert_eq!(arguments, ["bash", "--posix", "-l"]);
        assert!(environment.contains(&(ENV_VARIABLE.into(), "/home/ana/.shrc".into())));
        let (_, environment, _) = prepare(&["bash", "-l"], Vec::new());
        assert!(!environment.iter().any(|(name, _)| name == ENV_VARIABLE));
    }

    #[test]
    fn words_are_quoted_for_each_shell() {
        assert_eq!(quoted(r"it's a\b", Kind::Bash), r"'it'\''s a\b'");
        assert_eq!(quoted(r"it's a\b", Kind::Fish), r"'it\'s a\\b'");
    }

    #[test]
    fn directory_is_private() {
        let directory = tempfile::tempdir().unwrap();
        let integration = Integration::install(&directory.path().join("shell")).unwrap();
        for (path, mode) in [(&integration.exchange, 0o700), (&integration.bash, 0o600)] {
            assert_eq!(fs::metadata(path).unwrap().permissions().mode() & 0o777, mode, "{}", path.display());
        }
    }
}
