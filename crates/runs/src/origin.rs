//! Data that a run needs to continue, but that is not in its history: its caller, the caller's directory, and its
//! secrets.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steplatch_access::{Caller, Pins};
use steplatch_workflow::{Definition, State};

use crate::seal::Seal;

/// Part of the caller's environment that a run needs to continue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Environment {
    Whole,
    Empty,
}

impl Environment {
    /// Returns the part that a machine needs. `Empty` for a machine that opens nothing, calls nothing and
    /// transfers no files.
    pub(super) fn for_machine(definition: &Definition) -> Self {
        let opens = |state: &State| {
            matches!(
                state.action().tool(),
                "open_terminal"
                    | "run_command"
                    | "run_workflow"
                    | "parallel"
                    | "run_node"
                    | "run_graph"
                    | "put_file"
                    | "get_file"
            )
        };
        if definition.states().iter().any(opens) { Self::Whole } else { Self::Empty }
    }
}

/// Stored with a run until it has finished.
#[serde_with_macros::skip_serializing_none]
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct ResumeContext {
    name: Option<String>,
    #[serde(rename = "folder")]
    directory: PathBuf,
    /// Environment of the run's terminals, without variables that are not UTF-8.
    environment: Vec<(String, String)>,
    #[serde(default)]
    person: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<String>,
    /// The digests of definitions at the start; `None` in data of older daemons.
    pins: Option<Pins>,
    /// Gate of an ancestor with a person's approval of the actions of this run.
    approved_at: Option<String>,
    /// Terminals that the person saw and terminals that the ancestor had opened.
    approved_terminals: Option<BTreeSet<String>>,
}

impl ResumeContext {
    pub(super) fn new(caller: &Caller, environment: Environment, seal: &Seal) -> Self {
        let Caller { name, directory, person, pins, approved_at, approved_terminals, .. } = caller;
        let (secrets, environment) = match environment {
            Environment::Whole => (seal.secrets(), &caller.environment[..]),
            Environment::Empty => (seal.secrets(), &[][..]),
        };
        let text = |text: &OsString| text.to_str().map(str::to_owned);
        Self {
            name: name.clone(),
            directory: directory.clone(),
            environment: environment.iter().filter_map(|(key, value)| Some((text(key)?, text(value)?))).collect(),
            person: *person,
            secrets: secrets.to_vec(),
            pins: pins.as_deref().cloned(),
            approved_at: approved_at.clone(),
            approved_terminals: approved_terminals.as_deref().cloned(),
        }
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| {
            // The journal cannot store a directory whose name is not UTF-8. Store the other data.
            let directory = PathBuf::from("/");
            serde_json::to_string(&Self { directory, ..self.clone() }).expect("all other data is text")
        })
    }

    /// Returns the run's caller and its secrets.
    pub(super) fn into_parts(self) -> (Caller, Seal) {
        let Self { name, directory, environment, person, secrets, pins, approved_at, approved_terminals } = self;
        let environment = environment.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        let pins = pins.map(Arc::new);
        let approved_terminals = approved_terminals.map(Arc::new);
        let own = Caller::unnamed(directory, environment);
        let caller = Caller { name, person, pins, approved_at, approved_terminals, ..own };
        (caller, Seal::with_secrets(secrets))
    }
}
