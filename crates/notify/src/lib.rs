//! Notifications of people: something waits for a person, or has ended.
//!
//! A [`Rule`] of the settings names kinds of [`Occasion`]s and one [`Way`] to deliver. The [`Board`] decides from the
//! rules, the occasions and the time which deliveries are due; it is pure, and its [`BoardState`] is stored. The
//! [`Courier`] delivers. The daemon finds the occasions and keeps the state.
//!
//! A message never contains parameters, output or screens, and contains the prompt of a gate only if its rule includes
//! it.

mod board;
mod courier;
mod desktop;
mod message;
mod occasion;
mod quiet_hours;
mod rule;
mod webhook;

pub use board::{Board, BoardState, Delivery, Outcome, Phase};
pub use courier::{Courier, Receipt, SendError};
pub use desktop::{DesktopError, bus_address};
pub use message::Message;
pub use occasion::{Kind, Observation, Occasion, Subject};
pub use quiet_hours::QuietHours;
pub use rule::{InvalidRule, KEYS, Rule, Way};
pub use steplatch_clock::Span;
