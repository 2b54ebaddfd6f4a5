//! Notifications of people: what waits and what has ended reaches a webhook and a command.

use std::time::Duration;

use serde_json::{Value, json};
use steplatch_daemon::Configuration;
use steplatch_host::RemoteHostConfig;
use steplatch_notify::Rule;
use steplatch_protocol::{
    AddSchedule, AnswerGate, CheckHost, CreateWorkflow, DeleteWorkflow, GetRun, HoldTerminal, ListNotifications,
    OpenTerminal, RunWorkflow, SendInput, TerminalNotification, TestNotification, WatchNotifications,
};
use steplatch_testkit::{ManualClock, TestDaemon, Timestamp, WebhookReceiver, eventually};

/// Returns the configuration of a settings file with these tables.
fn configuration(text: &str) -> Configuration {
    let table: toml::Table = text.parse().unwrap();
    let mut notifications: Vec<Rule> = Vec::new();
    for (index, table) in table["notify"].as_array().unwrap().iter().enumerate() {
        let is_taken = |name: &str| notifications.iter().any(|rule| rule.name == name);
        notifications.push(Rule::read(table.as_table().unwrap(), index + 1, is_taken).unwrap());
    }
    Configuration { notifications, ..Configuration::default() }
}

fn webhook_rule(receiver: &WebhookReceiver, keys: &str) -> String {
    format!("[[notify]]\nname = 'hook'\nwebhook = '{}'\n{keys}\n", receiver.url("/hook/secret-path"))
}

/// Starts a run that asks a person, and returns its id.
async fn start_asking(daemon: &TestDaemon, prompt: &str, variables: Value) -> String {
    let definition = json!({"name": "release", "initial_state": "ask", "states": {
        "ask": {"action": {"tool": "gate", "params": {"prompt": prompt, "choices": ["yes", "no"]}}},
    }});
    let verb = RunWorkflow {
        workflow_definition: Some(definition),
        initial_variables: serde_json::from_value(variables).unwrap(),
        wait_seconds: Some(60.0),
        save_on_success: false,
        ..RunWorkflow::default()
    };
    let run = daemon.call(verb).await;
    assert_eq!(run.status, "waiting", "{run:?}");
    run.run_id
}

async fn answer(daemon: &TestDaemon, run_id: &str) {
    let person = daemon.person_named("ana").await;
    let verb = AnswerGate { run_id: run_id.to_owned(), answer: "yes".to_owned(), ..AnswerGate::default() };
    let reply = person.call(verb).await.unwrap();
    assert!(reply.success, "{reply:?}");
}

async fn received(receiver: &WebhookReceiver, types: &[&str]) {
    eventually("the webhook has received the events", async || (receiver.types() == types).then_some(())).await;
}

#[tokio::test]
async fn gate_reaches_a_webhook_and_is_withdrawn_when_answered() {
    let receiver = WebhookReceiver::start();
    let daemon = TestDaemon::new().await;
    daemon.configure(configuration(&webhook_rule(&receiver, "when = ['gate', 'run_completed']")));
    let run = start_asking(&daemon, "Deploy secretly?", json!({"key": "a-parameter"})).await;
    received(&receiver, &["steplatch.gate.first"]).await;
    answer(&daemon, &run).await;
    eventually("all events have arrived", async || (receiver.types().len() == 3).then_some(())).await;
    let mut types = receiver.types();
    types.sort();
    assert_eq!(types, ["steplatch.gate.first", "steplatch.gate.withdrawn", "steplatch.run_completed.first"]);
    let request = &receiver.requests()[0];
    assert_eq!(request.path, "/hook/secret-path");
    assert_eq!(request.headers["content-type"], "application/cloudevents+json; charset=UTF-8");
    let event = request.json();
    assert_eq!(request.headers["webhook-id"], event["id"].as_str().unwrap());
    assert_eq!((&event["specversion"], &event["subject"]), (&json!("1.0"), &json!("release")));
    assert_eq!((&event["data"]["workflow"], &event["data"]["run_id"]), (&json!("release"), &json!(run)));
    assert_eq!(event["data"]["title"], "release waits for your answer");
    assert!(!event.to_string().contains("secretly") && !event.to_string().contains("a-parameter"), "{event}");
    let rules = eventually("the replies of the receiver were read", async || {
        let rules = daemon.call(ListNotifications {}).await.rules;
        (rules[0].pending == 0).then_some(rules)
    })
    .await;
    assert_eq!((rules[0].name.as_str(), rules[0].failures), ("hook", 0));
    assert!(!rules[0].destination.contains("secret-path"), "{rules:?}");
}

#[tokio::test]
async fn receiver_that_was_down_for_a_minute_gets_each_event_once_by_its_id() {
    let receiver = WebhookReceiver::start();
    receiver.answer_with(503);
    let start = Timestamp(1_768_046_400_000_000);
    let clock = ManualClock::new(start);
    let daemon = TestDaemon::with_clock(&clock).await;
    daemon.configure(configuration(&webhook_rule(&receiver, "when = ['gate', 'run_completed']")));
    let first = start_asking(&daemon, "One?", json!({})).await;
    start_asking(&daemon, "Two?", json!({})).await;
    eventually("both gates were announced", async || (receiver.refused() == 2).then_some(())).await;
    answer(&daemon, &first).await;
    eventually("a minute passes, and the events were refused again", async || {
        clock.advance(Duration::from_secs(2));
        let minute = clock.now().since(start) >= Duration::from_secs(60);
        (minute && receiver.refused() >= 6).then_some(())
    })
    .await;
    eventually("all events wait", async || match daemon.call(ListNotifications {}).await.rules.remove(0) {
        rule if rule.pending == 4 => Ok(()),
        rule => Err(rule),
    })
    .await;
    let daemon = daemon.restarted().await;
    assert_eq!(receiver.requests().len(), 0);
    receiver.answer_with(204);
    eventually("all events have arrived", async || {
        clock.advance(Duration::from_secs(5));
        (receiver.requests().len() >= 4).then_some(())
    })
    .await;
    eventually("nothing is pending", async || {
        let rules = daemon.call(ListNotifications {}).await.rules;
        (rules[0].pending == 0 && rules[0].last_error.is_none()).then_some(())
    })
    .await;
    let mut ids: Vec<String> =
        receiver.requests().iter().map(|request| request.headers["webhook-id"].clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4, "{:?}", receiver.types());
    let mut types = receiver.types();
    types.sort();
    types.dedup();
    assert_eq!(types, ["steplatch.gate.first", "steplatch.gate.withdrawn", "steplatch.run_completed.first"]);
}

#[tokio::test]
async fn command_gets_the_message_in_its_environment_and_a_hung_rule_delays_no_other() {
    let receiver = WebhookReceiver::start();
    let daemon = TestDaemon::new().await;
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("message");
    let script = "env | grep ^STEPLATCH_NOTIFY_ >\"$0.new\"; cat >>\"$0.new\"; mv \"$0.new\" \"$0\"";
    let command = json!(["sh", "-c", script, file]).to_string();
    let text = format!(
        "[[notify]]\nwhen = ['gate']\ncommand = ['sleep', '600']\n\
         [[notify]]\nwhen = ['gate']\ncommand = {command}\ninclude = ['prompt']\n\
         [[notify]]\nwhen = ['gate']\ncommand = ['false']\n\
         [[notify]]\nwhen = ['gate']\nworkflows = ['other*']\nname = 'other'\nwebhook = '{url}'\n\
         {hook}",
        url = receiver.url("/other"),
        hook = webhook_rule(&receiver, "when = ['gate']"),
    );
    daemon.configure(configuration(&text));
    start_asking(&daemon, "Deploy\u{1b}[31m $(touch here)?", json!({})).await;
    received(&receiver, &["steplatch.gate.first"]).await;
    let message = eventually("the command has run", async || std::fs::read_to_string(&file).ok()).await;
    for line in [
        "STEPLATCH_NOTIFY_OCCASION=gate",
        "STEPLATCH_NOTIFY_PHASE=first",
        "STEPLATCH_NOTIFY_TITLE=release waits for your answer",
        "STEPLATCH_NOTIFY_WORKFLOW=release",
        "STEPLATCH_NOTIFY_PROMPT=Deploy $(touch here)?",
    ] {
        assert!(message.lines().any(|written| written == line), "no {line} in:\n{message}");
    }
    let rules = eventually("the failed command and the taken message are listed", async || {
        let rules = daemon.call(ListNotifications {}).await.rules;
        (rules[2].failures == 1 && rules[4].pending == 0).then_some(rules)
    })
    .await;
    let names: Vec<&str> = rules.iter().map(|rule| rule.name.as_str()).collect();
    assert_eq!(names, ["sleep", "sh", "false", "other", "hook"]);
    assert_eq!(rules[2].last_error.as_deref(), Some("the command ended with exit code 1"));
    assert_eq!((rules[0].pending, rules[3].pending), (1, 0));
}

#[tokio::test]
async fn gate_reaches_its_approvers_in_turn() {
    let receiver = WebhookReceiver::start();
    let clock = ManualClock::new(Timestamp(1_768_046_400_000_000));
    let daemon = TestDaemon::with_clock(&clock).await;
    let rule = |group: &str| {
        let url = receiver.url(&format!("/{group}"));
        format!("[[notify]]\nname = '{group}'\nwhen = ['gate']\ngroup = '{group}'\nwebhook = '{url}'\n")
    };
    daemon.configure(configuration(&["team", "leads", "others"].map(rule).concat()));
    let params = json!({"prompt": "Go?", "approvers": "team", "escalate_after": {"leads": 600}});
    let definition = json!({"name": "release", "initial_state": "ask", "states": {"ask": {
        "action": {"tool": "gate", "params": params}}}});
    let verb = RunWorkflow { workflow_definition: Some(definition), wait_seconds: Some(0.0), ..RunWorkflow::default() };
    let run = daemon.call(verb).await;
    let paths = || receiver.requests().iter().map(|request| request.path.clone()).collect::<Vec<_>>();
    eventually("the team has its notification", async || (paths() == ["/team"]).then_some(())).await;
    let gate = daemon.call(GetRun { run_id: run.run_id.clone(), ..GetRun::default() }).await.pending_gate.unwrap();
    assert_eq!(gate.approvers, [("leads".to_owned(), 600), ("team".to_owned(), 0)].into());
    eventually("the leads have their notification after ten minutes", async || {
        clock.advance(Duration::from_secs(60));
        (paths() == ["/team", "/leads"]).then_some(()).ok_or(paths())
    })
    .await;
    daemon.stop().await;
}

#[tokio::test]
async fn password_prompt_is_announced_and_withdrawn() {
    let receiver = WebhookReceiver::start();
    let daemon = TestDaemon::new().await;
    daemon.configure(configuration(&webhook_rule(&receiver, "when = ['password']\nterminals = ['bui*']")));
    let ask = |name: &str| OpenTerminal {
        shell: "bash".to_owned(),
        name: Some(name.to_owned()),
        cols: 80,
        rows: 24,
        wait_ready: true,
        ..OpenTerminal::default()
    };
    let ask_for_password = async |name: &str| {
        daemon.open(ask(name)).await;
        let input_text = "read -rs -p 'Password: ' word\n".to_owned();
        let verb = SendInput { session_id: name.to_owned(), input_text, ..SendInput::default() };
        assert!(daemon.call(verb).await.success);
    };
    ask_for_password("other").await;
    ask_for_password("build").await;
    received(&receiver, &["steplatch.password.first"]).await;
    assert_eq!(receiver.requests()[0].json()["data"]["title"], "build asks for a password");
    let verb = SendInput {
        session_id: "build".to_owned(),
        input_text: "kept-word-77\n".to_owned(),
        secret: true,
        ..SendInput::default()
    };
    assert!(daemon.call(verb).await.success);
    received(&receiver, &["steplatch.password.first", "steplatch.password.withdrawn"]).await;
    assert!(!format!("{:?}", receiver.requests()).contains("kept-word-77"));
}

#[tokio::test]
async fn held_terminal_and_lost_host_are_announced() {
    let receiver = WebhookReceiver::start();
    let daemon = TestDaemon::new().await;
    let host = RemoteHostConfig { name: "box".to_owned(), ssh: "no-such-computer.invalid".to_owned() };
    let rules = configuration(&webhook_rule(&receiver, "when = ['held', 'host_lost']"));
    daemon.configure(Configuration { hosts: vec![host], ..rules });
    let check = CheckHost { host: "box".to_owned(), timeout_seconds: 60, ..CheckHost::default() };
    eventually("the host is not reached", async || {
        let reply = daemon.call(check.clone()).await;
        if reply.host.is_some_and(|host| host.state == "lost") { Ok(()) } else { Err(reply.error) }
    })
    .await;
    received(&receiver, &["steplatch.host_lost.first"]).await;
    assert_eq!(receiver.requests()[0].json()["data"]["title"], "Host box is not reachable");
    let session = daemon.bash().await;
    let person = daemon.person_named("ana").await;
    let hold = HoldTerminal { session_id: session.id.clone(), hold_key: "key".to_owned() };
    let (reply, held) = person.subscribe(hold).await.unwrap();
    assert!(reply.success, "{reply:?}");
    received(&receiver, &["steplatch.host_lost.first", "steplatch.held.first"]).await;
    assert_eq!(receiver.requests()[1].json()["data"]["terminal_id"], session.id.as_str());
    drop((held, person));
    // Activity in the terminal makes the daemon look at it again.
    let verb = SendInput { session_id: session.id.clone(), input_text: "echo\n".to_owned(), ..SendInput::default() };
    eventually("the terminal takes input", async || daemon.call(verb.clone()).await.success.then_some(())).await;
    received(&receiver, &["steplatch.host_lost.first", "steplatch.held.first", "steplatch.held.withdrawn"]).await;
}

#[tokio::test]
async fn terminals_of_people_and_tests_are_reached() {
    let receiver = WebhookReceiver::start();
    let daemon = TestDaemon::new().await;
    let refused = daemon.call(TestNotification::default()).await;
    assert!(refused.error.unwrap().starts_with("Notifications are tested by a person"));
    let person = daemon.person_named("ana").await;
    let empty = person.call(TestNotification::default()).await.unwrap();
    assert!(empty.error.unwrap().starts_with("There is no rule of notifications"));
    let text = format!(
        "[[notify]]\nwhen = ['gate']\nterminal = true\n{}",
        webhook_rule(&receiver, "when = ['gate']\nmin_wait = '1h'")
    );
    daemon.configure(configuration(&text));
    let test =
        async |rule: Option<&str>| person.call(TestNotification { rule: rule.map(str::to_owned) }).await.unwrap();
    let unknown =
        eventually("the rules are known", async || test(Some("x")).await.error.filter(|error| error.contains("hook")))
            .await;
    assert_eq!(unknown, "There is no rule 'x'; rules are terminal, hook");
    let unwatched = test(Some("terminal")).await;
    assert_eq!(unwatched.results[0].error.as_deref(), Some("neither attach, ui nor watch runs in a terminal"));
    let (_, mut events) = daemon.client().subscribe(WatchNotifications {}).await.unwrap();
    let all = test(None).await;
    assert!(all.success && all.results.len() == 2, "{all:?}");
    assert_eq!(receiver.types(), ["steplatch.test.test"]);
    let mut next = async || serde_json::from_value::<TerminalNotification>(events.next().await.unwrap()).unwrap();
    assert_eq!(next().await.title, "Test of steplatch notifications");
    let run = start_asking(&daemon, "Deploy?", json!({})).await;
    let shown = next().await;
    assert_eq!((shown.title.as_str(), shown.is_withdrawn), ("release waits for your answer", false));
    answer(&daemon, &run).await;
    let withdrawn = next().await;
    assert_eq!((withdrawn.id, withdrawn.is_withdrawn), (shown.id, true));
    assert_eq!(receiver.requests().len(), 1, "the other rule waits an hour");
}

/// No message has a secret of a run: neither a parameter, nor one in a prompt that is included.
#[tokio::test]
async fn no_message_of_many_runs_has_a_secret() {
    let receiver = WebhookReceiver::start();
    let daemon = TestDaemon::new().await;
    let rule = "when = ['gate', 'run_completed', 'run_failed']\ninclude = ['prompt']";
    daemon.configure(configuration(&webhook_rule(&receiver, rule)));
    let session = daemon.bash().await;
    let secret = |number: usize| format!("hidden-value-{number:03}-of-a-run");
    for number in 0..50 {
        let input_text = format!(": {}\n", secret(number));
        let verb = SendInput { session_id: session.id.clone(), input_text, secret: true, ..SendInput::default() };
        assert!(daemon.call(verb).await.success);
        start_asking(&daemon, &format!("Use {}?", secret(number)), json!({"key": secret(number)})).await;
    }
    eventually("all gates were announced", async || (receiver.requests().len() >= 50).then_some(())).await;
    let all = format!("{:?}", receiver.requests());
    let state = std::fs::read_to_string(daemon.paths().state().join("notifications.json")).unwrap();
    assert!(all.contains("Use ••••••?"), "the prompts are included");
    for number in 0..50 {
        assert!(!all.contains(&secret(number)) && !state.contains(&secret(number)), "{number}");
    }
}

#[tokio::test]
async fn schedule_that_cannot_start_is_announced_and_withdrawn() {
    let receiver = WebhookReceiver::start();
    let clock = ManualClock::new(Timestamp(1_774_612_800_000_000));
    let daemon = TestDaemon::with_clock(&clock).await;
    daemon.configure(configuration(&webhook_rule(&receiver, "when = ['schedule_failed']")));
    let definition = |name: &str| {
        json!({"name": name, "description": "Works", "initial_state": "work",
            "states": {"work": {"action": {"tool": "set", "params": {"done": "yes"}}, "transitions": []}}})
    };
    let save = async || {
        let verb =
            CreateWorkflow { workflow_definition: definition("backup"), overwrite_existing: false, reason: None };
        let saved = daemon.call(verb).await;
        assert!(saved.success, "{saved:?}");
    };
    save().await;
    let run = Box::new(RunWorkflow { workflow_name: Some("backup".to_owned()), ..RunWorkflow::default() });
    let every = Some("1h".to_owned());
    let added = daemon.call(AddSchedule { name: "hourly".to_owned(), run, every, ..AddSchedule::default() }).await;
    assert!(added.success, "{added:?}");
    daemon.call(DeleteWorkflow { name: "backup".to_owned() }).await;
    clock.advance(Duration::from_secs(3600));
    received(&receiver, &["steplatch.schedule_failed.first"]).await;
    let message = receiver.requests()[0].json();
    assert_eq!(message["data"]["title"], "Schedule hourly could not start its run");
    save().await;
    clock.advance(Duration::from_secs(3600));
    received(&receiver, &["steplatch.schedule_failed.first", "steplatch.schedule_failed.withdrawn"]).await;
    daemon.stop().await;
}
