//! Texts embedded in the program, and the commands that list and print them.

use std::io;

use serde_json::{Value, json};

use crate::print::{self, QUIET};

/// The texts of one command.
pub(super) struct Bundle {
    /// The name and the text of each.
    pub(super) texts: &'static [(&'static str, &'static str)],
    /// Property of the list in JSON.
    pub(super) list_key: &'static str,
    /// Property of an entry's summary in JSON.
    pub(super) summary_key: &'static str,
    /// Returns the summary of text.
    pub(super) summarize: fn(&str) -> String,
    /// Remark below the list.
    pub(super) remark: &'static str,
}

impl Bundle {
    /// Returns the names, for the command line.
    pub(super) fn names(&self) -> clap::builder::PossibleValuesParser {
        self.texts.iter().map(|(name, _)| *name).collect::<Vec<_>>().into()
    }

    /// Prints the list, or with `show` the text of this name.
    pub(super) fn print(
        &self,
        name: Option<&str>,
        json: bool,
        show: impl FnOnce(&str) -> io::Result<()>,
    ) -> io::Result<()> {
        let summarize = self.summarize;
        match self.texts.iter().find(|(known, _)| Some(*known) == name) {
            Some((name, text)) if json => print::json(&json!({"success": true, "name": name, "text": text})),
            Some((_, text)) => show(text),
            None if json => {
                let texts = self.texts.iter();
                let entries: Vec<Value> =
                    texts.map(|(name, text)| json!({"name": name, (self.summary_key): summarize(text)})).collect();
                print::json(&json!({"success": true, (self.list_key): entries}))
            }
            None => {
                let width = self.texts.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
                for (name, text) in self.texts {
                    print::line(format!("{}  {QUIET}{}{QUIET:#}", print::padded(name, width), summarize(text)))?;
                }
                print::remark(self.remark);
                Ok(())
            }
        }
    }
}
