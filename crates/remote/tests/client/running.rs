//! Starts, status requests and cancellations.

use std::time::Duration;

use serde_json::{Map, Value, json};
use steplatch_fake::{Answer, FakeService, Route, TOKEN};
use steplatch_remote::{Cancelled, Client, Config, RequestError, StartError, State};

use crate::support::{client, config, impatient_client, input, limits, start, titles};

#[tokio::test]
async fn run_is_started_and_followed_to_its_end() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    assert_eq!(titles(&client.list().await.expect("a list").workflows), ["Deploy"]);
    let started = start(&client).await;
    assert_eq!((started.correlation_id.as_str(), started.workflow_instance.as_str()), ("cor-1", "run-1"));
    let running = client.status("deploy", "run-1").await.expect("a status");
    assert_eq!((running.state, running.output), (State::Running, Value::Null));
    let ended = client.status("deploy", "run-1").await.expect("a status");
    assert_eq!((ended.state, ended.output), (State::Completed, json!({ "echo": { "branch": "main" } })));
}

#[test]
fn client_is_usable_from_any_thread() {
    fn assert_send<T: Send>(_: &impl Fn(Client) -> T) {}
    assert_send(&|client: Client| async move { client.list().await });
    assert_send(&|client: Client| async move { client.start("deploy", &Map::new(), "k").await });
    assert_send(&|client: Client| async move { client.status("deploy", "run-1").await });
    assert_send(&|client: Client| async move { client.cancel("deploy", "run-1").await });
}

#[tokio::test]
async fn requests_match_the_documented_api() {
    let service = FakeService::start().await;
    service.offer("a/b c%", "Deploy");
    let config = Config { base_url: format!("{}/team", service.url()), ..config(&service) };
    let client = Client::with_limits(&config, limits()).expect("a client");
    client.list().await.expect("a list");
    client.start("a/b c%", &input(), "key-1").await.expect("a start");
    client.status("a/b c%", "run-1").await.expect("a status");
    client.cancel("a/b c%", "run-1").await.expect("a cancel");
    let requests = service.requests();
    let lines: Vec<String> =
        requests.iter().map(|request| format!("{} {} {}", request.method, request.path, request.body)).collect();
    assert_eq!(
        lines,
        [
            "GET /team/api/v1/service/workflows/mcp null",
            r#"POST /team/api/v1/service/workflows/a%2Fb%20c%25/start {"input":{"branch":"main"},"source":"application"}"#,
            "GET /team/api/v1/service/workflows/a%2Fb%20c%25/runs/run-1/status null",
            "POST /team/api/v1/service/workflows/a%2Fb%20c%25/runs/run-1/cancel {}",
        ]
    );
    for request in &requests {
        assert_eq!(request.headers["authorization"], format!("Api-Key {TOKEN}"));
        assert_eq!(request.headers["accept"], "application/json");
        assert_eq!(request.headers["accept-language"], "en");
        assert_eq!(request.headers.contains_key("idempotency-key"), request.route == Some(Route::Start));
    }
}

#[tokio::test]
async fn path_traversal_in_an_id_is_refused() {
    let service = FakeService::start().await;
    let client = client(&service);
    for id in ["", ".", ".."] {
        assert!(matches!(client.start(id, &input(), "k").await, Err(StartError::Refused { .. })), "{id:?}");
        assert!(client.status("deploy", id).await.is_err_and(|error| !error.is_temporary), "{id:?}");
    }
    assert_eq!(service.requests().len(), 0);
}

#[tokio::test]
async fn refused_start_starts_no_run() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    service.once(Route::Start, Answer::Refuse(422, "branch is protected".to_owned()));
    let error = client.start("deploy", &input(), "k").await.expect_err("the start is refused");
    assert_eq!(error.to_string(), "The service answered 422 Unprocessable Entity: branch is protected.");
    assert!(matches!(error, StartError::Refused { status: Some(422), .. }) && !error.is_busy());
    service.once(Route::Start, Answer::Busy("7".to_owned()));
    let error = client.start("deploy", &input(), "k").await.expect_err("the service is busy");
    let retry_after = Some(Duration::from_secs(7));
    let message = "The service answered 429 Too Many Requests: busy.".to_owned();
    assert!(error.is_busy());
    assert_eq!(error, StartError::Refused { message, status: Some(429), retry_after });
    service.go_down();
    let fresh = crate::support::client(&service);
    let error = fresh.start("deploy", &input(), "k").await.expect_err("the service is down");
    assert!(matches!(&error, StartError::Refused { message, .. } if message.contains("cannot be reached")), "{error}");
    assert_eq!((service.runs().len(), service.count(Route::Start)), (0, 2));
}

#[tokio::test]
async fn unconfirmed_start_is_not_repeated() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = impatient_client(&service);
    let inconclusive = [
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
    for (number, answer) in inconclusive.iter().enumerate() {
        service.once(Route::Start, answer.clone());
        let error = client.start("deploy", &input(), &format!("key-{number}")).await.expect_err("no ids");
        assert!(matches!(error, StartError::Unknown { .. }), "{answer:?}: {error}");
    }
    assert_eq!(service.runs().len(), inconclusive.len());
    assert!(service.starts_by_key().values().all(|count| *count == 1), "{:?}", service.starts_by_key());
}

#[tokio::test]
async fn start_on_a_lost_connection_is_not_repeated() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    client.list().await.expect("a list");
    service.once(Route::Start, Answer::Cut);
    let error = client.start("deploy", &input(), "k").await.expect_err("the connection is lost");
    assert!(matches!(error, StartError::Unknown { .. }));
    assert_eq!((service.runs().len(), service.starts_by_key()["k"]), (1, 1));
}

#[tokio::test]
async fn start_has_its_own_connection() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    for _ in 0..2 {
        client.list().await.expect("a list");
        start(&client).await;
    }
    let requests = service.requests();
    let senders: Vec<_> = requests.iter().map(|request| request.from).collect();
    assert_eq!(senders[0], senders[2], "list requests share a connection");
    assert!(senders[1] != senders[0] && senders[3] != senders[0] && senders[1] != senders[3], "{senders:?}");
}

#[tokio::test]
async fn status_errors_tell_whether_to_retry() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = impatient_client(&service);
    service.script("deploy", vec![json!({ "status": "RUNNING", "output": null })]);
    let started = start(&client).await;
    let request_status = async || client.status("deploy", &started.workflow_instance).await;
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
    for (answer, is_temporary, status) in cases {
        service.once(Route::Status, answer.clone());
        let error = request_status().await.expect_err("no status");
        assert_eq!((error.is_temporary, error.status), (is_temporary, status), "{answer:?}: {error}");
    }
    assert_eq!(request_status().await.expect("a status").state, State::Running);
    service.go_down();
    let down: RequestError =
        crate::support::client(&service).status("deploy", "run-1").await.expect_err("the service is down");
    assert!(down.is_temporary && down.message.contains("cannot be reached"), "{down}");
    service.come_up().await;
    service.script_run("run-1", vec![json!({ "status": "COMPLETED", "output": 7 })]);
    assert_eq!(request_status().await.expect("a status").state, State::Completed);
}

#[tokio::test]
async fn missing_support_for_cancellation_is_reported() {
    let service = FakeService::start().await;
    service.offer("deploy", "Deploy");
    let client = client(&service);
    let run = start(&client).await.workflow_instance;
    for status in [404, 405] {
        service.once(Route::Cancel, Answer::Refuse(status, "no".to_owned()));
        assert_eq!(client.cancel("deploy", &run).await, Ok(Cancelled::NotSupported));
    }
    service.once(Route::Cancel, Answer::Refuse(409, "too late".to_owned()));
    assert!(client.cancel("deploy", &run).await.is_err_and(|error| error.message.contains("too late")));
    service.once(Route::Cancel, Answer::Refuse(500, "oops".to_owned()));
    assert_eq!(client.cancel("deploy", &run).await, Ok(Cancelled::Accepted));
    assert_eq!(client.status("deploy", &run).await.expect("a status").state, State::Cancelled);
}
