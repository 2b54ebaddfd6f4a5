//! The programs that tests and benchmarks use, and their installation.
//!
//! The chore installs missing programs if that needs no password (as root, or with a passwordless `sudo`, on a system
//! with `apt-get`, such as a container); otherwise it prints their packages.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

/// A program, and the Debian packages that contain it.
#[derive(Debug)]
pub(crate) struct Program {
    name: &'static str,
    packages: &'static [&'static str],
}

const fn program(name: &'static str, packages: &'static [&'static str]) -> Program {
    Program { name, packages }
}

/// The programs for the tests.
pub(crate) const FOR_TESTS: &[Program] = &[
    program("bash", &["bash"]),
    program("zsh", &["zsh"]),
    program("fish", &["fish"]),
    PYTHON,
    program("vim", &["vim"]),
    program("less", &["less"]),
    program("top", &["procps"]),
    program("pgrep", &["procps"]),
    program("script", &["bsdutils"]),
    program("node", &["nodejs"]),
    program("npm", &["npm"]),
    program("openssl", &["openssl"]),
    program("dash", &["dash"]),
    program("busybox", &["busybox"]),
    program("ksh", &["ksh"]),
    program("tcsh", &["tcsh"]),
    program("fzf", &["fzf"]),
    program("screen", &["screen"]),
    program("tmux", &["tmux"]),
    program("sqlite3", &["sqlite3"]),
    program("bc", &["bc"]),
    program("gdb", &["gdb"]),
    program("ipython3", &["ipython3"]),
    program("ssh", &["openssh-client"]),
    program("/usr/sbin/sshd", &["openssh-server"]),
    program("chromium", &["chromium"]),
    program("htop", &["htop"]),
    program("whiptail", &["whiptail"]),
    program("autoexpect", &["expect"]),
    program("dbus-daemon", &["dbus"]),
    program("dbus-monitor", &["dbus"]),
    program("git", &["git"]),
    program("cc", &["gcc", "libc6-dev"]),
];

/// The programs for the benchmark of terminals.
pub(crate) const FOR_BENCHMARKS: &[Program] = &[program("bash", &["bash"]), PYTHON];

/// The programs for the benchmark of remote hosts, and for faults on the real program.
pub(crate) const FOR_HOSTS: &[Program] = &[
    program("bash", &["bash"]),
    PYTHON,
    program("ssh", &["openssh-client"]),
    program("/usr/sbin/sshd", &["openssh-server"]),
];

/// The programs for the benchmark of the page.
pub(crate) const FOR_THE_PAGE: &[Program] = &[
    program("bash", &["bash"]),
    program("script", &["bsdutils"]),
    program("npm", &["npm"]),
    program("chromium", &["chromium"]),
];

/// The programs that the jobs of an agent drive.
pub(crate) const FOR_JOBS: &[Program] = &[
    program("bash", &["bash"]),
    PYTHON,
    program("zsh", &["zsh"]),
    program("fish", &["fish"]),
    program("gcc", &["gcc", "libc6-dev"]),
    program("gdb", &["gdb"]),
    program("vim", &["vim"]),
    program("nano", &["nano"]),
    program("git", &["git"]),
    program("node", &["nodejs"]),
    program("npm", &["npm"]),
    program("ipython3", &["ipython3"]),
    program("sqlite3", &["sqlite3"]),
    program("psql", &["postgresql"]),
    program("ssh", &["openssh-client"]),
    program("/usr/sbin/sshd", &["openssh-server"]),
    program("whiptail", &["whiptail"]),
    program("dialog", &["dialog"]),
    program("htop", &["htop"]),
    program("less", &["less"]),
    program("mc", &["mc"]),
    program("ncdu", &["ncdu"]),
    program("curl", &["curl"]),
    program("openssl", &["openssl"]),
    program("bc", &["bc"]),
    program("/usr/games/worm", &["bsdgames"]),
    program("make", &["make"]),
    program("strace", &["strace"]),
    program("fzf", &["fzf"]),
    program("gpg", &["gnupg"]),
    program("ed", &["ed"]),
    program("watch", &["procps"]),
    program("screen", &["screen"]),
    program("tmux", &["tmux"]),
];

/// The program for the terminals of the benchmark's peer.
pub(crate) const FOR_THE_PEER: &[Program] = &[program("tmux", &["tmux"])];

const PYTHON: Program = program("python3", &["python3", "python3-venv"]);

/// Checks for the oldest Python that the MCP clients support, with the modules that create a virtual environment.
/// Debian has these modules in a separate package.
const PYTHON_CHECK: &str = "import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 10))";

impl Program {
    fn is_installed(&self) -> bool {
        if self.name == PYTHON.name {
            return succeeds(Command::new(self.name).args(["-c", PYTHON_CHECK]));
        }
        is_in_path(self.name)
    }
}

/// Returns whether a program of that name is in a directory of `PATH`.
pub(crate) fn is_in_path(name: &str) -> bool {
    find(name).is_some()
}

/// Returns the program of that name in a directory of `PATH`.
pub(crate) fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|directory| directory.join(name)).find(|program| program.is_file())
}

/// Ensures that every program is installed.
pub(crate) fn ensure(programs: &[Program]) -> anyhow::Result<()> {
    let find_missing = || programs.iter().filter(|program| !program.is_installed()).collect::<Vec<_>>();
    let missing_programs = find_missing();
    if missing_programs.is_empty() {
        return Ok(());
    }
    let Some(installer) = Installer::detect() else { bail!(advice(&missing_programs)) };
    installer.install(&packages(&missing_programs))?;
    let still_missing = find_missing();
    if !still_missing.is_empty() {
        bail!("The packages were installed, but: {}", advice(&still_missing));
    }
    Ok(())
}

/// Method to install packages without interaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Installer {
    AsRoot,
    WithSudo,
}

impl Installer {
    fn detect() -> Option<Self> {
        if !Path::new("/usr/bin/apt-get").exists() {
            return None;
        }
        let is_root = Command::new("id").arg("-u").output().is_ok_and(|output| output.stdout.trim_ascii() == b"0");
        if is_root {
            Some(Self::AsRoot)
        } else {
            succeeds(Command::new("sudo").args(["-n", "true"])).then_some(Self::WithSudo)
        }
    }

    fn install(self, packages: &[&str]) -> anyhow::Result<()> {
        eprintln!("xtask: installing {} with apt-get", packages.join(", "));
        let apt = |arguments: &[&str]| {
            let mut command = match self {
                Self::AsRoot => Command::new("env"),
                Self::WithSudo => {
                    let mut command = Command::new("sudo");
                    command.args(["-n", "env"]);
                    command
                }
            };
            command.args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(arguments);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            command.status().context("apt-get could not be run.")
        };
        // The mirror may no longer have the versions of outdated lists.
        if !apt(&["-qq", "update"])?.success() {
            eprintln!("xtask: apt-get update failed; continuing with the present lists");
        }
        let mut arguments = vec!["-qq", "-y", "--no-install-recommends", "install"];
        arguments.extend(packages);
        if !apt(&arguments)?.success() {
            bail!("apt-get could not install {}. Its messages are above.", packages.join(", "));
        }
        Ok(())
    }
}

fn packages<'a>(programs: &[&'a Program]) -> Vec<&'a str> {
    let mut packages: Vec<&str> = programs.iter().flat_map(|program| program.packages).copied().collect();
    packages.sort_unstable();
    packages.dedup();
    packages
}

fn advice(missing: &[&Program]) -> String {
    let names: Vec<&str> = missing.iter().map(|program| program.name).collect();
    let python = if names.contains(&PYTHON.name) { " (python3 in version 3.10 or later, with venv)" } else { "" };
    format!(
        "{} {} missing{python}. On Debian or Ubuntu: apt-get install {}",
        names.join(", "),
        if names.len() == 1 { "is" } else { "are" },
        packages(missing).join(" "),
    )
}

fn succeeds(command: &mut Command) -> bool {
    let command = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn missing_program_is_noticed() {
        assert!(!program("no-program-is-called-this", &[]).is_installed());
        assert!(program("sh", &[]).is_installed());
    }

    #[test]
    fn advice_names_programs_and_packages_once() {
        let missing: Vec<&Program> =
            FOR_TESTS.iter().filter(|program| matches!(program.name, "top" | "pgrep" | "python3")).collect();
        assert_eq!(
            advice(&missing),
            "python3, top, pgrep are missing (python3 in version 3.10 or later, with venv). On Debian or Ubuntu: \
             apt-get install procps python3 python3-venv"
        );
    }
}
