//! What may go wrong on purpose: one value, carried by the store, empty in production.
//!
//! A value and not a build: what is tested is what ships, and two nodes of one process fail differently.

mod drill;

use crate::Outage;
use drill::Drill;
pub use drill::Visitor;
use std::{
    fmt,
    path::PathBuf,
    str::FromStr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

/// A place where a crash is worth trying. Each has a story in `tests/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Point {
    /// An append was asked for; nothing is durable yet.
    BeforeCommit,
    /// The append is durable; nobody was told.
    BeforeReply,
    /// An intent was decided; nothing of it is durable.
    BeforeIntent,
    /// An intent is durable; nothing was sent.
    AfterIntent,
    /// Everything is ready; leave was not asked for yet.
    BeforeFirstByte,
    /// The first byte has left, or is leaving.
    AfterFirstByte,
    /// The world changed; nothing about it is durable.
    AfterEffect,
    /// An outcome was decided on; nothing of it is durable.
    BeforeOutcome,
    /// An outcome is durable; what follows from it has not begun.
    AfterOutcome,
}

impl Point {
    /// All of them, in the order of a step.
    pub const ALL: [Self; 9] = [
        Self::BeforeCommit,
        Self::BeforeReply,
        Self::BeforeIntent,
        Self::AfterIntent,
        Self::BeforeFirstByte,
        Self::AfterFirstByte,
        Self::AfterEffect,
        Self::BeforeOutcome,
        Self::AfterOutcome,
    ];

    /// The word in a plan.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::BeforeCommit => "before_commit",
            Self::BeforeReply => "before_reply",
            Self::BeforeIntent => "before_intent",
            Self::AfterIntent => "after_intent",
            Self::BeforeFirstByte => "before_first_byte",
            Self::AfterFirstByte => "after_first_byte",
            Self::AfterEffect => "after_effect",
            Self::BeforeOutcome => "before_outcome",
            Self::AfterOutcome => "after_outcome",
        }
    }
}

/// What happens there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// SIGKILL to this process.
    Kill,
    /// A wait, then on as if nothing was.
    Delay(Duration),
    /// It is done, and the asker is told [`Outage::Lost`].
    LoseReply,
    /// It is not done, and the asker is told [`Outage::Unavailable`].
    Fail,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Kill => f.write_str("kill"),
            Self::Delay(wait) => write!(f, "delay={}", wait.as_millis()),
            Self::LoseReply => f.write_str("lose_reply"),
            Self::Fail => f.write_str("fail"),
        }
    }
}

/// What whoever visits a point does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Next {
    /// Go on.
    GoOn,
    /// Do it, but say that the answer was lost.
    LoseReply,
    /// Do not do it, and say so.
    Fail,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Step {
    point: Point,
    /// Which visit, counted from one.
    nth: u64,
    fault: Fault,
}

#[derive(Debug, Default)]
struct Plan {
    steps: Vec<Step>,
    visits: [AtomicU64; Point::ALL.len()],
    /// Where files hold whoever visits the points that they are named after.
    drill: Option<Drill>,
    /// While set, the store answers this and writes nothing. Held over no await.
    down: Mutex<Option<Outage>>,
}

/// Which fault, at which visit of which point. Clones share their counts.
#[derive(Debug, Clone, Default)]
pub struct Faults(Option<Arc<Plan>>);

impl Faults {
    /// Production: nothing goes wrong and nothing is counted.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Nothing goes wrong, but visits are counted, so that a test can then try each of them.
    #[must_use]
    pub fn counting() -> Self {
        Self(Some(Arc::default()))
    }

    /// At the `nth` visit of `point`, counted from one, once.
    #[must_use]
    pub fn once(point: Point, nth: u64, fault: Fault) -> Self {
        Self(Some(Arc::new(Plan { steps: vec![Step { point, nth, fault }], ..Plan::default() })))
    }

    /// Whether anything can go wrong: a node says so in its health and log.
    #[must_use]
    pub fn armed(&self) -> bool {
        self.0.as_ref().is_some_and(|plan| !plan.steps.is_empty() || plan.drill.is_some())
    }

    /// Whoever visits a point waits while a file of its name stands in the folder; see `Drill`.
    #[must_use]
    pub fn held_in(folder: PathBuf) -> Self {
        Self(Some(Arc::new(Plan { drill: Some(Drill::in_folder(folder)), ..Plan::default() })))
    }

    /// How often `point` was visited; zero without a plan.
    #[must_use]
    pub fn visits(&self, point: Point) -> u64 {
        self.0.as_ref().map_or(0, |plan| plan.count(point).load(Ordering::Relaxed))
    }

    /// From now on the store writes nothing and answers `outage`. Does nothing without a plan.
    pub fn take_down(&self, outage: Outage) {
        if let Some(plan) = &self.0 {
            *plan.down.lock().unwrap_or_else(PoisonError::into_inner) = Some(outage);
        }
    }

    /// The store works again.
    pub fn bring_up(&self) {
        if let Some(plan) = &self.0 {
            *plan.down.lock().unwrap_or_else(PoisonError::into_inner) = None;
        }
    }

    /// What the store answers instead of writing, if anything.
    #[must_use]
    pub fn outage(&self) -> Option<Outage> {
        let plan = self.0.as_ref()?;
        plan.down.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Visits a point of the store: one comparison with none when there is no plan.
    pub async fn at(&self, point: Point) -> Next {
        self.visited(point, Visitor { what: "commit", name: &"store" }).await
    }

    /// Visits a point on behalf of somebody: one comparison with none when there is no plan.
    pub async fn visited(&self, point: Point, visitor: Visitor<'_>) -> Next {
        let Some(plan) = &self.0 else { return Next::GoOn };
        if let Some(drill) = &plan.drill {
            drill.hold(point, visitor).await;
        }
        match plan.due(point) {
            None => Next::GoOn,
            Some(Fault::Kill) => {
                tracing::warn!(point = point.name(), "killed on purpose");
                // The signal can not be refused; the wait keeps this task from going on until it arrives.
                let _sent = rustix::process::kill_process(
                    rustix::process::getpid(),
                    rustix::process::Signal::KILL,
                );
                std::future::pending().await
            }
            Some(Fault::Delay(wait)) => {
                tokio::time::sleep(wait).await;
                Next::GoOn
            }
            Some(Fault::LoseReply) => Next::LoseReply,
            Some(Fault::Fail) => Next::Fail,
        }
    }
}

impl Plan {
    fn count(&self, point: Point) -> &AtomicU64 {
        let [commit, reply, intended, intent, ready, sent, effect, settling, settled] =
            &self.visits;
        match point {
            Point::BeforeCommit => commit,
            Point::BeforeReply => reply,
            Point::BeforeIntent => intended,
            Point::AfterIntent => intent,
            Point::BeforeFirstByte => ready,
            Point::AfterFirstByte => sent,
            Point::AfterEffect => effect,
            Point::BeforeOutcome => settling,
            Point::AfterOutcome => settled,
        }
    }

    fn due(&self, point: Point) -> Option<Fault> {
        let visit = self.count(point).fetch_add(1, Ordering::Relaxed) + 1;
        let due = self.steps.iter().find(|step| step.point == point && step.nth == visit);
        due.map(|step| step.fault)
    }
}

/// The text is not a plan of faults.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is not POINT:NTH:FAULT with POINT one of {points}; NTH from 1; FAULT one of kill, delay=MILLISECONDS, lose_reply, \
     fail; several are separated by commas; nor is it a folder",
    points = Point::ALL.map(Point::name).join(", ")
)]
pub struct NotFaults(pub String);

/// Reads `before_reply:3:kill`, several separated by commas; empty text is [`Faults::none`].
impl FromStr for Faults {
    type Err = NotFaults;

    fn from_str(text: &str) -> Result<Self, NotFaults> {
        if text.is_empty() {
            return Ok(Self::none());
        }
        let step = |text: &str| step(text).ok_or_else(|| NotFaults(text.to_owned()));
        let steps = text.split(',').map(step).collect::<Result<_, _>>()?;
        Ok(Self(Some(Arc::new(Plan { steps, ..Plan::default() }))))
    }
}

fn step(text: &str) -> Option<Step> {
    let (point, rest) = text.split_once(':')?;
    let (nth, fault) = rest.split_once(':')?;
    let point = Point::ALL.into_iter().find(|known| known.name() == point)?;
    let nth = nth.parse().ok().filter(|nth| *nth > 0)?;
    let fault = match fault.split_once('=') {
        Some(("delay", millis)) => Fault::Delay(Duration::from_millis(millis.parse().ok()?)),
        Some(_) => return None,
        None => match fault {
            "kill" => Fault::Kill,
            "lose_reply" => Fault::LoseReply,
            "fail" => Fault::Fail,
            _ => return None,
        },
    };
    Some(Step { point, nth, fault })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(text: &str) -> Result<Vec<Step>, NotFaults> {
        Ok(text.parse::<Faults>()?.0.map(|plan| plan.steps.clone()).unwrap_or_default())
    }

    #[test]
    fn a_plan_is_read_as_it_is_written() {
        let step = |point, nth, fault| Step { point, nth, fault };
        let wait = Duration::from_millis(250);
        let wanted = vec![
            step(Point::BeforeReply, 3, Fault::Kill),
            step(Point::AfterEffect, 1, Fault::Delay(wait)),
        ];
        assert_eq!(plan("before_reply:3:kill,after_effect:1:delay=250"), Ok(wanted));
        assert_eq!(plan(""), Ok(vec![]));
        for point in Point::ALL {
            for fault in [Fault::Kill, Fault::Delay(wait), Fault::LoseReply, Fault::Fail] {
                let text = format!("{}:7:{fault}", point.name());
                assert_eq!(plan(&text), Ok(vec![step(point, 7, fault)]), "{text}");
            }
        }
    }

    #[test]
    fn what_is_not_a_plan_is_refused_with_the_allowed_words() {
        for bad in [
            "x",
            "before_reply",
            "before_reply:1",
            "before_reply:0:kill",
            "before_reply:one:kill",
            "before_rply:1:kill",
            "before_reply:1:explode",
            "before_reply:1:delay",
            "before_reply:1:delay=soon",
            "before_reply:1:kill=9",
            "before_reply:1:kill,",
        ] {
            let error = bad.parse::<Faults>().unwrap_err().to_string();
            assert!(error.contains("before_commit") && error.contains("lose_reply"), "{error}");
        }
    }

    #[tokio::test]
    async fn a_fault_comes_at_its_visit_and_once() {
        let faults = Faults::once(Point::BeforeCommit, 2, Fault::Fail);
        let mut seen = vec![];
        for _ in 0..3 {
            seen.push(faults.at(Point::BeforeCommit).await);
        }
        assert_eq!(seen, [Next::GoOn, Next::Fail, Next::GoOn]);
        assert_eq!(faults.at(Point::BeforeReply).await, Next::GoOn);
        assert_eq!(faults.visits(Point::BeforeCommit), 3);
        assert_eq!(Faults::none().visits(Point::BeforeCommit), 0);
    }

    #[test]
    fn an_outage_lasts_until_it_is_mended() {
        let faults = Faults::counting();
        faults.take_down(Outage::Full);
        assert_eq!(faults.clone().outage(), Some(Outage::Full));
        faults.bring_up();
        assert_eq!(faults.outage(), None);
        assert!(!faults.armed() && Faults::once(Point::BeforeReply, 1, Fault::Kill).armed());
    }
}
