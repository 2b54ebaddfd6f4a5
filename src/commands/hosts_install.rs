//! Installation of this program on a remote host over the user's `ssh` (`steplatch hosts add --install`), and its
//! removal.
//!
//! The installation writes the program to a temporary file, compares its SHA-256 sum, and renames the file, so that the
//! program is complete. Other versions on the host and their terminals stay unchanged.

use std::io::{Read as _, Write as _};
use std::path::Path;
use std::process::Stdio;

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};
use steplatch_host::{INSTALLED, ssh_arguments};
use steplatch_ids::random_name;
use steplatch_protocol::DaemonPaths;
use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::failure::Failure;
use crate::print;

/// Version of this program.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Installs this program, or `program`, on a new host.
///
/// # Errors
/// If the host has another platform or is unreachable, or if the installation fails. A failure leaves no file.
pub(super) async fn install(ssh: &str, program: Option<&Path>, silent: bool) -> Result<(), Failure> {
    let output = run(ssh, INSTALLATION, "uname -sm; command -v gzip || true", &[]).await?;
    let (remote_platform, gzip) = output.trim_start().split_once('\n').unwrap_or((&output, ""));
    let system = rustix::system::uname();
    let local_platform = format!("{} {}", system.sysname().to_string_lossy(), system.machine().to_string_lossy());
    if program.is_none() && remote_platform.trim() != local_platform {
        return Err(Failure::work(format!(
            "{ssh} is '{}', but this program is for '{local_platform}'; specify a program for that host with --program FILE",
            print::visible(remote_platform.trim())
        )));
    }
    let path = match program {
        Some(path) => path.to_owned(),
        None => {
            std::env::current_exe().map_err(|error| Failure::system("the path of this program is unknown", &error))?
        }
    };
    let bytes = read(&path)?;
    let sum = sha256_sum(&bytes);
    if !silent {
        print::remark(&format!("sending {} ({}) to {ssh}", path.display(), print::size(bytes.len() as u64)));
    }
    let output = match gzip.trim().is_empty() {
        true => run(ssh, INSTALLATION, &installation_script(&sum, "cat"), &bytes).await?,
        false => run(ssh, INSTALLATION, &installation_script(&sum, "gzip -dc"), &compress(&bytes)?).await?,
    };
    let version = output.lines().last().unwrap_or_default().trim().to_owned();
    // A published binary prints its commit after the version.
    if version.split(" (").next() != Some(&format!("steplatch {VERSION}")) {
        let message = format!(
            "the program that was installed on {ssh} printed '{}' instead of its version",
            print::visible(&version)
        );
        return Err(Failure::work(message));
    }
    if !silent {
        print::remark(&format!("{version} is installed on {ssh}"));
    }
    Ok(())
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|mut file| file.read_to_end(&mut bytes))
        .map_err(|error| Failure::system(&format!("{} cannot be read", path.display()), &error))?;
    Ok(bytes)
}

/// Compresses a program for the transfer, to about 40 % of its size.
fn compress(bytes: &[u8]) -> Result<Vec<u8>, Failure> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::fast());
    let result = writer.write_all(bytes).and_then(|()| writer.finish());
    result.map_err(|error| Failure::system("the program cannot be compressed", &error))
}

/// Returns the SHA-256 sum, as sha256sum(1) prints it.
fn sha256_sum(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Removes this installation's part of a host: its terminal host with the open terminals, the directory of its
/// client, and the program unless other clients have directories there.
///
/// # Errors
/// If the host is unreachable or the terminal host does not end.
pub(super) async fn remove(ssh: &str, client: Option<&str>) -> Result<(), Failure> {
    run(ssh, "removed from", &removal_script(client), &[]).await.map(drop)
}

/// Maximum number of seconds that a terminal host on a remote host takes to close its terminals and end.
const HOST_END_TIMEOUT_SECONDS: u32 = 20;

/// Returns a script that ends the terminal host and then removes the files.
fn removal_script(client: Option<&str>) -> String {
    let hosted = client.and_then(|client| DaemonPaths::hosted(client).ok().map(|paths| (client, paths)));
    let directory = hosted.as_ref().and_then(|(client, paths)| Some((client, paths.state().file_name()?.to_str()?)));
    let removal = directory.map(|(client, directory)| {
        // The command line of this script also contains the words of the host, but not at its end.
        let hosts = format!(
            r#"h() {{ for p in /proc/[0-9]*; do case "$(tr '\0' ' ' 2>/dev/null < "$p/cmdline")" in *" daemon host --hosted {client} ") echo "${{p#/proc/}}";; esac; done; }}"#
        );
        let end = format!(
            r#"kill $(h) 2>/dev/null || true; i=0; while [ -n "$(h)" ]; do if [ $i -eq {HOST_END_TIMEOUT_SECONDS} ]; then echo "the terminal host $(h) does not end" >&2; exit 1; fi; sleep 1; i=$((i + 1)); done"#
        );
        format!(r#"{hosts}; {end}; rm -rf "$s/hosted/{directory}"; "#)
    });
    format!(
        r#"set -e; s="${{XDG_STATE_HOME:-$HOME/.local/state}}/steplatch"; b="{INSTALLED}"; {}if [ -z "$(ls "$s/hosted" 2>/dev/null)" ]; then rm -rf "$b"; rmdir "$s/hosted" "$s" "${{b%/bin}}" 2>/dev/null || true; fi"#,
        removal.unwrap_or_default()
    )
}

/// Returns a script that installs the program from standard input, read through `reader`. The script removes a copy
/// with another sum.
fn installation_script(sum: &str, reader: &str) -> String {
    format!(
        r#"set -e; umask 077; d="{INSTALLED}/{VERSION}"; mkdir -p "$d"; n="$d/.steplatch.$$"; trap 'rm -f "$n"' EXIT; {reader} > "$n"; s=$(sha256sum "$n"); case "$s" in {sum}*) ;; *) echo "the copy is damaged: $s" >&2; exit 1;; esac; chmod 700 "$n"; "$n" --version >/dev/null; mv -f "$n" "$d/steplatch"; "$d/steplatch" --version"#
    )
}

/// Wording of an installation in error messages.
const INSTALLATION: &str = "installed on";

/// Runs a script with `sh` on the host, with `input` as standard input. Questions of ssh appear in this terminal.
/// `done` is the action in error messages, such as "installed on".
async fn run(ssh: &str, done: &str, script: &str, input: &[u8]) -> Result<String, Failure> {
    let to_failure = |error: std::io::Error| Failure::system("ssh could not be run", &error);
    let mark = format!("steplatch-{}", random_name());
    let mut child = Command::new("ssh")
        .args(ssh_arguments(ssh, &with_marks(&mark, script)))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(to_failure)?;
    let stdin = child.stdin.take();
    let write_input = async {
        if let Some(mut stdin) = stdin {
            // Ignore a failed write, because the script prints the reason on standard error.
            let _ = stdin.write_all(input).await;
        }
    };
    let (output, ()) = tokio::join!(child.wait_with_output(), write_input);
    let output = output.map_err(to_failure)?;
    let (stdout, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    let script_output = between(&stdout, &mark);
    if output.status.success() {
        return script_output.map(str::to_owned).ok_or_else(|| {
            Failure::work(format!(
                "nothing was {done} {ssh}: its login does not run the command that it is given (see the start files of the \
                 shell there)"
            ))
        });
    }
    // If the script did not run, the last line comes from ssh.
    let errors = between(&errors, &mark).filter(|_| script_output.is_some()).unwrap_or(&errors);
    let last_line =
        errors.lines().map(str::trim).rfind(|line| !line.is_empty()).unwrap_or("ssh exited without a message");
    Err(Failure::work(format!("nothing was {done} {ssh}: {}{}", print::visible(last_line), advice(last_line))))
}

/// Returns a script that prints `mark` before and after the output of `script`, because startup files may also print.
fn with_marks(mark: &str, script: &str) -> String {
    let print_mark = format!("echo; echo {mark}; echo >&2; echo {mark} >&2");
    format!("{print_mark}; ( {script} ); s=$?; {print_mark}; exit $s")
}

/// Returns the text between the two marks, or the text after the first mark if there is no second one.
fn between<'t>(text: &'t str, mark: &str) -> Option<&'t str> {
    let (_, after) = text.split_once(mark)?;
    Some(after.split_once(mark).map_or(after, |(inner, _)| inner).trim_matches(['\r', '\n']))
}

/// Returns advice after an error of the host's dynamic loader, or of a shell that finds no loader (ld.so(8)).
fn advice(error: &str) -> &'static str {
    let lacks_libc = error.contains("GLIBC_") || (error.contains("/.steplatch.") && error.contains("not found"));
    match lacks_libc {
        true => {
            "; this program needs a libc that the host does not have: build a static one, and specify it with --program FILE (docs/hosts.md, Steplatch over there)"
        }
        false => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run_script(home: &Path, program: &[u8], sum: &str) -> (bool, String, String) {
        install_through_reader(home, program, sum, "cat")
    }

    fn install_through_reader(home: &Path, sent: &[u8], sum: &str, reader: &str) -> (bool, String, String) {
        let mut shell = std::process::Command::new("sh");
        let mut shell = shell
            .args(["-c", &installation_script(sum, reader)])
            .env_clear()
            .env("HOME", home)
            .env("PATH", "/usr/bin:/bin")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        shell.stdin.take().unwrap().write_all(sent).unwrap();
        let output = shell.wait_with_output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.success(), text(output.stdout), text(output.stderr))
    }

    #[test]
    fn login_messages_are_ignored() {
        let login = |script: &str| {
            let around =
                format!("printf 'Welcome!'; printf 'no mail' >&2; {}\nprintf 'bye'", with_marks("mark", script));
            // The script ends the shell, as on the remote host: later output comes from another program.
            let output = std::process::Command::new("sh").args(["-c", &around]).output().unwrap();
            let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap() + "bye";
            (output.status.code(), text(output.stdout), text(output.stderr))
        };
        let (code, output, _) = login("printf 'Linux x86_64'");
        assert_eq!((code, between(&output, "mark")), (Some(0), Some("Linux x86_64")), "{output}");
        let (code, output, errors) =
            login("set -e; trap 'echo trapped' EXIT; echo one; echo 'no space' >&2; false; echo two");
        assert_eq!((code, between(&output, "mark")), (Some(1), Some("one\ntrapped")), "{output}");
        assert_eq!(between(&errors, "mark"), Some("no space"), "{errors}");
        assert_eq!(between("Welcome to fish\n", "mark"), None);
    }

    #[test]
    fn wrong_libc_error_has_advice() {
        let loader = "/home/ana/.local/share/steplatch/bin/1/.steplatch.7: /lib64/libc.so.6: version `GLIBC_2.34' not found (required by it)";
        let shell = "sh: /root/.local/share/steplatch/bin/1/.steplatch.7: not found";
        assert!(advice(loader).contains("--program FILE") && advice(shell).contains("--program FILE"));
        assert_eq!(advice("cat: write error: No space left on device"), "");
    }

    #[test]
    fn complete_copy_is_installed_and_a_damaged_one_removed() {
        let home = tempfile::tempdir().unwrap();
        let program = b"#!/bin/sh\necho steplatch here\n";
        let sum = sha256_sum(program);
        let directory = home.path().join(".local/share/steplatch/bin").join(VERSION);
        let (success, _, errors) = run_script(home.path(), b"#!/bin/sh\necho else\n", &sum);
        assert!(!success && errors.contains("the copy is damaged"), "{errors}");
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
        let (success, output, _) = run_script(home.path(), program, &sum);
        assert!(success);
        assert_eq!(output, "steplatch here\n");
        assert_eq!(std::fs::read(directory.join("steplatch")).unwrap(), program);
        let (success, output, _) = install_through_reader(home.path(), &compress(program).unwrap(), &sum, "gzip -dc");
        assert!(success);
        assert_eq!(output, "steplatch here\n");
        assert_eq!(std::fs::read(directory.join("steplatch")).unwrap(), program);
        // A program that does not run there is not installed.
        let broken = b"#!/nowhere/interpreter\n";
        assert!(!run_script(home.path(), broken, &sha256_sum(broken)).0);
        assert_eq!(std::fs::read(directory.join("steplatch")).unwrap(), program);
        assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
    }
}
