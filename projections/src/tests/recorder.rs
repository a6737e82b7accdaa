//! A recorder that remembers, so that a test sees what is measured, and what is not.

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, SharedString, Unit,
};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

#[derive(Default)]
struct Seen {
    touched: usize,
    counts: BTreeMap<String, u64>,
    gauges: BTreeMap<String, f64>,
}

#[derive(Default)]
pub(crate) struct Recorder(Arc<Mutex<Seen>>);

struct One(String, Arc<Mutex<Seen>>);

impl One {
    fn touch(&self, change: impl FnOnce(&str, &mut Seen)) {
        let mut seen = self.1.lock().unwrap();
        seen.touched += 1;
        change(&self.0, &mut seen);
    }
}

impl Recorder {
    /// How often anything was measured.
    pub(crate) fn touched(&self) -> usize {
        self.0.lock().unwrap().touched
    }

    pub(crate) fn count(&self, name: &str) -> u64 {
        self.0.lock().unwrap().counts.get(name).copied().unwrap_or_default()
    }

    pub(crate) fn gauge(&self, name: &str) -> Option<f64> {
        self.0.lock().unwrap().gauges.get(name).copied()
    }

    fn one(&self, key: &Key) -> Arc<One> {
        Arc::new(One(key.name().to_owned(), Arc::clone(&self.0)))
    }
}

impl CounterFn for One {
    fn increment(&self, by: u64) {
        self.touch(|name, seen| *seen.counts.entry(name.to_owned()).or_default() += by);
    }

    fn absolute(&self, value: u64) {
        self.touch(|name, seen| seen.counts.extend([(name.to_owned(), value)]));
    }
}

impl GaugeFn for One {
    fn increment(&self, by: f64) {
        self.touch(|name, seen| *seen.gauges.entry(name.to_owned()).or_default() += by);
    }

    fn decrement(&self, by: f64) {
        self.touch(|name, seen| *seen.gauges.entry(name.to_owned()).or_default() -= by);
    }

    fn set(&self, value: f64) {
        self.touch(|name, seen| seen.gauges.extend([(name.to_owned(), value)]));
    }
}

impl metrics::Recorder for Recorder {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        Counter::from_arc(self.one(key))
    }

    fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::from_arc(self.one(key))
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}
