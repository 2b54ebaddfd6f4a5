//! The backtracking engine, which counts its steps.
//!
//! Runs the patterns that the linear engine cannot: look-around, back-references, atomic groups. It follows CPython's
//! `_sre`, so that groups get the same text. Every step is counted, including those inside look-around, and a search
//! that takes more steps than its text allows is aborted.

use crate::program::{CharMatcher, LoopStep, Program, Step};
use crate::syntax::{Anchor, RepeatMode};

/// Maximum number of steps of every search: some ten milliseconds in a release build.
const BASE_STEP_BUDGET: usize = 5_000_000;

/// Additional steps for each byte of text: a few for each character of a line, at each of its characters.
const STEPS_PER_BYTE: usize = 64;

/// Maximum number of open backtracking points, which bounds the memory of a search to some tens of megabytes.
const MAX_BACKTRACK_POINTS: usize = 2_000_000;

/// The value of an empty slot.
const UNSET_SLOT: usize = usize::MAX;

/// A search was aborted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BudgetExceeded;

/// Finds the first match that begins at `from` or later; `from` is a boundary of characters.
///
/// Returns the slots of the run: begin and end of the match, then of each group; [`usize::MAX`] for a group without a
/// match.
pub(crate) fn search(program: &Program, text: &str, from: usize) -> Result<Option<Vec<usize>>, BudgetExceeded> {
    let budget = BASE_STEP_BUDGET.saturating_add((text.len() - from).saturating_mul(STEPS_PER_BYTE));
    let mut run = Run { program, text, slots: vec![UNSET_SLOT; program.slots], stack: Vec::new(), budget };
    let mut at = from;
    loop {
        if let Some(first) = &program.first_bytes {
            let next = text.as_bytes()[at..].iter().position(|byte| first[usize::from(*byte)]);
            let Some(next) = next else { return Ok(None) };
            // A byte inside a character may equal a first byte, so the search continues to a boundary.
            at += next;
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
    /// Another step to continue with.
    Resume { step: usize, at: usize },
    /// One more iteration of the lazy loop at this step.
    Iterate { step: usize, at: usize },
    /// Give back one character of a greedy repetition, down to `low`.
    Retreat { step: usize, at: usize, low: usize },
    /// Take one more character of a lazy repetition, up to `left`.
    Advance { step: usize, at: usize, left: u32 },
    /// The former value of a slot, to restore.
    Restore { slot: usize, value: usize },
}

/// The target of a step: a step and a position, or `None`.
type Next = Option<(usize, usize)>;

struct Run<'a> {
    program: &'a Program,
    text: &'a str,
    slots: Vec<usize>,
    stack: Vec<Backtrack>,
    budget: usize,
}

impl Run<'_> {
    /// Runs from a step up to its `Accept`, and returns that position. A failed attempt restores all slots.
    ///
    /// Calls itself for independent parts, as deep as groups are nested.
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
                Step::One(one) => self.match_one(one, at).map(|at| (step + 1, at)),
                Step::Many { one, min, max, mode } => self.match_repeated(step, at, one, (*min, *max), *mode)?,
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
                Step::Enter { count, last } => {
                    self.save_slot(*count, 0)?;
                    self.save_slot(*last, UNSET_SLOT)?;
                    Some((step + 1, at))
                }
                Step::Loop(turn) => self.step_loop(step, at, turn)?,
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
        let mut kept = base;
        for index in base..self.stack.len() {
            if matches!(self.stack[index], Backtrack::Restore { .. }) {
                self.stack[kept] = self.stack[index];
                kept += 1;
            }
        }
        self.stack.truncate(kept);
        Ok(())
    }

    /// Backtracks to the last point since `base`, restoring slots on the way.
    fn backtrack(&mut self, base: usize) -> Result<Next, BudgetExceeded> {
        let program = self.program;
        while self.stack.len() > base
            && let Some(way) = self.stack.pop()
        {
            self.spend(1)?;
            match way {
                Backtrack::Restore { slot, value } => self.slots[slot] = value,
                Backtrack::Resume { step, at } => return Ok(Some((step, at))),
                Backtrack::Iterate { step, at } => {
                    if let Step::Loop(turn) = &program.steps[step] {
                        return self.iterate(step, at, turn).map(Some);
                    }
                }
                Backtrack::Retreat { step, at, low } => {
                    let at = self.position_before(at, 1)?.unwrap_or(low);
                    if at > low {
                        self.push_backtrack(Backtrack::Retreat { step, at, low })?;
                    }
                    return Ok(Some((step, at)));
                }
                Backtrack::Advance { step, at, left } => {
                    if let Step::Many { one, .. } = &program.steps[step]
                        && let Some(at) = self.match_one(one, at)
                    {
                        if left > 1 {
                            self.push_backtrack(Backtrack::Advance { step, at, left: left - 1 })?;
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
        one: &CharMatcher,
        counts: (u32, u32),
        mode: RepeatMode,
    ) -> Result<Next, BudgetExceeded> {
        let (min, max) = counts;
        let required = if mode == RepeatMode::Lazy { min } else { max };
        let (mut end, mut low, mut taken) = (at, at, 0);
        while taken < required
            && let Some(next) = self.match_one(one, end)
        {
            self.spend(1)?;
            taken += 1;
            end = next;
            if taken == min {
                low = end;
            }
        }
        if taken < min {
            return Ok(None);
        }
        match mode {
            RepeatMode::Greedy if end > low => {
                self.push_backtrack(Backtrack::Retreat { step: step + 1, at: end, low })?;
            }
            RepeatMode::Lazy if max > min => {
                self.push_backtrack(Backtrack::Advance { step, at: end, left: max - min })?;
            }
            RepeatMode::Greedy | RepeatMode::Lazy | RepeatMode::Possessive => {}
        }
        Ok(Some((step + 1, end)))
    }

    fn step_loop(&mut self, step: usize, at: usize, turn: &LoopStep) -> Result<Next, BudgetExceeded> {
        let done = self.slots[turn.count];
        if done < turn.min as usize {
            return self.iterate(step, at, turn).map(Some);
        }
        // After an empty iteration, another one would be empty, too.
        if done >= turn.max as usize || self.slots[turn.last] == at {
            return Ok(Some((turn.exit, at)));
        }
        if turn.lazy {
            self.push_backtrack(Backtrack::Iterate { step, at })?;
            return Ok(Some((turn.exit, at)));
        }
        self.push_backtrack(Backtrack::Resume { step: turn.exit, at })?;
        self.iterate(step, at, turn).map(Some)
    }

    fn iterate(&mut self, step: usize, at: usize, turn: &LoopStep) -> Result<(usize, usize), BudgetExceeded> {
        let done = self.slots[turn.count];
        self.save_slot(turn.count, done.saturating_add(1))?;
        // Required iterations may take nothing.
        if done >= turn.min as usize {
            self.save_slot(turn.last, at)?;
        }
        Ok((step + 1, at))
    }

    /// Returns whether the look-around at `step` matches here, or `back` characters earlier. Slots saved by a negated
    /// part are restored, because it is part of no match.
    fn match_look_around(&mut self, step: usize, at: usize, back: u64, negated: bool) -> Result<bool, BudgetExceeded> {
        let Some(start) = self.position_before(at, back)? else { return Ok(false) };
        let base = self.stack.len();
        let found = self.attempt(step, start)?.is_some();
        if negated {
            self.backtrack(base)?;
        }
        Ok(found)
    }

    /// Matches the text of a group again (a back-reference).
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
        let mut rest = text[at..].chars();
        for expected in text[begin..end].chars() {
            let same = |actual: char| actual == expected || actual.to_lowercase().eq(expected.to_lowercase());
            if !rest.next().is_some_and(same) {
                return Ok(None);
            }
        }
        Ok(Some(text.len() - rest.as_str().len()))
    }

    fn group(&self, group: usize) -> Option<(usize, usize)> {
        let (begin, end) = (self.slots[2 * group], self.slots[2 * group + 1]);
        (end != UNSET_SLOT && begin <= end).then_some((begin, end))
    }

    fn match_one(&self, one: &CharMatcher, at: usize) -> Option<usize> {
        let next = self.text[at..].chars().next()?;
        one.takes(next).then(|| at + next.len_utf8())
    }

    /// Returns the position `characters` earlier, if there is one.
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
                let word = |character: char| self.program.word.contains(character) && (character.is_ascii() || !ascii);
                let boundary = before.chars().next_back().is_some_and(word) != after.chars().next().is_some_and(word);
                boundary != negated
            }
        }
    }

    fn spend(&mut self, steps: usize) -> Result<(), BudgetExceeded> {
        self.budget = self.budget.checked_sub(steps).ok_or(BudgetExceeded)?;
        Ok(())
    }

    fn push_backtrack(&mut self, way: Backtrack) -> Result<(), BudgetExceeded> {
        if self.stack.len() >= MAX_BACKTRACK_POINTS {
            return Err(BudgetExceeded);
        }
        self.stack.push(way);
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
            let syntax = parse(&pattern).expect("a well formed pattern");
            prop_assert!(!needs_backtracking(&syntax.root));
            let linear = regex::Regex::new(&translate(&syntax.root)).expect("a pattern for the linear engine");
            let program = compile(&syntax.root, syntax.names.len());
            let found = search(&program, &text, 0).map(|slots| slots.map(|slots| slots[0]));
            prop_assert_eq!(found, Ok(linear.find(&text).map(|found| found.start())));
        }
    }
}
