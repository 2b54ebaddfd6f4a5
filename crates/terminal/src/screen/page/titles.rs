//! Titles that a program put aside for later (XTWINOPS 22 and 23 of xterm's ctlseqs).

/// Maximum titles, as in xterm; deeper stacks lose their oldest.
const MAX_TITLES: usize = 10;

/// A stack of window titles. Icons have none here.
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
