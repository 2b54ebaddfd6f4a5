//! Passwords for sudo, ssh and git, from a person at a gate.
//!
//! These programs start the askpass program of the state directory, which asks here. Only the program that reads the
//! password is asked for ([`steplatch_access::PasswordReader`]); the person sees its name, its command line and where it
//! runs.

use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use steplatch_access::{ASKPASS_FILE, Caller, PasswordReader};
use steplatch_ids::{StepId, TerminalId};
use steplatch_protocol::{AskPassword, ListTerminalSessionsReply, QuestionReply, SessionInfo};
use steplatch_runs::Runs;
use steplatch_sessions::Sessions;

use crate::ssh_questions::{ask, question_workflow};

/// Writes the askpass program of a state directory, which runs `program`, and returns its path.
///
/// # Errors
/// If writing the file fails.
pub(crate) fn install(program: &Path, state: &Path) -> io::Result<PathBuf> {
    let file = state.join(ASKPASS_FILE);
    let [program, state] = [program, state].map(|path| shell_words::quote(&path.to_string_lossy()).into_owned());
    let script = format!("#!/bin/sh\nSTEPLATCH_STATE_DIR={state} exec {program} askpass -- \"$@\"\n");
    // A running program keeps the file that it has opened.
    let new = file.with_extension("new");
    std::fs::write(&new, script)?;
    std::fs::set_permissions(&new, std::fs::Permissions::from_mode(0o700))?;
    std::fs::rename(&new, &file)?;
    Ok(file)
}

/// Asks a person for the password that a program reads.
pub(crate) async fn ask_password(
    runs: &Arc<Runs>,
    sessions: &Sessions,
    caller: &Caller,
    verb: AskPassword,
) -> QuestionReply {
    let reader = match caller.password_reader().await {
        Ok(reader) => reader,
        Err(refusal) => return QuestionReply { error: Some(refusal.to_string()), ..QuestionReply::default() },
    };
    let ListTerminalSessionsReply { sessions: terminals, .. } = sessions.list().await;
    let lead = format!("{} asks {}", reader.program, describe_place(&reader, &terminals));
    let question = format!("{}\nThe command: {}", verb.prompt.trim(), reader.command);
    let name = format!("{}_password", reader.program.replace('-', "_"));
    let reply = ask(runs, &reader.program, question_workflow(&name, &lead, &question), |_| ()).await;
    // Much may have changed while the person decided.
    match caller.password_reader().await {
        Ok(now) if now == reader => reply,
        Ok(_) => {
            QuestionReply { error: Some("the program has changed meanwhile".to_owned()), ..QuestionReply::default() }
        }
        Err(refusal) => QuestionReply { error: Some(refusal.to_string()), ..QuestionReply::default() },
    }
}

/// Returns the place of a program in words.
fn describe_place(reader: &PasswordReader, terminals: &[SessionInfo]) -> String {
    let Some(origin) = &reader.origin else { return "outside of steplatch's terminals".to_owned() };
    if let Ok(step) = origin.parse::<StepId>() {
        return format!("in step '{}' of {}", step.place, step.run);
    }
    match terminals.iter().find(|terminal| terminal.session_id == *origin) {
        Some(SessionInfo { name: Some(name), .. }) => format!("in terminal '{name}' ({origin})"),
        Some(_) => format!("in terminal {origin}"),
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
            let reader = PasswordReader {
                program: "sudo".to_owned(),
                command: "sudo -A true".to_owned(),
                origin: origin.map(str::to_owned),
            };
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
}
