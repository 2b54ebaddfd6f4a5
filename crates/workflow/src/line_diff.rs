//! The difference of two texts by lines, as `diff -u` writes it. Pure.

use std::fmt::Write as _;
use std::ops::Range;

/// Number of lines that are shown before and after a change.
const CONTEXT_LINES: usize = 3;

/// Maximum number of differing lines for which the shortest difference is looked for. With more, everything between the
/// first and the last one counts as changed.
const MAX_STEPS: usize = 1000;

/// One change: these lines of the old text are replaced by those of the new one.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    removed: Range<usize>,
    added: Range<usize>,
}

/// Returns the changes from `old` to `new` under the name of a file. Without a difference the result is empty.
#[must_use]
pub fn unified(name: &str, old: Option<&str>, new: &str) -> String {
    between((if old.is_some() { name } else { "/dev/null" }, old.unwrap_or_default()), (name, new))
}

/// Returns the changes from one named text to another. Without a difference the result is empty.
#[must_use]
pub fn between((old_name, old): (&str, &str), (new_name, new): (&str, &str)) -> String {
    let before: Vec<&str> = old.split_inclusive('\n').collect();
    let after: Vec<&str> = new.split_inclusive('\n').collect();
    let changes = changes(&before, &after);
    if changes.is_empty() {
        return String::new();
    }
    let mut out = format!("--- {old_name}\n+++ {new_name}\n");
    let mut rest = changes.as_slice();
    while let Some(first) = rest.first() {
        // Changes whose surroundings touch are one hunk.
        let is_near = |pair: &[Change]| pair[1].removed.start - pair[0].removed.end <= 2 * CONTEXT_LINES;
        let length = 1 + rest.windows(2).take_while(|pair| is_near(pair)).count();
        let (hunk, others) = rest.split_at(length);
        rest = others;
        let last = &hunk[length - 1];
        let from = first.removed.start.saturating_sub(CONTEXT_LINES);
        let to = (last.removed.end + CONTEXT_LINES).min(before.len());
        let new_from = first.added.start - (first.removed.start - from);
        let new_to = last.added.end + (to - last.removed.end);
        let _ = writeln!(out, "@@ -{} +{} @@", range(from, to - from), range(new_from, new_to - new_from));
        let mut at = from;
        for Change { removed, added } in hunk {
            write_lines(&mut out, ' ', &before[at..removed.start]);
            write_lines(&mut out, '-', &before[removed.clone()]);
            write_lines(&mut out, '+', &after[added.clone()]);
            at = removed.end;
        }
        write_lines(&mut out, ' ', &before[at..to]);
    }
    out
}

fn write_lines(out: &mut String, sign: char, lines: &[&str]) {
    for line in lines {
        let _ = write!(out, "{sign}{line}");
        if !line.ends_with('\n') {
            out.push_str("\n\\ No newline at end of file\n");
        }
    }
}

/// Returns a range of lines in the format's notation: from 1 on, but the line before when the range is empty.
fn range(from: usize, lines: usize) -> String {
    format!("{},{lines}", if lines == 0 { from } else { from + 1 })
}

/// Returns the changes, in order. Adjacent ones are one.
fn changes(before: &[&str], after: &[&str]) -> Vec<Change> {
    let same = |pairs: &mut dyn Iterator<Item = (&&str, &&str)>| pairs.take_while(|(one, other)| one == other).count();
    let head = same(&mut before.iter().zip(after));
    let shorter = before.len().min(after.len());
    let tail = same(&mut before.iter().rev().zip(after.iter().rev())).min(shorter - head);
    let (old, new) = (&before[head..before.len() - tail], &after[head..after.len() - tail]);
    if old.is_empty() && new.is_empty() {
        return Vec::new();
    }
    let Some(kept) = common(old, new) else {
        return vec![Change { removed: head..head + old.len(), added: head..head + new.len() }];
    };
    let mut changes = Vec::new();
    let (mut x, mut y) = (0, 0);
    for (kept_x, kept_y) in kept.into_iter().chain([(old.len(), new.len())]) {
        if (x, y) != (kept_x, kept_y) {
            changes.push(Change { removed: head + x..head + kept_x, added: head + y..head + kept_y });
        }
        (x, y) = (kept_x + 1, kept_y + 1);
    }
    changes
}

/// Returns the lines of a longest common subsequence, by their places in both; nothing if the two differ too much. Myers, "An O(ND)
/// difference algorithm and its variations" (1986).
fn common(old: &[&str], new: &[&str]) -> Option<Vec<(usize, usize)>> {
    let most = (old.len() + new.len()).min(MAX_STEPS);
    // The furthest place on each diagonal after each number of steps. Diagonal 0 is in the middle.
    let mut furthest = vec![0_usize; 2 * most + 3];
    let middle = most + 1;
    let mut trace: Vec<Vec<usize>> = Vec::new();
    for step in 0..=most {
        trace.push(furthest[middle - step..=middle + step].to_vec());
        for place in (middle - step..=middle + step).step_by(2) {
            let goes_down =
                place == middle - step || (place != middle + step && furthest[place - 1] < furthest[place + 1]);
            let mut x = if goes_down { furthest[place + 1] } else { furthest[place - 1] + 1 };
            let mut y = (x + middle).checked_sub(place)?;
            while x < old.len() && y < new.len() && old[x] == new[y] {
                (x, y) = (x + 1, y + 1);
            }
            furthest[place] = x;
            if x >= old.len() && y >= new.len() {
                return Some(walked_back(&trace, (old.len(), new.len())));
            }
        }
    }
    None
}

/// Walks from the ends of both texts back to their beginnings. `trace` has the furthest places before each step.
fn walked_back(trace: &[Vec<usize>], end: (usize, usize)) -> Vec<(usize, usize)> {
    let (mut x, mut y) = end;
    let mut kept = Vec::new();
    for (step, furthest) in trace.iter().enumerate().rev() {
        // The diagonal, and its place in what was furthest before this step: diagonals -step to step.
        let place = x + step - y;
        let goes_down = place == 0 || (place != 2 * step && furthest[place - 1] < furthest[place + 1]);
        let from_x = match (step, goes_down) {
            (0, _) => 0,
            (_, true) => furthest[place + 1],
            (_, false) => furthest[place - 1],
        };
        let begin_x = if step > 0 && !goes_down { from_x + 1 } else { from_x };
        while x > begin_x && y > 0 {
            (x, y) = (x - 1, y - 1);
            kept.push((x, y));
        }
        if step > 0 {
            if goes_down { y -= 1 } else { x -= 1 }
        }
    }
    kept.reverse();
    kept
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

    #[test]
    fn changes_far_apart_are_hunks_of_their_own_and_near_ones_are_one() {
        let lines = |replaced: &[(usize, &str)]| {
            let line = |number: usize| {
                replaced
                    .iter()
                    .find(|(at, _)| *at == number)
                    .map_or_else(|| number.to_string(), |(_, text)| (*text).to_owned())
            };
            (0..30).map(|number| format!("{}\n", line(number))).collect::<String>()
        };
        let far = unified("x", Some(&lines(&[])), &lines(&[(3, "three"), (20, "twenty")]));
        assert_eq!(far.matches("@@ -").count(), 2, "{far}");
        assert!(far.contains("@@ -18,7 +18,7 @@\n 17\n 18\n 19\n-20\n+twenty\n 21\n 22\n 23\n"), "{far}");
        let near = unified("x", Some(&lines(&[])), &lines(&[(3, "three"), (8, "eight")]));
        assert_eq!(near.matches("@@ -").count(), 1, "{near}");
    }

    /// Applies the changes to the old text.
    fn applied(before: &[&str], after: &[&str]) -> Vec<String> {
        let (mut made, mut at) = (Vec::new(), 0);
        for change in changes(before, after) {
            made.extend(before[at..change.removed.start].iter().map(|line| (*line).to_owned()));
            made.extend(after[change.added.clone()].iter().map(|line| (*line).to_owned()));
            at = change.removed.end;
        }
        made.extend(before[at..].iter().map(|line| (*line).to_owned()));
        made
    }

    proptest::proptest! {
        #[test]
        fn the_changes_make_the_new_text_of_the_old_one(
            old in proptest::collection::vec("[abc]", 0..40), new in proptest::collection::vec("[abc]", 0..40)
        ) {
            let (before, after): (Vec<&str>, Vec<&str>) =
                (old.iter().map(String::as_str).collect(), new.iter().map(String::as_str).collect());
            proptest::prop_assert_eq!(applied(&before, &after), new.clone());
            // It is a shortest one.
            let mut longest = vec![vec![0_usize; after.len() + 1]; before.len() + 1];
            for x in 0..before.len() {
                for y in 0..after.len() {
                    longest[x + 1][y + 1] = if before[x] == after[y] { longest[x][y] + 1 }
                        else { longest[x][y + 1].max(longest[x + 1][y]) };
                }
            }
            let removed: usize = changes(&before, &after).iter().map(|change| change.removed.len()).sum();
            proptest::prop_assert_eq!(before.len() - removed, longest[before.len()][after.len()]);
        }
    }

    #[test]
    fn texts_that_differ_everywhere_are_one_change() {
        let old: Vec<String> = (0..3000).map(|number| format!("old {number}\n")).collect();
        let new: Vec<String> = (0..3000).map(|number| format!("new {number}\n")).collect();
        let made = unified("x", Some(&old.concat()), &new.concat());
        assert!(made.starts_with("--- x\n+++ x\n@@ -1,3000 +1,3000 @@\n-old 0\n"));
    }
}
