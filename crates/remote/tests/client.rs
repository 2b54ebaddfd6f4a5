//! The client against a service that misbehaves.

mod support;

use std::time::Duration;

use serde_json::{Map, Value, json};
use steplatch_fake::{Answer, FakeService, Route, TOKEN};
use steplatch_remote::{AskError, Cancelled, Client, Config, StartError, State, Token};

use support::{client, config, quick};

fn titles(workflows: &[steplatch_remote::RemoteWorkflow]) -> Vec<&str> {
    workflows.iter().map(|workflow| workflow.title.as_str()).collect()
}

fn input() -> Map<String, Value> {
    json!({ "branch": "main" }).as_object().expect("an object").clone()
}

async fn started(client: &Client) -> steplatch_remote::Started {
    client.start("deploy", &input(), "key-1").await.expect("a start")
}

#[tokio::test]
async fn a_run_is_started_followed_and_over() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    assert_eq!(titles(&client.list().await.expect("a list").workflows), ["Deploy"]);
    let started = started(&client).await;
    assert_eq!((started.correlation_id.as_str(), started.workflow_instance.as_str()), ("cor-1", "run-1"));
    let running = client.status("deploy", "run-1").await.expect("a status");
    assert_eq!((running.state, running.output), (State::Running, Value::Null));
    let over = client.status("deploy", "run-1").await.expect("a status");
    assert_eq!((over.state, over.output), (State::Completed, json!({ "echo": { "branch": "main" } })));
}

#[tokio::test]
async fn requests_are_as_the_dialect_wants_them() {
    let service = FakeService::start().await;
    service.offer("a/b c%", "Deploy");
    let config = Config { base_url: format!("{}/team", service.url()), ..config(&service) };
    let client = Client::with(&config, quick()).expect("a client");
    client.list().await.expect("a list");
    client.start("a/b c%", &input(), "key-1").await.expect("a start");
    client.status("a/b c%", "run-1").await.expect("a status");
    client.cancel("a/b c%", "run-1").await.expect("a cancel");
    let asked = service.asked();
    let lines: Vec<String> =
        asked.iter().map(|asked| format!("{} {} {}", asked.method, asked.path, asked.body)).collect();
    assert_eq!(
        lines,
        [
            "GET /team/api/v1/service/workflows/mcp null",
            r#"POST /team/api/v1/service/workflows/a%2Fb%20c%25/start {"input":{"branch":"main"},"source":"application"}"#,
            "GET /team/api/v1/service/workflows/a%2Fb%20c%25/runs/run-1/status null",
            "POST /team/api/v1/service/workflows/a%2Fb%20c%25/runs/run-1/cancel {}",
        ]
    );
    for asked in &asked {
        assert_eq!(asked.headers["authorization"], format!("Api-Key {TOKEN}"));
        assert_eq!(asked.headers["accept"], "application/json");
        assert_eq!(asked.headers["accept-language"], "en");
        assert_eq!(asked.headers.contains_key("idempotency-key"), asked.route == Some(Route::Start));
    }
}

#[tokio::test]
async fn an_id_that_would_lead_elsewhere_is_none() {
    let service = FakeService::start().await;
    let client = client(&service);
    for id in ["", ".", ".."] {
        assert!(matches!(client.start(id, &input(), "k").await, Err(StartError::Refused { .. })), "{id:?}");
        assert!(client.status("deploy", id).await.is_err_and(|error| !error.passing), "{id:?}");
    }
    assert_eq!(service.asked().len(), 0);
}

#[tokio::test]
async fn all_pages_are_followed() {
    let service = FakeService::start().await;
    for number in 0..25 {
        service.offer(&format!("w{number}"), &format!("Workflow {number}"));
    }
    service.in_pages(10);
    let listing = client(&service).list().await.expect("a list");
    assert_eq!((listing.workflows.len(), listing.is_cut, service.count(Route::List)), (25, false, 3));
}

#[tokio::test]
async fn pages_without_end_end() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    service.next_page_is(&format!("{}/api/v1/service/workflows/mcp?page=1", service.url()));
    let listing = client(&service).list().await.expect("a list");
    assert_eq!((titles(&listing.workflows), listing.is_cut, service.count(Route::List)), (vec!["Deploy"], true, 2));
    assert!(listing.skipped.iter().any(|why| why.contains("in a circle")), "{:?}", listing.skipped);
}

#[tokio::test]
async fn more_pages_than_are_taken_are_left() {
    let service = FakeService::start().await;
    for number in 0..150 {
        service.offer(&format!("w{number}"), &format!("Workflow {number}"));
    }
    service.in_pages(1);
    let listing = client(&service).list().await.expect("a list");
    assert_eq!((listing.workflows.len(), listing.is_cut, service.count(Route::List)), (100, true, 100));
}

#[tokio::test]
async fn the_token_goes_nowhere_else() {
    let (service, other) = (FakeService::start().await, FakeService::start().await);
    service.offer("deploy", "Deploy");
    let client = client(&service);
    for next in
        [other.url(), format!("//{}", other.url().trim_start_matches("http://")), "file:///etc/passwd".to_owned()]
    {
        service.next_page_is(&next);
        let listing = client.list().await.expect("a list");
        assert_eq!((titles(&listing.workflows), listing.is_cut), (vec!["Deploy"], true), "{next}");
    }
    service.well();
    for status in [301, 302, 303, 307, 308] {
        service.always(Route::List, Answer::Redirect(status, format!("{}/x", other.url())));
        let error = client.list().await.expect_err("it leads elsewhere");
        assert!(!error.passing && error.words.contains("would get the token"), "{error}");
        service.always(Route::Start, Answer::Redirect(status, format!("{}/x", other.url())));
        let error = client.start("deploy", &input(), "k").await.expect_err("it leads elsewhere");
        assert_eq!(matches!(error, StartError::Refused { .. }), matches!(status, 301 | 307 | 308), "{status}: {error}");
    }
    assert_eq!(other.asked().len(), 0);
}

#[tokio::test]
async fn a_redirect_within_the_service_is_followed_for_questions_only() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    service.once(Route::List, Answer::Redirect(302, "/v2/api/v1/service/workflows/mcp".to_owned()));
    assert_eq!(titles(&client.list().await.expect("a list").workflows), ["Deploy"]);
    assert!(service.asked()[1].path.starts_with("/v2/"));
    service.once(Route::Start, Answer::Redirect(307, "/v2/api/v1/service/workflows/deploy/start".to_owned()));
    assert!(matches!(client.start("deploy", &input(), "k").await, Err(StartError::Refused { .. })));
    assert_eq!(service.runs().len(), 0);
    service.always(Route::List, Answer::Redirect(302, "/api/v1/service/workflows/mcp".to_owned()));
    assert!(client.list().await.expect_err("a circle").words.contains("without end"));
}

#[tokio::test]
async fn a_question_that_failed_in_passing_is_asked_again() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    for trouble in [
        Answer::Refuse(500, "oops".to_owned()),
        Answer::Busy("0".to_owned()),
        Answer::Text("<html>Bad gateway</html>".to_owned()),
        Answer::Json(json!({ "results": 7 })),
        Answer::Cut,
        Answer::Hang,
    ] {
        service.once(Route::List, trouble.clone());
        let listing = client.list().await;
        assert!(listing.as_ref().is_ok_and(|listing| listing.workflows.len() == 1), "{trouble:?}: {listing:?}");
    }
    assert_eq!(service.count(Route::List), 12);
}

#[tokio::test]
async fn a_question_is_not_asked_for_ever() {
    let service = FakeService::start().await;
    let client = client(&service);
    service.always(Route::List, Answer::Refuse(503, "down for a while".to_owned()));
    let error = client.list().await.expect_err("it is down");
    assert_eq!(error.words, "The service answered 503 Service Unavailable: down for a while.");
    assert_eq!((error.passing, error.status, service.count(Route::List)), (true, Some(503), 4));
    service.always(Route::List, Answer::Refuse(403, "no rights".to_owned()));
    let error = client.list().await.expect_err("it refuses");
    assert_eq!((error.passing, error.status, service.count(Route::List)), (false, Some(403), 5));
    service.always(Route::List, Answer::Busy("3600".to_owned()));
    let error = client.list().await.expect_err("it is busy");
    assert_eq!((error.passing, error.retry_after), (true, Some(Duration::from_secs(3600))));
    assert_eq!(service.count(Route::List), 6, "an hour is too long to wait in a call");
    service.always(Route::List, Answer::Busy("Thu, 01 Jan 1970 00:00:00 GMT".to_owned()));
    let error = client.list().await.expect_err("it is busy");
    assert_eq!((error.retry_after, service.count(Route::List)), (Some(Duration::ZERO), 10));
}

#[tokio::test]
async fn an_answer_is_read_up_to_a_bound() {
    let service = FakeService::start().await;
    let client = client(&service);
    service.always(Route::List, Answer::Huge(9 << 20));
    assert!(client.list().await.expect_err("it is too long").words.contains("longer than may be read"));
}

#[tokio::test]
async fn a_start_that_was_refused_started_nothing() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    service.once(Route::Start, Answer::Refuse(422, "branch is protected".to_owned()));
    let error = client.start("deploy", &input(), "k").await.expect_err("it is refused");
    assert_eq!(error.to_string(), "The service answered 422 Unprocessable Entity: branch is protected.");
    assert!(matches!(error, StartError::Refused { status: Some(422), .. }) && !error.is_busy());
    service.once(Route::Start, Answer::Busy("7".to_owned()));
    let error = client.start("deploy", &input(), "k").await.expect_err("it is busy");
    let retry_after = Some(Duration::from_secs(7));
    let words = "The service answered 429 Too Many Requests: busy.".to_owned();
    assert!(error.is_busy());
    assert_eq!(error, StartError::Refused { words, status: Some(429), retry_after });
    service.go_down();
    let fresh = support::client(&service);
    let error = fresh.start("deploy", &input(), "k").await.expect_err("it is down");
    assert!(matches!(&error, StartError::Refused { words, .. } if words.contains("can not be reached")), "{error}");
    assert_eq!((service.runs().len(), service.count(Route::Start)), (0, 2));
}

#[tokio::test]
async fn a_start_that_nobody_knows_of_is_not_made_twice() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    let doubtful = [
        Answer::Hang,
        Answer::Cut,
        Answer::FailAfter(500),
        Answer::FailAfter(503),
        Answer::Text("started, probably".to_owned()),
        Answer::Json(json!({ "correlation_id": "c" })),
        Answer::Json(json!({ "workflow_id": "w" })),
        Answer::Json(json!({ "correlation_id": 1.5, "workflow_id": "w" })),
        Answer::Json(json!([])),
        Answer::Huge(9 << 20),
    ];
    for (number, answer) in doubtful.iter().enumerate() {
        service.once(Route::Start, answer.clone());
        let error = client.start("deploy", &input(), &format!("key-{number}")).await.expect_err("no ids");
        assert!(matches!(error, StartError::Unknown { .. }), "{answer:?}: {error}");
    }
    assert_eq!(service.runs().len(), doubtful.len());
    assert!(service.starts_by_key().values().all(|times| *times == 1), "{:?}", service.starts_by_key());
}

#[tokio::test]
async fn a_connection_that_was_closed_meanwhile_starts_a_run_once() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    client.list().await.expect("a list");
    service.once(Route::Start, Answer::Cut);
    let error = client.start("deploy", &input(), "k").await.expect_err("it is cut");
    assert!(matches!(error, StartError::Unknown { .. }));
    assert_eq!((service.runs().len(), service.starts_by_key()["k"]), (1, 1));
}

#[tokio::test]
async fn looks_say_whether_another_one_is_worth_it() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    service.script("deploy", vec![json!({ "status": "RUNNING", "output": null })]);
    let started = started(&client).await;
    let look = async || client.status("deploy", &started.workflow_instance).await;
    let cases = [
        (Answer::Busy("2".to_owned()), true, Some(429)),
        (Answer::Refuse(500, "oops".to_owned()), true, Some(500)),
        (Answer::Refuse(404, "gone".to_owned()), false, Some(404)),
        (Answer::Refuse(401, "who?".to_owned()), false, Some(401)),
        (Answer::Text("nonsense".to_owned()), true, Some(200)),
        (Answer::Json(json!({})), true, Some(200)),
        (Answer::Cut, true, None),
        (Answer::Hang, true, None),
    ];
    for (answer, passing, status) in cases {
        service.once(Route::Status, answer.clone());
        let error = look().await.expect_err("no status");
        assert_eq!((error.passing, error.status), (passing, status), "{answer:?}: {error}");
    }
    assert_eq!(look().await.expect("a status").state, State::Running);
    service.go_down();
    let down: AskError = support::client(&service).status("deploy", "run-1").await.expect_err("it is down");
    assert!(down.passing && down.words.contains("can not be reached"), "{down}");
    service.come_up().await;
    service.script_run("run-1", vec![json!({ "status": "COMPLETED", "output": 7 })]);
    assert_eq!(look().await.expect("a status").state, State::Completed);
}

#[tokio::test]
async fn a_service_that_can_not_cancel_says_so() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    let run = started(&client).await.workflow_instance;
    for status in [404, 405] {
        service.once(Route::Cancel, Answer::Refuse(status, "no".to_owned()));
        assert_eq!(client.cancel("deploy", &run).await, Ok(Cancelled::NotSupported));
    }
    service.once(Route::Cancel, Answer::Refuse(409, "too late".to_owned()));
    assert!(client.cancel("deploy", &run).await.is_err_and(|error| error.words.contains("too late")));
    service.once(Route::Cancel, Answer::Refuse(500, "oops".to_owned()));
    assert_eq!(client.cancel("deploy", &run).await, Ok(Cancelled::Asked));
    assert_eq!(client.status("deploy", &run).await.expect("a status").state, State::Cancelled);
}

#[tokio::test]
async fn a_token_that_is_echoed_is_taken_out() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    for status in [400, 401, 404, 429, 500] {
        service.always(Route::List, Answer::Echo(status));
        service.always(Route::Start, Answer::Echo(status));
        service.always(Route::Status, Answer::Echo(status));
        let said = [
            format!("{:?}", client.list().await.expect_err("an error")),
            format!("{:?}", client.start("deploy", &input(), "k").await.expect_err("an error")),
            format!("{:?}", client.status("deploy", "run-1").await.expect_err("an error")),
        ];
        for said in said {
            assert!(!said.contains(TOKEN) && said.contains("no rights for Api-Key ••••••, sorry"), "{said}");
        }
    }
    service.well();
    service.offer_only(vec![json!({ "id": "a", "name": format!("Deploy {TOKEN}"), "metadata": { (TOKEN): TOKEN } })]);
    let listing = client.list().await.expect("a list");
    assert!(!format!("{listing:?}").contains(TOKEN) && listing.workflows[0].title == "Deploy ••••••");
    service.always(Route::Status, Answer::Json(json!({ "status": "FAILED", "output": { "error": TOKEN } })));
    let status = client.status("a", "run-1").await.expect("a status");
    assert!(!format!("{status:?}").contains(TOKEN) && status.failure_words() == "••••••");
}

#[tokio::test]
async fn a_wrong_or_missing_token_is_told_without_it() {
    let service = FakeService::start().await;
    let client_with = |token| Client::with(&Config { token, ..config(&service) }, quick()).expect("a client");
    let error = client_with(Some(Token::Value("another-t0ken".to_owned()))).list().await.expect_err("refused");
    assert_eq!(error.words, "The service answered 401 Unauthorized: not with this token.");
    let error = client_with(None).list().await.expect_err("refused");
    assert_eq!(error.status, Some(401));
    let before = service.asked().len();
    let nowhere = client_with(Some(Token::Environment("STEPLATCH_NO_SUCH_VARIABLE".to_owned())));
    let error = nowhere.start("deploy", &input(), "k").await.expect_err("no token");
    assert!(
        matches!(&error, StartError::Refused { words, .. } if words.contains("STEPLATCH_NO_SUCH_VARIABLE")),
        "{error}"
    );
    assert_eq!(service.asked().len(), before, "nothing is asked without the token that is configured");
}

#[tokio::test]
async fn a_new_token_in_a_file_counts_at_once() {
    let service = FakeService::start().await;
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("token");
    std::fs::write(&path, "old-t0ken").expect("a file");
    let client = Client::with(&Config { token: Some(Token::File(path.clone())), ..config(&service) }, quick());
    let client = client.expect("a client");
    assert!(client.list().await.is_err());
    std::fs::write(&path, format!("{TOKEN}\n")).expect("a file");
    assert!(client.list().await.is_ok());
}

#[tokio::test]
async fn hostile_entries_become_harmless_ones() {
    let service = FakeService::start().await;
    service.offer_only(vec![
        json!({ "id": "a", "name": "\u{1b}]0;owned\u{7}Same", "description": "\u{202e}live\u{202c} text\u{e0041}" }),
        json!({ "id": "b", "name": "Same", "inputSchema": { "$ref": "http://127.0.0.1:1/schema" } }),
        json!({ "id": "../../start", "name": "Path" }),
        json!("no entry"),
    ]);
    let listing = client(&service).list().await.expect("a list");
    assert_eq!(titles(&listing.workflows), ["Same", "Same", "Path"]);
    assert_eq!(listing.workflows[0].description, "live text");
    assert_eq!(listing.workflows[1].input_schema, json!({ "type": "object" }));
    assert_eq!(listing.skipped, ["An entry is left out: it is no object."]);
    assert_eq!(listing.workflows[2].id, "../../start");
}

#[tokio::test]
async fn what_is_filtered_is_not_listed() {
    let service = FakeService::start().await;
    for title in ["Deploy to stage", "Deploy to prod", "Build"] {
        service.offer(title, title);
    }
    let filter_patterns = vec!["deploy*".to_owned(), "!*prod".to_owned()];
    let client = Client::with(&Config { filter_patterns, ..config(&service) }, quick()).expect("a client");
    assert_eq!(titles(&client.list().await.expect("a list").workflows), ["Deploy to stage"]);
}

#[tokio::test]
async fn a_service_that_flaps_is_found_when_it_is_there() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    for _ in 0..3 {
        service.go_down();
        let client = Client::with(&Config { retry_attempts: 0, ..config(&service) }, quick()).expect("a client");
        assert!(client.list().await.is_err_and(|error| error.passing));
        service.come_up().await;
        assert!(client.list().await.is_ok());
    }
}
