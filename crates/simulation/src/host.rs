//! A terminal host: effects in its terminals and on its files, each with the instant at which the world changes.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use steplatch_ledger::{Admission, Effect, EffectDesk, EffectEnd, EffectKey, LedgerLimits};

use crate::world::Mutation;

/// A connection of a daemon: the number of the daemon and that of the request.
pub(crate) type ReplyTo = (u64, u64);

/// A terminal of one host.
pub(crate) type Terminal = u64;

/// A request to a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Ask {
    /// Perform an effect in a terminal, if it needs one. An opening is for a single command or not.
    Perform {
        key: EffectKey,
        terminal: Option<Terminal>,
        is_single_command: bool,
    },
    /// Close what a step opened.
    CloseOpened(String),
    Close(Terminal),
    Settle(String),
    Unsettled,
    /// Read a file, which has no effect.
    Read,
}

/// A reply of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Reply {
    Opened(Terminal),
    Done,
    NoTerminal,
    OutcomeUnknown,
    /// As in older versions.
    OpenedBefore,
    Steps(Vec<String>),
}

/// Delayed work of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Work {
    /// The world changes.
    Act { key: EffectKey, terminal: Option<Terminal>, is_single_command: bool, is_noted: bool, to: Option<ReplyTo> },
    /// The result is there.
    Finish { key: EffectKey, reply: Reply, is_noted: bool, to: Option<ReplyTo> },
}

/// Consequences of a request or of work.
#[derive(Debug, Default)]
pub(crate) struct Next {
    pub(crate) work: Vec<Work>,
    pub(crate) replies: Vec<(ReplyTo, Reply)>,
    /// An effect changed the world.
    pub(crate) acted: Option<EffectKey>,
}

/// Maximum number of open terminals.
const MAX_TERMINALS: usize = 4;

const LIMITS: LedgerLimits = LedgerLimits { max_names: 100_000, max_result_bytes: 1 << 20 };

/// One terminal host.
pub(crate) struct Host {
    desk: EffectDesk<ReplyTo, Reply, EffectKey, Terminal>,
    pub(crate) open: BTreeSet<Terminal>,
    /// Open terminals of single commands.
    pub(crate) shells: BTreeSet<Terminal>,
    next_terminal: Terminal,
    /// Openings for single commands that wait for a place.
    waiting: VecDeque<Work>,
    /// Given up steps with an effect in progress.
    given_up: BTreeSet<EffectKey>,
    mutation: Option<Mutation>,
    /// Openings without their daemon, for [`Mutation::OpeningEndsWithItsConnection`].
    orphaned: BTreeSet<EffectKey>,
    /// Terminals by the steps that opened them.
    opened: BTreeMap<String, Terminal>,
    /// Commands by terminal and step, for the same mutation: the older ledger was one of each terminal.
    ran: BTreeMap<(Terminal, EffectKey), Reply>,
}

impl Host {
    /// Returns a host without terminals. `first` is the id of its first terminal.
    pub(crate) fn new(first: Terminal, mutation: Option<Mutation>) -> Self {
        Self {
            desk: EffectDesk::new(LIMITS),
            open: BTreeSet::new(),
            shells: BTreeSet::new(),
            next_terminal: first,
            waiting: VecDeque::new(),
            given_up: BTreeSet::new(),
            mutation,
            orphaned: BTreeSet::new(),
            opened: BTreeMap::new(),
            ran: BTreeMap::new(),
        }
    }

    fn is_mutated(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// Returns whether the host keeps results that no daemon has stored.
    pub(crate) fn has_unsettled(&self) -> bool {
        self.desk.has_unsettled()
    }

    /// Records the end of a daemon's connection, which had requested these openings in progress.
    pub(crate) fn disconnect(&mut self, openings: impl IntoIterator<Item = EffectKey>) {
        if self.is_mutated(Mutation::OpeningEndsWithItsConnection) {
            self.orphaned.extend(openings);
        }
    }

    /// Takes a request.
    pub(crate) fn take(&mut self, to: ReplyTo, ask: Ask) -> Next {
        let mut next = Next::default();
        match ask {
            Ask::Perform { key, terminal, is_single_command } => {
                self.perform(to, key, terminal, is_single_command, &mut next);
            }
            Ask::CloseOpened(step) => {
                if let Some(terminal) = self.opened.get(&step).copied() {
                    self.close(terminal, &mut next);
                }
                next.replies.push((to, Reply::Done));
            }
            Ask::Close(terminal) => {
                self.close(terminal, &mut next);
                next.replies.push((to, Reply::Done));
            }
            Ask::Settle(step) => {
                let given_up = &mut self.given_up;
                let closing = self.desk.settle(&step, |key| {
                    given_up.insert(key.clone());
                });
                for terminal in closing {
                    self.close(terminal, &mut next);
                }
                next.replies.push((to, Reply::Done));
            }
            Ask::Read => next.replies.push((to, Reply::Done)),
            Ask::Unsettled => next.replies.push((to, Reply::Steps(self.desk.unsettled()))),
        }
        next
    }

    fn perform(
        &mut self,
        to: ReplyTo,
        key: EffectKey,
        terminal: Option<Terminal>,
        is_single_command: bool,
        next: &mut Next,
    ) {
        if self.is_mutated(Mutation::OpeningEndsWithItsConnection) {
            let known = terminal.and_then(|terminal| self.ran.get(&(terminal, key.clone())));
            if self.orphaned.contains(&key) || key.effect == Effect::Run {
                // A new opening is in no ledger, and the ledger of commands is one of each terminal.
                match known {
                    Some(reply) => next.replies.push((to, reply.clone())),
                    None => {
                        next.work.push(Work::Act { key, terminal, is_single_command, is_noted: false, to: Some(to) });
                    }
                }
                return;
            }
        }
        match self.desk.request(key.clone(), true, to, key.clone()) {
            Admission::Perform => {
                next.work.push(Work::Act { key, terminal, is_single_command, is_noted: true, to: None });
            }
            Admission::Wait => {}
            Admission::Answer(Reply::Opened(terminal))
                if self.is_mutated(Mutation::ClosedBeforeRecorded) && !self.open.contains(&terminal) =>
            {
                next.replies.push((to, Reply::OpenedBefore));
            }
            Admission::Answer(reply) => next.replies.push((to, reply)),
            Admission::Unknown => next.replies.push((to, Reply::OutcomeUnknown)),
        }
    }

    /// Continues an effect.
    pub(crate) fn work(&mut self, work: Work) -> Next {
        let mut next = Next::default();
        match work {
            Work::Act { key, terminal, is_single_command, is_noted, to } => {
                if is_noted && self.given_up.remove(&key) && key.effect != Effect::Open {
                    // The terminal enters nothing for a step that its daemon has given up before.
                    let end = self.desk.end(&key, EffectEnd::Lost);
                    next.replies.extend(end.into_iter().map(|to| (to, Reply::OutcomeUnknown)));
                    return next;
                }
                let is_gone = terminal.is_some_and(|terminal| !self.open.contains(&terminal));
                if is_gone {
                    return self.refuse(&key, is_noted, to, &Reply::NoTerminal);
                }
                if key.effect == Effect::Open && self.open.len() >= MAX_TERMINALS {
                    let work = Work::Act { key, terminal, is_single_command, is_noted, to };
                    self.waiting.push_back(work);
                    return next;
                }
                let reply = match key.effect {
                    Effect::Open => {
                        let id = self.next_terminal;
                        self.next_terminal += 1;
                        self.open.insert(id);
                        self.opened.insert(key.step.clone(), id);
                        if is_single_command {
                            self.shells.insert(id);
                        }
                        if is_single_command && is_noted && self.desk.add_shell(&key, id).is_some() {
                            self.close(id, &mut next);
                        }
                        Reply::Opened(id)
                    }
                    Effect::Close => {
                        if let Some(terminal) = terminal {
                            self.close(terminal, &mut next);
                        }
                        Reply::Done
                    }
                    Effect::Run | Effect::Type | Effect::Write | Effect::Call => Reply::Done,
                };
                if let (Effect::Run, Some(terminal)) = (key.effect, terminal) {
                    self.ran.insert((terminal, key.clone()), reply.clone());
                }
                next.acted = Some(key.clone());
                next.work.push(Work::Finish { key, reply, is_noted, to });
            }
            Work::Finish { key, reply, is_noted, to } => {
                if is_noted {
                    let waiters = self.desk.end(&key, EffectEnd::Performed(reply.clone(), 8));
                    next.replies.extend(waiters.into_iter().map(|to| (to, reply.clone())));
                }
                next.replies.extend(to.map(|to| (to, reply)));
            }
        }
        next
    }

    fn refuse(&mut self, key: &EffectKey, is_noted: bool, to: Option<ReplyTo>, reply: &Reply) -> Next {
        let waiters = if is_noted { self.desk.end(key, EffectEnd::Refused) } else { Vec::new() };
        let replies = waiters.into_iter().chain(to).map(|to| (to, reply.clone())).collect();
        Next { replies, ..Next::default() }
    }

    /// Closes a terminal, which makes room for an opening that waits.
    fn close(&mut self, terminal: Terminal, next: &mut Next) {
        self.shells.remove(&terminal);
        if self.open.remove(&terminal) {
            next.work.extend(self.waiting.pop_front());
        }
    }
}
