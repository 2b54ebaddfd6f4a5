//! Questions of runs in the conversation: display, answers, and postponed questions.

use std::io;
use std::time::{Duration, Instant};

use serde_json::Value;
use steplatch_protocol::{AnswerGate, AnswerGateReply};

use super::conversation::{BACKGROUND_DELAY, Conversation, WAITING_EXIT_CODE};
use super::editor::Prompt;
use crate::failure::{FAILED, Failure};
use crate::print::{self, QUIET, visible};
use crate::question::SECOND_INTERRUPT_TIMEOUT;
use crate::{passphrase, question};

impl Conversation<'_> {
    /// Adds a line to the answer of a gate and sends the answer once it is complete.
    pub(super) async fn answer_question(&mut self, gate: &str, line: &str) -> Result<(), Failure> {
        let Some(question) = self.session.question(gate) else {
            return Err(Failure::usage("the question is closed; /gates lists the open ones"));
        };
        match question.asking.line(line).map_err(Failure::usage)? {
            Some(answer) => self.send_answer(gate, answer).await,
            None => {
                self.exit_code = WAITING_EXIT_CODE;
                Ok(self.show_question_prompt()?)
            }
        }
    }

    /// Sends an answer and waits for the run if the conversation watches it.
    async fn send_answer(&mut self, gate: &str, answer: AnswerGate) -> Result<(), Failure> {
        let reply = loop {
            let reply = self.work.answer(&answer).await?;
            let Some(seconds) = reply.as_ref().and_then(|reply| reply.retry_after_seconds) else { break reply };
            self.screen.print_remark(&passphrase::pause_message(seconds))?;
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        };
        if let Some(refusal) = reply.as_ref().filter(|reply| !reply.success) {
            return self.handle_refusal(gate, answer, refusal).await;
        }
        let question = self.session.remove_question(gate);
        match question.and_then(|(question, _)| question.entry) {
            Some(number) if self.session.current_question().is_none() => {
                self.put_in_foreground(number, self.screen.is_interactive().then_some(BACKGROUND_DELAY));
            }
            Some(_) => self.exit_code = WAITING_EXIT_CODE,
            None => {
                let summary = match &answer.form {
                    Some(form) => question::format_answer(&Value::Object(form.clone())),
                    None => question::format_answer(&answer.answer.as_str().into()),
                };
                let status = reply.map_or_else(|| "further".to_owned(), |reply| reply.status);
                self.screen.print_remark(&format!("answered: {summary}; {} is now {status}", answer.run_id))?;
            }
        }
        Ok(self.show_question()?)
    }

    async fn handle_refusal(&mut self, gate: &str, answer: AnswerGate, reply: &AnswerGateReply) -> Result<(), Failure> {
        let error = reply.error.clone().unwrap_or_else(|| "the answer was rejected".to_owned());
        if reply.passphrase_wanted && !self.screen.is_interactive() {
            let how = format!("answer it with: steplatch gates answer {gate} --passphrase-stdin");
            return Err(Failure::work(format!("{error}; {how}")));
        }
        let is_first = answer.passphrase.is_none();
        if !reply.passphrase_wanted && !self.work.is_open(&answer).await? {
            // Another client may have answered the gate, so remove the question.
            self.session.remove_question(gate);
            self.show_question()?;
            return Err(Failure::work(error));
        }
        if let Some(question) = self.session.question(gate) {
            question.asking.handle_rejection(answer, reply);
        }
        if !(reply.passphrase_wanted && is_first) {
            self.show_failure(&error, FAILED)?;
        }
        Ok(self.show_question_prompt()?)
    }

    /// Shows the first question, if there is one.
    pub(super) fn show_question(&mut self) -> io::Result<()> {
        if let Some(question) = self.session.current_question() {
            let gate = question.asking.gate();
            let who = question.entry.map_or_else(String::new, |number| {
                format!("::{number} {} ", visible(&self.session.entry(number).target.to_string()))
            });
            let more = match self.session.questions().count() - 1 {
                0 => String::new(),
                1 => "; 1 more question waits".to_owned(),
                more => format!("; {more} more questions wait"),
            };
            let later =
                if self.screen.is_interactive() { ", Ctrl-C leaves it open, twice cancels the run" } else { "" };
            let mut lines = vec![format!("{QUIET}{who}{} asks{later}{more}{QUIET:#}", gate.run_id)];
            lines.extend(question::gate_lines(gate, print::width()));
            self.stop_animation()?;
            self.screen.lines.discard_input();
            self.screen.print_lines(&lines)?;
        }
        self.show_question_prompt()
    }

    /// Shows the prompt for the next line of the first question.
    fn show_question_prompt(&mut self) -> io::Result<()> {
        let gate_prompt = self.session.current_question().map(|question| &question.asking);
        let prompt = match gate_prompt {
            None => Prompt::Line,
            Some(asking) if asking.is_secret() => Prompt::Secret,
            Some(_) => Prompt::Answer,
        };
        self.screen.lines.set_prompt(prompt);
        let choices = gate_prompt.map(|asking| asking.gate().choices.clone()).unwrap_or_default();
        self.screen.lines.change_words(|words| words.choices = choices);
        let Some(asking) = gate_prompt else { return Ok(()) };
        let mut lines: Vec<String> = asking.lead().iter().map(|line| format!("    {line}")).collect();
        lines.push(format!("  {QUIET}{}{QUIET:#}", asking.prompt()));
        self.screen.print_lines(&lines)
    }

    /// Handles Ctrl-C at the prompt. The questions stay open; a second Ctrl-C soon after the first cancels the run of
    /// the current question.
    pub(super) fn leave_questions(&mut self) -> io::Result<()> {
        if let Some((run, since)) = self.skipped_question.take()
            && since.elapsed() < SECOND_INTERRUPT_TIMEOUT
        {
            self.screen.print_remark(&format!("cancelling {run}"))?;
            self.work.cancel(run);
            return Ok(());
        }
        let current_run = self.session.current_question().map(|question| {
            let run = question.entry.and_then(|number| self.session.entry(number).run.clone());
            run.unwrap_or_else(|| question.asking.gate().run_id.clone())
        });
        let remark = match self.session.drop_questions() {
            0 => "Ctrl-D leaves".to_owned(),
            1 => "the question is left open; Ctrl-C again cancels the run, /gates asks again".to_owned(),
            count => format!(
                "{count} questions are left open; Ctrl-C again cancels the run of the first one, /gates asks them again"
            ),
        };
        self.skipped_question = current_run.map(|run| (run, Instant::now()));
        self.show_question()?;
        self.screen.print_remark(&remark)
    }
}
