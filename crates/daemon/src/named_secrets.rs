//! The secrets of the settings, which texts refer to as `{secret:NAME}`.
//!
//! A value is read when a text needs it, from its source or from a person at a gate, and hidden in every reply from then
//! on. Values that the settings keep for some time are in memory only.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use steplatch_access::{Caller, NamedSecret, NamedSecretError, NamedSecrets, Redactor, ResolvingSecret};
use steplatch_protocol::{
    Command, ListTerminalSessionsReply, OpenTerminal, OpenTerminalReply, RunCommand, RunCommandReply, SendInput,
    SendInputReply, SetVariables, SetVariablesReply, visible,
};
use steplatch_runs::Runs;
use steplatch_secret::{SecretSource, SourceError};
use steplatch_sessions::{SECRET_AT_PROMPT, Sessions, VerbReply};
use steplatch_workflow::filtered_forms;
use steplatch_workflow::substitute::{has_line_of_secrets, secret_references, with_secrets};
use tokio::sync::watch::Receiver;
use tokio::time::{Instant, sleep_until};

use crate::askpass::{PasswordQuestions, describe_terminal};
use crate::configuration::Configuration;

/// A secret of the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretSetting {
    /// Unique name: letters, digits, `_` and `-`.
    pub name: String,
    /// Origin of the value.
    pub from: SecretOrigin,
    /// Time for which a value is used again.
    pub keep: SecretKeep,
}

/// Origin of a secret's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SecretOrigin {
    /// A source that the daemon reads.
    Source(SecretSource),
    /// A person, who is asked at a gate.
    Person,
}

/// Time for which the value of a secret is used again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SecretKeep {
    /// Each call reads it again.
    Once,
    /// A run reads it once.
    #[default]
    Run,
    /// All calls within this time use one value.
    For(Duration),
}

/// Beginning of every reference, also of one with doubled braces.
const REFERENCE_START: &str = "{secret:";

/// Advice for a text that only looks like a reference.
const LITERAL_HINT: &str = "to send the text {secret:…} itself, double its braces";

/// The secrets of the settings, and of callers' environments for other names.
#[derive(Debug)]
pub(crate) struct SettingSecrets {
    configuration: Receiver<Configuration>,
    redactor: Arc<Redactor>,
    questions: Arc<PasswordQuestions>,
    /// The runs ask people. They begin after this value.
    runs: OnceLock<Weak<Runs>>,
    kept: Mutex<HashMap<String, Arc<KeptSecret>>>,
}

/// A value that is used again. The lock is held while it is read, so that a person is asked once.
type KeptSecret = tokio::sync::Mutex<Option<KeptValue>>;

#[derive(Debug)]
struct KeptValue {
    /// The setting at the time of reading.
    setting: SecretSetting,
    value: String,
    until: Instant,
}

impl SettingSecrets {
    pub(crate) fn new(
        configuration: Receiver<Configuration>,
        redactor: Arc<Redactor>,
        questions: Arc<PasswordQuestions>,
    ) -> Self {
        Self { configuration, redactor, questions, runs: OnceLock::new(), kept: Mutex::default() }
    }

    /// Sets the runs that ask people.
    pub(crate) fn set_runs(&self, runs: &Arc<Runs>) {
        // Ignore a second call.
        let _ = self.runs.set(Arc::downgrade(runs));
    }

    fn setting(&self, name: &str) -> Option<SecretSetting> {
        self.configuration.borrow().secrets.iter().find(|setting| setting.name == name).cloned()
    }

    async fn find(&self, caller: &Caller, name: &str, purpose: &str) -> Result<NamedSecret, NamedSecretError> {
        let Some(setting) = self.setting(name) else {
            let value = variable(caller, name).and_then(|value| value.into_string().ok());
            let value = value.filter(|value| !value.is_empty());
            let value = value.ok_or_else(|| NamedSecretError::Unknown(name.to_owned()))?;
            return Ok(NamedSecret { value, is_kept_in_run: true });
        };
        let SecretKeep::For(time) = setting.keep else {
            self.kept.lock().remove(name);
            let value = self.read(caller, &setting, purpose).await?;
            return Ok(NamedSecret { value, is_kept_in_run: setting.keep == SecretKeep::Run });
        };
        let slot = self.kept.lock().entry(name.to_owned()).or_default().clone();
        let mut kept = slot.lock().await;
        if let Some(known) = kept.as_ref().filter(|known| known.setting == setting && Instant::now() < known.until) {
            return Ok(NamedSecret { value: known.value.clone(), is_kept_in_run: false });
        }
        let value = self.read(caller, &setting, purpose).await?;
        let until = Instant::now() + time;
        *kept = Some(KeptValue { setting, value: value.clone(), until });
        tokio::spawn(forget_at(until, Arc::downgrade(&slot)));
        Ok(NamedSecret { value, is_kept_in_run: false })
    }

    /// Reads a value from its source, or asks a person.
    async fn read(&self, caller: &Caller, setting: &SecretSetting, purpose: &str) -> Result<String, NamedSecretError> {
        match &setting.from {
            SecretOrigin::Source(source) => {
                let value = source.read(|name| variable(caller, name).or_else(|| std::env::var_os(name))).await;
                value.map_err(|error| NamedSecretError::Unreadable {
                    name: setting.name.clone(),
                    reason: match error {
                        SourceError::NotSet(name) => {
                            format!("the variable {name} is set neither by the client nor for the daemon")
                        }
                        error => error.to_string(),
                    },
                })
            }
            SecretOrigin::Person => {
                let not_given = || NamedSecretError::NotGiven(setting.name.clone());
                let runs = self.runs.get().and_then(Weak::upgrade).ok_or_else(not_given)?;
                let question = describe_question(caller, setting, purpose);
                let answer = self.questions.ask_for_secret(&runs, &setting.name, &question).await;
                answer
                    .map_err(|reason| NamedSecretError::Unreadable { name: setting.name.clone(), reason })?
                    .filter(|value| !value.is_empty())
                    .ok_or_else(not_given)
            }
        }
    }

    /// Replaces the references of a client's command to secrets of the settings, and returns their values. Variables of
    /// the client count for definitions only: hiding `SHELL` or `USER` would take words out of all text.
    ///
    /// # Errors
    /// If one secret has no value. The text is for the client.
    pub(crate) async fn fill(
        &self,
        sessions: &Sessions,
        caller: &Caller,
        command: &mut Command,
    ) -> Result<Vec<String>, String> {
        let mut names = BTreeMap::new();
        let mut texts = texts_of(command);
        texts.retain(|text| text.contains(REFERENCE_START));
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        for text in texts {
            let references = secret_references(text).map_err(|other| {
                format!("nothing was sent: '{REFERENCE_START}{other}' is no reference to a secret: a name has letters, digits, '_' and '-', and filters are sh, json and regex; {LITERAL_HINT}")
            })?;
            for reference in references {
                *names.entry(reference.name.to_owned()).or_insert(true) &= reference.is_quoted;
            }
        }
        let terminal = match command {
            Command::SendInput(verb) => Some(verb.session_id.clone()),
            Command::SetVariables(verb) => Some(verb.session_id.clone()),
            Command::RunCommand(verb) => verb.session_id.clone(),
            _ => None,
        };
        if let Some(session) = terminal.as_deref().filter(|_| !names.is_empty()) {
            sessions.exists(session).await.map_err(|error| error.to_string())?;
            self.refuse_secret_as_command(sessions, session, command).await?;
        }
        let purpose = describe_purpose(command, &describe_place(sessions, terminal.as_deref()).await);
        let mut values = BTreeMap::new();
        for (name, is_quoted) in names {
            if self.setting(&name).is_none() {
                let error = NamedSecretError::NotConfigured(name);
                return Err(format!("nothing was sent: {error}; {LITERAL_HINT}"));
            }
            let secret = self.resolve(caller, &name, &purpose).await;
            let secret = secret.map_err(|error| format!("nothing was sent: {error}"))?;
            if !is_quoted && is_typed(command) && secret.value.contains(['\n', '\r']) {
                return Err(format!(
                    "nothing was sent: secret {name} has several lines, and the second one would be entered by itself; \
                     quote it with {{secret:{name}|sh}}, or pass it in environment"
                ));
            }
            values.insert(name, secret.value);
        }
        let forms = values.values().flat_map(|value| filtered_forms(value));
        let texts: Vec<String> = values.values().cloned().chain(forms).collect();
        sessions.hide_named_secrets(terminal.as_deref(), &texts).await;
        for text in texts_of(command) {
            *text = with_secrets(text, &values);
        }
        Ok(texts)
    }

    /// Refuses a line that is only a secret at the prompt of a shell, which would run it as a command and show it.
    async fn refuse_secret_as_command(
        &self,
        sessions: &Sessions,
        session: &str,
        command: &Command,
    ) -> Result<(), String> {
        let is_command = match command {
            Command::RunCommand(verb) => has_line_of_secrets(&verb.command),
            Command::SendInput(verb) => {
                has_line_of_secrets(&verb.input_text) && sessions.is_at_shell_prompt(session).await
            }
            _ => false,
        };
        if is_command { Err(SECRET_AT_PROMPT.to_owned()) } else { Ok(()) }
    }
}

/// Returns whether the texts of a command are typed, so that a line end enters them.
fn is_typed(command: &Command) -> bool {
    matches!(command, Command::SendInput(_) | Command::RunCommand(_))
}

impl NamedSecrets for SettingSecrets {
    fn resolve<'a>(&'a self, caller: &'a Caller, name: &'a str, purpose: &'a str) -> ResolvingSecret<'a> {
        Box::pin(async move {
            let secret = self.find(caller, name, purpose).await?;
            self.redactor.add(&secret.value);
            for form in filtered_forms(&secret.value) {
                self.redactor.add(&form);
            }
            Ok(secret)
        })
    }
}

/// Forgets a value at the end of its time, unless a newer one has replaced it.
async fn forget_at(until: Instant, slot: Weak<KeptSecret>) {
    sleep_until(until).await;
    if let Some(slot) = slot.upgrade() {
        let mut kept = slot.lock().await;
        if kept.as_ref().is_some_and(|known| known.until <= until) {
            *kept = None;
        }
    }
}

fn variable(caller: &Caller, name: &str) -> Option<std::ffi::OsString> {
    caller.environment.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone())
}

/// Returns the texts of a command that may refer to secrets.
fn texts_of(command: &mut Command) -> Vec<&mut String> {
    match command {
        Command::SendInput(SendInput { input_text, .. }) => vec![input_text],
        Command::RunCommand(RunCommand { command, environment, .. }) => {
            std::iter::once(command).chain(environment.iter_mut().flat_map(BTreeMap::values_mut)).collect()
        }
        Command::OpenTerminal(OpenTerminal { environment, .. }) => {
            environment.iter_mut().flat_map(BTreeMap::values_mut).collect()
        }
        Command::SetVariables(SetVariables { variables, .. }) => variables.values_mut().collect(),
        _ => Vec::new(),
    }
}

/// Returns the reply to a command that was not executed.
pub(crate) fn failed_reply(command: Command, error: String) -> VerbReply {
    let error = Some(error);
    match command {
        Command::SendInput(SendInput { session_id, .. }) => {
            let message = "Input not sent".to_owned();
            VerbReply::from_reply(SendInputReply { session_id, message, error, ..SendInputReply::default() })
        }
        Command::RunCommand(RunCommand { session_id, .. }) => {
            VerbReply::from_reply(RunCommandReply { session_id, error, ..RunCommandReply::default() })
        }
        Command::OpenTerminal(_) => VerbReply::from_reply(OpenTerminalReply { error, ..OpenTerminalReply::default() }),
        _ => VerbReply::from_reply(SetVariablesReply { success: false, error }),
    }
}

/// Returns the terminal of a command in words.
async fn describe_place(sessions: &Sessions, terminal: Option<&str>) -> String {
    let Some(terminal) = terminal else { return "a new terminal".to_owned() };
    let ListTerminalSessionsReply { sessions: terminals, .. } = sessions.list().await;
    let found = terminals.iter().find(|known| known.session_id == terminal || known.name.as_deref() == Some(terminal));
    found.map_or_else(|| format!("terminal {terminal}"), describe_terminal)
}

/// Returns the use of a secret in a command, in words for a person.
fn describe_purpose(command: &Command, place: &str) -> String {
    match command {
        Command::SendInput(verb) if verb.secret => format!("to type into {place} in a hidden text"),
        Command::SendInput(verb) => format!("to type into {place}: {}", verb.input_text.trim_end()),
        Command::RunCommand(verb) => format!("to run in {place}: {}", verb.command.trim_end()),
        Command::OpenTerminal(verb) => {
            let program = verb.command.as_ref().map_or_else(|| verb.shell.clone(), shell_words::join);
            format!("for the environment of {place} with {program}")
        }
        Command::SetVariables(verb) => {
            let names = verb.variables.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
            format!("for the variables {names} of {place}")
        }
        _ => String::new(),
    }
}

/// Returns the question to a person.
fn describe_question(caller: &Caller, setting: &SecretSetting, purpose: &str) -> String {
    let client = visible(&caller.label().unwrap_or_else(|| "a client".to_owned()));
    let again = match setting.keep {
        SecretKeep::For(time) => {
            format!("\nOther uses of the secret get it without a question for {} minutes.", time.as_secs().div_ceil(60))
        }
        SecretKeep::Once | SecretKeep::Run => String::new(),
    };
    format!(
        "{client} asks for secret '{}', {}.\nPrograms that the client chose can read the answer. To refuse, cancel the run.{again}",
        setting.name,
        visible(purpose)
    )
}
