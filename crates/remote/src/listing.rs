//! The lists of workflows that services return.
//!
//! Accepts an array or pages, over HTTP and as the result of an MCP tool. Invalid entries are omitted and reported.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use serde_json::Value;

use crate::answer_error::AnswerError;
use crate::entry::{RemoteWorkflow, parse_id};

/// Maximum number of workflows of one service.
pub const MAX_WORKFLOWS: usize = 1_000;
/// Maximum number of pages of one list.
pub const MAX_PAGES: usize = 100;
/// Maximum length of an answer.
pub const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of entries, including invalid ones.
const MAX_ENTRIES: usize = 5 * MAX_WORKFLOWS;
/// Maximum number of reported omissions.
const MAX_SKIPPED: usize = 50;

/// One page of a list of workflows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// The entries, not yet read.
    pub entries: Vec<Value>,
    /// Link to the next page, as the service sent it.
    pub next: Option<String>,
}

impl Page {
    /// Reads an answer: an array of entries, or a page with `results`.
    ///
    /// # Errors
    ///
    /// If the value is neither of them, as a fragment without a full stop.
    pub fn read(answer: Value) -> Result<Self, AnswerError> {
        let mut fields = match answer {
            Value::Array(entries) => return Ok(Self { entries, next: None }),
            Value::Object(fields) => fields,
            _ => return Err(AnswerError::NotList),
        };
        let Some(Value::Array(entries)) = fields.shift_remove("results") else {
            return Err(AnswerError::NoResults);
        };
        let next = match fields.shift_remove("next") {
            None | Some(Value::Null) => None,
            Some(Value::String(next)) if next.is_empty() => None,
            Some(Value::String(next)) => Some(next),
            Some(_) => return Err(AnswerError::NoNextPage),
        };
        Ok(Self { entries, next })
    }

    /// Reads the result of the MCP tool `workflows-list-tool`: its structured content (bare, or in the field `result`
    /// of an object, as some servers require), else the JSON in its text.
    ///
    /// # Errors
    ///
    /// If the tool failed or its result has no list, as a fragment without a full stop.
    pub fn read_tool_result(mut result: Value) -> Result<Self, AnswerError> {
        let texts: Vec<&str> = match result.get("content") {
            Some(Value::Array(content)) => content.iter().filter_map(|block| block.get("text")?.as_str()).collect(),
            _ => Vec::new(),
        };
        if result.get("isError") == Some(&Value::Bool(true)) {
            return Err(AnswerError::ToolFailed { message: crate::text::clean(&texts.join(" "), 300) });
        }
        let texts = texts.concat();
        match result.get_mut("structuredContent").map(Value::take) {
            Some(Value::Object(mut fields)) if !fields.contains_key("results") => match fields.shift_remove("result") {
                Some(list) => Self::read(list),
                None => Err(AnswerError::ToolWithoutList),
            },
            Some(list @ (Value::Object(_) | Value::Array(_))) => Self::read(list),
            _ => {
                let list = serde_json::from_str(&texts);
                Self::read(list.map_err(|_| AnswerError::ToolTextNotJson)?)
            }
        }
    }
}

/// The workflows that a service offers, from all pages of its list.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// The workflows, in the order of the service, with unique ids.
    pub workflows: Vec<RemoteWorkflow>,
    /// Omitted entries with their reasons, each as a sentence.
    pub skipped: Vec<String>,
    /// Ids of invalid entries.
    pub unreadable: BTreeSet<String>,
    /// True if the list is incomplete: a missing workflow may exist at the service.
    pub is_cut: bool,
    /// Number of read entries, including the omitted ones.
    pub entry_count: usize,
}

impl Listing {
    /// Reads the result of the MCP tool `workflows-list-tool`, see [`Page::read_tool_result`], on a thread that may
    /// block, because it may have a thousand schemas. Takes the first page only, because the tool is called once.
    ///
    /// # Errors
    ///
    /// Same as [`Page::read_tool_result`].
    #[boxed]
    pub async fn from_tool_result(result: Value) -> Result<Self, AnswerError> {
        crate::blocking::run_blocking(move || {
            let page = Page::read_tool_result(result)?;
            let has_more = page.next.is_some();
            let mut listing = Self::default();
            listing.add(page);
            if has_more {
                listing.mark_cut("The tool returned the first of several pages. The other pages are not read.");
            }
            Ok(listing)
        })
        .await
    }

    /// Adds the entries of a page. Omits entries beyond the maximum number, and then marks the list as incomplete.
    pub fn add(&mut self, page: Page) {
        let mut ids: BTreeSet<String> = self.workflows.iter().map(|workflow| workflow.id.clone()).collect();
        for entry in &page.entries {
            if self.workflows.len() == MAX_WORKFLOWS || self.entry_count == MAX_ENTRIES {
                return self
                    .mark_cut(&format!("The list has more than {MAX_WORKFLOWS} workflows; the others are omitted."));
            }
            self.entry_count += 1;
            match RemoteWorkflow::read(entry) {
                Ok(workflow) if !ids.insert(workflow.id.clone()) => {
                    self.add_skipped(format!("The id '{}' is listed twice; the first entry is used.", workflow.id));
                }
                Ok(workflow) => self.workflows.push(workflow),
                Err(reason) => match parse_id(entry.get("id")) {
                    Some(id) => {
                        self.add_skipped(format!("The workflow with the id '{id}' is omitted: {reason}."));
                        self.unreadable.insert(id);
                    }
                    None => self.add_skipped(format!("An entry is omitted: {reason}.")),
                },
            }
        }
    }

    /// Returns the workflows of this list in place of an older list. Keeps an older workflow if its entry is invalid
    /// now, or if the list is incomplete and lacks the workflow.
    #[must_use]
    pub fn replacing(self, old: &[RemoteWorkflow]) -> Vec<RemoteWorkflow> {
        let listed: BTreeSet<&str> = self.workflows.iter().map(|workflow| workflow.id.as_str()).collect();
        let is_kept = |workflow: &&RemoteWorkflow| {
            !listed.contains(workflow.id.as_str()) && (self.is_cut || self.unreadable.contains(&workflow.id))
        };
        let mut merged: Vec<RemoteWorkflow> = old.iter().filter(is_kept).cloned().collect();
        // Earlier workflows take precedence over new ones.
        let old_ids: BTreeSet<&str> = old.iter().map(|workflow| workflow.id.as_str()).collect();
        let (updated, added): (Vec<_>, Vec<_>) =
            self.workflows.iter().partition(|workflow| old_ids.contains(workflow.id.as_str()));
        merged.extend(updated.into_iter().chain(added).cloned());
        merged.truncate(MAX_WORKFLOWS);
        merged
    }

    /// Marks the list as incomplete.
    pub(crate) fn mark_cut(&mut self, reason: &str) {
        if !self.is_cut {
            // This message is more important than the last omission.
            self.skipped.truncate(MAX_SKIPPED - 1);
            self.add_skipped(reason.to_owned());
        }
        self.is_cut = true;
    }

    fn add_skipped(&mut self, reason: String) {
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push(reason);
        }
    }
}

#[cfg(test)]
mod tests;
