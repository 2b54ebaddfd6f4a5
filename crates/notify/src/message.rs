//! The message about an occasion, in the words of each way.

use jiff::tz::TimeZone;
use ring::digest::{SHA256, digest};
use serde_json::{Value, json};
use steplatch_clock::{Timestamp, to_iso8601};
use steplatch_remote::clean_text;

use crate::board::{Delivery, Phase};
use crate::occasion::{Kind, Occasion, Subject};
use crate::rule::Rule;

/// Maximum length of a name in a message, in characters.
const MAX_NAME_CHARS: usize = 200;

/// Maximum length of a prompt in a message, in characters.
const MAX_PROMPT_CHARS: usize = 1_000;

/// A message for one way. No text has control characters or other invisible ones.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Identifier of the event, the same for each attempt of a rule.
    pub id: String,
    /// Identifier of the occasion for this rule, the same for its notification, reminder and withdrawal.
    pub thread: String,
    /// Reason of the delivery.
    pub phase: Phase,
    /// The occasion, with clean names.
    pub occasion: Occasion,
    /// One line.
    pub title: String,
    /// Details, on one line or with the prompt on a second one.
    pub body: String,
    /// Address on the page, if it runs.
    pub link: Option<String>,
    /// Identifier of the delivered notification, which this one replaces or withdraws.
    pub receipt: Option<u32>,
}

impl Message {
    /// Writes the message of a delivery. `page` is the address of the page, and `mask` removes secrets from a text.
    #[must_use]
    pub fn compose(
        rule: &Rule,
        delivery: &Delivery,
        page: Option<&str>,
        zone: &TimeZone,
        mask: impl Fn(String) -> String,
    ) -> Self {
        let Delivery { phase, occasion, decided, receipt, .. } = delivery;
        // Invisible characters may hide a secret, and a cut may leave a part of it: mask before and after cleaning.
        let clean = |text: String, max_chars| clean_text(&mask(clean_text(&mask(text), usize::MAX)), max_chars);
        let name = |text: &Option<String>| text.clone().map(|text| clean(text, MAX_NAME_CHARS));
        let Subject {
            workflow,
            run_id,
            gate_id,
            approvers,
            terminal_id,
            terminal,
            host,
            schedule,
            service,
            by,
            prompt,
        } = &occasion.subject;
        let prompt = prompt.clone().filter(|_| rule.include_prompt);
        let subject = Subject {
            workflow: name(workflow),
            run_id: name(run_id),
            gate_id: name(gate_id),
            approvers: approvers.clone(),
            terminal_id: name(terminal_id),
            terminal: name(terminal),
            host: name(host),
            schedule: name(schedule),
            service: name(service),
            by: name(by),
            prompt: prompt.map(|prompt| clean(prompt, MAX_PROMPT_CHARS)),
        };
        let occasion = Occasion { subject, ..occasion.clone() };
        let id = occasion.id();
        let link = page.and_then(|page| {
            let place = match occasion.kind {
                kind if kind.is_about_run() => format!("runs/{}", occasion.subject.run_id.as_ref()?),
                _ => format!("terminals/{}", occasion.subject.terminal_id.as_ref()?),
            };
            Some(format!("{page}#/{place}"))
        });
        Self {
            id: short_digest(&format!("{}\n{id}\n{}", rule.name, phase.name())),
            thread: short_digest(&format!("{}\n{id}", rule.name)),
            phase: *phase,
            title: title(*phase, &occasion),
            body: body(*phase, &occasion, *decided, zone),
            link: link.filter(|_| *phase != Phase::Test),
            occasion,
            receipt: *receipt,
        }
    }

    /// Returns the details with the address.
    #[must_use]
    pub fn body_with_link(&self) -> String {
        match &self.link {
            Some(link) => format!("{}\n{link}", self.body),
            None => self.body.clone(),
        }
    }

    /// Returns the names and texts of the message that are present.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, String)> {
        let Subject {
            workflow,
            run_id,
            gate_id,
            approvers: _,
            terminal_id,
            terminal,
            host,
            schedule,
            service,
            by,
            prompt,
        } = self.occasion.subject.clone();
        let fields = [
            ("title", Some(self.title.clone())),
            ("body", Some(self.body.clone())),
            ("since", Some(to_iso8601(self.occasion.since))),
            ("workflow", workflow),
            ("run_id", run_id),
            ("gate_id", gate_id),
            ("terminal_id", terminal_id),
            ("terminal", terminal),
            ("host", host),
            ("schedule", schedule),
            ("service", service),
            ("by", by),
            ("prompt", prompt),
            ("link", self.link.clone()),
        ];
        fields.into_iter().filter_map(|(name, value)| Some((name, value?))).collect()
    }

    /// Returns the message as an event in the JSON format of CloudEvents 1.0
    /// (<https://github.com/cloudevents/spec/blob/v1.0.2/cloudevents/formats/json-format.md>). `source` names this
    /// computer.
    #[must_use]
    pub fn cloud_event(&self, source: &str, decided: Timestamp) -> Value {
        let Occasion { kind, subject, .. } = &self.occasion;
        let kind = if self.phase == Phase::Test { "test" } else { kind.name() };
        let data: serde_json::Map<String, Value> =
            self.fields().into_iter().map(|(name, value)| (name.to_owned(), value.into())).collect();
        let mut event = json!({
            "specversion": "1.0",
            "id": self.id,
            "source": source,
            "type": format!("steplatch.{kind}.{}", self.phase.name()),
            "time": to_iso8601(decided),
            "datacontenttype": "application/json",
            "data": data,
        });
        event["data"]["thread"] = self.thread.as_str().into();
        if let Some(name) = [&subject.workflow, &subject.terminal, &subject.host, &subject.schedule, &subject.service]
            .into_iter()
            .flatten()
            .next()
        {
            event["subject"] = name.as_str().into();
        }
        event
    }
}

/// Returns 128 bits of a digest in hexadecimal, which are valid in every header and sequence.
fn short_digest(text: &str) -> String {
    digest(&SHA256, text.as_bytes()).as_ref()[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}

fn title(phase: Phase, occasion: &Occasion) -> String {
    let Subject { workflow, terminal, terminal_id, host, schedule, service, by, .. } = &occasion.subject;
    let workflow = workflow.as_deref().unwrap_or("a run");
    let terminal = terminal.as_deref().or(terminal_id.as_deref()).unwrap_or("a terminal");
    let host = host.as_deref().unwrap_or("a host");
    let (schedule, service) = (schedule.as_deref().unwrap_or("a schedule"), service.as_deref().unwrap_or("a service"));
    let still = if phase == Phase::Reminder { "still " } else { "" };
    match (phase, occasion.kind) {
        (Phase::Test, _) => "Test of steplatch notifications".to_owned(),
        (Phase::Withdrawn, Kind::Gate) => format!("{workflow} does not wait any more"),
        (Phase::Withdrawn, Kind::Password | Kind::AgentAsks) => format!("{terminal} needs no answer any more"),
        (Phase::Withdrawn, Kind::Held) => format!("{terminal} is not held any more"),
        (Phase::Withdrawn, Kind::HostLost) => format!("Host {host} is not lost any more"),
        (Phase::Withdrawn, Kind::ScheduleFailed) => format!("Schedule {schedule} starts its runs again"),
        (Phase::Withdrawn, Kind::ServiceFailed) => format!("Service {service} is not failed any more"),
        (_, Kind::ScheduleFailed) => format!("Schedule {schedule} could {still}not start its run"),
        (_, Kind::ServiceFailed) => format!("Service {service} has failed"),
        (_, Kind::Gate) => format!("{workflow} {still}waits for your answer"),
        (_, Kind::Password) => format!("{terminal} {still}asks for a password"),
        (_, Kind::AgentAsks) => {
            format!("{} {still}asks for a decision in {terminal}", by.as_deref().unwrap_or("an agent"))
        }
        (_, Kind::Held) => format!("{terminal} is {still}held by {}", by.as_deref().unwrap_or("a person")),
        (_, Kind::HostLost) => format!("Host {host} is {still}not reachable"),
        (_, Kind::RunFailed) => format!("{workflow} failed"),
        (_, Kind::RunCompleted) => format!("{workflow} completed"),
        (_, Kind::RunRepaired) => format!("{workflow} completed after a repair"),
    }
}

fn body(phase: Phase, occasion: &Occasion, decided: Timestamp, zone: &TimeZone) -> String {
    let Subject { run_id, gate_id, terminal, terminal_id, host, prompt, .. } = &occasion.subject;
    let since = local_time(occasion.since, decided, zone);
    let run = run_id.as_deref().unwrap_or_default();
    let terminal = terminal.as_deref().or(terminal_id.as_deref()).unwrap_or_default();
    let text = match occasion.kind {
        _ if phase == Phase::Test => format!("Sent at {since}."),
        _ if phase == Phase::Withdrawn => format!("It began at {since}."),
        Kind::Gate => {
            format!("Since {since}. Answer with: steplatch gates answer {}", gate_id.as_deref().unwrap_or(run))
        }
        Kind::Password | Kind::AgentAsks | Kind::Held => {
            format!("Since {since}. Attach with: steplatch terminal attach {terminal}")
        }
        Kind::HostLost => {
            format!("Since {since}. Connect with: steplatch hosts check {}", host.as_deref().unwrap_or_default())
        }
        Kind::ScheduleFailed => format!("Since {since}. The reason: steplatch schedule list"),
        Kind::ServiceFailed => format!("Since {since}. The reason: steplatch ps"),
        Kind::RunFailed | Kind::RunCompleted | Kind::RunRepaired => {
            format!("At {since}. Details: steplatch runs show {run}")
        }
    };
    match prompt {
        Some(prompt) => format!("{text}\n{prompt}"),
        None => text,
    }
}

/// Formats a time of day, with the date unless it is that of `now`.
fn local_time(time: Timestamp, now: Timestamp, zone: &TimeZone) -> String {
    let local = |time: Timestamp| {
        zone.to_datetime(jiff::Timestamp::from_microsecond(time.0).unwrap_or(jiff::Timestamp::UNIX_EPOCH))
    };
    let (time, now) = (local(time), local(now));
    let format = if time.date() == now.date() { "%H:%M" } else { "%Y-%m-%d %H:%M" };
    time.strftime(format).to_string()
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    fn message(phase: Phase, kind: Kind, subject: Subject, includes_prompt: bool) -> Message {
        let table = "when = ['gate']\ncommand = ['x']".parse().unwrap();
        let mut rule = Rule::read(&table, 1, |_| false).unwrap();
        rule.include_prompt = includes_prompt;
        let since = steplatch_clock::parse_iso8601("2026-01-10T12:05:00Z").unwrap();
        let occasion = Occasion { kind, key: "k".to_owned(), since, subject };
        let delivery = Delivery { phase, occasion, decided: since, due: since, attempts: 0, receipt: None };
        let mask = |text: String| text.replace("hunter2", "••••••");
        Message::compose(&rule, &delivery, Some("http://localhost:7878/"), &TimeZone::UTC, mask)
    }

    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn messages_name_what_waits_and_the_next_step() {
        let subject = Subject {
            workflow: text("release"),
            run_id: text("run_1"),
            approvers: std::collections::BTreeMap::new(),
            gate_id: text("run_1/ask/1"),
            terminal_id: text("term_1"),
            terminal: text("build"),
            host: text("box"),
            schedule: text("nightly"),
            service: text("web"),
            by: text("ana"),
            prompt: None,
        };
        let mut lines = String::new();
        for kind in Kind::ALL {
            let message = message(Phase::First, kind, subject.clone(), false);
            lines += &format!("{} | {} | {}\n", message.title, message.body, message.link.unwrap_or_default());
        }
        for phase in [Phase::Reminder, Phase::Withdrawn, Phase::Test] {
            let message = message(phase, Kind::Gate, subject.clone(), false);
            lines += &format!("{} | {}\n", message.title, message.body);
        }
        // A client may have attached while the program still asks.
        lines += &message(Phase::Withdrawn, Kind::Password, subject, false).title;
        expect![[r#"
            release waits for your answer | Since 12:05. Answer with: steplatch gates answer run_1/ask/1 | http://localhost:7878/#/runs/run_1
            build asks for a password | Since 12:05. Attach with: steplatch terminal attach build | http://localhost:7878/#/terminals/term_1
            ana asks for a decision in build | Since 12:05. Attach with: steplatch terminal attach build | http://localhost:7878/#/terminals/term_1
            build is held by ana | Since 12:05. Attach with: steplatch terminal attach build | http://localhost:7878/#/terminals/term_1
            Host box is not reachable | Since 12:05. Connect with: steplatch hosts check box | http://localhost:7878/#/terminals/term_1
            Schedule nightly could not start its run | Since 12:05. The reason: steplatch schedule list | http://localhost:7878/#/terminals/term_1
            Service web has failed | Since 12:05. The reason: steplatch ps | http://localhost:7878/#/terminals/term_1
            release failed | At 12:05. Details: steplatch runs show run_1 | http://localhost:7878/#/runs/run_1
            release completed | At 12:05. Details: steplatch runs show run_1 | http://localhost:7878/#/runs/run_1
            release completed after a repair | At 12:05. Details: steplatch runs show run_1 | http://localhost:7878/#/runs/run_1
            release still waits for your answer | Since 12:05. Answer with: steplatch gates answer run_1/ask/1
            release does not wait any more | It began at 12:05.
            Test of steplatch notifications | Sent at 12:05.
            build needs no answer any more"#]]
        .assert_eq(&lines);
    }

    #[test]
    fn texts_have_no_control_characters_and_no_secrets() {
        let subject = Subject {
            workflow: text("rel\u{1b}]0;x\u{7}ease hunter2\u{202e}"),
            prompt: text("Use\nhun\u{200b}ter2\u{9b}31m?"),
            ..Subject::default()
        };
        let event =
            message(Phase::First, Kind::Gate, subject.clone(), true).cloud_event("/steplatch/box", Timestamp(0));
        expect![[r#"
            {
              "specversion": "1.0",
              "id": "814ac9c663534f73620dc7c16f855707",
              "source": "/steplatch/box",
              "type": "steplatch.gate.first",
              "time": "1970-01-01T00:00:00.000Z",
              "datacontenttype": "application/json",
              "data": {
                "title": "release •••••• waits for your answer",
                "body": "Since 12:05. Answer with: steplatch gates answer \nUse ••••••?",
                "since": "2026-01-10T12:05:00.000Z",
                "workflow": "release ••••••",
                "prompt": "Use ••••••?",
                "thread": "0f00514ee47b6ebf484ddc10c635f23b"
              },
              "subject": "release ••••••"
            }"#]]
        .assert_eq(&serde_json::to_string_pretty(&event).unwrap());
        let without = message(Phase::First, Kind::Gate, subject, false);
        assert!(!without.body.contains("Use"));
    }
}
