//! `steplatch workflow diff NAME[@N] [NAME[@N]]`: the differences between two versions of a machine, or between two
//! machines.

use std::process::ExitCode;

use clap::Args;
use serde::Serialize;
use serde_json::{Value, json};
use steplatch_protocol::{DaemonPaths, DescribeWorkflow, ListWorkflowVersions};
use steplatch_workflow::line_diff;

use crate::failure::Failure;
use crate::print::{self, BAD, GOOD, QUIET, STRONG};
use crate::{completion, daemon_client};

/// Show the differences between two versions of a workflow
///
/// 'diff NAME' compares the previous version with the current one, 'diff NAME@1' version 1 with the current one, and
/// 'diff NAME@1 NAME@2' the two versions.
#[derive(Debug, Args)]
pub(crate) struct Diff {
    /// Name of a workflow, or NAME@VERSION
    #[arg(value_name = "FROM", add = completion::workflows())]
    from: String,
    /// Name of a workflow, or NAME@VERSION, to compare with
    #[arg(value_name = "TO", add = completion::workflows())]
    to: Option<String>,
    /// Print the differences as JSON: each with its path, and the values before and after
    #[arg(long)]
    json: bool,
}

/// A difference between two documents.
#[derive(Debug, PartialEq, Serialize)]
struct ValueChange {
    /// JSON Pointer to the value (RFC 6901).
    path: String,
    /// Previous value, if there was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<Value>,
    /// New value, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<Value>,
}

impl Diff {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let (from, to) = match (self.from.split_once('@'), self.to) {
            (_, Some(to)) => (self.from, to),
            (Some((name, _)), None) => (self.from.clone(), name.to_owned()),
            (None, None) => (previous_version(paths, &self.from).await?, self.from),
        };
        let (before, after) = (definition(paths, &from).await?, definition(paths, &to).await?);
        if self.json {
            let mut changes = Vec::new();
            collect_changes(&mut changes, "", &before.1, &after.1);
            print::json(&json!({"success": true, "from": before.0, "to": after.0, "changes": changes}))?;
            return Ok(ExitCode::SUCCESS);
        }
        let difference = line_diff::diff_named((&before.0, &to_text(&before.1)?), (&after.0, &to_text(&after.1)?));
        if difference.is_empty() {
            print::remark(&format!("{} and {} do not differ", before.0, after.0));
        }
        difference.lines().map(colour_line).try_for_each(print::line)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns `NAME@N` for the version before the current one.
async fn previous_version(paths: &DaemonPaths, name: &str) -> Result<String, Failure> {
    let reply = daemon_client::ask(paths, ListWorkflowVersions { name: name.to_owned() }).await?;
    if let Some(error) = reply.error.clone() {
        return Err(Failure::usage(error).with(&reply));
    }
    let mut earlier = reply.versions.iter().skip_while(|version| !version.is_current).skip(1);
    match earlier.next() {
        Some(before) => Ok(format!("{name}@{}", before.version)),
        None => Err(Failure::usage(format!("'{name}' has no version before the current one"))),
    }
}

/// Returns a version as `NAME@N` and its definition.
async fn definition(paths: &DaemonPaths, name: &str) -> Result<(String, Value), Failure> {
    let reply = daemon_client::ask(paths, DescribeWorkflow { name: name.to_owned() }).await?;
    let version = reply.metadata.as_ref().map_or(0, |metadata| metadata.version);
    let full_name = reply.name.clone().unwrap_or_default();
    match reply.definition.clone() {
        Some(definition) => Ok((format!("{full_name}@{version}"), definition)),
        None => {
            let function_error = || format!("'{name}' is a function; only machines have versions");
            let error = reply.error.clone().unwrap_or_else(function_error);
            Err(Failure::usage(error).with(&reply))
        }
    }
}

fn to_text(definition: &Value) -> Result<String, Failure> {
    let text = serde_json::to_string_pretty(definition).map_err(|error| Failure::work(error.to_string()))?;
    Ok(text + "\n")
}

/// Colours a line of a diff and replaces control characters.
fn colour_line(line: &str) -> String {
    let style = match line.as_bytes() {
        [b'+', b'+', b'+', ..] | [b'-', b'-', b'-', ..] => QUIET,
        [b'+', ..] => GOOD,
        [b'-', ..] => BAD,
        [b'@', ..] => STRONG,
        _ => return print::visible(line),
    };
    format!("{style}{}{style:#}", print::visible(line))
}

/// Collects the differences between two values, by the keys of objects and the indexes of arrays.
fn collect_changes(changes: &mut Vec<ValueChange>, path: &str, before: &Value, after: &Value) {
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                let path = format!("{path}/{}", key.replace('~', "~0").replace('/', "~1"));
                collect_optional(changes, &path, old.get(key), new.get(key));
            }
        }
        (Value::Array(old), Value::Array(new)) => {
            for index in 0..old.len().max(new.len()) {
                collect_optional(changes, &format!("{path}/{index}"), old.get(index), new.get(index));
            }
        }
        _ if before == after => {}
        _ => changes.push(ValueChange {
            path: path.to_owned(),
            before: Some(before.clone()),
            after: Some(after.clone()),
        }),
    }
}

fn collect_optional(changes: &mut Vec<ValueChange>, path: &str, before: Option<&Value>, after: Option<&Value>) {
    match (before, after) {
        (Some(before), Some(after)) => collect_changes(changes, path, before, after),
        _ => changes.push(ValueChange { path: path.to_owned(), before: before.cloned(), after: after.cloned() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_named_by_their_places() {
        let before = json!({"states": {"a/b": {"timeout": 1}, "gone": {}}, "list": [1, 2]});
        let after = json!({"states": {"a/b": {"timeout": 2}, "new": null}, "list": [1]});
        let mut changes = Vec::new();
        collect_changes(&mut changes, "", &before, &after);
        assert_eq!(
            serde_json::to_value(&changes).unwrap(),
            json!([
                {"path": "/states/a~1b/timeout", "before": 1, "after": 2},
                {"path": "/states/gone", "before": {}},
                {"path": "/states/new", "after": null},
                {"path": "/list/1", "before": 2},
            ])
        );
    }
}
