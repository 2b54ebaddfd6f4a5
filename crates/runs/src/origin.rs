//! What a run needs to go on that no history shows: who began it, from where, and its secrets.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use steplatch_access::{Caller, Pins, Standing};
use steplatch_workflow::{Definition, State};

use crate::seal::Seal;

/// Kept with a run until it is over.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Origin {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    folder: PathBuf,
    /// What its terminals inherit. A variable that is no text is left out.
    environment: Vec<(String, String)>,
    #[serde(default)]
    person: bool,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    secrets: Vec<String>,
    /// What definitions meant at the start; nothing in what older daemons wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pins: Option<Pins>,
}

impl Origin {
    /// A run that opens nothing and calls nothing needs no environment.
    pub(super) fn of(caller: &Caller, definition: &Definition, seal: &Seal) -> Self {
        let opens = |state: &State| {
            matches!(state.action().tool(), "open_terminal" | "run_workflow" | "run_node" | "run_graph")
        };
        let environment = if definition.states().iter().any(opens) { caller.environment.as_slice() } else { &[] };
        Self::with(caller, environment, seal.secrets())
    }

    /// A function may start anything at any time.
    pub(super) fn whole(caller: &Caller, seal: &Seal) -> Self {
        Self::with(caller, &caller.environment, seal.secrets())
    }

    /// One that another service does needs to know who began it, and nothing else.
    pub(super) fn bare(caller: &Caller) -> Self {
        Self::with(caller, &[], &[])
    }

    fn with(caller: &Caller, environment: &[(OsString, OsString)], secrets: &[String]) -> Self {
        let Caller { name, folder, person, pins, .. } = caller;
        let text = |text: &OsString| text.to_str().map(str::to_owned);
        Self {
            name: name.clone(),
            folder: folder.clone(),
            environment: environment.iter().filter_map(|(key, value)| Some((text(key)?, text(value)?))).collect(),
            person: *person,
            secrets: secrets.to_vec(),
            pins: pins.as_deref().cloned(),
        }
    }

    /// Returns the same with the secrets that a seal knows.
    pub(super) fn sealed_by(&self, seal: &Seal) -> Self {
        Self { secrets: seal.secrets().to_vec(), ..self.clone() }
    }

    pub(super) fn text(&self) -> String {
        serde_json::to_string(self).unwrap_or_else(|_| {
            // A folder whose name is no text can not be written down; the rest can.
            let folder = PathBuf::from("/");
            serde_json::to_string(&Self { folder, ..self.clone() }).expect("everything else is text")
        })
    }

    /// Returns who began the run, and what it must not show.
    pub(super) fn into_parts(self) -> (Caller, Seal) {
        let Self { name, folder, environment, person, secrets, pins } = self;
        let environment = environment.into_iter().map(|(key, value)| (key.into(), value.into())).collect();
        (
            Caller {
                name,
                folder,
                environment,
                person,
                surface: None,
                standing: Standing::internal(),
                peer: None,
                run: None,
                pins: pins.map(Arc::new),
            },
            Seal::knowing(secrets),
        )
    }
}
