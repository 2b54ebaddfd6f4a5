//! `steplatch gates …`: list, show and answer the gates of runs.

mod passkey;
mod wait;

use std::process::ExitCode;

use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use steplatch_protocol::{
    AnswerGate, AnswerGateReply, DaemonPaths, GateInfo, GetApprover, GetGate, GetWorkflowRun, RunRecord, UnlockRuns,
};
use steplatch_workflow::{AnsweredBy, Form};
use tokio::signal::unix::{SignalKind, signal};

use super::approver::unlock_with_person;
use super::runs::{all, find, not_found};
use crate::failure::Failure;
use crate::gate_prompt::GatePrompt;
use crate::print::{self, MASK, QUIET, STRONG, visible};
use crate::question::{Person, bounded_content, content_lines};
use crate::{completion, daemon_client, pager, passphrase, question};

#[derive(Debug, Subcommand)]
pub(crate) enum Gates {
    /// List open gates (questions that runs wait for) by workflow, oldest first
    List {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Show a gate in full, in a pager on a terminal
    Show(Show),
    Wait(wait::Wait),
    /// Answer a gate
    Answer(Answer),
    /// Register, list and remove passkeys, which sign answers on the page
    #[command(subcommand)]
    Passkey(passkey::PasskeyRequest),
}

#[derive(Debug, Args)]
pub(crate) struct Show {
    /// Gate, as 'gates list' shows it; or its run, if that has one open gate
    #[arg(add = completion::gates())]
    gate: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Answer {
    /// Gate, as 'gates list' shows it; or its run, if that has asked only one question; without it, asks all open
    /// gates, oldest first
    #[arg(value_name = "GATE", add = completion::gates())]
    run: Option<String>,
    /// Choice, by its number or its text; any text if the gate has no choices
    ///
    /// Without a choice and without fields, the command asks the question here.
    #[arg(value_name = "ANSWER")]
    choice: Option<String>,
    /// Field of the form (repeatable)
    #[arg(long, short, value_name = "NAME=VALUE", value_parser = parse_field, conflicts_with = "choice", requires = "run")]
    field: Vec<(String, String)>,
    /// Gate, if the first argument is its run
    #[arg(long, value_name = "ID", requires = "run")]
    gate: Option<String>,
    /// Reason, for the run and its agent
    #[arg(long, short, value_name = "TEXT", requires = "run")]
    reason: Option<String>,
    /// Read the approver's passphrase from the first line of standard input
    #[arg(long, requires = "run")]
    passphrase_stdin: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Parses the argument `NAME=VALUE`.
fn parse_field(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("a field must have the form name=value".to_owned()),
    }
}

impl Gates {
    pub(super) async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        match self {
            Self::List { json } => list(paths, json).await,
            Self::Show(command) => command.run(paths).await,
            Self::Wait(command) => command.run(paths).await,
            Self::Answer(command) => command.run(paths).await,
            Self::Passkey(command) => command.run(paths).await,
        }
    }
}

/// A gate as named on the command line: the run, and the gate unless only the run is given.
struct GateName {
    run: String,
    gate: Option<String>,
    /// Prefix of the digest of the question that the person read.
    digest: Option<String>,
}

impl GateName {
    /// Parses the id of a gate or of a run, or an unambiguous prefix of the id.
    async fn parse(paths: &DaemonPaths, text: &str) -> Result<Self, Failure> {
        let (text, digest) = match text.rsplit_once('@') {
            Some((text, digest)) => (text, Some(digest.to_owned())),
            None => (text, None),
        };
        match text.split_once('/') {
            Some((run, step)) => {
                let run = find(paths, run).await?;
                Ok(Self { gate: Some(format!("{run}/{step}")), run, digest })
            }
            None => Ok(Self { run: find(paths, text).await?, gate: None, digest }),
        }
    }
}

impl Show {
    async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        let GateName { run, gate, .. } = GateName::parse(paths, &self.gate).await?;
        unlock(paths, Some(&run), Person::at_terminal().as_mut()).await?;
        let reply = daemon_client::ask(paths, GetGate { run_id: run, gate_id: gate }).await?;
        let Some(gate) = reply.gate else {
            return Err(Failure::work(reply.error.as_deref().unwrap_or("the gate is not open")).with(&reply));
        };
        if self.json {
            print::json(&gate)?;
        } else {
            pager::show(&question_lines(&gate, &content_lines(&gate), ""))?;
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Returns the open gates of runs, the oldest first. A run also lists the gates of its descendants; a gate is paired
/// with its own run if `runs` contains that run.
pub(crate) fn open_gates(runs: &[RunRecord]) -> Vec<(&RunRecord, &GateInfo)> {
    let is_own = |run: &RunRecord, gate: &&GateInfo| {
        gate.run_id == run.run_id || !runs.iter().any(|other| other.run_id == gate.run_id)
    };
    let mut gates = Vec::new();
    for run in runs {
        gates.extend(run.pending_gates.iter().filter(|gate| is_own(run, gate)).map(|gate| (run, gate)));
    }
    gates.sort_by(|left, right| left.1.created_at.cmp(&right.1.created_at));
    gates
}

async fn list(paths: &DaemonPaths, json: bool) -> Result<ExitCode, Failure> {
    let runs = all(paths, Some("waiting")).await?;
    let mut gates = open_gates(&runs);
    // Gates of a workflow stand together. The workflow whose gate has waited longest comes first.
    let mut workflows: Vec<&str> = Vec::new();
    for (run, _) in &gates {
        if !workflows.contains(&run.workflow_id.as_str()) {
            workflows.push(&run.workflow_id);
        }
    }
    gates.sort_by_key(|(run, _)| workflows.iter().position(|workflow| *workflow == run.workflow_id));
    let locked = runs.iter().filter(|run| run.locked).count();
    if json {
        print::json(&json!({ "gates": gates.iter().map(|(_, gate)| gate).collect::<Vec<_>>() }))?;
        return Ok(ExitCode::SUCCESS);
    }
    if locked > 0 {
        let runs = if locked == 1 { "1 run waits and is".to_owned() } else { format!("{locked} runs wait and are") };
        print::remark(&format!("{runs} locked since the daemon restarted; unlock with: steplatch approver unlock"));
    }
    if gates.is_empty() && locked == 0 {
        print::remark("no run waits for an answer");
    } else {
        for (index, (run, gate)) in gates.iter().enumerate() {
            if index > 0 {
                print::line("")?;
            }
            let workflow = visible(&run.workflow_id);
            print::line(format!("{STRONG}{workflow}{STRONG:#} {QUIET}{}{QUIET:#}", gate.run_id))?;
            question_lines(gate, &bounded_content(gate), "  ").iter().try_for_each(print::line)?;
        }
        let is_for_person = gates.iter().any(|(_, gate)| gate.answered_by == AnsweredBy::Human.name());
        if is_for_person && !daemon_client::ask(paths, GetApprover {}).await?.is_set {
            print::remark(passphrase::RECOMMENDED);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Formats a question as lines: the prompt, its `content`, its choices and the command that answers it.
pub(super) fn question_lines(gate: &GateInfo, content: &[String], indent: &str) -> Vec<String> {
    let since = print::ago(&gate.created_at);
    let mut prompt = gate.prompt.lines().map(visible);
    let first_line = prompt.next().unwrap_or_default();
    let mut lines = vec![format!("{indent}{first_line} {QUIET}asked {since}{QUIET:#}")];
    // The bar distinguishes lines of the question from choices and commands.
    lines.extend(prompt.map(|line| format!("{indent}  {QUIET}│{QUIET:#} {line}")));
    lines.extend(content.iter().map(|line| format!("{indent}  {QUIET}│{QUIET:#} {line}")));
    let choices = gate.choices.iter().enumerate();
    lines.extend(
        choices.map(|(index, choice)| format!("{indent}  {STRONG}{}{STRONG:#}  {}", index + 1, visible(choice))),
    );
    let form = gate.form.as_ref().and_then(|form| Form::read(form).ok());
    for field in form.iter().flat_map(Form::fields) {
        let default = field.default_in_words().map(|default| format!(", {} if left out", visible(&default)));
        let default = default.unwrap_or_else(|| if field.is_required() { "" } else { ", may be left out" }.to_owned());
        let description = format!("{}{default}", visible(&field.constraint()));
        lines.push(format!("{indent}  {STRONG}{}{STRONG:#}  {QUIET}{description}{QUIET:#}", field.name()));
    }
    let answer = match &form {
        Some(_) => "--field NAME=VALUE",
        None if gate.choices.is_empty() => "TEXT",
        None => "ANSWER",
    };
    lines.extend(gate.remarks().into_iter().map(|remark| format!("{indent}{QUIET}{remark}{QUIET:#}")));
    lines.push(format!(
        "{indent}{QUIET}answer with: steplatch gates answer {} {answer}{QUIET:#}",
        gate.name_with_digest()
    ));
    lines
}

/// Formats a question and the command that answers it on one line: `Deploy? (yes | no), answer with: …`.
pub(crate) fn gate_line(gate: &GateInfo) -> String {
    let choices = gate.choices.iter().map(|choice| visible(choice)).collect::<Vec<_>>().join(" | ");
    let choices = if choices.is_empty() { String::new() } else { format!(" ({choices})") };
    format!("{}{choices}, answer with: steplatch gates answer {}", visible(&gate.prompt), gate.name_with_digest())
}

/// Returns whether `run` is locked, or with `None` any run.
async fn is_locked(paths: &DaemonPaths, run: Option<&str>) -> Result<bool, Failure> {
    let Some(run) = run else { return Ok(all(paths, Some("waiting")).await?.iter().any(|run| run.locked)) };
    let record = daemon_client::ask(paths, GetWorkflowRun { run_id: run.to_owned() }).await?;
    Ok(record.run.is_some_and(|run| run.locked))
}

/// Asks a person for the approver's passphrase if `run` is locked, or with `None` any run. Without a person, the next
/// request reports the lock.
async fn unlock(paths: &DaemonPaths, run: Option<&str>, person: Option<&mut Person>) -> Result<(), Failure> {
    match person {
        Some(person) if is_locked(paths, run).await? && daemon_client::ask(paths, GetApprover {}).await?.is_set => {
            unlock_with_person(paths, person).await
        }
        _ => Ok(()),
    }
}

impl Answer {
    async fn run(self, paths: &DaemonPaths) -> Result<ExitCode, Failure> {
        // Use one reader for the whole command, because a second reader would miss the input that the first has
        // buffered.
        let mut person = Person::at_terminal().filter(|_| !self.json && !self.passphrase_stdin);
        let Some(gate_or_run) = &self.run else {
            unlock(paths, None, person.as_mut()).await?;
            return self.ask_all(paths, person).await;
        };
        let GateName { run: id, gate, digest } = GateName::parse(paths, gate_or_run).await?;
        let passphrase = if self.passphrase_stdin { Some(passphrase::from_stdin()?) } else { None };
        match &passphrase {
            // Unlock the run. The reply to the answer reports problems of the run.
            Some(passphrase) if is_locked(paths, Some(&id)).await? => {
                daemon_client::ask(paths, UnlockRuns { passphrase: Some(passphrase.clone()) }).await?;
            }
            Some(_) => {}
            None => unlock(paths, Some(&id), person.as_mut()).await?,
        }
        let named_gate = gate.or_else(|| self.gate.clone());
        let record = daemon_client::ask(paths, GetWorkflowRun { run_id: id.clone() }).await?;
        let Some(run) = record.run else { return Err(not_found(&id)) };
        if self.choice.is_none() && self.field.is_empty() {
            if self.reason.is_some() {
                return Err(Failure::usage(
                    "a reason needs an answer: steplatch gates answer GATE ANSWER --reason TEXT",
                ));
            }
            let gates = match &named_gate {
                Some(gate) => vec![find_gate(&id, Some(gate), &run.pending_gates)?.clone()],
                None => run.pending_gates,
            };
            return self.ask(paths, person, &format!("run {id} waits for no answer"), gates).await;
        }
        let answer = AnswerGate {
            run_id: id.clone(),
            gate_id: named_gate.clone(),
            passphrase,
            reason: self.reason.clone(),
            ..AnswerGate::default()
        };
        if run.pending_gates.is_empty() {
            // The daemon knows which answer came first. This request contains no answer, because a gate may open in
            // the meantime.
            let reply = daemon_client::ask(paths, GetGate { run_id: id.clone(), gate_id: named_gate }).await?;
            let new_question = || format!("run {id} has just asked a question; see it with: steplatch gates show {id}");
            return Err(Failure::work(reply.error.clone().unwrap_or_else(new_question)).with(&reply));
        }
        if let Some(gate) = &named_gate
            && gate.starts_with(&format!("{id}/"))
            && !run.pending_gates.iter().any(|open| open.gate_id == *gate)
        {
            // If the gate was answered, the daemon reports by whom.
            let answer = AnswerGate { answer: self.choice.clone().unwrap_or_default(), ..answer };
            return self.send(paths, None, answer, person).await;
        }
        if named_gate.is_none() && run.pending_gates.len() == 1 {
            // The gate that the person read may be closed, and the open one may be a different question.
            let reply = daemon_client::ask(paths, GetGate { run_id: id.clone(), gate_id: None }).await?;
            if let Some(gate) = reply.gate.filter(|_| reply.asked_before) {
                let error = format!(
                    "run {id} has asked another question before; name the gate that you read: steplatch gates show {0}, then \
                     steplatch gates answer {0}",
                    gate.gate_id
                );
                return Err(Failure::usage(error));
            }
        }
        let gate = find_gate(&id, named_gate.as_deref(), &run.pending_gates)?;
        // The digest comes from the command line: the digest of the open gate would not show what the person read.
        let answer = AnswerGate { gate_id: Some(gate.gate_id.clone()), digest, ..answer };
        let answer = match &self.choice {
            None => AnswerGate { form: Some(self.fill_form(gate)?), ..answer },
            // The text is the form as JSON. The daemon parses it.
            Some(choice) if gate.form.is_some() => AnswerGate { answer: choice.clone(), ..answer },
            Some(choice) => {
                let (choice, number) = question::parse_choice(gate, choice).map_err(|error| {
                    let choices = gate.choices.iter().enumerate();
                    let choices: Vec<String> =
                        choices.map(|(index, choice)| format!("\n  {}  {}", index + 1, visible(choice))).collect();
                    Failure::usage(format!("{error}{}", choices.concat()))
                })?;
                AnswerGate { answer: choice, number, ..answer }
            }
        };
        self.send(paths, Some(gate), answer, person).await
    }

    /// Fills in the form of a gate with the fields of the command line.
    fn fill_form(&self, gate: &GateInfo) -> Result<Map<String, Value>, Failure> {
        let Some(form) = gate.form.as_ref().and_then(|form| Form::read(form).ok()) else {
            return Err(Failure::usage("this gate has no form; answer it with a text or one of its choices"));
        };
        let fields = self.field.iter().map(|(name, value)| (name.clone(), value.as_str().into()));
        form.fill(&fields.collect()).map_err(|problems| {
            let problems: Vec<String> = problems.iter().map(|problem| format!("\n  {}", visible(problem))).collect();
            Failure::usage(format!("invalid form:{}", problems.concat()))
        })
    }

    async fn send(
        &self,
        paths: &DaemonPaths,
        gate: Option<&GateInfo>,
        mut answer: AnswerGate,
        mut person: Option<Person>,
    ) -> Result<ExitCode, Failure> {
        let summary = answer_text(gate, &answer);
        let mut reply = send_answer(paths, &answer).await?;
        while reply.passphrase_wanted
            && let Some(person) = &mut person
        {
            if answer.passphrase.is_some() {
                print::remark(reply.error.as_deref().unwrap_or_default());
            }
            answer.passphrase = Some(passphrase::ask(person, "the approver's passphrase:").await?);
            reply = send_answer(paths, &answer).await?;
        }
        if let Some(person) = &mut person {
            person.end_question();
        }
        if !reply.success {
            return Err(Failure::work(
                reply.error.as_deref().unwrap_or("the answer was rejected, and the daemon gave no reason"),
            )
            .with(&reply));
        }
        if self.json {
            print::json(&reply)?;
        } else {
            print::line(format!("answered: {summary}; the run is now {}", reply.status))?;
            reply.remarks.iter().for_each(|remark| print::remark(&visible(remark)));
        }
        Ok(ExitCode::SUCCESS)
    }

    /// Asks the questions of all open gates.
    async fn ask_all(&self, paths: &DaemonPaths, person: Option<Person>) -> Result<ExitCode, Failure> {
        let runs = all(paths, Some("waiting")).await?;
        let mut gates: Vec<GateInfo> = runs.into_iter().flat_map(|run| run.pending_gates).collect();
        gates.sort_by(|left, right| left.created_at.cmp(&right.created_at));
        // A run also lists the gates of its descendants.
        gates.dedup_by(|left, right| left.gate_id == right.gate_id);
        self.ask(paths, person, "no run waits for an answer", gates).await
    }

    /// Asks the person at this terminal the questions, one after the other. An empty line leaves a question open.
    async fn ask(
        &self,
        paths: &DaemonPaths,
        person: Option<Person>,
        empty_message: &str,
        gates: Vec<GateInfo>,
    ) -> Result<ExitCode, Failure> {
        let Some(mut person) = person else {
            return Err(Failure::usage(
                "a question needs a terminal on standard input and output; answer it with: steplatch gates answer GATE ANSWER",
            ));
        };
        if gates.is_empty() {
            print::remark(empty_message);
            return Ok(ExitCode::SUCCESS);
        }
        let mut interrupted = signal(SignalKind::interrupt())?;
        print::remark(
            "an empty line leaves a question open, Ctrl-C leaves all further ones open; '2 because …' gives a choice with its reason",
        );
        for gate in gates {
            person.end_question();
            person.listen();
            question::gate_lines(&gate, print::width()).iter().try_for_each(print::line)?;
            let mut asking = GatePrompt::new(gate);
            loop {
                asking.lead().iter().try_for_each(|line| print::line(format!("    {line}")))?;
                match asking.is_secret() {
                    true => person.listen_without_echo(),
                    false => person.end_question(),
                }
                print::ask(&asking.prompt())?;
                let line = tokio::select! {
                    line = person.line() => line,
                    _ = interrupted.recv() => None,
                };
                let Some(line) = line else {
                    person.end_question();
                    print::line("")?;
                    return Err(Failure::work("not every question was answered; the others stay open"));
                };
                if line.trim().is_empty() && asking.can_skip() {
                    print::remark("  left open");
                    break;
                }
                let answer = match asking.line(&line) {
                    Ok(Some(answer)) => answer,
                    Ok(None) => continue,
                    Err(misread) => {
                        print::remark(&format!("  {misread}"));
                        continue;
                    }
                };
                let reply = send_answer(paths, &answer).await?;
                if reply.success {
                    print::line(format!(
                        "  answered: {}; the run is now {}",
                        answer_text(Some(asking.gate()), &answer),
                        reply.status
                    ))?;
                    break;
                }
                if let Some(reason) = asking.handle_rejection(answer, &reply) {
                    print::remark(&format!("  {reason}"));
                }
                if !reply.passphrase_wanted && !is_open(paths, asking.gate()).await? {
                    break;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Selects the gate to answer from the open gates of a run.
fn find_gate<'g>(run: &str, gate_id: Option<&str>, gates: &'g [GateInfo]) -> Result<&'g GateInfo, Failure> {
    let gate_ids = || gates.iter().map(|gate| gate.gate_id.as_str()).collect::<Vec<_>>().join(", ");
    match (gate_id, gates) {
        (None, [gate]) => Ok(gate),
        (Some(gate_id), gates) => gates.iter().find(|gate| gate.gate_id == gate_id).ok_or_else(|| {
            let gate_id = visible(gate_id);
            Failure::usage(format!("gate '{gate_id}' does not wait in run {run}; open gates: {}", gate_ids()))
        }),
        (None, _) => {
            Err(Failure::usage(format!("run {run} waits for several answers; name one of these gates: {}", gate_ids())))
        }
    }
}

/// Sends an answer, again after each pause that the daemon requires after wrong passphrases.
async fn send_answer(paths: &DaemonPaths, answer: &AnswerGate) -> Result<AnswerGateReply, Failure> {
    passphrase::call_after_pauses(paths, answer.clone(), "  ", |reply| reply.retry_after_seconds).await
}

/// Returns whether a gate is still open.
async fn is_open(paths: &DaemonPaths, gate: &GateInfo) -> Result<bool, Failure> {
    let record = daemon_client::ask(paths, GetWorkflowRun { run_id: gate.run_id.clone() }).await?;
    let gates = record.run.map(|run| run.pending_gates).unwrap_or_default();
    Ok(gates.iter().any(|open| open.gate_id == gate.gate_id))
}

/// Formats an answer to a gate on one line, with its reason. Secret fields of its form are hidden.
pub(crate) fn answer_text(gate: Option<&GateInfo>, answer: &AnswerGate) -> String {
    let form = gate.and_then(|gate| gate.form.as_ref()).and_then(|form| Form::read(form).ok());
    let mut text: Value = match (&answer.form, &form) {
        (Some(fields), _) => Value::Object(fields.clone()),
        (None, Some(_)) => serde_json::from_str(&answer.answer).unwrap_or_default(),
        (None, None) => answer.answer.as_str().into(),
    };
    for field in form.iter().flat_map(Form::fields).filter(|field| field.is_secret()) {
        if let Some(value) = text.get_mut(field.name()).filter(|value| !value.is_null()) {
            *value = MASK.into();
        }
    }
    let reason = question::format_reason(answer.reason.as_deref().unwrap_or_default());
    format!("{}{reason}", question::format_answer(&text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secret_fields_of_an_answer_are_hidden() {
        let form =
            json!({"properties": {"user": {"type": "string"}, "word": {"type": "string", "format": "password"}}});
        let gate = GateInfo { form: Some(form), ..GateInfo::default() };
        let fields = json!({"user": "ana", "word": "hunter2 long"});
        let by_fields = AnswerGate { form: fields.as_object().cloned(), ..AnswerGate::default() };
        let by_text = AnswerGate { answer: fields.to_string(), ..AnswerGate::default() };
        for answer in [by_fields, by_text] {
            assert_eq!(answer_text(Some(&gate), &answer), "user=ana word=••••••");
        }
        let answer = AnswerGate { answer: "yes".to_owned(), ..AnswerGate::default() };
        assert_eq!(answer_text(None, &answer), "yes");
        let reasoned = AnswerGate { reason: Some("it works".to_owned()), ..answer };
        assert_eq!(answer_text(None, &reasoned), "yes, because it works");
    }
}
