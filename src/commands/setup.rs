//! `steplatch setup`: the entry in the configuration of MCP clients.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde_json::{Value, json};
use steplatch_workflow::line_diff;

use crate::clients::edit::{EditRequest, Outcome, edit_text, is_blank};
use crate::clients::entry::OwnEntry;
use crate::clients::text::Unreadable;
use crate::clients::{CLIENTS, Client, Scope, TextEdit, UserPaths, file, instructions};
use crate::failure::Failure;
use crate::print::{self, BAD, GOOD, QUIET};

#[derive(Debug, Args)]
pub(crate) struct Setup {
    /// Only this client, even if it was not found (repeatable)
    #[arg(long, value_name = "NAME", value_parser = names())]
    client: Vec<String>,
    /// Scope of the entry
    #[arg(long, value_enum, default_value = "user")]
    scope: Scope,
    /// Also let clients call read-only tools without asking
    #[arg(long, conflicts_with = "remove")]
    allow_reading: bool,
    /// Also add advice on when to use these tools, in a block of AGENTS.md, CLAUDE.md or GEMINI.md
    #[arg(long, conflicts_with = "remove")]
    instructions: bool,
    /// Remove the entry, the rules of --allow-reading and the block of --instructions
    #[arg(long)]
    remove: bool,
    /// Show the changes without making them
    #[arg(long)]
    dry_run: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Returns the names of the clients, for the command line.
pub(super) fn names() -> clap::builder::PossibleValuesParser {
    CLIENTS.iter().map(|client| client.name).collect::<Vec<_>>().into()
}

/// A part of the configuration of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Part {
    /// The entry of the server.
    Entry,
    /// The rules for its tools.
    Rules,
    /// The instructions to its agent.
    Instructions,
}

/// The texts that a dry run would have written, by file: the entry and the rules of a client may be in the same one.
type PlannedTexts = HashMap<PathBuf, String>;

/// The outcome for a part of the configuration of one client.
pub(super) struct ClientOutcome {
    pub(super) client: &'static Client,
    part: Part,
    pub(super) file: PathBuf,
    /// `None` without an installed client.
    outcome: Option<Result<Outcome, String>>,
    /// The difference of the text.
    diff: String,
}

impl Setup {
    pub(super) fn run(self) -> Result<ExitCode, Failure> {
        let user_paths = UserPaths::from_environment()?;
        let own_entry = if self.remove { None } else { Some(OwnEntry::find(&user_paths)?) };
        let outcomes = self.outcomes(&user_paths, own_entry.as_ref());
        let errors: Vec<String> = outcomes.iter().filter_map(|outcome| outcome.error(&user_paths)).collect();
        let reply = json!({
            "success": errors.is_empty(),
            "dry_run": self.dry_run,
            "scope": self.scope,
            "command": own_entry.as_ref().map(|own_entry| &own_entry.command),
            "clients": outcomes.iter().map(|outcome| outcome.document(self.dry_run)).collect::<Vec<_>>(),
        });
        if !self.json {
            self.print_outcomes(&outcomes, &user_paths)?;
        }
        if !errors.is_empty() {
            return Err(Failure::work(errors.join("\n")).with(&reply));
        }
        if outcomes.iter().all(|done| done.outcome.is_none()) {
            let instructions = match &own_entry {
                Some(own_entry) => format!(", or add steplatch to yours:\n{}", own_entry.manual_instructions()),
                None => String::new(),
            };
            return Err(
                Failure::work(format!("no client was found; name one with --client{instructions}")).with(&reply)
            );
        }
        if self.json {
            print::json(&reply)?;
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Returns the removal of the entries of all clients.
    pub(super) fn removal(dry_run: bool) -> Self {
        Self {
            client: Vec::new(),
            scope: Scope::User,
            allow_reading: false,
            instructions: false,
            remove: true,
            dry_run,
            json: false,
        }
    }

    /// Adds or changes the entry of each selected client, and likewise the rules. Without an expected entry, removes
    /// both.
    pub(super) fn outcomes(&self, user_paths: &UserPaths, own_entry: Option<&OwnEntry>) -> Vec<ClientOutcome> {
        let request = own_entry.map_or(EditRequest::Lack, EditRequest::Have);
        let clients = CLIENTS.iter().filter(|client| self.is_selected(client));
        let mut outcomes: Vec<ClientOutcome> = Vec::new();
        for client in clients {
            for outcome in self.set_up(client, request, user_paths) {
                // Several clients read the same instructions.
                let is_shared = outcome.part == Part::Instructions
                    && outcomes.iter().any(|other| other.part == outcome.part && other.file == outcome.file);
                if !is_shared {
                    outcomes.push(outcome);
                }
            }
        }
        outcomes
    }

    fn is_selected(&self, client: &Client) -> bool {
        self.client.is_empty() || self.client.iter().any(|name| name == client.name)
    }

    fn set_up(&self, client: &'static Client, request: EditRequest<'_>, user_paths: &UserPaths) -> Vec<ClientOutcome> {
        let Some(path) = client.file(self.scope, user_paths) else {
            return self.without_file(client);
        };
        // An explicitly named client is considered installed.
        if self.client.is_empty() && !client.is_present(self.scope, user_paths) {
            let diff = String::new();
            return vec![ClientOutcome { client, part: Part::Entry, file: path, outcome: None, diff }];
        }
        let mut planned = PlannedTexts::new();
        let edit_entry = |text: &str| edit_text(client.format, text, request, user_paths);
        let mut outcomes = vec![self.edit(client, Part::Entry, path, &mut planned, edit_entry)];
        let rules = client.rules.as_ref();
        let rules = rules.and_then(|rules| if self.remove { rules.remove } else { Some(rules.allow_reading) });
        let advice: TextEdit = if self.remove { instructions::remove } else { instructions::add };
        for (part, is_requested, path, make) in [
            (Part::Rules, self.allow_reading, client.rules_file(self.scope, user_paths), rules),
            (Part::Instructions, self.instructions, client.instructions_file(self.scope, user_paths), Some(advice)),
        ] {
            let (Some(path), Some(make)) = (path.filter(|_| is_requested || self.remove), make) else { continue };
            let edited = self.edit(client, part, path, &mut planned, make);
            // Most users have no such part, so none is reported.
            if !matches!(edited.outcome, Some(Ok(Outcome::Absent))) {
                outcomes.push(edited);
            }
        }
        outcomes
    }

    /// Returns the outcome for a client that reads no file of a project: an error if the client was named.
    fn without_file(&self, client: &'static Client) -> Vec<ClientOutcome> {
        if self.client.is_empty() {
            return Vec::new();
        }
        let error = format!("{} reads one configuration for all projects; omit --scope project", client.label);
        let file = PathBuf::new();
        vec![ClientOutcome { client, part: Part::Entry, file, outcome: Some(Err(error)), diff: String::new() }]
    }

    /// Edits a file, or finds the difference in a dry run.
    fn edit(
        &self,
        client: &'static Client,
        part: Part,
        path: PathBuf,
        planned: &mut PlannedTexts,
        make: impl Fn(&str) -> Result<(Outcome, String), Unreadable>,
    ) -> ClientOutcome {
        let make = |text: Option<&str>| make(text.unwrap_or_default()).map_err(|error| error.to_string());
        let mut diff = String::new();
        let outcome = if self.dry_run {
            let text = match planned.get(&path) {
                Some(text) => Ok(Some(text.clone())),
                None => file::read(&path).map_err(|error| error.to_string()),
            };
            text.and_then(|text| {
                let (outcome, new_text) = make(text.as_deref())?;
                diff = line_diff::unified_diff(&path.display().to_string(), text.as_deref(), &new_text);
                planned.insert(path.clone(), new_text);
                Ok(outcome)
            })
        } else {
            let private = self.scope == Scope::User;
            file::replace(&path, private, |text| make(text).map_err(Unchanged)).map_err(|Unchanged(error)| error)
        };
        ClientOutcome { client, part, file: path, outcome: Some(outcome), diff }
    }

    fn print_outcomes(&self, outcomes: &[ClientOutcome], user_paths: &UserPaths) -> Result<(), Failure> {
        let width = outcomes.iter().map(|done| done.label().len()).max().unwrap_or_default();
        for done in outcomes {
            let (symbol, summary) = done.summary(self.dry_run);
            let label = print::padded(&done.label(), width);
            print::line(match done.outcome {
                Some(_) => {
                    let (summary, file) = (print::padded(&summary, 22), user_paths.display_path(&done.file));
                    format!("  {symbol} {label}  {summary}  {QUIET}{file}{QUIET:#}")
                }
                None => format!("  {symbol} {label}  {summary}"),
            })?;
        }
        for done in outcomes.iter().filter(|done| !done.diff.is_empty()) {
            print::line("")?;
            done.diff.lines().try_for_each(|line| {
                let line = print::visible(line.trim_end_matches('\r'));
                match line.as_bytes().first() {
                    Some(b'+') => print::line(format!("{GOOD}{line}{GOOD:#}")),
                    Some(b'-') => print::line(format!("{BAD}{line}{BAD:#}")),
                    _ => print::line(line),
                }
            })?;
        }
        for remark in outcomes.iter().filter_map(ClientOutcome::replaced) {
            print::remark(&remark);
        }
        if self.instructions {
            let found = outcomes.iter().filter(|done| done.part == Part::Entry && done.outcome.is_some());
            for client in found.map(|done| done.client) {
                if client.instructions_file(self.scope, user_paths).is_none() {
                    print::remark(&format!(
                        "{} has no file of instructions for all projects; in a project: --scope project",
                        client.label
                    ));
                }
            }
        }
        let has_changed = outcomes
            .iter()
            .any(|done| matches!(done.outcome, Some(Ok(Outcome::Added | Outcome::Changed { .. } | Outcome::Removed))));
        match (has_changed, self.dry_run) {
            (false, _) => {}
            (true, true) => print::remark("dry run: nothing was changed"),
            (true, false) if self.remove => print::remark("restart running clients to apply the change"),
            (true, false) => {
                let is_added = |done: &&ClientOutcome| {
                    done.part == Part::Entry
                        && matches!(done.outcome, Some(Ok(Outcome::Added | Outcome::Changed { .. })))
                };
                let added: Vec<&Client> = outcomes.iter().filter(is_added).map(|done| done.client).collect();
                let needs_rules = |client: &&&Client| client.rules.as_ref().is_some_and(|rules| rules.is_needed);
                let asking: Vec<&str> = added.iter().filter(needs_rules).map(|client| client.label).collect();
                if !self.allow_reading && !asking.is_empty() {
                    print::remark(&format!(
                        "so that {} {} not ask before tools that only read: steplatch setup --allow-reading",
                        asking.join(" and "),
                        if asking.len() == 1 { "does" } else { "do" },
                    ));
                }
                added.iter().filter_map(|client| client.advice).for_each(print::remark);
                if !self.instructions {
                    print::remark(
                        "so that agents prefer these tools for interactive programs: steplatch setup --instructions",
                    );
                }
                print::remark("restart running clients to apply the change; check it with: steplatch doctor");
                print::remark("so that only you answer gates, set a passphrase with: steplatch approver set");
            }
        }
        Ok(())
    }
}

/// Reason for leaving a file unchanged.
struct Unchanged(String);

impl From<file::FileError> for Unchanged {
    fn from(error: file::FileError) -> Self {
        Self(error.to_string())
    }
}

impl ClientOutcome {
    /// Returns the client and the part, for people.
    fn label(&self) -> String {
        match self.part {
            Part::Entry => self.client.label.to_owned(),
            Part::Rules => format!("{}, rules", self.client.label),
            Part::Instructions => format!("{}, instructions", self.client.label),
        }
    }

    /// Returns the name of the part, for people.
    pub(super) fn describe(&self) -> String {
        match self.part {
            Part::Entry => format!("entry of {}", self.client.label),
            Part::Rules => format!("rules of {}", self.client.label),
            Part::Instructions => format!("instructions of {}", self.client.label),
        }
    }

    /// Returns a symbol and a few words for people.
    fn summary(&self, dry_run: bool) -> (String, String) {
        let check_mark = format!("{GOOD}✓{GOOD:#}");
        let quiet = format!("{QUIET}·{QUIET:#}");
        let choose = |done: &str, planned: &str| if dry_run { planned.to_owned() } else { done.to_owned() };
        match &self.outcome {
            None => (quiet, "not found".to_owned()),
            Some(Err(_)) => (format!("{BAD}✗{BAD:#}"), "unchanged".to_owned()),
            Some(Ok(Outcome::Added)) => (check_mark, choose("added", "would be added")),
            Some(Ok(Outcome::Changed { .. })) => (check_mark, choose("changed", "would be changed")),
            Some(Ok(Outcome::Removed)) => (check_mark, choose("removed", "would be removed")),
            Some(Ok(Outcome::Kept)) if self.part != Part::Entry => (check_mark, "already there".to_owned()),
            Some(Ok(Outcome::Kept)) => (check_mark, "already registered".to_owned()),
            Some(Ok(Outcome::KeptUrl(_))) => (check_mark, "already registered, over HTTP".to_owned()),
            Some(Ok(Outcome::Absent)) => (quiet, "has no entry".to_owned()),
        }
    }

    /// Returns the previous content of a changed entry.
    fn replaced(&self) -> Option<String> {
        match &self.outcome {
            Some(Ok(Outcome::Changed { previous })) if self.part == Part::Entry => {
                Some(format!("the entry of {} was: {}", self.client.label, print::visible(previous)))
            }
            _ => None,
        }
    }

    /// Returns whether there was an entry that is removed now, or would be.
    pub(super) fn is_removed(&self) -> bool {
        matches!(self.outcome, Some(Ok(Outcome::Removed)))
    }

    /// Removes the file if it contained only the entry.
    ///
    /// # Errors
    /// The reason for keeping the file.
    pub(super) fn remove_blank_file(&self) -> Result<(), String> {
        let kept_error = |error: &dyn std::fmt::Display| format!("'{}' was left: {error}", self.file.display());
        let text = if self.is_removed() { file::read(&self.file).map_err(|error| kept_error(&error))? } else { None };
        let is_blank = |text: String| match self.part {
            Part::Entry => is_blank(self.client.format, &text),
            Part::Rules => matches!(text.trim(), "" | "{}"),
            Part::Instructions => text.is_empty(),
        };
        if text.is_some_and(is_blank) {
            std::fs::remove_file(&self.file).map_err(|error| kept_error(&error))?;
        }
        Ok(())
    }

    pub(super) fn error(&self, user_paths: &UserPaths) -> Option<String> {
        let error = self.outcome.as_ref()?.as_ref().err()?;
        if self.file.as_os_str().is_empty() {
            return Some(error.clone());
        }
        Some(format!("{} of {} was not changed: {error}", user_paths.display_path(&self.file), self.client.label))
    }

    fn document(&self, dry_run: bool) -> Value {
        let (outcome, detail) = match &self.outcome {
            None => ("not_found", None),
            Some(Err(error)) => ("failed", Some(("error", error))),
            Some(Ok(Outcome::Added)) => ("added", None),
            Some(Ok(Outcome::Changed { previous })) => ("changed", Some(("before", previous))),
            Some(Ok(Outcome::Removed)) => ("removed", None),
            Some(Ok(Outcome::Kept)) => ("unchanged", None),
            Some(Ok(Outcome::KeptUrl(url))) => ("unchanged", Some(("url", url))),
            Some(Ok(Outcome::Absent)) => ("absent", None),
        };
        let mut document =
            json!({"client": self.client.name, "part": self.part, "file": self.file, "outcome": outcome});
        if let Some((name, text)) = detail {
            document[name] = text.as_str().into();
        }
        if dry_run && !self.diff.is_empty() {
            document["diff"] = self.diff.as_str().into();
        }
        document
    }
}
