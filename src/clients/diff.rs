//! The difference of two texts, as `diff -u` writes it.

use std::fmt::Write as _;

/// Lines that are shown before and after a change.
const AROUND: usize = 3;

/// Returns the change from `old` to `new` under the name of a file: one hunk, since the changes are at one place.
/// Without a difference the result is empty.
pub(crate) fn unified(name: &str, old: Option<&str>, new: &str) -> String {
    let text = old.unwrap_or_default();
    if text == new {
        return String::new();
    }
    let (before, after): (Vec<&str>, Vec<&str>) =
        (text.split_inclusive('\n').collect(), new.split_inclusive('\n').collect());
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(one, other)| one == other).count();
    let head = same(&mut before.iter().zip(&after));
    let shorter = before.len().min(after.len());
    let tail = same(&mut before.iter().rev().zip(after.iter().rev())).min(shorter - head);
    let from = head.saturating_sub(AROUND);
    let behind = tail.min(AROUND);
    let (removed, added) = (&before[head..before.len() - tail], &after[head..after.len() - tail]);
    let shared = head - from + behind;
    let mut out = format!("--- {}\n+++ {name}\n", if old.is_some() { name } else { "/dev/null" });
    let _ = writeln!(out, "@@ -{} +{} @@", range(from, removed.len() + shared), range(from, added.len() + shared));
    let pieces = [(' ', &before[from..head]), ('-', removed), ('+', added)];
    for (sign, lines) in pieces.into_iter().chain([(' ', &before[before.len() - tail..][..behind])]) {
        for line in lines {
            let _ = write!(out, "{sign}{line}");
            if !line.ends_with('\n') {
                out.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    out
}

/// Returns a range of lines in the format's notation: from 1 on, but the line before when the range is empty.
fn range(from: usize, lines: usize) -> String {
    format!("{},{lines}", if lines == 0 { from } else { from + 1 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_change_is_shown_with_what_is_around_it() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let new = "a\nb\nc\nd\nE\nf\ng\nh\n";
        assert_eq!(
            unified("x.json", Some(old), new),
            "--- x.json\n+++ x.json\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n"
        );
    }

    #[test]
    fn files_that_begin_and_last_lines_that_do_not_end_are_told() {
        assert_eq!(unified("x", None, "a\n"), "--- /dev/null\n+++ x\n@@ -0,0 +1,1 @@\n+a\n");
        assert_eq!(
            unified("x", Some("a"), "a\nb\n"),
            "--- x\n+++ x\n@@ -1,1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n"
        );
        assert_eq!(unified("x", Some("a\na\n"), "a\na\na\n"), "--- x\n+++ x\n@@ -1,2 +1,3 @@\n a\n a\n+a\n");
        assert_eq!(unified("x", Some("a"), "a"), "");
    }
}
