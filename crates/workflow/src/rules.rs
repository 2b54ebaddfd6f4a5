//! The differences between the versions of the rules.
//!
//! A run follows the rules of its start ([`SEMANTICS_VERSION`](crate::SEMANTICS_VERSION)), so a run of an older daemon
//! in the journal ends as its author expected. Each difference is a method here, called by the affected code. Versions
//! 1 to 3 added entries without changing decisions; versions 4 to 6 changed decisions.

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

    /// From 4: `on_timeout` applies after any failed action if no transition holds. Before: only after a wait that
    /// found nothing.
    pub(crate) fn failure_goes_on_timeout(self) -> bool {
        self.version >= 4
    }

    /// From 4: a terminal that `exit_terminal` closed is never the default again. A terminal that a nested run left
    /// open becomes the terminal of a parent run that has none.
    pub(crate) fn follows_terminals(self) -> bool {
        self.version >= 4
    }

    /// From 4: a null in a result does not overwrite a variable. Before: it does, and an action without an `error` sets
    /// `error` to null.
    pub(crate) fn null_overwrites(self) -> bool {
        self.version < 4
    }

    /// From 4: a pattern is searched in `match_text`, in `screen_content` and in both joined by a space; if the result
    /// has neither, on the screen of the run's terminal. Before: only in the joined text.
    pub(crate) fn searches_each_text(self) -> bool {
        self.version >= 4
    }

    /// From 4: a secret argument is exported only if declared so. Before: always.
    pub(crate) fn exports_secrets(self) -> bool {
        self.version < 4
    }

    /// From 5: a placeholder without a value fails the run before its action begins. Before: the placeholder stays
    /// unchanged.
    pub(crate) fn refuses_unresolved(self) -> bool {
        self.version >= 5
    }

    /// From 5: `{NAME}` of an argument is its value, exported or not, or else its default. Before: only for initial
    /// arguments, and for arguments without an export.
    pub(crate) fn fills_arguments(self) -> bool {
        self.version >= 5
    }

    /// From 5: `{name.part}` is a placeholder for a part of a value. Before: it is not a placeholder.
    pub(crate) fn has_paths(self) -> bool {
        self.version >= 5
    }

    /// From 5: `{output}` is the output of the last action with such a field.
    pub(crate) fn has_output(self) -> bool {
        self.version >= 5
    }

    /// From 5: a wait that ended without the awaited output has failed. Before: it has succeeded.
    pub(crate) fn unmatched_wait_fails(self) -> bool {
        self.version >= 5
    }

    /// From 5: the groups of a wait's match are an object, by number and by name, and named groups are variables.
    /// Before: a list of texts, the first group first.
    pub(crate) fn names_groups(self) -> bool {
        self.version >= 5
    }

    /// From 6: the output of a command has no trailing newlines, as in a shell's `$(…)`; `raw_output` has them. Before:
    /// `output` is the printed text.
    pub(crate) fn trims_output(self) -> bool {
        self.version >= 6
    }

    /// From 6: `failed` of a `parallel` and of a `for_each` lists each failure with its item, error and run. Before: a
    /// `parallel` lists indices or names, and a sequential `for_each` has no such field.
    pub(crate) fn describes_failures(self) -> bool {
        self.version >= 6
    }

    /// From 5: `{visits}` is the number of visits to the state.
    pub(crate) fn counts_visits(self) -> bool {
        self.version >= 5
    }

    /// From 5: a run that completes closes its opened terminals, unless it must keep them; the parent run closes the
    /// terminals of a nested run. Before: they stay open.
    pub(crate) fn closes_terminals(self) -> bool {
        self.version >= 5
    }
}
