//! Digests of definitions at the start of a run.
//!
//! A person approves the definitions of that time, so a run does not execute a definition that has changed since then.
//! A run stores digests, not copies: it reports a changed definition and stops there. Its descendants inherit the
//! digests through the caller, and the run stores them in its private part.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use steplatch_host::HostTarget;
use steplatch_library::Signature;
use steplatch_workflow::GatelessNames;

/// Kind of the definition that a name refers to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DefinitionKind {
    /// A workflow of any kind.
    Workflow,
    /// A node or a graph.
    Node,
}

impl fmt::Display for DefinitionKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Workflow => "Workflow",
            Self::Node => "Node",
        })
    }
}

/// Reason why a run does not execute a definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PinError {
    /// The name referred to another definition at the start of the run.
    #[error(
        "{kind} '{name}' was changed after this run was started, and a run executes only what it was started with. Start it again \
         to use the new definition"
    )]
    Changed {
        /// Kind of the definition.
        kind: DefinitionKind,
        /// Name of the definition.
        name: String,
    },
    /// The name referred to no definition at the start of the run.
    #[error(
        "{kind} '{name}' was added after this run was started, and a run executes only what it was started with. Start it again \
         to use the new definition"
    )]
    Added {
        /// Kind of the definition.
        kind: DefinitionKind,
        /// Name of the definition.
        name: String,
    },
    /// No definition of the run refers to the name.
    #[error(
        "{kind} '{name}' did not exist when this run was started, or is in no definition that the run was started with; a run \
         executes only these. Name it there, in run_workflow(\"{name}\") or the parameters of the state"
    )]
    NotReferred {
        /// Kind of the definition.
        kind: DefinitionKind,
        /// Name of the definition.
        name: String,
    },
    /// The destination of a host has changed since the start of the run.
    #[error(
        "Host '{host}' has changed since this run was started: {difference}. Nothing was sent there, because a run \
         uses only the hosts that it was started with. Start it again to use the changed host"
    )]
    HostChanged {
        /// Name of the host.
        host: String,
        /// Change of the host.
        difference: HostDifference,
    },
    /// The host did not exist at the start of the run, or appears in none of its definitions.
    #[error(
        "Host '{host}' did not exist when this run was started, or is in no definition that the run was started with, and a run uses \
         only hosts that it was started with. Start it again, with the host in the definition"
    )]
    HostUnknown {
        /// Name of the host.
        host: String,
    },
}

/// A host as a run knew it at its start: the destination of its connections, as known without connecting.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostPin {
    /// Configured destination.
    pub ssh: String,
    /// User, host and port of the destination, as resolved by `ssh`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// Jump host or proxy command of the connection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub through: Option<String>,
    /// Fingerprints of the known host keys; empty before the first connection.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<String>,
    /// Digest of all options of `ssh` for the host.
    pub options: Signature,
    /// Descriptions of the unknown parts, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub unknown: Vec<String>,
}

/// A change of a host since the start of a run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HostDifference {
    /// The host is no longer configured.
    #[error("it is no longer configured")]
    Removed,
    /// The host has another destination.
    #[error("it was {before} and is now {current}")]
    Destination {
        /// The destination at the start.
        before: String,
        /// The destination now.
        current: String,
    },
    /// The destination was unknown at the start of the run.
    #[error("its destination was unknown (ssh -G {ssh} did not answer) and is now {current}")]
    NotKnown {
        /// Destination for `ssh`.
        ssh: String,
        /// The destination now.
        current: String,
    },
    /// The host has other known keys.
    #[error("its known keys were {} and are now {}", display_keys(.before), display_keys(.current))]
    Keys {
        /// The fingerprints at the start.
        before: Vec<String>,
        /// The fingerprints now.
        current: Vec<String>,
    },
    /// The configuration of `ssh` for the host has changed.
    #[error("the configuration of ssh for it was changed (ssh -G {ssh})")]
    Options {
        /// Destination for `ssh`.
        ssh: String,
    },
}

fn display_keys(keys: &[String]) -> String {
    if keys.is_empty() { "none".to_owned() } else { keys.join(", ") }
}

impl From<HostTarget> for HostPin {
    fn from(target: HostTarget) -> Self {
        let HostTarget { ssh, address, through, keys, options, unknown, fixed: _ } = target;
        Self { ssh, address, through, keys, options: Signature::of_text(&options), unknown }
    }
}

impl HostPin {
    /// Returns the difference from a host's current target. New keys are not a difference if no key was known.
    fn difference(&self, current: &Self) -> Option<HostDifference> {
        let destination = |pin: &Self| match (&pin.address, &pin.through) {
            (Some(address), Some(through)) => format!("{} ({address} through {through})", pin.ssh),
            (Some(address), None) => format!("{} ({address})", pin.ssh),
            (None, _) => pin.ssh.clone(),
        };
        if self.ssh == current.ssh && self.address.is_none() && current.address.is_some() {
            return Some(HostDifference::NotKnown { ssh: self.ssh.clone(), current: destination(current) });
        }
        if (&self.ssh, &self.address, &self.through) != (&current.ssh, &current.address, &current.through) {
            return Some(HostDifference::Destination { before: destination(self), current: destination(current) });
        }
        if !self.keys.is_empty() && self.keys != current.keys {
            return Some(HostDifference::Keys { before: self.keys.clone(), current: current.keys.clone() });
        }
        (self.options != current.options).then(|| HostDifference::Options { ssh: self.ssh.clone() })
    }

    /// Describes the host for people: its destination, keys, and unknown parts.
    pub fn describe(&self) -> String {
        let mut text = match &self.address {
            Some(address) => format!("{address} (ssh {})", self.ssh),
            None => format!("ssh {}", self.ssh),
        };
        if let Some(through) = &self.through {
            text.push_str(&format!(" through {through}"));
        }
        if !self.keys.is_empty() {
            text.push_str(&format!(", key {}", self.keys.join(", ")));
        }
        for unknown in &self.unknown {
            text.push_str(&format!("; {unknown}"));
        }
        text
    }
}

/// The definitions that a run refers to, as of its start. The run executes only these definitions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pins {
    /// Digests of workflows by name; `None` for a name without a workflow.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub workflows: BTreeMap<String, Option<Signature>>,
    /// Digests of nodes and graphs by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub nodes: BTreeMap<String, Option<Signature>>,
    /// Hosts in the definitions, by name; `None` for a name without a host. No map if an older version stored the pins,
    /// without hosts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hosts: Option<BTreeMap<String, Option<HostPin>>>,
    /// Digests of definitions nested in these. The run may save nested definitions, and then run them by name.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub inner: BTreeSet<Signature>,
    /// Names among these that need no person, including everything that they start.
    #[serde(default, skip_serializing_if = "GatelessNames::is_empty")]
    pub gateless: GatelessNames,
}

impl Pins {
    /// Returns whether the run has no references.
    fn is_empty(&self) -> bool {
        self.workflows.is_empty() && self.nodes.is_empty() && self.hosts.as_ref().is_none_or(BTreeMap::is_empty)
    }

    /// Returns a digest of all pins; `None` for a run without references.
    pub fn signature(&self) -> Option<Signature> {
        let text = || serde_json::to_string(self).unwrap_or_default();
        (!self.is_empty()).then(|| Signature::of_text(&text()))
    }

    /// Returns a digest of all pins and the nodes of the run.
    pub fn signature_with(&self, nodes: &[Value]) -> Option<Signature> {
        let text = || serde_json::to_string(&(self, nodes)).unwrap_or_default();
        (!self.is_empty() || !nodes.is_empty()).then(|| Signature::of_text(&text()))
    }

    /// Returns whether the run refers to the name although no workflow had it.
    pub fn has_no_workflow(&self, name: &str) -> bool {
        self.workflows.get(name) == Some(&None)
    }

    /// Returns whether a node with this name existed.
    pub fn has_node(&self, id: &str) -> bool {
        self.nodes.get(id).is_some_and(Option::is_some)
    }

    /// Checks that a name still refers to the same workflow.
    ///
    /// # Errors
    ///
    /// If the name referred to another definition at the start of the run, or the run does not refer to it.
    pub fn check_workflow(&self, name: &str, current: &Signature) -> Result<(), PinError> {
        if self.inner.contains(current) {
            Ok(())
        } else {
            check(DefinitionKind::Workflow, &self.workflows, name, current)
        }
    }

    /// Checks that a host still has the same target. `current` is `None` for a host without a configuration.
    ///
    /// # Errors
    ///
    /// If the host had another target at the start of the run, or the run does not refer to it.
    pub fn check_host(&self, host: &str, current: Option<&HostPin>) -> Result<(), PinError> {
        let Some(hosts) = &self.hosts else { return Ok(()) };
        let host = host.to_owned();
        let Some(Some(pinned)) = hosts.get(&host) else { return Err(PinError::HostUnknown { host }) };
        let difference = current.map_or(Some(HostDifference::Removed), |current| pinned.difference(current));
        difference.map_or(Ok(()), |difference| Err(PinError::HostChanged { host, difference }))
    }

    /// Describes the hosts for a person, a line each: their destinations and unknown parts.
    pub fn describe_hosts(&self) -> Vec<String> {
        let hosts = self.hosts.iter().flatten();
        let describe_host = |(name, pin): (&String, &Option<HostPin>)| match pin {
            Some(pin) => format!("{name}: {}", pin.describe()),
            None => format!("{name}: not configured when the run was started, so it is not used"),
        };
        hosts.map(describe_host).collect()
    }

    /// Checks that a name still refers to the same node.
    ///
    /// # Errors
    ///
    /// If the name referred to another definition at the start of the run, or the run does not refer to it.
    pub fn check_node(&self, id: &str, current: &Signature) -> Result<(), PinError> {
        check(DefinitionKind::Node, &self.nodes, id, current)
    }
}

fn check(
    kind: DefinitionKind,
    pinned: &BTreeMap<String, Option<Signature>>,
    name: &str,
    current: &Signature,
) -> Result<(), PinError> {
    let name = name.to_owned();
    match pinned.get(&name) {
        Some(Some(pinned)) if pinned == current => Ok(()),
        Some(Some(_)) => Err(PinError::Changed { kind, name }),
        Some(None) => Err(PinError::Added { kind, name }),
        None => Err(PinError::NotReferred { kind, name }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_definitions_present_at_start_are_executed() {
        let digest = Signature::of_text;
        let workflows = [("same".to_owned(), Some(digest("1"))), ("absent".to_owned(), None)].into();
        let pins = Pins { workflows, inner: [digest("inner")].into(), ..Pins::default() };
        let error = |name: &str, current: &str| {
            pins.check_workflow(name, &digest(current)).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(error("same", "1"), "");
        assert!(error("same", "2").starts_with("Workflow 'same' was changed after this run was started"));
        assert!(error("absent", "2").starts_with("Workflow 'absent' was added after this run was started"));
        assert!(error("unnamed", "2").contains("is in no definition that the run was started with"));
        assert_eq!(error("saved", "inner"), "", "nested definitions may be saved and run");
    }

    fn host(ssh: &str, address: &str, keys: &[&str], options: &str) -> HostPin {
        let keys = keys.iter().map(|key| (*key).to_owned()).collect();
        let (address, options) = (Some(address.to_owned()), options.to_owned());
        HostTarget { ssh: ssh.to_owned(), address, keys, options, ..HostTarget::default() }.into()
    }

    #[test]
    fn host_is_used_only_with_its_original_destination() {
        let pinned = host("box", "ana@build:22", &["ED25519 SHA256:a"], "user ana");
        let fresh = host("new", "ana@new:22", &[], "user ana");
        let hosts = [("box", Some(&pinned)), ("new", Some(&fresh)), ("absent", None)];
        let hosts = hosts.map(|(name, pin)| (name.to_owned(), pin.cloned())).into();
        let pins = Pins { hosts: Some(hosts), ..Pins::default() };
        let error = |name: &str, current: Option<&HostPin>| {
            pins.check_host(name, current).err().map(|error| error.to_string()).unwrap_or_default()
        };
        assert_eq!(error("box", Some(&pinned)), "");
        for (current, part) in [
            (
                host("evil@elsewhere", "evil@elsewhere:22", &["ED25519 SHA256:a"], "user ana"),
                "and is now evil@elsewhere",
            ),
            (host("box", "ana@build:2222", &["ED25519 SHA256:a"], "user ana"), "is now box (ana@build:2222)"),
            (host("box", "ana@build:22", &["ED25519 SHA256:b"], "user ana"), "known keys were ED25519 SHA256:a"),
            (host("box", "ana@build:22", &[], "user ana"), "and are now none"),
            (host("box", "ana@build:22", &["ED25519 SHA256:a"], "proxycommand evil"), "configuration of ssh"),
            (HostPin { through: Some("evil".to_owned()), ..pinned.clone() }, "through evil"),
        ] {
            let error = error("box", Some(&current));
            assert!(error.starts_with("Host 'box' has changed") && error.contains(part), "{error}");
        }
        assert!(error("box", None).contains("no longer configured"));
        assert_eq!(
            error("new", Some(&HostPin { keys: vec!["ED25519 SHA256:n".to_owned()], ..fresh })),
            "",
            "new keys are accepted if none was known"
        );
        assert!(error("absent", Some(&pinned)).starts_with("Host 'absent' did not exist"));
        assert!(error("other", Some(&pinned)).starts_with("Host 'other' did not exist"));
        let older_pins: Pins = serde_json::from_str("{}").unwrap();
        assert_eq!(older_pins.check_host("box", None), Ok(()), "an older version stored no host pins");
        assert_ne!(pins.signature(), Pins { hosts: None, ..pins.clone() }.signature());
    }
}
