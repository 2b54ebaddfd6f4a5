//! Who asks, and from where.

use std::ffi::OsString;
use std::path::PathBuf;

use steplatch_protocol::Hello;

/// A client as it introduced itself. What it opens begins in its folder, with its environment.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) name: Option<String>,
    pub(crate) folder: PathBuf,
    pub(crate) environment: Vec<(OsString, OsString)>,
}

impl Caller {
    /// One that did not introduce itself: the user's home, the daemon's own environment.
    pub(crate) fn unknown() -> Self {
        let folder = std::env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_dir());
        Self { name: None, folder: folder.unwrap_or_else(|| "/".into()), environment: std::env::vars_os().collect() }
    }

    pub(crate) fn introduced(hello: Hello) -> Self {
        let unknown = Self::unknown();
        let environment = hello
            .environment
            .map(|given| given.into_iter().map(|(key, value)| (OsString::from(key), OsString::from(value))).collect());
        Self {
            name: Some(hello.client).filter(|name| !name.is_empty()),
            folder: hello.cwd.map(PathBuf::from).filter(|folder| folder.is_absolute()).unwrap_or(unknown.folder),
            environment: environment.unwrap_or(unknown.environment),
        }
    }
}
