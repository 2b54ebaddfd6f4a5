//! Metrics for monitoring, as text.
//!
//! The daemon's metrics come from GET_METRICS; this module adds the metrics of this server. The format is Prometheus'
//! text exposition, version 0.0.4 (<https://prometheus.io/docs/instrumenting/exposition_formats/>).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse, Response};
use parking_lot::Mutex;
use steplatch_protocol::{GetMetrics, Histogram, Metric, MetricKind, Sample};

use crate::app::App;
use crate::refusal::Refusal;

/// The bounds of the buckets of a duration, in seconds.
const BOUNDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];

/// Counts and durations of requests, by route. The table of routes bounds the number of series.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    routes: Mutex<BTreeMap<(String, String), Answers>>,
}

#[derive(Debug)]
struct Answers {
    by_status: BTreeMap<u16, u64>,
    took: Histogram,
}

impl Default for Answers {
    fn default() -> Self {
        Self { by_status: BTreeMap::new(), took: Histogram::new(&BOUNDS) }
    }
}

impl Metrics {
    /// Records a response; for a stream of events, with its first events.
    pub(crate) fn answered(&self, method: &Method, route: &str, status: StatusCode, took: Duration) {
        // A method is foreign text as well.
        let known = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::HEAD, Method::OPTIONS];
        let method = if known.contains(method) { method.as_str() } else { "other" };
        let mut routes = self.routes.lock();
        let answers = routes.entry((route.to_owned(), method.to_owned())).or_default();
        *answers.by_status.entry(status.as_u16()).or_default() += 1;
        answers.took.record_duration(took);
    }

    /// Returns the recorded metrics.
    fn collect(&self) -> Vec<Metric> {
        let routes = self.routes.lock();
        let (mut requests, mut durations) = (Vec::new(), Vec::new());
        for ((route, method), answers) in &*routes {
            let of = |more: Option<(&str, String)>| -> BTreeMap<String, String> {
                let own = [("method", method.clone()), ("route", route.clone())];
                own.into_iter().chain(more).map(|(name, value)| (name.to_owned(), value)).collect()
            };
            for (status, count) in &answers.by_status {
                requests.push(Sample::new("", of(Some(("status", status.to_string()))), *count as f64));
            }
            durations.extend(answers.took.samples(&of(None)));
        }
        vec![
            metric(
                "steplatch_http_request_duration_seconds",
                "Time until the response began",
                MetricKind::Histogram,
                durations,
            ),
            metric("steplatch_http_requests_total", "Requests that were answered", MetricKind::Counter, requests),
        ]
    }
}

fn metric(name: &str, help: &str, kind: MetricKind, samples: Vec<Sample>) -> Metric {
    Metric { name: name.to_owned(), help: help.to_owned(), kind, samples }
}

/// Returns the response to `/metrics`. Reports an unreachable daemon as a metric.
pub(crate) async fn metrics(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    let asked = app.daemon.call(GetMetrics {}).await;
    let reached = asked.is_ok();
    if let Err(error) = &asked {
        tracing::warn!(%error, "the metrics of the daemon are omitted");
    }
    let mut all = asked.map(|reply| reply.metrics).unwrap_or_default();
    all.extend(app.metrics.collect());
    all.push(Metric::gauge("steplatch_http_connections", "Open connections", app.connections.count() as f64));
    all.push(Metric::gauge(
        "steplatch_http_event_streams",
        "Clients that follow a run",
        app.streams.open_count() as f64,
    ));
    all.push(Metric::gauge("steplatch_daemon_up", "Whether the daemon answers", f64::from(u8::from(reached))));
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], exposition(&all)).into_response())
}

/// Formats metrics as text.
fn exposition(metrics: &[Metric]) -> String {
    let mut out = String::new();
    for metric in metrics {
        let Metric { name, help, kind, samples } = metric;
        let kind = match kind {
            MetricKind::Counter => "counter",
            MetricKind::Gauge => "gauge",
            MetricKind::Histogram => "histogram",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for Sample { suffix, labels, value } in samples {
            let labels: Vec<String> =
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(out, "{name}{suffix}{labels} {}", number(*value));
        }
    }
    out
}

fn escaped(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn number(value: f64) -> String {
    match value {
        value if value.is_nan() => "NaN".to_owned(),
        value if value == f64::INFINITY => "+Inf".to_owned(),
        value if value == f64::NEG_INFINITY => "-Inf".to_owned(),
        value => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use expect_test::expect;

    use super::*;

    #[test]
    fn numbers_are_told_as_monitors_read_them() {
        let labels = BTreeMap::from([("remote".to_owned(), "a \"b\"\\\n".to_owned())]);
        let metrics = [
            metric("steplatch_runs_total", "Runs\nso far", MetricKind::Counter, vec![Sample::new("", labels, 3.0)]),
            Metric::gauge("steplatch_terminals", "Open terminals", 2.0),
        ];
        expect![[r#"
            # HELP steplatch_runs_total Runs\nso far
            # TYPE steplatch_runs_total counter
            steplatch_runs_total{remote="a \"b\"\\\n"} 3
            # HELP steplatch_terminals Open terminals
            # TYPE steplatch_terminals gauge
            steplatch_terminals 2
        "#]]
        .assert_eq(&exposition(&metrics));
    }

    #[test]
    fn buckets_hold_all_that_took_no_longer_and_foreign_methods_are_one() {
        let metrics = Metrics::default();
        for millis in [1, 2, 70_000] {
            metrics.answered(&Method::GET, "/x", StatusCode::OK, Duration::from_millis(millis));
        }
        for made_up in ["BREW", "WHEN"] {
            let method = Method::from_bytes(made_up.as_bytes()).unwrap();
            metrics.answered(&method, "/x", StatusCode::METHOD_NOT_ALLOWED, Duration::ZERO);
        }
        let text = exposition(&metrics.collect());
        for line in [
            r#"steplatch_http_request_duration_seconds_bucket{le="0.001",method="GET",route="/x"} 1"#,
            r#"steplatch_http_request_duration_seconds_bucket{le="60",method="GET",route="/x"} 2"#,
            r#"steplatch_http_request_duration_seconds_bucket{le="+Inf",method="GET",route="/x"} 3"#,
            r#"steplatch_http_request_duration_seconds_count{method="GET",route="/x"} 3"#,
            r#"steplatch_http_requests_total{method="GET",route="/x",status="200"} 3"#,
            r#"steplatch_http_requests_total{method="other",route="/x",status="405"} 2"#,
        ] {
            assert!(text.lines().any(|known| known == line), "{line}\n{text}");
        }
    }
}
