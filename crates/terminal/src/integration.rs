//! Shells that say what they are doing, without a change to anybody's dotfiles.
//!
//! A shell that is started through here reads the user's own files and then ours,
//! which makes it print marks (OSC 133) around its prompt and around what a
//! command prints. The marks carry a nonce, so that a program that prints the
//! like is not believed. That is against accidents: a program of the same user
//! could read the nonce from the shell.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What bash reads instead of `~/.bashrc`, which it then reads itself.
const BASH: &str = include_str!("integration/bash.sh");

/// The variable that hands the nonce to the shell, which takes it out of its environment at once.
const NONCE_VARIABLE: &str = "STEPLATCH_SHELL_NONCE";

/// The files of the integration, written where shells can read them.
#[derive(Debug, Clone)]
pub struct Integration {
    bash: PathBuf,
}

impl Integration {
    /// Writes the files into `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// When the folder or the files can not be written.
    pub fn install(folder: &Path) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let bash = folder.join("bash.sh");
        // Under another name first: a shell that starts right now must not read half a file.
        let fresh = folder.join(format!(".bash.sh.{}", std::process::id()));
        let _ = fs::remove_file(&fresh);
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        io::Write::write_all(&mut file, BASH.as_bytes())?;
        fs::rename(&fresh, &bash)?;
        Ok(Self { bash })
    }

    /// Changes a command line and its environment so that the shell in it reports what it does.
    ///
    /// Returns the nonce of its marks, or nothing where the command is no shell that can be integrated:
    /// one that is told what to run, that is a login shell, or that is told to read other files.
    pub fn prepare(
        &self,
        arguments: &mut Vec<OsString>,
        environment: &mut Vec<(OsString, OsString)>,
    ) -> Option<String> {
        let [program, flags @ ..] = arguments.as_slice() else { return None };
        let name = Path::new(program).file_name()?;
        let only_interactive = flags.iter().all(|flag| flag == OsStr::new("-i"));
        if name != OsStr::new("bash") || !only_interactive {
            return None;
        }
        let nonce = nonce();
        let program = program.clone();
        *arguments = vec![program, "--rcfile".into(), self.bash.clone().into(), "-i".into()];
        environment.push((NONCE_VARIABLE.into(), nonce.clone().into()));
        Some(nonce)
    }
}

/// Draws 64 random bits, in hexadecimal.
fn nonce() -> String {
    let mut bytes = [0u8; 8];
    getrandom::fill(&mut bytes).expect("the operating system gives random bytes");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prepared(command: &[&str]) -> (Vec<OsString>, Option<String>) {
        let folder = tempfile::tempdir().unwrap();
        let integration = Integration::install(folder.path()).unwrap();
        let mut arguments: Vec<OsString> = command.iter().map(OsString::from).collect();
        let nonce = integration.prepare(&mut arguments, &mut Vec::new());
        (arguments, nonce)
    }

    #[test]
    fn an_interactive_bash_is_integrated() {
        for command in [&["bash"][..], &["/bin/bash"], &["bash", "-i"]] {
            let (arguments, nonce) = prepared(command);
            assert!(nonce.is_some(), "{command:?}");
            assert_eq!(arguments[1], "--rcfile");
        }
    }

    #[test]
    fn a_command_that_is_told_what_to_do_is_left_alone() {
        for command in [&["bash", "-c", "ls"][..], &["bash", "--norc"], &["bash", "-l"], &["python3"], &[]] {
            let (arguments, nonce) = prepared(command);
            assert_eq!(nonce, None, "{command:?}");
            assert_eq!(arguments.len(), command.len());
        }
    }
}
