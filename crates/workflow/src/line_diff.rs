//! Line differences between two texts, in the format of `diff -u`.

use std::time::Duration;

use similar::TextDiff;

/// Number of unchanged lines before and after a change.
const CONTEXT_LINES: usize = 3;

/// Time limit for finding the shortest difference. A longer, correct difference follows after the limit.
const SEARCH_TIMEOUT: Duration = Duration::from_millis(500);

/// Returns the changes from `old` to `new` of a file with this name; empty if there are none.
#[must_use]
pub fn unified_diff(name: &str, old: Option<&str>, new: &str) -> String {
    diff_named((if old.is_some() { name } else { "/dev/null" }, old.unwrap_or_default()), (name, new))
}

/// Returns the changes from one named text to another; empty if there are none.
#[must_use]
pub fn diff_named((old_name, old): (&str, &str), (new_name, new): (&str, &str)) -> String {
    let diff = TextDiff::configure().timeout(SEARCH_TIMEOUT).diff_lines(old, new);
    diff.unified_diff().context_radius(CONTEXT_LINES).header(old_name, new_name).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn change_is_shown_with_its_context() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let new = "a\nb\nc\nd\nE\nf\ng\nh\n";
        assert_eq!(
            unified_diff("x.json", Some(old), new),
            "--- x.json\n+++ x.json\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n h\n"
        );
    }

    #[test]
    fn new_files_and_missing_final_newlines_are_marked() {
        assert_eq!(unified_diff("x", None, "a\n"), "--- /dev/null\n+++ x\n@@ -0,0 +1 @@\n+a\n");
        assert_eq!(
            unified_diff("x", Some("a"), "a\nb\n"),
            "--- x\n+++ x\n@@ -1 +1,2 @@\n-a\n\\ No newline at end of file\n+a\n+b\n"
        );
        assert_eq!(unified_diff("x", Some("a"), "a"), "");
    }
}
