//! Questions of `ssh` about remote hosts: host keys, passwords, second factors. A person answers them at a gate.
//!
//! Each `ssh` that the daemon starts has a ticket in its environment. The askpass program of `ssh`
//! ([`crate::QUESTION_VARIABLE`]) sends the ticket with the question, so that no other client can ask on behalf of
//! `ssh`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use steplatch_access::Caller;
use steplatch_host::{QuestionWatch, RemoteHostConfig};
use steplatch_ids::{RunId, random_name};
use steplatch_protocol::{AskSshQuestion, QuestionReply};
use steplatch_runs::Runs;
use steplatch_workflow::substitute::literal;
use tokio::sync::watch;

/// Maximum number of valid tickets, of the newest connections.
const MAX_TICKETS: usize = 256;

/// Maximum length of a question, in characters.
pub(crate) const MAX_QUESTION_CHARS: usize = 10_000;

/// Time limit for the answer to a question, in seconds. `ssh` or the server stops waiting earlier.
const ANSWER_SECONDS: u64 = 600;

/// The questions of connections to remote hosts.
#[derive(Debug, Default)]
pub(crate) struct SshQuestions {
    tickets: Mutex<VecDeque<(String, RemoteHostConfig)>>,
    by_host: Mutex<HashMap<String, HostQuestions>>,
    /// Counts changes of the open questions.
    changed: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct HostQuestions {
    /// Number of questions so far.
    asked_count: u64,
    /// The runs of the open questions.
    open: Vec<RunId>,
}

impl SshQuestions {
    /// Returns a ticket for a connection to a host.
    pub(crate) fn issue_ticket(&self, host: &RemoteHostConfig) -> String {
        let ticket = random_name();
        let mut tickets = self.tickets.lock();
        tickets.push_back((ticket.clone(), host.clone()));
        let surplus = tickets.len().saturating_sub(MAX_TICKETS);
        tickets.drain(..surplus);
        ticket
    }

    /// Waits until a question about a host is open and returns its run.
    pub(crate) async fn wait_for_open(&self, host: &str) -> String {
        let mut changed = self.changed.subscribe();
        loop {
            changed.mark_unchanged();
            let open = self.by_host.lock().get(host).and_then(|questions| questions.open.first().cloned());
            if let Some(run) = open {
                return run.to_string();
            }
            // This struct owns the sender, so the channel stays open.
            let _ = changed.changed().await;
        }
    }

    /// Asks a person a question of `ssh` and returns the answer.
    pub(crate) async fn ask(self: &Arc<Self>, runs: &Arc<Runs>, verb: AskSshQuestion) -> QuestionReply {
        let host = self.tickets.lock().iter().find(|(ticket, _)| *ticket == verb.ticket).map(|(_, host)| host.clone());
        let Some(host) = host else {
            let error = "this question does not come from an ssh that this daemon started".to_owned();
            return QuestionReply { error: Some(error), ..QuestionReply::default() };
        };
        let question = verb.question.trim().to_owned();
        let open = OpenQuestion { questions: self.clone(), host: host.name.clone(), run: Mutex::default() };
        let name = format!("ssh_{}", host.name.replace('.', "-").chars().take(60).collect::<String>());
        let lead = format!("ssh asks about host '{}' ({})", host.name, host.ssh);
        let is_choice = is_yes_or_no(&question);
        let question = format!("{lead}:\n{question}");
        ask(runs, "ssh", question_workflow(&name, &question, is_choice), |run| open.begin(run)).await
    }
}

/// Asks a person the question of a program. `on_begin` receives the id of the run that asks.
pub(crate) async fn ask(
    runs: &Arc<Runs>,
    program: &str,
    workflow: Value,
    on_begin: impl FnOnce(&RunId),
) -> QuestionReply {
    let caller = Arc::new(Caller { name: Some(program.to_owned()), ..Caller::unknown() });
    let answered_fields = Box::pin(runs.ask_person(&caller, workflow, on_begin)).await;
    let answer = answered_fields
        .and_then(|fields| fields.get("reply").or_else(|| fields.get("answer"))?.as_str().map(str::to_owned));
    let error = answer.is_none().then(|| "the question was not answered".to_owned());
    QuestionReply { success: answer.is_some(), answer, error }
}

impl QuestionWatch for SshQuestions {
    fn question_count(&self, host: &str) -> u64 {
        self.by_host.lock().get(host).map_or(0, |questions| questions.asked_count)
    }

    fn is_open(&self, host: &str) -> bool {
        self.by_host.lock().get(host).is_some_and(|questions| !questions.open.is_empty())
    }
}

/// A question that waits for its answer.
struct OpenQuestion {
    questions: Arc<SshQuestions>,
    host: String,
    run: Mutex<Option<RunId>>,
}

impl OpenQuestion {
    fn begin(&self, run: &RunId) {
        *self.run.lock() = Some(run.clone());
        {
            let mut hosts = self.questions.by_host.lock();
            let questions = hosts.entry(self.host.clone()).or_default();
            questions.asked_count += 1;
            questions.open.push(run.clone());
        }
        self.questions.changed.send_modify(|changed| *changed += 1);
    }
}

impl Drop for OpenQuestion {
    fn drop(&mut self) {
        let run = self.run.lock().take();
        if let Some(questions) = self.questions.by_host.lock().get_mut(&self.host) {
            questions.open.retain(|open| Some(open) != run.as_ref());
        }
        self.questions.changed.send_modify(|changed| *changed += 1);
    }
}

/// Returns whether a question requires yes or no, such as the question about the key of an unknown host.
pub(crate) fn is_yes_or_no(question: &str) -> bool {
    question.contains("(yes/no")
}

/// Returns the workflow `name` that asks the question at a gate. The question is foreign text: the gate shows it
/// without replacing placeholders.
pub(crate) fn question_workflow(name: &str, question: &str, is_choice: bool) -> Value {
    let shown: String = question.chars().take(MAX_QUESTION_CHARS).collect();
    let mut result = "{ask_answer}";
    let mut params = json!({
        "prompt": literal(&shown),
        "answered_by": "human",
        "timeout": ANSWER_SECONDS,
    });
    if is_choice {
        params["choices"] = json!(["yes", "no"]);
    } else {
        result = "{ask_reply}";
        params["form"] = json!({
            "properties": {"reply": {"type": "string", "format": "password", "title": "Answer", "description": "it is not shown or stored"}},
            "required": ["reply"],
        });
    }
    json!({
        "name": name,
        "description": "A question of a program",
        "initial_state": "ask",
        "states": {
            "ask": {
                "action": {"tool": "gate", "params": params},
                "transitions": [{"condition": "success", "next_state": "answered"}],
            },
            "answered": {"action": {"tool": "return", "params": {"result": {"answer": result}}}},
        },
    })
}
