//! The environment of nodes, and the resources of one call.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

use steplatch_terminal::Programs;

use crate::call::{Call, CallLimit};
use crate::host::{HostCommands, NoHosts};
use crate::kind::{HttpClient, Servers};
use crate::secrets::Secrets;
use crate::template::TemplateValues;

/// Directory, variables, secrets and hosts that the nodes of a process share.
pub struct NodeEnvironment {
    /// Base of relative paths, and default working directory of programs.
    pub directory: PathBuf,
    /// The environment that programs inherit.
    pub environment: Vec<(OsString, OsString)>,
    /// All programs of this process, including the programs of nodes.
    pub programs: Programs,
    /// Source of secrets.
    pub secrets: Arc<dyn Secrets>,
    /// Remote hosts for the commands of bash nodes.
    pub hosts: Arc<dyn HostCommands>,
}

impl NodeEnvironment {
    /// Returns this process's directory and environment, without secrets.
    ///
    /// # Errors
    /// If the directory of this process no longer exists.
    pub fn of_this_process() -> std::io::Result<Self> {
        Ok(Self {
            directory: std::env::current_dir()?,
            environment: std::env::vars_os().collect(),
            programs: Programs::new(),
            secrets: Arc::new(BTreeMap::new()),
            hosts: Arc::new(NoHosts),
        })
    }
}

/// Resources that one call uses.
pub(crate) struct CallContext<'a> {
    pub(crate) call: &'a Call,
    pub(crate) limit: &'a CallLimit,
    /// Resolves the references of the declaration.
    pub(crate) template_values: &'a TemplateValues,
    pub(crate) node_environment: &'a NodeEnvironment,
    pub(crate) http_client: &'a HttpClient,
    pub(crate) servers: &'a Servers,
}
