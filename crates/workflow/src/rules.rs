//! The differences between the versions of the rules.
//!
//! A run follows the rules that it began with ([`SEMANTICS_VERSION`](crate::SEMANTICS_VERSION)), so a run that an older
//! daemon left in the journal ends as its author expected. Each difference has a method here, and the code that differs
//! calls it. Versions 1 to 3 added entries and decide alike; versions 4 to 6 changed decisions.

/// The rules that one run follows.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Rules {
    version: u32,
}

impl Rules {
    /// Returns the rules of a version.
    pub(crate) const fn for_version(version: u32) -> Self {
        Self { version }
    }

    /// From 4: `on_timeout` applies after any failed action that no transition takes. Before: only after a wait that
    /// found nothing.
    pub(crate) fn failure_goes_on_timeout(self) -> bool {
        self.version >= 4
    }

    /// From 4: a terminal that `exit_terminal` closed is never the default again, and one that a nested run left open
    /// becomes the terminal of a run that has none.
    pub(crate) fn follows_terminals(self) -> bool {
        self.version >= 4
    }

    /// From 4: a null in a result does not overwrite a variable. Before: it does, and an action without an `error` sets that to
    /// null.
    pub(crate) fn null_overwrites(self) -> bool {
        self.version < 4
    }

    /// From 4: the search for a pattern is in `match_text` and in `screen_content` by themselves as well as in both in
    /// one line, and on the screen of the run's terminal where the result has neither. Before: only in both in one
    /// line.
    pub(crate) fn searches_each_text(self) -> bool {
        self.version >= 4
    }

    /// From 4: a secret argument has an export only if declared so. Before: always.
    pub(crate) fn exports_secrets(self) -> bool {
        self.version < 4
    }

    /// From 5: a placeholder without a value fails the run before its action begins. Before: it stays in the text
    /// unchanged.
    pub(crate) fn refuses_unresolved(self) -> bool {
        self.version >= 5
    }

    /// From 5: `{NAME}` of an argument is its value, exported or not, and its default until it has another. Before:
    /// only of initial arguments, and of arguments without an export.
    pub(crate) fn fills_arguments(self) -> bool {
        self.version >= 5
    }

    /// From 5: `{name.part}` reaches into a value. Before: it is not a placeholder.
    pub(crate) fn has_paths(self) -> bool {
        self.version >= 5
    }

    /// From 5: `{output}` is what the last action that has such a field printed.
    pub(crate) fn has_output(self) -> bool {
        self.version >= 5
    }

    /// From 5: a wait for output that ended without what it waited for has failed. Before: it has succeeded.
    pub(crate) fn unmatched_wait_fails(self) -> bool {
        self.version >= 5
    }

    /// From 5: the groups of a wait's match are an object, by number and by name, and named groups are variables. Before: a
    /// list of texts, the first group first.
    pub(crate) fn names_groups(self) -> bool {
        self.version >= 5
    }

    /// From 6: the output of a command has no newlines at its end, as in a shell's `$(…)`; `raw_output` has them.
    /// Before: `output` is the printed text.
    pub(crate) fn trims_output(self) -> bool {
        self.version >= 6
    }

    /// From 6: `failed` of a `parallel` and of a `for_each` lists what failed, with its item, its error and its run. Before: a
    /// `parallel` lists indices or names, and a `for_each` that runs in turn has no such field.
    pub(crate) fn describes_failures(self) -> bool {
        self.version >= 6
    }

    /// From 5: `{visits}` is how often the run entered the state.
    pub(crate) fn counts_visits(self) -> bool {
        self.version >= 5
    }

    /// From 5: a run that completes closes the terminals that it opened, unless it is to keep them; the run above
    /// closes the terminals of a nested run. Before: they stay open.
    pub(crate) fn closes_terminals(self) -> bool {
        self.version >= 5
    }
}
