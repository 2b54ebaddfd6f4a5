//! Titles that a program saved (XTWINOPS 22 and 23 of xterm's ctlseqs).

/// Maximum number of titles, as in xterm. A new title then replaces the oldest.
const MAX_TITLES: usize = 10;

/// A stack of window titles. There is no stack of icon titles.
#[derive(Debug, Default)]
pub(super) struct Titles(Vec<String>);

impl Titles {
    pub(super) fn push(&mut self, title: String) {
        if self.0.len() == MAX_TITLES {
            self.0.remove(0);
        }
        self.0.push(title);
    }

    pub(super) fn pop(&mut self) -> Option<String> {
        self.0.pop()
    }
}
