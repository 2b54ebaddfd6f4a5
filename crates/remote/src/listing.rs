//! The lists of workflows that services return.
//!
//! Accepts two shapes, an array and pages, over HTTP and as the result of an MCP tool. Reports an unreadable entry,
//! which does not affect the others.

use std::collections::BTreeSet;

use async_recursion::async_recursion as boxed;
use serde_json::Value;

use crate::answer_error::AnswerError;
use crate::entry::{RemoteWorkflow, id};

/// Maximum number of workflows of one service.
pub const MAX_WORKFLOWS: usize = 1_000;
/// Maximum number of pages of one list.
pub const MAX_PAGES: usize = 100;
/// Maximum length of one answer.
pub const MAX_ANSWER_BYTES: usize = 8 * 1024 * 1024;
/// Maximum number of read entries, valid or not.
const MAX_ENTRIES: usize = 5 * MAX_WORKFLOWS;
/// Maximum number of entries reported as omitted.
const MAX_SKIPPED: usize = 50;

/// One page of a list of workflows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Page {
    /// Its entries, not yet read.
    pub entries: Vec<Value>,
    /// The link to the next page, as the service wrote it.
    pub next: Option<String>,
}

impl Page {
    /// Reads an answer: an array of entries, or a page with `results`.
    ///
    /// # Errors
    ///
    /// If it is neither, as a fragment without a full stop.
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

    /// Reads the result of the MCP tool `workflows-list-tool`: its structured content (bare, or in a field `result` as servers
    /// do that may only give objects), else the JSON in its text.
    ///
    /// # Errors
    ///
    /// If the tool failed or there is no list in its result, as a fragment without a full stop.
    pub fn read_tool_result(mut result: Value) -> Result<Self, AnswerError> {
        let texts: Vec<&str> = match result.get("content") {
            Some(Value::Array(content)) => content.iter().filter_map(|block| block.get("text")?.as_str()).collect(),
            _ => Vec::new(),
        };
        if result.get("isError") == Some(&Value::Bool(true)) {
            return Err(AnswerError::ToolFailed { words: crate::text::clean(&texts.join(" "), 300) });
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

/// The workflows that a service offers, over all of its pages.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Listing {
    /// The workflows, in the order in which the service has them. No id is in it twice.
    pub workflows: Vec<RemoteWorkflow>,
    /// Omitted entries, and why, each as a sentence.
    pub skipped: Vec<String>,
    /// Ids of entries that exist and are unreadable now.
    pub unreadable: BTreeSet<String>,
    /// The list was cut, so a workflow that is missing from it may exist at the service.
    pub is_cut: bool,
    /// Number of read entries, including the omitted ones.
    pub seen: usize,
}

impl Listing {
    /// Reads the result of the MCP tool `workflows-list-tool`, see [`Page::read_tool_result`], on a thread that may
    /// block: there may be a thousand schemas in it. There is one call of a tool, so this cuts a list in several pages.
    ///
    /// # Errors
    ///
    /// As of [`Page::read_tool_result`].
    #[boxed]
    pub async fn of_tool_result(result: Value) -> Result<Self, AnswerError> {
        crate::client::apart(move || {
            let page = Page::read_tool_result(result)?;
            let is_more = page.next.is_some();
            let mut listing = Self::default();
            listing.add(page);
            if is_more {
                listing.cut("The tool gives the list in pages, of which the first one is taken.");
            }
            Ok(listing)
        })
        .await
    }

    /// Adds the entries of a page. Omits entries beyond the bound, which mark the list as cut.
    pub fn add(&mut self, page: Page) {
        let mut ids: BTreeSet<String> = self.workflows.iter().map(|workflow| workflow.id.clone()).collect();
        for entry in &page.entries {
            if self.workflows.len() == MAX_WORKFLOWS || self.seen == MAX_ENTRIES {
                return self.cut(&format!("More than {MAX_WORKFLOWS} workflows are listed; the others are left out."));
            }
            self.seen += 1;
            match RemoteWorkflow::read(entry) {
                Ok(workflow) if !ids.insert(workflow.id.clone()) => {
                    self.skip(format!("The id '{}' is listed twice; the first one counts.", workflow.id));
                }
                Ok(workflow) => self.workflows.push(workflow),
                Err(reason) => match id(entry.get("id")) {
                    Some(id) => {
                        self.skip(format!("The workflow with the id '{id}' is left out: {reason}."));
                        self.unreadable.insert(id);
                    }
                    None => self.skip(format!("An entry is left out: {reason}.")),
                },
            }
        }
    }

    /// Returns this list as the replacement of an older one. Keeps a workflow of the older list if its entry is
    /// unreadable now, or if the list is cut and the entry may be beyond the cut.
    #[must_use]
    pub fn settled(self, old: &[RemoteWorkflow]) -> Vec<RemoteWorkflow> {
        let listed: BTreeSet<&str> = self.workflows.iter().map(|workflow| workflow.id.as_str()).collect();
        let stays = |workflow: &&RemoteWorkflow| {
            !listed.contains(workflow.id.as_str()) && (self.is_cut || self.unreadable.contains(&workflow.id))
        };
        let mut kept: Vec<RemoteWorkflow> = old.iter().filter(stays).cloned().collect();
        // Earlier workflows take precedence over new ones.
        let was: BTreeSet<&str> = old.iter().map(|workflow| workflow.id.as_str()).collect();
        let (known, new): (Vec<_>, Vec<_>) =
            self.workflows.iter().partition(|workflow| was.contains(workflow.id.as_str()));
        kept.extend(known.into_iter().chain(new).cloned());
        kept.truncate(MAX_WORKFLOWS);
        kept
    }

    /// Marks the list as incomplete.
    pub(crate) fn cut(&mut self, reason: &str) {
        if !self.is_cut {
            // This message is more important than one more entry.
            self.skipped.truncate(MAX_SKIPPED - 1);
            self.skip(reason.to_owned());
        }
        self.is_cut = true;
    }

    fn skip(&mut self, reason: String) {
        if self.skipped.len() < MAX_SKIPPED {
            self.skipped.push(reason);
        }
    }
}

#[cfg(test)]
mod tests;
