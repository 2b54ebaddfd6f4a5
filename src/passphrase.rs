//! Passphrases, read without echo.
//!
//! Passphrases come from a terminal without echo, or from standard input for scripts. They never come from an argument
//! or the environment, because other processes can read these.

use std::io::{self, BufRead as _, IsTerminal as _};
use std::time::Duration;

use steplatch_protocol::{DaemonPaths, Passphrase, Verb};
use tokio::signal::unix::{SignalKind, signal};

use crate::failure::Failure;
use crate::question::Person;
use crate::{daemon_client, print};

/// Remark if people answer gates and no approver's passphrase is set.
pub(crate) const RECOMMENDED: &str = "no approver's passphrase is set, so any program that runs as you can answer gates; set one with: steplatch approver set";

/// Maximum length of a line from a script.
const MAX_LINE_BYTES: u64 = 4096;

/// The source of passphrases: a person at the terminal, or a script on standard input.
#[derive(Debug)]
pub(crate) enum Source {
    Person(Person),
    Script,
}

impl Source {
    /// Returns the person at this terminal, or standard input with `script`.
    pub(crate) fn select(script: bool) -> Result<Self, Failure> {
        if script {
            return Ok(Self::Script);
        }
        Person::at_terminal()
            .map(Self::Person)
            .ok_or_else(|| Failure::usage("a passphrase needs a terminal on standard input; scripts use --stdin"))
    }

    /// Asks for a passphrase, or reads the next line of the script.
    pub(crate) async fn next(&mut self, question: &str) -> Result<Passphrase, Failure> {
        match self {
            Self::Person(person) => ask(person, question).await,
            Self::Script => from_stdin(),
        }
    }
}

/// Asks a person for a passphrase, without echo. The echo stays off until [`Person::end_question`].
pub(crate) async fn ask(person: &mut Person, question: &str) -> Result<Passphrase, Failure> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    person.listen_without_echo();
    print::ask(question)?;
    let line = tokio::select! {
        line = person.line() => line,
        // Do not exit immediately: dropping the person first restores the echo.
        _ = interrupted.recv() => None,
    };
    match line {
        Some(line) if !line.is_empty() => Ok(Passphrase(line)),
        Some(_) => Err(Failure::usage("the passphrase is empty")),
        None => {
            person.end_question();
            print::line("")?;
            Err(Failure::work("no passphrase was given; nothing was changed"))
        }
    }
}

/// Returns the message about the pause before a passphrase is checked after wrong attempts.
pub(crate) fn pause_message(seconds: u64) -> String {
    format!("wrong passphrases were given before; this one is checked in {seconds} s")
}

/// Waits until the pause has ended. Returns false if Ctrl-C ends the wait.
pub(crate) async fn sleep_unless_interrupted(seconds: u64) -> Result<bool, Failure> {
    let mut interrupted = signal(SignalKind::interrupt())?;
    Ok(tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(seconds)) => true,
        _ = interrupted.recv() => false,
    })
}

/// Calls a verb with a passphrase and repeats the call after each pause that follows wrong passphrases.
/// `pause_seconds` extracts the pause from a reply; `indent` precedes the remarks about pauses.
pub(crate) async fn call_after_pauses<V: Verb + Clone>(
    paths: &DaemonPaths,
    verb: V,
    indent: &str,
    pause_seconds: impl Fn(&V::Reply) -> Option<u64>,
) -> Result<V::Reply, Failure> {
    loop {
        let reply = daemon_client::ask(paths, verb.clone()).await?;
        let Some(seconds) = pause_seconds(&reply) else { return Ok(reply) };
        print::remark(&format!("{indent}{}", pause_message(seconds)));
        if !sleep_unless_interrupted(seconds).await? {
            return Ok(reply);
        }
    }
}

/// Reads the next line of standard input as a passphrase.
pub(crate) fn from_stdin() -> Result<Passphrase, Failure> {
    if io::stdin().is_terminal() {
        return Err(Failure::usage("--stdin is for scripts: a passphrase that is typed here would be visible"));
    }
    let mut line = String::new();
    io::Read::take(&mut io::stdin().lock(), MAX_LINE_BYTES)
        .read_line(&mut line)
        .map_err(|error| Failure::system("the passphrase cannot be read from standard input", &error))?;
    let text = line.trim_end_matches(['\n', '\r']);
    if text.is_empty() {
        return Err(Failure::usage("the next line of standard input is empty; it must be the passphrase"));
    }
    Ok(Passphrase(text.to_owned()))
}
