//! Numbers for monitoring: their report, and how durations are counted.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Report the daemon's numbers, for monitoring.
#[derive(Debug, Clone, Default, Serialize, Deserialize, JsonSchema)]
pub struct GetMetrics {}

/// The daemon's numbers, since it began.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GetMetricsReply {
    /// True if they could be read
    pub success: bool,
    /// The numbers, sorted by name
    #[serde(default)]
    pub metrics: Vec<Metric>,
}

/// Something that is measured, named as Prometheus names it (<https://prometheus.io/docs/practices/naming/>).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Metric {
    /// Its name, such as steplatch_runs_started_total
    pub name: String,
    /// Its meaning
    pub help: String,
    /// Its kind
    pub kind: MetricKind,
    /// Its values; of a histogram those of its buckets, sum and count, by the ends of their names
    pub samples: Vec<Sample>,
}

/// A kind of metric (<https://prometheus.io/docs/concepts/metric_types/>).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MetricKind {
    /// The value only grows.
    Counter,
    /// The value goes up and down.
    Gauge,
    /// Counts of values up to a bound.
    Histogram,
}

/// One value of a metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Sample {
    /// End of the sample's name, after that of the metric: nothing, or _bucket, _sum or _count
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub suffix: String,
    /// Labels, such as the name of a remote service
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The value
    pub value: f64,
}

impl Metric {
    /// Returns a metric with a single number that goes up and down.
    #[must_use]
    pub fn gauge(name: &str, help: &str, value: f64) -> Self {
        let samples = vec![Sample::new("", BTreeMap::new(), value)];
        Self { name: name.to_owned(), help: help.to_owned(), kind: MetricKind::Gauge, samples }
    }
}

impl Sample {
    /// Returns a value of something.
    #[must_use]
    pub fn new(suffix: &str, labels: BTreeMap<String, String>, value: f64) -> Self {
        Self { suffix: suffix.to_owned(), labels, value }
    }
}

/// Counts of durations.
#[derive(Debug, Clone)]
pub struct Histogram {
    /// The upper bounds of the buckets, in seconds, rising.
    bounds: &'static [f64],
    /// Those that took no longer than each bound, and longer than the one before.
    buckets: Vec<u64>,
    count: u64,
    seconds: f64,
}

impl Histogram {
    /// Returns an empty histogram. `bounds` are in seconds, and rise.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, buckets: vec![0; bounds.len()], count: 0, seconds: 0.0 }
    }

    /// Counts one duration.
    pub fn record_duration(&mut self, took: Duration) {
        let seconds = took.as_secs_f64();
        if let Some(bucket) = self.bounds.iter().position(|bound| seconds <= *bound) {
            self.buckets[bucket] += 1;
        }
        self.count += 1;
        self.seconds += seconds;
    }

    /// Returns its values: the counts up to each bound, the seconds of all together, and the total count.
    #[must_use]
    #[allow(clippy::cast_precision_loss, reason = "nobody counts to 2^53")]
    pub fn samples(&self, labels: &BTreeMap<String, String>) -> Vec<Sample> {
        let below = |bound: String, count: u64| {
            let labels = labels.clone().into_iter().chain([("le".to_owned(), bound)]).collect();
            Sample::new("_bucket", labels, count as f64)
        };
        let mut so_far = 0;
        let buckets = self.bounds.iter().zip(&self.buckets).map(|(bound, count)| {
            so_far += count;
            below(bound.to_string(), so_far)
        });
        let mut samples: Vec<Sample> = buckets.collect();
        samples.push(below("+Inf".to_owned(), self.count));
        samples.push(Sample::new("_sum", labels.clone(), self.seconds));
        samples.push(Sample::new("_count", labels.clone(), self.count as f64));
        samples
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bucket_counts_all_that_took_no_longer_than_its_bound() {
        let mut histogram = Histogram::new(&[0.5, 1.0]);
        for seconds in [0.25, 0.5, 0.75, 8.0] {
            histogram.record_duration(Duration::from_secs_f64(seconds));
        }
        let of = [("of".to_owned(), "x".to_owned())].into();
        let told: Vec<_> = histogram
            .samples(&of)
            .into_iter()
            .map(|sample| (sample.suffix, sample.labels.get("le").cloned(), sample.value))
            .collect();
        let bucket = |bound: &str, count| ("_bucket".to_owned(), Some(bound.to_owned()), count);
        let plain = |suffix: &str, value| (suffix.to_owned(), None, value);
        assert_eq!(
            told,
            [bucket("0.5", 2.0), bucket("1", 3.0), bucket("+Inf", 4.0), plain("_sum", 9.5), plain("_count", 4.0)]
        );
    }
}
