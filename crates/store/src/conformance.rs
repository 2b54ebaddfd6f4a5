//! Tests that every journal must pass.

use async_recursion::async_recursion as boxed;
use steplatch_ids::RunId;

use crate::{Append, AppendError, Appended, Journal, KnownRun, Retention, RunFilter, Summary};

/// Tests that [`conformance!`](crate::conformance) runs against a journal.
#[derive(Debug)]
pub struct JournalConformance<J> {
    journal: J,
    run: RunId,
}

impl<J: Journal> JournalConformance<J> {
    /// Tests an empty `journal`.
    pub fn new(journal: J) -> Self {
        Self { journal, run: RunId::random() }
    }

    /// Appends three entries in two appends and reads all of them, then some from the middle.
    #[boxed]
    pub async fn entries_are_read_back_in_order(&self) {
        self.append(0, &["one", "two"]).await.expect("appending to an empty history succeeds");
        self.append(2, &["three"]).await.expect("appending after the last entry succeeds");
        assert_eq!(self.texts(1).await, [(1, "one".into()), (2, "two".into()), (3, "three".into())]);
        assert_eq!(self.texts(3).await, [(3, "three".into())]);
        assert!(self.texts(4).await.is_empty());
        for (from, limit, expected) in [(1, 2, 1..3), (2, 1, 2..3), (2, 9, 2..4), (4, 1, 4..4), (1, 0, 1..1)] {
            let records = self.journal.read_some(&self.run, from, limit).await.expect("the history is complete");
            assert!(records.iter().map(|record| record.seq).eq(expected), "{limit} from {from}");
        }
    }

    /// Appends with an outdated last entry.
    #[boxed]
    pub async fn outdated_writer_is_refused_and_changes_nothing(&self) {
        self.append(0, &["one"]).await.expect("appending to an empty history succeeds");
        let outdated = Append::new(self.run.clone(), 0, 1, vec!["other".into()]);
        let result = self.journal.write(outdated.with_summary(running("other")).with_key("other")).await;
        assert!(matches!(result, Err(AppendError::Conflict { expected: 0, is: 1, .. })));
        assert_eq!(self.texts(1).await, [(1, "one".into())]);
        assert_eq!(self.known().await[0].summary, None);
        assert_eq!(self.journal.run_with_key("other").await.expect("the journal is readable"), None);
    }

    /// Stores two runs and forgets one.
    #[boxed]
    pub async fn runs_are_independent_and_can_be_forgotten(&self) {
        self.append(0, &["mine"]).await.expect("appending to an empty history succeeds");
        let other_run = RunId::random();
        self.journal
            .append(&other_run, 0, 1, vec!["theirs".into()])
            .await
            .expect("appending to an empty history succeeds");
        let runs: Vec<RunId> = self.known().await.into_iter().map(|known| known.run).collect();
        assert_eq!(runs, [other_run.clone(), self.run.clone()], "the newest is first");
        self.journal.forget(&self.run).await.expect("the run is removed");
        let remaining_runs = self.known().await;
        assert_eq!((remaining_runs.len(), &remaining_runs[0].run), (1, &other_run));
        assert!(self.texts(1).await.is_empty());
        self.append(0, &["again"]).await.expect("a removed run id can be used again");
        assert!(self.known().await[0].number > remaining_runs[0].number);
    }

    /// Stores every kind of text unchanged: empty, in other scripts, and much longer than a page.
    #[boxed]
    pub async fn text_of_any_length_is_read_back_unchanged(&self) {
        let long: String = (0..60_000).map(|line| format!("{line} ärger ✂\r\n")).collect();
        let texts = ["", "\u{0}", "ä🦀", &long, "short", &long];
        self.append(0, &texts).await.expect("appending succeeds");
        let stored_texts: Vec<String> = self.texts(1).await.into_iter().map(|(_, text)| text).collect();
        assert!(stored_texts == texts, "the stored text differs from the written text");
    }

    /// Appends entries with summaries and lists the runs.
    #[boxed]
    pub async fn list_has_the_newest_summaries_and_can_be_filtered(&self) {
        for name in ["a", "b", "c"] {
            let append = Append::new(RunId::random(), 0, 1, vec!["begun".into()]).with_summary(running(name));
            self.journal.write(append).await.expect("appending to an empty history succeeds");
        }
        let all = self.known().await;
        assert_eq!(names(&all), ["c", "b", "a"]);
        let finish = Append::new(all[1].run.clone(), 1, 1, vec!["over".into()]).with_summary(finished("b", 7));
        self.journal.write(finish).await.expect("appending after the last entry succeeds");
        // Entries without a summary keep the stored summary. A summary without entries replaces it.
        self.journal.append(&all[2].run, 1, 1, vec!["on".into()]).await.expect("appending succeeds");
        let renamed = Append::new(all[2].run.clone(), 2, 1, Vec::new()).with_summary(running("A"));
        let written = self.journal.write(renamed).await.expect("a summary can be written alone");
        assert_eq!(written, Appended::Written { last: 2 });

        let all = self.known().await;
        assert_eq!(names(&all), ["c", "b", "A"]);
        assert_eq!(all.iter().map(|known| known.last).collect::<Vec<_>>(), [1, 2, 2]);
        assert_eq!(all[1].summary, Some(finished("b", 7)));
        let running = self.list(RunFilter { state: Some("running".into()), ..RunFilter::default() }).await;
        assert_eq!(names(&running), ["c", "A"]);
        let unfinished = self.list(RunFilter { finished: Some(false), ..RunFilter::default() }).await;
        assert_eq!(names(&unfinished), ["c", "A"]);
        let finished = RunFilter { finished: Some(true), state: Some("completed".into()), ..RunFilter::default() };
        assert_eq!(names(&self.list(finished).await), ["b"]);
        let first_page = self.list(RunFilter { limit: Some(2), ..RunFilter::default() }).await;
        assert_eq!(names(&first_page), ["c", "b"]);
        let next_page = self.list(RunFilter { before: Some(first_page[1].number), ..RunFilter::default() }).await;
        assert_eq!(names(&next_page), ["A"]);
    }

    /// Appends no entries to an unknown run.
    #[boxed]
    pub async fn run_without_entries_does_not_exist(&self) {
        let nothing = Append::new(self.run.clone(), 0, 1, Vec::new()).with_summary(running("a")).with_key("k");
        assert_eq!(self.journal.write(nothing).await.expect("an empty append succeeds"), Appended::Written { last: 0 });
        assert!(self.known().await.is_empty());
        assert_eq!(self.journal.run_with_key("k").await.expect("the journal is readable"), None);
    }

    /// Finds an existing run and does not find a missing one.
    #[boxed]
    pub async fn run_is_found_by_its_id(&self) {
        let append = Append::new(self.run.clone(), 0, 1, vec!["begun".into()]).with_summary(running("a"));
        self.journal.write(append).await.expect("appending to an empty history succeeds");
        let found = self.journal.find(&self.run).await.expect("the journal is readable");
        assert_eq!(found, self.known().await.pop());
        assert_eq!(self.journal.find(&RunId::random()).await.expect("the journal is readable"), None);
    }

    /// Stores private data, changes it, and finishes the run.
    #[boxed]
    pub async fn private_part_is_kept_until_the_run_ends(&self) {
        let private = || async { self.journal.private(&self.run).await.expect("the journal is readable") };
        assert_eq!(private().await, None);
        let write = |after, texts: &[&str]| {
            Append::new(self.run.clone(), after, 1, texts.iter().map(ToString::to_string).collect())
        };
        let begun = write(0, &["begun"]).with_private("one").with_summary(running("a"));
        self.journal.write(begun).await.expect("appending to an empty history succeeds");
        assert_eq!(private().await.as_deref(), Some("one"));
        self.journal.write(write(1, &["on"])).await.expect("appending succeeds");
        assert_eq!(private().await.as_deref(), Some("one"), "an append without private data keeps the stored data");
        self.journal.write(write(2, &["on"]).with_private("two")).await.expect("appending succeeds");
        assert_eq!(private().await.as_deref(), Some("two"));
        self.journal.write(write(3, &["over"]).with_summary(finished("a", 7))).await.expect("appending succeeds");
        assert_eq!(private().await, None);
    }

    /// Replaces the texts of short and long entries. Refuses this from an outdated writer.
    #[boxed]
    pub async fn entry_with_a_secret_is_replaced_by_a_masked_one(&self) {
        let long = "a long secret ".repeat(5_000);
        self.append(0, &["a secret", "two", &long]).await.expect("appending to an empty history succeeds");
        let other_run = RunId::random();
        self.journal
            .append(&other_run, 0, 1, vec![long.clone()])
            .await
            .expect("appending to an empty history succeeds");
        let mut append = Append::new(self.run.clone(), 3, 1, vec!["four".into()]);
        append.redacted = vec![(1, "•".into()), (3, "• ".repeat(20_000)), (4, "not there yet".into())];
        let outdated = Append { after: 2, ..append.clone() };
        assert!(matches!(self.journal.write(outdated).await, Err(AppendError::Conflict { .. })));
        self.journal.write(append).await.expect("appending after the last entry succeeds");
        let texts: Vec<String> = self.texts(1).await.into_iter().map(|(_, text)| text).collect();
        assert_eq!(texts, ["•".to_owned(), "two".into(), "• ".repeat(20_000), "four".into()]);
        let other_records = self.journal.read(&other_run, 1).await.expect("the history is complete");
        assert_eq!(other_records[0].text, long, "identical text in another run is unchanged");
    }

    /// Starts two runs with one key.
    #[boxed]
    pub async fn key_belongs_to_one_run_until_forgotten(&self) {
        let begin = |run: &RunId| Append::new(run.clone(), 0, 1, vec!["begun".into()]).with_key("deploy 7");
        let written = self.journal.write(begin(&self.run)).await.expect("appending to an empty history succeeds");
        assert_eq!(written, Appended::Written { last: 1 });
        let second = RunId::random();
        for run in [&second, &self.run] {
            let existing = self.journal.write(begin(run)).await.expect("a repeated start succeeds");
            assert_eq!(existing, Appended::Existing { run: self.run.clone() });
        }
        assert_eq!(self.known().await.len(), 1, "no second run exists");
        let found = self.journal.run_with_key("deploy 7").await.expect("the journal is readable");
        assert_eq!(found, Some(self.run.clone()));
        self.journal.forget(&self.run).await.expect("the run is removed");
        let written = self.journal.write(begin(&second)).await.expect("appending to an empty history succeeds");
        assert_eq!(written, Appended::Written { last: 1 });
    }

    /// Finishes runs out of order and forgets some by count, then some by age.
    #[boxed]
    pub async fn finished_runs_are_forgotten_by_count_and_by_age(&self) {
        for (name, at) in
            [("early", Some(10)), ("late", Some(40)), ("on", None), ("middle", Some(20)), ("end", Some(30))]
        {
            let summary = at.map_or_else(|| running(name), |at| finished(name, at));
            let append = Append::new(RunId::random(), 0, 1, vec!["begun".into()]).with_summary(summary);
            self.journal.write(append.with_key(name)).await.expect("appending to an empty history succeeds");
        }
        let before = self.known().await;
        let id = |name: &str| {
            before.iter().find(|known| names(&[(*known).clone()]) == [name]).map(|known| known.run.clone())
        };
        let forgotten_ids = self.forget_finished(Retention { keep: 3, finished_since: None }).await;
        assert_eq!(forgotten_ids, [id("early").expect("the run existed before")]);
        let forgotten_ids = self.forget_finished(Retention { keep: 3, finished_since: Some(30) }).await;
        assert_eq!(forgotten_ids, [id("middle").expect("the run existed before")]);
        assert_eq!(names(&self.known().await), ["end", "on", "late"]);
        assert_eq!(self.journal.run_with_key("early").await.expect("the journal is readable"), None);
        let forgotten_ids = self.forget_finished(Retention { keep: 0, finished_since: None }).await;
        assert_eq!(
            forgotten_ids,
            [id("end").expect("the run existed before"), id("late").expect("the run existed before")]
        );
        assert_eq!(names(&self.known().await), ["on"], "unfinished runs are kept");
    }

    async fn append(&self, after: u64, texts: &[&str]) -> Result<u64, AppendError> {
        let texts = texts.iter().map(|&text| text.to_owned()).collect();
        self.journal.append(&self.run, after, 1, texts).await
    }

    async fn texts(&self, from: u64) -> Vec<(u64, String)> {
        let records = self.journal.read(&self.run, from).await.expect("the history is complete");
        records.into_iter().map(|record| (record.seq, record.text)).collect()
    }

    async fn known(&self) -> Vec<KnownRun> {
        self.list(RunFilter::default()).await
    }

    async fn list(&self, filter: RunFilter) -> Vec<KnownRun> {
        self.journal.runs(filter).await.expect("the journal is readable")
    }

    async fn forget_finished(&self, retention: Retention) -> Vec<RunId> {
        self.journal.forget_finished(retention).await.expect("expired runs are removed")
    }
}

fn running(name: &str) -> Summary {
    Summary { state: "running".into(), finished_at: None, text: name.into() }
}

fn finished(name: &str, at: u64) -> Summary {
    Summary { state: "completed".into(), finished_at: Some(at), text: name.into() }
}

fn names(runs: &[KnownRun]) -> Vec<&str> {
    runs.iter().filter_map(|known| Some(known.summary.as_ref()?.text.as_str())).collect()
}

/// Defines the tests that every journal must pass. `$journal` creates an empty journal.
#[macro_export]
macro_rules! conformance {
    ($journal:expr) => {
        $crate::conformance!(@tests $journal;
            entries_are_read_back_in_order,
            outdated_writer_is_refused_and_changes_nothing,
            runs_are_independent_and_can_be_forgotten,
            text_of_any_length_is_read_back_unchanged,
            list_has_the_newest_summaries_and_can_be_filtered,
            run_without_entries_does_not_exist,
            run_is_found_by_its_id,
            private_part_is_kept_until_the_run_ends,
            entry_with_a_secret_is_replaced_by_a_masked_one,
            key_belongs_to_one_run_until_forgotten,
            finished_runs_are_forgotten_by_count_and_by_age
        );
    };
    (@tests $journal:expr; $($test:ident),+) => {
        $(
            #[tokio::test]
            async fn $test() {
                $crate::JournalConformance::new($journal).$test().await;
            }
        )+
    };
}
