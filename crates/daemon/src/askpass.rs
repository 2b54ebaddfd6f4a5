//! Passwords for sudo, ssh and git, from a person at a gate.
//!
//! These programs start the askpass program of the state directory, which asks here. Only the program that reads the
//! password is asked for ([`steplatch_access::PasswordReader`]); the person sees its name, its command line and where it
//! runs.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use steplatch_access::{ASKPASS_FILE, Caller, PasswordReader, ReaderRefusal, write_private_program};
use steplatch_ids::{StepId, TerminalId};
use steplatch_protocol::{AskPassword, ListTerminalSessionsReply, QuestionReply, SessionInfo, visible};
use steplatch_runs::Runs;
use steplatch_sessions::Sessions;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::ssh_questions::{MAX_QUESTION_CHARS, ask, is_yes_or_no, question_workflow};

/// Writes the askpass program of a state directory, which runs `program`, and returns its path.
///
/// # Errors
/// If writing the file fails.
pub(crate) fn install(program: &Path, state: &Path) -> io::Result<PathBuf> {
    let file = state.join(ASKPASS_FILE);
    let [program, state] = [program, state].map(|path| shell_words::quote(&path.to_string_lossy()).into_owned());
    // The dynamic linker would load what these variables name into the program, which holds the password.
    let script = format!(
        "#!/bin/sh\nunset LD_PRELOAD LD_AUDIT LD_LIBRARY_PATH\n\
         STEPLATCH_STATE_DIR={state} exec {program} askpass -- \"$@\"\n"
    );
    write_private_program(&file, &script)?;
    Ok(file)
}

/// Maximum number of open questions. More of them would hide each other.
const MAX_OPEN_QUESTIONS: usize = 8;

/// Maximum length of a prompt, in characters.
const MAX_PROMPT_CHARS: usize = 200;

/// The questions of programs for passwords.
#[derive(Debug)]
pub(crate) struct PasswordQuestions {
    permits: Semaphore,
}

impl Default for PasswordQuestions {
    fn default() -> Self {
        Self { permits: Semaphore::new(MAX_OPEN_QUESTIONS) }
    }
}

impl PasswordQuestions {
    /// Asks a person for the password that a program reads.
    pub(crate) async fn ask(
        &self,
        runs: &Arc<Runs>,
        sessions: &Sessions,
        caller: &Caller,
        verb: AskPassword,
    ) -> QuestionReply {
        match self.try_ask(runs, sessions, caller, verb).await {
            Ok(reply) => reply,
            Err(error) => QuestionReply { error: Some(error), ..QuestionReply::default() },
        }
    }

    /// Asks a person for a secret of the settings. Returns `None` if the person gives none.
    ///
    /// # Errors
    /// If too many questions are open, or the question is too long to be judged.
    pub(crate) async fn ask_for_secret(
        &self,
        runs: &Arc<Runs>,
        name: &str,
        question: &str,
    ) -> Result<Option<String>, String> {
        let _permit = self.permit()?;
        if question.chars().count() > MAX_QUESTION_CHARS {
            return Err(format!("the question has more than {MAX_QUESTION_CHARS} characters; shorten the text"));
        }
        let workflow = question_workflow(&format!("{}_secret", name.replace('-', "_")), question, false);
        Ok(ask(runs, "steplatch", workflow, |_| ()).await.answer)
    }

    fn permit(&self) -> Result<SemaphorePermit<'_>, String> {
        let too_many = |_| format!("a person is asked for {MAX_OPEN_QUESTIONS} passwords already; answer these first");
        self.permits.try_acquire().map_err(too_many)
    }

    async fn try_ask(
        &self,
        runs: &Arc<Runs>,
        sessions: &Sessions,
        caller: &Caller,
        verb: AskPassword,
    ) -> Result<QuestionReply, String> {
        let reader = caller.password_reader().await.map_err(|refusal| refusal.to_string())?;
        let _permit = self.permit()?;
        let ListTerminalSessionsReply { sessions: terminals, .. } = sessions.list().await;
        let question = describe_question(&reader, &terminals, &verb.prompt);
        if question.chars().count() > MAX_QUESTION_CHARS {
            return Err(ReaderRefusal::TooLong(reader.program).to_string());
        }
        let name = format!("{}_password", reader.program.replace('-', "_"));
        // Only ssh asks questions without a secret.
        let is_choice = reader.program == "ssh" && is_yes_or_no(&verb.prompt);
        let reply = ask(runs, &reader.program, question_workflow(&name, &question, is_choice), |_| ()).await;
        // Much may have changed while the person decided.
        match caller.password_reader().await {
            Ok(now) if now == reader => Ok(reply),
            Ok(_) => Err("the program changed while the question was open".to_owned()),
            Err(refusal) => Err(refusal.to_string()),
        }
    }
}

/// Returns the question to a person. The command comes first, because the program chooses its prompt.
fn describe_question(reader: &PasswordReader, terminals: &[SessionInfo], prompt: &str) -> String {
    let words = reader.arguments.iter().map(|word| word.escape_debug().to_string());
    let command = shell_words::join(std::iter::once(reader.program.clone()).chain(words));
    let prompt = prompt.split_whitespace().collect::<Vec<_>>().join(" ");
    let prompt: String = visible(&prompt).chars().take(MAX_PROMPT_CHARS).collect();
    let place = describe_place(reader, terminals);
    let consequence = if reader.is_protected() {
        "sudo may run other commands of that terminal without a question for some minutes."
    } else {
        "The program that started this command can read the answer, or redirect it to another server."
    };
    format!(
        "{} asks for a password {place}.\nThe command: {command}\nIts words: \"{prompt}\"\n{consequence}",
        reader.program
    )
}

/// Returns the name and the id of a terminal.
pub(crate) fn describe_terminal(terminal: &SessionInfo) -> String {
    match &terminal.name {
        Some(name) => format!("terminal '{name}' ({})", terminal.session_id),
        None => format!("terminal {}", terminal.session_id),
    }
}

/// Returns the place of a program in words.
fn describe_place(reader: &PasswordReader, terminals: &[SessionInfo]) -> String {
    let Some(origin) = &reader.origin else { return "outside of steplatch's terminals".to_owned() };
    if let Ok(step) = origin.parse::<StepId>() {
        return format!("in step '{}' of {}", step.place, step.run);
    }
    match terminals.iter().find(|terminal| terminal.session_id == *origin) {
        Some(terminal) => format!("in {}", describe_terminal(terminal)),
        None if origin.parse::<TerminalId>().is_ok() => "in a terminal that is closed".to_owned(),
        None => "in a node".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_names_the_place_of_the_program() {
        let place = |origin: Option<&str>| {
            let reader =
                PasswordReader { program: "sudo".to_owned(), arguments: Vec::new(), origin: origin.map(str::to_owned) };
            let terminal = SessionInfo {
                session_id: "term_a".to_owned(),
                name: Some("build".to_owned()),
                ..SessionInfo::default()
            };
            describe_place(&reader, &[terminal])
        };
        assert_eq!(place(None), "outside of steplatch's terminals");
        assert_eq!(place(Some("term_a")), "in terminal 'build' (term_a)");
        assert_eq!(place(Some("term_k7q2m8x4rd")), "in a terminal that is closed");
        assert_eq!(place(Some("call_k7q2m8x4rd")), "in a node");
        assert_eq!(place(Some("run_k7q2m8x4rd3tv5ab/push/1")), "in step 'push' of run_k7q2m8x4rd3tv5ab");
    }

    #[test]
    fn question_shows_the_whole_command_whatever_the_program_says() {
        let question = |program: &str, arguments: &[&str], prompt: &str| {
            let arguments = arguments.iter().map(|word| (*word).to_owned()).collect();
            let reader = PasswordReader { program: program.to_owned(), arguments, origin: None };
            describe_question(&reader, &[], prompt)
        };
        let long = format!("[sudo] password:\nThe command: sudo true{}", " ".repeat(5000));
        let asked = question("sudo", &["-A", "sh", "-c", "rm -rf /\nThe command: sudo true"], &long);
        let lines: Vec<&str> = asked.lines().collect();
        assert_eq!(lines[0], "sudo asks for a password outside of steplatch's terminals.");
        assert_eq!(lines[1], "The command: sudo -A sh -c 'rm -rf /\\nThe command: sudo true'");
        assert_eq!(lines[2], "Its words: \"[sudo] password: The command: sudo true\"");
        assert_eq!(lines.len(), 4, "{asked}");
        let asked = question("ssh", &["ana@box"], &"x".repeat(5000));
        assert!(asked.len() < 500 && asked.ends_with("or redirect it to another server."), "{asked}");
    }
}
