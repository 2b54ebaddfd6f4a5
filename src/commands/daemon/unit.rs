//! `steplatch daemon enable` and `disable`: a unit of systemd that starts the daemon at login or boot.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use serde_json::json;
use steplatch_protocol::DaemonPaths;

use crate::failure::Failure;
use crate::print;

/// Name of the unit.
const UNIT: &str = "steplatch.service";

/// First line of a unit that this program has written.
const MARK: &str = "# Written by 'steplatch daemon enable'; 'steplatch daemon disable' removes it.";

/// The unit on this computer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum UnitFile {
    /// There is none.
    Missing(PathBuf),
    /// This program has written it.
    Own(PathBuf),
    /// A person has written or changed it.
    Foreign(PathBuf),
}

impl UnitFile {
    /// Finds the unit of this user.
    ///
    /// # Errors
    /// If the directory of the configuration is unknown, or the file cannot be read.
    pub(crate) fn find() -> Result<Self, Failure> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let directory = variable("XDG_CONFIG_HOME").or_else(|| variable("HOME").map(|home| home.join(".config")));
        let directory = directory.ok_or_else(|| {
            Failure::usage("the directory of units is unknown: set HOME or XDG_CONFIG_HOME".to_owned())
        })?;
        let file = directory.join("systemd/user").join(UNIT);
        match std::fs::read_to_string(&file) {
            Ok(text) if text.starts_with(MARK) => Ok(Self::Own(file)),
            Ok(_) => Ok(Self::Foreign(file)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::Missing(file)),
            Err(error) => Err(Failure::system(&format!("'{}' cannot be read", file.display()), &error)),
        }
    }

    fn path(&self) -> &Path {
        match self {
            Self::Missing(file) | Self::Own(file) | Self::Foreign(file) => file,
        }
    }
}

/// Writes the unit and starts it. `prints_only` prints the unit instead.
pub(super) fn enable(paths: &DaemonPaths, prints_only: bool, json: bool) -> Result<ExitCode, Failure> {
    let program = std::env::current_exe().map_err(|error| Failure::system("the program's path is unknown", &error))?;
    let text = unit_text(&program, custom_state(paths))?;
    if prints_only {
        print::unchanged(&text)?;
        return Ok(ExitCode::SUCCESS);
    }
    let unit = UnitFile::find()?;
    let file = unit.path();
    if let UnitFile::Foreign(file) = &unit {
        return Err(Failure::usage(format!(
            "'{0}' exists and was not written by this command; compare it with the output of 'steplatch daemon enable \
             --print', and remove it first, or keep it and run: systemctl --user enable --now steplatch",
            file.display()
        )));
    }
    write(file, &text).map_err(|error| Failure::system(&format!("'{}' was not written", file.display()), &error))?;
    let is_managed = has_user_manager();
    if is_managed {
        run_systemctl(&["daemon-reload"])?;
        run_systemctl(&["enable", "--now", UNIT])?;
    }
    if json {
        print::json(&json!({"success": true, "file": file, "started": is_managed}))?;
        return Ok(ExitCode::SUCCESS);
    }
    print::line(format!("wrote {}", file.display()))?;
    if is_managed {
        print::line("the daemon runs as a service of systemd, and starts at login")?;
        if !is_lingering() {
            print::remark("to start it at boot, and keep it after a logout: loginctl enable-linger");
        }
    } else {
        print::remark(
            "no user manager of systemd runs here, so nothing was started. Where one runs: systemctl --user \
             daemon-reload && systemctl --user enable --now steplatch",
        );
        print::remark("without systemd, add this line to ~/.profile: steplatch daemon start");
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops the unit and removes it.
pub(super) fn disable(json: bool) -> Result<ExitCode, Failure> {
    let unit = UnitFile::find()?;
    let file = unit.path();
    match &unit {
        UnitFile::Missing(file) => {
            return Err(Failure::work(format!("the daemon is not enabled: there is no {}", file.display())));
        }
        UnitFile::Foreign(file) => {
            return Err(Failure::usage(format!(
                "'{}' was not written by this command, and stays; to stop it: systemctl --user disable --now steplatch",
                file.display()
            )));
        }
        UnitFile::Own(_) => remove(&unit)?,
    }
    if json {
        print::json(&json!({"success": true, "file": file}))?;
    } else {
        print::line(format!("removed {}", file.display()))?;
        print::remark("terminals stay open; the next command starts a daemon, as before");
    }
    Ok(ExitCode::SUCCESS)
}

/// Stops a unit that this program has written, and removes its file. Terminals stay open.
///
/// # Errors
/// If systemd refuses, or the file cannot be removed.
pub(crate) fn remove(unit: &UnitFile) -> Result<(), Failure> {
    let UnitFile::Own(file) = unit else { return Ok(()) };
    let is_managed = has_user_manager();
    if is_managed {
        run_systemctl(&["disable", "--now", UNIT])?;
    }
    std::fs::remove_file(file)
        .map_err(|error| Failure::system(&format!("'{}' was not removed", file.display()), &error))?;
    if is_managed {
        run_systemctl(&["daemon-reload"])?;
    }
    Ok(())
}

/// Returns the state directory, unless it is the default one of the user.
fn custom_state(paths: &DaemonPaths) -> Option<&Path> {
    let default = crate::daemon_client::daemon_paths(None).ok();
    Some(paths.state()).filter(|state| default.is_none_or(|default| default.state() != *state))
}

/// Returns the text of the unit (systemd.service(5)). docs/operation.md explains its lines.
fn unit_text(program: &Path, state: Option<&Path>) -> Result<String, Failure> {
    let quote = |path: &Path| {
        let text = path.to_str().filter(|text| !text.contains(['\n', '\r']));
        let text = text.ok_or_else(|| Failure::usage(format!("'{}' cannot stand in a unit", path.display())))?;
        Ok::<_, Failure>(quoted(text))
    };
    let mut command = quote(program)?;
    if let Some(state) = state {
        command = format!("{command} --state-dir {}", quote(state)?);
    }
    Ok(format!(
        "{MARK}\n[Unit]\nDescription=Steplatch daemon\n\n[Service]\n\
         ExecStartPre=-{command} daemon stop --keep-terminals\n\
         ExecStart={command} daemon start --foreground\n\
         ExecReload=/bin/kill -HUP $MAINPID\nRestart=on-failure\nRestartSec=2\nTimeoutStopSec=40\nKillMode=process\n\
         Delegate=yes\nOOMPolicy=continue\n\n[Install]\nWantedBy=default.target\n"
    ))
}

/// Quotes a word of a command of a unit (systemd.service(5), command lines; systemd.unit(5), specifiers).
fn quoted(word: &str) -> String {
    let plain = |sign: char| sign.is_ascii_alphanumeric() || "/._-+:@,=".contains(sign);
    if word.chars().all(plain) {
        return word.to_owned();
    }
    let escaped = word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%").replace('$', "$$");
    format!("\"{escaped}\"")
}

/// Replaces a file as a whole.
fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let directory = file.parent().unwrap_or(file);
    std::fs::create_dir_all(directory)?;
    let new = directory.join(format!(".{UNIT}.{}", std::process::id()));
    std::fs::write(&new, text)?;
    std::fs::rename(&new, file)
}

/// Returns true if a user manager of systemd answers.
fn has_user_manager() -> bool {
    let mut command = Command::new("systemctl");
    command.args(["--user", "show-environment"]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// Returns true if the user manager runs without a login.
fn is_lingering() -> bool {
    let user = std::env::var("USER").unwrap_or_default();
    !user.is_empty() && Path::new("/var/lib/systemd/linger").join(user).exists()
}

fn run_systemctl(arguments: &[&str]) -> Result<(), Failure> {
    let output = Command::new("systemctl").arg("--user").args(arguments).stdin(Stdio::null()).output();
    let output = output.map_err(|error| Failure::system("systemctl did not run", &error))?;
    if output.status.success() {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let command = arguments.join(" ");
    Err(Failure::work(format!("systemctl --user {command} failed: {}", text.trim())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unit_names_the_program_and_another_state_directory() {
        let text = unit_text(Path::new("/opt/steplatch"), None).unwrap();
        assert!(text.contains("\nExecStart=/opt/steplatch daemon start --foreground\n"), "{text}");
        let text = unit_text(Path::new("/home/a b/100%/x"), Some(Path::new("/s$1"))).unwrap();
        let expected = "\nExecStart=\"/home/a b/100%%/x\" --state-dir \"/s$$1\" daemon start --foreground\n";
        assert!(text.contains(expected), "{text}");
        assert!(unit_text(Path::new("/a\nb"), None).is_err());
    }

    #[test]
    fn unit_of_the_documentation_has_the_same_lines() {
        let page = include_str!("../../../docs/operation.md");
        let unit = unit_text(Path::new("%h/.cargo/bin/steplatch"), None)
            .unwrap()
            .replace("\"%%h/.cargo/bin/steplatch\"", "%h/.cargo/bin/steplatch");
        let (_, lines) = unit.split_once('\n').unwrap();
        assert!(page.contains(lines.trim_end()), "{lines}");
    }
}
