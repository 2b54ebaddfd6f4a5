//! The backtracking engine, with a count of its steps.
//!
//! Runs the patterns that the linear engine cannot: look-around, back-references, atomic groups. It follows CPython's
//! `_sre`, so that groups get the same text. Every step is counted, including steps inside look-around, and a search
//! with more steps than its text allows is aborted.

use crate::program::{CharMatcher, LoopStep, Program, Step};
use crate::syntax::{Anchor, RepeatMode};

/// Number of steps that a search may take in an empty text: about ten milliseconds in a release build.
const BASE_STEP_BUDGET: usize = 5_000_000;

/// Additional steps for each byte of text. The attempts at all positions of a line may each scan the line.
const STEPS_PER_BYTE: usize = 64;

/// Maximum number of open backtracking points. They limit the memory of a search to some tens of megabytes.
const MAX_BACKTRACK_POINTS: usize = 2_000_000;

/// The value of an empty slot.
const UNSET_SLOT: usize = usize::MAX;

/// A search was aborted because it exceeded a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetExceeded;

/// Finds the first match that begins at `from` or later; `from` is a character boundary.
///
/// Returns the slots of the run: start and end of the match, then start and end of each group. A group without a match
/// has [`usize::MAX`].
pub(crate) fn search(program: &Program, text: &str, from: usize) -> Result<Option<Vec<usize>>, BudgetExceeded> {
    let budget = BASE_STEP_BUDGET.saturating_add((text.len() - from).saturating_mul(STEPS_PER_BYTE));
    let mut run = Run { program, text, slots: vec![UNSET_SLOT; program.slot_count], stack: Vec::new(), budget };
    let mut at = from;
    loop {
        if let Some(first_bytes) = &program.first_bytes {
            let offset = text.as_bytes()[at..].iter().position(|byte| first_bytes[usize::from(*byte)]);
            let Some(offset) = offset else { return Ok(None) };
            // A byte inside a character may equal a first byte; the search skips it.
            at += offset;
            if !text.is_char_boundary(at) {
                at += 1;
                continue;
            }
        }
        if let Some(end) = run.attempt(0, at)? {
            run.slots[0] = at;
            run.slots[1] = end;
            return Ok(Some(run.slots));
        }
        match text[at..].chars().next() {
            Some(character) => at += character.len_utf8(),
            None => return Ok(None),
        }
    }
}

/// A backtracking point.
#[derive(Debug, Clone, Copy)]
enum Backtrack {
    /// Continue at another step.
    Resume { step: usize, at: usize },
    /// Start one more iteration of the lazy loop at this step.
    Iterate { step: usize, at: usize },
    /// Give back one character of a greedy repetition, down to `low`.
    Retreat { step: usize, at: usize, low: usize },
    /// Take one more character of a lazy repetition, at most `remaining`.
    Advance { step: usize, at: usize, remaining: u32 },
    /// Restore the former value of a slot.
    Restore { slot: usize, value: usize },
}

/// The next step and its position; `None` if the current step failed.
type Next = Option<(usize, usize)>;

struct Run<'a> {
    program: &'a Program,
    text: &'a str,
    slots: Vec<usize>,
    stack: Vec<Backtrack>,
    budget: usize,
}

impl Run<'_> {
    /// Runs from a step up to its `Accept` and returns the position there. A failed attempt restores all slots.
    ///
    /// Calls itself for independent parts; the nesting of groups bounds the recursion.
    fn attempt(&mut self, step: usize, at: usize) -> Result<Option<usize>, BudgetExceeded> {
        let base = self.stack.len();
        let (mut step, mut at) = (step, at);
        loop {
            self.spend(1)?;
            let program = self.program;
            let next = match &program.steps[step] {
                Step::Accept => {
                    self.commit(base)?;
                    return Ok(Some(at));
                }
                Step::One(matcher) => self.match_one(matcher, at).map(|at| (step + 1, at)),
                Step::Many { matcher, min, max, mode } => {
                    self.match_repeated(step, at, matcher, (*min, *max), *mode)?
                }
                Step::Anchor(anchor) => self.matches_anchor(*anchor, at).then_some((step + 1, at)),
                Step::Split { first, second } => {
                    self.push_backtrack(Backtrack::Resume { step: *second, at })?;
                    Some((*first, at))
                }
                Step::Jump(target) => Some((*target, at)),
                Step::Save(slot) => {
                    self.save_slot(*slot, at)?;
                    Some((step + 1, at))
                }
                Step::Enter { count_slot, start_slot } => {
                    self.save_slot(*count_slot, 0)?;
                    self.save_slot(*start_slot, UNSET_SLOT)?;
                    Some((step + 1, at))
                }
                Step::Loop(loop_step) => self.enter_or_leave_loop(step, at, loop_step)?,
                Step::Atomic { end } => self.attempt(step + 1, at)?.map(|at| (*end, at)),
                Step::Look { back, negated, end } => {
                    (self.match_look_around(step + 1, at, *back, *negated)? != *negated).then_some((*end, at))
                }
                Step::Backref { group, ignore_case } => {
                    self.match_backreference(*group, *ignore_case, at)?.map(|at| (step + 1, at))
                }
                Step::Condition { group, otherwise } => {
                    Some((if self.group(*group).is_some() { step + 1 } else { *otherwise }, at))
                }
            };
            let next = match next {
                Some(next) => Some(next),
                None => self.backtrack(base)?,
            };
            match next {
                Some(next) => (step, at) = next,
                None => return Ok(None),
            }
        }
    }

    /// Discards the backtracking points since `base`. Restore points stay: points before `base` may need them.
    fn commit(&mut self, base: usize) -> Result<(), BudgetExceeded> {
        self.spend(self.stack.len() - base)?;
        let mut new_len = base;
        for index in base..self.stack.len() {
            if matches!(self.stack[index], Backtrack::Restore { .. }) {
                self.stack[new_len] = self.stack[index];
                new_len += 1;
            }
        }
        self.stack.truncate(new_len);
        Ok(())
    }

    /// Backtracks to the last point since `base`, restoring slots on the way.
    fn backtrack(&mut self, base: usize) -> Result<Next, BudgetExceeded> {
        let program = self.program;
        while self.stack.len() > base
            && let Some(point) = self.stack.pop()
        {
            self.spend(1)?;
            match point {
                Backtrack::Restore { slot, value } => self.slots[slot] = value,
                Backtrack::Resume { step, at } => return Ok(Some((step, at))),
                Backtrack::Iterate { step, at } => {
                    if let Step::Loop(loop_step) = &program.steps[step] {
                        return self.iterate(step, at, loop_step).map(Some);
                    }
                }
                Backtrack::Retreat { step, at, low } => {
                    let at = self.position_before(at, 1)?.unwrap_or(low);
                    if at > low {
                        self.push_backtrack(Backtrack::Retreat { step, at, low })?;
                    }
                    return Ok(Some((step, at)));
                }
                Backtrack::Advance { step, at, remaining } => {
                    if let Step::Many { matcher, .. } = &program.steps[step]
                        && let Some(at) = self.match_one(matcher, at)
                    {
                        if remaining > 1 {
                            self.push_backtrack(Backtrack::Advance { step, at, remaining: remaining - 1 })?;
                        }
                        return Ok(Some((step + 1, at)));
                    }
                }
            }
        }
        Ok(None)
    }

    fn match_repeated(
        &mut self,
        step: usize,
        at: usize,
        matcher: &CharMatcher,
        counts: (u32, u32),
        mode: RepeatMode,
    ) -> Result<Next, BudgetExceeded> {
        let (min, max) = counts;
        let required = if mode == RepeatMode::Lazy { min } else { max };
        let (mut end, mut low, mut count) = (at, at, 0);
        while count < required
            && let Some(next) = self.match_one(matcher, end)
        {
            self.spend(1)?;
            count += 1;
            end = next;
            if count == min {
                low = end;
            }
        }
        if count < min {
            return Ok(None);
        }
        match mode {
            RepeatMode::Greedy if end > low => {
                self.push_backtrack(Backtrack::Retreat { step: step + 1, at: end, low })?;
            }
            RepeatMode::Lazy if max > min => {
                self.push_backtrack(Backtrack::Advance { step, at: end, remaining: max - min })?;
            }
            RepeatMode::Greedy | RepeatMode::Lazy | RepeatMode::Possessive => {}
        }
        Ok(Some((step + 1, end)))
    }

    fn enter_or_leave_loop(&mut self, step: usize, at: usize, loop_step: &LoopStep) -> Result<Next, BudgetExceeded> {
        let iterations = self.slots[loop_step.count_slot];
        if iterations < loop_step.min as usize {
            return self.iterate(step, at, loop_step).map(Some);
        }
        // An iteration after an empty one would be empty, too.
        if iterations >= loop_step.max as usize || self.slots[loop_step.start_slot] == at {
            return Ok(Some((loop_step.exit, at)));
        }
        if loop_step.lazy {
            self.push_backtrack(Backtrack::Iterate { step, at })?;
            return Ok(Some((loop_step.exit, at)));
        }
        self.push_backtrack(Backtrack::Resume { step: loop_step.exit, at })?;
        self.iterate(step, at, loop_step).map(Some)
    }

    fn iterate(&mut self, step: usize, at: usize, loop_step: &LoopStep) -> Result<(usize, usize), BudgetExceeded> {
        let iterations = self.slots[loop_step.count_slot];
        self.save_slot(loop_step.count_slot, iterations.saturating_add(1))?;
        // Required iterations may be empty, so their start does not end the loop.
        if iterations >= loop_step.min as usize {
            self.save_slot(loop_step.start_slot, at)?;
        }
        Ok((step + 1, at))
    }

    /// Returns whether the inner part of a look-around matches `back` characters before `at`. The slots of a negated
    /// part are restored, because that part belongs to no match.
    fn match_look_around(&mut self, step: usize, at: usize, back: u64, negated: bool) -> Result<bool, BudgetExceeded> {
        let Some(start) = self.position_before(at, back)? else { return Ok(false) };
        let base = self.stack.len();
        let is_match = self.attempt(step, start)?.is_some();
        if negated {
            self.backtrack(base)?;
        }
        Ok(is_match)
    }

    /// Matches the text of a group again and returns the end of the repeated text.
    fn match_backreference(
        &mut self,
        group: usize,
        ignore_case: bool,
        at: usize,
    ) -> Result<Option<usize>, BudgetExceeded> {
        let Some((begin, end)) = self.group(group) else { return Ok(None) };
        let text = self.text;
        self.spend(end - begin)?;
        if !ignore_case {
            return Ok(text[at..].starts_with(&text[begin..end]).then_some(at + end - begin));
        }
        let mut remaining_text = text[at..].chars();
        for expected in text[begin..end].chars() {
            let is_same = |actual: char| actual == expected || actual.to_lowercase().eq(expected.to_lowercase());
            if !remaining_text.next().is_some_and(is_same) {
                return Ok(None);
            }
        }
        Ok(Some(text.len() - remaining_text.as_str().len()))
    }

    fn group(&self, group: usize) -> Option<(usize, usize)> {
        let (begin, end) = (self.slots[2 * group], self.slots[2 * group + 1]);
        (end != UNSET_SLOT && begin <= end).then_some((begin, end))
    }

    fn match_one(&self, matcher: &CharMatcher, at: usize) -> Option<usize> {
        let next = self.text[at..].chars().next()?;
        matcher.matches(next).then(|| at + next.len_utf8())
    }

    /// Returns the position `characters` before `at`, or `None` before the start of the text.
    fn position_before(&mut self, at: usize, characters: u64) -> Result<Option<usize>, BudgetExceeded> {
        let Ok(characters) = usize::try_from(characters) else { return Ok(None) };
        if characters == 0 {
            return Ok(Some(at));
        }
        self.spend(characters.min(at))?;
        Ok(self.text[..at].char_indices().nth_back(characters - 1).map(|(start, _)| start))
    }

    fn matches_anchor(&self, anchor: Anchor, at: usize) -> bool {
        let (before, after) = self.text.split_at(at);
        match anchor {
            Anchor::LineStart => before.is_empty() || before.ends_with('\n'),
            Anchor::LineEnd => after.is_empty() || after.starts_with('\n'),
            Anchor::TextStart => before.is_empty(),
            Anchor::TextEnd => after.is_empty(),
            Anchor::TextEndOrLastNewline => after.is_empty() || after == "\n",
            Anchor::WordBoundary { negated, ascii } => {
                let is_word_character =
                    |character: char| self.program.word.contains(character) && (character.is_ascii() || !ascii);
                let is_boundary = before.chars().next_back().is_some_and(is_word_character)
                    != after.chars().next().is_some_and(is_word_character);
                is_boundary != negated
            }
        }
    }

    fn spend(&mut self, steps: usize) -> Result<(), BudgetExceeded> {
        self.budget = self.budget.checked_sub(steps).ok_or(BudgetExceeded)?;
        Ok(())
    }

    fn push_backtrack(&mut self, point: Backtrack) -> Result<(), BudgetExceeded> {
        if self.stack.len() >= MAX_BACKTRACK_POINTS {
            return Err(BudgetExceeded);
        }
        self.stack.push(point);
        Ok(())
    }

    fn save_slot(&mut self, slot: usize, value: usize) -> Result<(), BudgetExceeded> {
        self.push_backtrack(Backtrack::Restore { slot, value: self.slots[slot] })?;
        self.slots[slot] = value;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::program::compile;
    use crate::syntax::parse;
    use crate::translate::{needs_backtracking, translate};

    /// Well formed patterns that both engines can run.
    fn patterns() -> impl Strategy<Value = String> {
        let atom = prop::sample::select(vec![
            "a", "b", "é", ".", r"\w", r"\W", "[ab]", "[^a]", "^", "$", r"\b", r"\A", r"\Z", "(?s:.)", r"\n",
        ]);
        let leaf = atom.prop_map(str::to_owned);
        leaf.prop_recursive(4, 24, 3, |inner| {
            let quantifiers = vec!["*", "+", "?", "*?", "+?", "??", "{2}", "{1,2}", "{,2}?", "{2,}"];
            prop_oneof![
                prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
                prop::collection::vec(inner.clone(), 1..4).prop_map(|branches| format!("({})", branches.join("|"))),
                (inner.clone(), prop::sample::select(quantifiers))
                    .prop_map(|(part, times)| format!("(?:{part}){times}")),
                inner.prop_map(|part| format!("(?i:{part})")),
            ]
        })
    }

    proptest! {
        #[test]
        fn both_engines_find_a_match_at_the_same_place(pattern in patterns(), text in "[abAé \n]{0,10}") {
            let syntax = parse(&pattern).expect("the pattern is well formed");
            prop_assert!(!needs_backtracking(&syntax.root));
            let linear = regex::Regex::new(&translate(&syntax.root)).expect("the linear engine supports the pattern");
            let program = compile(&syntax.root, syntax.names.len());
            let found = search(&program, &text, 0).map(|slots| slots.map(|slots| slots[0]));
            prop_assert_eq!(found, Ok(linear.find(&text).map(|found| found.start())));
        }
    }
}
