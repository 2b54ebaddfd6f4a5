//! Requests of agents that a person types a hidden line into a terminal, such as a password.
//!
//! The line goes from the person's front-end to the terminal, and nowhere else. The agent learns the outcome only. A
//! person may also type the line into the terminal itself, in an attached or a held one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use async_recursion::async_recursion as boxed;
use parking_lot::Mutex;
use steplatch_access::Caller;
use steplatch_clock::system_iso8601;
use steplatch_host::{HostedTerminal, SeenActivity};
use steplatch_protocol::{
    EnterSecret, EnterSecretReply, RequestSecret, RequestSecretReply, SecretOutcome, SecretRequestInfo,
};
use steplatch_terminal::{Description, Input, LoggedAction, LoggedInput};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use crate::error::SessionError;
use crate::sessions::{Sessions, secret_warning};

/// Maximum length of a reason of an agent or a person, in characters.
const MAX_REASON_CHARS: usize = 500;

/// Maximum time between two checks of the terminal.
const SILENT_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// Minimum time between two checks of the terminal.
const CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The open requests, by the id of their terminal.
#[derive(Debug, Clone, Default)]
pub(crate) struct SecretRequests(Arc<Mutex<OpenRequests>>);

#[derive(Debug, Default)]
struct OpenRequests {
    next_number: u64,
    by_terminal: BTreeMap<String, OpenRequest>,
}

#[derive(Debug)]
struct OpenRequest {
    number: u64,
    info: SecretRequestInfo,
    /// Receives the decision of a person. `None` while a person answers.
    decision: Option<oneshot::Sender<Decision>>,
}

/// End of a request.
#[derive(Debug)]
struct Decision {
    outcome: SecretOutcome,
    by: Option<String>,
    reason: Option<String>,
}

impl Decision {
    /// Returns an end without a person and a reason.
    fn unreasoned(outcome: SecretOutcome) -> Self {
        Self { outcome, by: None, reason: None }
    }
}

/// Closes a request when its caller no longer waits.
#[derive(Debug)]
struct RequestGuard {
    requests: SecretRequests,
    terminal: String,
    number: u64,
}

impl RequestGuard {
    /// Closes the request, unless a person answers it at this moment: only one of both decides.
    fn close(&self) -> bool {
        self.requests.remove_if(&self.terminal, |request| request.number == self.number && request.decision.is_some())
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.requests.remove_if(&self.terminal, |request| request.number == self.number);
    }
}

/// Answer of a person to an open request. Dropped without a decision, it leaves the request open.
#[derive(Debug)]
struct Answer {
    requests: SecretRequests,
    terminal: String,
    number: u64,
    decision: Option<oneshot::Sender<Decision>>,
}

impl Answer {
    fn decide(mut self, decision: Decision) {
        if let Some(sender) = self.decision.take() {
            // Ignore the error: the caller of the request has just given up.
            let _ = sender.send(decision);
        }
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        let requests = &mut self.requests.0.lock().by_terminal;
        if let Some(request) = requests.get_mut(&self.terminal).filter(|request| request.number == self.number) {
            request.decision = self.decision.take();
        }
    }
}

impl SecretRequests {
    /// Returns the open request of a terminal.
    pub(crate) fn get(&self, terminal: &str) -> Option<SecretRequestInfo> {
        self.0.lock().by_terminal.get(terminal).map(|request| request.info.clone())
    }

    /// Opens a request. `None` if the terminal has one already.
    fn open(&self, terminal: &str, info: SecretRequestInfo) -> Option<(RequestGuard, oneshot::Receiver<Decision>)> {
        let mut requests = self.0.lock();
        if requests.by_terminal.contains_key(terminal) {
            return None;
        }
        let (decision, receiver) = oneshot::channel();
        let number = requests.next_number;
        requests.next_number += 1;
        requests.by_terminal.insert(terminal.to_owned(), OpenRequest { number, info, decision: Some(decision) });
        Some((RequestGuard { requests: self.clone(), terminal: terminal.to_owned(), number }, receiver))
    }

    /// Begins the answer of a person to the request of a terminal. `None` if the terminal has no request.
    ///
    /// # Errors
    /// If another person answers it at this moment.
    fn begin_answer(&self, terminal: &str) -> Result<Option<Answer>, SessionError> {
        let mut requests = self.0.lock();
        let Some(request) = requests.by_terminal.get_mut(terminal) else { return Ok(None) };
        let decision = request.decision.take();
        if decision.is_none() {
            return Err("another person answers this request at the moment".to_owned().into());
        }
        let (requests, terminal) = (self.clone(), terminal.to_owned());
        Ok(Some(Answer { requests, terminal, number: request.number, decision }))
    }

    fn remove_if(&self, terminal: &str, is_removed: impl Fn(&OpenRequest) -> bool) -> bool {
        let requests = &mut self.0.lock().by_terminal;
        requests.get(terminal).is_some_and(is_removed) && requests.remove(terminal).is_some()
    }
}

impl Sessions {
    /// Waits until a person has typed the hidden line that the program of a terminal reads, or refuses.
    #[boxed]
    pub async fn request_secret(&self, caller: &Caller, verb: RequestSecret) -> RequestSecretReply {
        let session_id = verb.session_id.clone();
        match self.try_request_secret(caller, verb).await {
            Ok(reply) => reply,
            Err(error) => {
                let error = Some(self.describe_error(&session_id, error).await);
                RequestSecretReply { session_id, error, ..RequestSecretReply::default() }
            }
        }
    }

    async fn try_request_secret(
        &self,
        caller: &Caller,
        verb: RequestSecret,
    ) -> Result<RequestSecretReply, SessionError> {
        let terminal = self.find(&verb.session_id).await?;
        let secrets = self.secrets.within(terminal.id());
        check_hidden_prompt(&terminal.describe().await?)?;
        let last_input = terminal.inputs(0).await?.last().map_or(0, |input| input.number);
        let info = SecretRequestInfo {
            reason: shortened(verb.reason).map(|reason| secrets.masked(reason)),
            requested_by: caller.label(),
            since: system_iso8601(SystemTime::now()),
        };
        let Some((guard, mut decision)) = self.secret_requests.open(terminal.id().as_str(), info) else {
            return Err("a person was already asked for the hidden line of this terminal; wait for that answer"
                .to_owned()
                .into());
        };
        let deadline = Instant::now() + Duration::from_secs_f64(verb.timeout.clamp(0.0, 3600.0));
        let own_end = timeout_at(deadline, self.await_end_of_prompt(&terminal, last_input));
        let decision = tokio::select! {
            biased;
            Ok(decision) = &mut decision => decision,
            ended = own_end => {
                let ended = ended.unwrap_or_else(|_| Ok(Decision::unreasoned(SecretOutcome::Timeout)))?;
                loop {
                    if guard.close() {
                        break ended;
                    }
                    // A person has begun an answer, which may still fail.
                    if let Ok(Ok(decision)) = timeout(CHECK_INTERVAL, &mut decision).await {
                        break decision;
                    }
                }
            }
        };
        Ok(RequestSecretReply {
            success: matches!(decision.outcome, SecretOutcome::Entered | SecretOutcome::Typed),
            session_id: terminal.id().to_string(),
            outcome: Some(decision.outcome),
            by: decision.by,
            reason: decision.reason.map(|reason| secrets.masked(reason)),
            error: None,
        })
    }

    /// Waits until a line was typed or the program no longer reads one.
    async fn await_end_of_prompt(&self, terminal: &HostedTerminal, last_input: u64) -> Result<Decision, SessionError> {
        let mut seen = SeenActivity::default();
        loop {
            // No event reports that a program begins to echo without output.
            let _ = timeout(SILENT_CHECK_INTERVAL, self.hosts.watch_activity(&mut seen)).await;
            // The same program may ask again at once, so the end of the prompt may be too short to be seen.
            let is_over = check_hidden_prompt(&terminal.describe().await?).is_err();
            let inputs = terminal.inputs(last_input + 1).await?;
            let entered = |input: &LoggedInput| matches!(input.action, LoggedAction::Hidden { entered: true });
            if let Some(input) = inputs.into_iter().find(entered) {
                return Ok(Decision { outcome: SecretOutcome::Typed, by: input.client, reason: None });
            }
            if is_over {
                return Ok(Decision::unreasoned(SecretOutcome::Gone));
            }
            sleep(CHECK_INTERVAL).await;
        }
    }

    /// Types the hidden line of a person into a terminal whose program reads such a line, or refuses the request for
    /// the line.
    #[boxed]
    pub async fn enter_secret(&self, caller: &Caller, verb: EnterSecret) -> EnterSecretReply {
        let session_id = verb.session_id.clone();
        match self.try_enter_secret(caller, verb).await {
            Ok(warning) => EnterSecretReply { success: true, session_id, warning, error: None },
            Err(error) => {
                let error = Some(self.describe_error(&session_id, error).await);
                EnterSecretReply { session_id, error, ..EnterSecretReply::default() }
            }
        }
    }

    /// Returns a warning about a line that is hidden incompletely.
    async fn try_enter_secret(&self, caller: &Caller, verb: EnterSecret) -> Result<Option<String>, SessionError> {
        let terminal = self.find(&verb.session_id).await?;
        let by = Some(caller.display_name().await);
        let answer = self.secret_requests.begin_answer(terminal.id().as_str())?;
        let Some(secret) = verb.secret else {
            let Some(answer) = answer else {
                return Err("there is no request to refuse: no agent waits for a hidden line of this terminal"
                    .to_owned()
                    .into());
            };
            answer.decide(Decision { outcome: SecretOutcome::Refused, by, reason: shortened(verb.reason) });
            return Ok(None);
        };
        if secret.0.is_empty() || secret.0.chars().any(char::is_control) {
            return Err("a hidden line has at least one character and no control characters".to_owned().into());
        }
        let described = terminal.describe().await?;
        check_hidden_prompt(&described)?;
        self.remember_typed_secret(&terminal, &secret.0).await?;
        let input = Input {
            text: secret.0,
            keys: vec!["enter".to_owned()],
            by: by.clone(),
            secret: true,
            for_program: verb.program.or(described.password_program),
            without_view: true,
            ..Input::default()
        };
        let warning = secret_warning(&input.text);
        terminal.send(input).await?;
        if let Some(answer) = answer {
            answer.decide(Decision { outcome: SecretOutcome::Entered, by, reason: None });
        }
        Ok(warning)
    }
}

/// Fails unless the program reads a line without echo, or a program on another computer seems to.
fn check_hidden_prompt(described: &Description) -> Result<(), SessionError> {
    if described.exit.is_none() && (described.password || described.password_program.is_some()) {
        return Ok(());
    }
    Err("no program in this terminal reads a hidden line now (password: true): wait for its prompt first"
        .to_owned()
        .into())
}

fn shortened(reason: Option<String>) -> Option<String> {
    let reason = reason?.trim().chars().take(MAX_REASON_CHARS).collect::<String>();
    Some(reason).filter(|reason| !reason.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(requests: &SecretRequests) -> (RequestGuard, oneshot::Receiver<Decision>) {
        requests.open("vault", SecretRequestInfo::default()).unwrap()
    }

    #[test]
    fn begun_answer_decides_and_a_failed_one_leaves_the_request_open() {
        let requests = SecretRequests::default();
        let (guard, mut decision) = open(&requests);
        let answer = requests.begin_answer("vault").unwrap().unwrap();
        assert!(!guard.close(), "the answer is the end");
        assert!(requests.begin_answer("vault").is_err(), "only one person answers");
        drop(answer);
        let answer = requests.begin_answer("vault").unwrap().unwrap();
        answer.decide(Decision::unreasoned(SecretOutcome::Entered));
        assert_eq!(decision.try_recv().unwrap().outcome, SecretOutcome::Entered);
        assert!(!guard.close());
    }

    #[test]
    fn request_is_closed_by_its_own_guard_only() {
        let requests = SecretRequests::default();
        let (first, _decision) = open(&requests);
        assert!(requests.open("vault", SecretRequestInfo::default()).is_none());
        assert!(first.close());
        let (_second, _decision) = open(&requests);
        drop(first);
        assert!(requests.get("vault").is_some());
    }
}
