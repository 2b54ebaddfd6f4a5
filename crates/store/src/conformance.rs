//! What every journal must do, as tests.

use steplatch_ids::RunId;

use crate::{AppendError, Journal};

/// The script that [`conformance!`](crate::conformance) plays against a journal.
#[derive(Debug)]
pub struct Scripted<J> {
    journal: J,
    run: RunId,
}

impl<J: Journal> Scripted<J> {
    /// Plays against `journal`, which must be empty.
    pub fn new(journal: J) -> Self {
        Self { journal, run: RunId::random() }
    }

    /// Appends three entries in two goes and reads them back whole and from the middle.
    pub async fn entries_are_read_back_in_order(&self) {
        self.append(0, &["one", "two"]).await.expect("an append to an empty history");
        self.append(2, &["three"]).await.expect("an append behind the last entry");
        assert_eq!(self.texts(1).await, [(1, "one".into()), (2, "two".into()), (3, "three".into())]);
        assert_eq!(self.texts(3).await, [(3, "three".into())]);
        assert!(self.texts(4).await.is_empty());
    }

    /// Appends behind an entry that is not the last one.
    pub async fn a_writer_that_is_behind_is_refused_and_changes_nothing(&self) {
        self.append(0, &["one"]).await.expect("an append to an empty history");
        let refused = self.append(0, &["other"]).await;
        assert!(matches!(refused, Err(AppendError::Conflict { expected: 0, is: 1, .. })));
        assert_eq!(self.texts(1).await, [(1, "one".into())]);
    }

    /// Keeps two runs, forgets one.
    pub async fn runs_are_apart_and_can_be_forgotten(&self) {
        self.append(0, &["mine"]).await.expect("an append to an empty history");
        let other = RunId::random();
        self.journal.append(&other, 0, 1, vec!["theirs".into()]).await.expect("an append to an empty history");
        assert_eq!(self.journal.runs().await, [self.run.clone(), other.clone()]);
        self.journal.forget(&self.run).await;
        assert_eq!(self.journal.runs().await, [other]);
        assert!(self.texts(1).await.is_empty());
    }

    async fn append(&self, after: u64, texts: &[&str]) -> Result<u64, AppendError> {
        let texts = texts.iter().map(|&text| text.to_owned()).collect();
        self.journal.append(&self.run, after, 1, texts).await
    }

    async fn texts(&self, from: u64) -> Vec<(u64, String)> {
        let records = self.journal.read(&self.run, from).await;
        records.into_iter().map(|record| (record.seq, record.text)).collect()
    }
}

/// Makes the tests that every journal must pass; `$journal` makes an empty one.
#[macro_export]
macro_rules! conformance {
    ($journal:expr) => {
        #[tokio::test]
        async fn entries_are_read_back_in_order() {
            $crate::Scripted::new($journal).entries_are_read_back_in_order().await;
        }

        #[tokio::test]
        async fn a_writer_that_is_behind_is_refused_and_changes_nothing() {
            $crate::Scripted::new($journal).a_writer_that_is_behind_is_refused_and_changes_nothing().await;
        }

        #[tokio::test]
        async fn runs_are_apart_and_can_be_forgotten() {
            $crate::Scripted::new($journal).runs_are_apart_and_can_be_forgotten().await;
        }
    };
}
