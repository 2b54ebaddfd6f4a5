//! Services of a project: programs that stay up.
//!
//! A [`ServiceDeclaration`] is a table `[services.NAME]` of `steplatch.toml`. [`start_order`] and [`decide_restart`]
//! decide, and are pure. [`ports`] reads the sockets of processes from the kernel. The daemon runs each service in a
//! terminal and performs what was decided.

mod declaration;
mod order;
pub mod ports;
mod restart;

pub use declaration::{
    DEFAULT_MAX_RESTARTS, InvalidService, Readiness, ReadyCondition, RestartPolicy, ServiceDeclaration, StopMethod,
};
pub use order::{OrderError, start_order};
pub use restart::{RestartDecision, RestartHistory, decide_restart};
