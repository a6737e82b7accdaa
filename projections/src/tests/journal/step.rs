//! What happens to a run next, by the throw of dice.

use super::*;

impl Journal {
    /// Lets something happen to a run that has not ended.
    pub(super) async fn step(&mut self, dice: &mut Dice) {
        let alive: Vec<RunId> = self
            .runs
            .iter()
            .filter(|(_, state)| state.life == Life::Running)
            .map(|(id, _)| *id)
            .collect();
        if alive.is_empty() {
            return;
        }
        let id = dice.pick(&alive);
        let state = &self.runs[&id];
        if dice.below(12) == 0 {
            return self.wake_run(id).await;
        }
        if dice.below(25) == 0 {
            return self.tell_run(id, &runs::Command::stop()).await;
        }
        let open = state.tools.iter().find_map(|one| match (one.call, &one.standing) {
            (Some(call), Standing::Open { attempt }) => Some((call, *attempt)),
            (None | Some(_), _) => None,
        });
        let command = match (&state.model, open, &state.held) {
            (Some(open), _, _) => {
                runs::Command::Model { call: open.asked.call, outcome: outcome(dice) }
            }
            (None, Some((call, attempt)), _) => {
                let outcome = answered(dice);
                runs::Command::Tool { call, attempt, outcome }
            }
            (None, None, Some(held)) => {
                let result = |id: &String| Message::tool_result(id, "42".into()).body();
                let answer = runs::Command::ClientAnswer {
                    results: held.calls.iter().map(result).collect(),
                };
                dice.pick(&[answer.clone(), answer, runs::Command::ClientGone])
            }
            (None, None, None) if state.halt.is_some() => {
                let by = Actor::Admin;
                match mediated::unresolved(state)
                    .map(|open| (open.call, open.admission.lease_until))
                {
                    Some((call, lease_until)) => {
                        self.now = self.now.max(lease_until);
                        let request = format!("{:032x}", self.draw());
                        runs::Command::Abandon { call, request, by }
                    }
                    None => runs::Command::Resume { by },
                }
            }
            (None, None, None) if approval::open(state).next().is_some() => {
                let held = approval::open(state).next().cloned().unwrap();
                self.now = if dice.below(4) == 0 { self.now.max(held.until) } else { self.now };
                if held.until <= self.now {
                    runs::Command::Due
                } else {
                    agreed(held.approval, dice)
                }
            }
            (None, None, None) => {
                let until = state.delayed.as_ref().map(|delayed| delayed.until);
                self.now = self.now.max(until.unwrap_or_default());
                runs::Command::Due
            }
        };
        self.tell_run(id, &command).await;
    }
}

fn answered(dice: &mut Dice) -> ledger::Settled {
    let done = ledger::Settled::Receipt(ToolOutcome::Succeeded, "done".into());
    let refused = ledger::Settled::Refused(Rejection::RateLimit, None, "slow".into());
    dice.pick(&[done.clone(), done.clone(), done, refused, ledger::Settled::Lost])
}

fn agreed(approval: approval::ApprovalNo, dice: &mut Dice) -> runs::Command {
    let agreed = Resolution::Approved { edited: None, reach: Far::Call };
    let denied = Resolution::Denied { reason: "no".into() };
    let resolution = dice.pick(&[agreed.clone(), agreed, denied]);
    let answer = Box::new(Answered { subject: None, resolution, by: Actor::Admin });
    runs::Command::Approval { approval, answer }
}
