//! Environment variables that make programs ask for passwords by steplatch's askpass program.
//!
//! sudo(8) uses `SUDO_ASKPASS` with `-A`. git(1) and, with `SSH_ASKPASS_REQUIRE=force`, ssh(1)
//! use theirs even in a terminal, where an agent and a person see a prompt. So these are set without a terminal only.

use std::ffi::{OsStr, OsString};
use std::path::Path;

/// Name of the file of the askpass program, in the state directory.
pub const ASKPASS_FILE: &str = "steplatch-askpass";

/// Adds the variable of sudo to the environment of terminals and runs, unless it has one.
pub fn add_askpass(environment: &mut Vec<(OsString, OsString)>, program: &Path) {
    set_if_missing(environment, "SUDO_ASKPASS", program.as_os_str());
}

/// Adds the variables of the other programs to an environment that has the [variable of sudo](add_askpass), for a
/// program without a terminal.
pub fn add_askpass_without_terminal(environment: &mut Vec<(OsString, OsString)>) {
    let is_ours = |(key, value): &&(OsString, OsString)| {
        key == "SUDO_ASKPASS" && Path::new(value).file_name() == Some(OsStr::new(ASKPASS_FILE))
    };
    let Some((_, program)) = environment.iter().find(is_ours).cloned() else { return };
    set_if_missing(environment, "GIT_ASKPASS", &program);
    if set_if_missing(environment, "SSH_ASKPASS", &program) {
        set_if_missing(environment, "SSH_ASKPASS_REQUIRE", OsStr::new("force"));
    }
}

fn set_if_missing(environment: &mut Vec<(OsString, OsString)>, key: &str, value: &OsStr) -> bool {
    let is_missing = !environment.iter().any(|(known, _)| known == key);
    if is_missing {
        environment.push((key.into(), value.into()));
    }
    is_missing
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(environment: &[(OsString, OsString)]) -> Vec<&str> {
        environment.iter().map(|(key, _)| key.to_str().unwrap()).collect()
    }

    #[test]
    fn variables_of_the_user_are_kept() {
        let program = Path::new("/state/steplatch-askpass");
        let mut environment = vec![("SSH_ASKPASS".into(), "ksshaskpass".into())];
        add_askpass(&mut environment, program);
        add_askpass_without_terminal(&mut environment);
        assert_eq!(keys(&environment), ["SSH_ASKPASS", "SUDO_ASKPASS", "GIT_ASKPASS"]);

        let mut environment = vec![("SUDO_ASKPASS".into(), "/usr/bin/ssh-askpass".into())];
        add_askpass(&mut environment, program);
        add_askpass_without_terminal(&mut environment);
        assert_eq!(keys(&environment), ["SUDO_ASKPASS"], "the user's program answers");

        let mut environment = Vec::new();
        add_askpass(&mut environment, program);
        assert_eq!(keys(&environment), ["SUDO_ASKPASS"], "a terminal has a prompt");
        add_askpass_without_terminal(&mut environment);
        assert_eq!(keys(&environment), ["SUDO_ASKPASS", "GIT_ASKPASS", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE"]);
    }
}
