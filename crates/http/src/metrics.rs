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

/// Upper bounds of the duration buckets, in seconds.
const BUCKET_SECONDS: [f64; 10] = [0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 10.0, 60.0];

/// Counts and durations of requests, by route. The table of routes bounds the number of series.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    routes: Mutex<BTreeMap<(String, String), RouteResponses>>,
}

#[derive(Debug)]
struct RouteResponses {
    by_status: BTreeMap<u16, u64>,
    durations: Histogram,
}

impl Default for RouteResponses {
    fn default() -> Self {
        Self { by_status: BTreeMap::new(), durations: Histogram::new(&BUCKET_SECONDS) }
    }
}

impl Metrics {
    /// Records a response. A stream of events is recorded when it begins.
    pub(crate) fn record_response(&self, method: &Method, route: &str, status: StatusCode, duration: Duration) {
        // A client may send any method.
        let known_methods = [Method::GET, Method::POST, Method::PUT, Method::DELETE, Method::HEAD, Method::OPTIONS];
        let method = if known_methods.contains(method) { method.as_str() } else { "other" };
        let mut routes = self.routes.lock();
        let responses = routes.entry((route.to_owned(), method.to_owned())).or_default();
        *responses.by_status.entry(status.as_u16()).or_default() += 1;
        responses.durations.record_duration(duration);
    }

    /// Returns the recorded metrics.
    fn collect(&self) -> Vec<Metric> {
        let routes = self.routes.lock();
        let (mut requests, mut durations) = (Vec::new(), Vec::new());
        for ((route, method), responses) in &*routes {
            let labels = |additional: Option<(&str, String)>| -> BTreeMap<String, String> {
                let common = [("method", method.clone()), ("route", route.clone())];
                common.into_iter().chain(additional).map(|(name, value)| (name.to_owned(), value)).collect()
            };
            for (status, count) in &responses.by_status {
                requests.push(Sample::new("", labels(Some(("status", status.to_string()))), *count as f64));
            }
            durations.extend(responses.durations.samples(&labels(None)));
        }
        vec![
            metric(
                "steplatch_http_request_duration_seconds",
                "Time until the beginning of the response",
                MetricKind::Histogram,
                durations,
            ),
            metric("steplatch_http_requests_total", "Completed requests", MetricKind::Counter, requests),
        ]
    }
}

fn metric(name: &str, help: &str, kind: MetricKind, samples: Vec<Sample>) -> Metric {
    Metric { name: name.to_owned(), help: help.to_owned(), kind, samples }
}

/// Returns the response to `/metrics`. Reports an unreachable daemon as a metric.
pub(crate) async fn report_metrics(State(app): State<Arc<App>>) -> Result<Response, Refusal> {
    let reply = app.daemon.call(GetMetrics {}).await;
    let is_reachable = reply.is_ok();
    if let Err(error) = &reply {
        tracing::warn!(%error, "failed to get the metrics of the daemon");
    }
    let mut metrics = reply.map(|reply| reply.metrics).unwrap_or_default();
    metrics.extend(app.metrics.collect());
    metrics.push(Metric::gauge("steplatch_http_connections", "Open connections", app.connections.count() as f64));
    metrics.push(Metric::gauge(
        "steplatch_http_event_streams",
        "Clients that follow a run",
        app.streams.open_count() as f64,
    ));
    metrics.push(Metric::gauge(
        "steplatch_daemon_up",
        "1 if the daemon responds, otherwise 0",
        f64::from(u8::from(is_reachable)),
    ));
    metrics.sort_by(|left, right| left.name.cmp(&right.name));
    Ok(([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], format_metrics(&metrics)).into_response())
}

/// Formats metrics as text.
fn format_metrics(metrics: &[Metric]) -> String {
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
                labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escape_label(value))).collect();
            let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(out, "{name}{suffix}{labels} {}", format_number(*value));
        }
    }
    out
}

fn escape_label(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn format_number(value: f64) -> String {
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
    fn metrics_use_prometheus_text_format() {
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
        .assert_eq(&format_metrics(&metrics));
    }

    #[test]
    fn buckets_are_cumulative_and_unknown_methods_share_a_label() {
        let metrics = Metrics::default();
        for millis in [1, 2, 70_000] {
            metrics.record_response(&Method::GET, "/x", StatusCode::OK, Duration::from_millis(millis));
        }
        for unknown_method in ["BREW", "WHEN"] {
            let method = Method::from_bytes(unknown_method.as_bytes()).unwrap();
            metrics.record_response(&method, "/x", StatusCode::METHOD_NOT_ALLOWED, Duration::ZERO);
        }
        let text = format_metrics(&metrics.collect());
        for line in [
            r#"steplatch_http_request_duration_seconds_bucket{le="0.001",method="GET",route="/x"} 1"#,
            r#"steplatch_http_request_duration_seconds_bucket{le="60",method="GET",route="/x"} 2"#,
            r#"steplatch_http_request_duration_seconds_bucket{le="+Inf",method="GET",route="/x"} 3"#,
            r#"steplatch_http_request_duration_seconds_count{method="GET",route="/x"} 3"#,
            r#"steplatch_http_requests_total{method="GET",route="/x",status="200"} 3"#,
            r#"steplatch_http_requests_total{method="other",route="/x",status="405"} 2"#,
        ] {
            assert!(text.lines().any(|actual| actual == line), "{line}\n{text}");
        }
    }
}
